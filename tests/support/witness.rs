//! A client that writes down what it asks and what it is told, for the history checker.

#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::net::SocketAddr;

use posthaste_history as history;
use posthaste_history::{Body, Call, Delivery, Journal, Key, Name, Outcome, Select, Send, fingerprint};
use rustix::time::{ClockId, clock_gettime};

use crate::client::{Answer, Broken, Client};

/// A client with its journal, over as many connections as it takes.
pub(crate) struct Witness {
    account: String,
    client: Option<Client>,
    journal: Journal,
}

/// Nanoseconds of the machine's monotonic clock, which all journals share.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

impl Witness {
    /// Client number `client` of its history, with this account.
    pub(crate) fn new(client: u32, account: &str) -> Self {
        Self { account: account.to_owned(), client: None, journal: Journal::new(client, account) }
    }

    /// The same, connected and logged in.
    pub(crate) fn login(server: SocketAddr, client: u32, account: &str) -> Result<Self, Broken> {
        let mut witness = Self::new(client, account);
        witness.connect(server)?;
        Ok(witness)
    }

    /// Connects anew and logs in.
    pub(crate) fn connect(&mut self, server: SocketAddr) -> Result<(), Broken> {
        self.client = Some(Client::login(server, &self.account)?);
        Ok(())
    }

    /// Asks and writes down.
    pub(crate) fn ask(&mut self, words: &[&str]) -> Result<Answer, Broken> {
        let number = self.begin(words);
        self.attempt(number, words)
    }

    /// Writes down that a request is about to be made.
    pub(crate) fn begin(&mut self, words: &[&str]) -> usize {
        let call = call(words, &mut |name| self.journal.name(name));
        self.journal.begin(now(), call)
    }

    /// Makes request `number`, for the first time or again.
    pub(crate) fn attempt(&mut self, number: usize, words: &[&str]) -> Result<Answer, Broken> {
        let answer = self.client.as_mut().ok_or(Broken)?.ask(words);
        let mut name = |name: &str| self.journal.name(name);
        let outcome = answer.as_ref().map_or(Outcome::Info, |answer| outcome(words[0], answer, &mut name));
        self.journal.end(number, now(), outcome);
        answer
    }

    /// Asks several requests at once and writes down. With the connection gone nobody knows how those without an answer
    /// end.
    pub(crate) fn ask_all(&mut self, requests: &[Vec<String>]) -> Result<Vec<Answer>, Broken> {
        let requests: Vec<Vec<&str>> =
            requests.iter().map(|words| words.iter().map(String::as_str).collect()).collect();
        let numbers: Vec<_> = requests.iter().map(|words| self.begin(words)).collect();
        let client = self.client.as_mut().ok_or(Broken)?;
        let mut answers = requests.iter().try_for_each(|words| client.send(words)).map(|()| Vec::new());
        for (number, words) in numbers.into_iter().zip(&requests) {
            let answer = if answers.is_ok() { client.answer() } else { Err(Broken) };
            let mut name = |name: &str| self.journal.name(name);
            let outcome =
                answer.as_ref().map_or(Outcome::Info, |answer| outcome(words[0], answer, &mut name));
            self.journal.end(number, now(), outcome);
            answers = answers.and_then(|mut all| answer.map(|answer| all.push(answer)).map(|()| all));
        }
        answers
    }

    /// What it wrote down.
    pub(crate) fn journal(&self) -> &Journal {
        &self.journal
    }
}

/// Takes what is left: every account all that it may read in the queues, then a look at what nobody may.
pub(crate) fn drain(
    server: SocketAddr,
    first_client: u32,
    accounts: &[String],
    queues: &[&str],
) -> Vec<Journal> {
    let drained = (first_client..).zip(accounts).map(|(client, account)| {
        let mut witness = Witness::login(server, client, account).expect("it runs");
        for queue in queues {
            loop {
                let popped = witness.ask(&["POP", "QUEUE", queue, "COUNT", "100"]).expect("it runs");
                // One of them may come and go.
                if popped.is_error("NOQUEUE") || popped.list().is_empty() {
                    break;
                }
            }
            witness.ask(&["QBROWSE", queue, "COUNT", "10000"]).expect("it runs");
        }
        witness.journal
    });
    drained.collect()
}

/// A request as journals have it, with the names that one of them gives.
pub(crate) fn call(words: &[&str], name: &mut dyn FnMut(&str) -> Name) -> Call {
    let option =
        |name: &str| words.iter().position(|word| *word == name).and_then(|i| words.get(i + 1).copied());
    let number = |name: &str| option(name).map_or(0, |text| text.parse().expect("a number"));
    let (has, receipt) = (|name: &str| words.contains(&name), || key(words[1]).expect("a receipt"));
    match words[0] {
        "SEND" => {
            let queue = name(words[1]);
            Call::Send(Send {
                to: option("TO").map(&mut *name),
                priority: u8::try_from(number("PRIORITY")).expect("a priority"),
                delay_ms: number("DELAY"),
                ttl_ms: number("TTL"),
                key: option("DEDUP").and_then(key),
                headers: words
                    .iter()
                    .position(|word| *word == "HEADER")
                    .and_then(|at| headers(&words[at + 1..])),
                ..Send::new(queue, Body::of(words[2].as_bytes()))
            })
        }
        "SENDMANY" => {
            let bodies = words[2..].iter().map(|body| Body::of(body.as_bytes())).collect();
            Call::Send(Send { bodies, ..Send::new(name(words[1]), Body::of(b"")) })
        }
        "POP" | "PEEK" => {
            let select = Select {
                queue: option("QUEUE").map(&mut *name),
                from: option("FROM").map(&mut *name),
                not_own: has("NOTOWN"),
                broadcast: has("BROADCAST"),
                any_order: has("ANYORDER"),
                count: u32::try_from(number("COUNT")).expect("a count"),
                lease_ms: number("LEASE"),
                block_ms: number("BLOCK"),
                key: option("REQID").and_then(key),
            };
            if words[0] == "POP" { Call::Pop(select) } else { Call::Peek(select) }
        }
        "ACK" => Call::Ack { receipt: receipt() },
        "NACK" => Call::Nack { receipt: receipt(), delay_ms: number("DELAY") },
        "EXTEND" => Call::Extend { receipt: receipt(), ms: words[2].parse().expect("a number") },
        "QCREATE" => Call::Create { queue: words.get(1).copied().map(&mut *name) },
        "QDELETE" => Call::Delete { queue: name(words[1]) },
        "QPURGE" => Call::Purge { queue: name(words[1]) },
        "QINFO" => Call::Info { queue: name(words[1]) },
        "QBROWSE" => Call::Browse { queue: name(words[1]) },
        other => panic!("{other} is no request that journals have"),
    }
}

/// Headers, which stand last in a request.
fn headers(words: &[&str]) -> Option<Key> {
    fingerprint(words.join("\n").as_bytes())
}

fn key(text: &str) -> Option<Key> {
    fingerprint(text.as_bytes())
}

/// An answer as journals have it.
pub(crate) fn outcome(verb: &str, answer: &Answer, name: &mut dyn FnMut(&str) -> Name) -> Outcome {
    let answer = match (verb, answer) {
        (_, Answer::Error(text)) => {
            return if text.starts_with("STORE") { Outcome::Info } else { Outcome::Fail };
        }
        ("SEND", Answer::Integer(id)) => history::Answer::Ids([id.cast_unsigned()].into()),
        ("SENDMANY", Answer::List(ids)) => {
            history::Answer::Ids(ids.iter().filter_map(Answer::integer).map(i64::cast_unsigned).collect())
        }
        ("POP" | "PEEK" | "QBROWSE", Answer::Null) => history::Answer::Messages([].into()),
        ("POP" | "PEEK", message) if message.body().is_some() => {
            history::Answer::Messages([delivery(message, name)].into())
        }
        ("POP" | "PEEK" | "QBROWSE", Answer::List(messages)) => {
            history::Answer::Messages(messages.iter().map(|message| delivery(message, name)).collect())
        }
        ("QINFO", info) => history::Answer::Depth(number(info, "messages")),
        (_, Answer::Integer(number)) => history::Answer::Number(number.cast_unsigned()),
        (verb, other) => panic!("{verb} was answered with {other:?}"),
    };
    Outcome::Ok(answer)
}

fn number(answer: &Answer, field: &str) -> u64 {
    answer.get(field).and_then(Answer::integer).unwrap_or(0).cast_unsigned()
}

fn delivery(message: &Answer, name: &mut dyn FnMut(&str) -> Name) -> Delivery {
    let text = |field: &str| message.get(field).and_then(Answer::text);
    let mut name = |field: &str| text(field).map(&mut *name);
    Delivery {
        id: number(message, "id"),
        queue: name("queue").expect("a message has a queue"),
        from: name("from").expect("a message has a sender"),
        to: name("to"),
        priority: u8::try_from(number(message, "priority")).expect("a priority"),
        deliveries: u32::try_from(number(message, "deliveries")).expect("a count"),
        headers: message.get("headers").and_then(|all| {
            let Answer::List(words) = all else { return None };
            headers(&words.iter().filter_map(Answer::text).collect::<Vec<_>>())
        }),
        body: Body::of(message.body().expect("a message has a body").as_bytes()),
        receipt: text("receipt").and_then(key),
        first_queue: name("first_queue"),
    }
}
