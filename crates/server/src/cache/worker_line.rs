//! The waiting line of `--workers N`: bounded, first come first served, one request at a time.
//!
//! Unlike the queue tier's line, from which a worker takes all that waits, this one gives a worker one request, as in
//! the report that this mode reproduces.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_measure::{Ending, Stamps, lock};
use posthaste_wire::memcached::request::Request;

use super::engine::ClientId;
use super::limits;

/// What a worker does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// Carries the request out.
    CarryOut,
    /// Refuses the request: its value is too large, and was not read.
    RefuseTooLarge,
}

/// One request on its way to a worker and back.
pub struct Parcel {
    /// The network thread that read the request.
    pub thread: usize,
    /// The client on that thread.
    pub client: ClientId,
    /// The request as it was read.
    pub request: Request,
    /// What the worker is to do with the request.
    pub job: Job,
    /// The request's bytes.
    pub bytes: Vec<u8>,
    /// The answer to the request.
    pub answer: Vec<u8>,
    /// The answer grew larger than may be held: it was given up, and its client is to be cut.
    pub is_cut: bool,
    /// The number of the request's kind.
    pub kind: u8,
    /// How the request ended.
    pub ending: Ending,
    /// When the request passed each station.
    pub stamps: Stamps,
    /// How many reads from servers the request took.
    pub server_reads: u32,
}

impl Parcel {
    /// A parcel for this request, with everything else still to be filled in.
    #[must_use]
    pub fn new(request: Request) -> Self {
        Self {
            thread: 0,
            client: ClientId { slot: 0, number: 0 },
            request,
            job: Job::CarryOut,
            bytes: Vec::new(),
            answer: Vec::new(),
            is_cut: false,
            kind: 0,
            ending: Ending::Ok,
            stamps: Stamps::default(),
            server_reads: 0,
        }
    }

    /// Empties the parcel for another use, keeping its buffers unless they grew large.
    pub fn reset(&mut self) {
        for buffer in [&mut self.bytes, &mut self.answer] {
            buffer.clear();
            buffer.shrink_to(limits::BUFFER_BYTES_KEPT);
        }
        (self.server_reads, self.is_cut) = (0, false);
    }
}

/// The waiting line, shared by network threads and workers.
pub struct WorkerLine {
    state: Mutex<State>,
    /// A request arrived, or the line was closed.
    arrival: Condvar,
    /// A claim was released.
    release: Condvar,
    parcels_max: usize,
    bytes_max: usize,
}

#[derive(Default)]
struct State {
    parcels: VecDeque<Box<Parcel>>,
    /// Bytes of the requests in `parcels`.
    bytes: usize,
    is_closed: bool,
}

impl WorkerLine {
    /// A line for at most `parcels_max` requests of `bytes_max` bytes altogether.
    #[must_use]
    pub fn new(parcels_max: usize, bytes_max: usize) -> Self {
        let (arrival, release) = (Condvar::new(), Condvar::new());
        Self { state: Mutex::default(), arrival, release, parcels_max, bytes_max }
    }

    /// Appends the requests of one turn; those for which there is no room stay in `parcels`.
    pub fn push_all(&self, parcels: &mut Vec<Box<Parcel>>) {
        let mut state = self.lock();
        let mut taken = 0;
        while let Some(parcel) = parcels.get(taken)
            && state.parcels.len() + taken < self.parcels_max
            && state.bytes + parcel.bytes.len() <= self.bytes_max
        {
            state.bytes += parcel.bytes.len();
            taken += 1;
        }
        state.parcels.extend(parcels.drain(..taken));
        drop(state);
        (0..taken).for_each(|_| self.arrival.notify_one());
    }

    /// Waits for a request and takes it from the front; `None`: the line is closed.
    #[must_use]
    pub fn pop(&self) -> Option<Box<Parcel>> {
        let waits = |state: &mut State| state.parcels.is_empty() && !state.is_closed;
        let mut state = self.arrival.wait_while(self.lock(), waits).unwrap_or_else(PoisonError::into_inner);
        let parcel = state.parcels.pop_front()?;
        state.bytes -= parcel.bytes.len();
        Some(parcel)
    }

    /// Waits until a claim is released, for at most 1 ms, since that may have happened just before.
    pub fn wait_for_claim(&self) {
        let state = self.lock();
        drop(
            self.release
                .wait_timeout(state, Duration::from_millis(1))
                .unwrap_or_else(PoisonError::into_inner),
        );
    }

    /// Wakes the workers that wait for a claim: one was released.
    pub fn wake_claim_waiters(&self) {
        self.release.notify_all();
    }

    /// Closes the line, when no answer is waited for any more: workers finish their request and stop.
    pub fn close(&self) {
        *self.lock() = State { is_closed: true, ..State::default() };
        self.arrival.notify_all();
    }

    /// How many requests wait now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().parcels.len()
    }

    /// Most requests that may wait.
    #[must_use]
    pub fn requests_max(&self) -> usize {
        self.parcels_max
    }

    /// Returns whether no request waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

#[cfg(test)]
mod tests {
    use posthaste_wire::memcached::decode::{Decoded, Limits, decode};

    use super::*;

    fn parcels(bytes: [usize; 3]) -> Vec<Box<Parcel>> {
        let limits = Limits { value_bytes: 100, line_bytes: 100 };
        let Decoded::Request(request, _) = decode(b"mn\r\n", &limits) else { panic!("it is one") };
        let parcel = |bytes| Box::new(Parcel { bytes: vec![0; bytes], ..Parcel::new(request) });
        bytes.map(parcel).into()
    }

    #[test]
    fn a_line_is_full_by_the_number_of_requests_or_by_their_bytes() {
        for (line, left) in
            [(WorkerLine::new(2, 100), 1), (WorkerLine::new(9, 29), 1), (WorkerLine::new(9, 20), 1)]
        {
            let mut waiting = parcels([10, 10, 10]);
            line.push_all(&mut waiting);
            assert_eq!(waiting.len(), left);
            while !line.is_empty() {
                assert!(line.pop().is_some());
            }
            line.push_all(&mut waiting);
            assert!(waiting.is_empty(), "there is room for as many again");
        }
    }
}
