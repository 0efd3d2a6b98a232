//! Clients that ask for everything at random, all at once, and the history checker as the judge.
//!
//! The other tests try one promise each. Here options meet that nobody would pair: a lease that runs out while its
//! queue is purged, a repeated POP by sender behind a send with a time to live, in one pipeline, at two middlewares,
//! with the server killed in between. What is right then nobody has written down case by case; the rules decide it from
//! the journals.
//!
//! `HISTORY_SECONDS=n` is how long each history lasts (else some thousand requests), `HISTORY_SEED=n` which one it is:
//! the clients' draws, not the timing.

mod support;

#[path = "support/client.rs"]
mod client;

#[path = "support/mixer.rs"]
mod mixer;

#[path = "support/postgres.rs"]
mod postgres;

#[path = "support/stalls.rs"]
mod stalls;

#[path = "support/witness.rs"]
mod witness;

use std::env;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use client::Client;
use mixer::{ACCOUNTS, LEASE_MAX_MS, Mixer, QUEUES};
use posthaste_history::{History, check};
use support::Server;
use witness::Witness;

const CLIENTS: u32 = 12;
const REQUESTS: u64 = 2000;

/// How much longer than timers are allowed is waited for them.
const MARGIN: Duration = Duration::from_millis(100);

/// The most that one part of a history takes on a machine that is busy with other things.
const PART_MAX: Duration = Duration::from_secs(30);

/// What is done to the servers meanwhile.
struct Plan<'a> {
    store: &'a str,
    arguments: &'a [&'a str],
    /// Middlewares over the store.
    servers: usize,
    /// How often all of them are killed and started again.
    kills: u32,
    /// Waits until all has ended that killed servers had begun elsewhere; None: there is nothing.
    ends: Option<&'a dyn Fn()>,
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

impl Plan<'_> {
    fn start(&self) -> Vec<Server> {
        (0..self.servers).map(|_| Server::start(self.store, self.arguments)).collect()
    }

    fn hold(&self) {
        let seed = number("HISTORY_SEED").unwrap_or(1);
        let mut servers = self.start();
        prepare(servers[0].addr());
        let mut mixers: Vec<_> = (0..CLIENTS).map(|client| Mixer::new(client, seed)).collect();
        // For how long requests outlived who asked for them.
        let mut limbo = Duration::ZERO;
        stalls::watch();
        let begun = witness::now();
        for _ in 0..self.kills {
            let at: Vec<_> = servers.iter().map(Server::addr).collect();
            let killed = self.live(&mut mixers, &at, Some(servers));
            if let Some(ends) = self.ends {
                ends();
                limbo = limbo.max(killed.elapsed());
            }
            servers = self.start();
        }
        let at: Vec<_> = servers.iter().map(Server::addr).collect();
        self.live(&mut mixers, &at, None);
        self.judge(&mixers, servers[0].addr(), limbo, begun);
    }

    /// All clients work for a while; then the servers, if they are given, are killed under them. When that began.
    fn live(&self, mixers: &mut [Mixer], at: &[SocketAddr], killed: Option<Vec<Server>>) -> Instant {
        let (over, answered) = (&AtomicBool::new(false), &AtomicU64::new(0));
        let is_killed = killed.is_some();
        thread::scope(|scope| {
            for (mixer, server) in mixers.iter_mut().zip(at.iter().cycle()) {
                scope.spawn(move || {
                    let end = mixer.live(*server, over, answered);
                    assert!(end.is_ok() || is_killed, "a connection ended by itself");
                });
            }
            self.wait(answered);
            let end = Instant::now();
            match killed {
                Some(servers) => servers.into_iter().for_each(Server::kill9),
                None => over.store(true, Ordering::SeqCst),
            }
            end
        })
    }

    /// Until this part of the history is over.
    fn wait(&self, answered: &AtomicU64) {
        let (parts, start) = (u64::from(self.kills) + 1, Instant::now());
        let is_over = || match number("HISTORY_SECONDS") {
            Some(seconds) => start.elapsed() >= Duration::from_secs(seconds) / (self.kills + 1),
            None => answered.load(Ordering::Relaxed) >= REQUESTS / parts || start.elapsed() > PART_MAX,
        };
        while !is_over() {
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn judge(&self, mixers: &[Mixer], server: SocketAddr, limbo: Duration, begun: u64) {
        // What was leased or delayed is back then, also what was leased by requests without an answer.
        thread::sleep(Duration::from_millis(LEASE_MAX_MS) + allowed(begun) + MARGIN);
        let mut history = History::with_limbo(limbo.as_nanos() as u64);
        mixers.iter().for_each(|mixer| history.add(mixer.witness.journal()));
        let mut auditor = Witness::login(server, 1000, "auditor").expect("it runs");
        for queue in QUEUES {
            auditor.ask(&["QINFO", queue]).expect("it runs");
        }
        history.add(auditor.journal());
        let accounts = ACCOUNTS.map(str::to_owned);
        witness::drain(server, 2000, &accounts, &QUEUES).iter().for_each(|journal| history.drain(journal));
        history.timers_late = allowed(begun).as_nanos() as u64;
        let verdict = check(&history);
        println!("{verdict}");
        assert!(verdict.is_valid() && verdict.undecided.is_empty(), "{verdict}");
        assert!(verdict.counts.reads_judged > 100 && verdict.counts.figures_judged > 0, "{verdict}");
    }
}

/// What timers are allowed: what the checker gives them, and as much more as the machine itself was late.
fn allowed(begun: u64) -> Duration {
    Duration::from_nanos(History::default().timers_late + stalls::lateness(&stalls::since(begun)))
}

fn prepare(server: SocketAddr) {
    let mut client = Client::login(server, "setup").expect("it runs");
    for words in
        QUEUES.map(|queue| ["QCREATE", queue]).iter().chain(&ACCOUNTS.map(|account| ["LOGIN", account]))
    {
        client.ask(words).expect("it runs");
    }
}

fn embedded(arguments: &[&str], kills: u32) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = format!("embedded:{}", dir.path().display());
    Plan { store: &store, arguments, servers: 1, kills, ends: None }.hold();
}

fn postgresql(arguments: &[&str], servers: usize, kills: u32) {
    let postgres = postgres::shared();
    let database = postgres.create_database();
    let (store, ends) = (postgres.url(&database), || postgres.wait_until_left(&database));
    Plan { store: &store, arguments, servers, kills, ends: Some(&ends) }.hold();
}

#[test]
fn of_the_memory_store_keeps_all_rules() {
    Plan { store: "memory:", arguments: &["--workers", "4"], servers: 1, kills: 0, ends: None }.hold();
}

#[test]
fn of_the_embedded_store_keeps_all_rules() {
    embedded(&[], 0);
}

#[test]
fn of_the_embedded_store_keeps_all_rules_though_it_is_killed() {
    embedded(&[], 5);
}

#[test]
fn of_the_embedded_store_keeps_all_rules_one_request_at_a_time() {
    embedded(&["--batch", "1"], 0);
}

#[test]
fn of_postgresql_keeps_all_rules() {
    postgresql(&[], 1, 0);
}

#[test]
fn of_three_middlewares_over_one_database_keeps_all_rules_though_they_are_killed() {
    postgresql(&[], 3, 3);
}

#[test]
fn of_postgresql_keeps_all_rules_one_request_at_a_time() {
    postgresql(&["--batch", "1"], 1, 0);
}

#[test]
fn of_postgresql_keeps_all_rules_with_every_pop_strategy() {
    for strategy in ["skip-locked", "delete-retry", "for-update", "repeatable-read", "mark-update"] {
        println!("{strategy}");
        postgresql(&["--pop-strategy", strategy], 1, 0);
    }
}
