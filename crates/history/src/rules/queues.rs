//! Rule I: nothing outlives its queue.

use crate::operation::{Call, Outcome};
use crate::story::Story;
use crate::verdict::{Rule, Verdict};

/// **I. Queue life.** No message survives a deletion or purge of its queue that began after it was acknowledged. A send that
/// began after a deletion is refused, unless the queue can have been created anew.
pub(crate) fn judge(story: &Story<'_>, verdict: &mut Verdict) {
    survivors(story, verdict);
    sent_to_nowhere(story, verdict);
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

fn sent_to_nowhere(story: &Story<'_>, verdict: &mut Verdict) {
    for op in &story.ops {
        let (Call::Send(send), Outcome::Ok(_)) = (op.call, op.outcome) else { continue };
        let repeated = send.bodies.first().and_then(|body| story.sent(body)).is_some_and(|m| m.attempts > 1);
        let life = story.lives.get(&send.queue).filter(|_| !repeated);
        if let Some(deletion) = life.and_then(|life| life.deleted_before(op.begin, op.end)) {
            verdict.blame(Rule::I, &[deletion, op.at], || {
                let queue = story.names.word(send.queue);
                format!("a send to queue {queue} was acknowledged after the queue was deleted")
            });
        }
    }
}
