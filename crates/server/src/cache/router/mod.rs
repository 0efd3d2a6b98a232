//! The router turns requests of many clients into commands to servers, and replies into answers, each in its order.
//!
//! It has no sockets, no threads and no clock: its owner moves the bytes and tells it the time. So it serves both
//! modes: in `pipelined` mode a network thread has one router for all its clients, with `--workers N` each worker has
//! one for a single request at a time. And tests can drive it with servers that are slow, wrong or gone.
//!
//! A request becomes an [`Exchange`](exchange::Exchange), which stands in its client's line until it is answered. For
//! every command that it sends to a server, that server's [`Lane`] expects one reply. Servers answer in order, so the
//! first reply to come belongs to the first command that waits.
//!
//! | file | has |
//! | --- | --- |
//! | `exchange.rs`, `exchanges.rs` | one request under way; all of them, by number |
//! | `tables.rs` | by which tables requests go |
//! | `incoming.rs` | new requests: answered at once, or put on their routes |
//! | `reads.rs`, `meta_get.rs`, `writes.rs` | which servers a request goes to, and in what steps |
//! | `touches.rs` | the expiry that a read sets goes to the other servers too |
//! | `order.rs` | no read sees what its client changed later, or misses what it created earlier |
//! | `creating.rs` | what an `mg` has created on one replica is copied to the others |
//! | `expiry.rs` | how long what a request stores may live |
//! | `follow.rs` | commands to the replicas after one of them has decided |
//! | `lane.rs` | the way to one server: what is to be sent, which replies are expected |
//! | `joined.rs` | gets of several requests in one command |
//! | `replies.rs` | replies, and the requests that they are for |
//! | `steps.rs` | the next step of a request when all replies to the last one have come |
//! | `undone.rs` | the other copies after the decider did not do what it was asked |
//! | `flushed.rs` | flushes that run beside a write |
//! | `agree.rs` | whether enough servers have replied to a write for an answer |
//! | `lookup.rs` | keys that one server missed and another may have |
//! | `fill.rs` | values copied to where they were missed |
//! | `shadow.rs` | requests repeated in another pool to try it |
//! | `losses.rs` | replies that do not come |
//! | `overdue.rs` | requests that take too long |
//! | `resent.rs` | writes that were never sent |
//!
//! A request uses the table that was in force when it was accepted, to its end.

mod agree;
mod creating;
mod exchange;
mod exchanges;
mod expiry;
mod fill;
mod flushed;
mod follow;
mod incoming;
mod joined;
mod lane;
mod lookup;
mod losses;
mod meta_get;
mod order;
mod overdue;
mod reads;
mod replies;
mod resent;
mod shadow;
mod steps;
mod tables;
mod touches;
mod undone;
mod writes;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use posthaste_measure::{Ending, Stamps};

use super::answers::Answers;
use super::fleet::Fleet;
use super::flushes::OwnFlushes;
use super::handover::Participant;
use super::limits;
use super::memcached_server::Server;
use super::request_kind;
use super::table::Route;
use exchange::{NO_CLIENT, Plan};
use exchanges::Exchanges;
use expiry::MaxLife;
use incoming::Incoming;
use lane::Lane;
pub use replies::Broken;
pub use shadow::shadows_key;
use tables::TableInUse;

/// Whether a request was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The request is under way, or answered.
    Accepted,
    /// The request was not accepted and must be submitted again: its key is claimed, a server has too much to do, or
    /// writes are paused.
    RetryLater,
    /// The client wants its connection closed.
    Quit,
}

/// A request that is answered, for the record.
#[derive(Clone, Copy, Debug)]
pub struct Finished {
    /// The kind of request.
    pub kind: u8,
    /// How the request ended.
    pub ending: Ending,
    /// The stamps of the request, but for the last (`replied`), which the owner sets.
    pub stamps: Stamps,
    /// The slot of the client; `None`: the client has left.
    pub slot: Option<usize>,
    /// The number of the client.
    pub client: u64,
    /// Length of the request, in bytes.
    pub request_bytes: u32,
    /// Length of the answer, in bytes.
    pub answer_bytes: u32,
    /// How many reads from servers brought parts of the replies to it.
    pub server_reads: u32,
}

/// Returns a length as it is recorded: whatever is longer counts as the longest that can be written down.
#[must_use]
pub fn recorded_length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Buffers that are used within one call only. They are kept between calls so that no request allocates memory.
#[derive(Default)]
struct Scratch {
    /// The last share of a get for each server, by slot.
    share_of_server: Vec<Option<u16>>,
    /// Routes of the keys of a multi-get; `None`: no route, or done with.
    routes_of_keys: Vec<Option<u16>>,
    /// Places of the keys of one route.
    places: Vec<u32>,
    /// Servers that a request concerns.
    servers: Vec<usize>,
    /// A request or reply with its key renamed.
    renamed: Vec<u8>,
    /// Values that no client waits for.
    unwanted: Vec<u8>,
}

/// The router.
pub struct Router {
    fleet: Arc<Fleet>,
    /// Tells the threads of a fleet apart.
    number: u16,
    /// The number of the current table, see [`Fleet::generation`].
    generation: u64,
    /// Tells the other routers by which tables this one writes.
    handover: Participant,
    /// The number of the last table that all routers are known to have adopted.
    handed_over: u64,
    /// The number of the last table of which no router is known to hold a claim by an earlier one.
    claims_handed_over: u64,
    /// Whether the router accepts no request before the next `adopt_table`.
    is_idle: bool,
    /// All servers, by slot.
    servers: Vec<Arc<Server>>,
    tables: Vec<TableInUse>,
    /// Index in `tables` of the table that new requests go by.
    current: u16,
    /// Answers to clients, by slot.
    pub answers: Answers,
    /// Requests that were answered since the owner last emptied this.
    pub finished: Vec<Finished>,
    /// The time, in nanoseconds since the program's start, as the owner tells it.
    pub now: u64,
    /// Whether a claim was released that other threads wait for: the owner is to wake them.
    pub claim_released: bool,
    /// Reads from servers so far.
    reads: u64,
    /// The ways to the servers, by slot.
    lanes: Vec<Lane>,
    /// How many of them are crowded, see `is_any_crowded`.
    crowded: usize,
    exchanges: Exchanges,
    /// Exchanges that the next `stamp_sent` stamps.
    unstamped: Vec<u32>,
    /// Reads under way that may be asked of a server after later requests of their clients.
    reads_that_ask_later: usize,
    /// Meta gets under way that may create their key on several servers.
    creating: usize,
    /// Multi-gets that wait until their clients have read more of their answers.
    paused: Vec<u32>,
    scratch: Scratch,
    /// When the requests under way are next checked for those that take too long.
    next_check_at: u64,
    /// Whether the last check was skipped, since the thread itself had been stopped.
    has_skipped_check: bool,
    /// How many values are on their way from one server to another.
    fills: usize,
    /// Flushes of this router's clients.
    flushes: OwnFlushes,
}

impl Router {
    /// Creates the router of a thread; `number` tells the threads of a fleet apart.
    #[must_use]
    pub fn new(fleet: Arc<Fleet>, number: u16) -> Self {
        let handover = fleet.handover.join();
        let mut router = Self {
            fleet,
            number,
            generation: 0,
            handover,
            handed_over: 0,
            claims_handed_over: 0,
            is_idle: true,
            servers: Vec::new(),
            tables: Vec::new(),
            current: 0,
            answers: Answers::default(),
            finished: Vec::new(),
            now: 0,
            claim_released: false,
            reads: 0,
            lanes: Vec::new(),
            crowded: 0,
            exchanges: Exchanges::default(),
            unstamped: Vec::new(),
            reads_that_ask_later: 0,
            creating: 0,
            paused: Vec::new(),
            scratch: Scratch::default(),
            next_check_at: 0,
            has_skipped_check: false,
            fills: 0,
            flushes: OwnFlushes::default(),
        };
        router.adopt_table();
        router
    }

    /// The servers, by slot.
    #[must_use]
    pub fn servers(&self) -> &[Arc<Server>] {
        &self.servers
    }

    /// Registers a client in this slot.
    pub fn add_client(&mut self, client: usize, number: u64) {
        self.answers.add_client(client, number);
    }

    /// Removes a client. Its requests run to their end, for the sake of the servers, and their answers are dropped.
    pub fn remove_client(&mut self, client: usize) {
        for id in self.answers.remove_client(client) {
            self.exchanges[id].client = NO_CLIENT;
            if self.exchanges[id].is_over {
                self.recycle(id);
            }
        }
    }

    /// Returns whether a paused multi-get can go on: its client has read enough of what it got, or has left.
    #[must_use]
    pub fn can_resume(&self) -> bool {
        self.paused.iter().any(|id| {
            let client = self.exchanges[*id].client;
            client == NO_CLIENT || self.answers.held_for(client) <= limits::OUTPUT_BYTES_PAUSE
        })
    }

    /// Resumes paused multi-gets. Those whose clients have not read enough yet pause again.
    pub fn resume(&mut self) {
        for id in std::mem::take(&mut self.paused) {
            self.advance(id);
        }
    }

    /// Returns how many exchanges are under way.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.exchanges.under_way()
    }

    /// Returns a new or recycled exchange, which goes by the current table.
    fn new_exchange(&mut self) -> u32 {
        let id = self.exchanges.take();
        self.exchanges[id].table = self.current;
        self.tables[usize::from(self.current)].exchanges += 1;
        id
    }

    /// Returns a new exchange that keeps these bytes, the first ones of the request. It is not enqueued yet.
    fn begin(&mut self, incoming: &Incoming<'_>, kept: &[u8]) -> u32 {
        let Incoming { origin, request, .. } = *incoming;
        let id = self.new_exchange();
        let (number, now) = (self.answers.number(origin.client), self.now);
        let exchange = &mut self.exchanges[id];
        (exchange.client, exchange.record.client_number, exchange.since) = (origin.client, number, now);
        exchange.record.request_bytes = origin.bytes;
        exchange.request = Some(*request);
        exchange.record.kind = request_kind::number(request);
        exchange.bytes.extend_from_slice(kept);
        exchange.record.stamps = Stamps { received: origin.received, ..Stamps::default() };
        if origin.received < now {
            // It was put off until now.
            let stamps = &mut exchange.record.stamps;
            (stamps.enqueued, stamps.dequeued) = (origin.received, now);
        }
        id
    }

    /// Adds an exchange to its client's requests in order, and to those that the next `stamp_sent` stamps.
    fn enqueue(&mut self, id: u32) {
        self.enqueue_stamped(id);
        self.unstamped.push(id);
    }

    /// Adds an exchange to its client's requests in order.
    fn enqueue_stamped(&mut self, id: u32) {
        let exchange = &mut self.exchanges[id];
        exchange.weight = exchange.weight();
        self.answers.enqueue(exchange.client, id, exchange.values(), exchange.weight);
    }

    /// Returns a new exchange of the router's own, for which no client waits.
    fn begin_own(&mut self, plan: Plan) -> u32 {
        let id = self.new_exchange();
        let exchange = &mut self.exchanges[id];
        (exchange.client, exchange.plan, exchange.is_own) = (NO_CLIENT, plan, true);
        id
    }

    fn recycle(&mut self, id: u32) {
        let table = self.exchanges[id].table;
        let used = &mut self.tables[usize::from(table)];
        used.exchanges -= 1;
        if used.exchanges == 0 && table != self.current {
            used.table = Arc::default();
        }
        self.exchanges.give_back(id);
        // An exchange that is yet to be stamped keeps its number.
        if self.unstamped.is_empty() {
            self.exchanges.shed_spare();
        }
    }

    /// Returns the limit on the life of what is stored, if there is one.
    fn max_life(&self, expiry_s: Option<u32>) -> Option<MaxLife> {
        expiry_s.map(|seconds| MaxLife { seconds, now_s: self.now_s() })
    }

    /// The current date, in Unix seconds.
    fn now_s(&self) -> u64 {
        self.fleet.began_s + self.now / 1_000_000_000
    }

    /// Marks the answer of an exchange as complete. The answer leaves when its turn comes.
    fn conclude(&mut self, id: u32) {
        let exchange = &mut self.exchanges[id];
        if exchange.is_answered {
            return;
        }
        exchange.is_answered = true;
        exchange.record.stamps.answered = self.now;
        let (client, is_own) = (exchange.client, exchange.is_own);
        self.note_asks_no_more(id);
        self.note_creates_no_more(id);
        if !is_own {
            self.record(id);
        }
        if client != NO_CLIENT && self.answers.is_first(client, id) {
            self.pass_on(client, id);
        }
    }

    /// Counts a request that is answered, and adds it to those for the record.
    fn record(&mut self, id: u32) {
        let exchange = &self.exchanges[id];
        if exchange.ending != Some(Ending::Error) {
            for server in &exchange.write.missed_by {
                self.servers[usize::from(*server)].counts.missed_writes.fetch_add(1, Ordering::Relaxed);
            }
        }
        let stamps = exchange.record.stamps;
        if let Some(route) = self.route_of(id) {
            route.counts.latency.note(stamps.answered.saturating_sub(stamps.received));
        }
        self.finished.push(Finished {
            kind: exchange.record.kind,
            ending: exchange.ending.unwrap_or(Ending::Ok),
            stamps,
            slot: (exchange.client != NO_CLIENT).then_some(exchange.client),
            client: exchange.record.client_number,
            request_bytes: exchange.record.request_bytes,
            answer_bytes: exchange.record.answer_bytes,
            server_reads: exchange.record.server_reads,
        });
    }

    /// Returns the route of an exchange: the first of several, and none for a request without keys.
    fn route_of(&self, id: u32) -> Option<&Route> {
        let exchange = &self.exchanges[id];
        exchange.request.filter(|request| request.keys > 0)?;
        let route = exchange.get.shares.first().map_or(exchange.destination.route, |share| share.route);
        self.table_of(id).routes.get(usize::from(route))
    }

    /// Ends an exchange that needs nothing more. It is recycled as soon as its answer has been passed on.
    fn finish(&mut self, id: u32) {
        let exchange = &mut self.exchanges[id];
        exchange.is_over = true;
        let (has_no_client, is_fill) = (exchange.client == NO_CLIENT, exchange.is_fill());
        if let Some(claim) = self.take_claim(id) {
            self.fills -= usize::from(is_fill);
            self.claim_released |= self.fleet.claims.release(claim, self.now);
        }
        if std::mem::take(&mut self.exchanges[id].is_unclaimed) {
            self.end_unclaimed(id);
        }
        self.end_late_write(id);
        self.end_flush(id);
        self.conclude(id);
        if has_no_client {
            self.recycle(id);
        }
    }

    /// Passes ready answers on to a client, from the first in line to the first that is not complete.
    fn pass_on(&mut self, client: usize, first: u32) {
        let mut next = Some(first);
        while let Some(id) = next {
            let exchange = &mut self.exchanges[id];
            if !exchange.answer.is_empty() {
                let output = self.answers.output(client);
                if output.is_empty() {
                    std::mem::swap(output, &mut exchange.answer);
                } else {
                    output.extend_from_slice(&exchange.answer);
                    exchange.answer.clear();
                }
            }
            if !exchange.is_answered {
                return;
            }
            next = self.answers.dequeue(client, exchange.values(), exchange.weight);
            if exchange.is_over {
                self.recycle(id);
            } else {
                exchange.client = NO_CLIENT;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use posthaste_wire::memcached::decode::{Decoded, Limits, decode};

    use super::*;
    use crate::cache::health::Ejection;
    use crate::cache::layout::{Layout, MemberPlan};
    use crate::cache::rules::Rules;

    const LIMITS: Limits = Limits { value_bytes: 100, line_bytes: 1000 };

    #[test]
    fn of_many_requests_at_once_no_more_memory_stays_than_may_be_used_again_soon() {
        let layout = Layout::of_one_pool(vec![MemberPlan::of("127.0.0.1:1")], Rules::default());
        let mut router = Router::new(Arc::new(Fleet::new(&layout, Ejection::OnLoss).unwrap()), 0);
        let clients = 3 * limits::SPARE_MAX;
        let text = b"get key\r\n";
        let Decoded::Request(request, _) = decode(text, &LIMITS) else { panic!("it is one") };
        for client in 0..clients {
            router.add_client(client, client as u64);
            assert_eq!(router.ask(client, &request, text, 0), Admission::Accepted);
        }
        let asked = router.unsent(0).len();
        router.sent(0, asked);
        router.stamp_sent(1);
        assert_eq!(router.exchanges.ids().len(), clients);
        let answer = b"END\r\n".repeat(clients - 1);
        assert_eq!(router.feed(0, &answer), Ok(answer.len()));
        let with_memory = |router: &Router| {
            router.exchanges.ids().filter(|id| router.exchanges[*id].bytes.capacity() > 0).count()
        };
        assert!(with_memory(&router) <= limits::SPARE_MAX + 1, "one is still under way");
        assert_eq!(router.feed(0, b"END\r\n"), Ok(5));
        assert_eq!((router.exchanges.ids().len(), router.under_way()), (limits::SPARE_MAX, 0));
        // And it goes on.
        assert_eq!(router.ask(0, &request, text, 0), Admission::Accepted);
        assert_eq!(router.unsent(0), text);
    }

    #[test]
    fn a_server_is_counted_as_crowded_until_it_was_sent_enough_or_is_lost() {
        let layout = Layout::of_one_pool(vec![MemberPlan::of("127.0.0.1:1")], Rules::default());
        let mut router = Router::new(Arc::new(Fleet::new(&layout, Ejection::OnLoss).unwrap()), 0);
        let text = format!("get {}\r\n", "k".repeat(250));
        let Decoded::Request(request, _) = decode(text.as_bytes(), &LIMITS) else { panic!("it is one") };
        for is_sent in [true, true, false] {
            let mut clients = 0;
            while !router.is_any_crowded() {
                router.add_client(clients, clients as u64);
                assert_eq!(router.ask(clients, &request, text.as_bytes(), 0), Admission::Accepted);
                clients += 1;
            }
            assert!(router.lanes[0].output.len() + router.lanes[0].gets.len() > limits::LANE_BYTES_PAUSE);
            router.add_client(clients, 0);
            assert_eq!(router.ask(clients, &request, text.as_bytes(), 0), Admission::RetryLater);
            if is_sent {
                let bytes = router.unsent(0).len();
                router.sent(0, text.len());
                assert!(!router.is_any_crowded());
                router.sent(0, bytes - text.len());
                router.feed(0, &b"END\r\n".repeat(clients)).unwrap();
            } else {
                router.lose(0, None);
            }
            assert_eq!((router.crowded, router.under_way()), (0, 0));
            (0..=clients).for_each(|client| router.remove_client(client));
        }
    }

    #[test]
    fn an_answer_longer_than_can_be_recorded_counts_as_the_longest() {
        let layout = Layout::of_one_pool(vec![MemberPlan::of("127.0.0.1:1")], Rules::default());
        let value = b"VALUE key 0 1\r\nx\r\n";
        for (text, answer) in [
            (&b"get key key\r\n"[..], [&value[..], value, b"END\r\n"].concat()),
            (&b"mg key v\r\n"[..], b"VA 1\r\nx\r\n".to_vec()),
        ] {
            let mut router = Router::new(Arc::new(Fleet::new(&layout, Ejection::OnLoss).unwrap()), 0);
            router.add_client(0, 0);
            let Decoded::Request(request, _) = decode(text, &LIMITS) else { panic!("it is one") };
            assert_eq!(router.ask(0, &request, text, 0), Admission::Accepted);
            let asked = router.unsent(0).len();
            router.sent(0, asked);
            let id = router.exchanges.ids().next().expect("it is under way");
            router.exchanges[id].record.answer_bytes = u32::MAX - 3;
            assert_eq!(router.feed(0, &answer), Ok(answer.len()));
            let lengths: Vec<u32> = router.finished.iter().map(|done| done.answer_bytes).collect();
            assert_eq!(lengths, [u32::MAX]);
        }
    }
}
