//! A lane is the way to one server: what is to be sent to it, and which replies are to come.
//!
//! Commands are written one behind the other and sent together, and each adds an expected reply to a line. A server
//! answers in order, so its order tells to which request each reply belongs.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use posthaste_wire::memcached::request::Verb;

use super::joined::{Gets, Keys, note_keys};
use super::{Router, follow};
use crate::cache::deletion::Deletion;
use crate::cache::limits;
use crate::front::buffers::clear_and_shrink;

/// What the reply to a command looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// One line, of these words or an error.
    Line(Words),
    /// Values and END.
    Values,
    /// Values without an END: the next expected reply belongs to the same command, see `joined.rs`.
    Joined,
    /// A line, or a value.
    Meta,
    /// A line, a value or nothing, and then MN: a quiet command has an `mn` sent after it.
    Quiet,
}

/// The words of which a command's reply is one, if it is no error: any other line answers another command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Words {
    /// To commands that store.
    Stored,
    /// To a deletion.
    Deleted,
    /// To a new expiry.
    Touched,
    /// To arithmetic.
    Number,
    /// To a flush.
    Done,
}

impl Words {
    /// The words for a command with this classic verb.
    pub(super) fn of(verb: Verb) -> Self {
        match verb {
            Verb::Delete => Self::Deleted,
            Verb::Touch => Self::Touched,
            Verb::Incr | Verb::Decr => Self::Number,
            Verb::FlushAll => Self::Done,
            _ => Self::Stored,
        }
    }

    /// Returns whether a line is one of them.
    pub(super) fn contain(self, line: &[u8]) -> bool {
        match self {
            Self::Stored => {
                matches!(line, b"STORED\r\n" | b"NOT_STORED\r\n" | b"EXISTS\r\n" | b"NOT_FOUND\r\n")
            }
            Self::Deleted => matches!(line, b"DELETED\r\n" | b"NOT_FOUND\r\n"),
            Self::Touched => matches!(line, b"TOUCHED\r\n" | b"NOT_FOUND\r\n"),
            Self::Number => matches!(line, [b'0'..=b'9', ..] | b"NOT_FOUND\r\n"),
            Self::Done => line == b"OK\r\n",
        }
    }
}

/// What the reply to a command is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// One share of a get, by its number in the exchange.
    Share(u16),
    /// A request of any other kind: all of it, or what one copy does of it.
    Request,
    /// What the decider holds now, for the other copies to hold the same.
    Outcome,
    /// Nothing: the reply is not used.
    Unused,
}

/// A reply that is to come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    pub(super) exchange: u32,
    pub(super) purpose: Purpose,
    pub(super) shape: Shape,
    /// When the command was asked.
    pub(super) since: u64,
}

/// How far the commands of a lane have been sent since it was last empty.
///
/// It is cut while a command may have been sent in part. What waited behind that command when it was cut is sent with the
/// rest of it.
#[derive(Default)]
struct Sending {
    /// How many commands were added.
    added: usize,
    /// How many bytes at the front of the output are the rest of a cut; 0: it is not cut.
    cut_bytes: usize,
    /// How many commands were added since the cut.
    added_since_cut: usize,
}

impl Sending {
    fn is_cut(&self) -> bool {
        self.cut_bytes > 0
    }

    fn note_added(&mut self) {
        self.added += 1;
        self.added_since_cut += 1;
    }

    /// Notes that a command was cut, when so many bytes were left of it and of those behind it.
    fn cut(&mut self, left: usize) {
        (self.cut_bytes, self.added_since_cut) = (left, 0);
    }

    /// Notes that so many bytes were sent, and so many are left.
    fn note_sent(&mut self, bytes: usize, left: usize) {
        if left == 0 {
            *self = Self::default();
        } else if bytes > self.cut_bytes {
            self.cut(left);
        } else if bytes == self.cut_bytes && self.is_cut() {
            // What is left was added later, and nothing of it was sent.
            *self = Self { added: self.added_since_cut, ..Self::default() };
        } else {
            self.cut_bytes -= bytes;
        }
    }

    /// Notes that the server may get the first `bytes` of those that are `left`, although they were not counted as sent.
    fn note_pending(&mut self, bytes: usize, left: usize) {
        if bytes > self.cut_bytes {
            self.cut(left);
        }
    }
}

/// The way to one server.
#[derive(Default)]
pub(super) struct Lane {
    pub(super) output: Vec<u8>,
    /// Gets that are not in `output` yet, so that others can be joined to them: see `joined.rs`.
    pub(super) gets: Gets,
    /// Offset in `output` at which the joined gets are inserted.
    gets_offset: usize,
    /// How many of the `expected` replies are for commands behind that offset, and which keys those commands concern.
    expected_behind: usize,
    pub(super) keys_behind: Keys,
    pub(super) expected: VecDeque<Expected>,
    /// Whether the server may have been sent something that it has not answered.
    pub(super) owes: bool,
    sending: Sending,
    /// Whether this thread is counted among the server's users.
    pub(super) is_user: bool,
    /// Whether the lane is counted among the router's crowded ones.
    is_crowded: bool,
}

impl Lane {
    /// How many bytes are to be sent.
    fn unsent_bytes(&self) -> usize {
        self.output.len() + self.gets.len()
    }

    /// Fixes the order of what waits to be sent: gets that are asked from now on go behind it.
    pub(super) fn fix_order(&mut self) {
        if self.gets.len() > 0 {
            self.gets.move_to(&mut self.output, self.gets_offset);
        }
        self.place_gets_last();
    }

    /// Drops what is still to be sent if no reply is to come: the rest of a value that the server has refused, of no use
    /// to another connection.
    fn drop_rest_of_refused(&mut self) {
        if self.expected.is_empty() {
            (self.owes, self.sending) = (false, Sending::default());
            self.output.clear();
            self.place_gets_last();
        }
    }

    fn place_gets_last(&mut self) {
        (self.gets_offset, self.expected_behind, self.keys_behind) = (self.output.len(), 0, Keys::default());
    }

    /// Returns whether so many commands wait behind the gets that no more gets go before them.
    pub(super) fn has_many_behind(&self) -> bool {
        self.expected_behind >= limits::OVERTAKEN_MAX
    }

    /// Returns the expected reply to the last of the gets to which others can still be joined.
    pub(super) fn last_get(&mut self) -> Option<&mut Expected> {
        let place = self.expected.len().checked_sub(self.expected_behind + 1)?;
        self.expected.get_mut(place)
    }
}

impl Router {
    /// Returns what is to be sent to a server, in its final order.
    #[must_use]
    pub fn unsent(&mut self, server: usize) -> &[u8] {
        let lane = &mut self.lanes[server];
        lane.fix_order();
        &lane.output
    }

    /// Returns the first part of what is to be sent to a server: the rest of a command that was sent in part, and the
    /// commands that waited behind it then.
    #[must_use]
    pub fn rest_of_cut(&self, server: usize) -> &[u8] {
        let lane = &self.lanes[server];
        &lane.output[..lane.sending.cut_bytes]
    }

    /// Notes that sending to a server begins: from now on it is unknown how much of its commands the server has.
    pub fn note_sending(&mut self, server: usize) {
        self.lanes[server].owes = true;
    }

    /// Returns whether a server may have been sent something that it has not answered.
    #[must_use]
    pub fn owes(&self, server: usize) -> bool {
        self.lanes[server].owes
    }

    /// Returns whether a server was sent whole commands and has answered them all: what waits can use another connection.
    #[must_use]
    pub fn is_caught_up(&self, server: usize) -> bool {
        let lane = &self.lanes[server];
        !lane.sending.is_cut() && lane.expected.len() <= lane.sending.added
    }

    /// Returns whether a command to a server was sent in part.
    #[must_use]
    pub fn is_cut(&self, server: usize) -> bool {
        self.lanes[server].sending.is_cut()
    }

    /// Notes that a new connection gets all that waits for a server, since no reply is to come over the old one.
    pub fn note_new_connection(&mut self, server: usize) {
        self.lanes[server].owes = false;
    }

    /// Notes that the first `bytes` of what waits for a server were sent.
    pub fn sent(&mut self, server: usize, bytes: usize) {
        let lane = &mut self.lanes[server];
        lane.fix_order();
        let Lane { output, owes, expected, sending, .. } = lane;
        *owes |= bytes > 0;
        sending.note_sent(bytes, output.len() - bytes);
        if bytes == output.len() {
            clear_and_shrink(output, limits::READ_BYTES);
            *owes &= !expected.is_empty();
        } else {
            output.drain(..bytes);
        }
        lane.place_gets_last();
        self.count_if_crowded(server);
    }

    /// Notes that the server may get the first `bytes` of what waits for it although they were not counted as sent.
    pub fn note_pending(&mut self, server: usize, bytes: usize) {
        let Lane { output, sending, .. } = &mut self.lanes[server];
        sending.note_pending(bytes, output.len());
    }

    /// Stamps every request asked so far, and not stamped yet, as sent at this time.
    pub fn stamp_sent(&mut self, sent: u64) {
        for id in self.unstamped.drain(..) {
            let stamps = &mut self.exchanges[id].record.stamps;
            if stamps.sent == 0 {
                stamps.sent = sent;
            }
        }
    }

    /// Returns when the command was asked whose reply is the next to come from a server.
    #[must_use]
    pub fn waiting_since(&self, server: usize) -> Option<u64> {
        self.lanes[server].expected.front().map(|expected| expected.since)
    }

    /// How many replies are to come from a server.
    #[must_use]
    pub fn expected(&self, server: usize) -> usize {
        self.lanes[server].expected.len()
    }

    /// Returns whether any server is crowded. That is rare, so only then is it found out whether a request leads to that
    /// server.
    pub(super) fn is_any_crowded(&self) -> bool {
        self.crowded > 0
    }

    /// Counts a server among the crowded ones, or no more, after what is to be sent to it has changed.
    fn count_if_crowded(&mut self, server: usize) {
        let is_crowded = self.is_crowded(server);
        if std::mem::replace(&mut self.lanes[server].is_crowded, is_crowded) != is_crowded {
            self.crowded = if is_crowded { self.crowded + 1 } else { self.crowded - 1 };
        }
    }

    /// Takes all that is to be sent to a server and is to come from it, in its final order.
    pub(super) fn take_lane(&mut self, server: usize) -> Lane {
        let mut lane = std::mem::take(&mut self.lanes[server]);
        self.crowded -= usize::from(lane.is_crowded);
        lane.fix_order();
        lane
    }

    /// Returns whether a request for this key of a route may lead to a crowded server.
    pub(super) fn leads_to_crowded(&self, route: usize, key: &[u8]) -> bool {
        let table = self.table();
        table.leads_to(table.routes[route].pool, key, |server| self.is_crowded(server))
    }

    /// Returns whether a server is crowded: it has so much to be sent that requests for it must wait.
    pub(super) fn is_crowded(&self, server: usize) -> bool {
        self.lanes[server].unsent_bytes() > limits::LANE_BYTES_PAUSE
    }

    /// Returns whether a server owes as many replies over its connection as it may.
    pub(super) fn is_full(&self, server: usize) -> bool {
        self.lanes[server].expected.len() >= self.servers[server].limits.depth()
    }

    /// Expects the reply to a command that was just written to a server's lane. From now on this thread counts as a
    /// user of the server, though nothing is sent yet: a lost one stays away while this thread has anything for it.
    pub(super) fn expect(&mut self, id: u32, server: usize, purpose: Purpose, shape: Shape) {
        let lane = &mut self.lanes[server];
        lane.expected_behind += 1;
        note_keys(&mut lane.keys_behind, &self.exchanges[id], purpose);
        let place = lane.expected.len();
        self.expect_at(place, server, Expected { exchange: id, purpose, shape, since: self.now });
    }

    /// Expects the reply to a `get` that was just added to a lane's `gets`: before those to commands behind them.
    pub(super) fn expect_get(&mut self, id: u32, server: usize, share: u16) {
        let lane = &self.lanes[server];
        let place = lane.expected.len().saturating_sub(lane.expected_behind);
        let purpose = Purpose::Share(share);
        let expected = Expected { exchange: id, purpose, shape: Shape::Values, since: self.now };
        self.expect_at(place, server, expected);
    }

    fn expect_at(&mut self, place: usize, server: usize, expected: Expected) {
        let (lane, target) = (&mut self.lanes[server], &self.servers[server]);
        if !std::mem::replace(&mut lane.is_user, true) {
            target.health.add_user();
        }
        lane.sending.note_added();
        lane.expected.insert(place, expected);
        target.counts.requests.fetch_add(1, Ordering::Relaxed);
        self.exchanges[expected.exchange].pending += 1;
        self.count_if_crowded(server);
    }

    /// Notes that a server's connection was closed or is left alone for now: this thread is no user of it any more, and
    /// what of a command it was not sent is dropped if no reply is to come.
    pub fn release_server(&mut self, server: usize) {
        self.lanes[server].drop_rest_of_refused();
        self.count_if_crowded(server);
        if std::mem::take(&mut self.lanes[server].is_user) {
            self.servers[server].health.remove_user();
        }
    }

    /// Deletes the key of an exchange on a server: now, or before it takes part again.
    pub(super) fn delete(&mut self, id: u32, server: usize) {
        let Some(request) = self.exchanges[id].request else { return };
        if self.note_if_missed(id, server) {
            return;
        }
        let exchange = &self.exchanges[id];
        let deletion = Deletion::of(request.key.of(&exchange.bytes), request.base64);
        if deletion.concerns(&self.servers[server].dialect) {
            let shape = follow::write_deletion(&deletion, &mut self.lanes[server].output);
            self.expect(id, server, Purpose::Unused, shape);
        }
    }
}
