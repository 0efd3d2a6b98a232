//! Rule C, of leases and of pops asked again.

use std::collections::HashMap;

use crate::names::Name;
use crate::operation::{Answer, Call, Outcome};
use crate::story::{Op, Story};
use crate::verdict::{Rule, Verdict};

/// **C, leases.** A lease is acknowledged at most once; an acknowledgement that comes in time counts, one that comes late is
/// refused. A message is handed out no more often than answers and lost answers explain. A pop asked again under its
/// `REQID` is given what it was given before.
pub(crate) fn judge(story: &Story<'_>, verdict: &mut Verdict) {
    acknowledged_once(story, verdict);
    refused_in_time(story, verdict);
    deliveries_unseen(story, verdict);
    repeats(story, verdict);
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

fn refused_in_time(story: &Story<'_>, verdict: &mut Verdict) {
    for op in &story.ops {
        let (Call::Ack { receipt }, Outcome::Ok(Answer::Number(0))) = (op.call, op.outcome) else { continue };
        let Some(one) = story.receipts.get(receipt).map(|i| &story.handed[*i]) else { continue };
        let Some(lease) = one.lease else { continue };
        let message = &story.messages[one.message as usize];
        let won_before = lease.won.is_some_and(|won| story.ops[won].begin <= op.end);
        let ended = story
            .lives
            .get(&one.delivery.queue)
            .is_some_and(|life| life.ends_from(story.ops[one.op].begin) <= op.end);
        if op.end < lease.free_from && lease.maybe_won > op.end && !won_before && !ended {
            verdict.blame(Rule::C, &[message.at, story.ops[one.op].at, op.at], || {
                format!("the acknowledgement of {} was refused in time", story.describe(message))
            });
        }
    }
}

/// Deliveries that no answer showed can only be those of leased pops whose answer was lost.
fn deliveries_unseen(story: &Story<'_>, verdict: &mut Verdict) {
    let mut unseen: HashMap<Name, u64> = HashMap::new();
    for message in &story.messages {
        let handed = story.handed(message);
        let counted = handed.iter().map(|one| u64::from(one.delivery.deliveries)).max().unwrap_or(0);
        if handed.iter().all(|one| one.delivery.first_queue.is_none()) {
            *unseen.entry(message.send.queue).or_default() += counted.saturating_sub(handed.len() as u64);
        }
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

/// How many messages of a queue a pop of unknown outcome can have leased.
fn leased(op: &Op<'_>, queue: Name) -> u64 {
    match op.call {
        Call::Pop(select) if select.lease_ms > 0 && select.queue.is_none_or(|of| of == queue) => {
            select.most()
        }
        _ => 0,
    }
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
