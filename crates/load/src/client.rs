//! One client as a plain state machine: its next request out, an answer in. It knows neither socket nor
//! clock, so a test can play the server and the time. Requests and answers are up to its [`Dialogue`].

use std::borrow::Cow;
use std::collections::VecDeque;

use posthaste_measure::{ClientStamps, Noted};

use crate::dialogue::{Answer, Dialogue};
use crate::tally::Tally;
use crate::watch::{Departure, Watch, ending};

/// What the clients of a thread share.
#[derive(Debug)]
pub struct Instruments<D: Dialogue> {
    /// Counts and response times.
    pub tally: Tally,
    /// What the dialogues share.
    pub shared: D::Shared,
    /// Takes the stamps of every request; None if the run is not recorded.
    pub watch: Option<Watch>,
}

/// One client.
#[derive(Debug)]
pub struct Client<D: Dialogue> {
    number: u32,
    dialogue: D,
    pipeline: usize,
    /// Number of requests that it may still send.
    left: u64,
    in_flight: VecDeque<InFlight<D::Asked>>,
    /// In an open loop: when each request was due that is not sent yet. None in a closed loop.
    due: Option<VecDeque<u64>>,
    stopping: bool,
}

#[derive(Debug)]
struct InFlight<A> {
    asked: A,
    /// Time from which the response time counts.
    since: u64,
    departure: Departure,
}

/// What a client makes of bytes that have arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// The bytes begin with an answer of this length.
    Answer(usize),
    /// The answer is incomplete: at least this many more bytes must arrive.
    NeedBytes(usize),
    /// The connection is of no more use, for this reason.
    Broken(Cow<'a, str>),
}

impl<D: Dialogue> Client<D> {
    /// Creates a client that keeps up to `pipeline` requests in flight.
    #[must_use]
    pub fn new(dialogue: D, pipeline: usize) -> Self {
        let in_flight = VecDeque::with_capacity(pipeline.min(64));
        Self { number: 1, dialogue, pipeline, left: u64::MAX, in_flight, due: None, stopping: false }
    }

    /// Sets which of the run's clients it is, counted from 1.
    #[must_use]
    pub fn numbered(self, number: u32) -> Self {
        Self { number, ..self }
    }

    /// Makes the client send only when a request is due, and count response times from then.
    #[must_use]
    pub fn paced(mut self) -> Self {
        self.due = Some(VecDeque::new());
        self
    }

    /// Makes the client stop after this many requests.
    #[must_use]
    pub fn limited(mut self, requests: u64) -> Self {
        self.left = requests;
        self
    }

    /// Notes that a request of a paced client is due, unless it may send no more.
    pub fn arrival(&mut self, at: u64) {
        if let Some(due) = self.due.as_mut().filter(|due| (due.len() as u64) < self.left) {
            due.push_back(at);
        }
    }

    /// Returns the number of requests that are due and not sent.
    #[must_use]
    pub fn behind(&self) -> usize {
        self.due.as_ref().map_or(0, VecDeque::len)
    }

    /// Returns how long each request has waited at `end` that was due before and is not answered, sent or not.
    pub fn waiting(&self, end: u64) -> impl Iterator<Item = u64> {
        let unsent = self.due.iter().flatten().copied();
        let due = self.in_flight.iter().map(|sent| sent.since).chain(unsent);
        due.filter(move |due| *due < end).map(move |due| end - due)
    }

    /// Appends the next request to `out`; returns whether there was one to send at `now`.
    pub fn issue(&mut self, now: u64, instruments: &mut Instruments<D>, out: &mut Vec<u8>) -> bool {
        let ends = self.stopping || self.left == 0;
        if self.in_flight.len() >= self.pipeline || (ends && self.dialogue.is_at_rest()) {
            return false;
        }
        let since = match &self.due {
            // What a stopping client must finish is due at once.
            Some(due) if !ends => match due.front() {
                Some(&at) => at,
                None => return false,
            },
            _ => now,
        };
        let (begun, length) = (instruments.watch.as_ref().map_or(now, Watch::last), out.len());
        let Some(asked) = self.dialogue.ask(&mut instruments.shared, out) else { return false };
        let departure = Departure { begun, encoded: 0, bytes: out.len() - length };
        self.due.as_mut().and_then(VecDeque::pop_front);
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.dialogue.finish();
        }
        self.in_flight.push_back(InFlight { asked, since, departure });
        true
    }

    /// Stamps the last `requests` that were issued as encoded; they are about to be written together.
    pub(crate) fn encoded(&mut self, requests: usize, watch: &mut Watch) {
        let encoded = watch.read_clock();
        self.in_flight
            .iter_mut()
            .rev()
            .take(requests)
            .for_each(|request| request.departure.encoded = encoded);
    }

    /// Takes the answer to the oldest request in flight, once `bytes` begin with a whole one.
    pub fn receive<'a>(
        &mut self,
        bytes: &'a [u8],
        now: u64,
        instruments: &mut Instruments<D>,
    ) -> Received<'a> {
        let Some(InFlight { asked, since, departure }) = self.in_flight.front() else {
            return Received::Broken("the server sent an answer to no request".into());
        };
        let measured = instruments.tally.measures(now);
        match self.dialogue.answer(asked, bytes, measured, &mut instruments.shared) {
            Answer::Whole { len, outcome, word } => {
                let (kind, due, departure) = (D::kind(asked), *since, *departure);
                if measured {
                    instruments.tally.carry(departure.bytes, len);
                }
                if let Some(word) = word.filter(|_| measured) {
                    instruments.tally.error(word);
                }
                match &mut instruments.watch {
                    None => {
                        instruments.tally.record(kind, outcome, now.saturating_sub(due), 1, measured);
                        if measured {
                            let since_sent = now.saturating_sub(departure.begun);
                            instruments.tally.record_since_sent(outcome, since_sent, 1);
                        }
                    }
                    Some(watch) => {
                        let Departure { begun, encoded, bytes } = departure;
                        let stamps = ClientStamps { due, begun, encoded, arrived: now, parsed: 0 };
                        watch.keep(Noted {
                            client: self.number.into(),
                            request_bytes: length(bytes),
                            answer_bytes: length(len),
                            ..Noted::new(u8::try_from(kind).unwrap_or(u8::MAX), ending(outcome), stamps)
                        });
                    }
                }
                self.in_flight.pop_front();
                Received::Answer(len)
            }
            Answer::NeedBytes(missing) => Received::NeedBytes(missing),
            Answer::Malformed(why) => Received::Broken(why),
        }
    }

    /// Stops the client: it only finishes what it has begun, and drops what is due and not sent.
    pub fn stop(&mut self) {
        self.stopping = true;
        self.dialogue.finish();
        self.due.iter_mut().for_each(VecDeque::clear);
    }

    /// Returns whether it has stopped, or sent all it may, and every request is answered.
    #[must_use]
    pub fn is_done(&self) -> bool {
        (self.stopping || self.left == 0) && self.in_flight.is_empty() && self.dialogue.is_at_rest()
    }

    /// Returns since when its oldest request waits for an answer.
    #[must_use]
    pub fn oldest(&self) -> Option<u64> {
        self.in_flight.front().map(|sent| sent.since)
    }

    /// Returns whether it waits for an answer.
    #[must_use]
    pub fn is_asking(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Gives up on the requests in flight and returns how many there were.
    pub fn abandon(&mut self, instruments: &mut Instruments<D>) -> usize {
        let lost = self.in_flight.drain(..);
        lost.map(|InFlight { asked, .. }| self.dialogue.lost(&asked, &mut instruments.shared)).count()
    }

    /// Returns the client's dialogue.
    #[must_use]
    pub fn into_dialogue(self) -> D {
        self.dialogue
    }
}

/// Converts a length to the type that records have.
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
