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
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::Duration;

use crate::client::{Answer, Broken, Client};
use crate::support::patience::{wait_for, wait_until};

/// Sends that show something only if there were so many.
const LOAD: usize = 100;

/// Clients at work.
pub(crate) struct Crew {
    progress: Arc<Progress>,
    clients: Vec<JoinHandle<Journal>>,
}

/// How far they have come.
#[derive(Default)]
struct Progress {
    over: AtomicBool,
    sent: AtomicU64,
    failed: AtomicU64,
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
        // Keys are remembered: those of one crew are not those of the next.
        static CREWS: AtomicU64 = AtomicU64::new(0);
        let crew = CREWS.fetch_add(1, Ordering::SeqCst);
        let progress = Arc::new(Progress::default());
        let clients = (0..clients).map(|number| {
            let (progress, server) = (Arc::clone(&progress), servers[number % servers.len()]);
            let name = format!("client{crew}-{number}");
            thread::spawn(move || Member::new(server, name, progress).work())
        });
        Self { clients: clients.collect(), progress }
    }

    /// Waits until so many more messages have been sent, whatever time that takes.
    pub(crate) fn sends(&self, more: u64) {
        let before = self.progress.sent.load(Ordering::SeqCst);
        self.reaches("sends", &self.progress.sent, before + more);
    }

    /// The same for half of the load that the account asks for.
    pub(crate) fn is_busy(&self) {
        self.sends(LOAD as u64 / 2 + 1);
    }

    /// Waits until somebody has got `STORE`.
    pub(crate) fn notices(&self) {
        self.reaches("failures", &self.progress.failed, 1);
    }

    /// Whether somebody has got `STORE`.
    pub(crate) fn has_noticed(&self) -> bool {
        self.progress.failed.load(Ordering::SeqCst) > 0
    }

    #[track_caller]
    fn reaches(&self, what: &str, count: &AtomicU64, wanted: u64) {
        wait_until(format!("{wanted} {what}"), || {
            let is_reached = count.load(Ordering::SeqCst) >= wanted;
            assert!(is_reached || !self.clients.iter().any(JoinHandle::is_finished), "a client gave up");
            is_reached
        });
    }

    /// Lets everybody finish, takes what is left, and accounts for every message.
    pub(crate) fn finish(self, server: SocketAddr) -> Journal {
        self.progress.over.store(true, Ordering::SeqCst);
        let mut whole = Journal::default();
        for client in self.clients {
            whole.merge(client.join().expect("a client is done"));
        }
        let mut drain = Client::login(server, "drain").expect("the server runs");
        for queue in ["exact", "plain"] {
            whole.taken.extend(drain.pop_all(queue));
        }
        whole.check();
        whole
    }
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
        assert!(self.sent.len() > LOAD, "only {} were sent: no load", self.sent.len());
    }
}

/// One client.
struct Member {
    server: SocketAddr,
    name: String,
    client: Option<Client>,
    next: usize,
    journal: Journal,
    progress: Arc<Progress>,
}

impl Member {
    fn new(server: SocketAddr, name: String, progress: Arc<Progress>) -> Self {
        Self { server, name, client: None, next: 0, journal: Journal::default(), progress }
    }

    fn work(mut self) -> Journal {
        while !self.progress.over.load(Ordering::SeqCst) {
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
        self.has_sent(body);
        let popped = self.insist(&["POP", "QUEUE", "exact", "REQID", key]);
        self.journal.taken.extend(popped.body().map(str::to_owned));
    }

    fn plain(&mut self, key: &str) {
        let body = format!("plain {key}");
        match self.try_once(&["SEND", "plain", &body]) {
            Ending::Answered(_) => self.has_sent(body),
            Ending::NothingChanged => self.journal.refused.push(body),
            Ending::Unknown => self.journal.sent_in_doubt.push(body),
        }
        match self.try_once(&["POP", "QUEUE", "plain", "BLOCK", "20"]) {
            Ending::Answered(answer) => self.journal.taken.extend(answer.body().map(str::to_owned)),
            Ending::NothingChanged => {}
            Ending::Unknown => self.journal.pops_in_doubt += 1,
        }
    }

    fn has_sent(&mut self, body: String) {
        self.journal.sent.push(body);
        self.progress.sent.fetch_add(1, Ordering::SeqCst);
    }

    /// Repeats a request until it has a certain answer.
    fn insist(&mut self, words: &[&str]) -> Answer {
        wait_for(format!("an answer to {words:?}"), || match self.try_once(words) {
            Ending::Answered(answer) => Ok(answer),
            Ending::NothingChanged => Err("nothing was changed"),
            Ending::Unknown => Err("nobody knows what became of it"),
        })
    }

    fn try_once(&mut self, words: &[&str]) -> Ending {
        match self.ask(words) {
            Ok(Answer::Error(text)) if text.starts_with("STORE ") => {
                let undone = text.contains("nothing was changed");
                self.journal.failures.push(text);
                self.progress.failed.fetch_add(1, Ordering::SeqCst);
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
