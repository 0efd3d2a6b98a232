//! Which messages certainly stood in the queues, for whom and for how long: rules E and F ask this.
//!
//! A message stands from its acknowledgement until the begin of the first operation that can have touched it. On a
//! second shelf, because they keep no order, stand delayed messages once their delay is over, and messages that were
//! given back or whose lease ran out, until they are touched the next time. A message that may have come or gone unseen
//! does not stand.

use std::collections::HashMap;

use crate::message::Message;
use crate::names::Name;
use crate::operation::Select;
use crate::row::{Row, Stand};
use crate::story::Story;
use crate::{NEVER, Time, millis};

/// Messages that a read with these conditions sees alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Slot {
    /// The queue; None: all queues.
    queue: Option<Name>,
    /// The recipient; None: messages for anyone.
    to: Option<Name>,
    /// The sender; None: all senders.
    from: Option<Name>,
    priority: u8,
}

/// All messages, in rows by the time of their acknowledgement.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    rows: HashMap<Slot, Row<Time>>,
    /// The priorities in use; once finished, in order and without duplicates.
    priorities: Vec<u8>,
}

/// A read, with the time in which a message must have stood for the read not to miss it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look<'a> {
    pub(crate) reader: Name,
    pub(crate) select: &'a Select,
    /// Only messages that stood before this time count.
    pub(crate) before: Time,
    /// Only messages that nobody can have touched until after this time count.
    pub(crate) until: Time,
}

impl Shelf {
    /// Builds the shelf of messages that nobody has had yet.
    pub(crate) fn of(messages: &[Message<'_>]) -> Self {
        let mut shelf = Self::default();
        for (number, message) in (0..).zip(messages).filter(|(_, message)| message.stands()) {
            shelf.put(number, message, message.acked, message.hidden_from);
        }
        shelf.finished()
    }

    /// Builds the shelf of messages whose delay is over and of those that came back.
    pub(crate) fn of_returned(story: &Story<'_>) -> Self {
        let mut shelf = Self::default();
        for (number, message) in (0..).zip(&story.messages) {
            for (from, until) in returns(story, message) {
                shelf.put(number, message, from, until);
            }
        }
        shelf.finished()
    }

    /// Adds a message that stands from one time to another.
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

    /// Returns a message of one of these priorities that the read cannot have missed, if there is one.
    pub(crate) fn waiting(&self, look: Look<'_>, priorities: impl Fn(u8) -> bool) -> Option<u32> {
        let Look { reader, select, before, until } = look;
        let not_from = select.not_own.then_some(reader);
        self.rows_for(reader, select, priorities).find_map(|row| {
            let stand = row.longest(row.before(before), not_from)?;
            (stand.until > until).then_some(stand.message)
        })
    }

    /// Returns a message as [`Shelf::waiting`] does, but only one that `counts` accepts.
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

    /// Returns the rows of the messages that a reader with these conditions may see.
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
    /// Returns whether there is a time at which the message certainly stood in its queue, for every reader it is for.
    pub(crate) fn stands(&self) -> bool {
        self.acked < NEVER && self.send.delay_ms == 0 && self.hidden_from > self.acked
    }
}

/// Returns the times during which a message certainly stood in its queue after a delay, or between two deliveries. Of a
/// dead letter nobody saw when it changed its queue.
fn returns(story: &Story<'_>, message: &Message<'_>) -> Vec<(Time, Time)> {
    if message.was_moved {
        return Vec::new();
    }
    let mut times = Vec::new();
    if message.send.delay_ms > 0 {
        let delayed = message.acked.saturating_add(millis(message.send.delay_ms));
        times.push((delayed.saturating_add(story.timers_late), message.hidden_from));
    }
    let handed = story.handed(message);
    let left = message.left.map(|shown| story.shown[shown].delivery);
    let next = handed.iter().skip(1).map(|one| (one.delivery.deliveries, story.ops[one.op].begin));
    let last = match left {
        Some(delivery) => (delivery.deliveries + 1, NEVER),
        None => (handed.len() as u32 + 1, message.removed_from),
    };
    for (one, (deliveries, touched)) in handed.iter().zip(next.chain([last])) {
        let Some(lease) = one.lease.filter(|lease| lease.won.is_none()) else { continue };
        // Otherwise a pop whose answer was lost had it in between.
        if deliveries == one.delivery.deliveries + 1 {
            let back = lease.given_back_by.unwrap_or(lease.over_by.saturating_add(story.timers_late));
            times.push((back, touched.min(message.ends_from)));
        }
    }
    times.retain(|(from, until)| from < until);
    times
}
