//! Rule H, of the depth of queues.

use std::collections::{HashMap, HashSet};

use crate::message::Fate;
use crate::names::Name;
use crate::operation::{Answer, Call, Outcome};
use crate::story::{Op, Story};
use crate::verdict::{Rule, Verdict};
use crate::{NEVER, Time};

/// **H. Counters, depth.** The number of messages that a queue says it holds lies between those that were certainly
/// there all through the question and those that can have been there at some time of it. When nothing is under way the
/// two are the same. A deletion or a purge takes no more than can have been there. (That it tells of all it took is
/// rule A.)
pub(crate) fn judge(story: &Story<'_>, verdict: &mut Verdict) {
    let mut figures: HashMap<Name, Figures> = HashMap::new();
    for (op, queue, _) in readings(story) {
        if op.end < story.known_until {
            figures.entry(queue).or_default();
        }
    }
    for queue in dead_letter_queues(story) {
        figures.remove(&queue);
    }
    for message in &story.messages {
        if let Some(figures) = figures.get_mut(&message.send.queue) {
            figures.come.push(message.there_by);
            let refused = message.fate() == Fate::Refused;
            figures.come_possibly.push(if refused { NEVER } else { message.begun });
            let certain = message.there_by < NEVER;
            figures.gone_possibly.push(if certain { message.removed_from } else { NEVER });
            figures.gone.push(message.removed_by);
        }
    }
    figures.values_mut().for_each(Figures::finish);
    for (op, queue, depth) in readings(story) {
        let Some(figures) = figures.get(&queue).filter(|_| op.end < story.known_until) else { continue };
        let wipes = !matches!(op.call, Call::Info { .. });
        verdict.counts.figures_judged += u64::from(!wipes);
        let hidden = story.limbo.covers(Some(queue), op.begin, op.end);
        let least = if hidden || wipes { 0 } else { figures.least(op.begin, op.end) };
        let most = figures.most(op.begin, op.end);
        if !(least..=most).contains(&depth) {
            verdict.blame(Rule::H, &[op.at], || {
                let (queue, says) = (story.names.word(queue), if wipes { "it held" } else { "it holds" });
                format!("queue {queue} says {says} {depth} messages, where there are {least} to {most}")
            });
        }
    }
}

/// Every QINFO, QDELETE and QPURGE that was answered: its queue and how many messages it says there are, or were.
fn readings<'s>(story: &'s Story<'_>) -> impl Iterator<Item = (&'s Op<'s>, Name, u64)> {
    story.ops.iter().filter_map(|op| match (op.call, op.outcome) {
        (Call::Info { queue }, Outcome::Ok(Answer::Depth(depth))) => Some((op, *queue, *depth)),
        (Call::Delete { queue } | Call::Purge { queue }, Outcome::Ok(Answer::Number(messages))) => {
            Some((op, *queue, *messages))
        }
        _ => None,
    })
}

/// Returns the queues that dead letters were moved to: nobody saw when, so their depth is not judged.
fn dead_letter_queues(story: &Story<'_>) -> HashSet<Name> {
    let moved = story.shown.iter().filter(|shown| shown.delivery.first_queue.is_some());
    moved.map(|shown| shown.delivery.queue).collect()
}

/// Times at which messages certainly or possibly came to a queue and left it, each list in order.
#[derive(Default)]
struct Figures {
    come: Vec<Time>,
    come_possibly: Vec<Time>,
    gone_possibly: Vec<Time>,
    gone: Vec<Time>,
}

impl Figures {
    fn finish(&mut self) {
        for times in [&mut self.come, &mut self.come_possibly, &mut self.gone_possibly, &mut self.gone] {
            times.sort_unstable();
        }
    }

    fn least(&self, begin: Time, end: Time) -> u64 {
        before(&self.come, begin).saturating_sub(before(&self.gone_possibly, end))
    }

    fn most(&self, begin: Time, end: Time) -> u64 {
        before(&self.come_possibly, end).saturating_sub(before(&self.gone, begin))
    }
}

fn before(times: &[Time], time: Time) -> u64 {
    times.partition_point(|at| *at < time) as u64
}
