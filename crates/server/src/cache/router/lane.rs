//! The way to one server: what is to be sent to it, and which replies are to come.
//!
//! Commands are written one behind the other and leave together; each has a place in the line of those whose reply is
//! waited for. A server answers in order, so that line is all that is needed to know whose a reply is.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use super::joined::{Gets, Keys, note_concerned};
use super::{Router, follow};
use crate::cache::deletion::Deletion;
use crate::cache::limits;
use crate::front::buffers::empty;

/// How the reply to a command looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// One line.
    Line,
    /// Values and END.
    Values,
    /// Values: the next keys were asked for in the same command, see `joined.rs`.
    Joined,
    /// A line, or a value.
    Meta,
    /// The same or nothing, and MN: a quiet command has an `mn` sent after it.
    Quiet,
}

/// A reply that is to come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    pub(super) exchange: u32,
    pub(super) part: u16,
    pub(super) shape: Shape,
    pub(super) since: u64,
}

/// The part of a command whose reply nobody waits to read.
pub(super) const ASIDE: u16 = u16::MAX;

/// The part of a command that asks what the one before it has left, for the others to hold the same.
pub(super) const OUTCOME: u16 = ASIDE - 1;

/// The way to one server.
#[derive(Default)]
pub(super) struct Lane {
    pub(super) output: Vec<u8>,
    /// Gets that are to go into it: see `joined.rs`.
    pub(super) gets: Gets,
    /// Where: before them nothing else is sent later.
    gets_go: usize,
    /// How many of those expected are for commands behind that place, and what these concern.
    behind: usize,
    pub(super) concerned: Keys,
    pub(super) expected: VecDeque<Expected>,
    /// Some of what waits may have been sent.
    pub(super) owes: bool,
    /// How many of those expected were asked for since all was sent, and whether some of that was sent since.
    pub(super) fresh: usize,
    pub(super) is_cut: bool,
    /// Bytes of commands that waited when one was last sent in part: the rest of that and some behind it; and how many commands
    /// were asked for since.
    pub(super) begun: usize,
    pub(super) later: usize,
    /// This thread is counted among the server's users.
    pub(super) used: bool,
}

impl Lane {
    /// What waits to be sent stays in this order: gets that are asked from now on go behind it.
    pub(super) fn close(&mut self) {
        if self.gets.len() > 0 {
            self.gets.move_to(&mut self.output, self.gets_go);
        }
        self.gets_go_last();
    }

    fn gets_go_last(&mut self) {
        (self.gets_go, self.behind, self.concerned) = (self.output.len(), 0, Keys::default());
    }

    /// The reply that is to come for the last of the gets that may still be joined.
    pub(super) fn last_get(&mut self) -> Option<&mut Expected> {
        let place = self.expected.len().checked_sub(self.behind + 1)?;
        self.expected.get_mut(place)
    }
}

impl Router {
    /// What a server has to be sent, in the order in which it is.
    #[must_use]
    pub fn unsent(&mut self, server: usize) -> &[u8] {
        let lane = &mut self.lanes[server];
        lane.close();
        &lane.output
    }

    /// Of what is to be sent to a server, the rest of a command that was sent in part, and what waited behind it then. It ends where a
    /// command does.
    #[must_use]
    pub fn begun(&self, server: usize) -> &[u8] {
        let lane = &self.lanes[server];
        &lane.output[..lane.begun]
    }

    /// Something is being sent to a server: from now on nobody knows what of it is there.
    pub fn sends(&mut self, server: usize) {
        self.lanes[server].owes = true;
    }

    /// Whether a server may have something that it has not answered.
    #[must_use]
    pub fn owes(&self, server: usize) -> bool {
        self.lanes[server].owes
    }

    /// Whether a server has answered all that it was sent, and has been sent whole commands: what waits can go another way.
    #[must_use]
    pub fn is_even(&self, server: usize) -> bool {
        let lane = &self.lanes[server];
        !lane.is_cut && lane.expected.len() <= lane.fresh
    }

    /// Whether a command to a server was sent in part.
    #[must_use]
    pub fn is_cut(&self, server: usize) -> bool {
        self.lanes[server].is_cut
    }

    /// A connection over which nothing is to come is given up for another one, which gets all that waits.
    pub fn begins_anew(&mut self, server: usize) {
        self.lanes[server].owes = false;
    }

    /// So many bytes were sent to a server.
    pub fn sent(&mut self, server: usize, bytes: usize) {
        self.lanes[server].close();
        let Lane { output, owes, expected, fresh, is_cut, begun, later, .. } = &mut self.lanes[server];
        *owes |= bytes > 0;
        *is_cut |= bytes > 0;
        if bytes == output.len() {
            (*fresh, *is_cut, *begun, *later) = (0, false, 0, 0);
            empty(output, limits::READ_BYTES);
            *owes &= !expected.is_empty();
        } else {
            output.drain(..bytes);
            if bytes < *begun {
                *begun -= bytes;
            } else if bytes == *begun && bytes > 0 {
                // What is left was asked for later, and nothing of it was sent.
                (*fresh, *is_cut, *begun, *later) = (*later, false, 0, 0);
            } else if bytes > 0 {
                (*begun, *later) = (output.len(), 0);
            }
        }
        self.lanes[server].gets_go_last();
    }

    /// Everything asked so far is on its way to the servers.
    pub fn stamp_sent(&mut self, sent: u64) {
        for id in self.unsent.drain(..) {
            let stamps = &mut self.exchanges[id as usize].stamps;
            if stamps.sent == 0 {
                stamps.sent = sent;
            }
        }
    }

    /// When the command was asked whose reply is to come next from a server.
    #[must_use]
    pub fn waiting_since(&self, server: usize) -> Option<u64> {
        self.lanes[server].expected.front().map(|expected| expected.since)
    }

    /// How many replies are to come from a server.
    #[must_use]
    pub fn expected(&self, server: usize) -> usize {
        self.lanes[server].expected.len()
    }

    /// Whether a server of the present table has so much to be sent that clients of some pool should wait: seldom. Only then it is
    /// asked of whose.
    pub(super) fn is_any_crowded(&self) -> bool {
        self.table().in_use().iter().any(|server| self.is_crowded(*server))
    }

    /// Whether a request for this key of a route may lead to a server that has so much to be sent.
    pub(super) fn leads_to_crowded(&self, route: usize, key: &[u8]) -> bool {
        let table = self.table();
        table.leads_to(table.routes[route].pool, key, |server| self.is_crowded(server))
    }

    /// Whether a server has so much to be sent that its clients should wait.
    pub(super) fn is_crowded(&self, server: usize) -> bool {
        let lane = &self.lanes[server];
        lane.output.len() + lane.gets.len() > limits::LANE_BYTES_PAUSE
    }

    /// Whether a server owes as many answers over its connection as it may.
    pub(super) fn is_full(&self, server: usize) -> bool {
        self.lanes[server].expected.len() >= self.servers[server].patience.depth()
    }

    /// A command for this exchange was written to a server's lane: its reply will come. From now on the server has us as
    /// its user, though nothing is sent yet: it does not come back before what we have for it is done or given up.
    pub(super) fn expect(&mut self, id: u32, server: usize, part: u16, shape: Shape) {
        let lane = &mut self.lanes[server];
        lane.behind += 1;
        note_concerned(&mut lane.concerned, &self.exchanges[id as usize], part);
        let place = lane.expected.len();
        self.expect_at(place, server, Expected { exchange: id, part, shape, since: self.now });
    }

    /// The same for the last of the gets.
    pub(super) fn expect_get(&mut self, id: u32, server: usize, share: u16) {
        let lane = &self.lanes[server];
        let place = lane.expected.len().saturating_sub(lane.behind);
        let expected = Expected { exchange: id, part: share, shape: Shape::Values, since: self.now };
        self.expect_at(place, server, expected);
    }

    fn expect_at(&mut self, place: usize, server: usize, expected: Expected) {
        let (lane, its) = (&mut self.lanes[server], &self.servers[server]);
        if !std::mem::replace(&mut lane.used, true) {
            its.health.enter();
        }
        (lane.fresh, lane.later) = (lane.fresh + 1, lane.later + 1);
        lane.expected.insert(place, expected);
        its.counts.requests.fetch_add(1, Ordering::Relaxed);
        self.exchanges[expected.exchange as usize].pending += 1;
    }

    /// A server's connection was closed, or is left alone for now, with nothing to come over it. The rest of a value that it
    /// refused is of no use to the next one.
    pub fn let_go(&mut self, server: usize) {
        let lane = &mut self.lanes[server];
        if lane.expected.is_empty() {
            (lane.owes, lane.fresh, lane.is_cut, lane.begun, lane.later) = (false, 0, false, 0, 0);
            lane.output.clear();
            lane.gets_go_last();
        }
        if std::mem::take(&mut self.lanes[server].used) {
            self.servers[server].health.leave();
        }
    }

    /// Deletes the key of an exchange on a server: now, or before it takes part again.
    pub(super) fn delete(&mut self, id: u32, server: usize) {
        let Some(request) = self.exchanges[id as usize].request.filter(|_| self.receives(id, server)) else {
            return;
        };
        let exchange = &self.exchanges[id as usize];
        let deletion = Deletion::of(request.key.of(&exchange.bytes), request.base64);
        if deletion.concerns(&self.servers[server].dialect) {
            let shape = follow::written(&deletion, &mut self.lanes[server].output);
            self.expect(id, server, ASIDE, shape);
        }
    }
}
