//! Calls under way, and which may go beside which.
//!
//! A call in which pops look that have waited goes alone: what another one sends meanwhile would be seen by the pop that looks
//! last and not by the one that waits longest. Nobody is kept from beginning for long, though, nor at all by a call that takes long already: it waits for somebody's
//! transaction, perhaps.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// For how long a call has others wait.
pub(super) const PATIENCE: Duration = Duration::from_millis(50);

/// A call: how far the news had come when it began, and its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Since {
    pub(super) news: u64,
    number: u64,
}

struct Begun {
    begun: Instant,
    looks: bool,
}

/// All of them.
#[derive(Default)]
pub(super) struct UnderWay {
    calls: BTreeMap<Since, Begun>,
    begun: u64,
    /// Calls that wait for others before they begin, and how many of them are looks.
    waiting: usize,
    looks_waiting: usize,
}

impl UnderWay {
    /// A call begins.
    pub(super) fn begin(&mut self, news: u64, looks: bool) -> Since {
        self.begun += 1;
        let since = Since { news, number: self.begun };
        self.calls.insert(since, Begun { begun: Instant::now(), looks });
        since
    }

    /// A call has ended; whether another one waits for that.
    pub(super) fn end(&mut self, since: Since) -> bool {
        self.calls.remove(&since);
        self.waiting > 0
    }

    /// Whether a call has to wait before it begins. Looks come first, or there would always be something under way.
    pub(super) fn must_wait(&self, looks: bool) -> bool {
        let in_the_way = |call: &Begun| (looks || call.looks) && call.begun.elapsed() < PATIENCE;
        (!looks && self.looks_waiting > 0) || self.calls.values().any(in_the_way)
    }

    /// A call begins to wait.
    pub(super) fn wait(&mut self, looks: bool) {
        self.waiting += 1;
        self.looks_waiting += usize::from(looks);
    }

    /// A call has waited.
    pub(super) fn waited(&mut self, looks: bool) {
        self.waiting -= 1;
        self.looks_waiting -= usize::from(looks);
    }

    /// How far the news had come when the oldest of them began.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.calls.first_key_value().map(|(since, _)| since.news)
    }

    /// How many there are.
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
