//! Fills: what one server missed and another one has is copied there, with the time it has left to live.
//!
//! A fill is a fetch of its own, which holds the key's claim from before the value is read until it is stored: a write of
//! the key comes before or after, never between. The value is stored only where the key is still absent, and a key that
//! is being written is not filled. A replica that lacks a key which is changed is filled in the same way, from the server
//! that decided.

use std::sync::atomic::Ordering;

use posthaste_wire::memcached::request::{Request, Verb};
use posthaste_wire::span::Span;

use super::exchange::{Destination, MissedBy, Plan, Share, Verdict};
use super::expiry::lasting;
use super::lane::{Purpose, Shape};
use super::writes::hash;
use super::{Router, follow};
use crate::cache::claims::{Claim, ClaimMode};
use crate::cache::flushes::Mark;
use crate::cache::limits;
use crate::cache::pool::plain_key;
use crate::cache::table::{ServingPool, Table};

/// A copy of a value from a server that has it to where it was missed.
#[derive(Clone, Copy)]
struct Fill {
    /// Where the value is stored: in this pool.
    destination: Destination,
    /// The server that has the value.
    source: usize,
    missed_by: MissedBy,
}

/// A value that a server has sent, as another one is to store it.
pub(super) struct ValueToStore<'a> {
    /// The words of an `ms` behind the key.
    pub(super) words: Vec<u8>,
    /// The data with its line end.
    pub(super) data: &'a [u8],
    /// The key, if the server has told how it was stored.
    stored_as: Option<Spelling<'a>>,
}

/// A key as it is written in a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spelling<'a> {
    pub(super) key: &'a [u8],
    /// The flag ` b` if it is written in base64.
    pub(super) base64: &'static [u8],
}

impl<'a> ValueToStore<'a> {
    /// Returns how the key is written, so that the copy tells it to clients as the original does: as it was stored, if
    /// that is the key of this request in whatever spelling, or as in the request.
    pub(super) fn spelling<'b>(&self, request: &Request, bytes: &'b [u8]) -> Spelling<'b>
    where
        'a: 'b,
    {
        let is_same = |stored: &Spelling<'a>| {
            let other = fetch_request(stored.key, !stored.base64.is_empty());
            plain_key(&other, stored.key, |other| plain_key(request, bytes, |key| key == other))
        };
        let requested = Spelling { key: request.key.of(bytes), base64: request.base64_flag() };
        self.stored_as.filter(is_same).unwrap_or(requested)
    }
}

impl Router {
    /// Copies the key of a meta get from `server`, which has it, to where it was missed before, if it was.
    pub(super) fn fill_whole(&mut self, id: u32, server: usize) {
        let exchange = &self.exchanges[id];
        let (Some(request), Some(missed_by)) = (exchange.request, exchange.meta_get.missed_by) else {
            return;
        };
        let key = request.key.of(&exchange.bytes).to_vec();
        self.fill(
            id,
            &key,
            request.base64,
            Fill { destination: exchange.destination, source: server, missed_by },
        );
    }

    /// Copies a key that a share has brought to where it was missed before, if it was.
    pub(super) fn fill_share(&mut self, id: u32, share: Share, key: &[u8]) {
        let Some(missed_by) = share.missed_by else { return };
        let pool = match missed_by {
            MissedBy::Replica(_) => share.pool,
            // The share's pool is where the key was found; the route's, where it was missed.
            _ => self.table_of(id).routes[usize::from(share.route)].pool as u16,
        };
        let destination = Destination { route: share.route, pool, expiry_s: None };
        self.fill(id, key, false, Fill { destination, source: usize::from(share.server), missed_by });
    }

    /// Copies a key to where it was missed, unless the key is claimed or too much is under way.
    fn fill(&mut self, id: u32, key: &[u8], base64: bool, fill: Fill) {
        if let MissedBy::Replica(replica) = fill.missed_by {
            self.servers[usize::from(replica)].health.mark_cold();
        }
        if !self.may_fill_from(id, fill.source) {
            return;
        }
        let request = fetch_request(key, base64);
        if self.receivers(self.table_of(id), fill.destination, fill.missed_by, &request, key).is_empty() {
            return;
        }
        if let Some(claim) =
            plain_key(&request, key, |key| self.fleet.claims.claim_if_free(hash(key), self.number, self.now))
        {
            let mark = self.fleet.flushes.mark(&self.flushes, ClaimMode::Exclusive);
            self.fetch(request, key, fill, claim, mark);
        }
    }

    /// Copies the key of a decision to a replica that lacked it and so could not follow. The copy takes over the claim.
    pub(super) fn fill_follower(&mut self, id: u32) {
        let exchange = &self.exchanges[id];
        let lacks = exchange.write.replies.iter().skip(1).find(|reply| reply.verdict == Verdict::NoEffect);
        let (Some(decider), Some(lacks)) = (exchange.write.replies.first(), lacks) else { return };
        let Some(request) = exchange.request.filter(|request| !request.verb.is_delete()) else { return };
        let (source, missed_by) = (usize::from(decider.server), MissedBy::Replica(lacks.server));
        let understands = self.servers[usize::from(lacks.server)].dialect.is_current();
        if exchange.pending > 0 || !understands || !self.may_fill_from(id, source) {
            return;
        }
        let exchange = &self.exchanges[id];
        let (key, destination) = (request.key.of(&exchange.bytes).to_vec(), exchange.destination);
        if let Some(mark) = self.exchanges[id].mark.take()
            && let Some(claim) = self.take_claim(id)
        {
            let fill = Fill { destination, source, missed_by };
            self.fetch(fetch_request(&key, request.base64), &key, fill, claim, mark);
        }
    }

    /// Returns whether one more value may be fetched now, from this server.
    fn may_fill_from(&mut self, id: u32, server: usize) -> bool {
        let source = &self.servers[server];
        let may_ask = !self.is_crowded(server) && !source.health.is_away() && source.dialect.is_current();
        // By another table, keys may be written without a claim.
        let is_current = self.exchanges[id].table == self.current && self.is_handed_over();
        may_ask && self.fills < limits::FILLS_MAX && is_current
    }

    /// Returns the servers that get a value which was missed: those that are not away, know `ms`, and are not crowded.
    fn receivers(
        &self,
        table: &Table,
        destination: Destination,
        missed_by: MissedBy,
        request: &Request,
        bytes: &[u8],
    ) -> Vec<usize> {
        let pool = &table.pools[usize::from(destination.pool)];
        let mut servers = match missed_by {
            MissedBy::Replica(replica) => vec![usize::from(replica)],
            MissedBy::Pool | MissedBy::SilentPool if pool.is_replicated() => {
                pool.members.iter().map(|member| member.server.slot).collect()
            }
            MissedBy::Pool | MissedBy::SilentPool => {
                vec![plain_key(request, bytes, |key| pool.owner(key).slot)]
            }
        };
        servers.retain(|server| {
            let receiver = &self.servers[*server];
            !receiver.health.is_away() && receiver.dialect.is_current() && !self.is_crowded(*server)
        });
        servers
    }

    /// Fetches a claimed key from its source, to be stored where it was missed.
    fn fetch(&mut self, request: Request, key: &[u8], fill: Fill, claim: Claim, mark: Mark) {
        let id = self.begin_own(Plan::Fetch);
        self.hold_claim(id, claim);
        let exchange = &mut self.exchanges[id];
        (exchange.destination, exchange.request) = (fill.destination, Some(request));
        (exchange.meta_get.missed_by, exchange.mark) = (Some(fill.missed_by), Some(mark));
        exchange.bytes.extend_from_slice(key);
        self.fills += 1;
        follow::fetch(&request, key, &mut self.lanes[fill.source].output);
        self.expect(id, fill.source, Purpose::Request, Shape::Meta);
    }

    /// Stores a value that was fetched from `server` where it was missed, unless it expires now or is to be replaced.
    pub(super) fn store_fetched(&mut self, id: u32, server: usize, reply: &[u8]) {
        if self.give_back_replacement(id, server, reply) {
            self.exchanges[id].plan = Plan::Drain;
            return;
        }
        let Some(value) = value_to_store(reply, self.now_s()) else { return };
        let exchange = &self.exchanges[id];
        if exchange.table != self.current || self.generation != self.fleet.generation() {
            self.exchanges[id].plan = Plan::Drain;
            return;
        }
        let (Some(request), Some(missed_by)) = (exchange.request, exchange.meta_get.missed_by) else {
            return;
        };
        let table = self.table_of(id);
        let pool = usize::from(exchange.destination.pool);
        table.pools[pool].counts.filled.fetch_add(1, Ordering::Relaxed);
        // A stand-in holds it for longer than it would have by what was stored there before.
        let home = table.routes[usize::from(exchange.destination.route)].pool;
        table.prolong(home, ServingPool { pool, expiry_s: None }, self.now);
        for server in self.receivers(table, exchange.destination, missed_by, &request, &exchange.bytes) {
            let output = &mut self.lanes[server].output;
            let Spelling { key, base64 } = value.spelling(&request, &self.exchanges[id].bytes);
            [b"ms ", key, &value.words, base64, b" ME\r\n", value.data]
                .iter()
                .for_each(|part| output.extend_from_slice(part));
            self.expect(id, server, Purpose::Unused, Shape::Meta);
        }
        self.exchanges[id].plan = Plan::Drain;
    }

    /// Gives back the right to replace a value, if `reply` grants it, so that the next reader gets it: a server grants
    /// it once, and the router cannot use it. Returns whether `reply` granted it.
    pub(super) fn give_back_replacement(&mut self, id: u32, server: usize, reply: &[u8]) -> bool {
        let exchange = &self.exchanges[id];
        let (Some(request), Some(token)) = (exchange.request, replacement_token(reply)) else { return false };
        let base64 = request.base64_flag();
        [b"md ", request.key.of(&exchange.bytes), b" I C", token, base64, b"\r\n"]
            .iter()
            .for_each(|part| self.lanes[server].output.extend_from_slice(part));
        self.expect(id, server, Purpose::Unused, Shape::Meta);
        true
    }
}

/// Returns the request of a fetch: its key is all of its bytes.
fn fetch_request(key: &[u8], base64: bool) -> Request {
    let span = Span { start: 0, len: key.len() as u32 };
    Request {
        verb: Verb::MetaGet,
        line: span,
        key: span,
        keys: 1,
        data: Span::default(),
        noreply: None,
        base64,
        quiet: false,
        respell: false,
    }
}

/// Returns the token of `VA bytes fFLAGS tSECONDS cTOKEN … W`, by which its reader alone may replace the value.
fn replacement_token(reply: &[u8]) -> Option<&[u8]> {
    let line = &reply[..memchr::memmem::find(reply, b"\r\n")?];
    let words = || line.split(|byte| *byte == b' ').skip(2);
    words().find(|word| *word == b"W")?;
    words().find_map(|word| word.strip_prefix(b"c"))
}

/// Returns the value of `VA bytes fFLAGS tSECONDS …`. `None`: there is none, or it is about to expire, or a copy would
/// lose its mark: stale (`X`), or empty until the client that has been told to fills it (`Z`).
pub(super) fn value_to_store(reply: &[u8], now_s: u64) -> Option<ValueToStore<'_>> {
    let end = memchr::memmem::find(reply, b"\r\n")?;
    let mut words = reply[..end].split(|byte| *byte == b' ');
    if words.next() != Some(b"VA") {
        return None;
    }
    let length = words.next()?;
    let mut value_words = [b" ", length].concat();
    let mut stored_as = None;
    for word in words {
        match word {
            [b'f', flags @ ..] => value_words.extend([b" F", flags].concat()),
            [b't', b'0'] | b"X" => return None,
            b"Z" if length == b"0" => return None,
            [b'k', key @ ..] => stored_as = Some(Spelling { key, base64: b"" }),
            b"b" => stored_as = stored_as.map(|spelling| Spelling { base64: b" b", ..spelling }),
            // It never expires.
            [b't', b'-', ..] => {}
            [b't', seconds @ ..] => value_words.extend([b" T", &*lasting(seconds, now_s)].concat()),
            _ => {}
        }
    }
    Some(ValueToStore { words: value_words, data: &reply[end + 2..], stored_as })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_has_the_flags_and_the_time_that_it_had() {
        let text = |reply: &str| {
            value_to_store(reply.as_bytes(), 1_800_000_000)
                .map(|value| String::from_utf8([&value.words, value.data].concat()).unwrap())
        };
        assert_eq!(text("VA 2 f7 t30\r\nhi\r\n").as_deref(), Some(" 2 F7 T30hi\r\n"));
        assert_eq!(text("VA 2 f7 t2592000\r\nhi\r\n").as_deref(), Some(" 2 F7 T2592000hi\r\n"));
        assert_eq!(text("VA 2 f7 t2592001\r\nhi\r\n").as_deref(), Some(" 2 F7 T1802592001hi\r\n"));
        // memcached knows no date behind this one.
        for left in ["347483646", "347483647", "347483648", "18446744073709551615"] {
            let date = if left == "347483646" { "2147483646" } else { "2147483647" };
            let stored = text(&format!("VA 2 f7 t{left}\r\nhi\r\n"));
            assert_eq!(stored, Some(format!(" 2 F7 T{date}hi\r\n")), "{left}");
        }
        assert_eq!(text("VA 2 f0 t-1\r\nhi\r\n").as_deref(), Some(" 2 F0hi\r\n"));
        assert_eq!(text("VA 2 f0 t0\r\nhi\r\n"), None);
        assert_eq!(text("VA 2 f0 t30 c7 Z X\r\nhi\r\n"), None);
        assert_eq!(text("VA 0 f0 t30 c7 Z\r\n\r\n"), None);
        assert_eq!(text("VA 2 f0 t30 c7 Z\r\nhi\r\n").as_deref(), Some(" 2 F0 T30hi\r\n"));
        assert_eq!(text("EN\r\n"), None);
    }

    #[test]
    fn what_is_stored_has_the_key_spelled_as_it_was() {
        for (request, stored, spelled) in [
            ("foo", "kfoo", "foo"),
            ("foo", "kZm9v b", "Zm9v b"),
            ("Zm9v b", "kfoo", "foo"),
            ("Zm9v! b", "kZm9v b", "Zm9v b"),
            // It did not tell, or told of another one.
            ("Zm9v b", "c7", "Zm9v b"),
            ("foo", "kbar", "foo"),
            ("foo", "kZm9v", "foo"),
        ] {
            let (key, base64) = request.split_once(' ').unwrap_or((request, ""));
            let reply = format!("VA 2 f7 t30 {stored}\r\nhi\r\n");
            let value = value_to_store(reply.as_bytes(), 0).expect("a value");
            let asked = fetch_request(key.as_bytes(), !base64.is_empty());
            let Spelling { key, base64 } = value.spelling(&asked, key.as_bytes());
            assert_eq!([key, base64].concat(), spelled.as_bytes(), "{request}, {stored}");
        }
    }

    #[test]
    fn the_right_to_replace_a_value_comes_with_a_token() {
        assert_eq!(replacement_token(b"VA 1 f0 t-1 c12 X W\r\nW\r\n"), Some(&b"12"[..]));
        assert_eq!(replacement_token(b"VA 3 f0 t-1 c12 Z X\r\n W \r\n"), None);
        assert_eq!(replacement_token(b"EN\r\n"), None);
    }
}
