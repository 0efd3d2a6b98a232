//! Writes: to the owner, or to all replicas so that they stay alike.
//!
//! What every replica must do alike whatever it holds (`set`, `delete`, `touch`) is sent to all at once. What depends on
//! what a server holds (`add`, `cas`, `incr` and their like) is decided by one, the key's owner, and the others are then
//! sent the result. Either way the key is claimed, so that all replicas see all its writes in one order.
//!
//! Copies of a key may be in several pools: those of the pool that takes it, and those of a pool below it. Where it must
//! not be any more (in a pool whose place this one takes, in one that stood in for it) it is deleted.

use posthaste_wire::memcached::decode::TOO_LARGE;
use posthaste_wire::memcached::request::{Request, Verb};
use posthaste_wire::memcached::signed_32;

use super::agree::too_few;
use super::exchange::{Destination, NO_CLIENT, Plan};
use super::expiry::{self, MaxLife};
use super::incoming::Incoming;
use super::lane::{Purpose, Shape, Words};
use super::{Admission, Router, follow};
use crate::cache::claims::{Claim, ClaimMode};
use crate::cache::limits;
use crate::cache::missed_writes::{MissedKey, MissedWrite};
use crate::cache::pool::{LONGEST_EXPIRY_S, plain_key};
use crate::cache::rules::Answer;
use crate::cache::table::{Access, Table};

impl Router {
    /// Takes a command that changes one key.
    pub(super) fn write(&mut self, route: usize, incoming: &Incoming<'_>) -> Admission {
        let Incoming { request, input, .. } = *incoming;
        if self.waits_for_earlier_read(incoming) || self.waits_for_late_write(request, input) {
            return Admission::RetryLater;
        }
        let (table, pool) = (self.table(), self.table().routes[route].pool);
        let stands_in = plain_key(request, input, |key| table.stand_in(pool, key).is_some());
        // Where a deletion is repeated in other pools, these write the key too.
        let is_repeated = request.verb.is_delete() && !table.pools[pool].deletes_to.is_empty();
        let is_simple = !stands_in && !is_repeated && table.is_simple(pool, self.now);
        if is_simple && self.are_earlier_claims_over() {
            return self.write_to_one(route, incoming);
        }
        if !is_simple && !self.is_handed_over() {
            return Admission::RetryLater;
        }
        let mode = claim_mode(request, input);
        let Some((claim, destination)) = self.claim(route, request, input, mode) else {
            return Admission::RetryLater;
        };
        let kept = kept(request, mode);
        let id = self.begin(incoming, &input[..kept]);
        self.hold_claim(id, claim);
        self.exchanges[id].destination = destination;
        self.note_mark(id, mode);
        self.enqueue(id);
        self.send_write(id, request, input, mode);
        self.advance(id);
        Admission::Accepted
    }

    /// Sends a write whose key is claimed to the servers that it is aimed at.
    pub(super) fn send_write(&mut self, id: u32, request: &Request, input: &[u8], mode: ClaimMode) {
        self.note_missed_at_home(id);
        if mode == ClaimMode::Shared {
            self.fan_out(id, input);
            self.delete_strays(id);
            return self.answer_at_once(id);
        }
        let (table, exchange) = (self.table(), &self.exchanges[id]);
        let (pool, client) = (usize::from(exchange.destination.pool), exchange.client);
        let decider = plain_key(request, input, |key| table.decider(pool, key).slot);
        self.exchanges[id].plan = Plan::Decide;
        if client != NO_CLIENT {
            // The client's next request may read another replica, which has not followed yet.
            self.answers.fence(client);
        }
        if !self.refuse_if_copies_are_away(id) {
            // Notes the key for servers that are away. Those that are back by then get the decision with the others.
            self.each_copy(id, |router, server| {
                let _ = router.note_if_missed(id, server);
            });
            if self.send_whole(id, decider) {
                self.ask_outcome(id, decider);
            }
        }
    }

    /// Refuses a request whose value is too large, and deletes its key wherever it may be.
    pub(super) fn refuse_and_delete(&mut self, route: usize, incoming: &Incoming<'_>) -> Admission {
        let line = incoming.line();
        let is_held_up =
            self.waits_for_earlier_read(incoming) || self.waits_for_late_write(incoming.request, line);
        if is_held_up || !self.is_handed_over() {
            return Admission::RetryLater;
        }
        let Some((claim, destination)) = self.claim(route, incoming.request, line, ClaimMode::Shared) else {
            return Admission::RetryLater;
        };
        let id = self.begin(incoming, line);
        self.hold_claim(id, claim);
        let exchange = &mut self.exchanges[id];
        (exchange.destination, exchange.plan) = (destination, Plan::Drain);
        exchange.error.extend_from_slice(TOO_LARGE);
        self.enqueue(id);
        self.each_copy(id, |router, server| router.delete(id, server));
        self.delete_strays(id);
        self.table().routes[route].count(1, self.now);
        self.advance(id);
        Admission::Accepted
    }

    /// Claims the key of a write, and finds the pool that takes it; `None`: not now. A key with one copy is claimed too
    /// if two pools may hold it (the one that stands in may give it back at any time), if its deletion is repeated in other
    /// pools, and while keys are claimed by an earlier table, by which it may have had more copies.
    pub(super) fn claim(
        &mut self,
        route: usize,
        request: &Request,
        input: &[u8],
        mode: ClaimMode,
    ) -> Option<(Claim, Destination)> {
        let is_held_up =
            self.is_any_crowded() && plain_key(request, input, |key| self.leads_to_crowded(route, key));
        if is_held_up || self.fleet.are_writes_paused() {
            return None;
        }
        let claim = self.fleet.claims.claim(plain_key(request, input, hash), self.number, mode, self.now)?;
        let Some(destination) = self.destination(route, request, input) else {
            self.claim_released |= self.fleet.claims.release(claim, self.now);
            return None;
        };
        Some((claim, destination))
    }

    /// Returns where a write goes whose key is claimed; `None`: not now.
    pub(super) fn destination(&self, route: usize, request: &Request, input: &[u8]) -> Option<Destination> {
        let (table, pool) = (self.table(), self.table().routes[route].pool);
        // The serving pool is found last, when nothing else keeps the request waiting, since that is counted.
        let serving =
            plain_key(request, input, |key| table.serving_pool(pool, key, Access::MayStore, self.now));
        if serving.pool != pool && !self.miss_at_home(pool, request, input) {
            return None;
        }
        Some(Destination { route: route as u16, pool: serving.pool as u16, expiry_s: serving.expiry_s })
    }

    /// Sends a write to all servers that are to have it.
    fn fan_out(&mut self, id: u32, input: &[u8]) {
        let exchange = &mut self.exchanges[id];
        exchange.plan = Plan::FanOut;
        let Some(request) = exchange.request else { return };
        let max_life = self.max_life(self.exchanges[id].destination.expiry_s);
        let (mut copies, mut first) = (0, None);
        self.each_copy(id, |_, _| copies += 1);
        // A full server refuses only what leaves the copies alike: a write to a single copy, or one that stores a
        // value, which is deleted afterwards if only some have stored it. It never refuses what concerns all keys.
        let may_be_refused = request.keys > 0 && (copies == 1 || stores(&request));
        self.each_copy(id, |router, server| {
            let is_in_rotation = router.servers[server].health.is_in_rotation();
            let is_refused = is_in_rotation && may_be_refused && router.is_full(server);
            if !is_refused && !router.note_if_missed(id, server) {
                first.get_or_insert(server);
                let shape = write_command(&request, input, max_life, &mut router.lanes[server].output);
                router.expect(id, server, Purpose::Request, shape);
            } else if is_in_rotation {
                first.get_or_insert(server);
                router.fail_whole(id, server);
            }
        });
        let exchange = &mut self.exchanges[id];
        (exchange.write.copies, exchange.write.first_asked) = (copies, first.unwrap_or_default() as u16);
    }

    /// Asks the decider, behind its decision, what it holds now, if other copies are to hold it too and the reply to the
    /// decision does not tell.
    fn ask_outcome(&mut self, id: u32, decider: usize) {
        let exchange = &self.exchanges[id];
        let Some(request) = exchange.request else { return };
        let is_hidden = exchange.write.copies > 1 && follow::has_hidden_outcome(&request, &exchange.bytes);
        // A meta command is refused earlier if a server of its key is too old for it.
        if is_hidden && (request.verb.is_meta() || self.copies_know_meta_commands(id)) {
            let exchange = &self.exchanges[id];
            follow::fetch(&request, &exchange.bytes, &mut self.lanes[decider].output);
            self.expect(id, decider, Purpose::Outcome, Shape::Meta);
        }
    }

    /// Returns whether all copies of a key are on servers that know today's meta commands.
    fn copies_know_meta_commands(&mut self, id: u32) -> bool {
        let mut all = true;
        self.each_copy(id, |router, server| all &= router.servers[server].dialect.is_current());
        all
    }

    /// Refuses a decision while copies that the pool's rule counts on are away: that is the answer, and nothing is
    /// changed anywhere. Returns whether it did.
    fn refuse_if_copies_are_away(&mut self, id: u32) -> bool {
        let (mut copies, mut there, mut absent) = (0, 0, None);
        self.each_copy(id, |router, server| {
            let health = &router.servers[server].health;
            (copies, there) = (copies + 1, there + u16::from(!health.is_away()));
            absent = absent.or((health.is_in_rotation() && health.is_away()).then_some(server));
        });
        self.exchanges[id].write.copies = copies;
        let counts_on_all = self.answer_rule(id) == Answer::All && !self.fleet.ejects();
        match (self.needed(id), absent) {
            (Some(needed), _) if there < needed => {
                self.exchanges[id].error = too_few(there, needed, "are there");
                true
            }
            (None, Some(server)) if counts_on_all => {
                self.note_unavailable(id, server);
                true
            }
            _ => false,
        }
    }

    /// Notes the key of a write that another pool serves as missed by its home servers. Returns false if one of these
    /// is back.
    fn miss_at_home(&self, pool: usize, request: &Request, input: &[u8]) -> bool {
        let missed = || MissedWrite::Key(MissedKey::of_request(request, input));
        let mut all_missed = true;
        plain_key(request, input, |plain| {
            self.table().each_copy(pool, plain, &mut |server| {
                all_missed &= server.health.note_missed_write(missed());
            });
        });
        all_missed
    }

    /// Notes for the count of missed writes which servers do not get a write that another pool serves.
    fn note_missed_at_home(&mut self, id: u32) {
        let Destination { route, pool, .. } = self.exchanges[id].destination;
        let home = self.table_of(id).routes[usize::from(route)].pool;
        if home == usize::from(pool) {
            return;
        }
        self.each_server(
            id,
            |router, server| router.exchanges[id].write.note_missed_by(server),
            |router, request, servers| {
                let (table, exchange) = (router.table_of(id), &router.exchanges[id]);
                plain_key(request, &exchange.bytes, |key| {
                    table.each_copy(home, key, &mut |server| servers.push(server.slot));
                });
            },
        );
    }

    fn write_to_one(&mut self, route: usize, incoming: &Incoming<'_>) -> Admission {
        let Incoming { request, input, .. } = *incoming;
        let (table, pool) = (self.table(), self.table().routes[route].pool);
        let owner = plain_key(request, input, |key| table.decider(pool, key).slot);
        if self.is_crowded(owner) || self.fleet.are_writes_paused() {
            return Admission::RetryLater;
        }
        let id = self.begin(incoming, incoming.line());
        let exchange = &mut self.exchanges[id];
        exchange.destination = Destination { route: route as u16, pool: pool as u16, expiry_s: None };
        (exchange.plan, exchange.is_bound, exchange.is_unclaimed) = (Plan::Relay, true, true);
        self.tables[usize::from(self.current)].unclaimed += 1;
        self.enqueue(id);
        if !self.is_full(owner) && !self.note_if_missed(id, owner) {
            let shape = write_command(request, input, None, &mut self.lanes[owner].output);
            self.expect(id, owner, Purpose::Request, shape);
        } else {
            self.fail_whole(id, owner);
        }
        self.advance(id);
        Admission::Accepted
    }

    /// Takes a `flush_all`, which goes to every server, whatever the rules for keys.
    pub(super) fn flush_all(&mut self, incoming: &Incoming<'_>) -> Admission {
        if self.fleet.are_writes_paused() || self.waits_for_earlier_read(incoming) {
            return Admission::RetryLater;
        }
        // Before it is sent, so that a server that comes back meanwhile is told of it.
        self.fleet.note_flush(due_s(incoming.line(), self.now_s()));
        self.fleet.flushes.begin(&mut self.flushes);
        let id = self.begin(incoming, incoming.line());
        self.enqueue(id);
        self.fan_out(id, incoming.input);
        self.advance(id);
        Admission::Accepted
    }

    /// Calls `each` with every server that is to hold the key of an exchange, also if it is away.
    pub(super) fn each_copy(&mut self, id: u32, each: impl FnMut(&mut Self, usize)) {
        self.each_server(id, each, |router, request, servers| {
            let table = router.table_of(id);
            if request.verb == Verb::FlushAll {
                return servers.extend(table.in_use());
            }
            let exchange = &router.exchanges[id];
            plain_key(request, &exchange.bytes, |key| {
                let pool = usize::from(exchange.destination.pool);
                table.each_copy(pool, key, &mut |server| servers.push(server.slot));
            });
        });
    }

    /// Calls `each` with every server of the old pool (whose place this one takes) from which its key may be read.
    pub(super) fn each_old(&mut self, id: u32, each: impl FnMut(&mut Self, usize)) {
        self.each_server(id, each, |router, request, servers| {
            let (table, exchange) = (router.table_of(id), &router.exchanges[id]);
            plain_key(request, &exchange.bytes, |key| {
                let pool = usize::from(exchange.destination.pool);
                table.each_old(pool, key, &mut |server| servers.push(server.slot));
            });
        });
    }

    /// Deletes the key of a write where another pool may hold it; that of a deletion also where `deletes_to` says.
    pub(super) fn delete_strays(&mut self, id: u32) {
        if self.exchanges[id].request.is_some_and(|request| request.verb == Verb::Touch) {
            return self.touch_old(id);
        }
        self.each_server(
            id,
            |router, server| router.delete(id, server),
            |router, request, servers| {
                let (table, exchange) = (router.table_of(id), &router.exchanges[id]);
                // The pool that takes it may stand in. Then those that did before may again, with what they took.
                let home = table.routes[usize::from(exchange.destination.route)].pool;
                plain_key(request, &exchange.bytes, |key| {
                    table.each_stray(home, key, router.now, &mut |server| servers.push(server.slot));
                    retain_others(table, usize::from(exchange.destination.pool), key, servers);
                });
            },
        );
        self.delete_in_related_pools(id);
    }

    /// Touches a key in the old pool too (whose place this one takes): what has expired here is looked for there.
    fn touch_old(&mut self, id: u32) {
        self.each_old(id, |router, server| {
            if !router.note_if_missed(id, server)
                && let Some(request) = router.exchanges[id].request
            {
                let bytes = &router.exchanges[id].bytes;
                let shape = write_command(&request, bytes, None, &mut router.lanes[server].output);
                router.expect(id, server, Purpose::Unused, shape);
            }
        });
    }

    /// Deletes the key of a deletion in other pools, by an exchange of the router's own: the client waits only for
    /// servers that owe very many replies. The key stays claimed until all have replied, so that no write of it by another
    /// thread comes before the deletion on one server and after it on the next.
    fn delete_in_related_pools(&mut self, id: u32) {
        let exchange = &self.exchanges[id];
        let (table, route) = (self.table_of(id), usize::from(exchange.destination.route));
        let Some(request) = exchange.request.filter(|request| {
            request.verb.is_delete() && !table.pools[table.routes[route].pool].deletes_to.is_empty()
        }) else {
            return;
        };
        let own = self.begin_own(Plan::Drain);
        if let Some(claim) = &self.exchanges[id].claim {
            let shared = self.fleet.claims.share(claim);
            self.hold_claim(own, shared);
        }
        let line = self.exchanges[id].bytes[..request.line.len as usize].to_vec();
        let exchange = &mut self.exchanges[own];
        (exchange.request, exchange.bytes) = (Some(request), line);
        self.each_server(
            id,
            |router, server| {
                let is_behind = router.lanes[server].expected.len() >= limits::DELETIONS_MAX;
                router.delete(if is_behind { id } else { own }, server);
            },
            |router, request, servers| {
                let (table, exchange) = (router.table_of(id), &router.exchanges[id]);
                plain_key(request, &exchange.bytes, |key| {
                    let home = table.routes[route].pool;
                    table
                        .each_deletion_target(home, key, router.now, &mut |server| servers.push(server.slot));
                    retain_others(table, usize::from(exchange.destination.pool), key, servers);
                });
            },
        );
        self.advance(own);
    }

    /// Calls `each` with every server that `find` finds for the request of an exchange.
    fn each_server(
        &mut self,
        id: u32,
        mut each: impl FnMut(&mut Self, usize),
        find: impl FnOnce(&Self, &Request, &mut Vec<usize>),
    ) {
        let Some(request) = self.exchanges[id].request else { return };
        let mut servers = std::mem::take(&mut self.scratch.servers);
        find(self, &request, &mut servers);
        servers.iter().for_each(|server| each(self, *server));
        servers.clear();
        self.scratch.servers = servers;
    }

    /// Notes the key of a write for a server that is away, unless it has come back meanwhile and so must get the write.
    /// Returns whether the server misses this request, a read or a write, and is not to be sent it.
    pub(super) fn note_if_missed(&mut self, id: u32, server: usize) -> bool {
        let health = &self.servers[server].health;
        if !health.is_away() {
            return false;
        }
        if !self.exchanges[id].changes() {
            return true;
        }
        if !health.note_missed_write(self.missed_write(id)) {
            return false;
        }
        self.exchanges[id].write.note_missed_by(server);
        true
    }

    /// Returns what a server misses that does not get this write.
    pub(super) fn missed_write(&self, id: u32) -> MissedWrite {
        let exchange = &self.exchanges[id];
        match exchange.request.filter(|request| request.verb != Verb::FlushAll) {
            Some(request) => MissedWrite::Key(MissedKey::of_request(&request, &exchange.bytes)),
            None => MissedWrite::AllKeys,
        }
    }
}

/// Returns when a `flush_all` is due, in Unix seconds, read as servers read it: a large number is a date. 0: at once.
fn due_s(line: &[u8], now_s: u64) -> u64 {
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).skip(1);
    let delay = words.next().and_then(signed_32).and_then(|delay| u64::try_from(delay).ok());
    match delay.unwrap_or_default() {
        0 => 0,
        seconds @ 1..=LONGEST_EXPIRY_S => now_s + seconds,
        date => date,
    }
}

/// Removes those of the servers that are to hold the key in this pool, since pools may share servers.
fn retain_others(table: &Table, pool: usize, key: &[u8], servers: &mut Vec<usize>) {
    table.each_copy(pool, key, &mut |copy| servers.retain(|server| *server != copy.slot));
}

/// Returns how many bytes of a request are kept: with the data if one server decides, since what follows repeats it.
pub(super) fn kept(request: &Request, mode: ClaimMode) -> usize {
    let is_decided = mode == ClaimMode::Exclusive;
    let data_end = if is_decided { request.data.start + request.data.len } else { 0 };
    data_end.max(request.line.len) as usize
}

/// Returns whether a request stores a value, whatever is there.
pub(super) fn stores(request: &Request) -> bool {
    matches!(request.verb, Verb::Set | Verb::MetaSet)
}

/// Returns whether a request changes what is stored under its key.
pub(super) fn is_write(request: &Request) -> bool {
    !request.verb.is_get() && !matches!(request.verb, Verb::MetaGet | Verb::MetaDebug)
}

/// Returns whether the outcome depends on what a server holds, so that one must decide for all.
pub(super) fn decides(request: &Request, input: &[u8]) -> bool {
    let has = |flags: &[u8]| {
        let mut words = request.words_after_key(input).map(|word| word.of(input));
        words.any(|word| word.first().is_some_and(|flag| flags.contains(flag)) && word != b"MS")
    };
    match request.verb {
        Verb::Set | Verb::Delete | Verb::Touch => false,
        // Leases and tokens live on one server.
        Verb::MetaGet => has(b"cNR"),
        Verb::MetaSet => has(b"cCIM"),
        Verb::MetaDelete => has(b"CI"),
        _ => true,
    }
}

/// Returns how a write claims its key.
pub(super) fn claim_mode(request: &Request, input: &[u8]) -> ClaimMode {
    if decides(request, input) { ClaimMode::Exclusive } else { ClaimMode::Shared }
}

/// Writes a request as it is sent to a server: without `noreply`, and a quiet one with an `mn` after it, so that the
/// server itself decides what it says and its end is seen. What it stores lives no longer than `max_life` says.
pub(super) fn write_command(
    request: &Request,
    bytes: &[u8],
    max_life: Option<MaxLife>,
    output: &mut Vec<u8>,
) -> Shape {
    if request.verb == Verb::Delete {
        return follow::delete(request, bytes, output);
    }
    let line = request.line.of(bytes);
    let end = request.noreply.map_or(line.len(), |word| word.start as usize);
    match max_life {
        Some(max_life) => expiry::write_capped_line(request, bytes, end, max_life, output),
        None => output.extend_from_slice(&line[..end]),
    }
    output.extend_from_slice(b"\r\n");
    output.extend_from_slice(request.data.of(bytes));
    match request.verb {
        verb if !verb.is_meta() => Shape::Line(Words::of(verb)),
        _ if request.quiet => {
            output.extend_from_slice(b"mn\r\n");
            Shape::Quiet
        }
        _ => Shape::Meta,
    }
}

/// A hash for claims: FNV-1a, cut down with its high bits mixed in.
pub(super) fn hash(key: &[u8]) -> u64 {
    let hash = key.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash ^ (hash >> 32)
}
