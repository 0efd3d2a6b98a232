//! When messages may have been hidden by a pop of unknown outcome.
//!
//! Such a pop may have taken a message and failed before it could commit: the message was hidden for a while and then
//! came back as if nothing had happened. Reads of that time cannot be judged.

use std::collections::HashMap;

use crate::Time;
use crate::names::Name;
use crate::operation::Call;
use crate::story::Op;

/// The times during which pops of unknown outcome may have hidden messages, by queue.
#[derive(Debug, Default)]
pub(crate) struct Limbo {
    queues: HashMap<Name, Spans>,
    /// Times of pops that named no queue.
    anywhere: Spans,
    all: Spans,
}

impl Limbo {
    /// Collects the times of these pops.
    pub(crate) fn of<'a>(pops: impl Iterator<Item = &'a Op<'a>>) -> Self {
        let mut limbo = Self::default();
        for op in pops {
            let Call::Pop(select) = op.call else { continue };
            let span = (op.begin, op.end);
            limbo.all.0.push(span);
            match select.queue {
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
