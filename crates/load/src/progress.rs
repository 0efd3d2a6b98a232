//! One line per second for a person at a terminal: what the clients see right now.

use std::io::{Write as _, stderr};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use posthaste_measure::lock;

use crate::tally::{Counts, Figures};

/// How often there is a line.
const PERIOD: Duration = Duration::from_secs(1);

/// Figures since the last line, from all threads.
#[derive(Debug)]
pub(crate) struct Live {
    figures: Mutex<Figures>,
    /// What the tier calls a request that found nothing.
    nulls: &'static str,
}

impl Live {
    /// How often a thread hands over its figures, in nanoseconds.
    pub(crate) const PERIOD_NANOS: u64 = 250_000_000;

    /// Starts with no figures.
    pub(crate) fn new(nulls: &'static str) -> Self {
        Self { figures: Mutex::new(Figures::new(2)), nulls }
    }

    /// Adds a thread's figures, and resets them.
    pub(crate) fn take(&self, figures: &mut Figures) {
        lock(&self.figures).absorb(figures);
        figures.reset();
    }

    /// Writes lines to the terminal until `end` is closed.
    pub(crate) fn show(&self, end: &Receiver<()>) {
        // Half-way between two hand-overs of the threads: a line written at one would have it or not, by chance.
        let aside = Duration::from_nanos(Self::PERIOD_NANOS / 2);
        let start = Instant::now();
        let mut last = start + aside;
        let mut wait = aside + PERIOD;
        while end.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
            let text = self.line(start.elapsed(), last.elapsed());
            (last, wait) = (Instant::now(), PERIOD);
            let _ = write!(stderr(), "\r{text}\x1b[K").and_then(|()| stderr().flush());
        }
        let _ = write!(stderr(), "\r\x1b[K");
    }

    fn line(&self, since_start: Duration, since_last: Duration) -> String {
        let mut figures = lock(&self.figures);
        let per_s = figures.counts.served() as f64 / since_last.as_secs_f64().max(1e-9);
        let micros = |q| figures.latency.value_at_quantile(q) as f64 / 1e3;
        let (p50, p99) = (micros(0.5), micros(0.99));
        let Counts { nulls, errors, .. } = figures.counts;
        let text = format!(
            "{:>5.0} s  {per_s:>9.0} requests/s  p50 {p50:.0} us  p99 {p99:.0} us  {nulls} {}  {errors} error",
            since_start.as_secs_f64(),
            self.nulls
        );
        figures.reset();
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialogue::Outcome;

    #[test]
    fn a_line_covers_the_time_since_the_last() {
        let live = Live::new("miss");
        let mut figures = Figures::new(2);
        for _ in 0..1000 {
            figures.record(Outcome::Ok, 100_000, 1);
        }
        figures.record(Outcome::Error, 100_000, 1);
        figures.record(Outcome::Null, 100_000, 3);
        live.take(&mut figures);
        let line = live.line(Duration::from_secs(3), Duration::from_millis(500));
        assert!(line.contains(" 2006 requests/s") && line.ends_with("  3 miss  1 error"), "{line}");
        assert!(live.line(Duration::from_secs(4), Duration::from_secs(1)).contains(" 0 requests/s"));
    }
}
