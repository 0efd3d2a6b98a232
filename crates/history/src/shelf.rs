//! What certainly stood in the queues, for whom, and for how long: what rules E and F ask.
//!
//! A message stands from its acknowledgement until the first operation that can have touched it began. What was delayed
//! stands once its delay is over, and what was given back or whose lease ran out stands again until it is touched the next
//! time: on a shelf of their own, for they keep no order. What came and went in ways that nobody saw does not stand.

use std::collections::HashMap;

use crate::message::Message;
use crate::names::Name;
use crate::operation::{Delivery, Select};
use crate::row::{Row, Stand};
use crate::story::Story;
use crate::{NEVER, Time, millis};

/// Messages that a read with these conditions sees alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Slot {
    /// None: of all queues.
    queue: Option<Name>,
    /// None: for anyone.
    to: Option<Name>,
    /// None: of all senders.
    from: Option<Name>,
    priority: u8,
}

/// All messages, in rows by the time of their acknowledgement.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    rows: HashMap<Slot, Row<Time>>,
    /// Those in use.
    priorities: Vec<u8>,
}

/// A read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look<'a> {
    pub(crate) reader: Name,
    pub(crate) select: &'a Select,
    /// Only those acknowledged before this.
    pub(crate) before: Time,
    /// Only those that nobody touched until after this.
    pub(crate) until: Time,
}

impl Shelf {
    /// Messages that nobody has had yet.
    pub(crate) fn of(messages: &[Message<'_>]) -> Self {
        let mut shelf = Self::default();
        for (number, message) in (0..).zip(messages).filter(|(_, message)| message.stands()) {
            shelf.put(number, message, message.acked, message.hidden_from);
        }
        shelf.finished()
    }

    /// Messages whose delay is over, and those that came back.
    pub(crate) fn of_returned(story: &Story<'_>) -> Self {
        let mut shelf = Self::default();
        for (number, message) in (0..).zip(&story.messages) {
            for (from, until) in returns(story, message) {
                shelf.put(number, message, from, until);
            }
        }
        shelf.finished()
    }

    /// A message that stands from one time to another.
    fn put(&mut self, number: u32, message: &Message<'_>, from: Time, until: Time) {
        let (sender, queue) = (message.sender, message.send.queue);
        let (to, priority) = (message.send.to, message.send.priority);
        let stand = Stand { until, sender, message: number };
        for (queue, sender) in [(Some(queue), None), (Some(queue), Some(sender)), (None, Some(sender))] {
            self.rows.entry(Slot { queue, to, from: sender, priority }).or_default().push(from, stand);
        }
        self.priorities.push(priority);
    }

    fn finished(mut self) -> Self {
        self.rows.values_mut().for_each(Row::finish);
        self.priorities.sort_unstable();
        self.priorities.dedup();
        self
    }

    /// A message of one of these priorities that the read cannot have missed, if there is one.
    pub(crate) fn waiting(&self, look: Look<'_>, priorities: impl Fn(u8) -> bool) -> Option<u32> {
        let Look { reader, select, before, until } = look;
        let not_from = select.not_own.then_some(reader);
        self.rows_for(reader, select, priorities).find_map(|row| {
            let stand = row.longest(row.before(before), not_from)?;
            (stand.until > until).then_some(stand.message)
        })
    }

    /// The same, of those that `counts` says yes to.
    pub(crate) fn waiting_of(
        &self,
        look: Look<'_>,
        priorities: impl Fn(u8) -> bool,
        counts: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let Look { reader, select, before, until } = look;
        let mut rows = self.rows_for(reader, select, priorities);
        rows.find_map(|row| row.back_from(row.before(before), until).find(|number| counts(*number)))
    }

    /// What a reader with these conditions may see.
    fn rows_for(
        &self,
        reader: Name,
        select: &Select,
        priorities: impl Fn(u8) -> bool,
    ) -> impl Iterator<Item = &Row<Time>> {
        let (queue, from) = (select.queue, select.from);
        let addressed = (!select.broadcast).then_some(Some(reader));
        let chosen = self.priorities.iter().copied().filter(move |priority| priorities(*priority));
        chosen
            .flat_map(move |priority| {
                [Some(None), addressed].into_iter().flatten().map(move |to| Slot {
                    queue,
                    to,
                    from,
                    priority,
                })
            })
            .filter_map(|slot| self.rows.get(&slot))
    }
}

impl Message<'_> {
    /// Whether there is a time in which it certainly stood in its queue for whoever may read it.
    pub(crate) fn stands(&self) -> bool {
        self.acked < NEVER && self.send.delay_ms == 0 && self.hidden_from > self.acked
    }
}

/// The times in which a message certainly stood in its queue after a delay, or between two deliveries.
fn returns(story: &Story<'_>, message: &Message<'_>) -> Vec<(Time, Time)> {
    let mut times = Vec::new();
    if message.send.delay_ms > 0 {
        let delayed = message.acked.saturating_add(millis(message.send.delay_ms));
        times.push((delayed.saturating_add(story.timers_late), message.hidden_from));
    }
    let handed = story.handed(message);
    let left = message.left.map(|shown| story.shown[shown].delivery);
    let was_moved = |delivery: &Delivery| delivery.first_queue.is_some();
    if handed.iter().any(|one| was_moved(one.delivery)) || left.is_some_and(was_moved) {
        return Vec::new();
    }
    let next = handed.iter().skip(1).map(|one| (one.delivery.deliveries, story.ops[one.op].begin));
    let last = match left {
        Some(delivery) => (delivery.deliveries + 1, NEVER),
        None => (handed.len() as u32 + 1, message.removed_from),
    };
    for (one, (deliveries, touched)) in handed.iter().zip(next.chain([last])) {
        let Some(lease) = one.lease.filter(|lease| lease.won.is_none()) else { continue };
        // Otherwise somebody had it in between, whose answer was lost.
        if deliveries == one.delivery.deliveries + 1 {
            let back = lease.given_back_by.unwrap_or(lease.over_by.saturating_add(story.timers_late));
            times.push((back, touched.min(message.ends_from)));
        }
    }
    times.retain(|(from, until)| from < until);
    times
}
