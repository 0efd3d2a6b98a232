//! `kill -9` in a loop: whatever the server had acknowledged is still true after it.
//!
//! Clients send, pop, lease and acknowledge, create and delete queues while the server is killed and started again on
//! the same store. Every client keeps a journal, and the history checker decides in the end whether every promise was
//! kept. On the queue `exact` a request cut off by a kill is repeated under its DEDUP or REQID key until it is
//! answered, so nothing is left in doubt there. On `plain` nothing is repeated: a message may be missing only for each
//! pop whose answer was cut off.
//!
//! `KILLS=n` sets the number of kills, `CRASH_SECONDS=n` a time after which no further kill is begun.

mod support;

#[path = "support/client.rs"]
mod client;

#[path = "support/postgres.rs"]
mod postgres;

#[path = "support/stalls.rs"]
mod stalls;

#[path = "support/witness.rs"]
mod witness;

use std::collections::BTreeMap;
use std::env;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use client::{Answer, Broken, Client};
use posthaste_history::{History, check};
use support::Server;
use support::patience::PATIENCE;
use witness::Witness;

const KILLS: u64 = 25;
const CLIENTS: u64 = 4;

#[test]
fn what_was_acknowledged_before_a_kill_is_true_after_it() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    // What a process had taken when it was killed is back as soon as the next one has read the log.
    kill_again_and_again(&format!("embedded:{}", dir.path().display()), None);
}

/// The middleware is killed, not the database: transactions end halfway, and answers are lost on the way.
#[test]
fn what_was_acknowledged_before_a_kill_is_true_after_it_on_postgresql() {
    let postgres = postgres::shared();
    let database = postgres.create_database();
    kill_again_and_again(&postgres.url(&database), Some(&|| postgres.wait_until_left(&database)));
}

/// `ends` waits until all has ended that a killed server had begun elsewhere.
fn kill_again_and_again(store: &str, ends: Option<&dyn Fn()>) {
    let kills = number("KILLS").unwrap_or(KILLS);
    let until = number("CRASH_SECONDS").map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let (mut exact, mut plain, mut queues) = (Exact::crew(), Plain::crew(), Queues::default());
    prepare(&Server::start(store, &[]));
    let (mut done, mut limbo) = (0, Duration::ZERO);
    stalls::watch();
    let begun = witness::now();
    while done < kills && until.is_none_or(|until| Instant::now() < until) {
        let server = Server::start(store, &[]);
        let killed = live(server, 40 + done * 37 % 160, &mut exact, &mut plain, &mut queues);
        if let Some(ends) = ends {
            ends();
            limbo = limbo.max(killed.elapsed());
        }
        done += 1;
    }
    let server = Server::start(store, &[]);
    queues.check(server.addr());
    exact.iter_mut().for_each(|client| client.finish(server.addr()));
    let witnesses =
        exact.into_iter().map(|client| client.witness).chain(plain.into_iter().map(|client| client.witness));
    judge(witnesses.collect(), server.addr(), limbo, begun);
    println!("{done} kills");
}

/// What timers are allowed: what the checker gives them, and as much more as the machine itself was late.
fn allowed(begun: u64) -> Duration {
    Duration::from_nanos(History::default().timers_late + stalls::lateness(&stalls::since(begun)))
}

/// Has the history checker decide, once everything that is left has been taken.
fn judge(witnesses: Vec<Witness>, server: SocketAddr, limbo: Duration, begun: u64) {
    // Leases of clients that were cut off must run out first.
    thread::sleep(Duration::from_millis(LEASE_MS) + allowed(begun) + MARGIN);
    let mut history = History::with_limbo(limbo.as_nanos() as u64);
    witnesses.iter().for_each(|witness| history.add(witness.journal()));
    let mut auditor = Witness::login(server, 1000, "auditor").expect("the server runs");
    for queue in ["exact", "plain"] {
        auditor.ask(&["QINFO", queue]).expect("the server runs");
    }
    history.add(auditor.journal());
    for journal in witness::drain(server, 2000, &["drain".to_owned()], &["exact", "plain"]) {
        history.drain(&journal);
    }
    history.timers_late = allowed(begun).as_nanos() as u64;
    let verdict = check(&history);
    println!("{verdict}");
    assert!(verdict.is_valid() && verdict.undecided.is_empty(), "{verdict}");
    assert!(verdict.counts.popped > 0 && verdict.counts.reads_judged > 0, "{verdict}");
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

fn prepare(server: &Server) {
    let mut client = Client::login(server.addr(), "setup").expect("the server has just started");
    for queue in ["exact", "plain"] {
        client.ask(&["QCREATE", queue]).expect("the server runs");
    }
}

/// One life of the server, and its end: after some time, and not before something has come of it. When it was killed.
fn live(
    server: Server,
    millis: u64,
    exact: &mut [Exact],
    plain: &mut [Plain],
    queues: &mut Queues,
) -> Instant {
    let (addr, answered) = (server.addr(), &AtomicU64::new(0));
    thread::scope(|scope| {
        for client in exact {
            scope.spawn(move || client.live(addr, answered));
        }
        for client in plain {
            scope.spawn(move || client.live(addr, answered));
        }
        scope.spawn(|| queues.live(addr));
        thread::sleep(Duration::from_millis(millis));
        let start = Instant::now();
        while answered.load(Ordering::Relaxed) < ANSWERED_MIN && start.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(1));
        }
        let killed = Instant::now();
        server.kill9();
        killed
    })
}

/// A machine that is busy with other things may not get far in the time of a life.
const ANSWERED_MIN: u64 = 4 * CLIENTS;

const LEASE_MS: u64 = 400;

/// How much longer than timers are allowed is waited for them.
const MARGIN: Duration = Duration::from_millis(100);

fn fresh(prefix: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{prefix}{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A client that repeats what was cut off, under the same key: in its journal that is one operation.
struct Exact {
    witness: Witness,
    /// The request whose answer is still owed.
    owed: Option<(usize, Vec<String>)>,
    turn: u64,
}

impl Exact {
    fn crew() -> Vec<Self> {
        let one = |n| Self { witness: Witness::new(n as u32, &format!("exact{n}")), owed: None, turn: n };
        (0..CLIENTS).map(one).collect()
    }

    fn live(&mut self, server: SocketAddr, answered: &AtomicU64) {
        // The server's end ends this life; what was cut off is owed to the next.
        let _: Result<(), Broken> = self.witness.connect(server).and_then(|()| {
            loop {
                self.step()?;
                answered.fetch_add(1, Ordering::Relaxed);
            }
        });
    }

    fn step(&mut self) -> Result<(), Broken> {
        if self.owed.is_none() {
            self.turn += 1;
            let (body, key) = (fresh("exact-"), fresh("key-"));
            let words: &[&str] = if self.turn.is_multiple_of(2) {
                &["SEND", "exact", &body, "DEDUP", &key]
            } else {
                &["POP", "QUEUE", "exact", "REQID", &key]
            };
            let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
            self.owed = Some((self.witness.begin(&borrowed(&words)), words));
        }
        self.settle_owed()
    }

    fn settle_owed(&mut self) -> Result<(), Broken> {
        let Some((number, words)) = &self.owed else { return Ok(()) };
        let answer = self.witness.attempt(*number, &borrowed(words))?;
        assert!(!matches!(answer, Answer::Error(_)), "{words:?} was answered with {answer:?}");
        self.owed = None;
        Ok(())
    }

    fn finish(&mut self, server: SocketAddr) {
        self.witness.connect(server).and_then(|()| self.settle_owed()).expect("the server runs");
    }
}

fn borrowed(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

/// A client that repeats nothing; it pops, or leases and acknowledges.
struct Plain {
    witness: Witness,
    turn: u64,
}

impl Plain {
    fn crew() -> Vec<Self> {
        let one = |n| Self { witness: Witness::new((100 + n) as u32, &format!("plain{n}")), turn: n };
        (0..CLIENTS).map(one).collect()
    }

    fn live(&mut self, server: SocketAddr, answered: &AtomicU64) {
        let _: Result<(), Broken> = self.witness.connect(server).and_then(|()| {
            loop {
                self.turn += 1;
                match self.turn % 4 {
                    0 => self.must(&["POP", "QUEUE", "plain"]).map(drop)?,
                    1 => self.lease()?,
                    _ => self.must(&["SEND", "plain", &fresh("plain-")]).map(drop)?,
                }
                answered.fetch_add(1, Ordering::Relaxed);
            }
        });
    }

    /// A request that no server refuses.
    fn must(&mut self, words: &[&str]) -> Result<Answer, Broken> {
        let answer = self.witness.ask(words)?;
        assert!(!matches!(answer, Answer::Error(_)), "{words:?} was answered with {answer:?}");
        Ok(answer)
    }

    /// A message leased and not acknowledged comes back; one whose ACK was cut off may or may not.
    fn lease(&mut self) -> Result<(), Broken> {
        let answer = self.must(&["POP", "QUEUE", "plain", "LEASE", &LEASE_MS.to_string()])?;
        match answer.get("receipt").and_then(Answer::text) {
            Some(receipt) => self.must(&["ACK", receipt]).map(drop),
            None => Ok(()),
        }
    }
}

/// A client that creates and deletes queues.
#[derive(Default)]
struct Queues {
    /// Queues by name, and whether the last acknowledged word was that they exist; None: cut off.
    known: BTreeMap<String, Option<bool>>,
}

impl Queues {
    fn live(&mut self, server: SocketAddr) {
        let _: Result<(), Broken> = Client::login(server, "queues").and_then(|mut client| {
            loop {
                let name = fresh("queue-");
                self.change(&mut client, &name, "QCREATE", true)?;
                if self.known.len().is_multiple_of(2) {
                    self.change(&mut client, &name, "QDELETE", false)?;
                }
            }
        });
    }

    fn change(&mut self, client: &mut Client, name: &str, verb: &str, exists: bool) -> Result<(), Broken> {
        self.known.insert(name.to_owned(), None);
        match client.ask(&[verb, name])? {
            Answer::Integer(_) => self.known.insert(name.to_owned(), Some(exists)),
            other => panic!("{verb} answered {other:?}"),
        };
        Ok(())
    }

    fn check(&self, server: SocketAddr) {
        let mut client = Client::login(server, "queues").expect("the server runs");
        for (name, exists) in &self.known {
            let answer = client.ask(&["QINFO", name]).expect("the server runs");
            if let Some(exists) = exists {
                assert_eq!(!answer.is_error("NOQUEUE"), *exists, "{name}: {answer:?}");
            }
        }
    }
}
