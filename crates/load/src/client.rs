//! One client as a plain state machine: its next request out, an answer in. It knows neither socket nor
//! clock, so a test can play the server and the time.

use std::collections::VecDeque;

use posthaste_wire::reply::{Item, Shape, Value};

use crate::check::inspector::{Answered, Inspector};
use crate::program::{Ask, Outcome, Program};
use crate::request::{Account, Kind, Queue, Request};
use crate::stamp::Stamp;
use crate::tally::Tally;

/// What the clients of a thread share.
#[derive(Debug)]
pub struct Instruments {
    /// The body of the next message.
    body: Vec<u8>,
    /// The run that stamps name.
    run: u32,
    /// What is counted.
    pub tally: Tally,
    /// What is checked; None without `--check`, and then bodies carry no stamp.
    pub inspector: Option<Inspector>,
}

impl Instruments {
    /// Instruments for messages of `message_bytes` bytes.
    #[must_use]
    pub fn new(message_bytes: usize, run: u32, tally: Tally, inspector: Option<Inspector>) -> Self {
        Self { body: filler(message_bytes), run, tally, inspector }
    }
}

/// A body without a stamp: always the same letters.
#[must_use]
pub fn filler(bytes: usize) -> Vec<u8> {
    (b'a'..=b'z').cycle().take(bytes).collect()
}

/// One client.
#[derive(Debug)]
pub struct Client {
    account: Account,
    program: Program,
    pipeline: usize,
    in_flight: VecDeque<InFlight>,
    /// In an open loop: when requests were due that are not sent yet.
    due: Option<VecDeque<u64>>,
    next_sequence: u64,
    stopping: bool,
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    ask: Ask,
    /// From here its response time counts.
    since: u64,
    sequence: u64,
}

impl Client {
    /// A client that keeps up to `pipeline` requests in flight; its messages are numbered from `next_sequence`.
    #[must_use]
    pub fn new(account: Account, program: Program, pipeline: usize, next_sequence: u64) -> Self {
        let in_flight = VecDeque::with_capacity(pipeline.min(64));
        Self { account, program, pipeline, in_flight, due: None, next_sequence, stopping: false }
    }

    /// From now on the client asks only when a request is due, and counts from there.
    #[must_use]
    pub fn paced(mut self) -> Self {
        self.due = Some(VecDeque::new());
        self
    }

    /// A request of a paced client is due.
    pub fn arrival(&mut self, at: u64) {
        if let Some(due) = &mut self.due {
            due.push_back(at);
        }
    }

    /// Requests that are due and not sent.
    #[must_use]
    pub fn behind(&self) -> usize {
        self.due.as_ref().map_or(0, VecDeque::len)
    }

    /// Appends the next request to `out`; says whether there was one to send at `now`.
    pub fn issue(&mut self, now: u64, instruments: &mut Instruments, out: &mut Vec<u8>) -> bool {
        if self.in_flight.len() >= self.pipeline || (self.stopping && self.program.is_at_rest()) {
            return false;
        }
        let since = match &self.due {
            // What a stopping client must finish is due at once.
            Some(due) if !self.stopping => match due.front() {
                Some(&at) => at,
                None => return false,
            },
            _ => now,
        };
        let Some(ask) = self.program.next_ask() else { return false };
        self.due.as_mut().and_then(VecDeque::pop_front);
        let sequence = self.stamp(ask.request, instruments);
        ask.request.encode(&instruments.body, out);
        self.in_flight.push_back(InFlight { ask, since, sequence });
        true
    }

    /// Numbers a message and, in a checked run, writes its stamp into the body.
    fn stamp(&mut self, request: Request, instruments: &mut Instruments) -> u64 {
        let sequence = self.next_sequence;
        let mut stamp = Stamp { run: instruments.run, sender: self.account, ..Stamp::default() };
        if let Request::Send { queue, to } = request {
            stamp = Stamp { sequence, queue, recipient: to.unwrap_or(0), ..stamp };
            self.next_sequence += 1;
        }
        if instruments.inspector.is_some() && request.has_body() {
            stamp.write(&mut instruments.body);
        }
        sequence
    }

    /// Takes the answer to the oldest request in flight: its outermost item and all its bytes.
    ///
    /// # Errors
    /// Nothing was in flight.
    pub fn receive(
        &mut self,
        item: &Item<'_>,
        bytes: &[u8],
        now: u64,
        instruments: &mut Instruments,
    ) -> Result<(), &'static str> {
        let Some(InFlight { ask, since, sequence }) = self.in_flight.pop_front() else {
            return Err("the server sent an answer to no request");
        };
        let outcome = outcome(ask.request.kind(), item);
        let word = (outcome == Outcome::Error).then(|| error_word(item));
        instruments.tally.record(&ask, outcome, since, now, word);
        if let Some(inspector) = &mut instruments.inspector {
            inspector.inspect(&Answered { reader: self.account, ask, sequence, outcome, item, bytes });
        }
        let number = match item {
            Item::Scalar(value) => value.as_integer(),
            Item::Compound(..) => None,
        };
        self.program.answered(&ask, outcome, number);
        Ok(())
    }

    /// From now on the client only finishes what it has begun; what is due and not sent is dropped.
    pub fn stop(&mut self) {
        self.stopping = true;
        self.due.iter_mut().for_each(VecDeque::clear);
    }

    /// Whether it has stopped and every request is answered.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.stopping && self.in_flight.is_empty() && self.program.is_at_rest()
    }

    /// Gives up on the requests in flight and says how many there were.
    pub fn abandon(&mut self, instruments: &mut Instruments) -> usize {
        if let Some(inspector) = &mut instruments.inspector {
            self.in_flight.iter().for_each(|lost| inspector.unanswered(&lost.ask));
        }
        self.in_flight.drain(..).count()
    }

    /// Its account.
    #[must_use]
    pub const fn account(&self) -> Account {
        self.account
    }

    /// Messages it has sent, those of the preload included.
    #[must_use]
    pub const fn sent(&self) -> u64 {
        self.next_sequence
    }

    /// Queues that it made and has not deleted.
    #[must_use]
    pub fn leftovers(&self) -> Vec<Queue> {
        self.program.leftovers()
    }
}

/// What kind of answer it is, for a request of that kind.
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
    use posthaste_wire::reply::{Skip, skip};

    use super::*;
    use crate::tally::{Counts, Window};

    fn instruments() -> Instruments {
        let tally = Tally::new(Window { start: 0, end: u64::MAX }, false);
        Instruments::new(200, 1, tally, None)
    }

    fn answer(
        client: &mut Client,
        bytes: &[u8],
        now: u64,
        instruments: &mut Instruments,
    ) -> Result<(), &'static str> {
        let Skip::Done(item, _) = skip(bytes) else { panic!("{bytes:?} is not a reply") };
        client.receive(&item, bytes, now, instruments)
    }

    #[test]
    fn each_request_waits_for_the_answer_before_and_is_timed() {
        let (mut instruments, mut out) = (instruments(), Vec::new());
        let mut client = Client::new(1, Program::twelve_step(1), 1, 0);
        assert!(client.issue(1_000, &mut instruments, &mut out));
        assert!(!client.issue(1_001, &mut instruments, &mut out));
        assert_eq!(answer(&mut client, b":5\r\n", 51_000, &mut instruments), Ok(()));
        assert!(client.issue(51_000, &mut instruments, &mut out));
        let latency = instruments.tally.total().latency;
        assert_eq!((latency.len(), latency.max() / 1_000), (1, 50));
        assert!(answer(&mut client, b"$-1\r\n", 60_000, &mut instruments).is_ok());
        assert_eq!(instruments.tally.total().counts, Counts { ok: 1, nulls: 1, errors: 0 });
    }

    #[test]
    fn a_paced_client_counts_from_when_a_request_was_due() {
        let (mut instruments, mut out) = (instruments(), Vec::new());
        let mut client = Client::new(1, Program::twelve_step(1), 1, 0).paced();
        assert!(!client.issue(500, &mut instruments, &mut out), "nothing is due");
        client.arrival(1_000);
        client.arrival(2_000);
        assert!(client.issue(1_100, &mut instruments, &mut out));
        assert!(!client.issue(2_000, &mut instruments, &mut out), "the one before is not answered");
        assert_eq!(client.behind(), 1);
        // The server stalls: the second request leaves late, and that counts.
        answer(&mut client, b":5\r\n", 901_000, &mut instruments).expect("asked for");
        assert!(client.issue(901_000, &mut instruments, &mut out));
        answer(&mut client, b"$-1\r\n", 902_000, &mut instruments).expect("asked for");
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
        let mut client = Client::new(1, Program::twelve_step(1), 1, 0);
        client.issue(0, &mut instruments, &mut out);
        assert!(answer(&mut client, b"+OK\r\n", 1, &mut instruments).is_ok());
        assert_eq!(instruments.tally.error_words().get("unexpected"), Some(&1));
    }

    #[test]
    fn an_answer_nobody_asked_for_ends_the_connection() {
        let mut client = Client::new(1, Program::twelve_step(1), 1, 0);
        assert!(answer(&mut client, b":1\r\n", 0, &mut instruments()).is_err());
    }

    #[test]
    fn a_stopped_client_finishes_its_loop() {
        let (mut instruments, mut out) = (instruments(), Vec::new());
        let mut client = Client::new(1, Program::twelve_step(1), 1, 0);
        client.issue(0, &mut instruments, &mut out);
        client.stop();
        let mut answers = 0;
        while !client.is_done() {
            let reply: &[u8] = match answers {
                1 | 2 | 4 | 5 | 9 | 10 => b"*2\r\n+body\r\n+x\r\n",
                8 => b"*0\r\n",
                _ => b":7\r\n",
            };
            assert!(answer(&mut client, reply, 1, &mut instruments).is_ok());
            answers += 1;
            client.issue(1, &mut instruments, &mut out);
        }
        assert_eq!((answers, instruments.tally.total().counts.ok), (12, 12));
    }
}
