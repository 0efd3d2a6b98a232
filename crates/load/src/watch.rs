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

use posthaste_measure::{Clock, Ending, Noted, Recorder};

use crate::dialogue::Outcome;
use crate::tally::Tally;

/// Takes the stamps of a thread's requests.
#[derive(Debug)]
pub struct Watch {
    clock: Clock,
    recorder: Recorder,
    /// The last reading of the clock.
    last: u64,
    /// Requests whose answers came with the current read, until all of them are understood.
    arrivals: Vec<Noted>,
}

/// What is known of a request when it is sent. It is begun where the clock was last read; when it is encoded is 0 unless
/// the run is recorded.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Departure {
    pub(crate) begun: u64,
    pub(crate) encoded: u64,
    pub(crate) bytes: usize,
}

impl Watch {
    /// Creates a thread's watch.
    #[must_use]
    pub(crate) fn new(clock: Clock, recorder: Recorder) -> Self {
        Self { clock, recorder, last: 0, arrivals: Vec::new() }
    }

    /// Reads the clock.
    pub(crate) fn read_clock(&mut self) -> u64 {
        self.last = self.clock.now();
        self.last
    }

    /// Returns the last reading; enough where nothing worth a new one has been done since.
    #[must_use]
    pub(crate) const fn last(&self) -> u64 {
        self.last
    }

    /// Keeps a request whose answer was read until those that were read with it are understood too.
    #[inline]
    pub(crate) fn keep(&mut self, request: Noted) {
        self.arrivals.push(request);
    }

    /// Notes and counts all requests whose answers were read together at `arrived`, and are understood now.
    pub(crate) fn finish_batch(&mut self, arrived: u64, tally: &mut Tally) {
        let parsed = self.read_clock();
        self.arrivals.iter_mut().for_each(|request| request.understood(parsed));
        let measured = tally.measures(arrived);
        for alike in self.arrivals.chunk_by(Noted::counts_as) {
            let Noted { kind, ending, trail, .. } = alike[0];
            let (outcome, times) = (outcome(ending), alike.len() as u64);
            tally.record(kind.into(), outcome, trail.response(), times, measured);
            if measured {
                let [_schedule, since_sent @ ..] = trail.stages();
                tally.record_since_sent(outcome, since_sent.iter().sum(), times);
            }
        }
        self.recorder.note_all(&mut self.arrivals);
    }

    /// Hands on what was noted, since the thread may sleep next.
    pub(crate) fn turn_ended(&mut self) {
        self.recorder.flush();
    }
}

/// Converts an outcome to the type that records have.
pub(crate) const fn ending(outcome: Outcome) -> Ending {
    match outcome {
        Outcome::Ok => Ending::Ok,
        Outcome::Null => Ending::Null,
        Outcome::Error => Ending::Error,
    }
}

const fn outcome(ending: Ending) -> Outcome {
    match ending {
        Ending::Ok => Outcome::Ok,
        Ending::Null => Outcome::Null,
        Ending::Error => Outcome::Error,
    }
}
