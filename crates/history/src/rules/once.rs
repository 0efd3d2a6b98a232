//! Rule C: each message to one.

use std::collections::HashMap;

use crate::delivery::Handed;
use crate::message::Message;
use crate::operation::Call;
use crate::story::{Shown, Story};
use crate::verdict::{Rule, Verdict};

/// **C. Exactly once.** At most one answered pop takes a message for good, over all middlewares and restarts. A leased
/// message is with nobody else until its lease has ended or it was given back; each time it is handed out counts one
/// more delivery; and it is acknowledged once. Neither a message that was taken nor a dead letter is found in its queue
/// in the end. No answer shows a message twice.
pub(crate) fn judge(story: &Story<'_>, verdict: &mut Verdict) {
    for message in &story.messages {
        let handed = story.handed(message);
        for pair in handed.windows(2) {
            let operations = [message.at, story.ops[pair[0].op].at, story.ops[pair[1].op].at];
            if pair[0].delivery.id != pair[1].delivery.id {
                verdict.blame(Rule::G, &operations, || {
                    format!("{} was sent again under its key and is there twice", story.describe(message))
                });
            } else if let Some(what) = clash(story, &pair[0], &pair[1]) {
                verdict.blame(Rule::C, &operations, || format!("{} {what}", story.describe(message)));
            }
        }
        still_there(story, message, verdict);
    }
    left_twice(story, verdict);
    left_in_two_queues(story, verdict);
    shown_twice(story, verdict);
}

/// Returns what is wrong with `second` following `first` as a delivery of the same message.
fn clash(story: &Story<'_>, first: &Handed<'_>, second: &Handed<'_>) -> Option<&'static str> {
    let dead_letter = first.delivery.first_queue.is_some() || second.delivery.first_queue.is_some();
    let numbered_alike = first.delivery.deliveries == second.delivery.deliveries;
    let second_op = &story.ops[second.op];
    match first.taken_by() {
        Some(_) if first.lease.is_none() => Some("was popped twice"),
        Some(ack) if story.ops[ack].begin > second_op.end => {
            Some("was acknowledged under a lease that had ended, when somebody else held it")
        }
        Some(_) => Some("was acknowledged and handed out again"),
        None if first.held().is_some_and(|held| story.ops[held].begin > second_op.end) => {
            Some("was extended or given back under a lease that had ended, when somebody else held it")
        }
        None if second_op.end < first.free_from() => Some("was handed out again while its lease lasted"),
        None if numbered_alike && !dead_letter => Some("was handed out twice as the same delivery"),
        None => None,
    }
}

fn still_there(story: &Story<'_>, message: &Message<'_>, verdict: &mut Verdict) {
    let Some(left) = message.left.map(|shown| &story.ops[story.shown[shown].op]) else { return };
    let taken = story.handed(message).iter().find_map(Handed::taken_by).map(|op| &story.ops[op]);
    if let Some(taken) = taken.filter(|taken| taken.end < left.begin) {
        verdict.blame(Rule::C, &[message.at, taken.at, left.at], || {
            format!("{} was taken and is still in its queue", story.describe(message))
        });
    }
}

/// Returns the messages that the final drain found in queues.
fn left<'s, 'a>(story: &'s Story<'a>) -> impl Iterator<Item = (u32, &'s Shown<'a>)> {
    let browsed = story.shown.iter().filter(|shown| matches!(story.ops[shown.op].call, Call::Browse { .. }));
    browsed.filter_map(|shown| Some((shown.message?, shown)))
}

/// Judges that a message which was sent once is not left under two ids.
fn left_twice(story: &Story<'_>, verdict: &mut Verdict) {
    let mut known: HashMap<u32, &Shown<'_>> = HashMap::new();
    for (number, shown) in left(story) {
        let first = *known.entry(number).or_insert(shown);
        if first.delivery.id != shown.delivery.id {
            let message = &story.messages[number as usize];
            verdict.blame(Rule::G, &[message.at, story.ops[shown.op].at], || {
                let (this, that) = (first.delivery.id, shown.delivery.id);
                format!("{} is left twice, as {this} and {that}", story.describe(message))
            });
        }
    }
}

/// Judges that a message left as a dead letter is not left in its own queue too: during the drain nothing moves it back
/// any more. (A dead letter in any other queue breaks rule B.)
fn left_in_two_queues(story: &Story<'_>, verdict: &mut Verdict) {
    let is_dead = |shown: &Shown<'_>| shown.delivery.first_queue.is_some();
    let mut dead: HashMap<u32, &Shown<'_>> = HashMap::new();
    for (number, shown) in left(story).filter(|(_, shown)| is_dead(shown)) {
        let first = dead.entry(number).or_insert(shown);
        if story.ops[shown.op].end < story.ops[first.op].end {
            *first = shown;
        }
    }
    for (number, shown) in left(story).filter(|(_, shown)| !is_dead(shown)) {
        let is_later = |dead: &&Shown<'_>| story.ops[dead.op].end < story.ops[shown.op].begin;
        if let Some(first) = dead.get(&number).copied().filter(is_later) {
            dead.remove(&number);
            let message = &story.messages[number as usize];
            let operations = [message.at, story.ops[first.op].at, story.ops[shown.op].at];
            verdict.blame(Rule::C, &operations, || {
                format!("{} is left as a dead letter and in its own queue too", story.describe(message))
            });
        }
    }
}

fn shown_twice(story: &Story<'_>, verdict: &mut Verdict) {
    for answer in story.shown.chunk_by(|a, b| a.op == b.op).filter(|answer| answer.len() > 1) {
        let mut ids: Vec<u64> = answer.iter().map(|shown| shown.delivery.id).collect();
        ids.sort_unstable();
        if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            verdict.blame(Rule::C, &[story.ops[answer[0].op].at], || {
                format!("message {} stands twice in one answer", pair[0])
            });
        }
    }
}
