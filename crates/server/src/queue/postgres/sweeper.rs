//! Empties large queues in parts, so that no other user of a queue waits for all of it. That is done by a thread that
//! runs only while there is one to empty. See sql/0016_large_queues.sql.
//!
//! The database refuses a request that removes all that a large queue holds. The request comes here, and when the queue
//! has been swept it is tried again, for the rest. A QREDRIVE of many dead letters comes here too, and is done here.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use posthaste_measure::lock;
use posthaste_wire::operation::Operation;
use posthaste_wire::span::Span;
use tokio_postgres::types::Type;

use super::attempt::Attempt;
use super::link::{Argument, Failure, Link};
use super::parked::Due;
use super::rows::in_use;
use super::shared::Shared;
use super::store::Postgres;
use super::undone::{Changed, failed};
use crate::path::bundle::{Bundle, Removal};
use crate::path::worker::Batch;
use crate::queue::EVENT_SOURCE;
use crate::queue::counts::{MessageCounts, MessageEvent};

/// SQLSTATE with which `refuse_large` fails.
const LARGE: &str = "PHBIG";

/// Messages in a part. A part takes about a tenth of a second, for which other users of the queue may wait.
const PART: i32 = 10_000;

/// First part of the table for messages of all kinds, and for dead letters, as `sweep` and `letters_after` count them.
const FIRST_OF_ALL: i32 = 0;
const FIRST_OF_LETTERS: i32 = 2;

/// The thread, and the bundles that wait for it: the next request of each empties a queue or moves its dead letters.
#[derive(Default)]
pub(super) struct Sweeper {
    line: Arc<Mutex<Line>>,
}

#[derive(Default)]
struct Line {
    waiting: VecDeque<Box<Bundle>>,
    /// Whether the thread runs.
    is_running: bool,
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
                // Pops that waited come last in their bundles, so this one has no seat.
                Some(place) if place == bundle.answered => {
                    if bundle.removal.is_stuck {
                        bundle.refuse_one(&in_use(queue.as_bytes(), bundle.removal.messages));
                        others.push(Due { seat, bundle });
                    } else {
                        batch.finished.extend(self.sweeper.take(&self.shared, bundle));
                    }
                }
                place => {
                    // Another large queue may hold it back already, further on.
                    bundle.held_back = place.or(bundle.held_back);
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
    /// Has a queue swept that a bundle's next request empties. Returns the bundle with an error if that cannot be.
    pub(super) fn take(&self, shared: &Arc<Shared>, bundle: Box<Bundle>) -> Option<Box<Bundle>> {
        let mut line = lock(&self.line);
        line.waiting.push_back(bundle);
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
                let mut bundle = line.waiting.pop_back()?;
                let failure = Failure::Unreachable(error.to_string());
                bundle.refuse_one(&failed(&failure, Changed::Removed(bundle.removal.messages)));
                Some(bundle)
            }
        }
    }
}

/// Runs the thread: sweeps one queue after the other, and has each request tried again.
fn run(line: &Mutex<Line>, shared: &Shared, mut link: Link) {
    loop {
        let mut bundle = {
            let mut line = lock(line);
            let Some(next) = line.waiting.pop_front() else {
                line.is_running = false;
                return;
            };
            next
        };
        match bundle.next_operation() {
            Some(&Operation::Redrive { from, to, .. }) => {
                redrive_of(&mut bundle, shared, &mut link, from, to)
            }
            _ => empty_for(&mut bundle, shared, &mut link),
        }
        shared.parked().schedule(bundle);
        shared.nudge();
    }
}

/// Empties the queue that a bundle's next request names; what cannot be taken now is left to that request.
fn empty_for(bundle: &mut Bundle, shared: &Shared, link: &mut Link) {
    let mut removed = bundle.removal.messages;
    let events = &shared.reach.events;
    let begun = events.now();
    let swept = sweep(link, &queue_of(bundle), &mut removed);
    events.since(begun, EVENT_SOURCE, "large queue emptied");
    let mut counts = MessageCounts::default();
    counts.add(MessageEvent::Purged, removed - bundle.removal.messages);
    shared.count_all(&counts);
    match swept {
        Ok(()) => {
            let is_stuck = removed == bundle.removal.messages;
            bundle.removal = Removal { messages: removed, is_stuck };
        }
        Err(failure) => bundle.refuse_one(&failed(&failure, Changed::Removed(removed))),
    }
}

/// Executes a bundle's next request, a QREDRIVE of many letters.
fn redrive_of(bundle: &mut Bundle, shared: &Shared, link: &mut Link, from: Span, to: Option<Span>) {
    let name = |span: Span| String::from_utf8_lossy(span.of(&bundle.bytes)).into_owned();
    let mut moved = 0;
    let redriven = redrive(link, &name(from), to.map(name), &mut moved);
    match redriven {
        Ok(()) => bundle.answer_integer(moved),
        Err(failure) => bundle.refuse_one(&failed(&failure, Changed::Moved(moved))),
    }
    // Other middlewares are told by the database.
    shared.parked().wake_all();
}

/// Moves dead letters, except those that others are taking, and counts them.
fn redrive(link: &mut Link, from: &str, to: Option<String>, moved: &mut u64) -> Result<(), Failure> {
    link.connect_spare()?;
    tracing::info!("queue '{from}' holds many dead letters, which start anew some at a time");
    let some = "SELECT part, sender, recipient, place, moved AS done \
                FROM posthaste.redrive_some($1, $2, $3, $4, $5, $6)";
    in_parts(link, some, [(&from, Type::TEXT), (&to, Type::TEXT)], FIRST_OF_LETTERS, moved)
}

/// Removes what a queue holds, except what others are taking, and counts it.
fn sweep(link: &mut Link, queue: &str, removed: &mut u64) -> Result<(), Failure> {
    // That the server accepts no further connection does not mean that it is out of reach.
    link.connect_spare()?;
    tracing::info!("queue '{queue}' holds many messages, and is emptied {PART} at a time");
    let some = "SELECT part, sender, recipient, place, removed AS done \
                FROM posthaste.sweep($1, $3, $4, $5, $6, $2)";
    in_parts(link, some, [(&queue, Type::TEXT), (&PART, Type::INT4)], FIRST_OF_ALL, removed)
}

/// Where the next part of a queue's messages begins, as `sweep` and `redrive_some` return it.
struct Cursor {
    /// Part of the table; None: all is done.
    part: Option<i32>,
    sender: i32,
    recipient: i32,
    place: i64,
}

/// Runs a statement for a queue's messages, some in each transaction, from part `first` of the table on, and counts
/// them. The statement takes what it is `about` and where it begins, and returns where the next one does.
fn in_parts(
    link: &mut Link,
    sql: &str,
    about: [Argument<'_>; 2],
    first: i32,
    done: &mut u64,
) -> Result<(), Failure> {
    let mut next = Cursor { part: Some(first), sender: 0, recipient: 0, place: 0 };
    while next.part.is_some() {
        let [one, other] = about.clone();
        let arguments: [Argument<'_>; 6] = [
            one,
            other,
            (&next.part, Type::INT4),
            (&next.sender, Type::INT4),
            (&next.recipient, Type::INT4),
            (&next.place, Type::INT8),
        ];
        let rows = link.ask(sql, &arguments)?;
        let Some(row) = rows.first() else { return Ok(()) };
        *done += u64::try_from(row.get::<_, i32>("done")).unwrap_or(0);
        next = Cursor {
            part: row.get("part"),
            sender: row.get("sender"),
            recipient: row.get("recipient"),
            place: row.get("place"),
        };
    }
    Ok(())
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
    let goes_in_parts = |operation: &Operation| {
        use Operation::{DeleteQueue, PurgeQueue, Redrive};
        matches!(operation, PurgeQueue { .. } | DeleteQueue { .. } | Redrive { .. })
            && operation.queue().is_some_and(|name| name.of(&bundle.bytes) == queue.as_bytes())
    };
    bundle.pending().find(|&place| goes_in_parts(&bundle.requests[place].operation))
}

/// Returns the name of the queue that a bundle's next request names.
fn queue_of(bundle: &Bundle) -> String {
    let name = bundle.next_operation().and_then(Operation::queue);
    name.map_or_else(String::new, |name| String::from_utf8_lossy(name.of(&bundle.bytes)).into_owned())
}
