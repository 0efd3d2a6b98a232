//! What a run says: a table for people, the same figures with more digits as JSON for programs.

use std::collections::BTreeMap;
use std::fmt;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::bench::{Bench, Check, Details};
use crate::cpu::CpuTime;
use crate::dialogue::Dialogue;
use crate::error::LoadError;
use crate::laws::{InteractiveLaw, Middleware};
use crate::run_options::RunOptions;
use crate::summary_file::SummaryFile;
use crate::table::{self, Row};
use crate::tally::{Counts, Figures, Traffic};

/// A finished run.
#[derive(Clone, Debug, Serialize)]
pub struct Report<B: Bench> {
    /// Version of this program.
    pub version: &'static str,
    /// All options, defaults included.
    pub options: B,
    /// Seed of the workload.
    pub seed: u64,
    /// Time of the first request, in seconds since 1970.
    pub start_unix_s: f64,
    /// Length of the warm-up, in seconds.
    #[serde(skip)]
    pub warmup_s: f64,
    /// Length of the measured window, in seconds.
    pub duration_s: f64,
    /// Requests served per second: answered with what they asked for, or with null.
    pub throughput_per_s: f64,
    /// Requests refused per second.
    pub errors_per_s: f64,
    /// Outcomes of all kinds.
    #[serde(flatten)]
    pub counts: Counts,
    /// Errors by their first word.
    pub errors_by_word: BTreeMap<String, u64>,
    /// Response times of all kinds.
    pub response: Response,
    /// Times of the same requests since they were sent, without what they had to wait for their clients; None in a
    /// closed loop, where no request waits.
    pub since_sent: Option<Response>,
    /// Bytes of requests and answers.
    #[serde(flatten)]
    pub traffic: TrafficReport,
    /// Mean number of requests in flight, by Little's law.
    pub in_flight_mean: f64,
    /// Every kind that occurred.
    pub kinds: BTreeMap<&'static str, KindReport>,
    /// Figures that only this tier has.
    #[serde(flatten)]
    pub details: B::Details,
    /// What the load generator itself used.
    pub generator: Generator,
    /// Connections that ended early.
    pub connections_lost: usize,
    /// Requests that were never answered.
    pub unanswered: usize,
    /// Requests of an open loop that were due and not sent at the end of the window.
    pub behind: usize,
    /// Requests due before the end of the window and not answered at it: those behind, and those in flight.
    pub waiting: usize,
    /// Whether throughput, response time and think time agree; None in an open loop.
    pub interactive_law: Option<InteractiveLaw>,
    /// Whether the servers counted as many requests; None when they cannot be asked.
    pub middleware: Option<Middleware>,
    /// Whether the figures speak of the server.
    pub valid: bool,
    /// Why the figures do not speak of the server.
    pub invalid_because: Vec<String>,
    /// The reasons in `invalid_because` that make the run a failure.
    #[serde(skip)]
    pub failed_because: Vec<String>,
    /// Every run of a search for the highest rate; empty without one.
    pub search: Vec<crate::search::Trial>,
    /// Whether a search for the highest rate broke off, since a run could not be made or a promise was broken.
    #[serde(skip)]
    pub broken_off: bool,
    /// Why the summary could not be written, if there was to be one.
    #[serde(skip)]
    pub unwritten: Option<String>,
    /// What the checks found; None without `--check`.
    pub check: Option<B::Check>,
}

/// Response times, in microseconds: from when the request was due (in a closed loop, about to be written) until its
/// answer was read, in a recorded run until it was parsed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Response {
    /// Arithmetic mean.
    pub mean_us: f64,
    /// Standard deviation, of these times themselves.
    pub stdev_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 90th percentile.
    pub p90_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    #[serde(rename = "p99.9_us")]
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
}

/// Figures of one kind of request.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct KindReport {
    /// Requests served per second.
    pub throughput_per_s: f64,
    /// Outcomes.
    #[serde(flatten)]
    pub counts: Counts,
    /// Response times.
    pub response: Response,
}

/// Bytes of requests and answers, errors among them; what TLS and the network add is not in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TrafficReport {
    /// Bytes in all.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// Bytes sent per second.
    pub sent_bytes_per_s: f64,
    /// Bytes received per second.
    pub received_bytes_per_s: f64,
    /// Mean length of a request, in bytes.
    pub request_bytes_mean: f64,
    /// Mean length of an answer, in bytes.
    pub answer_bytes_mean: f64,
}

impl TrafficReport {
    /// Returns the figures of `requests` that were answered in `duration_s` seconds.
    #[must_use]
    pub fn of(traffic: Traffic, requests: u64, duration_s: f64) -> Self {
        let (sent, received) = (traffic.sent_bytes as f64, traffic.received_bytes as f64);
        let requests = requests.max(1) as f64;
        Self {
            traffic,
            sent_bytes_per_s: sent / duration_s,
            received_bytes_per_s: received / duration_s,
            request_bytes_mean: sent / requests,
            answer_bytes_mean: received / requests,
        }
    }
}

impl fmt::Display for TrafficReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = |bytes: f64| match bytes {
            1e6.. => format!("{:.1} MB/s", bytes / 1e6),
            _ => format!("{:.1} kB/s", bytes / 1e3),
        };
        write!(
            f,
            "traffic: {} sent, {} received; a request has {:.0} bytes, an answer {:.0}",
            rate(self.sent_bytes_per_s),
            rate(self.received_bytes_per_s),
            self.request_bytes_mean,
            self.answer_bytes_mean
        )
    }
}

/// What the load generator itself used within the window.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Generator {
    /// Number of threads.
    pub threads: u32,
    /// Processor time of all threads.
    #[serde(flatten)]
    pub cpu: CpuTime,
    /// Share of the window in which the threads worked, on average.
    pub utilization: f64,
    /// Share of the window in which the busiest thread worked.
    pub utilization_max: f64,
    /// Processor time per request, in microseconds.
    pub cpu_us_per_request: f64,
    /// The longest turn of a thread's loop, in microseconds: how late an answer may have been read.
    pub turn_max_us: f64,
    /// How late requests were sent although they were due and their clients free: 99th percentile, in microseconds.
    pub late_p99_us: f64,
    /// How late the latest request was sent although its client was free, in microseconds.
    pub late_max_us: f64,
    /// Whether the generator was late or busy itself, so that the figures do not speak of the server.
    pub bottleneck: bool,
}

/// Rounds a rate to the digits that a reader needs.
pub(crate) fn legible(rate: f64) -> f64 {
    // The lowest rate that can be asked for is a thousandth.
    let digits = if rate < 1.0 { 1000.0 } else { 100.0 };
    (rate * digits).round() / digits
}

impl Response {
    /// Returns the figures of a histogram of nanoseconds.
    #[must_use]
    pub fn of(latency: &Histogram<u64>) -> Self {
        if latency.is_empty() {
            return Self::default();
        }
        let at = |quantile| latency.value_at_quantile(quantile) as f64 / 1e3;
        Self {
            mean_us: latency.mean() / 1e3,
            stdev_us: latency.stdev() / 1e3,
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: latency.max() as f64 / 1e3,
        }
    }
}

impl KindReport {
    /// Returns the figures of one kind over a window of `duration_s` seconds.
    #[must_use]
    pub fn of(figures: &Figures, duration_s: f64) -> Self {
        Self {
            throughput_per_s: figures.counts.served() as f64 / duration_s,
            counts: figures.counts,
            response: Response::of(&figures.latency),
        }
    }
}

impl<B: Bench> Report<B> {
    /// Returns whether the run is a success: it went through, and no checked promise was broken. A busy generator
    /// spoils the figures (`valid`), not the run.
    ///
    /// # Errors
    /// The run failed; the text says how.
    pub fn verdict(&self) -> Result<(), LoadError> {
        let failed = |text: String| Err(LoadError::Failed(text));
        if self.violations() > 0 {
            return failed(format!(
                "{} violations of what the server promises; the report names them",
                self.violations()
            ));
        }
        let failed_run = self.connections_lost > 0 || self.unanswered > 0 || self.counts.served() == 0;
        if failed_run || self.broken_off {
            return failed(self.failed_because.join("; "));
        }
        if !self.unasked().is_empty() {
            return failed(format!("the check is not complete: {}", self.unasked().join("; ")));
        }
        self.unwritten.clone().map_or(Ok(()), failed)
    }

    /// Returns the number of broken promises; 0 without `--check`.
    #[must_use]
    pub fn violations(&self) -> u64 {
        self.check.as_ref().map_or(0, Check::violations)
    }

    /// Returns what the servers could not be asked by the checks; nothing without `--check`.
    fn unasked(&self) -> &[String] {
        self.check.as_ref().map_or(&[], Check::unasked)
    }

    /// Writes the summary, if one is wanted. A failure becomes part of the verdict, so that the report itself is not
    /// lost.
    pub(crate) fn write_to(&mut self, summary: Option<SummaryFile>) {
        let written = summary.map_or(Ok(()), |summary| summary.write(&self.as_json()));
        self.unwritten = written.err().map(|error| error.to_string());
    }

    /// Returns the summary as JSON.
    #[must_use]
    pub fn as_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("keys are strings");
        text.push('\n');
        text
    }
}

impl<B: Bench> fmt::Display for Report<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let o = self.options.options();
        writeln!(
            f,
            "{}: {} clients, {} in flight each, {}, {} s measured after {} s of warm-up, seed {}\n",
            self.options.title(),
            o.clients,
            o.pipeline,
            pace(o),
            milliseconds(self.duration_s),
            milliseconds(self.warmup_s),
            self.seed
        )?;
        let row = |name, kind: KindReport| {
            let KindReport { throughput_per_s, counts, response } = kind;
            Row { name, throughput_per_s, counts, response, timed: counts.served() }
        };
        let kinds = <B::Dialogue as Dialogue>::KINDS.iter();
        let mut rows: Vec<_> =
            kinds.filter_map(|kind| self.kinds.get(kind).map(|figures| row(*kind, *figures))).collect();
        let (throughput_per_s, counts, response) = (self.throughput_per_s, self.counts, self.response);
        rows.push(row("all", KindReport { throughput_per_s, counts, response }));
        table::write(f, <B::Dialogue as Dialogue>::NULLS, &rows)?;
        if let Some(since_sent) = &self.since_sent {
            table::write_since_sent(f, since_sent, counts.served())?;
        }
        self.footnotes(f)
    }
}

/// Describes when requests are due.
fn pace(options: &RunOptions) -> String {
    let spacing = format!("{:?}", options.arrivals).to_lowercase();
    if let Some(rate) = options.total_rate() {
        return format!("{} requests/s due, {spacing}", legible(rate));
    }
    if let Some(profile) = &options.rate_profile {
        return format!("requests/s due by the profile {profile}, {spacing}");
    }
    match (&options.replay, options.replay_speed) {
        (Some(file), 1.0) => format!("requests due as in {}", file.display()),
        (Some(file), speed) => format!("requests due {speed} times as fast as in {}", file.display()),
        (None, _) if options.think.is_none() => "closed loop".to_owned(),
        (None, _) => format!("closed loop, think {}", options.think),
    }
}

/// Rounds seconds to the millisecond.
fn milliseconds(seconds: f64) -> f64 {
    (seconds * 1e3).round() / 1e3
}

impl<B: Bench> Report<B> {
    fn footnotes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let g = &self.generator;
        writeln!(
            f,
            "\ngenerator: threads {}, busy {:.0} % ({:.1} s user, {:.1} s system), {:.2} us of CPU per request, \
             longest turn {:.0} us, 99 % sent within {:.0} us",
            g.threads,
            g.utilization * 100.0,
            g.cpu.user_s,
            g.cpu.system_s,
            g.cpu_us_per_request,
            g.turn_max_us,
            g.late_p99_us
        )?;
        writeln!(f, "{}", self.traffic)?;
        if let Some(line) = self.details.footnote(self.duration_s) {
            writeln!(f, "{line}")?;
        }
        if let Some(law) = &self.interactive_law {
            writeln!(f, "{law}")?;
        }
        if let Some(middleware) = &self.middleware {
            writeln!(f, "{middleware}")?;
        }
        for (word, count) in &self.errors_by_word {
            writeln!(f, "errors: {count} {word}")?;
        }
        for reason in &self.invalid_because {
            writeln!(f, "NOT VALID: {reason}")?;
        }
        let Some(check) = &self.check else { return Ok(()) };
        let verdict = verdict_of_check(check.violations(), self.unasked().is_empty());
        let reservation = check.reservation().map_or(String::new(), |what| format!("; BUT {what}"));
        writeln!(f, "check: {check}: {verdict}{reservation}")?;
        check.first_violations().iter().try_for_each(|violation| writeln!(f, "VIOLATION: {violation}"))?;
        self.unasked().iter().try_for_each(|unasked| writeln!(f, "NOT CHECKED: {unasked}"))
    }
}

fn verdict_of_check(violations: u64, is_complete: bool) -> String {
    match violations {
        0 if is_complete => "no violation".to_owned(),
        0 => "no violation, but not complete".to_owned(),
        1 => "1 VIOLATION".to_owned(),
        count => format!("{count} VIOLATIONS"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialogue::Outcome;

    #[test]
    fn violations_are_counted() {
        assert_eq!(
            [0, 1, 2].map(|count| verdict_of_check(count, true)),
            ["no violation", "1 VIOLATION", "2 VIOLATIONS"]
        );
    }

    #[test]
    fn response_times_are_microseconds_within_a_thousandth() {
        let mut figures = Figures::new(3);
        for micros in 1..=1_000 {
            figures.record(Outcome::Ok, micros * 1_000, 1);
        }
        let kind = KindReport::of(&figures, 2.0);
        assert!((kind.throughput_per_s - 500.0).abs() < 1e-9);
        for (got, want) in [
            (kind.response.mean_us, 500.5),
            (kind.response.stdev_us, 288.675),
            (kind.response.p50_us, 500.0),
            (kind.response.p99_us, 990.0),
            (kind.response.p999_us, 999.0),
            (kind.response.max_us, 1_000.0),
        ] {
            assert!((got / want - 1.0).abs() < 1.1e-3, "{got} for {want}");
        }
    }

    #[test]
    fn the_lowest_rate_is_told_as_it_was_asked_for() {
        assert_eq!(
            [0.001, 0.25, 33.333_333, 1e9].map(|rate| legible(rate).to_string()),
            ["0.001", "0.25", "33.33", "1000000000"]
        );
    }

    #[test]
    fn nothing_measured_is_zero_and_not_nonsense() {
        assert_eq!(KindReport::of(&Figures::new(3), 1.0).response, Response::default());
    }
}
