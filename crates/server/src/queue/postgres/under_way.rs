//! Calls of the database under way, and which may run beside which.
//!
//! A call with pops that have waited (a look) runs alone: a message that another call sends meanwhile would be seen by
//! the pop that looks last, and not by the one that waits longest. No call has to wait for longer than `PATIENCE`,
//! though, nor at all for one that already takes longer: that may be waiting for another transaction.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// For how long a call may keep others waiting.
pub(super) const PATIENCE: Duration = Duration::from_millis(50);

/// A call under way: the sequence number of the next news when it began, and its own number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Since {
    pub(super) news: u64,
    number: u64,
}

struct Begun {
    begun: Instant,
    looks: bool,
}

/// All calls under way.
#[derive(Default)]
pub(super) struct UnderWay {
    calls: BTreeMap<Since, Begun>,
    begun: u64,
    /// Calls that wait for others before they begin, and how many of them are looks.
    waiting: usize,
    looks_waiting: usize,
}

impl UnderWay {
    /// Notes that a call begins.
    pub(super) fn begin(&mut self, news: u64, looks: bool) -> Since {
        self.begun += 1;
        let since = Since { news, number: self.begun };
        self.calls.insert(since, Begun { begun: Instant::now(), looks });
        since
    }

    /// Notes that a call has ended; returns whether another one waits for that.
    pub(super) fn end(&mut self, since: Since) -> bool {
        self.calls.remove(&since);
        self.waiting > 0
    }

    /// Returns whether a call has to wait before it begins. Looks come first, or something would always be under way.
    pub(super) fn must_wait(&self, looks: bool) -> bool {
        let in_the_way = |call: &Begun| (looks || call.looks) && call.begun.elapsed() < PATIENCE;
        (!looks && self.looks_waiting > 0) || self.calls.values().any(in_the_way)
    }

    /// Notes that a call begins to wait.
    pub(super) fn wait(&mut self, looks: bool) {
        self.waiting += 1;
        self.looks_waiting += usize::from(looks);
    }

    /// Notes that a call has waited.
    pub(super) fn waited(&mut self, looks: bool) {
        self.waiting -= 1;
        self.looks_waiting -= usize::from(looks);
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
    fn a_call_in_which_those_look_who_waited_goes_alone() {
        let mut under_way = UnderWay::default();
        let call = under_way.begin(0, false);
        assert!(!under_way.must_wait(false), "others go beside each other");
        assert!(under_way.must_wait(true));
        under_way.wait(true);
        assert!(under_way.must_wait(false), "the look comes first");
        assert!(under_way.end(call), "it is told");
        assert!(!under_way.must_wait(true));
        under_way.waited(true);
        let look = under_way.begin(0, true);
        assert!(under_way.must_wait(false) && under_way.must_wait(true));
        assert!(!under_way.end(look), "nobody waits");
        assert!(!under_way.must_wait(false) && !under_way.must_wait(true));
    }

    #[test]
    fn a_call_that_takes_long_keeps_nobody_waiting() {
        let mut under_way = UnderWay::default();
        let long = Begun { begun: Instant::now() - PATIENCE, looks: true };
        under_way.calls.insert(Since { news: 0, number: 0 }, long);
        assert!(!under_way.must_wait(false) && !under_way.must_wait(true));
    }
}
