//! Sends of one connection take effect in its order, even when they were under way at the same time.

use std::collections::HashMap;

use crate::message::Message;
use crate::names::Name;
use crate::operation::Select;
use crate::row::{Row, Stand};
use crate::story::Op;
use crate::{Time, message};

/// Messages of one connection that every reader sees alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Line {
    client: u32,
    queue: Name,
    to: Option<Name>,
    priority: u8,
}

/// Position of a message in the order of its connection's sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    /// Number of the operation on its connection.
    operation: u32,
    /// Index of the message among those that the operation sent.
    body: u32,
}

/// The messages of all connections, each in the order in which it sent them.
#[derive(Debug, Default)]
pub(super) struct Lines {
    rows: HashMap<Line, Sent>,
}

#[derive(Debug, Default)]
struct Sent {
    row: Row<Position>,
    /// Times of acknowledgement, in the same order, which never fall: answers come in the order of requests.
    acked: Vec<Time>,
}

impl Lines {
    /// Collects all messages but those sent twice under a key, which took effect at one of two places.
    pub(super) fn of(messages: &[Message<'_>]) -> Self {
        let mut lines = Self::default();
        for (number, message) in (0..).zip(messages) {
            if message.attempts == 1 && message.stands() {
                let stand = Stand { until: message.hidden_from, sender: message.sender, message: number };
                let sent = lines.rows.entry(line(message, message.send.to)).or_default();
                sent.row.push(position(message), stand);
                let last = sent.acked.last().copied().unwrap_or(0);
                sent.acked.push(message.acked.max(last));
            }
        }
        lines.rows.values_mut().for_each(|sent| sent.row.finish());
        lines
    }

    /// Returns a message that the same connection sent before `message`, and that the read cannot have missed.
    pub(super) fn overtaken(&self, message: &Message<'_>, op: &Op<'_>, select: &Select) -> Option<u32> {
        let recipients = [Some(None), (!select.broadcast).then_some(Some(op.account))];
        recipients.into_iter().flatten().find_map(|to| {
            let sent = self.rows.get(&line(message, to)).filter(|_| message.attempts == 1)?;
            let sent_before = sent.row.before(position(message));
            let acked_before = sent.acked.partition_point(|acked| *acked < op.begin);
            let stand = sent.row.longest(sent_before.min(acked_before), None)?;
            (stand.until > op.end).then_some(stand.message)
        })
    }
}

fn line(message: &message::Message<'_>, to: Option<Name>) -> Line {
    Line { client: message.at.client, queue: message.send.queue, to, priority: message.send.priority }
}

fn position(message: &Message<'_>) -> Position {
    Position { operation: message.at.number, body: message.index }
}
