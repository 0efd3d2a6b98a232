//! Rule A: no loss.

use super::excuses::Excuses;
use crate::message::{Fate, Message};
use crate::story::Story;
use crate::verdict::{Rule, Verdict};
use crate::{Time, millis};

/// Timers are promised to be at most 200 ms late; a machine that is busy with other things is given more.
const TIMERS_LATE: Time = millis(1000);

/// **A. No loss.** Every acknowledged message was taken by an answered pop (or an acknowledged lease), or was found by the
/// final drain, or went with its queue, a purge or its time to live. A missing one is excused only by an operation of
/// unknown outcome that could have taken it, and each of those excuses no more messages than it can have taken.
pub(crate) fn judge(story: &Story<'_>, verdict: &mut Verdict) {
    if !story.whole {
        verdict.undecided.push(Rule::A);
        return;
    }
    let drain = story.ops.iter().filter(|op| op.drain);
    let drained_at = drain.map(|op| op.begin).max().unwrap_or(0).saturating_sub(TIMERS_LATE);
    let mut excuses = Excuses::of(story, drained_at);
    for (number, message) in story.messages.iter().enumerate() {
        if message.fate() != Fate::Acknowledged || is_accounted_for(story, message) {
            continue;
        }
        if is_away(story, message, drained_at) || excuses.place(story, number) {
            verdict.counts.excused += 1;
        } else {
            verdict.blame(Rule::A, &[message.at], || {
                format!("{} was acknowledged and is lost", story.describe(message))
            });
        }
    }
}

fn is_accounted_for(story: &Story<'_>, message: &Message<'_>) -> bool {
    message.left.is_some() || story.handed(message).iter().any(|one| one.taken_by().is_some())
}

/// Whether it had expired, was acknowledged for all that one knows, or was not to be seen yet.
fn is_away(story: &Story<'_>, message: &Message<'_>, drained_at: Time) -> bool {
    let ttl = message.send.ttl_ms;
    let expired = ttl > 0 && message.begun.saturating_add(millis(ttl)) <= drained_at + TIMERS_LATE;
    let delayed =
        message.send.delay_ms > 0 && message.acked.saturating_add(millis(message.send.delay_ms)) > drained_at;
    let leased = story.handed(message).iter().filter_map(|one| one.lease);
    let held = leased.into_iter().any(|lease| lease.maybe_won < Time::MAX || lease.over_by > drained_at);
    expired || delayed || held
}
