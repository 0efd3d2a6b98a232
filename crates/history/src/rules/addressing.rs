//! Rule D: only to whom it is addressed.

use crate::message::hides;
use crate::operation::Call;
use crate::story::Story;
use crate::verdict::{Rule, Verdict};

/// **D. Addressing.** A message with a recipient is shown to that recipient only, and a reader sees only what its
/// conditions name: its queue, its sender, nothing of its own, only messages to anyone, and no more of them than it
/// asked for.
pub(crate) fn judge(story: &Story<'_>, verdict: &mut Verdict) {
    for (op, select, deliveries) in story.reads() {
        // A pop asked again is given what it was given before.
        if op.repeats.is_none() && deliveries.len() as u64 > select.most() {
            verdict.blame(Rule::D, &[op.at], || {
                format!("{} messages were shown where {} were asked for", deliveries.len(), select.most())
            });
        }
    }
    for shown in &story.shown {
        let op = &story.ops[shown.op];
        let (Call::Pop(select) | Call::Peek(select)) = op.call else { continue };
        let Some(message) = shown.message.map(|number| &story.messages[number as usize]) else { continue };
        let elsewhere = select.queue.is_some_and(|queue| queue != shown.delivery.queue);
        let why = if elsewhere {
            Some("it is in another queue than was asked for")
        } else {
            hides(message, op.account, select)
        };
        if let Some(why) = why {
            verdict.blame(Rule::D, &[message.at, op.at], || {
                let reader = story.names.word(op.account);
                format!("{} was shown to {reader}, though {why}", story.describe(message))
            });
        }
    }
}
