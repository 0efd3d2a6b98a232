//! One client of a campaign: works through every outage and writes down what it asked and what became of it.
//!
//! On the queue `exact` a request without a certain answer is repeated under its DEDUP or REQID key until it has one, a
//! pop until it has a message: there not one message may be missing or have come twice. On `plain` nothing is repeated:
//! a message may be missing for a pop whose answer was lost. There messages have recipients and priorities, pops take
//! several, lease, acknowledge, give back and forget.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use fastrand::Rng;
use posthaste_history::Outcome;

use crate::client::{Answer, Broken, Client};
use crate::crew::{MEMBERS, Setting};
use crate::notes::Notes;
use crate::support::patience::{RECOVERY, wait_within};
use crate::witness;

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(2);

/// Short, so that what a client left behind is back before a round is over.
const LEASE_MS: &str = "300";

/// The two queues of a round.
#[derive(Clone)]
pub(crate) struct Queues {
    pub(crate) exact: String,
    pub(crate) plain: String,
}

impl Queues {
    pub(crate) fn of_round(round: u32) -> Self {
        Self { exact: format!("exact{round}"), plain: format!("plain{round}") }
    }
}

/// A client.
pub(crate) struct Member {
    setting: Setting,
    /// Its own in the history; accounts are few and come again.
    number: u32,
    account: String,
    queues: Queues,
    pub(crate) notes: Notes,
    client: Option<Client>,
    /// What last went wrong.
    trouble: String,
    /// The REQID key that has brought no message yet.
    unsettled: Option<String>,
    said: u32,
    dice: Rng,
}

/// What became of a request.
enum Ending {
    Answered(Answer),
    /// Certainly nothing.
    Refused,
    Unknown,
}

impl Member {
    pub(crate) fn new(setting: &Setting, number: u32, account: u32, queues: Queues, notes: Notes) -> Self {
        let (setting, dice) = (setting.clone(), Rng::with_seed(number.into()));
        let account = format!("account{account}");
        let trouble = String::new();
        let client = None;
        Self { setting, number, account, queues, notes, client, trouble, unsettled: None, said: 0, dice }
    }

    /// Works until told that it is over, and finishes what it has begun.
    pub(crate) fn work(mut self, over: &AtomicBool) -> Notes {
        while !over.load(Ordering::SeqCst) {
            if self.is_connected() {
                self.turn();
            }
        }
        self.notes
    }

    fn turn(&mut self) {
        match self.dice.u32(..8) {
            0 | 1 => self.send_exactly(),
            2 | 3 => self.pop_exactly(),
            4 | 5 => self.send(),
            6 if self.setting.leases => self.lease(),
            _ => self.pop(),
        }
    }

    fn send_exactly(&mut self) {
        let (queue, body, key) = (self.queues.exact.clone(), self.body(), self.key());
        self.insist(&["SEND", &queue, &body, "DEDUP", &key]);
    }

    /// Every attempt is a request of its own: one that was given up may take something after the next one has found
    /// nothing, so only a message settles its key.
    fn pop_exactly(&mut self) {
        let queue = self.queues.exact.clone();
        let key = self.unsettled.take().unwrap_or_else(|| self.key());
        let words = ["POP", "QUEUE", &queue, "REQID", &key];
        let answer = wait_within(RECOVERY, format!("an answer to {words:?}"), || {
            let answer = if self.is_connected() { self.once(&words) } else { None };
            answer.ok_or_else(|| self.trouble.clone())
        });
        self.unsettled = (answer == Answer::Null).then_some(key);
    }

    fn send(&mut self) {
        let (queue, body) = (self.queues.plain.clone(), self.body());
        let to = format!("account{}", self.dice.u32(..MEMBERS));
        let mut words = vec!["SEND", &queue, &body];
        if self.dice.u32(..4) == 0 {
            words.extend(["TO", &to]);
        }
        if self.dice.u32(..8) == 0 {
            words.extend(["PRIORITY", "1"]);
        }
        self.once(&words);
    }

    fn pop(&mut self) {
        let queue = self.queues.plain.clone();
        let mut words = vec!["POP", "QUEUE", &queue];
        match self.dice.u32(..4) {
            0 => words.extend(["BLOCK", "20"]),
            1 | 2 => words.extend(["COUNT", "4"]),
            _ => {}
        }
        self.once(&words);
    }

    /// Leases, and mostly acknowledges; otherwise gives back, or forgets.
    fn lease(&mut self) {
        let queue = self.queues.plain.clone();
        let leased = self.once(&["POP", "QUEUE", &queue, "LEASE", LEASE_MS]);
        let receipt = leased.as_ref().and_then(|message| message.get("receipt")).and_then(Answer::text);
        if let Some(receipt) = receipt
            && self.is_connected()
        {
            match self.dice.u32(..8) {
                0 => {}
                1 => drop(self.once(&["NACK", receipt])),
                _ => drop(self.once(&["ACK", receipt])),
            }
        }
    }

    /// Takes all that this account may still have of a queue. Under a key, for an answer may be lost here too.
    pub(crate) fn drain(&mut self, queue: &str) {
        loop {
            let key = self.key();
            if self.insist(&["POP", "QUEUE", queue, "COUNT", "100", "REQID", &key]).list().is_empty() {
                return;
            }
        }
    }

    /// A text that nobody else sends, now and then a long one.
    fn body(&mut self) -> String {
        self.said += 1;
        let more = if self.dice.u32(..16) == 0 { self.dice.usize(..5_000) } else { self.dice.usize(..100) };
        format!("{} {} {}", self.number, self.said, "x".repeat(more))
    }

    fn key(&mut self) -> String {
        self.said += 1;
        format!("{} {}", self.number, self.said)
    }

    /// Repeats a request until it has a certain answer.
    pub(crate) fn insist(&mut self, words: &[&str]) -> Answer {
        let number = self.begin(words);
        let answer = wait_within(RECOVERY, format!("an answer to {words:?}"), || {
            match self.is_connected().then(|| self.ask(words)) {
                Some(Ending::Answered(answer)) => Ok(answer),
                _ => Err(self.trouble.clone()),
            }
        });
        self.answered(number, words, &answer);
        answer
    }

    /// Makes a request once; the answer, if there is one.
    fn once(&mut self, words: &[&str]) -> Option<Answer> {
        let number = self.begin(words);
        match self.ask(words) {
            Ending::Answered(answer) => {
                self.answered(number, words, &answer);
                Some(answer)
            }
            Ending::Refused => {
                self.notes.end(number, &Outcome::Fail);
                None
            }
            Ending::Unknown => {
                self.notes.end(number, &Outcome::Info);
                None
            }
        }
    }

    fn begin(&mut self, words: &[&str]) -> usize {
        let call = witness::call(words, &mut |name| self.notes.name(name));
        self.notes.begin(&call)
    }

    fn answered(&mut self, number: usize, words: &[&str], answer: &Answer) {
        let outcome = witness::outcome(words[0], answer, &mut |name| self.notes.name(name));
        self.notes.end(number, &outcome);
    }

    fn ask(&mut self, words: &[&str]) -> Ending {
        let Some(client) = &mut self.client else { return Ending::Refused };
        match client.ask(words) {
            Ok(Answer::Error(text))
                if text.starts_with("STORE ") && !text.contains("nothing was changed") =>
            {
                self.trouble = text;
                Ending::Unknown
            }
            // An attempt that was given up has done it.
            Ok(Answer::Error(text)) if words[0] == "QDELETE" && text.starts_with("NOQUEUE ") => {
                Ending::Answered(Answer::Integer(0))
            }
            Ok(Answer::Error(text)) => {
                let is_known = ["STORE ", "BUSY ", "FULL "].iter().any(|word| text.starts_with(word));
                assert!(is_known, "{words:?}: {text}");
                self.trouble = text;
                Ending::Refused
            }
            Ok(answer) => {
                self.setting.answers.fetch_add(1, Ordering::Relaxed);
                Ending::Answered(answer)
            }
            Err(Broken) => {
                self.client = None;
                "its connection broke".clone_into(&mut self.trouble);
                Ending::Unknown
            }
        }
    }

    /// Sees to a connection that is logged in, unless there is nobody to connect to.
    pub(crate) fn is_connected(&mut self) -> bool {
        if self.client.is_none() {
            match self.login() {
                Ok(client) => self.client = Some(client),
                Err(why) => {
                    self.trouble = why;
                    sleep(PAUSE);
                }
            }
        }
        self.client.is_some()
    }

    fn login(&self) -> Result<Client, String> {
        let server = self.setting.place.of_client(self.number).ok_or("there is no server")?;
        let connected = match self.setting.patience {
            Some(patience) => Client::connect_for(server, patience),
            None => Client::connect(server),
        };
        let mut client = connected.map_err(|Broken| "nobody listens")?;
        match client.ask(&["LOGIN", &self.account]) {
            Ok(Answer::Integer(_)) => Ok(client),
            Ok(answer) => Err(format!("LOGIN: {answer:?}")), // the store is away
            Err(Broken) => Err("its connection broke at LOGIN".into()),
        }
    }
}
