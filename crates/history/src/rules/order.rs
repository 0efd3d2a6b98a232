//! Rule E: in order.

use super::program_order::Lines;
use crate::message::Message;
use crate::operation::{Call, Delivery, Select};
use crate::shelf::{Look, Shelf};
use crate::story::{Op, Story};
use crate::verdict::{At, Rule, Verdict};
use crate::{NEVER, Time};

/// **E. Order.** Per queue and priority: if message *a* was acknowledged before the send of *b* began, no reader who
/// may have both is given *b* by a read that began after *a* was acknowledged and ended before anybody can have touched
/// *a*. The same for a higher priority, whenever it was sent, and for two sends of one connection, even under way at
/// once; and over all queues for a reader that names none. An answer of several messages is in order itself. Of ids see
/// [`ids`](super::ids::judge).
///
/// Left out is what may stand elsewhere: messages delayed, given back, moved as dead letters, read with `ANYORDER`.
pub(crate) fn judge(story: &Story<'_>, shelf: &Shelf, verdict: &mut Verdict) {
    let lines = Lines::of(&story.messages);
    for (op, select, deliveries) in story.reads() {
        if select.any_order || op.repeats.is_some() {
            continue;
        }
        let mut before: Option<&Message<'_>> = None;
        for (place, delivery) in deliveries.iter().enumerate() {
            let Some(message) = story.message(delivery).filter(|message| in_line(message, delivery, op))
            else {
                continue;
            };
            if story.limbo.covers(select.queue, op.begin, op.end) {
                verdict.counts.reads_in_doubt += 1;
                continue;
            }
            verdict.counts.reads_judged += 1;
            // What a PEEK shows stays where it is, and stands there for the rest of its answer too.
            let stands_behind = place > 0 && matches!(op.call, Call::Peek(_));
            let overtaken = if stands_behind {
                skipped(story, shelf, op, select, message, deliveries)
            } else {
                overtaken(story, shelf, &lines, op, select, message)
            };
            if let Some(overtaken) = overtaken {
                blame(story, message, overtaken, op.at, verdict);
            } else if let Some(before) = before.filter(|before| comes_first(message, before, op)) {
                blame(story, before, message, op.at, verdict);
            }
            before = Some(message);
        }
    }
}

/// Returns whether a message still stands in the order of ids: it was not delayed, moved or handed out before.
fn in_line(message: &Message<'_>, delivery: &Delivery, op: &Op<'_>) -> bool {
    let first = u32::from(matches!(op.call, Call::Pop(_)));
    delivery.deliveries <= first && delivery.first_queue.is_none() && message.send.delay_ms == 0
}

/// Returns a message that should have been read before this one, if there is one.
fn overtaken<'s>(
    story: &'s Story<'_>,
    shelf: &Shelf,
    lines: &Lines,
    op: &Op<'_>,
    select: &Select,
    message: &Message<'_>,
) -> Option<&'s Message<'s>> {
    let own = message.send.priority;
    let look = |before: Time| Look { reader: op.account, select, before, until: op.end };
    shelf
        .waiting(look(op.begin.min(message.begun)), |priority| priority == own)
        .or_else(|| shelf.waiting(look(op.begin), |priority| priority > own))
        .or_else(|| lines.overtaken(message, op, select))
        .map(|number| &story.messages[number as usize])
}

/// Returns a message that should have been shown before this one, and that the same PEEK did not show.
fn skipped<'s>(
    story: &'s Story<'s>,
    shelf: &Shelf,
    op: &Op<'_>,
    select: &Select,
    message: &Message<'_>,
    deliveries: &[Delivery],
) -> Option<&'s Message<'s>> {
    let own = message.send.priority;
    let look = |before: Time| Look { reader: op.account, select, before, until: op.end };
    let is_missing = |number: u32| {
        let other = &story.messages[number as usize];
        let shown =
            || deliveries.iter().any(|delivery| other.send.bodies[other.index as usize] == delivery.body);
        other.hidden_from > op.end && !(select.not_own && other.sender == op.account) && !shown()
    };
    shelf
        .waiting_of(look(op.begin.min(message.begun)), |priority| priority == own, is_missing)
        .or_else(|| shelf.waiting_of(look(op.begin), |priority| priority > own, is_missing))
        .map(|number| &story.messages[number as usize])
}

/// Returns whether `message` should have come before `before`, behind which it stands in one answer.
fn comes_first(message: &Message<'_>, before: &Message<'_>, op: &Op<'_>) -> bool {
    let (this, that) = (message.send, before.send);
    this.priority == that.priority && (message.acked < before.begun || is_sent_before(message, before))
        || this.priority > that.priority && message.acked < op.begin
}

/// Returns whether one connection sent both messages to one queue, `message` first. One whose send was given up may have
/// taken effect later.
fn is_sent_before(message: &Message<'_>, other: &Message<'_>) -> bool {
    let line = |message: &Message<'_>| (message.at.client, message.send.queue, message.attempts);
    let place = |message: &Message<'_>| (message.at.number, message.index);
    message.acked < NEVER
        && message.attempts == 1
        && line(message) == line(other)
        && place(message) < place(other)
}

fn blame(story: &Story<'_>, message: &Message<'_>, overtaken: &Message<'_>, read: At, verdict: &mut Verdict) {
    verdict.blame(Rule::E, &[overtaken.at, message.at, read], || {
        format!("{} was read before {}", story.describe(message), story.describe(overtaken))
    });
}
