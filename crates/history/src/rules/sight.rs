//! Rule I, of messages: nothing is seen before its time, while somebody has it, or after its end.

use crate::delivery::ROUNDED;
use crate::message::Message;
use crate::operation::Call;
use crate::story::{Op, Story};
use crate::verdict::{Rule, Verdict};
use crate::{NEVER, millis};

/// **I. Message life.** A message is not shown before its delay is over, nor after its time to live. A PEEK shows none
/// that was taken for good before it began, and none that somebody held on a lease all the while. (What a POP is given
/// of these is rule C.)
pub(crate) fn judge(story: &Story<'_>, verdict: &mut Verdict) {
    for shown in &story.shown {
        let op = &story.ops[shown.op];
        let message = shown.message.map(|number| &story.messages[number as usize]);
        // A dead letter goes by other times; a pop asked again is given what it was given before.
        let judged = |_: &&Message<'_>| shown.delivery.first_queue.is_none() && op.repeats.is_none();
        let Some(message) = message.filter(judged) else { continue };
        if let Some(why) = hidden(story, message, op) {
            verdict.blame(Rule::I, &[message.at, op.at], || {
                format!("{} was shown {why}", story.describe(message))
            });
        }
    }
}

/// Returns why a read should not have seen a message; None if it may have.
fn hidden(story: &Story<'_>, message: &Message<'_>, op: &Op<'_>) -> Option<&'static str> {
    let is_peek = match op.call {
        Call::Peek(_) => true,
        Call::Pop(_) => false,
        _ => return None,
    };
    let (delay, ttl) = (message.send.delay_ms, message.send.ttl_ms);
    let ready = message.begun.saturating_add(millis(delay)).saturating_sub(ROUNDED);
    let over = if ttl == 0 { NEVER } else { message.acked.saturating_add(millis(ttl)) };
    if delay > 0 && op.end < ready {
        Some("before its delay was over")
    } else if over.saturating_add(story.timers_late) < op.begin {
        Some("after its time to live")
    } else if is_peek && taken(story, message, op) {
        Some("after it was taken")
    } else if is_peek && held(story, message, op) {
        Some("while somebody held it")
    } else {
        None
    }
}

fn taken(story: &Story<'_>, message: &Message<'_>, op: &Op<'_>) -> bool {
    story.handed(message).iter().filter_map(|one| one.taken_by()).any(|taken| story.ops[taken].end < op.begin)
}

fn held(story: &Story<'_>, message: &Message<'_>, op: &Op<'_>) -> bool {
    story.handed(message).iter().any(|one| {
        one.lease.is_some_and(|lease| story.ops[one.op].end < op.begin && op.end < lease.free_from)
    })
}
