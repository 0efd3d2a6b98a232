//! Lookups: keys that one server missed are asked of another one.
//!
//! The other server is in a second pool, or it is another replica if the first one came back and may lack keys. Either
//! way the client is answered with what is found there, and where the key was missed it is filled (`fill.rs`).
//!
//! Looked up are `get`, `gat`, and `mg` as far as any copy can answer. What needs the deciding server (`gets`, tokens,
//! leases) asks that one alone.

use std::sync::atomic::Ordering;

use posthaste_wire::memcached::request::{Request, Verb};

use super::Router;
use super::exchange::{MissedBy, Plan, Share};
use super::lane::Purpose;
use super::writes::decides;
use crate::cache::layout::Source;
use crate::cache::pool::plain_key;

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
                self.note_asks_later(id);
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
                        self.note_asks_later(id);
                    }
                }
                Purpose::Request if exchange.plan == Plan::Relay => {
                    let fell_through = self.exchanges[id].meta_get.falls_through;
                    self.note_fall_through(id, server);
                    self.exchanges[id].meta_get.falls_through |= fell_through;
                }
                _ => {}
            }
        }
    }

    fn share_falls_through(&self, id: u32, share: Share, verb: Verb) -> bool {
        let (pool, server) = (usize::from(share.pool), usize::from(share.server));
        !is_final_miss(share.missed_by) && self.falls_through(id, share.route, pool, server, verb)
    }

    /// Notes whether what this server misses of a meta get, which it is to be asked for now, is looked up elsewhere.
    pub(super) fn note_fall_through(&mut self, id: u32, server: usize) {
        let falls_through = self.whole_falls_through(id, server);
        self.exchanges[id].meta_get.falls_through = falls_through;
        if falls_through {
            self.note_asks_later(id);
        }
    }

    /// Returns whether what this server misses of a meta get that it is asked for is looked up elsewhere.
    fn whole_falls_through(&self, id: u32, server: usize) -> bool {
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

    /// Looks up these keys, which a share missed, in the second pool or on another replica, unless their client has
    /// changed them since.
    pub(super) fn look_up(&mut self, id: u32, share: Share, places: Vec<u32>) {
        let (overtaken, places) = self.split_overtaken(id, share.route, places, usize::from(share.server));
        if !overtaken.is_empty() {
            self.miss(id, share, &overtaken);
        }
        if places.is_empty() {
            return;
        }
        if self.source(id, share.route, usize::from(share.pool)).is_some() {
            return self.look_up_in_source(id, share, &places, MissedBy::Pool);
        }
        let pool = &self.table_of(id).pools[usize::from(share.pool)];
        let Some(other) = pool.other_replica(usize::from(share.server)).map(|other| other.slot as u16) else {
            return self.miss(id, share, &places);
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
        let asked = missed.or(exchange.meta_get.asked.map(usize::from));
        if plain_key(&request, &exchange.bytes, |key| self.is_overtaken(id, key, asked)) {
            return false;
        }
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
        self.note_fall_through(id, server);
        self.send_whole(id, server);
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
