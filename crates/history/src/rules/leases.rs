//! Rule C, of leases and of pops asked again.

use std::collections::HashMap;

use crate::body::Key;
use crate::delivery::{Handed, receipt};
use crate::names::Name;
use crate::operation::{Answer, Call, Outcome};
use crate::pops::gave;
use crate::story::{Op, Story};
use crate::verdict::{Rule, Verdict};
use crate::{NEVER, Time, millis};

/// **C, leases.** A lease is acknowledged at most once. An acknowledgement, a return or an extension that comes in time
/// counts; one that comes late, or behind an acknowledgement or a return, does not. A message is handed out no more
/// often than answers and lost answers explain. A pop asked again under its `REQID` is given what it was given before.
pub(crate) fn judge(story: &Story<'_>, verdict: &mut Verdict) {
    acknowledged_once(story, verdict);
    refused_in_time(story, verdict);
    counted_late(story, verdict);
    deliveries_unseen(story, verdict);
    repeats(story, verdict);
    forgotten(story, verdict);
}

fn acknowledged_once(story: &Story<'_>, verdict: &mut Verdict) {
    for one in &story.handed {
        let message = &story.messages[one.message as usize];
        if let Some(lease) = one.lease.filter(|lease| lease.wins > 1) {
            verdict.blame(Rule::C, &[message.at, story.ops[one.op].at], || {
                format!("{} was acknowledged {} times under one lease", story.describe(message), lease.wins)
            });
        }
    }
}

/// Names what the holder of a lease did, for the text of a violation.
fn deed(call: &Call) -> &'static str {
    match call {
        Call::Ack { .. } => "acknowledgement",
        Call::Nack { .. } => "return",
        _ => "extension",
    }
}

fn refused_in_time(story: &Story<'_>, verdict: &mut Verdict) {
    for op in story.ops.iter().filter(|op| *op.outcome == Outcome::Ok(Answer::Number(0))) {
        let held = receipt(op.call).and_then(|receipt| story.receipts.get(&receipt));
        let Some(one) = held.map(|i| &story.handed[*i]) else { continue };
        let Some(lease) = one.lease else { continue };
        let message = &story.messages[one.message as usize];
        let won_before = lease.won.is_some_and(|won| story.ops[won].begin <= op.end);
        let ended = story
            .lives
            .get(&one.delivery.queue)
            .is_some_and(|life| life.ends_from(story.ops[one.op].begin) <= op.end);
        if op.end < lease.lasts && lease.maybe_won > op.end && !won_before && !ended {
            verdict.blame(Rule::C, &[message.at, story.ops[one.op].at, op.at], || {
                format!("the {} of {} was refused in time", deed(op.call), story.describe(message))
            });
        }
    }
}

/// Judges what took effect though the lease had ended: by its time, or by what its holder had done before.
fn counted_late(story: &Story<'_>, verdict: &mut Verdict) {
    let mut deeds: HashMap<usize, Vec<&Op<'_>>> = HashMap::new();
    for op in &story.ops {
        let one = receipt(op.call).and_then(|receipt| story.receipts.get(&receipt));
        if let Some(one) = one.filter(|_| op.counted() || *op.outcome == Outcome::Info) {
            deeds.entry(*one).or_default().push(op);
        }
    }
    for (one, deeds) in deeds {
        let one = &story.handed[one];
        let message = &story.messages[one.message as usize];
        for op in deeds.iter().filter(|op| op.counted()) {
            let ends = |other: &&&Op<'_>| {
                other.counted() && !matches!(other.call, Call::Extend { .. }) && other.end < op.begin
            };
            let over = over_by(story, one, &deeds, op).saturating_add(story.timers_late);
            let before = deeds.iter().find(ends);
            // A second acknowledgement is reported by `acknowledged_once`.
            if before
                .is_some_and(|other| !matches!((other.call, op.call), (Call::Ack { .. }, Call::Ack { .. })))
                || over < op.begin
            {
                verdict.blame(Rule::C, &[message.at, story.ops[one.op].at, op.at], || {
                    format!("the {} of {} counted too late", deed(op.call), story.describe(message))
                });
            }
        }
    }
}

/// Returns by when a lease had ended, counting only extensions that can have taken effect before this request.
fn over_by(story: &Story<'_>, one: &Handed<'_>, deeds: &[&Op<'_>], op: &Op<'_>) -> Time {
    let extended = deeds.iter().filter(|other| other.at != op.at && other.begin <= op.end);
    let extended = extended.filter_map(|other| match other.call {
        Call::Extend { ms, .. } => Some(other.end.saturating_add(millis(*ms))),
        _ => None,
    });
    let granted = match story.ops[one.op].call {
        Call::Pop(select) => story.ops[one.op].end.saturating_add(millis(select.lease_ms)),
        _ => NEVER,
    };
    extended.max().unwrap_or(0).max(granted)
}

/// Judges that deliveries which no answer showed can all be those of leased pops whose answer was lost.
fn deliveries_unseen(story: &Story<'_>, verdict: &mut Verdict) {
    let mut counted = vec![0; story.messages.len()];
    for shown in &story.shown {
        if let Some(message) = shown.message {
            let counted = &mut counted[message as usize];
            // The deliveries of a dead letter are counted anew after its move.
            let moved = shown.delivery.first_queue.is_some();
            *counted = if moved { NEVER } else { shown.delivery.deliveries.into() }.max(*counted);
        }
    }
    let mut unseen: HashMap<Name, u64> = HashMap::new();
    for (message, counted) in story.messages.iter().zip(counted).filter(|(_, counted)| *counted < NEVER) {
        let handed = story.handed(message).len() as u64;
        *unseen.entry(message.send.queue).or_default() += counted.saturating_sub(handed);
    }
    for (queue, unseen) in unseen.into_iter().filter(|(_, unseen)| *unseen > 0) {
        let can_have: u64 = story.doubtful_pops().map(|op| leased(op, queue)).sum();
        if unseen > can_have && story.whole {
            verdict.blame(Rule::C, &[], || {
                format!(
                    "queue {} counted {unseen} deliveries that nobody was given, where lost answers explain {can_have}",
                    story.names.word(queue)
                )
            });
        }
    }
}

/// Returns how many messages of a queue a pop of unknown outcome can have leased.
fn leased(op: &Op<'_>, queue: Name) -> u64 {
    match op.call {
        Call::Pop(select) if select.lease_ms > 0 && select.queue.is_none_or(|of| of == queue) => {
            select.most()
        }
        _ => 0,
    }
}

/// How long a key must be remembered: servers do so for ten minutes, less a margin of one.
const REMEMBERED: Time = millis(9 * 60_000);

/// Judges that a pop which was given messages is not answered with null when repeated. Keys go with their queue.
fn forgotten(story: &Story<'_>, verdict: &mut Verdict) {
    let mut given: HashMap<(Name, Option<Name>, Key), &Op<'_>> = HashMap::new();
    let keyed = |op: &Op<'_>| match op.call {
        Call::Pop(select) => Some((op.account, select.queue, select.key?)),
        _ => None,
    };
    for op in &story.ops {
        if let Some(key) = keyed(op).filter(|_| gave(op) && op.repeats.is_none()) {
            given.insert(key, op);
        }
    }
    for (op, ..) in story.reads().filter(|(.., deliveries)| deliveries.is_empty()) {
        let Some(first) = keyed(op).and_then(|key| given.get(&key).copied()) else { continue };
        let ended = queues_of(first)
            .filter_map(|queue| story.lives.get(&queue))
            .any(|life| life.ends_from(first.begin) <= op.end);
        if first.end < op.begin && op.begin - first.end < REMEMBERED && !ended {
            verdict.blame(Rule::C, &[first.at, op.at], || {
                "a pop asked again was given nothing, and messages the first time".to_owned()
            });
        }
    }
}

/// Returns the queues of the messages that a pop was given.
fn queues_of(op: &Op<'_>) -> impl Iterator<Item = Name> {
    let messages = match op.outcome {
        Outcome::Ok(Answer::Messages(messages)) => &**messages,
        _ => &[],
    };
    messages.iter().map(|message| message.queue)
}

fn repeats(story: &Story<'_>, verdict: &mut Verdict) {
    for op in &story.ops {
        let Some(first) = op.repeats.map(|first| &story.ops[first]) else { continue };
        let (Some(again), Some(given)) = (ids(op), ids(first)) else { continue };
        if again != given {
            verdict.blame(Rule::C, &[first.at, op.at], || {
                format!("a pop asked again was given {again:?}, and {given:?} the first time")
            });
        }
    }
}

fn ids(op: &Op<'_>) -> Option<Vec<u64>> {
    match op.outcome {
        Outcome::Ok(Answer::Messages(messages)) => Some(messages.iter().map(|message| message.id).collect()),
        _ => None,
    }
}
