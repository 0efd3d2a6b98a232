//! The waiting line before the workers: bounded, first come first served, with a line of its own for chosen
//! request kinds that go first.
//!
//! A worker takes everything that waits, up to its batch size. There is no timer: an idle system has batches of
//! one, a busy one large batches, so the cost per request falls as the load rises.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

use posthaste_wire::command::Kind;

use super::bundle::Bundle;

/// What a worker got.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    /// At least one bundle.
    Some,
    /// Nothing came until the given time, or somebody asked the workers to look around.
    Nothing,
    /// The line is closed and empty.
    Closed,
}

/// The line.
pub struct WaitingLine {
    state: Mutex<State>,
    arrival: Condvar,
    requests_max: usize,
    first_kinds: Vec<Kind>,
}

#[derive(Default)]
struct State {
    first: VecDeque<Box<Bundle>>,
    normal: VecDeque<Box<Bundle>>,
    requests: usize,
    idle_workers: usize,
    awake_by: Option<Instant>,
    nudged: bool,
    closed: bool,
}

impl WaitingLine {
    /// A line for at most `requests_max` requests; bundles that begin with one of `first_kinds` go first.
    #[must_use]
    pub fn new(requests_max: usize, first_kinds: Vec<Kind>) -> Self {
        Self { state: Mutex::default(), arrival: Condvar::new(), requests_max, first_kinds }
    }

    /// Lines up the bundles of one network turn; those that find the line full stay in `bundles`.
    /// A bundle larger than the whole line is let in when the line is empty.
    pub fn push_all(&self, bundles: &mut Vec<Box<Bundle>>) {
        let mut state = self.lock();
        let mut waiting = state.requests;
        let fits = |bundle: &mut Box<Bundle>| {
            let fits = waiting == 0 || waiting + bundle.requests.len() <= self.requests_max;
            waiting += if fits { bundle.requests.len() } else { 0 };
            fits
        };
        for bundle in bundles.extract_if(.., fits) {
            state.push(bundle, &self.first_kinds);
        }
        if state.idle_workers > 0 && state.requests > 0 {
            self.arrival.notify_one();
        }
    }

    /// Takes bundles in order until they hold `requests` requests; waits for the first one, at most until `until`.
    pub fn take(&self, requests: usize, until: Option<Instant>, batch: &mut Vec<Box<Bundle>>) -> Taken {
        let mut state = self.lock();
        while state.requests == 0 {
            if state.closed {
                return Taken::Closed;
            }
            if std::mem::take(&mut state.nudged) {
                return Taken::Nothing;
            }
            let wait = until.map(|until| until.saturating_duration_since(Instant::now()));
            if wait.is_some_and(|wait| wait.is_zero()) {
                return Taken::Nothing;
            }
            state.idle_workers += 1;
            state.awake_by = until;
            state = match wait {
                None => self.arrival.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(wait) => {
                    self.arrival.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0
                }
            };
            state.idle_workers -= 1;
        }
        let mut taken = 0;
        while let Some(bundle) = state.pop_within(requests.saturating_sub(taken), taken == 0) {
            taken += bundle.requests.len();
            batch.push(bundle);
        }
        if state.requests > 0 && state.idle_workers > 0 {
            self.arrival.notify_one();
        }
        Taken::Some
    }

    /// Something is due at `deadline` that the waiting workers do not know of: one wakes if it would sleep longer.
    pub fn come_by(&self, deadline: Instant) {
        let mut state = self.lock();
        if state.idle_workers > 0 && state.awake_by.is_none_or(|by| deadline < by) {
            state.nudged = true;
            self.arrival.notify_one();
        }
    }

    /// No more bundles will come; workers finish what waits and stop.
    pub fn close(&self) {
        self.lock().closed = true;
        self.arrival.notify_all();
    }

    /// Requests that wait now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().requests
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn push(&mut self, bundle: Box<Bundle>, first_kinds: &[Kind]) {
        self.requests += bundle.requests.len();
        match bundle.requests.first() {
            Some(request) if first_kinds.contains(&request.kind) => self.first.push_back(bundle),
            _ => self.normal.push_back(bundle),
        }
    }

    /// The next bundle if it holds at most `room` requests, or in any case when `must`.
    fn pop_within(&mut self, room: usize, must: bool) -> Option<Box<Bundle>> {
        let line = if self.first.is_empty() { &mut self.normal } else { &mut self.first };
        let waiting = line.front()?.requests.len();
        if waiting > room && !must {
            return None;
        }
        self.requests -= waiting;
        line.pop_front()
    }
}
