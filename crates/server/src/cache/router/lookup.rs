//! Lookups: keys that one server missed are asked of another one, and copied with the time they have left to live.
//!
//! The other server is in a second pool, or it is another replica if the first one came back and may lack keys. Either
//! way the client is answered with what is found there. Where the key was missed it is filled by a separate fetch,
//! which holds the key's claim from before the value is read until it is stored: a write of the key comes before or
//! after, never between. The value is stored only where the key is still absent, and a key that is being written is not
//! filled. A replica that lacks a key which is changed is filled in the same way, from the server that decided.
//!
//! Looked up are `get`, `gat`, and `mg` as far as any copy can answer. What needs the deciding server (`gets`, tokens,
//! leases) asks that one alone.

use std::sync::atomic::Ordering;

use posthaste_wire::memcached::request::{Request, Verb};
use posthaste_wire::span::Span;

use super::exchange::{Destination, MissedBy, Plan, Share, Verdict};
use super::expiry::lasting;
use super::lane::{Purpose, Shape};
use super::writes::{decides, hash};
use super::{Router, follow};
use crate::cache::claims::{Claim, ClaimMode};
use crate::cache::flushes::Mark;
use crate::cache::layout::Source;
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
    /// Returns whether what a get misses in this pool is looked up in a second one.
    pub(super) fn has_source(&self, id: u32, pool: usize, verb: Verb) -> bool {
        can_look_up(verb) && self.table_of(id).pools[pool].source.is_some()
    }

    /// The second pool in which the misses of this pool are looked up: of a route's own pool alone, not of a stand-in.
    fn source(&self, id: u32, route: u16, pool: usize) -> Option<Source> {
        let table = self.table_of(id);
        let is_own = table.routes[usize::from(route)].pool == pool;
        table.pools[pool].source.filter(|_| is_own)
    }

    /// Returns whether what this server of a pool misses is looked up elsewhere: in a second pool, or on another replica.
    fn falls_through(&self, id: u32, route: u16, pool: usize, server: usize, verb: Verb) -> bool {
        let repairs = || self.table_of(id).pools[pool].repairs(&self.servers[server]);
        can_look_up(verb) && (self.source(id, route, pool).is_some() || repairs())
    }

    /// Makes the shares of a get from number `first` on collect their misses, if these are to be looked up elsewhere.
    pub(super) fn collect_misses(&mut self, id: u32, first: usize, verb: Verb) {
        for number in first..self.exchanges[id].get.shares.len() {
            let share = self.exchanges[id].get.shares[number];
            if self.share_falls_through(id, share, verb) {
                self.exchanges[id].get.gather.collect_misses(number as u16);
            }
        }
    }

    /// Notes that what waits for a server goes over a new connection, perhaps to a new address or a new process where the
    /// server is empty: what the waiting gets miss there is looked up elsewhere, as if they were asked now.
    pub fn recheck_lookups(&mut self, server: usize) {
        let waiting = self.lanes[server].expected.iter();
        let waiting: Vec<_> = waiting.map(|expected| (expected.exchange, expected.purpose)).collect();
        for (id, purpose) in waiting {
            let exchange = &self.exchanges[id];
            match purpose {
                Purpose::Share(number) => {
                    let verb = exchange.request.map_or(Verb::Get, |request| request.verb);
                    let share = exchange.get.shares[usize::from(number)];
                    if self.share_falls_through(id, share, verb) {
                        self.exchanges[id].get.gather.collect_misses(number);
                    }
                }
                Purpose::Request if exchange.plan == Plan::Relay => {
                    let falls_through = self.whole_falls_through(id, server);
                    self.exchanges[id].meta_get.falls_through |= falls_through;
                }
                _ => {}
            }
        }
    }

    fn share_falls_through(&self, id: u32, share: Share, verb: Verb) -> bool {
        let (pool, server) = (usize::from(share.pool), usize::from(share.server));
        !is_final_miss(share.missed_by) && self.falls_through(id, share.route, pool, server, verb)
    }

    /// Returns whether what this server misses of a meta get that it is asked for is looked up elsewhere.
    pub(super) fn whole_falls_through(&self, id: u32, server: usize) -> bool {
        let exchange = &self.exchanges[id];
        let any_may_answer = |request: &Request| !decides(request, &exchange.bytes);
        let Some(request) = exchange.request.filter(any_may_answer) else { return false };
        let pool = self.asked_pool(id);
        !is_final_miss(exchange.meta_get.missed_by)
            && self.falls_through(id, exchange.destination.route, pool, server, request.verb)
    }

    /// Returns the pool in which a meta get is looked up now.
    fn asked_pool(&self, id: u32) -> usize {
        let exchange = &self.exchanges[id];
        let pool = usize::from(exchange.destination.pool);
        let is_in_second = matches!(exchange.meta_get.missed_by, Some(MissedBy::Pool | MissedBy::SilentPool));
        let second = self.source(id, exchange.destination.route, pool).filter(|_| is_in_second);
        second.map_or(pool, Source::pool)
    }

    /// Looks up these keys, which a share missed, in the second pool or on another replica.
    pub(super) fn look_up(&mut self, id: u32, share: Share, places: &[u32]) {
        if self.source(id, share.route, usize::from(share.pool)).is_some() {
            return self.look_up_in_source(id, share, places, MissedBy::Pool);
        }
        let pool = &self.table_of(id).pools[usize::from(share.pool)];
        let Some(other) = pool.other_replica(usize::from(share.server)).map(|other| other.slot as u16) else {
            return self.miss(id, share, places);
        };
        pool.counts.looked_up.fetch_add(places.len() as u64, Ordering::Relaxed);
        self.servers[usize::from(share.server)].health.count_cache_misses(places.len() as u32);
        let missed_by = Some(MissedBy::Replica(share.server));
        let exchange = &mut self.exchanges[id];
        let number = exchange.get.open_share(Share { server: other, missed_by, ..share });
        places.iter().for_each(|place| exchange.get.gather.assign(*place, number));
        self.send_share(id, number);
    }

    /// Looks up these keys of a share in the pool's source, the second pool.
    pub(super) fn look_up_in_source(&mut self, id: u32, share: Share, places: &[u32], missed_by: MissedBy) {
        let first = self.exchanges[id].get.shares.len();
        let exchange = &mut self.exchanges[id];
        let table = &self.tables[usize::from(exchange.table)].table;
        let own = &table.pools[usize::from(share.pool)];
        let Some(source) = own.source else { return };
        own.counts.looked_up.fetch_add(places.len() as u64, Ordering::Relaxed);
        let pool = &table.pools[source.pool()];
        let renaming = &table.routes[usize::from(share.route)].renaming;
        let lanes = &self.lanes;
        for place in places {
            let key = renaming.server_key(exchange.get.keys[*place as usize].of(&exchange.bytes));
            let free = pool.is_replicated() && !pool.reads_owner();
            let load = |slot: usize| lanes[slot].expected.len();
            let server = if free && first == exchange.get.shares.len() {
                pool.reader(load)
            } else {
                pool.owner_to_read(&key)
            };
            let known = exchange.get.shares[first..]
                .iter()
                .position(|known| free || usize::from(known.server) == server.slot);
            let number = known.map_or_else(
                || {
                    let second = Share {
                        server: server.slot as u16,
                        pool: source.pool() as u16,
                        missed_by: Some(missed_by),
                        ..share
                    };
                    exchange.get.open_share(second)
                },
                |known| (first + known) as u16,
            );
            exchange.get.gather.assign(*place, number);
        }
        let verb = exchange.request.map_or(Verb::Get, |request| request.verb);
        self.collect_misses(id, first, verb);
        for number in first..self.exchanges[id].get.shares.len() {
            self.send_share(id, number as u16);
        }
    }

    /// Looks up elsewhere, if possible, the key of a meta get that `missed` has missed (`None`: no server could be
    /// asked). Returns whether it does.
    pub(super) fn look_up_whole(&mut self, id: u32, missed: Option<usize>) -> bool {
        let exchange = &self.exchanges[id];
        let Some(request) = exchange.request.filter(|_| exchange.meta_get.falls_through) else {
            return false;
        };
        let (table, pool) = (self.table_of(id), self.asked_pool(id));
        let asked = &table.pools[pool];
        let (server, missed_by) = match (self.source(id, exchange.destination.route, pool), missed) {
            (Some(source), _) => {
                let second = &table.pools[source.pool()];
                let owner = plain_key(&request, &exchange.bytes, |key| second.owner_to_read(key).slot);
                (owner, if missed.is_some() { MissedBy::Pool } else { MissedBy::SilentPool })
            }
            (None, Some(missed)) => {
                let Some(other) = asked.other_replica(missed) else { return false };
                self.servers[missed].health.count_cache_misses(1);
                (other.slot, MissedBy::Replica(missed as u16))
            }
            (None, None) => return false,
        };
        asked.counts.looked_up.fetch_add(1, Ordering::Relaxed);
        let exchange = &mut self.exchanges[id];
        exchange.meta_get.missed_by = Some(missed_by);
        if is_final_miss(Some(missed_by)) {
            // It is filled in the pool whose replica missed it.
            exchange.destination.pool = pool as u16;
        }
        let falls_through = self.whole_falls_through(id, server);
        self.exchanges[id].meta_get.falls_through = falls_through;
        self.send_whole(id, server);
        true
    }

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

/// Returns whether a further miss is final: another replica has missed the key before.
fn is_final_miss(missed_by: Option<MissedBy>) -> bool {
    matches!(missed_by, Some(MissedBy::Replica(_)))
}

/// Returns whether any copy can answer such a request.
fn can_look_up(verb: Verb) -> bool {
    matches!(verb, Verb::Get | Verb::Gat | Verb::MetaGet)
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
