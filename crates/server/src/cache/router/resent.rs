//! Writes that were never sent. If a server is lost before any of the commands that wait for it was sent, it has done
//! none of them: such a write goes to the servers that take its key now, and its client does not notice.
//!
//! Nothing is stored for this: a lane keeps its commands until they are sent, and the requests are decoded from these.

use posthaste_wire::memcached::decode::{Decoded, Limits, decode};
use posthaste_wire::memcached::request::Request;
use posthaste_wire::span::Span;

use super::Router;
use super::exchange::Plan;
use super::lane::{Lane, Shape};
use super::writes::{claim_mode, is_write, kept};
use crate::cache::pool::plain_key;

/// Limits for decoding what is written to lanes: it was understood, and within its real limits, when it came.
const LIMITS: Limits = Limits { value_bytes: usize::MAX / 2, line_bytes: usize::MAX / 2 };

/// A command that was never sent.
#[derive(Clone, Copy)]
pub(super) struct UnsentCommand<'a> {
    pub(super) request: Request,
    bytes: &'a [u8],
}

/// The commands of a lane, in their order, if none of them was sent.
pub(super) struct UnsentCommands<'a>(&'a [u8]);

impl<'a> UnsentCommands<'a> {
    pub(super) fn of(lane: &'a Lane) -> Self {
        Self(if lane.owes { b"" } else { &lane.output })
    }

    /// Returns the next command, given the shape of its reply. `None`: a joined get, which shares the next one.
    pub(super) fn next(&mut self, shape: Shape) -> Option<UnsentCommand<'a>> {
        // It is in one command with the expected reply behind it.
        if shape == Shape::Joined {
            return None;
        }
        let Decoded::Request(request, end) = decode(self.0, &LIMITS) else {
            self.0 = b"";
            return None;
        };
        let (bytes, rest) = self.0.split_at(end);
        self.0 = if shape == Shape::Quiet { rest.strip_prefix(b"mn\r\n").unwrap_or_default() } else { rest };
        Some(UnsentCommand { request, bytes })
    }
}

impl Router {
    /// Sends a command that never left, if it is a write, to the servers that take its key now. Returns whether it did.
    pub(super) fn send_elsewhere(&mut self, id: u32, unsent: UnsentCommand<'_>) -> bool {
        let UnsentCommand { request, bytes: command } = unsent;
        let exchange = &self.exchanges[id];
        let is_settled = exchange.is_answered || exchange.is_own || exchange.table != self.current;
        // A command to every server has no key that another server could take.
        let is_write_of_key = request.keys > 0 && is_write(&request);
        if is_settled || !is_write_of_key || !self.can_be_taken_elsewhere(id, &request, command) {
            return false;
        }
        let (mode, route) = (claim_mode(&request, command), usize::from(exchange.destination.route));
        if self.is_foreign(route, &request, command) {
            return false;
        }
        let (claim, destination) = if exchange.claim.is_some() {
            (None, self.destination(route, &request, command))
        } else if !self.is_handed_over() {
            return false;
        } else {
            self.claim(route, &request, command, mode)
                .map_or((None, None), |(claim, destination)| (Some(claim), Some(destination)))
        };
        let Some(destination) = destination else { return false };
        if let Some(claim) = claim {
            self.hold_claim(id, claim);
            self.note_mark(id, mode);
        }
        let exchange = &mut self.exchanges[id];
        exchange.destination = destination;
        // `noreply` is not in the command, but a client that asked so still gets no answer.
        let noreply = exchange.request.and_then(|asked| asked.noreply);
        let noreply = noreply.map(|_| Span { start: request.line.len, len: 0 });
        let request = Request { noreply, ..request };
        exchange.request = Some(request);
        exchange.bytes.clear();
        exchange.bytes.extend_from_slice(&command[..kept(&request, mode)]);
        self.send_write(id, &request, command, mode);
        true
    }

    /// Returns whether no server that was asked for a write can still do it, and one that was not asked can take it.
    fn can_be_taken_elsewhere(&self, id: u32, request: &Request, command: &[u8]) -> bool {
        let (exchange, table) = (&self.exchanges[id], self.table());
        let pool = usize::from(exchange.destination.pool);
        let home = table.routes[usize::from(exchange.destination.route)].pool;
        plain_key(request, command, |key| {
            let has_stand_in = || table.stand_in(home, key).is_some();
            match exchange.plan {
                Plan::Relay => has_stand_in(),
                Plan::Decide => has_stand_in() || table.decider(pool, key).health.is_in_rotation(),
                Plan::FanOut => {
                    let mut is_any_in_rotation = false;
                    table.each_copy(pool, key, &mut |server| {
                        is_any_in_rotation |= server.health.is_in_rotation()
                    });
                    exchange.write.replies.is_empty() && !is_any_in_rotation && has_stand_in()
                }
                _ => false,
            }
        })
    }
}
