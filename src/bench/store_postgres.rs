//! `posthaste bench store` on PostgreSQL: several connections, each driven as a worker drives it, and nothing else.
//!
//! Every thread stands for a worker: it puts the requests of its clients into a batch, has the store execute
//! it, and looks at the answers. A client has one request in a batch, as it would have over a network.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use posthaste_load::SummaryFile;
use posthaste_measure::{Clock, Distribution, Events};
use posthaste_server::path::bundle::{Address, Bundle, Request};
use posthaste_server::path::worker::{Batch, Store as _};
use posthaste_server::queue::postgres::address::PostgresAddress;
use posthaste_server::queue::postgres::store::Postgres;
use posthaste_server::queue::postgres::strategy::Popping;
use posthaste_server::queue::rules::AccountId;
use posthaste_server::time::Time;
use posthaste_wire::command::Kind;
use posthaste_wire::encode::Protocol;
use posthaste_wire::operation::{Operation, Pop, Recipient, Selection, Send};
use posthaste_wire::span::Span;
use serde::Serialize;

use super::store::{heading, median};
use crate::flags::{BenchStoreFlags, StoreWorkload};
use crate::stdout::say;

/// Numbers of connections that are measured by default.
const CONNECTIONS: [usize; 3] = [1, 4, 16];

/// Name of the queue that all clients share, as in the twelve steps.
const SHARED: &[u8] = b"1";

/// Steps of a loop in the twelve-step workload.
const STEPS: usize = 12;

/// One measured number of connections and batch size.
#[derive(Debug, Serialize)]
struct Row {
    connections: usize,
    batch: usize,
    operations_per_s: f64,
    call_mean_ms: f64,
    call_p99_ms: f64,
    /// By the kind's name.
    kinds: BTreeMap<&'static str, KindRow>,
}

/// The requests of one kind; a request takes as long as the call that it is in.
#[derive(Debug, Serialize)]
struct KindRow {
    operations: u64,
    operations_per_s: f64,
    mean_ms: f64,
    p99_ms: f64,
}

/// What `--json` writes.
#[derive(Debug, Serialize)]
struct Report {
    store: String,
    pop_strategy: Option<String>,
    message_bytes: usize,
    preload: u64,
    preload_s: f64,
    duration_s: f64,
    repetitions: usize,
    rows: Vec<Row>,
}

/// Result of one slice of time.
struct Slice {
    operations_per_s: f64,
    times: CallTimes,
}

/// How long calls took, and the requests of each kind in them.
#[derive(Default)]
struct CallTimes {
    calls: Distribution,
    kinds: BTreeMap<Kind, Distribution>,
}

impl CallTimes {
    /// Notes a call in which there were requests of these kinds.
    fn note(&mut self, took: Duration, kinds: &[Kind]) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.calls.record(ns, 1);
        for kind in kinds {
            self.kinds.entry(*kind).or_default().record(ns, 1);
        }
    }

    fn add(&mut self, other: &Self) {
        self.calls.add(&other.calls);
        for (kind, times) in &other.kinds {
            self.kinds.entry(*kind).or_default().add(times);
        }
    }
}

type Failed = Box<dyn Error + std::marker::Send + Sync>;

/// Runs every number of connections with every batch size and prints a table.
pub(crate) fn run(
    flags: &BenchStoreFlags,
    address: &PostgresAddress,
    unbatched: Option<Popping>,
    json: Option<SummaryFile>,
) -> Result<(), Failed> {
    let store = Postgres::open(address, unbatched, Time::start(), Clock::start(), Events::default())?;
    let mut first = Driver::new(&store, 0, 1, flags)?;
    if store.has_queues()? {
        return Err(format!("{address} holds queues already: name a new database").into());
    }
    let create = Operation::CreateQueue { name: Some(span(0, SHARED.len())), options: None };
    first.execute(&[(create, SHARED.to_vec())])?;
    let start = Instant::now();
    first.preload(flags.preload)?;
    let preload_s = start.elapsed().as_secs_f64();
    let connections = if flags.connections.is_empty() { &CONNECTIONS[..] } else { &flags.connections };
    let mut rows = Vec::new();
    for &connections in connections {
        for &batch in &flags.batch {
            rows.push(measure(flags, &store, connections, batch)?);
        }
    }
    let report = Report {
        store: address.to_string(),
        pop_strategy: unbatched.map(|popping| popping.strategy.to_string()),
        message_bytes: flags.message_bytes,
        preload: flags.preload,
        preload_s,
        duration_s: flags.duration.as_secs_f64(),
        repetitions: flags.repetitions,
        rows,
    };
    say(&shown(&report)).map_err(|error| error.to_string())?;
    if let Some(json) = json {
        json.write(&serde_json::to_string_pretty(&report)?)?;
    }
    Ok(())
}

fn shown(report: &Report) -> String {
    let mut text = heading(&report.store, report.message_bytes, report.preload);
    let _ = writeln!(
        text,
        "{:>11} {:>6} {:>16} {:>13} {:>13}",
        "connections", "batch", "operations/s", "call mean/ms", "call p99/ms"
    );
    for row in &report.rows {
        let _ = writeln!(
            text,
            "{:>11} {:>6} {:>16.0} {:>13.3} {:>13.3}",
            row.connections, row.batch, row.operations_per_s, row.call_mean_ms, row.call_p99_ms
        );
    }
    if report.rows.iter().any(|row| row.kinds.len() > 1) {
        show_kinds(&report.rows, &mut text);
    }
    text
}

/// Adds a table of the kinds of requests.
fn show_kinds(rows: &[Row], text: &mut String) {
    let _ = writeln!(
        text,
        "\n{:>11} {:>6} {:<8} {:>12} {:>13} {:>13}",
        "connections", "batch", "request", "per second", "mean/ms", "p99/ms"
    );
    for row in rows {
        for (kind, figures) in &row.kinds {
            let _ = writeln!(
                text,
                "{:>11} {:>6} {kind:<8} {:>12.0} {:>13.3} {:>13.3}",
                row.connections, row.batch, figures.operations_per_s, figures.mean_ms, figures.p99_ms
            );
        }
    }
}

fn measure(
    flags: &BenchStoreFlags,
    store: &Arc<Postgres>,
    connections: usize,
    batch: usize,
) -> Result<Row, Failed> {
    let span = flags.duration / u32::try_from(flags.repetitions)?;
    let (mut rates, mut times) = (Vec::new(), CallTimes::default());
    for _ in 0..flags.repetitions {
        let slice = measure_slice(flags, store, connections, batch, span)?;
        rates.push(slice.operations_per_s);
        times.add(&slice.times);
    }
    let operations_per_s = median(&mut rates);
    let operations: u64 = times.kinds.values().map(Distribution::count).sum();
    let kind = |times: &Distribution| KindRow {
        operations: times.count(),
        operations_per_s: operations_per_s * times.count() as f64 / operations as f64,
        mean_ms: mean_ms(times),
        p99_ms: p99_ms(times),
    };
    Ok(Row {
        connections,
        batch,
        operations_per_s,
        call_mean_ms: mean_ms(&times.calls),
        call_p99_ms: p99_ms(&times.calls),
        kinds: times.kinds.iter().map(|(name, times)| (name.name(), kind(times))).collect(),
    })
}

fn mean_ms(times: &Distribution) -> f64 {
    times.mean_ns() / 1e6
}

fn p99_ms(times: &Distribution) -> f64 {
    times.quantile_ns(0.99) as f64 / 1e6
}

/// Runs all connections for one slice of time.
fn measure_slice(
    flags: &BenchStoreFlags,
    store: &Arc<Postgres>,
    connections: usize,
    batch: usize,
    span: Duration,
) -> Result<Slice, Failed> {
    let start = Barrier::new(connections);
    let run = |thread: usize| -> Result<Slice, Failed> {
        let ready = Driver::new(store, thread, batch, flags).and_then(|mut driver| {
            driver.warm_up()?;
            Ok(driver)
        });
        start.wait();
        ready?.run(span)
    };
    let slices: Vec<Result<Slice, Failed>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..connections).map(|n| scope.spawn(move || run(n))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a driver does not panic")).collect()
    });
    let mut all = Slice { operations_per_s: 0.0, times: CallTimes::default() };
    for slice in slices {
        let slice = slice?;
        all.operations_per_s += slice.operations_per_s;
        all.times.add(&slice.times);
    }
    Ok(all)
}

/// A client: its account, and how far it is.
struct Client {
    account: AccountId,
    name: Vec<u8>,
    /// Requests so far.
    done: usize,
    /// Name of the queue that step 7 made.
    own: Vec<u8>,
}

/// One thread with its clients.
struct Driver<'a> {
    store: &'a Postgres,
    workload: StoreWorkload,
    clients: Vec<Client>,
    body: Vec<u8>,
    batch: Batch,
    spare: Vec<Box<Bundle>>,
}

impl<'a> Driver<'a> {
    fn new(
        store: &'a Postgres,
        thread: usize,
        batch: usize,
        flags: &BenchStoreFlags,
    ) -> Result<Self, Failed> {
        u32::try_from(flags.message_bytes)?;
        let client = |number| {
            let name = format!("bench-{thread}-{number}").into_bytes();
            // Pairs are complete at any batch size: neighbours start with different halves.
            let account = store.account(&name)?;
            Ok(Client { account, name, done: number, own: SHARED.to_vec() })
        };
        let clients = (0..batch).map(client).collect::<Result<_, Failed>>()?;
        Ok(Self {
            store,
            workload: flags.workload,
            clients,
            body: vec![b'x'; flags.message_bytes],
            batch: Batch::default(),
            spare: Vec::new(),
        })
    }

    fn preload(&mut self, messages: u64) -> Result<(), Failed> {
        const BATCH: usize = 256;
        let send = self.send_request(SHARED, None);
        let sends = vec![send; BATCH];
        for _ in 0..messages / BATCH as u64 {
            self.execute(&sends)?;
        }
        self.execute(&sends[..usize::try_from(messages % BATCH as u64)?])
    }

    /// Connects, and brings the clients of the twelve-step workload to different steps.
    fn warm_up(&mut self) -> Result<(), Failed> {
        if self.workload != StoreWorkload::TwelveStep {
            return self.call_store(STEPS).map(drop);
        }
        for client in &mut self.clients {
            client.done = 0;
        }
        for round in 0..STEPS {
            self.call_store(round)?;
        }
        Ok(())
    }

    fn run(mut self, span: Duration) -> Result<Slice, Failed> {
        let start = Instant::now();
        let (mut operations, mut times) = (0, CallTimes::default());
        loop {
            let call = Instant::now();
            let kinds = self.call_store(STEPS)?;
            times.note(call.elapsed(), &kinds);
            operations += kinds.len();
            // Checked at the end, so that even the shortest time measures something.
            let elapsed = start.elapsed();
            if elapsed >= span {
                return Ok(Slice { operations_per_s: operations as f64 / elapsed.as_secs_f64(), times });
            }
        }
    }

    /// Makes one call with the next request of every client whose place in a group of twelve is at most
    /// `last`. Returns the kinds of these requests.
    fn call_store(&mut self, last: usize) -> Result<Vec<Kind>, Failed> {
        let takes_part = |number: &usize| number % STEPS <= last;
        let numbers: Vec<usize> = (0..self.clients.len()).filter(takes_part).collect();
        let mut kinds = Vec::with_capacity(numbers.len());
        for &number in &numbers {
            let (operation, bytes) = self.next_request(&self.clients[number]);
            kinds.push(operation.kind());
            let account = self.clients[number].account;
            self.add_request(number, account, operation, bytes);
        }
        let workload = self.workload;
        self.store.run(&mut self.batch);
        for mut bundle in self.batch.finished.drain(..) {
            let client = &mut self.clients[bundle.address.slot];
            check(&bundle.answers)?;
            if workload == StoreWorkload::TwelveStep && client.done % STEPS == 6 {
                // `:31` and a line end
                client.own = bundle.answers[1..bundle.answers.len() - 2].to_vec();
            }
            client.done += 1;
            bundle.requests.clear();
            self.spare.push(bundle);
        }
        Ok(kinds)
    }

    /// Sends other requests, all by the first client.
    fn execute(&mut self, requests: &[(Operation, Vec<u8>)]) -> Result<(), Failed> {
        for (number, (operation, bytes)) in requests.iter().enumerate() {
            self.add_request(number, self.clients[0].account, operation.clone(), bytes.clone());
        }
        self.store.run(&mut self.batch);
        self.batch.finished.drain(..).try_for_each(|bundle| check(&bundle.answers))
    }

    fn add_request(&mut self, number: usize, account: AccountId, operation: Operation, bytes: Vec<u8>) {
        let address = Address { thread: 0, slot: number, client: number as u64 };
        let mut bundle = self.spare.pop().unwrap_or_else(|| Box::new(Bundle::new(address)));
        bundle.reset(usize::MAX);
        (bundle.address, bundle.account, bundle.protocol) = (address, account, Protocol::Resp2);
        bundle.bytes = bytes;
        let kind = operation.kind();
        bundle.requests.push(Request::new(operation, kind, 0));
        self.batch.waiting.push(bundle);
    }

    /// Returns a client's next request.
    fn next_request(&self, client: &Client) -> (Operation, Vec<u8>) {
        let (own, me) = (&client.own, &client.name);
        match (self.workload, client.done % STEPS + 1) {
            (StoreWorkload::Send, _) => self.send_request(SHARED, None),
            (StoreWorkload::Pairs, step) if step % 2 == 1 => self.send_request(SHARED, None),
            (StoreWorkload::Pairs, _) => read_request(true, Some(SHARED), None),
            (StoreWorkload::TwelveStep, 1) => self.send_request(SHARED, None),
            (StoreWorkload::TwelveStep, 2) => read_request(false, Some(SHARED), None),
            (StoreWorkload::TwelveStep, 3) => read_request(true, Some(SHARED), None),
            (StoreWorkload::TwelveStep, 4) => self.send_request(SHARED, Some(me)),
            (StoreWorkload::TwelveStep, 5) => read_request(false, Some(SHARED), Some(me)),
            (StoreWorkload::TwelveStep, 6) => read_request(true, Some(SHARED), Some(me)),
            (StoreWorkload::TwelveStep, 7) => {
                (Operation::CreateQueue { name: None, options: None }, Vec::new())
            }
            (StoreWorkload::TwelveStep, 8) => self.send_request(own, None),
            (StoreWorkload::TwelveStep, 9) => (Operation::Readable { not_own: false }, Vec::new()),
            (StoreWorkload::TwelveStep, 10) => read_request(false, None, Some(me)),
            (StoreWorkload::TwelveStep, 11) => read_request(true, Some(own), None),
            (StoreWorkload::TwelveStep, _) => {
                (Operation::DeleteQueue { queue: span(0, own.len()) }, own.clone())
            }
        }
    }

    fn send_request(&self, queue: &[u8], to: Option<&[u8]>) -> (Operation, Vec<u8>) {
        let bytes = [queue, to.unwrap_or_default(), &self.body].concat();
        let names = queue.len() + to.map_or(0, <[u8]>::len);
        let to = to.map_or(Recipient::Anyone, |to| Recipient::Account(span(queue.len(), to.len())));
        let plain = Send::plain(span(0, queue.len()), span(names, self.body.len()));
        (Operation::Send(Send { to, ..plain }), bytes)
    }
}

fn read_request(takes: bool, queue: Option<&[u8]>, from: Option<&[u8]>) -> (Operation, Vec<u8>) {
    let bytes = [queue.unwrap_or_default(), from.unwrap_or_default()].concat();
    let select = Selection {
        queue: queue.map(|queue| span(0, queue.len())),
        sender: from.map(|from| span(queue.map_or(0, <[u8]>::len), from.len())),
        ..Selection::default()
    };
    let operation = match takes {
        true => Operation::Pop(Pop { select, ..Pop::default() }),
        false => Operation::Peek(select),
    };
    (operation, bytes)
}

/// Refuses an error answer and a missing one: either ends the experiment.
fn check(answer: &[u8]) -> Result<(), Failed> {
    match answer.first() {
        Some(b'-') => Err(String::from_utf8_lossy(&answer[1..]).trim_end().into()),
        Some(_) => Ok(()),
        None => Err("a request got no answer".into()),
    }
}

/// Makes a span; its lengths were checked when the driver was made.
fn span(start: usize, len: usize) -> Span {
    let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    Span { start: number(start), len: number(len) }
}
