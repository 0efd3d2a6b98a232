//! The checks of `--check`: every answer is what it should be, and every message is delivered exactly once.
//!
//! An [`inspector::Inspector`] per thread looks at each answer by itself and needs no lock; what only all
//! threads together can know (twice, never sent, lost) goes to one [`ledger::Ledger`], in batches, once per
//! turn of a thread's loop. A checker that compared a log after the run would find the same, but its
//! memory would grow with the run; the ledger's grows with what is under way.

pub(crate) mod drain;
pub mod inspector;
pub mod ledger;

use serde::Serialize;

/// Violations written out in full; the others are only counted.
const SHOWN_MAX: usize = 10;

/// Broken promises: how many, and the first of them in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Violations {
    /// All of them.
    pub count: u64,
    /// The first ones, in words.
    pub first: Vec<String>,
}

impl Violations {
    /// Counts one; `say` is only asked while there is room for its words.
    pub fn add(&mut self, say: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.len() < SHOWN_MAX {
            self.first.push(say());
        }
    }

    /// Takes over those of another checker.
    pub fn absorb(&mut self, other: Self) {
        self.count += other.count;
        let room = SHOWN_MAX.saturating_sub(self.first.len());
        self.first.extend(other.first.into_iter().take(room));
    }
}

/// What `--check` found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CheckReport {
    /// Messages whose SEND was acknowledged, those of the preload included.
    pub acknowledged: u64,
    /// Sends that were refused: their messages must not exist.
    pub refused: u64,
    /// Sends whose outcome is unknown (`STORE`, or the answer never came).
    pub unknown: u64,
    /// Messages popped, the drain included.
    pub popped: u64,
    /// Of these, popped by the drain after the run.
    pub drained: u64,
    /// Messages seen by PEEK.
    pub peeked: u64,
    /// Messages popped that were on the server before the run.
    pub foreign: u64,
    /// Acknowledged messages that were neither popped nor left.
    pub missing: u64,
    /// How many of the missing can be explained: pops whose answer was lost, queues deleted with messages.
    pub explained: u64,
    /// Pops whose place in their sender's order was not checked, for want of memory.
    pub order_unchecked: u64,
    /// Broken promises.
    pub violations: u64,
    /// The first ten of them.
    pub first_violations: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_violations_are_told_and_all_are_counted() {
        let mut violations = Violations::default();
        for i in 0..8 {
            violations.add(|| i.to_string());
        }
        violations.absorb(violations.clone());
        violations.add(|| unreachable!("no room for more words"));
        assert_eq!((violations.count, violations.first.len()), (17, 10));
    }
}
