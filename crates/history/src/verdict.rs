//! What was found: every broken promise with its rule, and counts.

use std::fmt;

/// What a queue promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// No loss.
    A,
    /// No invention.
    B,
    /// Each message to one.
    C,
    /// Only to whom it is addressed.
    D,
    /// In order.
    E,
    /// A null means that there was nothing.
    F,
    /// What was refused did not happen.
    G,
    /// Counters tell the truth.
    H,
    /// Nothing outlives its queue.
    I,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 9] =
        [Self::A, Self::B, Self::C, Self::D, Self::E, Self::F, Self::G, Self::H, Self::I];
}

/// An operation: its client, and its number in the client's journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct At {
    /// Number of the client.
    pub client: u32,
    /// Number of the operation, counted from 0.
    pub number: u32,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.client, self.number)
    }
}

/// One broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule that was broken.
    pub rule: Rule,
    /// The operations that show it.
    pub operations: Vec<At>,
    /// What happened, in a sentence.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.text)?;
        let mut separator = " [";
        for at in &self.operations {
            write!(f, "{separator}{at}")?;
            separator = ", ";
        }
        if self.operations.is_empty() { Ok(()) } else { f.write_str("]") }
    }
}

/// What [`check`](crate::check()) counted in a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Operations in all journals.
    pub operations: u64,
    /// Messages whose send was acknowledged.
    pub acknowledged: u64,
    /// Messages whose send was refused.
    pub refused: u64,
    /// Messages whose send has an unknown outcome.
    pub in_doubt: u64,
    /// Messages that clients took for good, by a pop or an acknowledged lease.
    pub popped: u64,
    /// Messages found by the final drain.
    pub drained: u64,
    /// Missing messages that are explained: by a deletion, a purge, their time to live or delay, a lease, or an
    /// operation of unknown outcome.
    pub excused: u64,
    /// Violations of rule A: messages that are missing without an explanation.
    pub lost: u64,
    /// Violations of rule B.
    pub invented: u64,
    /// Violations of rule C.
    pub doubled: u64,
    /// Violations of rule E.
    pub reordered: u64,
    /// Violations of rule F.
    pub wrong_empties: u64,
    /// Reads that rules E and F judged.
    pub reads_judged: u64,
    /// Reads that rules E and F could not judge: a pop of unknown outcome may have hidden something.
    pub reads_in_doubt: u64,
    /// Figures that rule H judged.
    pub figures_judged: u64,
}

/// What [`check`](crate::check()) found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The first thousand violations of each rule.
    pub violations: Vec<Violation>,
    /// Number of violations of each rule, A to I.
    pub by_rule: [u64; 9],
    /// What was counted.
    pub counts: Counts,
    /// Rules that these journals cannot decide.
    pub undecided: Vec<Rule>,
}

/// Number of violations kept of each rule; further ones are only counted.
const TOLD_MAX: u64 = 1000;

impl Verdict {
    /// Returns whether no rule was broken.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.by_rule == [0; 9]
    }

    /// Returns the number of violations of a rule.
    #[must_use]
    pub fn broken(&self, rule: Rule) -> u64 {
        self.by_rule[rule as usize]
    }

    /// Counts a violation, and keeps it while there is room.
    pub(crate) fn blame(&mut self, rule: Rule, operations: &[At], text: impl FnOnce() -> String) {
        let count = &mut self.by_rule[rule as usize];
        *count += 1;
        if *count <= TOLD_MAX {
            self.violations.push(Violation { rule, operations: operations.to_vec(), text: text() });
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let c = &self.counts;
        writeln!(
            f,
            "{} operations: {} messages acknowledged, {} refused, {} in doubt; {} popped, {} drained, {} excused, {} lost, \
             {} doubled, {} invented, {} reordered, {} wrong empties; {} reads judged, {} in doubt",
            c.operations,
            c.acknowledged,
            c.refused,
            c.in_doubt,
            c.popped,
            c.drained,
            c.excused,
            c.lost,
            c.doubled,
            c.invented,
            c.reordered,
            c.wrong_empties,
            c.reads_judged,
            c.reads_in_doubt
        )?;
        if !self.undecided.is_empty() {
            writeln!(f, "undecided: {:?}", self.undecided)?;
        }
        self.violations.iter().take(20).try_for_each(|violation| writeln!(f, "{violation}"))
    }
}
