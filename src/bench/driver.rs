//! A thread of `posthaste bench store` on PostgreSQL, which stands for a worker: it puts the requests of its clients into
//! a batch, has the store execute it, and looks at the answers. A client has one request in a batch, as it would have
//! over a network.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::{Duration, Instant};

use posthaste_load::queue::request::{Account, Queue, Read, Request};
use posthaste_load::queue::twelve_step::{self, SHARED_QUEUE};
use posthaste_measure::Distribution;
use posthaste_server::path::bundle::{self, Address, Bundle};
use posthaste_server::path::worker::{Batch, Store as _};
use posthaste_server::queue::postgres::store::Postgres;
use posthaste_server::queue::rules::AccountId;
use posthaste_wire::command::Kind;
use posthaste_wire::encode::Protocol;
use posthaste_wire::operation::{Operation, Pop, Recipient, Selection, Send};
use posthaste_wire::span::Span;

use crate::flags::{BenchStoreFlags, StoreWorkload};

pub(super) type Failed = Box<dyn Error + std::marker::Send + Sync>;

/// Steps of a loop in the twelve-step workload.
const STEPS: usize = twelve_step::STEPS as usize;

/// Result of one slice of time.
pub(super) struct Slice {
    pub(super) operations_per_s: f64,
    pub(super) times: CallTimes,
}

/// How long calls took, and the requests of each kind in them.
#[derive(Default)]
pub(super) struct CallTimes {
    pub(super) calls: Distribution,
    pub(super) kinds: BTreeMap<Kind, Distribution>,
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

    pub(super) fn add(&mut self, other: &Self) {
        self.calls.add(&other.calls);
        for (kind, times) in &other.kinds {
            self.kinds.entry(*kind).or_default().add(times);
        }
    }
}

/// A client: its account, and how far it is.
struct Client {
    account: AccountId,
    /// The account's name.
    number: Account,
    /// Requests so far.
    done: usize,
    /// The queue that step 7 made.
    own: Queue,
}

impl Client {
    /// Returns its place in the twelve-step loop: 0 between two loops.
    const fn place(&self) -> usize {
        self.done % STEPS
    }

    fn next_request(&self, workload: StoreWorkload) -> Request {
        let queue = SHARED_QUEUE;
        match workload {
            StoreWorkload::Pairs if !self.done.is_multiple_of(2) => {
                Request::Read(Read { remove: true, queue: Some(queue), ..Read::default() })
            }
            StoreWorkload::Send | StoreWorkload::Pairs => Request::Send { queue, to: None },
            StoreWorkload::TwelveStep => twelve_step::request(self.place() as u8 + 1, self.number, self.own),
        }
    }
}

/// One thread with its clients.
pub(super) struct Driver<'a> {
    store: &'a Postgres,
    workload: StoreWorkload,
    clients: Vec<Client>,
    body: Vec<u8>,
    batch: Batch,
    spare: Vec<Box<Bundle>>,
}

impl<'a> Driver<'a> {
    pub(super) fn new(
        store: &'a Postgres,
        thread: usize,
        batch: usize,
        flags: &BenchStoreFlags,
    ) -> Result<Self, Failed> {
        u32::try_from(flags.message_bytes)?;
        let client = |place: usize| {
            let number = Account::try_from(thread * batch + place + 1)?;
            let account = store.account(number.to_string().as_bytes())?;
            // Pairs are complete at any batch size: neighbours start with different halves.
            Ok(Client { account, number, done: place, own: SHARED_QUEUE })
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

    /// Makes the queue that all clients share.
    pub(super) fn create_queue(&mut self) -> Result<(), Failed> {
        let name = SHARED_QUEUE.to_string().into_bytes();
        let create = Operation::CreateQueue { name: Some(span(0, name.len())), options: None };
        self.execute(&[(create, name)])
    }

    /// Sends so many messages to it.
    pub(super) fn preload(&mut self, messages: u64) -> Result<(), Failed> {
        const BATCH: usize = 256;
        let send = operation(Request::Send { queue: SHARED_QUEUE, to: None }, &self.body);
        let sends = vec![send; BATCH];
        for _ in 0..messages / BATCH as u64 {
            self.execute(&sends)?;
        }
        self.execute(&sends[..usize::try_from(messages % BATCH as u64)?])
    }

    /// Connects, and brings the clients of the twelve-step workload to different steps.
    pub(super) fn warm_up(&mut self) -> Result<(), Failed> {
        if self.workload != StoreWorkload::TwelveStep {
            return self.call_store(|_, _| true).map(drop);
        }
        for client in &mut self.clients {
            client.done = 0;
        }
        for round in 0..STEPS {
            self.call_store(|number, _| number % STEPS <= round)?;
        }
        Ok(())
    }

    /// Ends the loops of the twelve-step workload, whose queues every later QREADABLE would list.
    pub(super) fn finish(&mut self) -> Result<(), Failed> {
        let is_within = |client: &Client| client.place() > 0;
        while self.workload == StoreWorkload::TwelveStep && self.clients.iter().any(is_within) {
            self.call_store(|_, client| is_within(client))?;
        }
        Ok(())
    }

    /// Calls the store for this long.
    pub(super) fn run(&mut self, span: Duration) -> Result<Slice, Failed> {
        let start = Instant::now();
        let (mut operations, mut times) = (0, CallTimes::default());
        loop {
            let call = Instant::now();
            let kinds = self.call_store(|_, _| true)?;
            times.note(call.elapsed(), &kinds);
            operations += kinds.len();
            // Checked at the end, so that even the shortest time measures something.
            let elapsed = start.elapsed();
            if elapsed >= span {
                return Ok(Slice { operations_per_s: operations as f64 / elapsed.as_secs_f64(), times });
            }
        }
    }

    /// Makes one call with the next request of every client that takes part, by its number within the thread.
    /// Returns the kinds of these requests.
    fn call_store(&mut self, takes_part: impl Fn(usize, &Client) -> bool) -> Result<Vec<Kind>, Failed> {
        let numbers: Vec<usize> =
            (0..self.clients.len()).filter(|number| takes_part(*number, &self.clients[*number])).collect();
        let mut kinds = Vec::with_capacity(numbers.len());
        for &number in &numbers {
            let client = &self.clients[number];
            let (operation, bytes) = operation(client.next_request(self.workload), &self.body);
            kinds.push(operation.kind());
            self.add_request(number, client.account, operation, bytes);
        }
        let workload = self.workload;
        self.store.run(&mut self.batch);
        for mut bundle in self.batch.finished.drain(..) {
            let client = &mut self.clients[bundle.address.slot];
            check(&bundle.answers)?;
            if client.next_request(workload) == Request::Create {
                client.own = id(&bundle.answers)?;
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
        bundle.requests.push(bundle::Request::new(operation, kind, 0));
        self.batch.waiting.push(bundle);
    }
}

/// Returns a request as a store is given it: its operation, and the bytes that the operation's spans are of.
fn operation(request: Request, body: &[u8]) -> (Operation, Vec<u8>) {
    let mut bytes = Vec::with_capacity(body.len() + 40);
    let mut add = |text: &[u8]| {
        bytes.extend_from_slice(text);
        span(bytes.len() - text.len(), text.len())
    };
    let mut number = |number: u64| add(number.to_string().as_bytes());
    let operation = match request {
        Request::Send { queue, to } => {
            let queue = number(queue);
            let to = to.map_or(Recipient::Anyone, |to| Recipient::Account(number(to.into())));
            Operation::Send(Send { to, ..Send::plain(queue, add(body)) })
        }
        Request::Read(Read { remove, queue, from, broadcast }) => {
            let queue = queue.map(&mut number);
            let sender = from.map(|from| number(from.into()));
            let select = Selection { queue, sender, broadcast, ..Selection::default() };
            match remove {
                true => Operation::Pop(Pop { select, ..Pop::default() }),
                false => Operation::Peek(select),
            }
        }
        Request::Readable => Operation::Readable { not_own: false },
        Request::Create => Operation::CreateQueue { name: None, options: None },
        Request::Delete { queue } => Operation::DeleteQueue { queue: number(queue) },
        Request::Echo => unreachable!("no workload of a store has an ECHO, which no store is asked"),
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

/// Returns the id in the answer to a QCREATE.
fn id(answer: &[u8]) -> Result<Queue, Failed> {
    let answer = std::str::from_utf8(answer)?;
    let id = answer.trim_end().strip_prefix(':').ok_or("QCREATE was answered with no id")?;
    Ok(id.parse()?)
}

/// Makes a span; its lengths were checked when the driver was made.
fn span(start: usize, len: usize) -> Span {
    let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    Span { start: number(start), len: number(len) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An operation as the words of its request.
    fn words((operation, bytes): (Operation, Vec<u8>)) -> String {
        let text = |span: Span| String::from_utf8_lossy(span.of(&bytes)).into_owned();
        let read = |word: &str, Selection { queue, sender, .. }: Selection| {
            let queue = queue.map(|queue| format!(" QUEUE {}", text(queue)));
            let sender = sender.map(|sender| format!(" FROM {}", text(sender)));
            format!("{word}{}{}", queue.unwrap_or_default(), sender.unwrap_or_default())
        };
        match operation {
            Operation::Send(Send { queue, body, to: Recipient::Account(to), .. }) => {
                format!("SEND {} {} TO {}", text(queue), text(body), text(to))
            }
            Operation::Send(Send { queue, body, .. }) => format!("SEND {} {}", text(queue), text(body)),
            Operation::Peek(select) => read("PEEK", select),
            Operation::Pop(Pop { select, .. }) => read("POP", select),
            Operation::Readable { .. } => "QREADABLE".to_owned(),
            Operation::CreateQueue { name: None, .. } => "QCREATE".to_owned(),
            Operation::DeleteQueue { queue } => format!("QDELETE {}", text(queue)),
            other => panic!("{other:?} is in no workload"),
        }
    }

    #[test]
    fn a_store_is_asked_what_a_client_would_send() {
        let pop = Read { remove: true, queue: Some(7), from: Some(5), ..Read::default() };
        for (request, means) in [
            (Request::Send { queue: 7, to: None }, "SEND 7 b"),
            (Request::Send { queue: 7, to: Some(5) }, "SEND 7 b TO 5"),
            (Request::Read(pop), "POP QUEUE 7 FROM 5"),
            (Request::Read(Read { remove: false, queue: None, ..pop }), "PEEK FROM 5"),
            (Request::Readable, "QREADABLE"),
            (Request::Create, "QCREATE"),
            (Request::Delete { queue: 7 }, "QDELETE 7"),
        ] {
            assert_eq!(words(operation(request, b"b")), means);
        }
    }
}
