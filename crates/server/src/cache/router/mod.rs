//! The router: requests of many clients in, commands to servers out; replies in, answers out, each in its order.
//!
//! No sockets, no threads, no clock: who owns it moves bytes and tells the time. So one router serves both modes: in
//! `pipelined` mode a network thread has one for all its clients, with `--workers N` each worker has one for the one
//! request that it is at. And so tests can drive it with servers that are slow, wrong or gone.
//!
//! A request becomes an [`Exchange`], which stands in its client's line until it is answered. For every command that
//! it sends to a server, that server's [`Lane`] expects one reply. Servers answer in order, so the first reply to come
//! belongs to the first command that waits: there is nothing to look up and nothing to mix up.
//!
//! | file | has |
//! | --- | --- |
//! | `exchange.rs` | one request under way |
//! | `tables.rs` | by which tables requests go |
//! | `taking.rs` | a request as it comes: answered here, or put on its route |
//! | `reads.rs`, `writes.rs` | which servers a request goes to, and in what steps |
//! | `expiry.rs` | how long what a request stores may live |
//! | `follow.rs` | what replicas are told after one of them has decided |
//! | `lane.rs` | the way to one server: what is to be sent, which replies are to come |
//! | `joined.rs` | gets of several requests in one command |
//! | `replies.rs` | what comes back |
//! | `undone.rs` | what it means for the others that the one that decides did not do something |
//! | `flushed.rs` | what is flushed beside a write |
//! | `agree.rs` | when several servers have said enough for an answer |
//! | `lookup.rs` | what one server missed and another may have |
//! | `shadow.rs` | requests repeated where nobody waits for the answers |
//! | `losses.rs` | what does not come back |
//! | `overdue.rs` | what takes too long |
//! | `resent.rs` | what never left |
//!
//! Requests go by the table that was in force when they came, to their end; the next ones go by the next.

mod agree;
mod creating;
mod exchange;
mod expiry;
mod flushed;
mod follow;
mod joined;
mod lane;
mod lookup;
mod losses;
mod overdue;
mod reads;
mod replies;
mod resent;
mod shadow;
mod tables;
mod taking;
mod undone;
mod writes;

use std::sync::Arc;

use posthaste_measure::{Ending, Stamps};
use posthaste_wire::memcached::request::Request;

use super::answers::Answers;
use super::fleet::{Fleet, Server};
use super::flushes::OwnFlushes;
use super::handover::Party;
use super::kind;
use super::limits;
use super::table::Route;
use exchange::{Exchange, NOBODY, Plan};
use expiry::Most;
use lane::Lane;
pub use replies::Broken;
pub use shadow::shadows_key;
use tables::InUse;
use taking::Incoming;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// It was taken.
    Taken,
    /// Not now: the key is being written elsewhere, or a server has too much to do. To be asked again.
    Later,
    /// The client takes its leave.
    Quit,
}

/// A request that is answered, for the record.
#[derive(Clone, Copy, Debug)]
pub struct Finished {
    /// Its kind.
    pub kind: u8,
    /// How it ended.
    pub ending: Ending,
    /// When it passed the stations, but the last.
    pub stamps: Stamps,
    /// Its client's slot; none when the client is gone.
    pub slot: Option<usize>,
    /// The number of its client.
    pub client: u64,
    /// Its length.
    pub request_bytes: u32,
    /// The length of its answer.
    pub answer_bytes: u32,
    /// Reads from servers that brought something of its replies.
    pub server_reads: u32,
}

/// The router.
pub struct Router {
    fleet: Arc<Fleet>,
    who: u16,
    generation: u64,
    /// What the other routers are told of the tables we write by.
    party: Party,
    /// The last table of which it is known that all have come to it.
    handed_over: u64,
    /// It goes by no table until the next is taken up.
    rests: bool,
    /// By slot.
    servers: Vec<Arc<Server>>,
    tables: Vec<InUse>,
    current: u16,
    /// Answers to clients, by slot.
    pub answers: Answers,
    /// What was answered since the last look.
    pub finished: Vec<Finished>,
    /// The time, told by the owner once a turn.
    pub now: u64,
    /// A claim was released that others wait for.
    pub claim_released: bool,
    /// Reads from servers so far.
    reads: u64,
    lanes: Vec<Lane>,
    exchanges: Vec<Exchange>,
    free: Vec<u32>,
    unsent: Vec<u32>,
    paused: Vec<u32>,
    share_of_server: Vec<u16>,
    /// Routes of the keys of a multi-get.
    routes_of_keys: Vec<u16>,
    /// Places of the keys of one of those.
    places: Vec<u32>,
    /// Servers that were found for a request.
    found: Vec<usize>,
    /// A request or reply whose key is changed.
    changed: Vec<u8>,
    /// Values for nobody.
    nowhere: Vec<u8>,
    /// When requests under way are looked through.
    look_at: u64,
    /// The last look spared them.
    spares: bool,
    /// Values that are on their way from one server to another.
    fills: usize,
    /// Flushes of our clients.
    flushes: OwnFlushes,
}

impl Router {
    /// A router for one thread; `who` tells the threads of a fleet apart.
    #[must_use]
    pub fn new(fleet: Arc<Fleet>, who: u16) -> Self {
        let party = fleet.handover.join();
        let mut router = Self {
            fleet,
            who,
            generation: 0,
            party,
            handed_over: 0,
            rests: true,
            servers: Vec::new(),
            tables: Vec::new(),
            current: 0,
            answers: Answers::default(),
            finished: Vec::new(),
            now: 0,
            claim_released: false,
            reads: 0,
            lanes: Vec::new(),
            exchanges: Vec::new(),
            free: Vec::new(),
            unsent: Vec::new(),
            paused: Vec::new(),
            share_of_server: Vec::new(),
            routes_of_keys: Vec::new(),
            places: Vec::new(),
            found: Vec::new(),
            changed: Vec::new(),
            nowhere: Vec::new(),
            look_at: 0,
            spares: false,
            fills: 0,
            flushes: OwnFlushes::default(),
        };
        router.take_up();
        router
    }

    /// The servers, by slot.
    #[must_use]
    pub fn servers(&self) -> &[Arc<Server>] {
        &self.servers
    }

    /// A client is there, in this slot.
    pub fn enter(&mut self, client: usize, number: u64) {
        self.answers.enter(client, number);
    }

    /// A client is gone. What it asked goes on, for the sake of the servers; nobody gets the answers.
    pub fn leave(&mut self, client: usize) {
        for id in self.answers.leave(client) {
            self.exchange(id).client = NOBODY;
            if self.exchange(id).over {
                self.recycle(id);
            }
        }
    }

    /// Whether a multi-get can go on, whose client had enough for a while.
    #[must_use]
    pub fn can_resume(&self) -> bool {
        self.paused.iter().any(|id| {
            let client = self.exchanges[*id as usize].client;
            client == NOBODY || self.answers.held_for(client) <= limits::OUTPUT_BYTES_PAUSE
        })
    }

    /// Goes on with multi-gets whose clients had enough for a while.
    pub fn resume(&mut self) {
        for id in std::mem::take(&mut self.paused) {
            self.step_on(id);
        }
    }

    /// Requests that are not done with.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.exchanges.len() - self.free.len()
    }

    fn exchange(&mut self, id: u32) -> &mut Exchange {
        &mut self.exchanges[id as usize]
    }

    /// An exchange of the present table.
    fn new_exchange(&mut self) -> u32 {
        let id = self.free.pop().unwrap_or_else(|| {
            self.exchanges.push(Exchange::default());
            (self.exchanges.len() - 1) as u32
        });
        self.exchange(id).table = self.current;
        self.tables[usize::from(self.current)].exchanges += 1;
        id
    }

    /// A new exchange that keeps these bytes, the first ones of the request. It stands in no line yet.
    fn begin(&mut self, incoming: &Incoming<'_>, kept: &[u8]) -> u32 {
        let Incoming { origin, request, .. } = *incoming;
        let id = self.new_exchange();
        let (number, now) = (self.answers.number(origin.client), self.now);
        let exchange = self.exchange(id);
        (exchange.client, exchange.number, exchange.since) = (origin.client, number, now);
        exchange.request_bytes = origin.bytes;
        exchange.request = Some(*request);
        exchange.kind = kind::kind(request);
        exchange.bytes.extend_from_slice(kept);
        exchange.stamps = Stamps { received: origin.received, ..Stamps::default() };
        id
    }

    /// Puts it into its client's line and counts it as sent.
    fn line_up(&mut self, id: u32) {
        self.stand_in_line(id);
        self.unsent.push(id);
    }

    fn stand_in_line(&mut self, id: u32) {
        let exchange = &mut self.exchanges[id as usize];
        exchange.weight = exchange.weight();
        self.answers.line_up(exchange.client, id, exchange.values(), exchange.weight);
    }

    /// An exchange of our own, which nobody waits for.
    fn begin_own(&mut self, plan: Plan) -> u32 {
        let id = self.new_exchange();
        let exchange = self.exchange(id);
        (exchange.client, exchange.plan, exchange.is_own) = (NOBODY, plan, true);
        id
    }

    fn recycle(&mut self, id: u32) {
        let table = self.exchange(id).table;
        let used = &mut self.tables[usize::from(table)];
        used.exchanges -= 1;
        if used.exchanges == 0 && table != self.current {
            used.table = Arc::default();
        }
        if self.free.len() < limits::SPARE_MAX {
            self.exchange(id).clear();
        } else {
            *self.exchange(id) = Exchange::default();
        }
        self.free.push(id);
        self.shed_spare();
    }

    /// Of exchanges that were under way at once no more are kept than may be used again soon. They are known by their place, so
    /// it is when none is under way that others go.
    fn shed_spare(&mut self) {
        let are_all_free = self.free.len() == self.exchanges.len() && self.unsent.is_empty();
        if are_all_free && self.exchanges.len() > limits::SPARE_MAX {
            self.exchanges.truncate(limits::SPARE_MAX);
            self.exchanges.shrink_to_fit();
            self.free.clear();
            self.free.shrink_to(limits::SPARE_MAX);
            self.free.extend(0..limits::SPARE_MAX as u32);
        }
    }

    /// The longest life of what an exchange stores, if it has one.
    fn most(&self, expiry_s: Option<u32>) -> Option<Most> {
        expiry_s.map(|seconds| Most { seconds, now_s: self.now_s() })
    }

    /// The date, in seconds of Unix.
    fn now_s(&self) -> u64 {
        self.fleet.began_s + self.now / 1_000_000_000
    }

    /// The answer of an exchange is whole: it goes out when its turn comes.
    fn conclude(&mut self, id: u32) {
        let answered = self.now;
        let exchange = &mut self.exchanges[id as usize];
        if exchange.done {
            return;
        }
        exchange.done = true;
        exchange.stamps.answered = answered;
        if !exchange.is_own {
            let exchange = &self.exchanges[id as usize];
            if let Some(route) = self.route_of(id) {
                route.counts.latency.note(answered.saturating_sub(exchange.stamps.received));
            }
            self.finished.push(Finished {
                kind: exchange.kind,
                ending: exchange.ending.unwrap_or(Ending::Ok),
                stamps: exchange.stamps,
                slot: (exchange.client != NOBODY).then_some(exchange.client),
                client: exchange.number,
                request_bytes: exchange.request_bytes,
                answer_bytes: exchange.answer_bytes,
                server_reads: exchange.reads,
            });
        }
        match self.exchanges[id as usize].client {
            NOBODY => {}
            client if self.answers.is_first(client, id) => self.pass_on(client, id),
            _ => {}
        }
    }

    /// The route of an exchange, of several the first; what has no key is on none.
    fn route_of(&self, id: u32) -> Option<&Route> {
        let exchange = &self.exchanges[id as usize];
        exchange.request.filter(|request| request.keys > 0)?;
        let route = exchange.shares.first().map_or(exchange.aim.route, |share| share.route);
        self.table_of(id).routes.get(usize::from(route))
    }

    /// Nothing more is to be done for an exchange. Once it has been passed on it is gone.
    fn finish(&mut self, id: u32) {
        let exchange = self.exchange(id);
        exchange.over = true;
        let (is_nobodys, is_own) = (exchange.client == NOBODY, exchange.is_own);
        if let Some(claim) = exchange.claim.take() {
            // Of our own exchanges only fills have claims.
            self.fills -= usize::from(is_own);
            self.claim_released |= self.fleet.claims.release(claim, self.now);
        }
        if std::mem::take(&mut self.exchange(id).is_unclaimed) {
            self.end_unclaimed(id);
        }
        self.end_flush(id);
        self.conclude(id);
        if is_nobodys {
            self.recycle(id);
        }
    }

    /// Passes on what is ready, from the first in line.
    fn pass_on(&mut self, client: usize, first: u32) {
        let mut next = Some(first);
        while let Some(id) = next {
            let exchange = &mut self.exchanges[id as usize];
            if !exchange.answer.is_empty() {
                let output = self.answers.output(client);
                if output.is_empty() {
                    std::mem::swap(output, &mut exchange.answer);
                } else {
                    output.extend_from_slice(&exchange.answer);
                    exchange.answer.clear();
                }
            }
            if !exchange.done {
                return;
            }
            next = self.answers.step(client, exchange.values(), exchange.weight);
            if exchange.over {
                self.recycle(id);
            } else {
                exchange.client = NOBODY;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use posthaste_wire::memcached::decode::{Decoded, Limits, decode};

    use super::*;
    use crate::cache::layout::{Layout, Seat};
    use crate::cache::rules::Rules;

    const LIMITS: Limits = Limits { value_bytes: 100, line_bytes: 1000 };

    #[test]
    fn of_many_requests_at_once_no_more_memory_stays_than_may_be_used_again_soon() {
        let layout = Layout::of_one_pool(vec![Seat::of("127.0.0.1:1")], Rules::default());
        let mut router = Router::new(Arc::new(Fleet::new(&layout, true).unwrap()), 0);
        let clients = 3 * limits::SPARE_MAX;
        let text = b"get key\r\n";
        let Decoded::Request(request, _) = decode(text, &LIMITS) else { panic!("it is one") };
        for client in 0..clients {
            router.enter(client, client as u64);
            assert_eq!(router.ask(client, &request, text, 0), Asked::Taken);
        }
        let asked = router.unsent(0).len();
        router.sent(0, asked);
        router.stamp_sent(1);
        assert_eq!(router.exchanges.len(), clients);
        let answer = b"END\r\n".repeat(clients - 1);
        assert_eq!(router.feed(0, &answer), Ok(answer.len()));
        let with_memory = |router: &Router| {
            router.exchanges.iter().filter(|exchange| exchange.bytes.capacity() > 0).count()
        };
        assert!(with_memory(&router) <= limits::SPARE_MAX + 1, "one is still under way");
        assert_eq!(router.feed(0, b"END\r\n"), Ok(5));
        assert_eq!((router.exchanges.len(), router.free.len()), (limits::SPARE_MAX, limits::SPARE_MAX));
        // And it goes on.
        assert_eq!(router.ask(0, &request, text, 0), Asked::Taken);
        assert_eq!(router.unsent(0), text);
    }
}
