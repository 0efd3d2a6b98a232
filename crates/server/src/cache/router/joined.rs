//! Joined gets: the gets of several requests, sent to a server as one command.
//!
//! memcached answers each `get` with a write of its own, but a `get` of many keys with a single one. So a `get` that
//! waits to be sent takes the keys of later gets for the same server along: both sides read and write once for all of
//! them. No get is held back for this: only those that wait to be sent anyway are joined.
//!
//! Between the gets of clients that read and write in turn there are mostly writes of other keys. The gets of a turn
//! are sent before those, so that they can be joined, but never before a command that may concern one of their keys, nor
//! before very many commands. A client that awaits each answer cannot tell, and answers leave in the order of the requests in any case.
//!
//! The server answers hits only, in the order of the keys, so a value for one key tells that the keys before it were
//! missed. No two requests ask for the same key in one command, since a single value would not tell whose it is.

use std::borrow::Cow;

use posthaste_wire::memcached::reply::{self, Piece};
use posthaste_wire::memcached::request::{Request, Verb};

use super::Router;
use super::exchange::Exchange;
use super::lane::{Expected, Purpose, Shape};
use super::replies::Broken;
use crate::cache::limits::{JOINED_BYTES_MAX, READ_BYTES};
use crate::cache::pool::plain_key;
use crate::front::buffers::clear_and_shrink;

/// A set of keys which may seem to have others too: a Bloom filter of 1024 bits with one hash.
#[derive(Default)]
pub(super) struct Keys([u64; 16]);

impl Keys {
    /// The set of all keys.
    pub(super) const ALL: Self = Self([u64::MAX; 16]);

    /// Adds a key.
    pub(super) fn note(&mut self, key: &[u8]) {
        let (word, bit) = Self::place(key);
        self.0[word] |= bit;
    }

    /// Returns whether a key may be in the set.
    pub(super) fn may_have(&self, key: &[u8]) -> bool {
        let (word, bit) = Self::place(key);
        self.0[word] & bit != 0
    }

    /// Returns the word and the bit of a key, by its first and its last bytes, in which keys mostly differ.
    fn place(key: &[u8]) -> (usize, u64) {
        let short = || key.iter().fold(0, |end, byte| end << 8 | u64::from(*byte));
        let first = key.first_chunk().map_or_else(short, |first| u64::from_le_bytes(*first));
        let last = key.last_chunk().map_or(0, |last| u64::from_le_bytes(*last));
        let hash = (first.rotate_left(29) ^ last).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
        ((hash >> 6) as usize, 1 << (hash & 63))
    }
}

/// Gets that wait to be sent, in as few commands as possible.
#[derive(Default)]
pub(super) struct Gets {
    /// The commands.
    bytes: Vec<u8>,
    /// Offset in `bytes` of the last command.
    last: usize,
    /// The keys of the last command.
    keys: Keys,
}

impl Gets {
    /// Returns how many bytes the commands take.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Moves the commands into `output`, at an offset between two of the commands there.
    pub(super) fn move_to(&mut self, output: &mut Vec<u8>, place: usize) {
        let end = output.len();
        output.resize(end + self.bytes.len(), 0);
        output.copy_within(place..end, place + self.bytes.len());
        output[place..place + self.bytes.len()].copy_from_slice(&self.bytes);
        clear_and_shrink(&mut self.bytes, READ_BYTES);
        self.last = 0;
    }

    /// Adds a key to the last command, or begins a command with it if it `is_first`.
    #[inline]
    fn add(&mut self, key: &[u8], is_first: bool) {
        if is_first {
            (self.last, self.keys) = (self.bytes.len(), Keys::default());
            self.bytes.extend_from_slice(b"get");
        } else {
            self.bytes.truncate(self.bytes.len() - b"\r\n".len());
        }
        [b" ", key, b"\r\n"].iter().for_each(|part| self.bytes.extend_from_slice(part));
        self.keys.note(key);
    }

    /// Returns whether the last command asks for a key.
    #[inline]
    fn asks_for(&self, key: &[u8]) -> bool {
        let mut words = self.bytes[self.last..].trim_ascii_end().split(|byte| *byte == b' ');
        self.keys.may_have(key) && words.any(|word| word == key)
    }
}

impl Router {
    /// Asks a server for the keys of a share of a `get`: joined to another get if possible, and ahead of the commands
    /// that wait there, unless these may concern one of the keys.
    pub(super) fn ask_get(&mut self, id: u32, server: usize, share: u16) {
        let lane = &self.lanes[server];
        if lane.has_many_behind() || self.keys_of(id, share).any(|key| lane.keys_behind.may_have(&key)) {
            self.lanes[server].fix_order();
        }
        let is_joined = self.may_join(id, server, share);
        let lane = &mut self.lanes[server];
        if is_joined && let Some(before) = lane.last_get() {
            before.shape = Shape::Joined;
        }
        let mut gets = std::mem::take(&mut lane.gets);
        for (number, key) in self.keys_of(id, share).enumerate() {
            gets.add(&key, !is_joined && number == 0);
        }
        self.lanes[server].gets = gets;
        self.expect_get(id, server, share);
    }

    /// Returns whether the last of the waiting gets for a server has room for the keys of a share and asks for none of
    /// them.
    fn may_join(&self, id: u32, server: usize, share: u16) -> bool {
        let gets = &self.lanes[server].gets;
        let mut bytes = gets.bytes.len() - gets.last;
        bytes > 0
            && self.keys_of(id, share).all(|key| {
                bytes += 1 + key.len();
                bytes <= JOINED_BYTES_MAX && !gets.asks_for(&key)
            })
    }

    /// Returns the reply to which a piece belongs, and ends the joined gets before it, which it settles.
    ///
    /// # Errors
    /// If no reply is expected.
    pub(super) fn next_expected(
        &mut self,
        server: usize,
        piece: Piece,
        bytes: &[u8],
    ) -> Result<Expected, Broken> {
        loop {
            let expected = *self.lanes[server].expected.front().ok_or(Broken)?;
            self.exchanges[expected.exchange].record.note_read(self.reads);
            let Expected { exchange: id, purpose: Purpose::Share(share), shape: Shape::Joined, .. } =
                expected
            else {
                return Ok(expected);
            };
            if !self.is_for_later_get(id, share, piece, bytes) {
                return Ok(expected);
            }
            if reply::is_error(bytes) {
                self.note_error(id, server, bytes);
            }
            self.end_share(id, share);
            self.complete(server, expected);
        }
    }

    /// Returns whether a piece is not for this joined get but for a later one, or, being no value, for all of them.
    fn is_for_later_get(&self, id: u32, share: u16, piece: Piece, bytes: &[u8]) -> bool {
        let Piece::Value { key, .. } = piece else { return bytes == b"END\r\n" || reply::is_error(bytes) };
        let mut keys = self.keys_of(id, share);
        keys.all(|asked| *asked != *key.of(bytes))
    }

    /// Returns the keys of a share that are neither found nor missed so far, as its server knows them.
    fn keys_of(&self, id: u32, share: u16) -> impl Iterator<Item = Cow<'_, [u8]>> {
        let exchange = &self.exchanges[id];
        let route = usize::from(exchange.get.shares[usize::from(share)].route);
        let renaming = &self.table_of(id).routes[route].renaming;
        let places = exchange.get.gather.unsettled(share).iter();
        places.map(move |place| renaming.server_key(exchange.get.keys[*place as usize].of(&exchange.bytes)))
    }
}

/// Adds to `keys` those of a command, before which no `get` of these keys may be sent: none for a client's
/// `get`, one for another client's command with one key, and all keys for any other command (those are few).
pub(super) fn note_keys(keys: &mut Keys, exchange: &Exchange, purpose: Purpose) {
    let is_clients = !exchange.is_own && matches!(purpose, Purpose::Share(_) | Purpose::Request);
    match &exchange.request {
        Some(Request { verb: Verb::Get | Verb::Gets, .. }) if is_clients => {}
        Some(request) if is_clients && request.keys == 1 && !request.verb.is_get() => {
            plain_key(request, &exchange.bytes, |key| keys.note(key));
        }
        _ => *keys = Keys::ALL,
    }
}
