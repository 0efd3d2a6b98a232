//! When messages may have been hidden by an operation that has not taken them in the end.
//!
//! A pop of unknown outcome may have taken a message and failed before it could commit, and so may a deletion or a purge
//! that gave up: the message was hidden for a while and then came back as if nothing had happened. Reads of that time
//! cannot be judged.

use std::collections::HashMap;

use crate::Time;
use crate::names::Name;
use crate::operation::{Call, Outcome};
use crate::story::Op;

/// The shortest time of a deletion or purge that has hidden messages from a read and then gave up. Reads wait as long
/// for what is about to go.
const GAVE_UP_MIN: Time = 100_000_000;

/// The times during which messages may have been hidden, by queue.
#[derive(Debug, Default)]
pub(crate) struct Limbo {
    queues: HashMap<Name, Spans>,
    /// Times of pops that named no queue.
    anywhere: Spans,
    all: Spans,
}

impl Limbo {
    /// Collects the times of these operations.
    pub(crate) fn of(ops: &[Op<'_>]) -> Self {
        let mut limbo = Self::default();
        for op in ops {
            let queue = match (op.call, op.outcome) {
                // Repeated pops count too: the first attempt may have hidden a message other than the one given in the end.
                (Call::Pop(select), Outcome::Info) => select.queue,
                (Call::Delete { queue } | Call::Purge { queue }, Outcome::Fail)
                    if op.end - op.begin >= GAVE_UP_MIN =>
                {
                    Some(*queue)
                }
                _ => continue,
            };
            let span = (op.begin, op.end);
            limbo.all.0.push(span);
            match queue {
                Some(queue) => limbo.queues.entry(queue).or_default().0.push(span),
                None => limbo.anywhere.0.push(span),
            }
        }
        limbo.queues.values_mut().chain([&mut limbo.anywhere, &mut limbo.all]).for_each(Spans::merge);
        limbo
    }

    /// Returns whether a message of `queue` (None: of any queue) may have been hidden at some time from `begin` to
    /// `end`.
    pub(crate) fn covers(&self, queue: Option<Name>, begin: Time, end: Time) -> bool {
        match queue {
            None => self.all.meet(begin, end),
            Some(queue) => {
                self.anywhere.meet(begin, end)
                    || self.queues.get(&queue).is_some_and(|spans| spans.meet(begin, end))
            }
        }
    }
}

/// Spans of time; once merged, they are in order and disjoint.
#[derive(Debug, Default)]
struct Spans(Vec<(Time, Time)>);

impl Spans {
    fn merge(&mut self) {
        self.0.sort_unstable();
        self.0.dedup_by(|next, kept| {
            let joins = next.0 <= kept.1;
            if joins {
                kept.1 = kept.1.max(next.1);
            }
            joins
        });
    }

    fn meet(&self, begin: Time, end: Time) -> bool {
        let after = self.0.partition_point(|span| span.1 < begin);
        self.0.get(after).is_some_and(|span| span.0 <= end)
    }
}
