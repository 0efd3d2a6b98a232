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

pub(crate) mod again;
pub(crate) mod created;
pub(crate) mod deleted;
pub(crate) mod drain;
pub mod inspector;
pub mod judgment;
pub mod ledger;
pub(crate) mod refusal;

pub(crate) mod witness;

use std::fmt;

use serde::Serialize;

use crate::bench::Check;
use crate::queue::request::{Account, Request};
use crate::violations::Violations;
use inspector::Findings;
use judgment::{Judgment, Told};
use ledger::Closed;

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
    /// Queues created by clients that were not checked, for want of memory.
    pub queues_unchecked: u64,
    /// What the servers could not be asked after the run, in words.
    pub unasked: Vec<String>,
    /// What the history checker judged; None if the servers have several stores, for then no journals are kept.
    pub history: Option<Judgment>,
    /// Broken promises.
    pub violations: u64,
    /// The first ten of them.
    pub first_violations: Vec<String>,
}

/// What the checks of a run found, each by itself.
#[derive(Debug)]
pub(crate) struct Found {
    /// What the ledger says of all messages.
    pub(crate) messages: Closed,
    /// What the inspectors of all threads and of the drain found.
    pub(crate) answers: Vec<Findings>,
    /// What the history checker found; None if no journals are kept.
    pub(crate) history: Option<(Judgment, Told)>,
    /// Whether the history holds every message that was there.
    pub(crate) knows_all: bool,
}

impl CheckReport {
    /// Puts together what the checks found. Ledger and inspectors count whatever else is found, and the rules of the
    /// history that only times can decide too, since the answers that were blamed before are not among them. Its other
    /// rules decide what the ledger and the inspectors have looked at too, so they count only where those found nothing,
    /// and only of a history that holds every message.
    pub(crate) fn of(found: Found) -> Self {
        let Closed { totals: mut report, mut violations, .. } = found.messages;
        for findings in found.answers {
            report.peeked += findings.peeked;
            report.order_unchecked += findings.order_unchecked;
            violations.absorb(findings.violations);
        }
        let (history, told) = found.history.unzip();
        let Told { of_times, of_others } = told.unwrap_or_default();
        if violations.count == 0 && found.knows_all {
            violations.absorb(of_others);
        }
        violations.absorb(of_times);
        Self { history, violations: violations.count, first_violations: violations.first, ..report }
    }

    /// Adds what was found after the rest of the report.
    pub(crate) fn add(&mut self, found: Violations) {
        let first = std::mem::take(&mut self.first_violations);
        let mut all = Violations { count: self.violations, first };
        all.absorb(found);
        (self.violations, self.first_violations) = (all.count, all.first);
    }
}

/// Describes what is wrong with the answer to a request, and whose it is.
fn told(reader: Account, request: Request, what: &str) -> String {
    format!("account {reader}, {request:?}: {what}")
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
        let unchecked = |what: &str, count: u64, of: &str| {
            (count > 0).then(|| format!("the {what} of {count} {of} was not checked, for want of memory"))
        };
        let all: Vec<String> = [
            self.unjudged(),
            unchecked("order", self.order_unchecked, "messages"),
            unchecked("life", self.queues_unchecked, "queues"),
        ]
        .into_iter()
        .flatten()
        .collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    fn unasked(&self) -> &[String] {
        &self.unasked
    }
}

impl CheckReport {
    /// Returns what was not judged by times, if something was not.
    fn unjudged(&self) -> Option<String> {
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
        let without_memory = CheckReport {
            order_unchecked: 7,
            queues_unchecked: 2,
            history: judged(true),
            ..CheckReport::default()
        };
        let of_memory = "the order of 7 messages was not checked, for want of memory; the life of 2 queues was not checked, \
                         for want of memory";
        assert_eq!(without_memory.reservation().as_deref(), Some(of_memory));
    }
}
