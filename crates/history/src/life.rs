//! When a queue was created, deleted and purged.

use std::collections::HashMap;

use crate::names::Name;
use crate::operation::{Answer, Call, Outcome};
use crate::story::Op;
use crate::verdict::At;
use crate::{NEVER, Time};

/// What happened to one queue as a whole.
#[derive(Debug, Default)]
pub(crate) struct Life {
    /// Deletions and purges that took place or may have, ordered by begin.
    pub(crate) ends: Vec<End>,
    /// Begin of each creation that took place or may have, in order, with the latest end of all creations up to it.
    creations: Vec<(Time, Time)>,
    /// For each of `ends`, the earliest end among the certain ones that began no earlier.
    certain: Vec<Option<(Time, At)>>,
    /// End of each deletion or purge, in order, with the earliest begin among those that ended no earlier.
    possible: Vec<(Time, Time)>,
}

/// A deletion or a purge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) at: At,
    pub(crate) begin: Time,
    pub(crate) end: Time,
    /// Whether it certainly took place.
    pub(crate) certain: bool,
    /// Whether the queue itself was deleted.
    pub(crate) deletes: bool,
    /// Number of messages that it removed; None if unknown.
    pub(crate) messages: Option<u64>,
}

/// Returns the life of every queue that was created, deleted or purged.
pub(crate) fn lives(ops: &[Op<'_>]) -> HashMap<Name, Life> {
    let mut lives: HashMap<Name, Life> = HashMap::new();
    for op in ops {
        if *op.outcome == Outcome::Fail {
            continue;
        }
        match op.call {
            Call::Create { queue: Some(queue) } => {
                lives.entry(*queue).or_default().creations.push((op.begin, op.end));
            }
            Call::Delete { queue } | Call::Purge { queue } => {
                lives.entry(*queue).or_default().ends.push(End::of(op));
            }
            _ => {}
        }
    }
    lives.values_mut().for_each(Life::finish);
    lives
}

impl End {
    fn of(op: &Op<'_>) -> Self {
        let messages = match op.outcome {
            Outcome::Ok(Answer::Number(messages)) => Some(*messages),
            _ => None,
        };
        let certain = matches!(op.outcome, Outcome::Ok(_));
        let deletes = matches!(op.call, Call::Delete { .. });
        Self { at: op.at, begin: op.begin, end: op.end, certain, deletes, messages }
    }
}

impl Life {
    fn finish(&mut self) {
        self.creations.sort_unstable();
        let mut last = 0;
        for (_, end) in &mut self.creations {
            last = last.max(*end);
            *end = last;
        }
        self.ends.sort_by_key(|end| end.begin);
        let mut first: Option<(Time, At)> = None;
        for end in self.ends.iter().rev() {
            if end.certain && first.is_none_or(|(time, _)| end.end < time) {
                first = Some((end.end, end.at));
            }
            self.certain.push(first);
        }
        self.certain.reverse();
        self.possible = self.ends.iter().map(|end| (end.end, end.begin)).collect();
        self.possible.sort_unstable();
        let mut first = NEVER;
        for (_, begin) in self.possible.iter_mut().rev() {
            first = first.min(*begin);
            *begin = first;
        }
    }

    /// Returns the earliest time at which a message sent after `time` may have gone with a deletion or purge.
    pub(crate) fn ends_from(&self, time: Time) -> Time {
        let after = self.possible.partition_point(|(end, _)| *end < time);
        self.possible.get(after).map_or(NEVER, |(_, begin)| (*begin).max(time))
    }

    /// Returns by when a message that was there at `time` had certainly gone with a deletion or purge, and with which
    /// one.
    pub(crate) fn ended_by(&self, time: Time) -> Option<(Time, At)> {
        let after = self.ends.partition_point(|end| end.begin <= time);
        self.certain.get(after).copied().flatten()
    }

    /// Returns the deletion that had ended before `begin`, unless the queue can have been created anew by `end`.
    pub(crate) fn deleted_before(&self, begin: Time, end: Time) -> Option<At> {
        let earlier = &self.ends[..self.ends.partition_point(|deletion| deletion.begin < begin)];
        let done = |deletion: &&End| deletion.certain && deletion.deletes && deletion.end < begin;
        let last = earlier.iter().rev().find(done)?;
        let creations = &self.creations[..self.creations.partition_point(|created| created.0 < end)];
        let created = creations.last().is_some_and(|(_, end)| *end > last.begin);
        (!created).then_some(last.at)
    }
}
