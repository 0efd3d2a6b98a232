//! Rule E, of ids.

use std::collections::{HashMap, HashSet};

use crate::message::Message;
use crate::operation::{Answer, Call, Outcome};
use crate::story::Story;
use crate::verdict::{Rule, Verdict};

/// **E. Ids.** They grow in the order of time, over all queues; those of one connection to one queue also in its own
/// order, even when its sends were under way at the same time. No two messages have the same id, whether the sender or
/// only a reader was told it, and of messages sent together each has its own.
pub(crate) fn judge(story: &Story<'_>, verdict: &mut Verdict) {
    let all: Vec<_> = story.messages.iter().filter_map(|message| Some((message, message.id?))).collect();
    one_each(story, verdict);
    twice(all.clone(), verdict);
    twice_shown(story, &all, verdict);
    of_connections(&all, verdict);
    in_time(all, verdict);
}

fn twice(mut all: Vec<(&Message<'_>, u64)>, verdict: &mut Verdict) {
    // Of two messages with one id, the one acknowledged later got it the second time.
    all.sort_by_key(|(message, _)| message.acked);
    let mut known: HashMap<u64, &Message<'_>> = HashMap::with_capacity(all.len());
    for (message, id) in all {
        if let Some(other) = known.insert(id, message) {
            verdict.blame(Rule::E, &[other.at, message.at], || format!("id {id} was given to two messages"));
        }
    }
}

/// Judges the ids of messages whose sender was told none, as readers were shown them.
fn twice_shown(story: &Story<'_>, told: &[(&Message<'_>, u64)], verdict: &mut Verdict) {
    let mut known: HashMap<u64, &Message<'_>> = told.iter().map(|(message, id)| (*id, *message)).collect();
    let mut met = HashSet::new();
    for shown in &story.shown {
        let (Some(number), id) = (shown.message, shown.delivery.id) else { continue };
        let message = &story.messages[number as usize];
        if message.id.is_some() || !met.insert((id, number)) {
            continue;
        }
        let other = *known.entry(id).or_insert(message);
        if !std::ptr::eq(other, message) {
            verdict.blame(Rule::E, &[other.at, message.at, story.ops[shown.op].at], || {
                format!("id {id} is that of two messages")
            });
        }
    }
}

fn one_each(story: &Story<'_>, verdict: &mut Verdict) {
    for op in &story.ops {
        if let (Call::Send(send), Outcome::Ok(Answer::Ids(ids))) = (op.call, op.outcome)
            && ids.len() != send.bodies.len()
        {
            verdict.blame(Rule::E, &[op.at], || {
                format!(
                    "{} messages were sent together and answered with {} ids",
                    send.bodies.len(),
                    ids.len()
                )
            });
        }
    }
}

fn of_connections(all: &[(&Message<'_>, u64)], verdict: &mut Verdict) {
    let mut last: HashMap<_, (&Message<'_>, u64)> = HashMap::new();
    // Messages of one connection stand here in its order. One sent twice under a key took effect at one of two places.
    for (message, id) in all.iter().filter(|(message, _)| message.attempts == 1) {
        let before = last.insert((message.at.client, message.send.queue), (message, *id));
        if let Some((earlier, higher)) = before.filter(|(_, higher)| higher > id) {
            backwards((earlier, higher), (message, *id), verdict);
        }
    }
}

fn in_time(mut by_begin: Vec<(&Message<'_>, u64)>, verdict: &mut Verdict) {
    let mut by_end = by_begin.clone();
    by_begin.sort_by_key(|(message, _)| message.begun);
    by_end.sort_by_key(|(message, _)| message.acked);
    let mut ended = by_end.into_iter().peekable();
    let mut highest: Option<(&Message<'_>, u64)> = None;
    for (message, id) in by_begin {
        while let Some(earlier) = ended.next_if(|(earlier, _)| earlier.acked < message.begun) {
            highest = highest.filter(|(_, id)| *id > earlier.1).or(Some(earlier));
        }
        if let Some(earlier) = highest.filter(|(_, higher)| *higher > id) {
            backwards(earlier, (message, id), verdict);
        }
    }
}

fn backwards(earlier: (&Message<'_>, u64), message: (&Message<'_>, u64), verdict: &mut Verdict) {
    let ((earlier, higher), (message, id)) = (earlier, message);
    verdict.blame(Rule::E, &[earlier.at, message.at], || {
        format!("id {id} was given after id {higher}, though ids grow")
    });
}
