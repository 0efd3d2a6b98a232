//! What one pool missed and another may have: looked up there, and brought back with the time it has left to live.
//!
//! The client's answer is the second pool's. The first pool is filled beside it, by a fetch of its own that holds the
//! key's claim from before the value is read until it is stored: a write of the key comes before or after, never between. It
//! is stored by `add`, so what the first pool got meanwhile stays. A key that somebody is writing is not filled.
//!
//! Which requests are looked up: `get`, `gat`, and `mg` as far as any copy can answer. What needs the server that decides
//! (`gets`, tokens, leases) asks that one alone.

use std::sync::atomic::Ordering;

use posthaste_wire::memcached::request::{Request, Verb};
use posthaste_wire::span::Span;

use super::Router;
use super::exchange::{Aim, Plan, Share};
use super::lane::{ASIDE, Shape};
use super::writes::hash;
use crate::cache::limits;
use crate::cache::pool::plain_key;

impl Router {
    /// Whether a get of this pool's keys goes on elsewhere with what it misses.
    pub(super) fn falls_through(&self, id: u32, pool: usize, verb: Verb) -> bool {
        matches!(verb, Verb::Get | Verb::Gat | Verb::MetaGet)
            && self.table_of(id).pools[pool].source.is_some()
    }

    /// Looks up these keys of a get where the share's pool gets what it misses.
    pub(super) fn look_up(&mut self, id: u32, share: Share, places: &[u32]) {
        let first = self.exchanges[id as usize].shares.len();
        let exchange = &mut self.exchanges[id as usize];
        let table = &self.tables[usize::from(exchange.table)].table;
        let own = &table.pools[usize::from(share.pool)];
        let Some(source) = own.source else { return };
        own.counts.looked_up.fetch_add(places.len() as u64, Ordering::Relaxed);
        let pool = &table.pools[source.pool()];
        let strip = table.routes[usize::from(share.route)].strip;
        let lanes = &self.lanes;
        for place in places {
            let key = &exchange.keys[*place as usize].of(&exchange.bytes)[strip..];
            let free = pool.is_replicated() && !pool.reads_owner();
            let load = |slot: usize| lanes[slot].expected.len();
            let server = if free && first == exchange.shares.len() {
                pool.reader(load)
            } else {
                pool.owner_to_read(key)
            };
            let known = exchange.shares[first..]
                .iter()
                .position(|known| free || usize::from(known.server) == server.slot);
            let number = known.map_or_else(
                || {
                    let second = Share {
                        server: server.slot as u16,
                        pool: source.pool() as u16,
                        is_second: true,
                        ..share
                    };
                    exchange.shares.push(second);
                    exchange.gather.share()
                },
                |known| (first + known) as u16,
            );
            exchange.gather.assign(*place, number);
        }
        for number in first..self.exchanges[id as usize].shares.len() {
            self.send_share(id, number as u16);
        }
    }

    /// Looks up the key of a meta get in the second pool. False: there is none for it.
    pub(super) fn look_up_whole(&mut self, id: u32) -> bool {
        let exchange = &mut self.exchanges[id as usize];
        let Some(request) = exchange.request.filter(|_| std::mem::take(&mut exchange.falls_through)) else {
            return false;
        };
        let table = &self.tables[usize::from(exchange.table)].table;
        let own = &table.pools[usize::from(exchange.aim.pool)];
        let Some(source) = own.source else { return false };
        own.counts.looked_up.fetch_add(1, Ordering::Relaxed);
        exchange.is_second = true;
        let server =
            plain_key(&request, &exchange.bytes, |key| table.pools[source.pool()].owner_to_read(key).slot);
        self.send_whole(id, server, 0);
        true
    }

    /// The second pool has the key of a meta get.
    pub(super) fn fill_whole(&mut self, id: u32, server: usize) {
        let exchange = &self.exchanges[id as usize];
        let Some(request) = exchange.request.filter(|_| exchange.is_second) else { return };
        let key = request.key.of(&exchange.bytes).to_vec();
        self.fill(id, &key, request.base64, exchange.aim, server);
    }

    /// The second pool has a key of a get.
    pub(super) fn fill_share(&mut self, id: u32, share: Share, key: &[u8]) {
        let table = self.table_of(id);
        // The share's pool is where the key was found; the route's, where it was missed.
        let pool = table.routes[usize::from(share.route)].pool as u16;
        let aim = Aim { route: share.route, pool, expiry_s: None };
        self.fill(id, key, false, aim, usize::from(share.server));
    }

    /// Brings a key from `server` to the pool that missed it.
    fn fill(&mut self, id: u32, key: &[u8], base64: bool, aim: Aim, server: usize) {
        if self.fills >= limits::FILLS_MAX
            || self.is_crowded(server)
            || !self.servers[server].health.is_live()
        {
            return;
        }
        let request = fetched(key, base64);
        let Some(claim) = plain_key(&request, key, |key| self.fleet.claims.claim(hash(key), self.who, true))
        else {
            return;
        };
        let table = self.exchanges[id as usize].table;
        let fill = self.begin_own(Plan::Fetch);
        // It goes by the table of the request that found the key.
        let started_with = std::mem::replace(&mut self.exchange(fill).table, table);
        self.tables[usize::from(started_with)].exchanges -= 1;
        self.tables[usize::from(table)].exchanges += 1;
        let exchange = self.exchange(fill);
        (exchange.claim, exchange.aim, exchange.request) = (Some(claim), aim, Some(request));
        exchange.bytes.extend_from_slice(key);
        self.fills += 1;
        let output = &mut self.lanes[server].output;
        let flags: &[u8] = if base64 { b" b v f t\r\n" } else { b" v f t\r\n" };
        [&b"mg "[..], key, flags].iter().for_each(|part| output.extend_from_slice(part));
        self.expect(fill, server, 0, Shape::Meta);
    }

    /// A value that was fetched is stored where it was missed, if it lives on.
    pub(super) fn store_fetched(&mut self, id: u32, reply: &[u8]) {
        let Some((head, data)) = stored(reply) else { return };
        let exchange = &self.exchanges[id as usize];
        let Some(request) = exchange.request else { return };
        let table = self.table_of(id);
        let pool = &table.pools[usize::from(exchange.aim.pool)];
        let mut servers = Vec::new();
        if pool.is_replicated() {
            servers.extend(pool.members.iter().map(|member| member.server.slot));
        } else {
            plain_key(&request, &exchange.bytes, |key| servers.push(pool.owner(key).slot));
        }
        pool.counts.filled.fetch_add(1, Ordering::Relaxed);
        for server in servers {
            if !self.servers[server].health.is_live() {
                continue;
            }
            let output = &mut self.lanes[server].output;
            let base64: &[u8] = if request.base64 { b" b" } else { b"" };
            let key = &self.exchanges[id as usize].bytes;
            [b"ms ", &key[..], &head, base64, b" ME\r\n", data]
                .iter()
                .for_each(|part| output.extend_from_slice(part));
            self.expect(id, server, ASIDE, Shape::Meta);
        }
        self.exchange(id).plan = Plan::Clean;
    }
}

/// The request that stands for a fetch: its key is all of its bytes.
fn fetched(key: &[u8], base64: bool) -> Request {
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
    }
}

/// What to store of `VA bytes fFLAGS tSECONDS …`: the words of an `ms` behind the key, and the data with its line end. None: there
/// is nothing, or it is about to expire.
fn stored(reply: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let end = memchr::memmem::find(reply, b"\r\n")?;
    let mut words = reply[..end].split(|byte| *byte == b' ');
    if words.next() != Some(b"VA") {
        return None;
    }
    let mut head = [b" ", words.next()?].concat();
    for word in words {
        match word {
            [b'f', flags @ ..] => head.extend([b" F", flags].concat()),
            [b't', b'0'] => return None,
            // It never expires.
            [b't', b'-', ..] => {}
            [b't', seconds @ ..] => head.extend([b" T", seconds].concat()),
            _ => {}
        }
    }
    Some((head, &reply[end + 2..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_has_the_flags_and_the_time_that_it_had() {
        let text = |reply: &str| {
            stored(reply.as_bytes())
                .map(|(head, data)| String::from_utf8([head, data.to_vec()].concat()).unwrap())
        };
        assert_eq!(text("VA 2 f7 t30\r\nhi\r\n").as_deref(), Some(" 2 F7 T30hi\r\n"));
        assert_eq!(text("VA 2 f0 t-1\r\nhi\r\n").as_deref(), Some(" 2 F0hi\r\n"));
        assert_eq!(text("VA 2 f0 t0\r\nhi\r\n"), None);
        assert_eq!(text("EN\r\n"), None);
    }
}
