//! One client as a plain state machine: its next request out, an answer in. It knows neither socket nor
//! clock, so a test can play the server and the time. What it says and hears is up to a [`Dialogue`].

use std::borrow::Cow;
use std::collections::VecDeque;

use posthaste_measure::{ClientStamps, Noted};

use crate::dialogue::{Answer, Dialogue};
use crate::tally::Tally;
use crate::watch::{Departure, Watch, ending};

/// What the clients of a thread share.
#[derive(Debug)]
pub struct Instruments<D: Dialogue> {
    /// What is counted.
    pub tally: Tally,
    /// What the dialogues share.
    pub shared: D::Shared,
    /// The eye on every request of a recorded run.
    pub watch: Option<Watch>,
}

/// One client.
#[derive(Debug)]
pub struct Client<D: Dialogue> {
    number: u32,
    dialogue: D,
    pipeline: usize,
    /// Requests that it may still send.
    left: u64,
    in_flight: VecDeque<InFlight<D::Asked>>,
    /// In an open loop: when requests were due that are not sent yet.
    due: Option<VecDeque<u64>>,
    stopping: bool,
}

#[derive(Debug)]
struct InFlight<A> {
    asked: A,
    /// From here its response time counts.
    since: u64,
    departure: Departure,
}

/// What became of the bytes that a client was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// They begin with an answer of this length.
    Answer(usize),
    /// The answer goes on: at least this many more bytes must arrive.
    NeedBytes(usize),
    /// The connection is of no more use.
    Broken(Cow<'a, str>),
}

impl<D: Dialogue> Client<D> {
    /// A client that keeps up to `pipeline` requests in flight.
    #[must_use]
    pub fn new(dialogue: D, pipeline: usize) -> Self {
        let in_flight = VecDeque::with_capacity(pipeline.min(64));
        Self { number: 1, dialogue, pipeline, left: u64::MAX, in_flight, due: None, stopping: false }
    }

    /// Which of the run's clients it is, counted from 1.
    #[must_use]
    pub fn numbered(self, number: u32) -> Self {
        Self { number, ..self }
    }

    /// From now on the client asks only when a request is due, and counts from there.
    #[must_use]
    pub fn paced(mut self) -> Self {
        self.due = Some(VecDeque::new());
        self
    }

    /// The client falls silent after so many requests.
    #[must_use]
    pub fn limited(mut self, requests: u64) -> Self {
        self.left = requests;
        self
    }

    /// A request of a paced client is due, unless it may send no more.
    pub fn arrival(&mut self, at: u64) {
        if let Some(due) = self.due.as_mut().filter(|due| (due.len() as u64) < self.left) {
            due.push_back(at);
        }
    }

    /// Requests that are due and not sent.
    #[must_use]
    pub fn behind(&self) -> usize {
        self.due.as_ref().map_or(0, VecDeque::len)
    }

    /// How long requests have waited at `end` that were due before and are not answered, sent or not.
    pub fn waiting(&self, end: u64) -> impl Iterator<Item = u64> {
        let unsent = self.due.iter().flatten().copied();
        let due = self.in_flight.iter().map(|sent| sent.since).chain(unsent);
        due.filter(move |due| *due < end).map(move |due| end - due)
    }

    /// Appends the next request to `out`; says whether there was one to send at `now`.
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
        let (begun, length) = (instruments.watch.as_ref().map_or(0, Watch::last), out.len());
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

    /// The last `requests` that were issued are about to be written, in one go.
    pub(crate) fn encoded(&mut self, requests: usize, watch: &mut Watch) {
        let encoded = watch.look();
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
                    None => instruments.tally.record(kind, outcome, now.saturating_sub(due), 1, measured),
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

    /// From now on the client only finishes what it has begun; what is due and not sent is dropped.
    pub fn stop(&mut self) {
        self.stopping = true;
        self.dialogue.finish();
        self.due.iter_mut().for_each(VecDeque::clear);
    }

    /// Whether it has stopped, or sent all it may, and every request is answered.
    #[must_use]
    pub fn is_done(&self) -> bool {
        (self.stopping || self.left == 0) && self.in_flight.is_empty() && self.dialogue.is_at_rest()
    }

    /// Since when its oldest request waits for an answer.
    #[must_use]
    pub fn oldest(&self) -> Option<u64> {
        self.in_flight.front().map(|sent| sent.since)
    }

    /// Whether it waits for an answer.
    #[must_use]
    pub fn is_asking(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Gives up on the requests in flight and says how many there were.
    pub fn abandon(&mut self, instruments: &mut Instruments<D>) -> usize {
        let lost = self.in_flight.drain(..);
        lost.map(|InFlight { asked, .. }| self.dialogue.lost(&asked, &mut instruments.shared)).count()
    }

    /// What it says and hears.
    #[must_use]
    pub fn into_dialogue(self) -> D {
        self.dialogue
    }
}

/// As records say it.
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
