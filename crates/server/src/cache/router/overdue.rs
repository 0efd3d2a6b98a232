//! Requests that take too long: their clients are answered without the replies that come later, which are dropped.
//!
//! A silent server is found out elsewhere, and in time: this is about servers that say something now and then but never
//! finish a reply, and about clients that would rather have no answer than a late one.
//!
//! Requests are not sorted by deadline. All that are under way are checked a few times within the shortest limit, so
//! that a request which is answered in time, as nearly all are, costs nothing.

use std::sync::atomic::Ordering;
use std::time::Duration;

use posthaste_measure::Ending;
use posthaste_wire::memcached::request::{Request, Verb};

use super::exchange::{Plan, Share};
use super::incoming::Origin;
use super::writes::hash;
use super::{Admission, Router, agree, recorded_length};
use crate::cache::pool::plain_key;
use crate::cache::request_kind;
use crate::cache::rules::GetErrors;
use crate::cache::table::{Route, Table};

/// The answer to a request that took too long.
const LATE: &[u8] = b"SERVER_ERROR no answer in time\r\n";

/// How many checks are made within the shortest limit: by one such interval a request may exceed its own.
const CHECKS: u64 = 8;

/// Longest time between two checks.
const CHECK_EVERY_MAX_NS: u64 = 250_000_000;

impl Router {
    /// Returns how long until the requests under way are to be checked; `None`: none is under way.
    #[must_use]
    pub fn until_check(&self, now: u64) -> Option<Duration> {
        let is_idle = self.tables.iter().all(|used| used.exchanges == 0);
        (!is_idle).then(|| Duration::from_nanos(self.next_check_at.saturating_sub(now)))
    }

    /// Answers the requests that have taken too long. Returns the servers whose next reply is not complete after the
    /// longest limit: their connections are of no more use.
    pub fn give_up_overdue(&mut self) -> Vec<usize> {
        let mut servers = Vec::new();
        if self.now < self.next_check_at {
            return servers;
        }
        let (shortest, longest) = self.table().timeouts_ns();
        let every = (shortest / CHECKS).clamp(1, CHECK_EVERY_MAX_NS);
        // If this check is much later than planned, the thread was stopped: what came meanwhile must be read first.
        let were_stopped = self.now - self.next_check_at > every + CHECK_EVERY_MAX_NS;
        self.has_skipped_check = were_stopped && !self.has_skipped_check;
        self.next_check_at = self.now + every;
        if self.has_skipped_check {
            return servers;
        }
        for id in self.exchanges.ids() {
            if self.is_overdue(id) {
                self.give_up_on(id);
            }
        }
        let is_overdue = |server: &usize| {
            self.waiting_since(*server).is_some_and(|since| self.now.saturating_sub(since) > longest)
        };
        servers.extend((0..self.lanes.len()).filter(is_overdue));
        servers
    }

    /// Has a request that could not be taken tried again, unless it has waited for longer than it may take: then it is
    /// answered as one that is late. While its client has a read under way for which it may have to wait, no time counts:
    /// the client itself may be what takes so long.
    pub fn retry_unless_late(
        &mut self,
        client: usize,
        request: &Request,
        input: &[u8],
        received: u64,
    ) -> Admission {
        let waited_ns = self.now.saturating_sub(received.max(self.answers.waits_since(client)));
        if waited_ns <= self.table().timeouts_ns().0 {
            return Admission::RetryLater;
        }
        if self.has_read_that_asks_later(client) {
            self.answers.note_waits_for_own(client, self.now);
            return Admission::RetryLater;
        }
        let table = self.table();
        let routes = routes_of(table, request, input);
        let limits = routes.iter().map(|route| table.routes[*route].timeout_ns);
        if waited_ns <= limits.min().unwrap_or(table.timeout_ns) {
            return Admission::RetryLater;
        }
        if let Some(route) = routes.first() {
            table.routes[*route].counts.timed_out.fetch_add(1, Ordering::Relaxed);
        }
        let is_read = request.verb.is_get() || request.verb == Verb::MetaGet;
        let is_missed = is_read && routes.iter().all(|route| is_missed_if_late(table, &table.routes[*route]));
        let ending = if is_missed { Ending::Null } else { Ending::Error };
        let origin = Origin { client, received, bytes: recorded_length(input.len()) };
        self.write_local_answer(origin, request_kind::number(request), ending, |out| match request.verb {
            _ if request.noreply.is_some() => {}
            _ if !is_missed => out.extend_from_slice(LATE),
            Verb::MetaGet => agree::write_miss_reply(request, input, out),
            _ => out.extend_from_slice(b"END\r\n"),
        });
        Admission::Accepted
    }

    fn is_overdue(&self, id: u32) -> bool {
        let exchange = &self.exchanges[id];
        // A paused get (`pending` is 0) waits for its client.
        let waits = exchange.pending > 0 && exchange.is_wanted() && !exchange.is_own;
        waits && self.now.saturating_sub(exchange.since) > self.limit_ns(id)
    }

    /// Returns how long an exchange may take: the shortest limit of its routes.
    fn limit_ns(&self, id: u32) -> u64 {
        let (exchange, table) = (&self.exchanges[id], self.table_of(id));
        let limit = |route: u16| table.routes.get(usize::from(route)).map(|route| route.timeout_ns);
        let of_shares = exchange.get.shares.iter().filter_map(|share| limit(share.route)).min();
        of_shares.or_else(|| self.route_of(id).map(|route| route.timeout_ns)).unwrap_or(table.timeout_ns)
    }

    fn give_up_on(&mut self, id: u32) {
        let exchange = &self.exchanges[id];
        // It is answered: what is still to come concerns the servers alone.
        if exchange.ending.is_some() {
            return self.conclude(id);
        }
        // It is decided: an error would make the client ask for it again.
        if exchange.plan == Plan::Follow {
            return self.answer_decision(id);
        }
        if let Some(route) = self.route_of(id) {
            route.counts.timed_out.fetch_add(1, Ordering::Relaxed);
        }
        self.begin_late_write(id);
        let is_error = !self.is_missed_when_late(id);
        let exchange = &mut self.exchanges[id];
        match exchange.plan {
            Plan::Gather => {
                let client = exchange.client;
                let is_first = self.answers.is_first(client, id);
                let out = if is_first { self.answers.output(client) } else { &mut exchange.answer };
                exchange.get.gather.pass_on_all(out);
            }
            Plan::Decide => self.answers.unfence(exchange.client),
            _ => {}
        }
        let exchange = &mut self.exchanges[id];
        if is_error && exchange.error.is_empty() {
            exchange.error.extend_from_slice(LATE);
        }
        let (words, ending) = match exchange.request {
            _ if is_error => (std::mem::take(&mut exchange.error), Ending::Error),
            Some(request) if request.verb == Verb::MetaGet => {
                let mut words = Vec::new();
                agree::write_miss_reply(&request, &exchange.bytes, &mut words);
                (words, Ending::Null)
            }
            _ if exchange.get.gather.hits() > 0 => (b"END\r\n".to_vec(), Ending::Ok),
            _ => (b"END\r\n".to_vec(), Ending::Null),
        };
        exchange.ending = Some(ending);
        self.reply_to_client(id, &words);
        if is_error {
            self.exchanges[id].error = words;
        }
        self.conclude(id);
    }

    /// Keeps the key of a late write that has no claim from other threads until its server has answered.
    fn begin_late_write(&mut self, id: u32) {
        let exchange = &mut self.exchanges[id];
        if exchange.is_unclaimed && exchange.claim.is_none() {
            let key = exchange.request.map(|request| plain_key(&request, &exchange.bytes, hash));
            exchange.late = key.map(|key| self.fleet.late_writes.begin(key, self.number));
        }
    }

    /// Notes the end of a late write, if an exchange is one. Other threads may wait for it.
    pub(super) fn end_late_write(&mut self, id: u32) {
        if let Some(late) = self.exchanges[id].late.take() {
            self.fleet.late_writes.end(late);
            self.claim_released = true;
        }
    }

    /// Returns whether a late write of another thread may still change the key that this request is to write.
    pub(super) fn waits_for_late_write(&self, request: &Request, input: &[u8]) -> bool {
        let late = &self.fleet.late_writes;
        late.are_any() && late.concern(plain_key(request, input, hash), self.number)
    }

    /// Returns whether the unanswered keys of a late get are misses and no error, by the rules of all their pools.
    fn is_missed_when_late(&self, id: u32) -> bool {
        let (exchange, table) = (&self.exchanges[id], self.table_of(id));
        let is_missed = |route: &Route| is_missed_if_late(table, route);
        match exchange.request {
            _ if !exchange.error.is_empty() => false,
            Some(request) if request.verb.is_get() => {
                let of_share = |(number, share): (usize, &Share)| {
                    let is_settled = exchange.get.gather.unsettled(number as u16).is_empty();
                    (!is_settled).then_some(usize::from(share.route))
                };
                let open = exchange.get.shares.iter().enumerate().filter_map(of_share);
                // Keys of its later steps.
                let later = exchange.get.keys[exchange.get.gather.assigned()..].iter();
                let later = later.filter_map(|key| table.route(request.verb, key.of(&exchange.bytes)));
                open.chain(later).all(|route| is_missed(&table.routes[route]))
            }
            Some(request) if request.verb == Verb::MetaGet => self.route_of(id).is_some_and(is_missed),
            _ => false,
        }
    }
}

/// Returns whether the keys of a late get on this route are misses and no error.
fn is_missed_if_late(table: &Table, route: &Route) -> bool {
    table.pools[route.pool].rules.get_errors == GetErrors::Miss
}

/// Returns the routes of a request's keys.
fn routes_of(table: &Table, request: &Request, input: &[u8]) -> Vec<usize> {
    if request.verb.is_get() {
        return request.key_spans(input).filter_map(|key| table.route(request.verb, key.of(input))).collect();
    }
    let has_key = request.keys > 0;
    let route = has_key.then(|| plain_key(request, input, |key| table.route(request.verb, key)));
    route.flatten().into_iter().collect()
}
