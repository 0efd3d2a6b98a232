//! The table of a report: a line for each kind of request and one for all.
//!
//! A percentile beyond which hardly any request lies is the luck of single requests, and the next run has another: the
//! table leaves it out. Summaries as JSON keep it, with the number of requests beside it.

use std::fmt;

use crate::report::Response;
use crate::tally::Counts;

/// Number of requests that must lie beyond a percentile; the laboratory asks for as many.
const BEYOND_LEAST: u64 = 10;

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a> {
    pub(crate) name: &'a str,
    pub(crate) throughput_per_s: f64,
    pub(crate) counts: Counts,
    pub(crate) response: Response,
    /// Number of requests that the response times are of.
    pub(crate) timed: u64,
}

/// Returns mean, percentiles and maximum of so many timed requests; None if they are of no request, and for a percentile
/// beyond which too few lie.
fn times(r: &Response, timed: u64) -> [Option<f64>; 6] {
    let any = |us| (timed > 0).then_some(us);
    let beyond = |per_mille, us| (!is_of_few(timed, per_mille)).then_some(us);
    [
        any(r.mean_us),
        beyond(500, r.p50_us),
        beyond(100, r.p90_us),
        beyond(10, r.p99_us),
        beyond(1, r.p999_us),
        any(r.max_us),
    ]
}

impl Row<'_> {
    fn times(&self) -> [Option<f64>; 6] {
        times(&self.response, self.timed)
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, throughput_per_s, counts: c, .. } = self;
        write!(f, "{name:<14} {throughput_per_s:>10.0} {:>11} {:>8} {:>8}", c.ok, c.nulls, c.errors)?;
        for time in self.times() {
            match time {
                Some(us) => write!(f, " {us:>10.1}")?,
                None => write!(f, " {:>10}", "-")?,
            }
        }
        writeln!(f)
    }
}

/// Returns whether so few of the timed requests lie beyond a percentile that single ones decide it.
pub(crate) const fn is_of_few(timed: u64, beyond_per_mille: u64) -> bool {
    timed.saturating_mul(beyond_per_mille) < BEYOND_LEAST * 1000
}

/// Writes the table, and why percentiles are missing where some are; `nulls` is what the tier calls a request that found
/// nothing.
pub(crate) fn write(f: &mut fmt::Formatter<'_>, nulls: &str, rows: &[Row<'_>]) -> fmt::Result {
    writeln!(
        f,
        "{:<14} {:>10} {:>11} {nulls:>8} {:>8} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "", "served/s", "ok", "error", "mean us", "p50 us", "p90 us", "p99 us", "p99.9 us", "max us"
    )?;
    rows.iter().try_for_each(|row| row.write(f))?;
    if rows.iter().any(|row| row.timed > 0 && row.times().contains(&None)) {
        writeln!(
            f,
            "-: percentiles beyond which fewer than {BEYOND_LEAST} requests lie, left out because single requests decide them"
        )?;
    }
    Ok(())
}

/// Writes how long so many served requests of an open loop took from when they were sent.
pub(crate) fn write_since_sent(f: &mut fmt::Formatter<'_>, since_sent: &Response, timed: u64) -> fmt::Result {
    let [mean, p50, _, p99, ..] =
        times(since_sent, timed).map(|time| time.map_or_else(|| "-".to_owned(), |us| format!("{us:.1} us")));
    writeln!(f, "since they were sent: mean {mean}, p50 {p50}, p99 {p99}")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Table(Vec<u64>);

    impl fmt::Display for Table {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let response = Response {
                mean_us: 1.0,
                stdev_us: 9.0,
                p50_us: 2.0,
                p90_us: 3.0,
                p99_us: 4.0,
                p999_us: 5.0,
                max_us: 6.0,
            };
            let row = |timed: &u64| {
                let counts = Counts { ok: *timed, ..Counts::default() };
                Row { name: "pop", throughput_per_s: 7.0, counts, response, timed: *timed }
            };
            write(f, "null", &self.0.iter().map(row).collect::<Vec<_>>())
        }
    }

    #[test]
    fn percentiles_that_single_requests_decide_are_left_out_of_the_table() {
        for (timed, expected) in [
            (0, "- - - - - -"),
            (1, "1.0 - - - - 6.0"),
            (19, "1.0 - - - - 6.0"),
            (20, "1.0 2.0 - - - 6.0"),
            (99, "1.0 2.0 - - - 6.0"),
            (100, "1.0 2.0 3.0 - - 6.0"),
            (999, "1.0 2.0 3.0 - - 6.0"),
            (1000, "1.0 2.0 3.0 4.0 - 6.0"),
            (9999, "1.0 2.0 3.0 4.0 - 6.0"),
            (10_000, "1.0 2.0 3.0 4.0 5.0 6.0"),
            (u64::MAX, "1.0 2.0 3.0 4.0 5.0 6.0"),
        ] {
            let table = Table(vec![timed]).to_string();
            let cells: Vec<&str> = table.lines().nth(1).expect("a row").split_whitespace().skip(5).collect();
            assert_eq!(cells.join(" "), expected, "{timed} requests");
        }
    }

    #[test]
    fn a_table_says_why_percentiles_are_missing_and_only_then() {
        let says_why = |timed: &[u64]| Table(timed.to_vec()).to_string().contains("fewer than 10 requests");
        assert!(says_why(&[10_000, 9999]));
        assert!(!says_why(&[10_000, 0]), "a kind of which nothing was served has no percentiles at all");
    }
}
