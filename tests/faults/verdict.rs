//! What the journals of a round say: the checker of `posthaste-history` decides, this counts.

use posthaste_history::{History, check};

/// Counts of one round, or of many.
#[derive(Default)]
pub(crate) struct Tally {
    /// Messages whose send was acknowledged.
    pub(crate) acknowledged: u64,
    /// Those of them that are nowhere, though no pop of an unknown end can have taken them.
    pub(crate) lost: u64,
    /// Messages that two got.
    pub(crate) doubled: u64,
    /// Messages that nobody sent, or not so.
    pub(crate) invented: u64,
    /// Messages that came before one that had to come first.
    pub(crate) reordered: u64,
    /// Nulls while there was something.
    pub(crate) wrong_nulls: u64,
    /// Messages of whose send nobody knows whether it took effect.
    pub(crate) in_doubt: u64,
    /// Reads whose order, or whose null, could be judged.
    pub(crate) judged: u64,
    /// Every broken rule, in a sentence.
    pub(crate) broken: Vec<String>,
}

impl Tally {
    /// Has the journals of a round judged.
    pub(crate) fn of(history: &History) -> Self {
        let verdict = check(history);
        let counts = &verdict.counts;
        Self {
            acknowledged: counts.acknowledged,
            lost: counts.lost,
            doubled: counts.doubled,
            invented: counts.invented,
            reordered: counts.reordered,
            wrong_nulls: counts.wrong_empties,
            in_doubt: counts.in_doubt,
            judged: counts.reads_judged,
            broken: if verdict.is_valid() { Vec::new() } else { vec![verdict.to_string()] },
        }
    }

    /// Counts another round too; its broken rules stay with it.
    pub(crate) fn add(&mut self, other: &Self) {
        self.acknowledged += other.acknowledged;
        self.lost += other.lost;
        self.doubled += other.doubled;
        self.invented += other.invented;
        self.reordered += other.reordered;
        self.wrong_nulls += other.wrong_nulls;
        self.in_doubt += other.in_doubt;
        self.judged += other.judged;
    }
}
