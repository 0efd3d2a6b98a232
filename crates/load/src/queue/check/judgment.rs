//! What the history checker says of a checked run.
//!
//! It decides all rules. Inspector and ledger decide some of them too, for every request of a run of any length; but
//! they have to excuse more, since they know no times. So violations of these rules are reported only if inspector and
//! ledger found none. Violations of the rules that need times are always reported, except for answers that an inspector
//! has already blamed.

use std::collections::HashSet;
use std::fmt;

use posthaste_history::{Answer, At, Call, History, Name, Outcome, Rule, Verdict, Violation, check};
use posthaste_wire::reply::Value;
use serde::Serialize;

use super::again::{call_again, log_in_again};
use super::witness::{AUDIT, DRAIN, JournalBudget, PRELOAD, Witness};
use crate::error::LoadError;
use crate::queue::request::{Account, Queue};
use crate::queue::session::Session;
use crate::violations::Violations;

/// Rules that only times can decide: order over senders, honest nulls, counters, lives of messages and queues.
const OF_TIMES: [Rule; 4] = [Rule::E, Rule::F, Rule::H, Rule::I];

/// Largest number of queues whose depth is asked for in the end.
const DEPTHS_MAX: Queue = 1000;

/// What the history checker judged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Judgment {
    /// Requests in the journals.
    pub requests: u64,
    /// Whether these are all requests of the run; if not, they are those of its beginning.
    pub whole: bool,
    /// Reads whose order, or whose null, was judged.
    pub reads_judged: u64,
    /// Reads that were not judged: a pop whose answer was lost may have hidden something.
    pub reads_in_doubt: u64,
    /// Depths of queues that were compared with the truth.
    pub depths_judged: u64,
}

impl fmt::Display for Judgment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "order and nulls of {} reads judged among {} requests", self.reads_judged, self.requests)?;
        match self.reads_in_doubt {
            0 => Ok(()),
            doubt => write!(f, ", {doubt} in doubt"),
        }
    }
}

/// The violations that the history checker found.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// Violations of the rules that only times can decide.
    pub(crate) of_times: Violations,
    /// Violations of the other rules.
    pub(crate) of_others: Violations,
}

/// Judges a history, in which the answers to `blamed` requests have already been reported.
pub(crate) fn judge(history: &mut History, budget: &JournalBudget, blamed: HashSet<At>) -> (Judgment, Told) {
    let spent_since = budget.spent_since();
    spent_since.into_iter().for_each(|since| history.cut(since));
    let verdict = check(history);
    let judgment = Judgment {
        requests: verdict.counts.operations,
        whole: spent_since.is_none(),
        reads_judged: verdict.counts.reads_judged,
        reads_in_doubt: verdict.counts.reads_in_doubt,
        depths_judged: verdict.counts.figures_judged,
    };
    let told = Told { of_times: of_times(&verdict, blamed), of_others: of_others(&verdict) };
    (judgment, told)
}

/// Returns the violations of rules that only times can decide: one for each answer, and none for answers already
/// blamed.
fn of_times(verdict: &Verdict, mut blamed: HashSet<At>) -> Violations {
    let mut violations = Violations::default();
    let (blamed_before, mut known) = (blamed.len() as u64, 0);
    for violation in verdict.violations.iter().filter(|violation| OF_TIMES.contains(&violation.rule)) {
        // The last request that shows it is the one whose answer was wrong.
        if violation.operations.last().is_none_or(|answered| blamed.insert(*answered)) {
            violations.add(|| told(violation));
        } else {
            known += 1;
        }
    }
    // The verdict names the first thousand violations of a rule and counts all. Blamed answers that were not met here
    // may belong to the unnamed ones.
    let all: u64 = OF_TIMES.iter().map(|rule| verdict.broken(*rule)).sum();
    let unnamed = all - violations.count - known;
    violations.count += unnamed.saturating_sub(blamed_before.saturating_sub(known));
    violations
}

/// Returns the violations of the other rules, which are reported only if nothing else was found.
fn of_others(verdict: &Verdict) -> Violations {
    let wanted = |rule: &Rule| !OF_TIMES.contains(rule);
    let mut violations = Violations::default();
    let judged = verdict.violations.iter().filter(|violation| wanted(&violation.rule));
    judged.for_each(|violation| violations.add(|| told(violation)));
    violations.count = Rule::ALL.iter().filter(|rule| wanted(rule)).map(|rule| verdict.broken(*rule)).sum();
    violations
}

/// Describes a violation, with the requests that show it.
fn told(violation: &Violation) -> String {
    let places: Vec<_> = violation.operations.iter().map(place).collect();
    let places = if places.is_empty() { String::new() } else { format!(" ({})", places.join(", ")) };
    format!("rule {:?}: {}{places}", violation.rule, violation.text)
}

/// Describes a request by its number and its client.
fn place(at: &At) -> String {
    let At { client, number } = *at;
    match client {
        ..PRELOAD => format!("request {number} of client {client}"),
        PRELOAD..DRAIN => format!("request {number} of the preload by {}", client - PRELOAD),
        DRAIN..AUDIT => format!("request {number} of drain {}", client - DRAIN),
        AUDIT.. => format!("request {number} of the audit"),
    }
}

/// Asks how many messages each shared queue holds, now that nothing is under way.
///
/// # Errors
/// The connection failed, or the server refuses the account or stays busy.
pub(crate) fn ask_depths(
    session: &mut Session,
    shared: Queue,
    witness: &mut Witness,
) -> Result<(), LoadError> {
    let first: Account = 1;
    log_in_again(session, first)?;
    for queue in 1..=shared.min(DEPTHS_MAX) {
        let Some(number) = Name::number(queue).and_then(|queue| witness.begin(Call::Info { queue })) else {
            break;
        };
        let words = ["QINFO", &queue.to_string()];
        let depth = call_again(session, &words, |info| info.get(b"messages").and_then(Value::as_integer))?;
        let answered = |depth: i64| Outcome::Ok(Answer::Depth(depth.cast_unsigned()));
        witness.end(number, depth.map_or(Outcome::Fail, answered));
    }
    Ok(())
}
