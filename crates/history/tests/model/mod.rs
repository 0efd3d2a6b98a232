//! Simulated clients of a [model queue](queue::Queues) that send requests at the same time, on a simulated clock. Their
//! journals are a history that may have happened, and with a mutant one that must not.
//!
//! A request travels for a while, takes effect at one moment, and its answer travels for a while. The next thing to
//! happen is drawn: a client asks, an effect takes place, an answer arrives. So all overlaps occur that a network
//! makes.

pub(crate) mod queue;

use std::collections::{HashMap, VecDeque};

use fastrand::Rng;
use posthaste_history::{
    Answer, Body, Call, Delivery, Ending, History, Journal, Key, Kind, Name, Outcome, Requests, Select, Send,
    Time, fingerprint,
};
use queue::{Mutant, Queues};

const ACCOUNTS: u64 = 4;
const CLIENTS: u32 = 6;
const QUEUES: u64 = 3;
/// The queue that is created and deleted again and again.
const FLEETING: u64 = 3;
const LIMBO: Time = 20_000_000;
const LEASES_MS: [u64; 3] = [3, 10, 60];

/// Parameters of a simulation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Play {
    pub(crate) seed: u64,
    pub(crate) operations: u32,
    /// Whether requests and answers are lost, and pops undone.
    pub(crate) doubts: bool,
    pub(crate) mutant: Option<Mutant>,
}

struct Client {
    journal: Journal,
    account: Name,
    in_flight: VecDeque<Flight>,
    leases: Vec<Key>,
    /// A request to be repeated under its key.
    owed: Option<Call>,
}

struct Flight {
    number: usize,
    call: Call,
    outcome: Option<Outcome>,
}

struct World {
    play: Play,
    rng: Rng,
    now: Time,
    queues: Queues,
    clients: Vec<Client>,
    bodies: u64,
    keys: u64,
    /// Time at which pops that did not commit are undone.
    undo_at: Option<Time>,
    counted: HashMap<(Kind, bool, bool), u64>,
}

fn name(number: u64) -> Name {
    Name::number(number).expect("numbers from 1")
}

/// Runs a simulation to its end, drain and counters included.
pub(crate) fn play(play: Play) -> History {
    let clients = (0..CLIENTS).map(|client| {
        let account = name(u64::from(client) % ACCOUNTS + 1);
        let journal = Journal::numbered(client, account);
        Client { journal, account, in_flight: VecDeque::new(), leases: Vec::new(), owed: None }
    });
    let mut world = World {
        play,
        rng: Rng::with_seed(play.seed),
        now: 1,
        queues: Queues::new(play.mutant, play.seed),
        clients: clients.collect(),
        bodies: 0,
        keys: 0,
        undo_at: None,
        counted: HashMap::new(),
    };
    for queue in 1..=QUEUES {
        world.at_once(0, Call::Create { queue: Some(name(queue)) });
    }
    for _ in 0..play.operations {
        let client = world.rng.usize(..world.clients.len());
        let call = world.draw(client);
        world.begin(client, call);
        for _ in 0..world.rng.u32(..6) {
            world.something_happens();
        }
    }
    while world.clients.iter().any(|client| !client.in_flight.is_empty()) {
        world.something_happens();
    }
    world.finish()
}

impl World {
    fn tick(&mut self) -> Time {
        self.now += self.rng.u64(1..400_000);
        if self.undo_at.is_some_and(|at| at <= self.now) {
            self.undo_at = None;
            self.queues.undo();
        }
        self.now
    }

    fn begin(&mut self, client: usize, call: Call) {
        let now = self.tick();
        let client = &mut self.clients[client];
        let number = client.journal.begin(now, call.clone());
        client.in_flight.push_back(Flight { number, call, outcome: None });
    }

    /// Lets the next effect or the next answer happen of a random client that has a request under way.
    fn something_happens(&mut self) {
        let busy: Vec<_> =
            (0..self.clients.len()).filter(|c| !self.clients[*c].in_flight.is_empty()).collect();
        if busy.is_empty() {
            return;
        }
        let client = busy[self.rng.usize(..busy.len())];
        let flights = &self.clients[client].in_flight;
        let next = flights.iter().position(|flight| flight.outcome.is_none());
        match next {
            Some(next) if next == 0 || self.rng.bool() => self.effect(client, next),
            _ => self.arrive(client),
        }
    }

    fn effect(&mut self, client: usize, flight: usize) {
        let now = self.tick();
        let (account, call) =
            (self.clients[client].account, self.clients[client].in_flight[flight].call.clone());
        let doubt = if self.play.doubts && self.rng.u8(..) < 12 { self.rng.u8(1..=3) } else { 0 };
        let outcome = match doubt {
            0 => self.carry_out(account, &call, now),
            // The request was lost.
            1 => Outcome::Info,
            // The request took effect, and is undone later.
            2 if self.undo_at.is_none() && call.kind() == Kind::Pop => {
                let before = self.queues.snapshot();
                let outcome = self.queues.carry_out(account, &call, now);
                self.queues.take_back(&before, &call, account, &outcome);
                self.undo_at = Some(now + LIMBO / 2);
                Outcome::Info
            }
            // The answer was lost.
            _ => {
                self.carry_out(account, &call, now);
                Outcome::Info
            }
        };
        self.clients[client].in_flight[flight].outcome = Some(outcome);
    }

    /// Carries a request out and counts it.
    fn carry_out(&mut self, account: Name, call: &Call, now: Time) -> Outcome {
        let outcome = self.queues.carry_out(account, call, now);
        let null = matches!(&outcome, Outcome::Ok(Answer::Messages(messages)) if messages.is_empty());
        let counted = self.counted.entry((call.kind(), outcome == Outcome::Fail, null)).or_default();
        *counted += 1 + u64::from(self.queues.strikes(Mutant::Totals));
        outcome
    }

    fn arrive(&mut self, client: usize) {
        let now = self.tick();
        let client = &mut self.clients[client];
        let Some(Flight { number, call, outcome: Some(outcome) }) = client.in_flight.pop_front() else {
            return;
        };
        client.journal.end(number, now, outcome.clone());
        if let Outcome::Ok(Answer::Messages(messages)) = &outcome {
            client.leases.extend(messages.iter().filter_map(|delivery| delivery.receipt));
        }
        // A request with a key is repeated if its outcome is unknown, and now and then although it was answered.
        if key(&call).is_some() && (outcome == Outcome::Info || self.rng.u8(..6) == 0) {
            client.owed = Some(call);
        }
    }

    fn at_once(&mut self, client: usize, call: Call) -> Outcome {
        let (begin, account) = (self.tick(), self.clients[client].account);
        let number = self.clients[client].journal.begin(begin, call.clone());
        let now = self.tick();
        let outcome = self.carry_out(account, &call, now);
        let end = self.tick();
        self.clients[client].journal.end(number, end, outcome.clone());
        outcome
    }

    fn draw(&mut self, client: usize) -> Call {
        if let Some(call) = self.clients[client].owed.take() {
            return call;
        }
        match self.rng.u8(..100) {
            0..=44 => Call::Send(self.draw_send()),
            45..=77 => Call::Pop(self.draw_select(true)),
            78..=83 => Call::Peek(self.draw_select(false)),
            84..=93 => self.draw_holder(client),
            94..=96 => Call::Info { queue: name(self.rng.u64(1..=QUEUES)) },
            97 => Call::Delete { queue: name(FLEETING) },
            98 => Call::Create { queue: Some(name(FLEETING)) },
            _ => Call::Purge { queue: name(self.rng.u64(1..=QUEUES)) },
        }
    }

    fn draw_send(&mut self) -> Send {
        let mut body = || {
            self.bodies += 1;
            Body::of(&self.bodies.to_be_bytes())
        };
        let mut send = Send::new(name(1), body());
        if self.rng.u8(..10) == 0 {
            send.bodies = [send.bodies[0], body(), body()].into();
        }
        let rng = &mut self.rng;
        send.queue = name(rng.u64(1..=QUEUES));
        send.to = (rng.u8(..3) == 0).then(|| name(rng.u64(1..=ACCOUNTS)));
        send.priority = if rng.u8(..6) == 0 { rng.u8(1..3) } else { 0 };
        send.delay_ms = if rng.u8(..10) == 0 { rng.u64(1..40) } else { 0 };
        send.ttl_ms = if rng.u8(..20) == 0 { rng.u64(1..30) } else { 0 };
        send.headers = fingerprint(if rng.bool() { b"" } else { b"h" });
        send.key = (rng.u8(..3) == 0).then(|| self.next_key());
        send
    }

    fn draw_select(&mut self, pop: bool) -> Select {
        let rng = &mut self.rng;
        let mut select = Select::queue(name(rng.u64(1..=QUEUES)));
        if rng.u8(..4) == 0 {
            select.from = Some(name(rng.u64(1..=ACCOUNTS)));
            select.queue = select.queue.filter(|_| rng.bool());
        }
        select.not_own = rng.u8(..8) == 0;
        select.broadcast = rng.u8(..8) == 0;
        select.any_order = rng.u8(..8) == 0;
        select.count = if rng.u8(..5) == 0 { rng.u32(1..4) } else { 0 };
        if pop {
            select.lease_ms = if rng.u8(..3) == 0 { LEASES_MS[rng.usize(..3)] } else { 0 };
            select.key = (rng.u8(..4) == 0).then(|| self.next_key());
        }
        select
    }

    fn draw_holder(&mut self, client: usize) -> Call {
        let leases = &mut self.clients[client].leases;
        if leases.is_empty() {
            return Call::Peek(Select::queue(name(1)));
        }
        let receipt = leases.swap_remove(self.rng.usize(..leases.len()));
        match self.rng.u8(..8) {
            0 | 1 => Call::Nack { receipt, delay_ms: self.rng.u64(..3) * 30 },
            2 => {
                leases.push(receipt);
                Call::Extend { receipt, ms: LEASES_MS[self.rng.usize(..3)] }
            }
            _ => Call::Ack { receipt },
        }
    }

    fn next_key(&mut self) -> Key {
        self.keys += 1;
        Key::new(self.keys).expect("counted from 1")
    }

    /// Waits until no lease lasts, asks for depths, takes what is left, and adds up.
    fn finish(mut self) -> History {
        self.now += 10_000_000_000;
        self.tick();
        for queue in 1..=QUEUES {
            self.at_once(0, Call::Info { queue: name(queue) });
        }
        let mut history = History::with_limbo(LIMBO);
        history.timers_late = 0;
        let journals: Vec<_> = self.clients.iter().map(|client| client.journal.clone()).collect();
        journals.iter().for_each(|journal| history.add(journal));
        for reader in 1..=ACCOUNTS {
            let mut journal = Journal::numbered(100 + reader as u32, name(reader));
            for queue in 1..=QUEUES {
                while self.drains(&mut journal, name(reader), Call::Pop(Select::queue(name(queue)))) > 0 {}
                self.drains(&mut journal, name(reader), Call::Browse { queue: name(queue) });
            }
            history.drain(&journal);
        }
        for ((kind, failed, null), counted) in self.counted {
            let ending = match (failed, null) {
                (true, _) => Ending::Error,
                (_, true) => Ending::Null,
                _ => Ending::Ok,
            };
            history.count(Requests { kind, ending, counted });
        }
        history
    }

    fn drains(&mut self, journal: &mut Journal, reader: Name, call: Call) -> usize {
        let number = journal.begin(self.tick(), call.clone());
        let now = self.tick();
        let outcome = self.carry_out(reader, &call, now);
        journal.end(number, self.tick(), outcome.clone());
        let Outcome::Ok(Answer::Messages(messages)) = outcome else { return 0 };
        messages.iter().map(|_: &Delivery| 1).sum()
    }
}

fn key(call: &Call) -> Option<Key> {
    match call {
        Call::Send(send) => send.key,
        Call::Pop(select) => select.key,
        _ => None,
    }
}
