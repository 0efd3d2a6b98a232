//! Replies that do not come: connections that break, servers that say nothing in time.
//!
//! With a connection all replies are given up that were to come over it, so no late reply can reach another request.
//! Reads that any replica can answer are asked of another one, from where they stopped. A write whose outcome is
//! unknown is never sent again: its key is noted, so that the server forgets it before it takes part again. For a write
//! that was never sent see `resent.rs`.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use posthaste_measure::Ending;
use posthaste_wire::memcached::request::Verb;

use super::exchange::{Destination, MissedBy, Plan, Share, Verdict};
use super::lane::{Expected, Lane, Purpose};
use super::reads::{needs_decider, owner_share};
use super::resent::{UnsentCommand, UnsentCommands};
use super::touches::new_expiry;
use super::writes::{decides, is_write};
use super::{Router, agree};
use crate::cache::missed_writes::MissedWrite;
use crate::cache::pool::{Pool, plain_key};
use crate::cache::rules::GetErrors;
use crate::cache::table::Access;

impl Router {
    /// Gives up the connection to a server; `socket` is what is left of it if the server may still read from it.
    /// Returns whether this also marks the server as lost, which was live until now.
    pub fn lose(&mut self, server: usize, socket: Option<OwnedFd>) -> bool {
        let lane = self.take_lane(server);
        let is_news =
            self.servers[server].health.note_lost_connection(self.unknown_writes(&lane.expected), socket);
        self.give_up_all(server, &lane);
        is_news
    }

    /// Sends all that waits for a server, which is not lost, to others, or answers it with an error. Nothing was sent.
    pub fn send_all_elsewhere(&mut self, server: usize) {
        let lane = self.take_lane(server);
        self.give_up_all(server, &lane);
    }

    /// Gives up all replies that were to come over a connection.
    fn give_up_all(&mut self, server: usize, lane: &Lane) {
        let mut unsent = UnsentCommands::of(lane);
        for expected in &lane.expected {
            let command = unsent.next(expected.shape);
            self.give_up(server, *expected, command);
        }
        // Only now may the server come back: giving up relied on its being away.
        if lane.is_user {
            self.servers[server].health.remove_user();
        }
    }

    /// Returns whether a server is to decide something, or to answer what only a decider knows, though another replica
    /// has been there for longer: it came back empty after it was chosen.
    #[must_use]
    pub fn is_to_decide_late(&self, server: usize) -> bool {
        self.lanes[server].expected.iter().any(|expected| {
            let exchange = &self.exchanges[expected.exchange];
            let (is_to_decide, pool) = match (expected.purpose, exchange.request) {
                // What is sent to it beside, such as a new expiry, is not for it to decide.
                (Purpose::Unused, _) | (_, None) => return false,
                (Purpose::Share(share), Some(request)) => {
                    (needs_decider(request.verb), exchange.get.shares[usize::from(share)].pool)
                }
                (Purpose::Request | Purpose::Outcome, Some(request)) => {
                    let is_to_decide = match exchange.plan {
                        Plan::Decide => true,
                        Plan::Relay => decides(&request, &exchange.bytes),
                        _ => false,
                    };
                    (is_to_decide, exchange.destination.pool)
                }
            };
            let table = self.table_of(expected.exchange);
            is_to_decide && table.deciding_pool(usize::from(pool)).is_late(&self.servers[server])
        })
    }

    /// Returns the writes under way: it is unknown what the server holds under their keys.
    fn unknown_writes(&self, expected: &VecDeque<Expected>) -> Vec<MissedWrite> {
        let mut writes = Vec::new();
        for Expected { exchange: id, .. } in expected {
            let exchange = &self.exchanges[*id];
            if exchange.changes() || exchange.meta_get.creates {
                writes.push(self.missed_write(*id));
            } else {
                self.each_touched(*id, &mut |key| writes.push(MissedWrite::Key(key)));
            }
        }
        writes
    }

    /// Gives up a reply. `unsent`: its command, if that was never sent.
    fn give_up(&mut self, server: usize, expected: Expected, unsent: Option<UnsentCommand<'_>>) {
        let id = expected.exchange;
        let exchange = &mut self.exchanges[id];
        if exchange.plan == Plan::Relay && unsent.is_some_and(|command| !is_write(&command.request)) {
            // A read that was never sent has given no token and no lease, so another server may be asked.
            (exchange.tries, exchange.is_bound) = (0, false);
        }
        let resend = |router: &mut Self| unsent.is_some_and(|command| router.send_elsewhere(id, command));
        match expected.purpose {
            Purpose::Outcome | Purpose::Unused => {}
            _ if resend(self) => {}
            Purpose::Share(share) => self.fail_share(id, share, server),
            Purpose::Request => self.fail_whole(id, server),
        }
        self.settle(id);
    }

    /// Has other servers answer a share of a get that this server will not answer, or ends it if there are none.
    pub(super) fn fail_share(&mut self, id: u32, share: u16, server: usize) {
        let exchange = &mut self.exchanges[id];
        let failed = exchange.get.shares[usize::from(share)];
        let verb = exchange.request.map_or(Verb::Get, |request| request.verb);
        let places = exchange.get.gather.take_unsettled(share);
        let misses = exchange.get.gather.take_misses(share);
        if !misses.is_empty() {
            self.look_up(id, failed, misses);
        }
        let (overtaken, places) = self.split_overtaken(id, failed.route, places, server);
        self.end_unanswered(id, share, server, &overtaken);
        if places.is_empty() {
            return;
        }
        if let Some(others) = self.stand_ins(id, failed, &places, verb) {
            return self.ask_others(id, &places, &others);
        }
        let asks_source = failed.missed_by.is_none() && self.has_source(id, usize::from(failed.pool), verb);
        if asks_source && self.fleet.ejects() {
            return self.look_up_in_source(id, failed, &places, MissedBy::SilentPool);
        }
        self.end_unanswered(id, share, server, &places);
    }

    /// Ends keys of a share of a get that nobody answers. If no server could tell whether they exist, that is an error,
    /// unless the pool's rules say otherwise. If one has missed them before, they are missed.
    fn end_unanswered(&mut self, id: u32, share: u16, server: usize, places: &[u32]) {
        if places.is_empty() {
            return;
        }
        let failed = self.exchanges[id].get.shares[usize::from(share)];
        if is_unanswered(failed.missed_by) {
            self.note_unanswered_get(id, failed.route, server);
        }
        let exchange = &mut self.exchanges[id];
        places.iter().for_each(|place| exchange.get.gather.assign(*place, share));
        exchange.get.gather.stop_collecting_misses(share);
        self.settle_share(id, share);
    }

    /// Returns where else each key of a share can be asked for; `None` if there is no other server for some key.
    fn stand_ins(&self, id: u32, failed: Share, places: &[u32], verb: Verb) -> Option<Vec<Share>> {
        let exchange = &self.exchanges[id];
        if usize::from(failed.tries) >= self.lanes.len() || !self.fleet.ejects() || failed.missed_by.is_some()
        {
            return None;
        }
        let table = self.table_of(id);
        let (route, pool) = (usize::from(failed.route), usize::from(failed.pool));
        let (renaming, decides) = (&table.routes[route].renaming, needs_decider(verb));
        let other = |place: &u32| {
            let key = renaming.server_key(exchange.get.keys[*place as usize].of(&exchange.bytes));
            let share = owner_share(table, route, pool, &key, verb, self.now);
            let (asked, server) = (usize::from(failed.server), usize::from(share.server));
            let other = self.alternative_to(asked, server, &table.pools[usize::from(share.pool)], decides);
            other.map(|other| Share { server: other as u16, tries: failed.tries + 1, ..share })
        };
        places.iter().map(other).collect()
    }

    /// Returns the server to ask in place of one that `failed`, never that one itself: `server` if it is not full; else
    /// another replica that is not, unless only `server` `decides`; else `server` though it is full.
    fn alternative_to(&self, failed: usize, server: usize, pool: &Pool, decides: bool) -> Option<usize> {
        let is_usable = |server: &usize| *server != failed && self.servers[*server].health.is_in_rotation();
        let is_free = |server: &usize| is_usable(server) && !self.is_full(*server);
        let others = pool.readers().map(|other| other.slot).filter(|_| pool.is_replicated() && !decides);
        let free = [server].into_iter().chain(others).find(is_free);
        free.or_else(|| Some(server).filter(is_usable))
    }

    /// Asks for keys of a get again, each by the entry that `stand_ins` found for it.
    fn ask_others(&mut self, id: u32, places: &[u32], others: &[Share]) {
        let exchange = &mut self.exchanges[id];
        let first = exchange.get.shares.len();
        for (place, other) in places.iter().zip(others) {
            let is_it = |known: &Share| known.server == other.server && known.pool == other.pool;
            let number = match exchange.get.shares[first..].iter().position(is_it) {
                Some(known) => (first + known) as u16,
                None => exchange.get.open_share(*other),
            };
            exchange.get.gather.assign(*place, number);
        }
        let (last, verb) =
            (exchange.get.shares.len(), exchange.request.map_or(Verb::Get, |request| request.verb));
        self.collect_misses(id, first, verb);
        for number in first..last {
            self.send_share(id, number as u16);
        }
    }

    /// Does without a reply, to anything but a get, that will not come from this server, or asks another one for it.
    pub(super) fn fail_whole(&mut self, id: u32, server: usize) {
        match self.exchanges[id].plan {
            // A quiet command may have been answered already, all but its end.
            Plan::Relay if self.exchanges[id].ending.is_some() => {}
            Plan::Relay => match self.stand_in(id, server) {
                Some((other, destination)) => {
                    let exchange = &mut self.exchanges[id];
                    exchange.tries += 1;
                    exchange.destination = destination;
                    self.note_fall_through(id, other);
                    self.send_whole(id, other);
                }
                None if !is_unanswered(self.exchanges[id].meta_get.missed_by) => self.miss_whole(id),
                None if self.look_up_whole(id, None) => {}
                None if self.exchanges[id].request.is_some_and(|asked| asked.verb == Verb::MetaGet) => {
                    let route = self.exchanges[id].destination.route;
                    if !self.note_unanswered_get(id, route, server) {
                        self.miss_whole(id);
                    }
                }
                None => self.note_unavailable(id, server),
            },
            // A replica that was left out is no longer asked: its key is noted.
            Plan::FanOut if !self.servers[server].health.is_in_rotation() => {
                self.exchanges[id].write.note_missed_by(server);
            }
            Plan::FanOut => {
                let words = self.unavailable_error(server);
                self.exchanges[id].write.note_reply(server, Verdict::Error, &words);
            }
            // A quiet decision, too, may have been answered already, all but its end.
            Plan::Decide if !self.exchanges[id].write.replies.is_empty() => {}
            Plan::Decide => self.note_unavailable(id, server),
            Plan::Follow => self.exchanges[id].write.note_missed_by(server),
            Plan::Gather | Plan::ConfirmCreated | Plan::Drain | Plan::Fetch => {}
        }
    }

    /// Returns another server that can answer this read, and the destination of the read then. A read that needs the
    /// decider (for a token, say) goes to the replica that decides now.
    fn stand_in(&self, id: u32, server: usize) -> Option<(usize, Destination)> {
        let exchange = &self.exchanges[id];
        let is_last_try = exchange.is_bound || exchange.tries >= self.lanes.len();
        if is_last_try || !self.fleet.ejects() || exchange.meta_get.missed_by.is_some() {
            return None;
        }
        let (request, table) = (exchange.request?, self.table_of(id));
        let pool = usize::from(exchange.destination.pool);
        if plain_key(&request, &exchange.bytes, |key| self.is_overtaken(id, key, Some(server))) {
            return None;
        }
        let decides = decides(&request, &exchange.bytes);
        let (serving, other) = plain_key(&request, &exchange.bytes, |key| {
            let serving = table.serving_pool(pool, key, Access::of(decides), self.now);
            let other = match decides {
                true => table.decider(serving.pool, key),
                false => table.pools[serving.pool].owner_to_read(key),
            };
            (serving, other)
        });
        let other = self.alternative_to(server, other.slot, &table.pools[serving.pool], decides)?;
        if new_expiry(&request, &exchange.bytes).is_some() {
            table.prolong(pool, serving, self.now);
        }
        let expiry_s = serving.expiry_s.or(exchange.destination.expiry_s);
        Some((other, Destination { pool: serving.pool as u16, expiry_s, ..exchange.destination }))
    }

    /// Answers a meta get with a miss: a server missed the key before, or the pool's rules have silence count as one.
    fn miss_whole(&mut self, id: u32) {
        let exchange = &mut self.exchanges[id];
        exchange.ending = Some(Ending::Null);
        let mut words = Vec::new();
        if let Some(request) = exchange.request {
            agree::write_miss_reply(&request, &exchange.bytes, &mut words);
        }
        self.reply_to_client(id, &words);
    }

    /// Notes that no server answers a get. Returns whether that is an error by the pool's rules, and not a miss.
    fn note_unanswered_get(&mut self, id: u32, route: u16, server: usize) -> bool {
        let table = self.table_of(id);
        let rules = &table.pools[table.routes[usize::from(route)].pool].rules;
        let is_error = rules.get_errors == GetErrors::Error;
        if is_error {
            self.note_unavailable(id, server);
        } else {
            self.servers[server].counts.errors.fetch_add(1, Ordering::Relaxed);
        }
        is_error
    }

    pub(super) fn note_unavailable(&mut self, id: u32, server: usize) {
        let error = self.unavailable_error(server);
        self.note_error(id, server, &error);
    }

    /// Returns the error for a client whose server does not answer, or has too much under way to be asked.
    fn unavailable_error(&self, server: usize) -> Vec<u8> {
        let name = self.servers[server].name();
        let why = if self.is_full(server) { "has too many requests under way" } else { "does not answer" };
        format!("SERVER_ERROR server {name} {why}\r\n").into_bytes()
    }
}

/// Returns whether no server has missed yet what is looked up.
fn is_unanswered(missed_by: Option<MissedBy>) -> bool {
    matches!(missed_by, None | Some(MissedBy::SilentPool))
}
