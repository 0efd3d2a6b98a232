//! The waiting line of `--workers N`: bounded, first come first served, one request at a time.
//!
//! It is the queue tier's line without its reason to be: there a worker takes all that waits, here it takes one, as in
//! the report this mode stands for.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_measure::{Ending, Stamps};
use posthaste_wire::memcached::request::Request;

use super::limits;

/// One request on its way to a worker and back.
pub struct Task {
    /// Its network thread.
    pub thread: usize,
    /// Its client's slot there, and its client's number.
    pub client: (usize, u64),
    /// What is asked.
    pub request: Request,
    /// The value announced with it is too large.
    pub is_too_large: bool,
    /// The request's bytes.
    pub bytes: Vec<u8>,
    /// Its answer.
    pub answer: Vec<u8>,
    /// What it counts as.
    pub kind: u8,
    /// How it ended.
    pub ending: Ending,
    /// When it passed each station.
    pub stamps: Stamps,
    /// Reads from servers that it took.
    pub server_reads: u32,
}

impl Task {
    /// For this request, with everything else still to be filled in.
    #[must_use]
    pub fn new(request: Request) -> Self {
        Self {
            thread: 0,
            client: (0, 0),
            request,
            is_too_large: false,
            bytes: Vec::new(),
            answer: Vec::new(),
            kind: 0,
            ending: Ending::Ok,
            stamps: Stamps::default(),
            server_reads: 0,
        }
    }

    /// Empties it for another use, keeping its buffers unless they grew large.
    pub fn reset(&mut self) {
        for buffer in [&mut self.bytes, &mut self.answer] {
            buffer.clear();
            buffer.shrink_to(limits::BUFFER_BYTES_KEPT);
        }
        self.server_reads = 0;
    }
}

/// The line.
pub struct Line {
    state: Mutex<State>,
    arrival: Condvar,
    release: Condvar,
    tasks_max: usize,
}

#[derive(Default)]
struct State {
    tasks: VecDeque<Box<Task>>,
    closed: bool,
}

impl Line {
    /// A line for at most so many requests.
    #[must_use]
    pub fn new(tasks_max: usize) -> Self {
        Self { state: Mutex::default(), arrival: Condvar::new(), release: Condvar::new(), tasks_max }
    }

    /// Lines up the requests of one turn; those that find the line full stay in `tasks`.
    pub fn push_all(&self, tasks: &mut Vec<Box<Task>>) {
        let mut state = self.lock();
        let room = self.tasks_max.saturating_sub(state.tasks.len()).min(tasks.len());
        state.tasks.extend(tasks.drain(..room));
        drop(state);
        (0..room).for_each(|_| self.arrival.notify_one());
    }

    /// The next request; waits for one. None: the line is closed and empty.
    #[must_use]
    pub fn take(&self) -> Option<Box<Task>> {
        let waits = |state: &mut State| state.tasks.is_empty() && !state.closed;
        let mut state = self.arrival.wait_while(self.lock(), waits).unwrap_or_else(PoisonError::into_inner);
        state.tasks.pop_front()
    }

    /// For a worker that wants a claim: waits until one is released, but not long, as it may have just been.
    pub fn wait_for_claim(&self) {
        let state = self.lock();
        drop(
            self.release
                .wait_timeout(state, Duration::from_millis(1))
                .unwrap_or_else(PoisonError::into_inner),
        );
    }

    /// A claim was released.
    pub fn claims_released(&self) {
        self.release.notify_all();
    }

    /// No more will come; workers finish what waits and stop.
    pub fn close(&self) {
        self.lock().closed = true;
        self.arrival.notify_all();
    }

    /// Requests that wait now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().tasks.len()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
