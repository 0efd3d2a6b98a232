//! A request of the queue tier allocates nothing in the steady state, but for what a stored message needs: the network
//! thread, the line, the worker and the store as they are, over socket pairs, all in the thread that counts. The clients'
//! part is not counted.

#[path = "support/by_hand.rs"]
mod by_hand;
#[path = "support/home.rs"]
mod home;

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use allocation_counter::{measure, opt_out};
use by_hand::{Bounds, Thread};
use posthaste_measure::Clock;
use posthaste_server::path::local::Local;
use posthaste_server::path::worker::Store;
use posthaste_server::queue::embedded::{Embedded, EmbeddedOptions};
use posthaste_server::queue::mock::Mock;
use posthaste_server::queue_shared::Entrance;
use posthaste_server::time::Time;
use posthaste_wire::reply::{Reply, Value, decode};

/// Clients, and requests that each has in flight.
const CROWDS: [(usize, usize); 4] = [(1, 1), (32, 1), (1, 16), (32, 16)];
/// Requests of a run, about.
const REQUESTS: usize = 1024;
/// Messages that wait while the queue is deep.
const DEEP: usize = 1000;

/// What a client asks next, given the receipt of what it was handed last.
type Next = fn(&mut Vec<u8>, Option<&str>);

/// Requests asked in turn by every client, and what further ones allocate on a durable store: at most so many, in
/// hundredths.
struct Load {
    name: &'static str,
    /// What stands in the queue while they run.
    waiting: usize,
    /// One after the other; a pipeline is many of the same.
    steps: &'static [Next],
    hundredths: u64,
}

/// One client.
struct Client {
    stream: UnixStream,
    heard: Vec<u8>,
    receipts: Vec<String>,
    missing: usize,
}

impl Client {
    fn ask(&mut self, next: Next, times: usize) {
        let mut asked = Vec::new();
        let receipts = std::mem::take(&mut self.receipts);
        (0..times).for_each(|n| next(&mut asked, receipts.get(n).map(String::as_str)));
        self.stream.write_all(&asked).expect("it takes what fits into a socket");
        self.missing = times;
    }

    /// Takes what has come of the answers.
    fn listen(&mut self) {
        let mut piece = [0; 16 * 1024];
        match self.stream.read(&mut piece) {
            Ok(n) => self.heard.extend_from_slice(&piece[..n]),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        let mut at = 0;
        while let Reply::Value(answer, used) = decode(&self.heard[at..]) {
            assert!(!matches!(answer, Value::Error(..)), "{answer:?}");
            let receipt = answer.get(b"receipt").and_then(Value::as_bytes);
            self.receipts.extend(receipt.map(|receipt| String::from_utf8_lossy(receipt).into_owned()));
            (at, self.missing) = (at + used, self.missing - 1);
        }
        self.heard.drain(..at);
    }
}

/// A tier and those who ask it.
struct Tier {
    thread: Thread,
    clients: Vec<Client>,
}

impl Tier {
    fn new(store: Arc<dyn Store>, clock: Clock, clients: usize) -> Self {
        let account = store.account(b"default").expect("there is room");
        let bounds = Bounds { connections: clients, bundle: 256, line: 10_000, batch: 256 };
        let thread = Thread::before(store, clock, &bounds, |_| Entrance::Open(account));
        let connect = |_| {
            let stream = thread.connect().expect("there is room");
            Client { stream, heard: Vec::new(), receipts: Vec::new(), missing: 0 }
        };
        Self { clients: (0..clients).map(connect).collect(), thread }
    }

    /// Every client asks so often, all at once, and is answered.
    fn ask(&mut self, next: Next, times: usize) {
        opt_out(|| self.clients.iter_mut().for_each(|client| client.ask(next, times)));
        while self.clients.iter().any(|client| client.missing > 0) {
            self.thread.turn();
            self.thread.work();
            opt_out(|| self.clients.iter_mut().for_each(Client::listen));
        }
    }

    fn run(&mut self, load: &Load, times: usize) {
        let requests = self.clients.len() * times * load.steps.len();
        for _ in 0..REQUESTS.div_ceil(requests) {
            load.steps.iter().for_each(|next| self.ask(*next, times));
        }
    }
}

const SEND: Next = |out, _| {
    out.extend_from_slice(b"*3\r\n$4\r\nSEND\r\n$1\r\nq\r\n$200\r\n");
    out.extend_from_slice(&[b'x'; 200]);
    out.extend_from_slice(b"\r\n");
};
const POP: Next = |out, _| out.extend_from_slice(b"POP QUEUE q\r\n");
const LEASE: Next = |out, _| out.extend_from_slice(b"POP QUEUE q LEASE 600000\r\n");
const ACK: Next = |out, receipt| write!(out, "ACK {}\r\n", receipt.unwrap_or("1")).expect("a vector");
const PEEK: Next = |out, _| out.extend_from_slice(b"PEEK QUEUE q\r\n");
const PING: Next = |out, _| out.extend_from_slice(b"PING\r\n");
const READABLE: Next = |out, _| out.extend_from_slice(b"QREADABLE\r\n");

/// Stored messages stand in trees, which take memory for several at a time: for six or more as they come, each time.
#[rustfmt::skip]
const LOADS: [Load; 8] = [
    Load { name: "PING", waiting: 0, steps: &[PING], hundredths: 0 },
    Load { name: "PEEK, empty", waiting: 0, steps: &[PEEK], hundredths: 0 },
    Load { name: "PEEK", waiting: 1, steps: &[PEEK], hundredths: 0 },
    Load { name: "QREADABLE", waiting: 1, steps: &[READABLE], hundredths: 0 },
    Load { name: "SEND", waiting: DEEP, steps: &[SEND], hundredths: 20 },
    Load { name: "POP", waiting: 5 * REQUESTS, steps: &[POP], hundredths: 0 },
    Load { name: "SEND, POP", waiting: 0, steps: &[SEND, POP], hundredths: 10 },
    Load { name: "SEND, POP LEASE, ACK", waiting: 0, steps: &[SEND, LEASE, ACK], hundredths: 40 },
];

/// What requests of this load allocate, in hundredths of an allocation per request: the difference between a run and
/// one twice as long.
fn allocated(load: &Load, clients: usize, times: usize, open: &dyn Fn(Clock) -> Arc<dyn Store>) -> u64 {
    let clock = Clock::start();
    let mut tier = Tier::new(open(clock), clock, clients);
    let create: Next = |out, _| out.extend_from_slice(b"QCREATE q\r\n");
    tier.ask(create, 1);
    (0..load.waiting.div_ceil(clients)).for_each(|_| tier.ask(SEND, 1));
    tier.run(load, times);
    let once = measure(|| tier.run(load, times)).count_total;
    let twice = measure(|| (0..2).for_each(|_| tier.run(load, times))).count_total;
    (twice.saturating_sub(once) * 100).div_ceil(REQUESTS as u64)
}

#[test]
fn the_path_allocates_nothing() {
    for load in &LOADS {
        for (clients, times) in CROWDS {
            let open =
                |clock| Local::new(Mock::new(vec![b'x'; 200]), Time::of(clock), clock) as Arc<dyn Store>;
            let hundredths = allocated(load, clients, times, &open);
            println!("mock, {}, {clients} clients, {times} in flight: {hundredths} / 100", load.name);
            assert_eq!(hundredths, 0, "{}, {clients} clients, {times} in flight", load.name);
        }
    }
}

#[test]
fn with_a_durable_store_only_what_is_stored_needs_memory() {
    for load in &LOADS {
        for (clients, times) in CROWDS {
            let directory = home::home();
            let open = |clock| {
                let store = Embedded::open(directory.path(), EmbeddedOptions::default());
                Local::new(store.expect("an empty directory"), Time::of(clock), clock) as Arc<dyn Store>
            };
            let hundredths = allocated(load, clients, times, &open);
            println!("embedded, {}, {clients} clients, {times} in flight: {hundredths} / 100", load.name);
            assert!(
                hundredths <= load.hundredths,
                "{}, {clients} clients, {times} in flight: {hundredths} / 100",
                load.name
            );
        }
    }
}
