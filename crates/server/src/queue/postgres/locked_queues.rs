//! Requests for queues whose rows another transaction keeps locked: an application, say, that called `delete_queue` in
//! a transaction it left open. Such requests wait apart, so that they do not hold up others.
//!
//! The database refuses a batch that would wait for such a row longer than a batch may. Then all queues of the batch
//! whose rows are locked are noted here, and the requests for them; a thread looks every 20 ms which rows are free, and
//! has the requests for those tried again. A request that has waited for as long as a middleware waits for an answer is
//! refused. A POP waits no shorter than others, whatever its BLOCK: it must look once before it may say that there is
//! nothing.

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
use super::failure::Failure;
use super::link::{ANSWER_WITHIN, Argument, Link};
use super::links::Links;
use super::parked::Due;
use super::shared::Shared;
use super::store::Postgres;
use super::undone::{Changed, undone};
use crate::path::bundle::{Address, Bundle};
use crate::path::worker::Batch;
use crate::queue::EVENT_SOURCE;

/// SQLSTATE with which `wait_for_queue` fails.
const LOCKED: &str = "PHLCK";

/// Time between two looks at which rows are free.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Time after which a connection to look with is tried again that the server has not accepted.
const CONNECT_AGAIN: Duration = Duration::from_secs(1);

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
    /// Whether the tier stops, which no pop that may wait holds up.
    are_waits_over: bool,
}

struct Waiting {
    /// The bundle; its next request needs the row of `queue`.
    bundle: Box<Bundle>,
    queue: Box<str>,
    since: Instant,
}

impl Line {
    /// Takes out the queues that are free by now, and the requests that wait for one of them or wait no longer.
    fn take_over(&mut self, free: &Free) -> Vec<Waiting> {
        self.queues.retain(|queue| !free.has(queue));
        let are_over = self.are_waits_over;
        let is_over = |waiting: &mut Waiting| {
            free.has(&waiting.queue) || waiting.is_late() || (are_over && waiting.bundle.may_wait())
        };
        self.waiting.extract_if(.., is_over).collect()
    }
}

impl Waiting {
    /// Sets a bundle aside. A request that was set aside before, and found the row locked again when it was tried, goes
    /// on with that wait; otherwise it waits since `now`.
    fn new(mut bundle: Box<Bundle>, queue: Box<str>, now: Instant) -> Self {
        let since = *bundle.progress.row_wait_since.get_or_insert(now);
        Self { bundle, queue, since }
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
            if let Err(error) = self.locked_queues.note(&self.shared, &self.links, queue) {
                let why = format!(
                    "another transaction holds a lock on queue '{queue}', and no thread could be started to wait for it: {error}"
                );
                return self.give_up(due, &Failure::Unreachable(why), batch);
            }
        }
        let others = self.set_aside_locked_queues(due);
        if !others.is_empty() {
            self.attempt(others, attempt, batch);
        }
    }

    /// Sets aside the bundles whose next request needs a locked queue, and holds back such requests further behind.
    /// Returns the bundles that can be executed.
    pub(super) fn set_aside_locked_queues(&self, due: Vec<Due>) -> Vec<Due> {
        if !self.locked_queues.are_any() {
            return due;
        }
        let mut line = lock(&self.locked_queues.line);
        let now = Instant::now();
        let mut others = Vec::new();
        for Due { seat, mut bundle } in due {
            let first = line.queues.iter().filter_map(|queue| Some((place_of(&bundle, queue)?, queue))).min();
            match (first, seat) {
                (None, _) => others.push(Due { seat, bundle }),
                (Some((place, _)), _) if place > bundle.answered => {
                    bundle.progress.held_back = Some(place);
                    others.push(Due { seat, bundle });
                }
                (Some((_, queue)), seat) => {
                    let queue = queue.clone();
                    // A parked pop goes on waiting for a message; all are woken when a row is free. One whose time is
                    // over waits for its last look.
                    let left = match seat {
                        Some(seat) => self.shared.parked().put_back(seat, bundle),
                        None => Some(bundle),
                    };
                    line.waiting.extend(left.map(|bundle| Waiting::new(bundle, queue, now)));
                }
            }
        }
        others
    }
}

impl LockedQueues {
    /// Returns whether any queue is known to be locked.
    pub(super) fn are_any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Takes out the pop of a client that has left, if it waits here.
    pub(super) fn leave(&self, address: Address) -> Option<Box<Bundle>> {
        if !self.are_any() {
            return None;
        }
        let is_it = |waiting: &Waiting| waiting.bundle.address == address && waiting.bundle.may_wait();
        let waiting = &mut lock(&self.line).waiting;
        let at = waiting.iter().position(is_it)?;
        Some(waiting.remove(at).bundle)
    }

    /// Ends the waits of pops that have nothing in front of them, because the tier stops.
    pub(super) fn end_waits(&self) {
        lock(&self.line).are_waits_over = true;
    }

    /// Notes that a queue is locked: requests for it wait until its row is free.
    fn note(&self, shared: &Arc<Shared>, links: &Arc<Links>, queue: &str) -> io::Result<()> {
        let mut line = lock(&self.line);
        if line.queues.iter().any(|locked| **locked == *queue) {
            return Ok(());
        }
        tracing::warn!(
            "another transaction holds a lock on the row of queue '{queue}': requests for it wait; see posthaste admin store"
        );
        if !line.is_running {
            let (of_thread, any) = (Arc::clone(&self.line), Arc::clone(&self.any));
            let links = Arc::clone(links);
            shared.start("locked-queues", move |shared, link| {
                run(&of_thread, &any, shared, Look { link, links, connect_at: None });
            })?;
            line.is_running = true;
        }
        line.queues.push(queue.into());
        self.any.store(true, Ordering::Release);
        Ok(())
    }
}

/// Runs the thread that looks which queues are free, until none is locked.
fn run(line: &Mutex<Line>, any: &AtomicBool, shared: &Shared, mut look: Look) {
    let events = &shared.reach.events;
    let begun = events.now();
    loop {
        thread::sleep(LOOK_EVERY);
        let queues = lock(line).queues.clone();
        // If that cannot be found out, all count as free: the next request for each finds out why.
        let free = look
            .free(&queues)
            .unwrap_or_else(|_| Free(queues.iter().map(|queue| queue.to_string()).collect()));
        let mut line = lock(line);
        let over = line.take_over(&free);
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

/// Hands bundles back to the workers: late ones with a refusal, those of free queues to be tried again, and the rest,
/// which would hold up a stop, with a refusal. Wakes all parked pops if a queue is free.
fn hand_back(over: Vec<Waiting>, free: &Free, kept: &[Box<str>], shared: &Shared) {
    let mut parked = shared.parked();
    for mut waiting in over {
        if waiting.is_late() {
            refuse_in_a_row(&mut waiting.bundle, &waiting.queue, kept);
        } else if !free.has(&waiting.queue) {
            let why =
                format!("the server stops while another transaction keeps queue '{}' locked", waiting.queue);
            waiting.bundle.refuse_one(&undone(Word::Store, why, Changed::NOTHING));
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
    bundle.refuse_one(&kept_locked(queue, Changed::Removed(bundle.progress.removal.messages)));
    while let Some(queue) = kept.iter().find(|queue| place_of(bundle, queue) == Some(bundle.answered)) {
        bundle.refuse_one(&kept_locked(queue, Changed::NOTHING));
    }
}

/// What the thread looks with which queues are free.
struct Look {
    /// Its own connection, which may wait for a row.
    link: Link,
    /// The workers', for as long as the server accepts no further connection: that it does not says nothing of the rows.
    links: Arc<Links>,
    /// Until then its own connection is not tried.
    connect_at: Option<Instant>,
}

impl Look {
    /// Asks the database which of the queues are free.
    fn free(&mut self, queues: &[Box<str>]) -> Result<Free, Failure> {
        if let Some(Ok(free)) = self.own_link().map(|link| free(link, queues, true)) {
            return Ok(free);
        }
        self.links.with(|link| free(link, queues, false))
    }

    /// Returns its own connection; None: there is none for now.
    fn own_link(&mut self) -> Option<&mut Link> {
        if !self.link.is_open() {
            let now = Instant::now();
            if self.connect_at.is_some_and(|at| now < at) {
                return None;
            }
            self.connect_at = Some(now + CONNECT_AGAIN);
            self.link.connect_spare().ok()?;
        }
        Some(&mut self.link)
    }
}

fn free(link: &mut Link, queues: &[Box<str>], may_wait: bool) -> Result<Free, Failure> {
    let names: Vec<&str> = queues.iter().map(|queue| &**queue).collect();
    let arguments: [Argument<'_>; 2] = [(&names, Type::TEXT_ARRAY), (&may_wait, Type::BOOL)];
    let rows = link.ask("SELECT posthaste.free_queues($1, $2)", &arguments)?;
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

/// Returns the refusal of a request that has waited for as long as any may for the row of a queue.
pub(super) fn kept_locked(queue: &str, changed: Changed) -> Fault {
    let seconds = ANSWER_WITHIN.as_secs();
    let why = format!(
        "other transactions have kept queue '{queue}' locked for {seconds} seconds (posthaste admin store names them)"
    );
    undone(Word::Store, why, changed)
}

#[cfg(test)]
mod tests {
    use posthaste_wire::command::Kind;

    use super::*;
    use crate::path::bundle::Request;

    #[test]
    fn a_request_that_is_tried_again_in_vain_has_waited_since_the_first_time() {
        let mut bundle = Box::new(Bundle::new(Address { thread: 0, slot: 0, client: 1 }));
        for _ in 0..2 {
            bundle.requests.push(Request::new(Operation::Accounts { after: 0 }, Kind::Accounts, 0));
        }
        let first = Waiting::new(bundle, "q".into(), Instant::now() - ANSWER_WITHIN);
        let mut again = Waiting::new(first.bundle, "q".into(), Instant::now());
        assert!(again.is_late());
        again.bundle.answer_integer(1);
        let next = Waiting::new(again.bundle, "q".into(), Instant::now());
        assert!(!next.is_late(), "the next request of its connection has not waited");
    }
}
