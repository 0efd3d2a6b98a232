//! Writes that never left. A server that is found to be gone before anything of what waits for it was sent has done nothing of
//! it: such a write goes to whoever takes its key now, and its client does not learn of the loss.
//!
//! Nothing is kept for that. The commands of a lane stand there until they are sent, and what they are is read from them.

use posthaste_wire::memcached::decode::{Decoded, Limits, decode};
use posthaste_wire::memcached::request::Request;
use posthaste_wire::span::Span;

use super::Router;
use super::exchange::Plan;
use super::lane::{Lane, Shape};
use super::writes::{decides, is_write, kept};
use crate::cache::limits::LINE_BYTES_MAX;
use crate::cache::pool::plain_key;

/// What is written to lanes was understood, and within its limits, when it came.
const LIMITS: Limits = Limits { value_bytes: usize::MAX / 2, line_bytes: LINE_BYTES_MAX };

/// The commands of a lane, in their order, if none of them was sent.
pub(super) struct Unsent<'a>(&'a [u8]);

impl<'a> Unsent<'a> {
    pub(super) fn of(lane: &'a Lane) -> Self {
        Self(if lane.owes { b"" } else { &lane.output })
    }

    /// The next one, whose reply was to look so.
    pub(super) fn next(&mut self, shape: Shape) -> Option<(Request, &'a [u8])> {
        // It is in one command with the one behind it.
        if shape == Shape::Joined {
            return None;
        }
        let Decoded::Request(request, end) = decode(self.0, &LIMITS) else {
            self.0 = b"";
            return None;
        };
        let (command, rest) = self.0.split_at(end);
        self.0 = if shape == Shape::Quiet { rest.strip_prefix(b"mn\r\n").unwrap_or_default() } else { rest };
        Some((request, command))
    }
}

impl Router {
    /// Sends a write that never left to whoever takes its key now. False: it is none, or nobody does.
    pub(super) fn send_elsewhere(&mut self, id: u32, request: Request, command: &[u8]) -> bool {
        let exchange = &self.exchanges[id as usize];
        let is_settled = exchange.done || exchange.is_own || exchange.table != self.current;
        // What every server is told has no key that somebody else could take.
        let is_for_key = request.keys > 0;
        if is_settled || !is_for_key || !is_write(&request) || !self.is_nobodys(id, &request, command) {
            return false;
        }
        let (decides, route) = (decides(&request, command), usize::from(exchange.aim.route));
        if self.is_foreign(route, &request, command) {
            return false;
        }
        let (claim, aim) = if exchange.claim.is_some() {
            (None, self.aim(route, &request, command))
        } else {
            self.claim(route, &request, command, decides)
                .map_or((None, None), |(claim, aim)| (Some(claim), Some(aim)))
        };
        let Some(aim) = aim else { return false };
        let exchange = self.exchange(id);
        if claim.is_some() {
            exchange.claim = claim;
            self.note_mark(id, decides);
        }
        let exchange = self.exchange(id);
        exchange.aim = aim;
        // It is not sent with it, but whoever asked so is still not answered.
        let noreply = exchange.request.and_then(|asked| asked.noreply);
        let noreply = noreply.map(|_| Span { start: request.line.len, len: 0 });
        let request = Request { noreply, ..request };
        exchange.request = Some(request);
        exchange.bytes.clear();
        exchange.bytes.extend_from_slice(&command[..kept(&request, decides)]);
        self.carry_out(id, &request, command, decides);
        true
    }

    /// Whether the server that is gone was the last that could have taken a write, and another one, which can, has not been asked.
    fn is_nobodys(&self, id: u32, request: &Request, command: &[u8]) -> bool {
        let (exchange, table) = (&self.exchanges[id as usize], self.table());
        let pool = usize::from(exchange.aim.pool);
        let home = table.routes[usize::from(exchange.aim.route)].pool;
        plain_key(request, command, |key| {
            let has_stand_in = || table.stand_in(home, key).is_some();
            match exchange.plan {
                Plan::Relay => has_stand_in(),
                Plan::Decide => has_stand_in() || table.decider(pool, key).health.is_live(),
                Plan::Fan => {
                    let mut is_any_live = false;
                    table.each_copy(pool, key, &mut |server| is_any_live |= server.health.is_live());
                    exchange.replies.is_empty() && !is_any_live && has_stand_in()
                }
                _ => false,
            }
        })
    }
}
