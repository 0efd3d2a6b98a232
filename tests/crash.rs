//! `kill -9` in a loop: whatever the server had acknowledged is still true after it.
//!
//! Clients send, pop, lease and acknowledge, create and delete queues while the server is killed and started again
//! on the same store. Every client keeps a journal of what was acknowledged. On the queue `exact` a request cut
//! off by a kill is repeated under its DEDUP or REQID key, so not one message may be missing there or come twice. On
//! `plain` nothing is repeated: a message may be missing only for each pop whose answer was cut off.
//!
//! `KILLS=n` sets the number of kills, `CRASH_SECONDS=n` a time after which no further kill is begun.

mod support;

#[path = "support/client.rs"]
mod client;

#[path = "support/postgres.rs"]
mod postgres;

use std::collections::BTreeMap;
use std::env;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use client::{Answer, Broken, Client};
use support::Server;

const KILLS: u64 = 25;
const CLIENTS: u64 = 4;

/// What all clients of a queue know together in the end.
#[derive(Default)]
struct Journal {
    /// Messages whose SEND was acknowledged.
    sent: Vec<String>,
    /// Messages whose SEND was cut off.
    sent_in_doubt: Vec<String>,
    /// Messages popped, or leased and acknowledged.
    taken: Vec<String>,
    /// Messages whose ACK was cut off.
    ack_in_doubt: Vec<String>,
    /// Pops that were cut off.
    pops_in_doubt: usize,
}

impl Journal {
    fn merge(&mut self, other: Self) {
        self.sent.extend(other.sent);
        self.sent_in_doubt.extend(other.sent_in_doubt);
        self.taken.extend(other.taken);
        self.ack_in_doubt.extend(other.ack_in_doubt);
        self.pops_in_doubt += other.pops_in_doubt;
    }

    /// Every acknowledged message exactly once; the others at most once; nothing that was never sent.
    fn check(&self, queue: &str) {
        let mut count: BTreeMap<&str, usize> =
            self.sent.iter().chain(&self.sent_in_doubt).map(|body| (body.as_str(), 0)).collect();
        for body in &self.taken {
            *count.get_mut(body.as_str()).unwrap_or_else(|| panic!("{queue}: {body} was never sent")) += 1;
        }
        let doubled: Vec<_> = count.iter().filter(|(_, times)| **times > 1).collect();
        assert!(doubled.is_empty(), "{queue}: delivered more than once: {doubled:?}");
        let lost: Vec<_> = self
            .sent
            .iter()
            .filter(|body| count[body.as_str()] == 0 && !self.ack_in_doubt.contains(body))
            .collect();
        assert!(
            lost.len() <= self.pops_in_doubt,
            "{queue}: {} acknowledged messages are missing, {} pops were cut off: {lost:?}",
            lost.len(),
            self.pops_in_doubt
        );
        println!(
            "{queue}: {} acknowledged, {} in doubt, {} taken, {} missing for {} pops cut off",
            self.sent.len(),
            self.sent_in_doubt.len(),
            self.taken.len(),
            lost.len(),
            self.pops_in_doubt
        );
    }
}

#[test]
fn what_was_acknowledged_before_a_kill_is_true_after_it() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    kill_again_and_again(&format!("embedded:{}", dir.path().display()));
}

/// The middleware is killed, not the database: transactions end halfway, and answers are lost on the way.
#[test]
fn what_was_acknowledged_before_a_kill_is_true_after_it_on_postgresql() {
    let postgres = postgres::shared();
    kill_again_and_again(&postgres.url(&postgres.create_database()));
}

fn kill_again_and_again(store: &str) {
    let kills = number("KILLS").unwrap_or(KILLS);
    let until = number("CRASH_SECONDS").map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let (mut exact, mut plain, mut queues) = (Exact::crew(), Plain::crew(), Queues::default());
    prepare(&Server::start(store, &[]));
    let mut done = 0;
    while done < kills && until.is_none_or(|until| Instant::now() < until) {
        let server = Server::start(store, &[]);
        live(server, 40 + done * 37 % 160, &mut exact, &mut plain, &mut queues);
        done += 1;
    }
    let server = Server::start(store, &[]);
    queues.check(server.addr());
    let exact = exact.into_iter().map(|client| client.finish(server.addr()));
    settle(exact, server.addr(), "exact").check("exact");
    settle(plain.into_iter().map(|client| client.journal), server.addr(), "plain").check("plain");
    println!("{done} kills");
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

/// One life of the server, and its end.
fn live(server: Server, millis: u64, exact: &mut [Exact], plain: &mut [Plain], queues: &mut Queues) {
    let addr = server.addr();
    thread::scope(|scope| {
        for client in exact {
            scope.spawn(|| client.live(addr));
        }
        for client in plain {
            scope.spawn(|| client.live(addr));
        }
        scope.spawn(|| queues.live(addr));
        thread::sleep(Duration::from_millis(millis));
        server.kill9();
    });
}

/// Adds everything that is left in the queue to the journal.
fn settle(journals: impl Iterator<Item = Journal>, server: SocketAddr, queue: &str) -> Journal {
    let mut whole = Journal::default();
    journals.for_each(|journal| whole.merge(journal));
    // Leases of clients that were cut off must run out first.
    thread::sleep(Duration::from_millis(LEASE_MS + 300));
    let mut client = Client::login(server, "drain").expect("the server runs");
    while let Some(body) = taken(&client.ask(&["POP", "QUEUE", queue]).expect("the server runs")) {
        whole.taken.push(body);
    }
    whole
}

const LEASE_MS: u64 = 400;

/// The body of a message answer.
fn taken(answer: &Answer) -> Option<String> {
    answer.body().map(str::to_owned)
}

fn fresh(prefix: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{prefix}{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A client that repeats what was cut off, under the same key.
struct Exact {
    account: String,
    journal: Journal,
    /// The request whose answer is still owed: its key and, for a SEND, its body.
    owed: Option<(String, Option<String>)>,
    turn: u64,
}

impl Exact {
    fn crew() -> Vec<Self> {
        let one = |n| Self { account: format!("exact{n}"), journal: Journal::default(), owed: None, turn: n };
        (0..CLIENTS).map(one).collect()
    }

    fn live(&mut self, server: SocketAddr) {
        // The server's end ends this life; what was cut off is owed to the next.
        let _: Result<(), Broken> = Client::login(server, &self.account).and_then(|mut client| {
            loop {
                self.step(&mut client)?;
            }
        });
    }

    fn step(&mut self, client: &mut Client) -> Result<(), Broken> {
        if self.owed.is_none() {
            self.turn += 1;
            let body = self.turn.is_multiple_of(2).then(|| fresh("exact-"));
            self.owed = Some((fresh("key-"), body));
        }
        self.settle_owed(client)
    }

    fn settle_owed(&mut self, client: &mut Client) -> Result<(), Broken> {
        let Some((key, body)) = self.owed.clone() else { return Ok(()) };
        match body {
            Some(body) => match client.ask(&["SEND", "exact", &body, "DEDUP", &key])? {
                Answer::Integer(_) => self.journal.sent.push(body),
                other => panic!("SEND answered {other:?}"),
            },
            None => {
                let answer = client.ask(&["POP", "QUEUE", "exact", "REQID", &key])?;
                self.journal.taken.extend(taken(&answer));
            }
        }
        self.owed = None;
        Ok(())
    }

    fn finish(mut self, server: SocketAddr) -> Journal {
        let mut client = Client::login(server, &self.account).expect("the server runs");
        self.settle_owed(&mut client).expect("the server runs");
        self.journal
    }
}

/// A client that repeats nothing; it pops, or leases and acknowledges.
struct Plain {
    account: String,
    journal: Journal,
    turn: u64,
}

impl Plain {
    fn crew() -> Vec<Self> {
        let one = |n| Self { account: format!("plain{n}"), journal: Journal::default(), turn: n };
        (0..CLIENTS).map(one).collect()
    }

    fn live(&mut self, server: SocketAddr) {
        let _: Result<(), Broken> = Client::login(server, &self.account).and_then(|mut client| {
            loop {
                self.turn += 1;
                match self.turn % 4 {
                    0 => self.pop(&mut client)?,
                    1 => self.lease(&mut client)?,
                    _ => self.send(&mut client)?,
                }
            }
        });
    }

    fn send(&mut self, client: &mut Client) -> Result<(), Broken> {
        let body = fresh("plain-");
        match client.ask(&["SEND", "plain", &body]) {
            Ok(Answer::Integer(_)) => self.journal.sent.push(body),
            Ok(other) => panic!("SEND answered {other:?}"),
            Err(Broken) => {
                self.journal.sent_in_doubt.push(body);
                return Err(Broken);
            }
        }
        Ok(())
    }

    fn pop(&mut self, client: &mut Client) -> Result<(), Broken> {
        let answer =
            client.ask(&["POP", "QUEUE", "plain"]).inspect_err(|_| self.journal.pops_in_doubt += 1)?;
        self.journal.taken.extend(taken(&answer));
        Ok(())
    }

    /// A message leased and not acknowledged comes back; one whose ACK was cut off may or may not.
    fn lease(&mut self, client: &mut Client) -> Result<(), Broken> {
        let answer = client.ask(&["POP", "QUEUE", "plain", "LEASE", &LEASE_MS.to_string()])?;
        let Some(body) = taken(&answer) else { return Ok(()) };
        let receipt = answer.get("receipt").and_then(Answer::text).expect("a leased message has a receipt");
        match client.ask(&["ACK", receipt]) {
            Ok(Answer::Integer(1)) => self.journal.taken.push(body),
            Ok(Answer::Integer(0)) => {}
            Ok(other) => panic!("ACK answered {other:?}"),
            Err(Broken) => {
                self.journal.ack_in_doubt.push(body);
                return Err(Broken);
            }
        }
        Ok(())
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
