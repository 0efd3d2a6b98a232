//! What a thread notes of the measured window beside the answers: its edges, and what crosses them.

use hdrhistogram::Histogram;

use crate::cpu::{CpuReading, CpuTime};
use crate::pace::ThinkTimes;
use crate::tally::histogram;

/// What one thread noted of its window.
#[derive(Debug)]
pub(crate) struct WindowMeasurement {
    start: Mark,
    end: Mark,
    /// The longest turn in the window, in nanoseconds: how late an answer may have been read.
    pub(crate) turn_max: u64,
    /// How late requests were sent, in nanoseconds, although their client was free.
    pub(crate) late: Histogram<u64>,
    /// Think times drawn in the window.
    pub(crate) think_times: ThinkTimes,
    /// Requests of an open loop that were due and not sent at the end of the window.
    pub(crate) behind: usize,
    /// How long requests had waited at the end of the window that were not answered by then, whether they were sent or
    /// not; in nanoseconds.
    pub(crate) waiting: Histogram<u64>,
    /// Time that requests spent in the window and that is in no response time, less the time before the window that
    /// response times hold; in nanoseconds, of all clients together.
    pub(crate) edges_ns: i64,
}

/// The thread's times at an edge of the window.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    now: u64,
    cpu: CpuReading,
}

impl Mark {
    fn at(now: u64) -> Self {
        Self { now, cpu: CpuReading::of_this_thread() }
    }
}

impl WindowMeasurement {
    /// Creates the measurement of a window that has not begun.
    pub(super) fn new() -> Self {
        Self {
            start: Mark::default(),
            end: Mark::default(),
            turn_max: 0,
            late: histogram(3),
            think_times: ThinkTimes::default(),
            behind: 0,
            waiting: histogram(3),
            edges_ns: 0,
        }
    }

    /// Begins the window at `now`, at whose start unanswered requests have waited this long.
    pub(super) fn begin(&mut self, now: u64, waited: impl Iterator<Item = u64>) {
        self.start = Mark::at(now);
        self.edges_ns = self.edges_ns.saturating_sub_unsigned(waited.sum());
    }

    /// Ends the window at `now`, at whose end unanswered requests have waited this long, and clients have `behind`
    /// requests that were due and are not sent.
    pub(super) fn end(&mut self, now: u64, waited: impl Iterator<Item = u64>, behind: usize) {
        self.end = Mark::at(now);
        self.behind = behind;
        for waited in waited {
            self.waiting.saturating_record(waited);
            self.edges_ns = self.edges_ns.saturating_add_unsigned(waited);
        }
    }

    /// Ends the window at `now`, before its time; it has no length if it had not begun.
    pub(super) fn cut_short(&mut self, now: u64, has_begun: bool) {
        self.end = Mark::at(now);
        if !has_begun {
            self.start = self.end;
        }
    }

    /// Adds requests that were due by the end and not even handed to a client; the longest of them had waited this long.
    pub(super) fn add_unsent(&mut self, unsent: u64, longest_ns: u64) {
        self.behind += unsent as usize;
        self.waiting.saturating_record_n((longest_ns / 2).max(1), unsent);
    }

    /// Returns the thread's processor time in the window.
    pub(crate) fn cpu(&self) -> CpuTime {
        self.end.cpu - self.start.cpu
    }

    /// Returns the length of the window as the thread saw it, in seconds.
    pub(crate) fn length_s(&self) -> f64 {
        self.end.now.saturating_sub(self.start.now) as f64 * 1e-9
    }

    /// Returns the end of the window as the thread saw it, in nanoseconds of the run's clock.
    pub(crate) const fn end_ns(&self) -> u64 {
        self.end.now
    }
}
