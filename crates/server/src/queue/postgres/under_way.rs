//! Calls of the database under way, and which may run beside which.
//!
//! A call with pops that have waited runs alone: a message that another call sends meanwhile would be seen by the pop
//! that looks last, and not by the one that has waited longest. No call has to wait for longer than `PATIENCE`, though,
//! nor at all for one that already takes longer: that may be waiting for another transaction.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// For how long a call may keep others waiting.
pub(super) const PATIENCE: Duration = Duration::from_millis(50);

/// Whether other calls may run beside a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Calls of this mode run beside each other: none of their pops has waited.
    Shared,
    /// It contains pops that have waited, and runs alone.
    Exclusive,
}

/// A call under way: the sequence number of the next news when it began, its own number, and how often all pops had been
/// woken by then.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Since {
    pub(super) news: u64,
    number: u64,
    pub(super) wakings: u64,
}

struct Call {
    begun: Instant,
    mode: Mode,
}

/// All calls under way.
#[derive(Default)]
pub(super) struct UnderWay {
    calls: BTreeMap<Since, Call>,
    /// Number of calls that have begun so far.
    begun: u64,
    /// Number of calls that wait for others before they begin, and how many of these are exclusive.
    waiting: usize,
    exclusive_waiting: usize,
}

impl UnderWay {
    /// Notes that a call begins.
    pub(super) fn begin(&mut self, news: u64, wakings: u64, mode: Mode) -> Since {
        self.begun += 1;
        let since = Since { news, number: self.begun, wakings };
        self.calls.insert(since, Call { begun: Instant::now(), mode });
        since
    }

    /// Notes that a call has ended.
    pub(super) fn end(&mut self, since: Since) {
        self.calls.remove(&since);
    }

    /// Returns whether a call has to wait before it begins. Exclusive calls come first, or there would always be another
    /// call under way.
    pub(super) fn must_wait(&self, mode: Mode) -> bool {
        let keeps_apart = |call: &Call| mode == Mode::Exclusive || call.mode == Mode::Exclusive;
        let is_in_the_way = |call: &Call| keeps_apart(call) && call.begun.elapsed() < PATIENCE;
        (mode == Mode::Shared && self.exclusive_waiting > 0) || self.calls.values().any(is_in_the_way)
    }

    /// Notes that a call begins to wait.
    pub(super) fn begin_wait(&mut self, mode: Mode) {
        self.waiting += 1;
        self.exclusive_waiting += usize::from(mode == Mode::Exclusive);
    }

    /// Notes that a call waits no longer.
    pub(super) fn end_wait(&mut self, mode: Mode) {
        self.waiting -= 1;
        self.exclusive_waiting -= usize::from(mode == Mode::Exclusive);
    }

    /// Returns whether calls wait for others to end.
    pub(super) fn has_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// Returns the sequence number of the next news when the oldest call began.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.calls.first_key_value().map(|(since, _)| since.news)
    }

    /// Returns how many calls are under way.
    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_with_pops_that_have_waited_runs_alone() {
        let mut under_way = UnderWay::default();
        let shared = under_way.begin(0, 0, Mode::Shared);
        assert!(!under_way.must_wait(Mode::Shared), "shared calls run beside each other");
        assert!(under_way.must_wait(Mode::Exclusive));
        under_way.begin_wait(Mode::Exclusive);
        assert!(under_way.must_wait(Mode::Shared), "the exclusive call comes first");
        under_way.end(shared);
        assert!(under_way.has_waiting() && !under_way.must_wait(Mode::Exclusive));
        under_way.end_wait(Mode::Exclusive);
        let exclusive = under_way.begin(0, 0, Mode::Exclusive);
        assert!(under_way.must_wait(Mode::Shared) && under_way.must_wait(Mode::Exclusive));
        under_way.end(exclusive);
        assert!(!under_way.has_waiting());
        assert!(!under_way.must_wait(Mode::Shared) && !under_way.must_wait(Mode::Exclusive));
    }

    #[test]
    fn a_call_that_takes_long_keeps_no_other_waiting() {
        let mut under_way = UnderWay::default();
        let long = Call { begun: Instant::now() - PATIENCE, mode: Mode::Exclusive };
        under_way.calls.insert(Since { news: 0, number: 0, wakings: 0 }, long);
        assert!(!under_way.must_wait(Mode::Shared) && !under_way.must_wait(Mode::Exclusive));
    }
}
