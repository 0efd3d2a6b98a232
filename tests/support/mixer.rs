//! A client that asks for anything at random: every request and option that a history has a word for.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fastrand::Rng;

use crate::client::{Answer, Broken};
use crate::witness::Witness;

/// Few, so that they meet.
pub(crate) const ACCOUNTS: [&str; 4] = ["ada", "ben", "cleo", "dan"];
/// The last one comes and goes.
pub(crate) const QUEUES: [&str; 3] = ["north", "south", "fleeting"];
const FLEETING: &str = QUEUES[2];

const LEASES_MS: [u64; 3] = [3, 20, LEASE_MAX_MS];
/// No message is away for longer.
pub(crate) const LEASE_MAX_MS: u64 = 200;

/// Requests in one go.
const PIPELINE: usize = 4;

/// One client, over as many connections as it takes.
pub(crate) struct Mixer {
    pub(crate) witness: Witness,
    client: u32,
    rng: Rng,
    made: u64,
    /// Leases that it may still hold.
    receipts: Vec<String>,
    /// Requests under a key, to be asked again.
    owed: Vec<Vec<String>>,
}

impl Mixer {
    /// Client number `client` of its history.
    pub(crate) fn new(client: u32, seed: u64) -> Self {
        Self {
            witness: Witness::new(client, ACCOUNTS[client as usize % ACCOUNTS.len()]),
            client,
            rng: Rng::with_seed(seed << 32 | u64::from(client)),
            made: 0,
            receipts: Vec::new(),
            owed: Vec::new(),
        }
    }

    /// Works until told that it is over, or until the connection breaks; says how many requests were answered.
    pub(crate) fn live(
        &mut self,
        server: SocketAddr,
        over: &AtomicBool,
        answered: &AtomicU64,
    ) -> Result<(), Broken> {
        self.witness.connect(server)?;
        while !over.load(Ordering::SeqCst) {
            let requests: Vec<_> = (0..self.rng.usize(1..=PIPELINE)).map(|_| self.draw()).collect();
            // What has a key is asked again for certain when its answer was lost, and now and then when it was not.
            let keyed =
                requests.iter().filter(|words| words.iter().any(|word| word == "DEDUP" || word == "REQID"));
            let keyed: Vec<_> = keyed.cloned().collect();
            let before = self.owed.len();
            self.owed.extend(keyed);
            let answers = self.witness.ask_all(&requests)?;
            requests.iter().zip(&answers).for_each(|(words, answer)| check_refusal(words, answer));
            answered.fetch_add(answers.len() as u64, Ordering::Relaxed);
            let rng = &mut self.rng;
            let mut place = 0;
            self.owed.retain(|_| {
                place += 1;
                place <= before || rng.u8(..6) == 0
            });
            self.receipts.extend(answers.iter().flat_map(receipts));
        }
        Ok(())
    }

    /// Words that nobody else makes.
    fn fresh(&mut self, prefix: &str) -> String {
        self.made += 1;
        format!("{prefix}-{}-{}", self.client, self.made)
    }

    fn draw(&mut self) -> Vec<String> {
        if let Some(words) = self.owed.pop() {
            return words;
        }
        let queue = QUEUES[self.rng.usize(..QUEUES.len())].to_owned();
        let word = |text: &str| text.to_owned();
        match self.rng.u16(..1000) {
            0..=399 => self.send(queue),
            400..=439 => {
                let bodies = (0..self.rng.usize(1..5)).map(|_| self.fresh("many")).collect();
                [vec![word("SENDMANY"), queue], bodies].concat()
            }
            440..=759 => self.read("POP", queue),
            760..=819 => self.read("PEEK", queue),
            820..=949 => self.hold(queue),
            950..=984 => vec![word("QINFO"), queue],
            985..=989 => vec![word("QDELETE"), word(FLEETING)],
            990..=997 => vec![word("QCREATE"), word(FLEETING)],
            _ => vec![word("QPURGE"), queue],
        }
    }

    fn chance(&mut self, of: u8) -> bool {
        self.rng.u8(..of) == 0
    }

    fn account(&mut self) -> String {
        ACCOUNTS[self.rng.usize(..ACCOUNTS.len())].to_owned()
    }

    fn send(&mut self, queue: String) -> Vec<String> {
        // Keys go with their queue, so of one that comes and goes they would be asked for in vain.
        let lasts = queue != FLEETING;
        let mut words = vec!["SEND".to_owned(), queue, self.fresh("body")];
        let mut option = |name: &str, value: String| words.extend([name.to_owned(), value]);
        if self.chance(3) {
            option("TO", self.account());
        }
        if self.chance(6) {
            option("PRIORITY", self.rng.u8(1..3).to_string());
        }
        if self.chance(15) {
            option("DELAY", self.rng.u8(1..20).to_string());
        }
        if self.chance(15) {
            option("TTL", self.rng.u8(1..60).to_string());
        }
        if lasts && self.chance(3) {
            option("DEDUP", self.fresh("key"));
        }
        if self.chance(8) {
            let value = self.fresh("header");
            option("HEADER", "kind".to_owned());
            words.push(value);
        }
        words
    }

    fn read(&mut self, verb: &str, queue: String) -> Vec<String> {
        let lasts = queue != FLEETING;
        let mut words = vec![verb.to_owned()];
        let by_sender = self.chance(4);
        if !by_sender || self.rng.bool() {
            words.extend(["QUEUE".to_owned(), queue]);
        }
        if by_sender {
            words.extend(["FROM".to_owned(), self.account()]);
        }
        for flag in ["NOTOWN", "BROADCAST", "ANYORDER"] {
            if self.chance(8) {
                words.push(flag.to_owned());
            }
        }
        let mut option = |name: &str, value: u64| words.extend([name.to_owned(), value.to_string()]);
        if self.chance(5) {
            option("COUNT", self.rng.u64(1..6));
        }
        if verb == "POP" {
            if self.chance(3) {
                option("LEASE", LEASES_MS[self.rng.usize(..LEASES_MS.len())]);
            }
            if self.chance(10) {
                option("BLOCK", self.rng.u64(..30));
            }
            if lasts && self.chance(4) {
                let key = self.fresh("ask");
                words.extend(["REQID".to_owned(), key]);
            }
        }
        words
    }

    /// What the holder of a lease does, on time or late.
    fn hold(&mut self, queue: String) -> Vec<String> {
        if self.receipts.is_empty() {
            return self.read("POP", queue);
        }
        let receipt = self.receipts.swap_remove(self.rng.usize(..self.receipts.len()));
        match self.rng.u8(..8) {
            0 => vec!["NACK".to_owned(), receipt],
            1 => vec!["NACK".to_owned(), receipt, "DELAY".to_owned(), self.rng.u8(..20).to_string()],
            2 => {
                self.receipts.push(receipt.clone());
                let ms = LEASES_MS[self.rng.usize(..LEASES_MS.len())];
                vec!["EXTEND".to_owned(), receipt, ms.to_string()]
            }
            _ => vec!["ACK".to_owned(), receipt],
        }
    }
}

/// The rules say nothing of refusals, so a server that refused what it should answer would keep them all: here only the
/// queue that comes and goes may be missing, and only a store that is busy or in trouble may say so.
fn check_refusal(words: &[String], answer: &Answer) {
    let Answer::Error(text) = answer else { return };
    let has_reason = match text.split(' ').next() {
        Some("NOQUEUE") => words.iter().any(|word| word == FLEETING),
        Some(word) => word == "BUSY",
        None => false,
    };
    assert!(has_reason, "{words:?} was answered with {text}");
}

/// The receipts in an answer of one message or of several.
fn receipts(answer: &Answer) -> Vec<String> {
    let receipt = |message: &Answer| message.get("receipt").and_then(Answer::text).map(str::to_owned);
    match (receipt(answer), answer) {
        (Some(receipt), _) => vec![receipt],
        (None, Answer::List(messages)) => messages.iter().filter_map(receipt).collect(),
        (None, _) => Vec::new(),
    }
}
