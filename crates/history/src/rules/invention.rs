//! Rule B: no invention.

use std::collections::HashMap;

use crate::message::Message;
use crate::operation::Delivery;
use crate::story::{Shown, Story};
use crate::verdict::{Rule, Verdict};

/// **B. No invention.** Nothing is returned that nobody tried to send before; queue, sender, recipient, priority,
/// headers, id and bytes are those that were sent.
pub(crate) fn judge(story: &Story<'_>, verdict: &mut Verdict) {
    let mut ids: Option<HashMap<u64, &Message<'_>>> = None;
    for shown in &story.shown {
        let op = &story.ops[shown.op];
        match shown.message.map(|number| &story.messages[number as usize]) {
            Some(message) if op.end < message.begun => {
                verdict.blame(Rule::B, &[message.at, op.at], || {
                    format!("{} was there before it was sent", story.describe(message))
                });
            }
            Some(message) => {
                if let Some(field) = differs(message, shown.delivery) {
                    verdict.blame(Rule::B, &[message.at, op.at], || {
                        format!("{} came back with another {field}", story.describe(message))
                    });
                }
            }
            None if story.whole => unknown(story, shown, ids.get_or_insert_with(|| by_id(story)), verdict),
            // It may have been sent after the last operation that is known.
            None => {}
        }
    }
}

fn by_id<'s>(story: &'s Story<'_>) -> HashMap<u64, &'s Message<'s>> {
    story.messages.iter().filter_map(|message| Some((message.id?, message))).collect()
}

fn unknown(story: &Story<'_>, shown: &Shown<'_>, ids: &HashMap<u64, &Message<'_>>, verdict: &mut Verdict) {
    let (op, id) = (&story.ops[shown.op], shown.delivery.id);
    match ids.get(&id) {
        Some(message) => verdict.blame(Rule::B, &[message.at, op.at], || {
            format!("{} came back with another body", story.describe(message))
        }),
        None => verdict.blame(Rule::B, &[op.at], || {
            format!("message {id} of queue {} was sent by nobody", story.names.word(shown.delivery.queue))
        }),
    }
}

/// The first field that is not as it was sent.
fn differs(message: &Message<'_>, delivery: &Delivery) -> Option<&'static str> {
    let send = message.send;
    [
        ("queue", delivery.first_queue.unwrap_or(delivery.queue) == send.queue),
        ("sender", delivery.from == message.sender),
        ("recipient", delivery.to == send.to),
        ("priority", delivery.priority == send.priority),
        ("headers", delivery.headers == send.headers),
        ("id", message.id.is_none_or(|id| id == delivery.id)),
    ]
    .into_iter()
    .find_map(|(field, same)| (!same).then_some(field))
}
