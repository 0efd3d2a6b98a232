//! The highest rate that keeps a limit: open loops at rates that double until one fails, then between the two.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::bench::Bench;
use crate::error::LoadError;
use crate::halt::{is_interrupted, unless_interrupted};
use crate::paths;
use crate::report::{Report, Response};
use crate::run::run;
use crate::run_options::RATE_MAX;
use crate::stderr::complain;
use crate::summary_file::SummaryFile;
use crate::table;
use crate::timespan;

/// Rate at which the search begins when none is given, in requests per second.
const FIRST: f64 = 1000.0;
/// Ratio of the failing to the passing rate at which the search ends.
const CLOSE_ENOUGH: f64 = 1.03;
/// Share of errors with which a server still counts as keeping up.
const ERRORS_SHARE_MAX: f64 = 0.001;

/// A limit to a response time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    measure: Measure,
    below: Duration,
}

/// The response time that a limit is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measure {
    Mean,
    P50,
    P90,
    P99,
    P999,
    Max,
}

const MEASURES: [(&str, Measure); 6] = [
    ("mean", Measure::Mean),
    ("p50", Measure::P50),
    ("p90", Measure::P90),
    ("p99", Measure::P99),
    ("p99.9", Measure::P999),
    ("max", Measure::Max),
];

impl Limit {
    /// Returns the response time that the limit is about, in microseconds.
    #[must_use]
    pub fn of(&self, response: &Response) -> f64 {
        match self.measure {
            Measure::Mean => response.mean_us,
            Measure::P50 => response.p50_us,
            Measure::P90 => response.p90_us,
            Measure::P99 => response.p99_us,
            Measure::P999 => response.p999_us,
            Measure::Max => response.max_us,
        }
    }

    /// Returns whether the response time that the limit is about is a percentile, and single requests decide it.
    const fn is_of_few(&self, timed: u64) -> bool {
        match self.measure {
            Measure::Mean | Measure::Max => false,
            Measure::P50 => table::is_of_few(timed, 500),
            Measure::P90 => table::is_of_few(timed, 100),
            Measure::P99 => table::is_of_few(timed, 10),
            Measure::P999 => table::is_of_few(timed, 1),
        }
    }

    /// Returns whether response times are within the limit.
    fn is_met(&self, response: &Response) -> bool {
        self.of(response) < self.below.as_secs_f64() * 1e6
    }

    /// Returns whether a run kept the limit: its figures speak of the server, which served what was due, in time.
    #[must_use]
    pub fn is_kept<B: Bench>(&self, report: &Report<B>) -> bool {
        let served = report.counts.served();
        report.valid
            && report.counts.errors as f64 <= ERRORS_SHARE_MAX * served as f64
            && self.is_met(&report.response)
    }
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, time) = text.split_once('<').ok_or("write a measure, < and a time, as in p99<5ms")?;
        let names = MEASURES.map(|(name, _)| name).join(", ");
        let measure = MEASURES.iter().find(|(known, _)| *known == name.trim());
        let (_, measure) = measure.ok_or_else(|| format!("'{name}' is none of {names}"))?;
        let below = timespan::parse(time.trim())?;
        if below.is_zero() {
            return Err("nothing takes less than no time: the limit must be above 0".to_owned());
        }
        Ok(Self { measure: *measure, below })
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = MEASURES.iter().find(|(_, measure)| *measure == self.measure).map_or("", |(name, _)| name);
        write!(f, "{name}<{:?}", self.below)
    }
}

impl Serialize for Limit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One open loop of a search.
#[derive(Clone, Debug, Serialize)]
pub struct Trial {
    /// Requests per second that were due.
    pub rate_per_s: f64,
    /// Requests per second that were served.
    pub served_per_s: f64,
    /// The response time that the limit is about, in microseconds.
    pub response_us: f64,
    /// Whether the limit was kept.
    pub kept: bool,
    /// What else was wrong with the run.
    pub invalid_because: Vec<String>,
    /// Directory of the run's record, if there is one.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "paths::legibly")]
    pub record: Option<PathBuf>,
}

/// Makes the runs of a search, one after the other.
struct Runner<B> {
    bench: B,
    /// Directory for the records, if there are to be any.
    record: Option<PathBuf>,
    made: u32,
}

impl<B: Bench> Runner<B> {
    fn new(bench: &B) -> Self {
        let mut bench = bench.clone();
        let options = bench.options_mut();
        (options.rate_per_client, options.find_max_rate, options.json) = (None, None, None);
        let record = options.record.take();
        Self { bench, record, made: 0 }
    }

    /// Makes a run at this rate.
    fn run(&mut self, rate: f64) -> Result<Report<B>, LoadError> {
        self.made += 1;
        let options = self.bench.options_mut();
        options.rate = Some(rate);
        options.record = self.record.as_ref().map(|dir| dir.join(self.made.to_string()));
        let report = run(self.bench.clone())?;
        self.bench.prepared_before();
        // `--start-at` is only for the first run of a search.
        self.bench.options_mut().start_at = None;
        Ok(report)
    }
}

/// What a search has found so far.
struct Search<B: Bench> {
    runner: Runner<B>,
    limit: Limit,
    trials: Vec<Trial>,
    /// Report of the highest rate that kept the limit.
    best: Option<Report<B>>,
    /// Report of the last rate that did not keep the limit.
    failed: Option<Report<B>>,
    /// Why the search ended because of the load generator and not the server, if it did.
    stopped: Option<String>,
}

impl<B: Bench> Search<B> {
    /// Searches for the highest rate that keeps the limit, from `first` on. Returns the lowest rate that failed.
    fn narrow(&mut self, first: f64) -> Result<f64, LoadError> {
        let (mut passes, mut fails) = (0.0, first);
        while self.attempt(fails)? {
            passes = fails;
            let Some(next) = doubled(fails) else {
                self.stopped = Some(format!("it asks for no more than {RATE_MAX:.0} requests per second"));
                return Ok(fails);
            };
            fails = next;
        }
        while fails > passes * CLOSE_ENOUGH && fails > first / 64.0 {
            let middle = if passes == 0.0 { fails / 2.0 } else { f64::midpoint(passes, fails) };
            if self.attempt(middle)? { passes = middle } else { fails = middle }
        }
        Ok(fails)
    }

    /// Returns whether the limit is kept at this rate, which takes a second run if the first may be spoiled by chance.
    fn attempt(&mut self, rate: f64) -> Result<bool, LoadError> {
        let limit = self.limit;
        let mut report = self.run(rate)?;
        // A generator that was late for once, or a pause just at the end, says nothing about the server.
        let may_be_chance = limit.is_met(&report.response) || report.generator.bottleneck;
        if !report.valid && may_be_chance && !is_interrupted() {
            self.note(rate, &report, false);
            report = self.run(rate)?;
        }
        let kept = limit.is_kept(&report);
        self.note(rate, &report, kept);
        if kept {
            self.best = Some(report);
        } else {
            // The generator's lateness is part of response times, so that alone may have broken the limit.
            let stopped =
                || format!("at {rate:.0} requests per second {}", report.invalid_because.join("; "));
            self.stopped = report.generator.bottleneck.then(stopped);
            self.failed = Some(report);
        }
        unless_interrupted()?;
        Ok(kept)
    }

    /// Makes a run at this rate. A broken promise ends the search, whether or not the run is of further use.
    fn run(&mut self, rate: f64) -> Result<Report<B>, LoadError> {
        let mut report = self.runner.run(rate)?;
        if report.violations() > 0
            && let Err(broken) = report.verdict()
        {
            complain(&report);
            report.invalid_because.push(broken.to_string());
            self.note(rate, &report, false);
            return Err(broken);
        }
        Ok(report)
    }

    /// Notes a run, on stderr at once and in the report.
    fn note(&mut self, rate: f64, report: &Report<B>, kept: bool) {
        complain(line(rate, report, self.limit, kept));
        self.trials.push(Trial {
            rate_per_s: rate,
            served_per_s: report.throughput_per_s,
            response_us: self.limit.of(&report.response),
            kept,
            invalid_because: report.invalid_because.clone(),
            record: report.options.options().record.clone(),
        });
    }

    /// Returns the report of the best run, also of a search that broke off; of the last run if none was good and the
    /// search was interrupted.
    fn report(self, ended: Result<f64, LoadError>) -> Result<Report<B>, LoadError> {
        let broken_off = matches!(&ended, Err(error) if !matches!(error, LoadError::Interrupted));
        let of_generator =
            |why: String| format!("the load generator ended the search, not the server: {why}");
        let stopped = self.stopped.map(of_generator);
        let (report, doubt) = match (ended, self.best) {
            (Ok(_), Some(best)) => (best, stopped),
            (Ok(fails), None) => {
                let limit = self.limit;
                let why = format!("{limit} was not kept, not even at {fails:.0} requests per second");
                return Err(LoadError::Failed(
                    [why].into_iter().chain(stopped).collect::<Vec<_>>().join("; "),
                ));
            }
            (Err(LoadError::Interrupted), best) => {
                let why = "the search was interrupted: a higher rate may keep the limit, too";
                (best.or(self.failed).ok_or(LoadError::Interrupted)?, Some(why.to_owned()))
            }
            (Err(error), Some(best)) => {
                let why = format!("the search broke off, and a higher rate may keep the limit, too: {error}");
                (best, Some(why))
            }
            (Err(error), None) => return Err(error),
        };
        let mut report = Report { search: self.trials, broken_off, ..report };
        if let Some(why) = doubt {
            report.valid = false;
            report.failed_because.push(why.clone());
            report.invalid_because.push(why);
        }
        Ok(report)
    }
}

/// Searches for the highest rate that keeps the limit; the report is of the run at that rate, with all trials.
///
/// If a later run could not be made, or a check found a broken promise, the report says so: it is not valid, and its
/// verdict is an error.
///
/// # Errors
/// A run could not be made, or a promise was broken, before any rate kept the limit; or not even the lowest rate kept
/// it.
pub fn find_max_rate<B: Bench>(bench: &B, limit: Limit) -> Result<Report<B>, LoadError> {
    bench.validate()?;
    let summary = bench.options().json.as_deref().map(SummaryFile::open).transpose()?;
    let runner = Runner::new(bench);
    let mut search = Search { runner, limit, trials: Vec::new(), best: None, failed: None, stopped: None };
    let ended = search.narrow(bench.options().total_rate().unwrap_or(FIRST));
    let mut report = search.report(ended)?;
    let rate = report.options.options().rate;
    report.options = bench.clone();
    let options = report.options.options_mut();
    (options.rate, options.rate_per_client) = (rate, None);
    report.write_to(summary);
    Ok(report)
}

/// Returns the next rate to try after one that kept the limit, while none has failed; None if there is none above.
fn doubled(rate: f64) -> Option<f64> {
    (rate < RATE_MAX).then(|| (rate * 2.0).min(RATE_MAX))
}

fn line<B: Bench>(rate: f64, report: &Report<B>, limit: Limit, kept: bool) -> String {
    let verdict = if kept { "kept" } else { "not kept" };
    let few = limit
        .is_of_few(report.counts.served())
        .then_some("single requests decide this percentile: give it a longer --duration");
    let remark = report.invalid_because.first().map(String::as_str).or(few);
    let remark = remark.map_or(String::new(), |remark| format!(" ({remark})"));
    format!(
        "{rate:>9.0} requests/s due, {:>9.0} served, {:>9.0} us: {limit} {verdict}{remark}",
        report.throughput_per_s,
        limit.of(&report.response)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_beyond_which_few_requests_lie_is_known_as_such() {
        let is_of_few = |limit: &str, timed| limit.parse::<Limit>().expect("a limit").is_of_few(timed);
        assert!(is_of_few("p99<5ms", 999) && !is_of_few("p99<5ms", 1000));
        assert!(is_of_few("p99.9<5ms", 9_999) && !is_of_few("p50<5ms", 20));
        assert!(!is_of_few("mean<5ms", 1) && !is_of_few("max<5ms", 1));
    }

    #[test]
    fn limits_are_read_as_they_are_written() {
        let limit: Limit = "p99<5ms".parse().expect("a limit");
        assert_eq!(limit, Limit { measure: Measure::P99, below: Duration::from_millis(5) });
        assert_eq!(limit.to_string(), "p99<5ms");
        assert_eq!("p99.9 < 1s".parse::<Limit>().expect("a limit").to_string(), "p99.9<1s");
        for wrong in ["p99", "p98<5ms", "p99<5", "<5ms", "p99<0ms"] {
            assert!(wrong.parse::<Limit>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn doubling_comes_to_an_end() {
        let rates = std::iter::successors(Some(FIRST), |rate| doubled(*rate));
        assert_eq!(rates.take(100).last(), Some(RATE_MAX));
        assert_eq!(doubled(RATE_MAX * 2.0), None, "of many clients at a rate of each");
    }
}
