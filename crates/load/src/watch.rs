//! The stamps of a recorded run: where a request's time goes on the client's side.
//!
//! ```text
//! due -schedule- begun -serialization- encoded -network- arrived -deserialization- parsed
//! ```
//!
//! A run that is not recorded reads the clock once per read; these are two readings more, for encoding begins where the
//! last reading was taken. Requests that leave together are encoded together, and answers that arrive together are
//! understood together: each has the stamps of all, as each has to wait for all. In a deep pipeline, where a request
//! costs less than a few readings, that is also what keeps the record from slowing the run down. The write to the
//! socket counts as network: it is the kernel's work.

use posthaste_measure::{ClientStamps, Clock, Ending, Noted, Recorder};

use crate::dialogue::Outcome;
use crate::tally::Tally;

/// A thread's eye on its requests.
#[derive(Debug)]
pub struct Watch {
    clock: Clock,
    recorder: Recorder,
    /// The last reading.
    last: u64,
    /// Answers of the read at hand, until all are understood.
    arrivals: Vec<Arrival>,
}

/// What is known of a request when it leaves; zeros when the run is not recorded.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Departure {
    pub(crate) begun: u64,
    pub(crate) encoded: u64,
    pub(crate) bytes: usize,
}

/// What is known of a request when its answer is understood.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) client: u32,
    pub(crate) kind: usize,
    pub(crate) outcome: Outcome,
    /// Within the window.
    pub(crate) measured: bool,
    pub(crate) due: u64,
    pub(crate) departure: Departure,
    pub(crate) arrived: u64,
    pub(crate) bytes: usize,
}

impl Watch {
    /// A thread's watch.
    #[must_use]
    pub(crate) fn new(clock: Clock, recorder: Recorder) -> Self {
        Self { clock, recorder, last: 0, arrivals: Vec::new() }
    }

    /// Reads the clock.
    pub(crate) fn look(&mut self) -> u64 {
        self.last = self.clock.now();
        self.last
    }

    /// The last reading, where nothing worth a reading has been done since.
    #[must_use]
    pub(crate) const fn last(&self) -> u64 {
        self.last
    }

    /// Keeps a request whose answer was read until those that were read with it are understood too.
    pub(crate) fn keep(&mut self, arrival: Arrival) {
        self.arrivals.push(arrival);
    }

    /// All that was read together is understood, now: notes and counts it.
    pub(crate) fn understood(&mut self, tally: &mut Tally) {
        let parsed = self.look();
        for arrival in self.arrivals.drain(..) {
            let Arrival { client, kind, outcome, measured, due, departure, arrived, bytes } = arrival;
            let Departure { begun, encoded, bytes: request_bytes } = departure;
            let stamps = ClientStamps { due, begun, encoded, arrived, parsed };
            let length = |bytes| u32::try_from(bytes).unwrap_or(u32::MAX);
            self.recorder.note(Noted {
                client: client.into(),
                request_bytes: length(request_bytes),
                answer_bytes: length(bytes),
                ..Noted::new(u8::try_from(kind).unwrap_or(u8::MAX), ending(outcome), stamps)
            });
            tally.record(kind, outcome, parsed.saturating_sub(due), measured);
        }
    }

    /// Hands on what was noted, before the thread may sleep.
    pub(crate) fn turn_ended(&mut self) {
        self.recorder.flush();
    }
}

const fn ending(outcome: Outcome) -> Ending {
    match outcome {
        Outcome::Ok => Ending::Ok,
        Outcome::Null => Ending::Null,
        Outcome::Error => Ending::Error,
    }
}
