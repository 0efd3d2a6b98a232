//! Gets of several requests in one command.
//!
//! memcached writes the answer to each `get` by itself, but that to a `get` of many keys at once. So a `get` that stands
//! unsent at the end of a lane takes the keys of those behind it along: both sides read and write once for all of them.
//! Nothing overtakes anything, and nothing waits: keys are joined only while they wait to be sent anyway.
//!
//! The server answers hits only, in the order of the keys, so a value for one key tells that those before it are missed.
//! No two requests ask for the same key in one command, for then a single value would not say whose it is.

use std::borrow::Cow;
use std::ops::Range;

use posthaste_wire::memcached::reply::{self, Piece};

use super::Router;
use super::lane::{Expected, Shape};
use super::replies::Broken;
use crate::cache::limits::JOINED_BYTES_MAX;

/// The `get` that was written to a lane last.
#[derive(Default)]
pub(super) struct LastGet {
    /// Where it stands there.
    bytes: Range<usize>,
    /// A bit for each of its keys, so that most others are known not to be among them.
    keys: [u64; 4],
}

impl LastGet {
    fn note(&mut self, key: &[u8]) {
        let (word, bit) = place(key);
        self.keys[word] |= bit;
    }

    fn asks_for(&self, key: &[u8], output: &[u8]) -> bool {
        let (word, bit) = place(key);
        let mut words = output[self.bytes.clone()].trim_ascii_end().split(|byte| *byte == b' ');
        self.keys[word] & bit != 0 && words.any(|word| word == key)
    }
}

/// The bit of a key: by its end, in which keys mostly differ.
fn place(key: &[u8]) -> (usize, u64) {
    let end = match key.last_chunk() {
        Some(end) => u64::from_le_bytes(*end),
        None => key.iter().fold(0, |end, byte| end << 8 | u64::from(*byte)),
    };
    let hash = end.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
    ((hash >> 6) as usize, 1 << (hash & 63))
}

impl Router {
    /// The `get` of a share was written to the end of a lane, from `start` on.
    pub(super) fn note_get(&mut self, id: u32, server: usize, share: u16, start: usize) {
        let mut get = LastGet { bytes: start..self.lanes[server].output.len(), ..LastGet::default() };
        self.keys_of(id, share).for_each(|key| get.note(&key));
        self.lanes[server].last_get = get;
    }

    /// Has the keys of a share be asked for by the `get` before it. False: there is none that could.
    pub(super) fn join_get(&mut self, id: u32, server: usize, share: u16) -> bool {
        let lane = &self.lanes[server];
        let get = &lane.last_get;
        if get.bytes.is_empty() || get.bytes.end != lane.output.len() {
            return false;
        }
        let mut bytes = get.bytes.len();
        for key in self.keys_of(id, share) {
            bytes += 1 + key.len();
            if bytes > JOINED_BYTES_MAX || get.asks_for(&key, &lane.output) {
                return false;
            }
        }
        let lane = &mut self.lanes[server];
        let (mut output, mut get) = (std::mem::take(&mut lane.output), std::mem::take(&mut lane.last_get));
        output.truncate(get.bytes.end - b"\r\n".len());
        for key in self.keys_of(id, share) {
            output.push(b' ');
            output.extend_from_slice(&key);
            get.note(&key);
        }
        output.extend_from_slice(b"\r\n");
        get.bytes.end = output.len();
        let lane = &mut self.lanes[server];
        (lane.last_get, lane.output) = (get, output);
        if let Some(before) = lane.expected.back_mut() {
            before.shape = Shape::Joined;
        }
        true
    }

    /// Whose reply a piece belongs to. Of joined gets those are done whose other keys it tells to be missed.
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
            self.exchanges[expected.exchange as usize].note_read(self.reads);
            if expected.shape != Shape::Joined || !self.tells_of_later(expected, piece, bytes) {
                return Ok(expected);
            }
            if reply::is_error(bytes) {
                self.note_error(expected.exchange, server, bytes);
            }
            self.end_share(expected.exchange, expected.part);
            self.complete(server, expected);
        }
    }

    /// Whether a piece is not for this joined get but for one behind it, or for all of them.
    fn tells_of_later(&self, expected: Expected, piece: Piece, bytes: &[u8]) -> bool {
        let Piece::Value { key, .. } = piece else { return bytes == b"END\r\n" || reply::is_error(bytes) };
        let mut keys = self.keys_of(expected.exchange, expected.part);
        keys.all(|asked| *asked != *key.of(bytes))
    }

    /// The keys of a share that are not settled, as its server knows them.
    fn keys_of(&self, id: u32, share: u16) -> impl Iterator<Item = Cow<'_, [u8]>> {
        let exchange = &self.exchanges[id as usize];
        let route = usize::from(exchange.shares[usize::from(share)].route);
        let renaming = &self.table_of(id).routes[route].renaming;
        let places = exchange.gather.unsettled(share).iter();
        places.map(move |place| renaming.server_key(exchange.keys[*place as usize].of(&exchange.bytes)))
    }
}
