//! The checks of `--check`: every answer is what it should be, and every message is delivered exactly once.
//!
//! An [`inspector::Inspector`] per thread looks at each answer by itself and needs no lock; what only all
//! threads together can know (twice, never sent, lost) goes to one [`ledger::Ledger`], in batches, once per
//! turn of a thread's loop. A checker that compared a log after the run would find the same, but its
//! memory would grow with the run; the ledger's grows with what is under way.
//!
//! What depends on when things happened, which of two clients came first and whether a null was honest, takes the
//! times of all requests: each client's [`witness`] keeps them for the history checker, as long as there is room, and
//! [`judgment`] says what that found.

pub(crate) mod deleted;
pub(crate) mod drain;
pub mod inspector;
pub mod judgment;
pub mod ledger;
mod refusal;
mod unnamed;
pub(crate) mod witness;

use std::fmt;

use serde::Serialize;

use crate::bench::Check;
use crate::violations::Violations;
use judgment::Judgment;

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
    /// Messages popped by the drain after the run.
    pub drained: u64,
    /// Messages seen by PEEK.
    pub peeked: u64,
    /// Messages popped that were on the server before the run.
    pub foreign: u64,
    /// Acknowledged messages that were neither popped nor left.
    pub missing: u64,
    /// Missing messages that can be explained: pops whose answer was lost, queues deleted with messages.
    pub explained: u64,
    /// Pops whose place in their sender's order was not checked, for want of memory.
    pub order_unchecked: u64,
    /// What the history checker judged; None if the servers have several stores, for then no journals are kept.
    pub history: Option<Judgment>,
    /// Broken promises.
    pub violations: u64,
    /// The first ten of them.
    pub first_violations: Vec<String>,
}

impl CheckReport {
    /// Adds what was found after the rest of the report.
    pub(crate) fn add(&mut self, found: Violations) {
        let first = std::mem::take(&mut self.first_violations);
        let mut all = Violations { count: self.violations, first };
        all.absorb(found);
        (self.violations, self.first_violations) = (all.count, all.first);
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} messages acknowledged, {} popped ({} of them by the drain), {} missing ({} explained), {} peeked",
            self.acknowledged, self.popped, self.drained, self.missing, self.explained, self.peeked
        )?;
        self.history.iter().try_for_each(|history| write!(f, "; {history}"))
    }
}

impl Check for CheckReport {
    fn violations(&self) -> u64 {
        self.violations
    }

    fn first_violations(&self) -> &[String] {
        &self.first_violations
    }

    fn reservation(&self) -> Option<String> {
        let of_times = "what depends on times (rules E, F, H, I: order over senders, nulls, depths, deletions) was judged";
        match &self.history {
            // Without messages there was nothing to judge: a run of ECHOs alone keeps no journals.
            None if self.acknowledged + self.popped + self.peeked == 0 => None,
            None => Some(format!("{of_times} for no request, as the servers have several stores")),
            Some(history) if history.whole => None,
            Some(history) => Some(format!(
                "{of_times} only for the first {} requests; a shorter run is judged whole",
                history.requests
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_that_leaves_requests_out_says_so() {
        let said = |history| CheckReport { history, ..CheckReport::default() }.reservation();
        let judged = |whole| Some(Judgment { requests: 1 << 20, whole, ..Judgment::default() });
        assert_eq!(said(judged(true)), None);
        assert!(said(judged(false)).expect("a part").contains("only for the first 1048576 requests"));
        assert_eq!(said(None), None);
        let of_stores = CheckReport { acknowledged: 1, ..CheckReport::default() }.reservation();
        assert!(of_stores.expect("nothing").contains("for no request"));
    }
}
