//! Sixteen connections over four middlewares, two of which do one request at a time, do everything at once with a
//! handful of queues: locks are taken in one order everywhere, so the database never finds a deadlock, and no statement
//! of ours fails because of one.

mod support;

#[path = "support/client.rs"]
mod client;

#[path = "support/postgres.rs"]
mod postgres;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use client::{Answer, Client};
use postgres::Postgres;
use support::Server;
use support::patience::PATIENCE;

const CONNECTIONS: usize = 16;
const QUEUES: usize = 5;
/// The middlewares: a pop of the last one waits for the row of the message that it wants.
const KINDS: [&[&str]; 4] = [&[], &[], &["--batch", "1"], &["--pop-strategy", "for-update"]];
/// For so long at least, and until so much has been done: with less they may not have met.
const WHILE: Duration = Duration::from_secs(8);
const ENOUGH: usize = 5_000;

/// Small numbers that look random; each client begins with its own.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).expect("it is small")
    }
}

/// Receipts that connections pass to each other, as a consumer does that extends its leases on a second connection.
static SHARED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Several receipts that other connections have too, in any order.
fn shared(dice: &mut Dice) -> Vec<String> {
    let mut receipts = SHARED.lock().expect("nobody panicked");
    let len = receipts.len();
    let mut some: Vec<String> = receipts.iter().skip(len.saturating_sub(4)).cloned().collect();
    if dice.below(2) == 0 {
        some.reverse();
    }
    receipts.drain(..len.saturating_sub(64));
    some
}

/// A request at random, some of them with the receipt of an earlier answer.
fn request(dice: &mut Dice, receipts: &mut Vec<String>) -> String {
    let queue = format!("q{}", dice.below(QUEUES));
    let other = format!("q{}", dice.below(QUEUES));
    let account = format!("client{}", dice.below(CONNECTIONS));
    let stranger = format!("stranger{}", dice.below(2_000));
    let receipt = receipts.pop().unwrap_or_else(|| "1".into());
    match dice.below(28) {
        24 => format!("POP QUEUE {queue} FROM {stranger} BLOCK 5"),
        25 => format!("SEND {queue} body TO {stranger}"),
        26 => format!("ACK 1 {}", shared(dice).join(" ")).trim_end().into(),
        27 => format!("POP QUEUE {queue} LEASE 5000 COUNT 3"),
        0..5 => format!("SEND {queue} body"),
        5 => format!("SEND {queue} body TO {account} PRIORITY 3"),
        6 => format!("SEND {queue} body TO *"),
        7 => format!("SEND {queue} body DELAY 30 TTL 2000"),
        8 => format!("SEND {queue} body DEDUP {}", dice.below(50)),
        9 => format!("SENDMANY {queue} a b c"),
        10..13 => format!("POP QUEUE {queue}"),
        13..15 => format!("POP QUEUE {queue} LEASE 40 COUNT 2"),
        15 => format!("POP FROM {account} REQID {}", dice.below(50)),
        16 => format!("POP QUEUE {queue} BLOCK 10"),
        17 => format!("ACK {receipt}"),
        18 => format!("NACK {receipt}"),
        19 => format!("EXTEND {receipt} 50"),
        20 => format!("PEEK QUEUE {queue} NOTOWN"),
        21 => format!("QREADABLE{}", if dice.below(2) == 0 { "" } else { " NOTOWN" }),
        22 => format!("QREDRIVE {queue} {other}"),
        _ => match dice.below(8) {
            0 => format!("QDELETE {queue}"),
            1..4 => format!("QPURGE {queue}"),
            4 => format!("QCREATE {queue}"),
            _ if other != queue => format!("QCREATE {queue} DEADLETTER {other} AFTER 1"),
            _ => format!("QINFO {queue}"),
        },
    }
}

/// One connection's work: requests in pipelines of up to eight. How often each kind of answer came.
fn work(
    server: SocketAddr,
    number: usize,
    until: Instant,
    answered: &AtomicUsize,
) -> BTreeMap<String, usize> {
    let mut client = Client::login(server, &format!("client{number}")).expect("it runs");
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15 ^ (number as u64 + 1) << 20);
    let (mut receipts, mut counts) = (Vec::new(), BTreeMap::new());
    let is_enough = || answered.load(Ordering::Relaxed) >= ENOUGH || Instant::now() > until + PATIENCE;
    while Instant::now() < until || !is_enough() {
        let mut asked: Vec<String> = (0..=dice.below(8)).map(|_| request(&mut dice, &mut receipts)).collect();
        if dice.below(4) == 0 {
            asked.extend(shared(&mut dice).iter().map(|receipt| format!("EXTEND {receipt} 5000")));
        }
        for request in &asked {
            client.send(&request.split(' ').collect::<Vec<_>>()).expect("it runs");
        }
        for request in &asked {
            let answer = client.answer().expect("it runs");
            if let Answer::Error(text) = &answer {
                // Where others keep the machine busy a batch may hold messages for longer than who empties a queue
                // waits for them.
                let is_late = request.starts_with("QPURGE") || request.starts_with("QDELETE");
                assert!(
                    text.starts_with("NOQUEUE") || is_late && text.starts_with("BUSY"),
                    "{request}: {text}"
                );
            }
            let is_refused = matches!(answer, Answer::Error(_));
            *counts.entry(if is_refused { "refused" } else { "done" }.to_owned()).or_default() += 1;
            answered.fetch_add(1, Ordering::Relaxed);
            let got = if is_refused { Vec::new() } else { answer.list() };
            let new = got.iter().filter_map(|message| message.get("receipt").and_then(Answer::text));
            match request.contains("LEASE 5000") {
                true => SHARED.lock().expect("nobody panicked").extend(new.map(str::to_owned)),
                false => receipts.extend(new.map(str::to_owned)),
            }
        }
    }
    counts
}

#[test]
fn nobody_ever_waits_in_a_circle() {
    let settings =
        ["fsync=off", "log_min_messages=warning", "log_min_error_statement=error", "deadlock_timeout=100ms"];
    let postgres = Postgres::start(&settings);
    let database = postgres.create_database();
    let url = postgres.url(&database);
    let servers = KINDS.map(|arguments| Server::start(&url, arguments));
    let mut setup = Client::login(servers[0].addr(), "setup").expect("it runs");
    for queue in 0..QUEUES {
        setup.ask(&["QCREATE", &format!("q{queue}")]).expect("it runs");
    }
    let (until, answered) = (Instant::now() + WHILE, &AtomicUsize::new(0));
    let counts: Vec<BTreeMap<String, usize>> = thread::scope(|scope| {
        let clients: Vec<_> = (0..CONNECTIONS)
            .map(|number| {
                let server = servers[number % servers.len()].addr();
                scope.spawn(move || work(server, number, until, answered))
            })
            .collect();
        clients.into_iter().map(|client| client.join().expect("a client is done")).collect()
    });
    let done: usize = counts.iter().filter_map(|counts| counts.get("done")).sum();
    println!("{done} requests done: {counts:?}");
    assert!(done > ENOUGH / 2, "only {done} requests were done: too few to meet in");
    for server in &servers {
        assert!(!server.log().contains("refused"), "{}", server.log());
    }
    let log = postgres.log();
    // Where others keep the machine busy a batch may take the second for which a name is waited for. A circle would not
    // come to that: PostgreSQL looks for one long before.
    let is_late = |line: &str| line.contains("another transaction holds a lock on queue");
    let is_bad = |line: &&str| line.contains("deadlock") || line.contains("ERROR") && !is_late(line);
    assert_eq!(log.lines().find(is_bad), None, "{log}");
    let found = format!("SELECT deadlocks FROM pg_stat_database WHERE datname = '{database}'");
    assert_eq!(postgres.psql("postgres", &found), "0");
}
