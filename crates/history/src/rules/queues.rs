//! Rule I, of queues: nothing outlives its queue.

use crate::names::Name;
use crate::operation::{Call, Outcome};
use crate::story::Story;
use crate::verdict::{Rule, Verdict};

/// **I. Queue life.** No message survives a deletion or purge of its queue that began after it was acknowledged. What
/// is asked of a queue by name after its deletion is refused, unless the queue can have been created anew.
pub(crate) fn judge(story: &Story<'_>, verdict: &mut Verdict) {
    survivors(story, verdict);
    asked_of_nobody(story, verdict);
}

fn survivors(story: &Story<'_>, verdict: &mut Verdict) {
    for shown in &story.shown {
        let op = &story.ops[shown.op];
        let message = shown.message.map(|number| &story.messages[number as usize]);
        // A dead letter had left the queue; a pop asked again is given what it was given before.
        let here = |_: &_| shown.delivery.first_queue.is_none() && op.repeats.is_none();
        let Some(message) = message.filter(here) else { continue };
        let ended = story.lives.get(&message.send.queue).and_then(|life| life.ended_by(message.acked));
        if let Some((_, end)) = ended.filter(|(by, _)| *by < op.begin) {
            verdict.blame(Rule::I, &[message.at, end, op.at], || {
                format!("{} survived the end of its queue", story.describe(message))
            });
        }
    }
}

fn asked_of_nobody(story: &Story<'_>, verdict: &mut Verdict) {
    for op in &story.ops {
        let Some(queue) = queue(op.call).filter(|_| matches!(op.outcome, Outcome::Ok(_))) else { continue };
        // A request repeated under its key gets its first answer again, even after the queue is gone.
        let repeated = match op.call {
            Call::Send(send) => {
                send.bodies.first().and_then(|body| story.sent(body)).is_some_and(|m| m.attempts > 1)
            }
            _ => op.repeats.is_some(),
        };
        let life = story.lives.get(&queue).filter(|_| !repeated);
        if let Some(deletion) = life.and_then(|life| life.deleted_before(op.begin, op.end)) {
            verdict.blame(Rule::I, &[deletion, op.at], || {
                let (kind, queue) = (op.call.kind().name(), story.names.word(queue));
                format!("a {kind} of queue {queue} was answered after the queue was deleted")
            });
        }
    }
}

/// Returns the queue that must exist for a request. (QBROWSE is only used in the final drain.)
fn queue(call: &Call) -> Option<Name> {
    match call {
        Call::Send(send) => Some(send.queue),
        Call::Pop(select) | Call::Peek(select) => select.queue,
        Call::Delete { queue } | Call::Purge { queue } | Call::Info { queue } => Some(*queue),
        _ => None,
    }
}
