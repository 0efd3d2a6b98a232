//! Requests for queues whose rows another transaction keeps locked: an application, say, that called `delete_queue` in
//! a transaction it left open. Such requests wait apart, so that they do not hold up others.
//!
//! The database refuses a batch that would wait for such a row longer than a batch may. Then all queues of the batch
//! whose rows are locked are noted here, and the requests for them; a thread looks every 20 ms which rows are free, and
//! has the requests for those tried again. A request that has waited for as long as a middleware waits for an answer is
//! refused; a POP whose own deadline comes first gets nothing.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use posthaste_measure::lock;
use posthaste_wire::fault::{Fault, Word};
use posthaste_wire::operation::{Operation, QueueOptions};
use tokio_postgres::types::Type;

use super::attempt::Attempt;
use super::link::{ANSWER_WITHIN, Failure, Link};
use super::parked::Due;
use super::shared::Shared;
use super::store::Postgres;
use crate::path::bundle::{Address, Bundle};
use crate::path::worker::Batch;
use crate::queue::EVENT_SOURCE;
use crate::queue::rules::Millis;

/// SQLSTATE with which `wait_for_queue` fails.
const LOCKED: &str = "PHLCK";

/// Time between two looks at which rows are free.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The locked queues, and the requests that wait for them.
#[derive(Default)]
pub(super) struct LockedQueues {
    line: Arc<Mutex<Line>>,
    /// Whether there are any: nearly always there are none, and then the mutex is not taken.
    any: Arc<AtomicBool>,
}

#[derive(Default)]
struct Line {
    queues: Vec<Box<str>>,
    waiting: Vec<Waiting>,
    /// Whether the thread runs.
    is_running: bool,
}

struct Waiting {
    /// The bundle; its next request needs the row of `queue`.
    bundle: Box<Bundle>,
    queue: Box<str>,
    since: Instant,
    /// Deadline of its pop; None: the bundle is not just a pop that may wait.
    until: Option<Millis>,
}

impl Line {
    /// Takes out the queues that are free by now, and the requests that wait for one of them or wait no longer.
    fn take_over(&mut self, free: &Free, now: Millis) -> Vec<Waiting> {
        self.queues.retain(|queue| !free.has(queue));
        let is_over = |waiting: &mut Waiting| free.has(&waiting.queue) || waiting.is_over(now);
        self.waiting.extract_if(.., is_over).collect()
    }
}

impl Waiting {
    /// Returns whether its time is over although its queue is not free.
    fn is_over(&self, now: Millis) -> bool {
        self.is_late() || self.until.is_some_and(|until| until <= now)
    }

    /// Returns whether it has waited for as long as any request may.
    fn is_late(&self) -> bool {
        self.since.elapsed() > ANSWER_WITHIN
    }
}

/// Queues whose rows are not locked, or that are gone.
struct Free(Vec<String>);

impl Free {
    fn has(&self, queue: &str) -> bool {
        self.0.iter().any(|free| *free == *queue)
    }
}

impl Postgres {
    /// Handles a call that did nothing because other transactions lock the rows of `queues`: requests for these wait
    /// apart, and the other bundles are tried again.
    pub(super) fn retry_without_locked_queues(
        &self,
        due: Vec<Due>,
        queues: &str,
        attempt: Attempt,
        batch: &mut Batch,
    ) {
        for queue in queues.lines() {
            if let Err(error) = self.locked_queues.note(&self.shared, queue) {
                let why = format!(
                    "another transaction holds a lock on queue '{queue}', and no thread could be started to wait for it: {error}"
                );
                return self.give_up(due, &Failure::Unreachable(why), batch);
            }
        }
        let others = self.set_aside_locked_queues(due, batch);
        if !others.is_empty() {
            self.attempt(others, attempt, batch);
        }
    }

    /// Sets aside the bundles whose next request needs a locked queue, and holds back such requests further behind.
    /// Returns the bundles that can be executed.
    pub(super) fn set_aside_locked_queues(&self, due: Vec<Due>, batch: &mut Batch) -> Vec<Due> {
        if !self.locked_queues.any.load(Ordering::Acquire) {
            return due;
        }
        let mut line = lock(&self.locked_queues.line);
        let mut others = Vec::new();
        for Due { seat, mut bundle } in due {
            let first = line.queues.iter().filter_map(|queue| Some((place_of(&bundle, queue)?, queue))).min();
            match (first, seat) {
                (None, _) => others.push(Due { seat, bundle }),
                (Some((place, _)), _) if place > bundle.answered => {
                    bundle.held_back = Some(place);
                    others.push(Due { seat, bundle });
                }
                // A parked pop goes on waiting for a message; all are woken when a row is free.
                (Some(_), Some(seat)) => {
                    let Some(mut left) = self.shared.parked().put_back(seat, bundle) else { continue };
                    left.answer_empty();
                    batch.finished.push(left);
                }
                (Some((_, queue)), None) => {
                    let queue = queue.clone();
                    let (now, stamp) = (self.shared.time.millis(), self.clock.stamp());
                    let until = bundle.has_only_wait_pending().then(|| bundle.pop_deadline(now, stamp));
                    line.waiting.push(Waiting { bundle, queue, since: Instant::now(), until });
                }
            }
        }
        others
    }
}

impl LockedQueues {
    /// Takes out the bundle of a client that has left, if it waits here with only a pop left.
    pub(super) fn leave(&self, address: Address) -> Option<Box<Bundle>> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let is_it =
            |waiting: &Waiting| waiting.bundle.address == address && waiting.bundle.has_only_wait_pending();
        let waiting = &mut lock(&self.line).waiting;
        let at = waiting.iter().position(is_it)?;
        Some(waiting.remove(at).bundle)
    }

    /// Notes that a queue is locked: requests for it wait until its row is free.
    fn note(&self, shared: &Arc<Shared>, queue: &str) -> io::Result<()> {
        let mut line = lock(&self.line);
        if line.queues.iter().any(|locked| **locked == *queue) {
            return Ok(());
        }
        tracing::warn!(
            "another transaction holds a lock on the row of queue '{queue}': requests for it wait; see posthaste admin store"
        );
        if !line.is_running {
            let (of_thread, any) = (Arc::clone(&self.line), Arc::clone(&self.any));
            shared.start("locked-queues", move |shared, link| run(&of_thread, &any, shared, link))?;
            line.is_running = true;
        }
        line.queues.push(queue.into());
        self.any.store(true, Ordering::Release);
        Ok(())
    }
}

/// Runs the thread that looks which queues are free, until none is locked.
fn run(line: &Mutex<Line>, any: &AtomicBool, shared: &Shared, mut link: Link) {
    let events = &shared.reach.events;
    let begun = events.now();
    loop {
        thread::sleep(LOOK_EVERY);
        let queues = lock(line).queues.clone();
        // If that cannot be found out, all count as free: the next request for each finds out why.
        let free = free(&mut link, &queues)
            .unwrap_or_else(|_| Free(queues.iter().map(|queue| queue.to_string()).collect()));
        let mut line = lock(line);
        let over = line.take_over(&free, shared.time.millis());
        let kept = line.queues.clone();
        let is_last = kept.is_empty();
        if is_last {
            any.store(false, Ordering::Release);
            line.is_running = false;
        }
        drop(line);
        if !over.is_empty() || !free.0.is_empty() {
            hand_back(over, &free, &kept, shared);
        }
        if is_last {
            return events.since(begun, EVENT_SOURCE, "a queue's row kept locked");
        }
    }
}

/// Hands bundles back to the workers: late ones with a refusal, those of free queues to be tried again, and the rest
/// with an empty answer. Wakes all parked pops if a queue is free.
fn hand_back(over: Vec<Waiting>, free: &Free, kept: &[Box<str>], shared: &Shared) {
    let mut parked = shared.parked();
    for mut waiting in over {
        if waiting.is_late() {
            refuse_in_a_row(&mut waiting.bundle, &waiting.queue, kept);
        } else if !free.has(&waiting.queue) {
            waiting.bundle.answer_empty();
        }
        parked.schedule(waiting.bundle);
    }
    if !free.0.is_empty() {
        parked.wake_all();
    }
    drop(parked);
    shared.nudge();
}

/// Refuses the next request of a bundle, which needs `queue`, and those right behind it that need other locked queues:
/// they came with it, and have waited as long.
fn refuse_in_a_row(bundle: &mut Bundle, queue: &str, kept: &[Box<str>]) {
    bundle.refuse_one(&given_up(queue));
    while let Some(queue) = kept.iter().find(|queue| place_of(bundle, queue) == Some(bundle.answered)) {
        bundle.refuse_one(&given_up(queue));
    }
}

/// Asks the database which of the queues are free.
fn free(link: &mut Link, queues: &[Box<str>]) -> Result<Free, Failure> {
    // That the server accepts no further connection does not mean that it is out of reach.
    if !link.is_open() {
        link.connect_spare()?;
    }
    let names: Vec<&str> = queues.iter().map(|queue| &**queue).collect();
    let rows = link.ask("SELECT posthaste.free_queues($1)", &[(&names, Type::TEXT_ARRAY)])?;
    Ok(Free(rows.iter().map(|row| row.get(0)).collect()))
}

/// Returns the locked queues that the database's refusal names, one a line; empty: it failed for another reason.
pub(super) fn locked_queues(failure: &Failure) -> &str {
    failure.detail(LOCKED)
}

/// Returns whether the call was refused because one of these bundles needs a row that is locked.
pub(super) fn is_cause(due: &[Due], failure: &Failure) -> bool {
    let is_wanted = |queue| due.iter().any(|Due { bundle, .. }| place_of(bundle, queue).is_some());
    locked_queues(failure).lines().any(is_wanted)
}

/// Returns the place of the first request in a bundle's turn that needs the row of this queue.
fn place_of(bundle: &Bundle, queue: &str) -> Option<usize> {
    bundle
        .pending()
        .find(|&place| wants_row(&bundle.requests[place].operation, &bundle.bytes, queue.as_bytes()))
}

fn wants_row(operation: &Operation, bytes: &[u8], queue: &[u8]) -> bool {
    use Operation::{Browse, CreateQueue, Peek, QueueInfo, Redrive};
    let other = match operation {
        Peek(_) | QueueInfo { .. } | Browse { .. } => return false,
        Redrive { to, .. } => *to,
        CreateQueue { options: Some(QueueOptions { dead_letter: Some(dead), .. }), .. } => Some(dead.queue),
        _ => None,
    };
    operation.queue().into_iter().chain(other).any(|name| name.of(bytes) == queue)
}

fn given_up(queue: &str) -> Fault {
    let text = format!(
        "another transaction has held a lock on queue '{queue}' for {} seconds; nothing was changed; posthaste admin store names it",
        ANSWER_WITHIN.as_secs()
    );
    Fault::about(Word::Store, text)
}
