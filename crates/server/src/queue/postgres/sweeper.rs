//! Empties large queues in parts, so that no other user of a queue waits for all of it. That is done by a thread that
//! runs only while there is one to empty.
//!
//! The database refuses a request that removes all that a large queue holds. The request comes here, and when the queue
//! has been swept it is tried again, for the rest. A QREDRIVE of many dead letters comes here too, and is done here.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use posthaste_measure::lock;

use super::attempt::Attempt;
use super::failure::Failure;
use super::in_parts::{End, InParts};
use super::link::Link;
use super::parked::Due;
use super::removals::{names, removals};
use super::rows::in_use;
use super::shared::Shared;
use super::store::Postgres;
use crate::path::bundle::Bundle;
use crate::path::worker::Batch;

/// SQLSTATE with which `refuse_large` fails.
const LARGE: &str = "PHBIG";

/// The thread, and the requests that it does in turn.
#[derive(Default)]
pub(super) struct Sweeper {
    line: Arc<Mutex<Line>>,
}

#[derive(Default)]
struct Line {
    waiting: VecDeque<InParts>,
    /// Whether the thread runs.
    is_running: bool,
}

impl Line {
    /// Takes out the request whose turn it is; None: there is none, and the thread ends.
    fn next(&mut self) -> Option<InParts> {
        let next = self.waiting.pop_front();
        self.is_running = next.is_some();
        next
    }
}

impl Postgres {
    /// Handles a call that did nothing because a request removes or moves all that a large queue holds: it waits until
    /// the queue has been swept, and the others are tried again. Requests in front of it in its bundle are done first.
    pub(super) fn retry_without_large_queue(
        &self,
        due: Vec<Due>,
        queue: &str,
        attempt: Attempt,
        batch: &mut Batch,
    ) {
        let mut others = Vec::new();
        for Due { seat, mut bundle } in due {
            match first_in_parts(&bundle, queue) {
                // Pops that waited travel alone, so this one has no seat.
                Some(place) if place == bundle.answered => {
                    if bundle.progress.removal.is_stuck {
                        bundle.refuse_one(&in_use(queue.as_bytes(), bundle.progress.removal.messages));
                        others.push(Due { seat, bundle });
                    } else {
                        batch.finished.extend(self.sweeper.take(&self.shared, bundle));
                    }
                }
                place => {
                    // Another large queue may hold it back already, further on.
                    bundle.progress.held_back = place.or(bundle.progress.held_back);
                    others.push(Due { seat, bundle });
                }
            }
        }
        let done = others.extract_if(.., |Due { bundle, .. }| bundle.is_done());
        batch.finished.extend(done.map(|one| one.bundle));
        if !others.is_empty() {
            self.attempt(others, attempt, batch);
        }
    }
}

impl Sweeper {
    /// Has a bundle's next request done in parts. Returns the bundle with an error if that cannot be.
    fn take(&self, shared: &Arc<Shared>, bundle: Box<Bundle>) -> Option<Box<Bundle>> {
        let mut line = lock(&self.line);
        line.waiting.push_back(InParts::new(bundle, shared));
        if line.is_running {
            return None;
        }
        let of_thread = Arc::clone(&self.line);
        match shared.start("sweeper", move |shared, link| run(&of_thread, shared, link)) {
            Ok(()) => {
                line.is_running = true;
                None
            }
            Err(error) => {
                let failure = Failure::Unreachable(format!("no thread could be started: {error}"));
                Some(line.waiting.pop_back()?.end(End::Failed(failure), shared))
            }
        }
    }
}

/// Runs the thread: the requests take turns, so that none waits for all of another, or for a queue that only another one
/// needs.
fn run(line: &Mutex<Line>, shared: &Shared, mut link: Link) {
    loop {
        let Some(mut request) = lock(line).next() else { return };
        match request.go_on(&mut link) {
            None => lock(line).waiting.push_back(request),
            Some(how) => {
                let bundle = request.end(how, shared);
                shared.parked().schedule(bundle);
                shared.nudge();
            }
        }
    }
}

/// Returns the queue to be swept first that the database's refusal names; empty: it failed for another reason.
pub(super) fn large_queue(failure: &Failure) -> &str {
    failure.detail(LARGE)
}

/// Returns whether the call was refused because one of these bundles empties a large queue, or moves its letters.
pub(super) fn is_cause(due: &[Due], failure: &Failure) -> bool {
    let queue = large_queue(failure);
    due.iter().any(|Due { bundle, .. }| first_in_parts(bundle, queue).is_some())
}

/// Returns the place of the first request in a bundle's turn that empties this queue, or moves its letters.
fn first_in_parts(bundle: &Bundle, queue: &str) -> Option<usize> {
    removals(bundle).find(|&place| names(bundle, place, queue))
}
