//! When messages may have been hidden by a pop of which nobody knows how it ended.
//!
//! Such a pop may have taken a message and died before it could keep it: then the message was away for a while and
//! comes back as if nothing had been. Reads of that time cannot be judged.

use std::collections::HashMap;

use crate::Time;
use crate::names::Name;
use crate::operation::Call;
use crate::story::Op;

/// Times by queue.
#[derive(Debug, Default)]
pub(crate) struct Limbo {
    queues: HashMap<Name, Spans>,
    /// Of pops that named no queue.
    anywhere: Spans,
    all: Spans,
}

impl Limbo {
    /// Of these pops.
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

    /// Whether something of `queue` (None: of any) may have been hidden at some time from `begin` to `end`.
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

/// Spans of time; merged: in order and apart.
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
