//! Clients that work through an outage and keep a journal, so that afterwards every message can be accounted for.
//!
//! On the queue `exact` a request without a certain answer is repeated under its DEDUP or REQID key until it has one:
//! in the end not one message may be missing or have come twice. On `plain` nothing is repeated. There a `STORE` that
//! says nothing was changed is taken at its word, and a message may be missing only for each pop whose outcome was
//! unknown.

#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use crate::client::{Answer, Broken, Client};

/// What a request with `STORE` may take: nobody is kept waiting for the certain failure.
const STORE_WITHIN: Duration = Duration::from_secs(6);

/// For how long a request on `exact` is repeated.
const PATIENCE: Duration = Duration::from_secs(60);

/// Clients at work.
pub(crate) struct Crew {
    over: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Journal>>,
}

/// What clients know of their requests.
#[derive(Default)]
pub(crate) struct Journal {
    /// Sent and acknowledged.
    sent: Vec<String>,
    /// Sent, and nobody knows.
    sent_in_doubt: Vec<String>,
    /// Refused, so they must never be seen.
    refused: Vec<String>,
    /// Popped.
    taken: Vec<String>,
    /// Pops with an unknown outcome.
    pops_in_doubt: usize,
    /// Answers of the kind `STORE`.
    pub(crate) failures: Vec<String>,
}

/// What became of a request.
enum Ending {
    Answered(Answer),
    NothingChanged,
    Unknown,
}

impl Crew {
    /// Makes the queues and starts clients, spread over servers.
    pub(crate) fn start(servers: &[SocketAddr], clients: usize) -> Self {
        let mut setup = Client::connect(servers[0]).expect("the server runs");
        for queue in ["exact", "plain"] {
            assert!(setup.ask(&["QCREATE", queue]).expect("the server runs").integer().is_some());
        }
        let over = Arc::new(AtomicBool::new(false));
        let clients = (0..clients).map(|number| {
            let (over, server) = (Arc::clone(&over), servers[number % servers.len()]);
            thread::spawn(move || Member::new(server, number).work(&over))
        });
        Self { clients: clients.collect(), over }
    }

    /// Lets everybody finish, takes what is left, and accounts for every message.
    pub(crate) fn finish(self, server: SocketAddr) -> Journal {
        self.over.store(true, Ordering::SeqCst);
        let mut whole = Journal::default();
        for client in self.clients {
            whole.merge(client.join().expect("a client is done"));
        }
        for queue in ["exact", "plain"] {
            whole.taken.extend(drain(server, queue));
        }
        whole.check();
        whole
    }
}

/// Pops everything that is left.
fn drain(server: SocketAddr, queue: &str) -> Vec<String> {
    let mut client = Client::login(server, "drain").expect("the server runs");
    let mut pop = || client.ask(&["POP", "QUEUE", queue]).expect("the server runs");
    std::iter::from_fn(|| match pop() {
        Answer::Null => None,
        answer => Some(answer.body().unwrap_or_else(|| panic!("{answer:?}")).to_owned()),
    })
    .collect()
}

impl Journal {
    fn merge(&mut self, other: Self) {
        self.sent.extend(other.sent);
        self.sent_in_doubt.extend(other.sent_in_doubt);
        self.refused.extend(other.refused);
        self.taken.extend(other.taken);
        self.pops_in_doubt += other.pops_in_doubt;
        self.failures.extend(other.failures);
    }

    fn check(&self) {
        let mut count: BTreeMap<&str, usize> =
            self.sent.iter().chain(&self.sent_in_doubt).map(|body| (body.as_str(), 0)).collect();
        for body in &self.taken {
            assert!(!self.refused.contains(body), "{body} was said not to have been stored");
            *count.get_mut(body.as_str()).unwrap_or_else(|| panic!("{body} was never sent")) += 1;
        }
        let doubled: Vec<_> = count.iter().filter(|(_, times)| **times > 1).collect();
        assert!(doubled.is_empty(), "delivered more than once: {doubled:?}");
        let lost: Vec<_> = self.sent.iter().filter(|body| count[body.as_str()] == 0).collect();
        assert!(!lost.iter().any(|body| body.starts_with("exact")), "lost: {lost:?}");
        assert!(lost.len() <= self.pops_in_doubt, "{} pops in doubt, lost: {lost:?}", self.pops_in_doubt);
        assert!(self.sent.len() > 100, "only {} were sent: no load", self.sent.len());
    }
}

/// One client.
struct Member {
    server: SocketAddr,
    name: String,
    client: Option<Client>,
    next: usize,
    journal: Journal,
}

impl Member {
    fn new(server: SocketAddr, number: usize) -> Self {
        let name = format!("client{number}");
        Self { server, name, client: None, next: 0, journal: Journal::default() }
    }

    fn work(mut self, over: &AtomicBool) -> Journal {
        while !over.load(Ordering::SeqCst) {
            self.next += 1;
            let key = format!("{} {}", self.name, self.next);
            self.exact(&key);
            self.plain(&key);
        }
        self.journal
    }

    fn exact(&mut self, key: &str) {
        let body = format!("exact {key}");
        self.insist(&["SEND", "exact", &body, "DEDUP", key]);
        self.journal.sent.push(body);
        let popped = self.insist(&["POP", "QUEUE", "exact", "REQID", key]);
        self.journal.taken.extend(popped.body().map(str::to_owned));
    }

    fn plain(&mut self, key: &str) {
        let body = format!("plain {key}");
        match self.try_once(&["SEND", "plain", &body]) {
            Ending::Answered(_) => self.journal.sent.push(body),
            Ending::NothingChanged => self.journal.refused.push(body),
            Ending::Unknown => self.journal.sent_in_doubt.push(body),
        }
        match self.try_once(&["POP", "QUEUE", "plain", "BLOCK", "20"]) {
            Ending::Answered(answer) => self.journal.taken.extend(answer.body().map(str::to_owned)),
            Ending::NothingChanged => {}
            Ending::Unknown => self.journal.pops_in_doubt += 1,
        }
    }

    /// Repeats a request until it has a certain answer.
    fn insist(&mut self, words: &[&str]) -> Answer {
        let start = Instant::now();
        loop {
            if let Ending::Answered(answer) = self.try_once(words) {
                return answer;
            }
            assert!(start.elapsed() < PATIENCE, "{words:?} gets no answer");
            sleep(Duration::from_millis(5));
        }
    }

    fn try_once(&mut self, words: &[&str]) -> Ending {
        let start = Instant::now();
        match self.ask(words) {
            Ok(Answer::Error(text)) if text.starts_with("STORE ") => {
                assert!(start.elapsed() < STORE_WITHIN, "after {:?}: {text}", start.elapsed());
                let undone = text.contains("nothing was changed");
                self.journal.failures.push(text);
                if undone { Ending::NothingChanged } else { Ending::Unknown }
            }
            Ok(Answer::Error(text)) => panic!("{words:?}: {text}"),
            Ok(answer) => Ending::Answered(answer),
            Err(Broken) => {
                self.client = None;
                sleep(Duration::from_millis(5));
                Ending::Unknown
            }
        }
    }

    /// Asks over a connection that is made, and logged in, when there is none.
    fn ask(&mut self, words: &[&str]) -> Result<Answer, Broken> {
        let mut client = match self.client.take() {
            Some(client) => client,
            None => {
                let mut client = Client::connect(self.server)?;
                let login = client.ask(&["LOGIN", &self.name])?;
                if matches!(login, Answer::Error(_)) {
                    return Ok(login);
                }
                client
            }
        };
        let answer = client.ask(words)?;
        self.client = Some(client);
        Ok(answer)
    }
}
