//! Gets, of any number of keys: which servers they ask, and in what steps.

use std::sync::atomic::Ordering;

use posthaste_wire::memcached::request::{Request, Verb};

use super::exchange::{MissedBy, Share};
use super::expiry::capped;
use super::incoming::{BAD_FORMAT, Incoming, NO_ROUTE, TOO_MANY};
use super::lane::{Purpose, Shape};
use super::{Admission, Router};
use crate::cache::costs::Spread;
use crate::cache::limits;
use crate::cache::rules::Multiget;
use crate::cache::table::{Access, Table};

impl Router {
    /// Takes a `get`, `gets`, `gat` or `gats` of any number of keys.
    pub(super) fn get(&mut self, incoming: &Incoming<'_>) -> Admission {
        let Incoming { origin, request, input } = *incoming;
        let touches = matches!(request.verb, Verb::Gat | Verb::Gats);
        let is_held_up = self.is_any_crowded() && self.is_held_up(request, input);
        let may_not_touch = || self.fleet.are_writes_paused() || self.waits_for_earlier_read(incoming);
        if is_held_up || self.waits_for_earlier_creation(incoming) || touches && may_not_touch() {
            return Admission::RetryLater;
        }
        let is_on_one_route = match self.check_keys(request, input) {
            Ok(is_on_one_route) => is_on_one_route,
            Err(refusal) => {
                self.answer_locally(origin, refusal);
                return Admission::Accepted;
            }
        };
        let id = self.begin(incoming, incoming.line());
        self.exchanges[id].get.is_on_one_route = is_on_one_route;
        self.exchanges[id].get.keys.extend(request.key_spans(input));
        self.enqueue(id);
        self.ask_step(id);
        if self.has_more_steps(id) {
            self.note_asks_later(id);
        }
        self.advance(id);
        Admission::Accepted
    }

    /// Returns whether a key of a get may lead to a server that has too much to be sent.
    fn is_held_up(&self, request: &Request, input: &[u8]) -> bool {
        let table = self.table();
        request.key_spans(input).map(|span| span.of(input)).any(|key| {
            let route = table.route(request.verb, key);
            route.is_some_and(|route| {
                let renaming = &table.routes[route].renaming;
                renaming.allows(key.len()) && self.leads_to_crowded(route, &renaming.server_key(key))
            })
        })
    }

    /// Returns whether one route takes all keys of a get, or, before any is asked for, why no route takes one now.
    fn check_keys(&self, request: &Request, input: &[u8]) -> Result<bool, &'static [u8]> {
        let table = self.table();
        if table.only_route().is_some_and(|route| table.routes[route].takes_all()) {
            return Ok(true);
        }
        let (mut first, mut is_on_one_route) = (None, true);
        for span in request.key_spans(input) {
            let key = span.of(input);
            let route = table.route(request.verb, key).ok_or(NO_ROUTE)?;
            is_on_one_route &= *first.get_or_insert(route) == route;
            let route = &table.routes[route];
            if !route.renaming.allows(key.len()) {
                return Err(BAD_FORMAT);
            }
            if route.is_exhausted(self.now) {
                route.counts.refused.fetch_add(1, Ordering::Relaxed);
                return Err(TOO_MANY);
            }
        }
        Ok(is_on_one_route)
    }

    /// Asks for the next keys of a get.
    pub(super) fn ask_step(&mut self, id: u32) {
        let exchange = &mut self.exchanges[id];
        let Some(request) = exchange.request else { return };
        let from = exchange.get.gather.assigned();
        exchange.since = self.now;
        let keys = (exchange.get.keys.len() - from).min(self.answers.keys_per_step(exchange.client));
        exchange.get.shares.clear();
        exchange.get.gather.reuse_shares(limits::BUFFER_BYTES_KEPT);
        exchange.get.gather.add_keys(keys);
        let mut places = std::mem::take(&mut self.scratch.places);
        if let Some(route) = self.table_of(id).only_route() {
            places.extend((from..from + keys).map(|place| place as u32));
            self.assign(id, route, &places, request.verb);
            places.clear();
        } else {
            self.assign_by_route(id, from, keys, request.verb, &mut places);
        }
        self.scratch.places = places;
        for share in 0..self.exchanges[id].get.shares.len() {
            self.send_share(id, share as u16);
        }
    }

    /// Assigns keys of several routes, one route after the other.
    fn assign_by_route(&mut self, id: u32, from: usize, keys: usize, verb: Verb, places: &mut Vec<u32>) {
        let mut routes = std::mem::take(&mut self.scratch.routes_of_keys);
        let exchange = &self.exchanges[id];
        let table = self.table_of(id);
        // Every key had a route when the request was taken, and has the same one still.
        routes.extend(
            exchange.get.keys[from..from + keys]
                .iter()
                .map(|key| table.route(verb, key.of(&exchange.bytes)).map(|route| route as u16)),
        );
        for first in 0..keys {
            let Some(route) = routes[first] else { continue };
            for (place, other) in
                routes.iter_mut().enumerate().skip(first).filter(|(_, other)| **other == Some(route))
            {
                places.push((from + place) as u32);
                *other = None;
            }
            self.assign(id, usize::from(route), places, verb);
            places.clear();
        }
        routes.clear();
        self.scratch.routes_of_keys = routes;
    }

    /// Puts keys of one route into shares.
    fn assign(&mut self, id: u32, route: usize, places: &[u32], verb: Verb) {
        let table = self.table_of(id);
        table.routes[route].count(places.len() as u64, self.now);
        let pool = table.routes[route].pool;
        let first_share = self.exchanges[id].get.shares.len();
        let own = &self.table_of(id).pools[pool];
        let free = !needs_decider(verb) && !own.reads_owner();
        if free && own.readers().next().is_some() {
            self.assign_freely(id, route, pool, places);
        } else {
            self.assign_to_owners(id, route, pool, places, verb);
        }
        self.collect_misses(id, first_share, verb);
        if self.table_of(id).routes[route].shadow.is_some() && self.exchanges[id].table == self.current {
            self.shadow_keys(id, route, places);
        }
    }

    fn shadow_keys(&mut self, id: u32, route: usize, places: &[u32]) {
        for place in places {
            let exchange = &self.exchanges[id];
            let key = exchange.get.keys[*place as usize].of(&exchange.bytes);
            let key = self.table().routes[route].renaming.server_key(key).into_owned();
            self.shadow_key(route, &key);
        }
    }

    /// Assigns keys that any server of the pool can answer: all to one, or evenly to all.
    fn assign_freely(&mut self, id: u32, route: usize, pool: usize, places: &[u32]) {
        let target = Share {
            server: 0,
            route: route as u16,
            pool: pool as u16,
            expiry_s: None,
            missed_by: None,
            tries: 0,
            bytes: 0,
        };
        if places.len() > 1 && self.splits(id, pool, places.len()) {
            return self.assign_evenly(id, target, places);
        }
        let lanes = &self.lanes;
        let reader = self.table_of(id).pools[pool].reader(|slot| lanes[slot].expected.len()).slot;
        self.assign_to(id, Share { server: reader as u16, ..target }, places);
    }

    /// Cuts keys into equal parts, the remainder one each to the first: 5 keys on 3 servers are 2, 2 and 1.
    fn assign_evenly(&mut self, id: u32, target: Share, places: &[u32]) {
        let mut servers = std::mem::take(&mut self.scratch.servers);
        let pool = &self.table_of(id).pools[usize::from(target.pool)];
        servers.extend(pool.readers().map(|server| server.slot));
        if servers.is_empty() {
            servers.push(pool.members[0].server.slot);
        }
        let parts = servers.len().min(places.len()).max(1);
        let mut rest = places;
        for (part, server) in servers.drain(..).take(parts).enumerate() {
            let size = places.len() / parts + usize::from(part < places.len() % parts);
            let (mine, others) = rest.split_at(size);
            self.assign_to(id, Share { server: server as u16, ..target }, mine);
            rest = others;
        }
        self.scratch.servers = servers;
    }

    fn assign_to(&mut self, id: u32, target: Share, places: &[u32]) {
        let added = self.table_of(id).routes[usize::from(target.route)].renaming.lengthens();
        let exchange = &mut self.exchanges[id];
        let first = exchange.get.open_share(target);
        places.iter().fold(first, |share, place| exchange.assign(*place, share, added));
    }

    /// Assigns each key to the one server that can answer it, or is to by the pool's rules.
    fn assign_to_owners(&mut self, id: u32, route: usize, pool: usize, places: &[u32], verb: Verb) {
        self.scratch.share_of_server.fill(None);
        let now = self.now;
        let exchange = &mut self.exchanges[id];
        let table = &self.tables[usize::from(exchange.table)].table;
        let renaming = &table.routes[route].renaming;
        for place in places {
            let key = exchange.get.keys[*place as usize].of(&exchange.bytes);
            let key = renaming.server_key(key);
            let target = owner_share(table, route, pool, &key, verb, now);
            let known = &mut self.scratch.share_of_server[usize::from(target.server)];
            let is_same = |share: &u16| exchange.get.shares[usize::from(*share)].pool == target.pool;
            let share = known.filter(is_same).unwrap_or_else(|| exchange.get.open_share(target));
            *known = Some(exchange.assign(*place, share, renaming.lengthens()));
        }
    }

    /// Returns whether so many keys of a step of a get are split over servers.
    fn splits(&mut self, id: u32, pool: usize, keys: usize) -> bool {
        let (exchange, pool) = (&self.exchanges[id], &self.table_of(id).pools[pool]);
        match pool.rules.multiget {
            _ if pool.members.len() == 1 => false,
            Multiget::Whole => false,
            Multiget::Split => true,
            // The time of a get over several routes tells nothing of one pool.
            Multiget::Auto if !exchange.get.is_on_one_route => pool.costs.cheaper(keys) == Spread::Split,
            Multiget::Auto => {
                let spread = pool.costs.choose(keys);
                self.exchanges[id].get.measured = Some((spread, keys));
                spread == Spread::Split
            }
        }
    }

    /// Sends a share of a get to its server.
    pub(super) fn send_share(&mut self, id: u32, share: u16) {
        let exchange = &self.exchanges[id];
        let Some(request) = exchange.request else { return };
        let target = exchange.get.shares[usize::from(share)];
        let server = usize::from(target.server);
        if self.servers[server].health.is_away() || self.is_full(server) {
            return self.fail_share(id, share, server);
        }
        let keys = exchange.get.gather.keys(share).len();
        self.servers[server].counts.keys.fetch_add(keys as u64, Ordering::Relaxed);
        if request.verb == Verb::Get {
            return self.ask_get(id, server, share);
        }
        self.write_share(id, server, share, &request);
        self.expect(id, server, Purpose::Share(share), Shape::Values);
        if matches!(request.verb, Verb::Gat | Verb::Gats)
            && !matches!(target.missed_by, Some(MissedBy::Replica(_)))
        {
            self.touch_others(id, share, server);
        }
    }

    /// Writes the command of a share of anything but a `get`.
    fn write_share(&mut self, id: u32, server: usize, share: u16, request: &Request) {
        let exchange = &self.exchanges[id];
        let target = exchange.get.shares[usize::from(share)];
        let max_life = self.max_life(target.expiry_s);
        let table = &self.tables[usize::from(exchange.table)].table;
        let renaming = &table.routes[usize::from(target.route)].renaming;
        let output = &mut self.lanes[server].output;
        output.extend_from_slice(match request.verb {
            Verb::Gets => b"gets",
            Verb::Gat => b"gat",
            _ => b"gats",
        });
        if let Some(expiry) = exchange.new_expiry() {
            output.push(b' ');
            output.extend_from_slice(&capped(expiry, max_life));
        }
        for place in exchange.get.gather.keys(share) {
            output.push(b' ');
            let key = exchange.get.keys[*place as usize].of(&exchange.bytes);
            output.extend_from_slice(&renaming.server_key(key));
        }
        output.extend_from_slice(b"\r\n");
    }
}

/// Returns whether a get is for the decider alone: its tokens are good only on the server that decides `cas`.
pub(super) fn needs_decider(verb: Verb) -> bool {
    matches!(verb, Verb::Gets | Verb::Gats)
}

/// Returns a share for the one server that can answer a key, or is to by the pool's rules.
pub(super) fn owner_share(
    table: &Table,
    route: usize,
    pool: usize,
    key: &[u8],
    verb: Verb,
    now: u64,
) -> Share {
    let decides = needs_decider(verb);
    let serving = table.serving_pool(pool, key, Access::of(decides), now);
    if verb == Verb::Gat {
        table.prolong(pool, serving, now);
    }
    let server = match decides {
        true => table.decider(serving.pool, key),
        false => table.pools[serving.pool].owner_to_read(key),
    };
    Share {
        server: server.slot as u16,
        route: route as u16,
        pool: serving.pool as u16,
        expiry_s: serving.expiry_s,
        missed_by: None,
        tries: 0,
        bytes: 0,
    }
}
