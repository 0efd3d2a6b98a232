//! A client of the queue tier: requests of a program out as RESP, answers counted and, with `--check`, inspected.

use std::sync::{Arc, Mutex};

use fastrand::Rng;
use posthaste_measure::lock;
use posthaste_wire::reply::{Item, Shape, Skip, Value, skip};

use crate::dialogue::{Answer, Dialogue, Outcome};
use crate::numbers::Numbers;
use crate::queue::check::inspector::{Answered, Inspector};
use crate::queue::check::ledger::Ledger;
use crate::queue::check::witness::Witness;
use crate::queue::program::{Ask, Program};
use crate::queue::request::{Account, Kind, Queue, Request};
use crate::queue::stamp::Stamp;
use crate::queue::twelve_step::STEPS;
use crate::seeds::{self, Purpose};
use crate::tally::Counts;

/// What the clients of a thread share.
#[derive(Debug)]
pub struct QueueThreadState {
    /// A body of the largest size; each message has its beginning.
    body: Vec<u8>,
    sizes: Numbers,
    /// Number of the run, as it stands in stamps.
    run: u32,
    /// Outcomes of the twelve steps, first to last.
    pub(crate) steps: [Counts; STEPS as usize],
    /// What is checked; None without `--check`, and then bodies carry no stamp.
    pub(crate) audit: Option<Audit>,
}

/// The checks of one thread, and the book that all threads keep together.
#[derive(Debug)]
pub(crate) struct Audit {
    pub(crate) inspector: Inspector,
    pub(crate) ledger: Arc<Mutex<Ledger>>,
}

impl Audit {
    fn hand_over(&mut self) {
        if self.inspector.has_news() {
            self.inspector.hand_over(&mut lock(&self.ledger));
        }
    }
}

impl QueueThreadState {
    /// Creates the state for messages of these sizes.
    #[must_use]
    pub(crate) fn new(sizes: Numbers, run: u32, audit: Option<Audit>) -> Self {
        Self {
            body: filler(sizes.max() as usize),
            sizes,
            run,
            steps: [Counts::default(); STEPS as usize],
            audit,
        }
    }
}

/// Returns a body without a stamp: always the same letters.
#[must_use]
pub(crate) fn filler(bytes: usize) -> Vec<u8> {
    (b'a'..=b'z').cycle().take(bytes).collect()
}

/// One client's requests and answers.
#[derive(Debug)]
pub struct QueueDialogue {
    account: Account,
    program: Program,
    next_sequence: u64,
    /// Draws the sizes of messages, apart from what the program draws.
    rng: Rng,
    /// The client's journal, in a checked run.
    witness: Option<Witness>,
}

/// A request that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    ask: Ask,
    sequence: u64,
    /// Number of the request in the journal, if it is kept there.
    journaled: Option<usize>,
}

impl QueueDialogue {
    /// Creates a client whose messages are numbered from `next_sequence`.
    #[must_use]
    pub fn new(account: Account, program: Program, next_sequence: u64) -> Self {
        Self { account, program, next_sequence, rng: sizes(0, account), witness: None }
    }

    /// Makes the sizes of messages depend on the seed.
    #[must_use]
    pub(crate) fn seeded(mut self, seed: u64) -> Self {
        self.rng = sizes(seed, self.account);
        self
    }

    /// Sets the client's journal.
    #[must_use]
    pub(crate) fn witnessed(mut self, witness: Option<Witness>) -> Self {
        self.witness = witness;
        self
    }

    /// Returns the client's journal.
    pub(crate) fn into_witness(self) -> Option<Witness> {
        self.witness
    }

    /// Returns the client's account.
    #[must_use]
    pub(crate) const fn account(&self) -> Account {
        self.account
    }

    /// Returns the number of messages it has sent, those of the preload included.
    #[must_use]
    pub(crate) const fn sent(&self) -> u64 {
        self.next_sequence
    }

    /// Returns the queues that it made and has not deleted.
    #[must_use]
    pub(crate) fn leftovers(&self) -> Vec<Queue> {
        self.program.leftovers()
    }

    /// Numbers a message and, in a checked run, writes its stamp into its body, the first `len` bytes.
    fn stamp(&mut self, request: Request, len: usize, shared: &mut QueueThreadState) -> u64 {
        let sequence = self.next_sequence;
        let mut stamp = Stamp { run: shared.run, sender: self.account, ..Stamp::default() };
        if let Request::Send { queue, to } = request {
            stamp = Stamp { sequence, queue, recipient: to.unwrap_or(0), ..stamp };
            self.next_sequence += 1;
        }
        if shared.audit.is_some() && request.has_body() {
            stamp.write(&mut shared.body[..len]);
        }
        sequence
    }

    /// Counts a whole answer and shows it to the inspector.
    fn take(
        &mut self,
        asked: Asked,
        item: &Item<'_>,
        bytes: &[u8],
        measured: bool,
        shared: &mut QueueThreadState,
    ) -> Outcome {
        let Asked { ask, sequence, journaled } = asked;
        let outcome = outcome(ask.request.kind(), item);
        if let (true, Some(step)) = (measured, ask.step.checked_sub(1)) {
            shared.steps[usize::from(step)].add(outcome, 1);
        }
        if let Some(audit) = &mut shared.audit {
            let at = journaled.zip(self.witness.as_ref()).and_then(|(number, witness)| witness.place(number));
            let reader = self.account;
            audit.inspector.inspect(&Answered { reader, ask, at, sequence, outcome, item, bytes });
        }
        if let (Some(witness), Some(number)) = (&mut self.witness, journaled) {
            witness.told(number, ask.request, item, bytes);
        }
        self.program.answered(&ask, outcome, item);
        outcome
    }
}

/// Returns the random numbers for the sizes of an account's messages.
fn sizes(seed: u64, account: Account) -> Rng {
    seeds::stream(seed, Purpose::MessageSizes, account.into())
}

impl Dialogue for QueueDialogue {
    const KINDS: &'static [&'static str] = &Kind::NAMES;
    const NULLS: &'static str = "null";
    type Asked = Asked;
    type Shared = QueueThreadState;

    fn ask(&mut self, shared: &mut QueueThreadState, out: &mut Vec<u8>) -> Option<Asked> {
        let ask = self.program.next_ask()?;
        let len = if ask.request.has_body() { shared.sizes.draw(&mut self.rng) as usize } else { 0 };
        let sequence = self.stamp(ask.request, len, shared);
        let body = &shared.body[..len];
        let journaled = self.witness.as_mut().and_then(|witness| witness.asks(ask.request, body));
        ask.request.encode(body, out);
        Some(Asked { ask, sequence, journaled })
    }

    fn kind(asked: &Asked) -> usize {
        asked.ask.request.kind() as usize
    }

    fn answer<'a>(
        &mut self,
        asked: &Asked,
        bytes: &'a [u8],
        measured: bool,
        shared: &mut QueueThreadState,
    ) -> Answer<'a> {
        match skip(bytes) {
            Skip::Done(item, len) => {
                let outcome = self.take(*asked, &item, &bytes[..len], measured, shared);
                let word = (outcome == Outcome::Error).then(|| error_word(&item));
                Answer::Whole { len, outcome, word }
            }
            Skip::NeedBytes(missing) => Answer::NeedBytes(missing),
            Skip::Malformed(fault) => Answer::Malformed(fault.text),
        }
    }

    fn lost(&mut self, asked: &Asked, shared: &mut QueueThreadState) {
        if let Some(audit) = &mut shared.audit {
            audit.inspector.unanswered(&asked.ask);
        }
    }

    fn finish(&mut self) {
        self.program.finish();
    }

    fn is_at_rest(&self) -> bool {
        self.program.is_at_rest()
    }

    fn turn_ended(shared: &mut QueueThreadState) {
        if let Some(audit) = &mut shared.audit {
            audit.hand_over();
        }
    }
}

/// Returns how a request of this kind ended, by its answer.
fn outcome(kind: Kind, item: &Item<'_>) -> Outcome {
    match (kind, item) {
        (Kind::Peek | Kind::Pop | Kind::ReadBroadcast, Item::Scalar(Value::Null)) => Outcome::Null,
        (Kind::Peek | Kind::Pop | Kind::ReadBroadcast, Item::Compound(Shape::Map | Shape::Array, _))
        | (Kind::Send | Kind::Create | Kind::Delete, Item::Scalar(Value::Integer(_)))
        | (Kind::Readable, Item::Compound(Shape::Array | Shape::Set, _))
        | (Kind::Echo, Item::Scalar(Value::Bulk(_))) => Outcome::Ok,
        _ => Outcome::Error,
    }
}

fn error_word<'a>(item: &Item<'a>) -> &'a [u8] {
    match item {
        Item::Scalar(value) => value.error_word().unwrap_or(b"unexpected"),
        Item::Compound(..) => b"unexpected",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{Client, Instruments, Received};
    use crate::seeds::tests::{DRAWS, assert_apart};
    use crate::tally::{Tally, Window};

    fn instruments() -> Instruments<QueueDialogue> {
        let tally = Tally::new(Window { start: 0, end: u64::MAX }, Kind::NAMES.len(), false);
        Instruments { tally, shared: QueueThreadState::new(Numbers::fixed(200), 1, None), watch: None }
    }

    fn twelve_step() -> Client<QueueDialogue> {
        Client::new(QueueDialogue::new(1, Program::twelve_step(1, 1), 0), 1)
    }

    fn answer(
        client: &mut Client<QueueDialogue>,
        bytes: &[u8],
        now: u64,
        instruments: &mut Instruments<QueueDialogue>,
    ) {
        assert_eq!(client.receive(bytes, now, instruments), Received::Answer(bytes.len()));
    }

    #[test]
    fn neighboring_accounts_and_seeds_draw_message_sizes_with_nothing_in_common() {
        let sizes: Numbers = "1-1000".parse().expect("a range");
        assert_apart(|seed, account| {
            let mut client = QueueDialogue::new(account, Program::twelve_step(account, 1), 0).seeded(seed);
            (0..DRAWS).map(|_| f64::from(sizes.draw(&mut client.rng))).collect()
        });
    }

    #[test]
    fn each_request_waits_for_the_answer_before_and_is_timed() {
        let (mut instruments, mut out) = (instruments(), Vec::new());
        let mut client = twelve_step();
        assert!(client.issue(1_000, &mut instruments, &mut out));
        assert!(!client.issue(1_001, &mut instruments, &mut out));
        answer(&mut client, b":5\r\n", 51_000, &mut instruments);
        assert!(client.issue(51_000, &mut instruments, &mut out));
        let latency = instruments.tally.total().latency;
        assert_eq!((latency.len(), latency.max() / 1_000), (1, 50));
        answer(&mut client, b"$-1\r\n", 60_000, &mut instruments);
        assert_eq!(instruments.tally.total().counts, Counts { ok: 1, nulls: 1, errors: 0 });
    }

    #[test]
    fn a_paced_client_counts_from_when_a_request_was_due() {
        let (mut instruments, mut out) = (instruments(), Vec::new());
        let mut client = twelve_step().paced();
        assert!(!client.issue(500, &mut instruments, &mut out), "nothing is due");
        client.arrival(1_000);
        client.arrival(2_000);
        assert!(client.issue(1_100, &mut instruments, &mut out));
        assert!(!client.issue(2_000, &mut instruments, &mut out), "the one before is not answered");
        assert_eq!(client.behind(), 1);
        // The server stalls: the second request leaves late, and that counts.
        answer(&mut client, b":5\r\n", 901_000, &mut instruments);
        assert!(client.issue(901_000, &mut instruments, &mut out));
        answer(&mut client, b"$-1\r\n", 902_000, &mut instruments);
        let latency = instruments.tally.total().latency;
        assert_eq!((latency.min() + 500) / 1_000, 900);
        assert_eq!(latency.max() / 1_000, 900);
        client.arrival(3_000_000);
        client.stop();
        assert_eq!(client.behind(), 0);
    }

    #[test]
    fn an_answer_of_the_wrong_type_is_an_error() {
        let (mut instruments, mut out) = (instruments(), Vec::new());
        let mut client = twelve_step();
        client.issue(0, &mut instruments, &mut out);
        answer(&mut client, b"+OK\r\n", 1, &mut instruments);
        assert_eq!(instruments.tally.error_words().get("unexpected"), Some(&1));
    }

    #[test]
    fn an_answer_nobody_asked_for_ends_the_connection() {
        let mut client = twelve_step();
        let mut instruments = instruments();
        assert!(matches!(client.receive(b":1\r\n", 0, &mut instruments), Received::Broken(_)));
    }

    #[test]
    fn a_stopped_client_finishes_its_loop() {
        let (mut instruments, mut out) = (instruments(), Vec::new());
        let mut client = twelve_step();
        client.issue(0, &mut instruments, &mut out);
        client.stop();
        let mut answers = 0;
        while !client.is_done() {
            let reply: &[u8] = match answers {
                1 | 2 | 4 | 5 | 9 | 10 => b"*2\r\n+body\r\n+x\r\n",
                8 => b"*0\r\n",
                _ => b":7\r\n",
            };
            answer(&mut client, reply, 1, &mut instruments);
            answers += 1;
            client.issue(1, &mut instruments, &mut out);
        }
        assert_eq!((answers, instruments.tally.total().counts.ok), (12, 12));
    }
}
