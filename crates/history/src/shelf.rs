//! What certainly stood in the queues, for whom, and for how long: what rules E and F ask.
//!
//! A message stands from its acknowledgement until the first operation that can have touched it began. What was
//! delayed, or came and went in ways that nobody saw, does not stand here.

use std::collections::HashMap;

use crate::message::Message;
use crate::names::Name;
use crate::operation::Select;
use crate::row::{Row, Stand};
use crate::{NEVER, Time};

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
    /// Only messages of this queue.
    pub(crate) queue: Option<Name>,
    /// Only those acknowledged before this.
    pub(crate) before: Time,
    /// Only those that nobody touched until after this.
    pub(crate) until: Time,
}

impl Shelf {
    /// Puts the messages up.
    pub(crate) fn of(messages: &[Message<'_>]) -> Self {
        let mut shelf = Self::default();
        for (number, message) in (0..).zip(messages) {
            if !message.stands() {
                continue;
            }
            let Message { acked, hidden_from: until, sender, .. } = *message;
            let (queue, to, priority) = (message.send.queue, message.send.to, message.send.priority);
            let stand = Stand { until, sender, message: number };
            for (queue, from) in [(Some(queue), None), (Some(queue), Some(sender)), (None, Some(sender))] {
                shelf.rows.entry(Slot { queue, to, from, priority }).or_default().push(acked, stand);
            }
            shelf.priorities.push(priority);
        }
        shelf.rows.values_mut().for_each(Row::finish);
        shelf.priorities.sort_unstable();
        shelf.priorities.dedup();
        shelf
    }

    /// A message of one of these priorities that the read cannot have missed, if there is one.
    pub(crate) fn waiting(&self, look: Look<'_>, priorities: impl Fn(u8) -> bool) -> Option<u32> {
        let Look { reader, select, queue, before, until } = look;
        let not_from = select.not_own.then_some(reader);
        let addressed = (!select.broadcast).then_some(Some(reader));
        let found = |priority| {
            [Some(None), addressed].into_iter().flatten().find_map(|to| {
                let row = self.rows.get(&Slot { queue, to, from: select.from, priority })?;
                let stand = row.longest(row.before(before), not_from)?;
                (stand.until > until).then_some(stand.message)
            })
        };
        self.priorities.iter().copied().filter(|priority| priorities(*priority)).find_map(found)
    }
}

impl Message<'_> {
    /// Whether there is a time in which it certainly stood in its queue for whoever may read it.
    pub(crate) fn stands(&self) -> bool {
        self.acked < NEVER && self.send.delay_ms == 0 && self.hidden_from > self.acked
    }
}
