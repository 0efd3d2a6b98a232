//! Rule A: no loss.

use std::collections::HashSet;

use super::excuses::{Excuses, Missing};
use crate::delivery::Handed;
use crate::message::{Fate, Message};
use crate::story::Story;
use crate::verdict::{At, Rule, Verdict};
use crate::{Time, millis};

/// **A. No loss.** Every acknowledged message was taken by an answered pop (or an acknowledged lease), or was found by
/// the final drain, or went with its queue, a purge or its time to live. A missing one is excused only by an operation
/// of unknown outcome that could have taken it, and each of those excuses no more messages than it can have taken. One
/// that was seen is stored, whatever its sender was told; messages that were sent together are stored together, so one
/// stands for all.
pub(crate) fn judge(story: &Story<'_>, verdict: &mut Verdict) {
    if !story.whole {
        verdict.undecided.push(Rule::A);
        return;
    }
    let drain = story.ops.iter().filter(|op| op.drain);
    let drained_at = drain.map(|op| op.begin).max().unwrap_or(0).saturating_sub(story.timers_late);
    let seen = sends_seen(story);
    let mut missing = Vec::new();
    for (number, message) in story.messages.iter().enumerate() {
        let was_sent = match message.fate() {
            Fate::Acknowledged => true,
            Fate::InDoubt => seen.contains(&message.at),
            Fate::Refused => false,
        };
        if !was_sent || is_accounted_for(story, message) {
            continue;
        }
        let one = Missing::of(story, number);
        if is_away(story, message, one, drained_at) {
            verdict.counts.excused += 1;
        } else {
            missing.push(one);
        }
    }
    let mut excuses = Excuses::of(story, &missing, drained_at);
    for one in missing {
        if excuses.place(one) {
            verdict.counts.excused += 1;
        } else {
            let message = &story.messages[one.number];
            let what = match message.fate() {
                Fate::Acknowledged => "was acknowledged and is lost",
                _ => "was there, or others that were sent with it, and is lost",
            };
            verdict.blame(Rule::A, &[message.at], || format!("{} {what}", story.describe(message)));
        }
    }
}

/// Returns the sends of unknown outcome of which a message was seen.
fn sends_seen(story: &Story<'_>) -> HashSet<At> {
    let messages = story.shown.iter().filter_map(|shown| Some(&story.messages[shown.message? as usize]));
    messages.filter(|message| message.fate() == Fate::InDoubt).map(|message| message.at).collect()
}

fn is_accounted_for(story: &Story<'_>, message: &Message<'_>) -> bool {
    message.left.is_some() || story.handed(message).iter().any(|one| one.taken_by().is_some())
}

/// Returns whether a message had expired, may have been acknowledged, or was delayed or leased during the drain.
fn is_away(story: &Story<'_>, message: &Message<'_>, missing: Missing, drained_at: Time) -> bool {
    let ttl = message.send.ttl_ms;
    let expired = ttl > 0 && message.begun.saturating_add(millis(ttl)) <= drained_at + story.timers_late;
    let delayed =
        message.send.delay_ms > 0 && message.acked.saturating_add(millis(message.send.delay_ms)) > drained_at;
    let held = last_holders(story, message).filter_map(|one| one.lease).any(|lease| {
        // An acknowledgement did not count if the message was seen after it.
        (lease.maybe_won < Time::MAX && lease.maybe_won_by >= missing.seen)
            || lease
                .given_back_by
                .map_or(lease.over_by > drained_at, |back| back > drained_at + story.timers_late)
    });
    expired || delayed || held
}

/// Returns the last delivery of a message, as all earlier leases were over. Those of dead letters are sorted by time
/// only, so of deliveries at the same time any may be the last.
fn last_holders<'s, 'a>(
    story: &'s Story<'a>,
    message: &Message<'_>,
) -> impl Iterator<Item = &'s Handed<'a>> + use<'s, 'a> {
    let handed = story.handed(message);
    let was_moved = handed.iter().any(|one| one.delivery.first_queue.is_some());
    let since = handed.last().filter(|_| was_moved).map(|last| story.ops[last.op].begin);
    let certain = handed.len().saturating_sub(1);
    handed
        .iter()
        .enumerate()
        .filter(move |(i, one)| *i == certain || since.is_some_and(|since| story.ops[one.op].end >= since))
        .map(|(_, one)| one)
}
