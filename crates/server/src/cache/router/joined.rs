//! Gets of several requests in one command.
//!
//! memcached writes the answer to each `get` by itself, but that to a `get` of many keys at once. So a `get` of one key that
//! stands unsent at the end of a lane takes the keys of those behind it along: both sides read and write once for all of
//! them. Nothing overtakes anything, and nothing waits: keys are joined only while they wait to be sent anyway.
//!
//! The server answers hits only, in the order of the keys, so a value for one key tells that those before it are missed.
//! No key stands twice in a command, for then a single value would not say whose it is.

use std::sync::atomic::Ordering;

use posthaste_wire::memcached::reply::{self, Piece};

use super::Router;
use super::lane::{Expected, Shape};
use super::replies::Broken;
use crate::cache::limits::JOINED_BYTES_MAX;

impl Router {
    /// Has the key of a share of one be asked for by the `get` before it. False: there is none that could.
    pub(super) fn join_get(&mut self, id: u32, server: usize, share: u16) -> bool {
        let key = self.key_of(id, share);
        let lane = &self.lanes[server];
        let get = lane.last_get.clone();
        let is_last = get.end == lane.output.len() && !get.is_empty();
        if !is_last || get.len() + 1 + key.len() > JOINED_BYTES_MAX {
            return false;
        }
        let mut words = lane.output[get.clone()].trim_ascii_end().split(|byte| *byte == b' ');
        if words.any(|word| word == key) {
            return false;
        }
        let mut output = std::mem::take(&mut self.lanes[server].output);
        output.truncate(get.end - b"\r\n".len());
        [b" ", self.key_of(id, share), b"\r\n"].iter().for_each(|part| output.extend_from_slice(part));
        let lane = &mut self.lanes[server];
        (lane.last_get, lane.output) = (get.start..output.len(), output);
        if let Some(before) = lane.expected.back_mut() {
            before.shape = Shape::Joined;
        }
        self.servers[server].counts.keys.fetch_add(1, Ordering::Relaxed);
        self.expect(id, server, share, Shape::Values);
        true
    }

    /// Whose reply a piece belongs to. Of joined gets those are done that it tells to be missed.
    ///
    /// # Errors
    /// Nobody waits for it.
    pub(super) fn next_expected(
        &mut self,
        server: usize,
        piece: Piece,
        bytes: &[u8],
    ) -> Result<Expected, Broken> {
        loop {
            let expected = *self.lanes[server].expected.front().ok_or(Broken)?;
            if expected.shape != Shape::Joined || !self.tells_of_later(expected, piece, bytes) {
                return Ok(expected);
            }
            self.exchanges[expected.exchange as usize].note_read(self.reads);
            if reply::is_error(bytes) {
                self.note_error(expected.exchange, server, bytes);
            }
            self.end_share(expected.exchange, expected.part);
            self.complete(server, expected);
        }
    }

    /// Whether a piece is not for this joined get but for one behind it, or for all of them.
    fn tells_of_later(&self, expected: Expected, piece: Piece, bytes: &[u8]) -> bool {
        match piece {
            Piece::Value { key, .. } => key.of(bytes) != self.key_of(expected.exchange, expected.part),
            _ => bytes == b"END\r\n" || reply::is_error(bytes),
        }
    }

    /// The key of a share that has one, as its server knows it.
    fn key_of(&self, id: u32, share: u16) -> &[u8] {
        let exchange = &self.exchanges[id as usize];
        let route = usize::from(exchange.shares[usize::from(share)].route);
        let strip = self.table_of(id).routes[route].strip;
        let place = exchange.gather.keys(share).first().copied().unwrap_or_default();
        &exchange.keys[place as usize].of(&exchange.bytes)[strip..]
    }
}
