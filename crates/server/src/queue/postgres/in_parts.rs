//! A request that is done in parts, each in a transaction of its own: a QPURGE or QDELETE of a large queue, or a QREDRIVE
//! of many dead letters. See sql/0016_large_queues.sql.

use std::time::{Duration, Instant};

use posthaste_wire::fault::Word;
use posthaste_wire::operation::Operation;
use posthaste_wire::span::Span;
use tokio_postgres::types::Type;

use super::failure::Failure;
use super::link::{ANSWER_WITHIN, Argument, Link, Server};
use super::locked_queues::{kept_locked, locked_queues};
use super::names::text;
use super::shared::Shared;
use super::undone::{Changed, failed, undone};
use crate::path::bundle::Bundle;
use crate::path::progress::Removal;
use crate::queue::EVENT_SOURCE;
use crate::queue::counts::{MessageCounts, MessageEvent};
use crate::queue::faults;

/// Messages that a part removes. That takes about a tenth of a second, for which other users of the queue may wait.
const PART: i32 = 10_000;

/// For how long a request goes on before another one has its turn; as long as a part may wait for a locked row.
const TURN: Duration = Duration::from_secs(1);

/// First part of the table for messages of all kinds, and for dead letters, as `sweep` and `letters_after` count them.
const FIRST_OF_ALL: i32 = 0;
const FIRST_OF_LETTERS: i32 = 2;

/// A request that is done in parts: the next one of a bundle.
pub(super) struct InParts {
    bundle: Box<Bundle>,
    work: Work,
    /// The server that did the parts so far; None: there was none yet.
    server: Option<Server>,
    /// Where the next part begins, at that server.
    next: Cursor,
    /// How many messages the parts so far have removed or moved.
    done: u64,
    /// When it began, in the time of events.
    begun_ns: u64,
}

enum Work {
    /// Removes what a queue holds, except what others are taking. What is left then is left to the request itself.
    Empty { queue: String },
    /// Moves dead letters, except those that others are taking.
    Redrive { from: String, to: Option<String> },
}

/// Where the next part of a queue's messages begins, as `sweep` and `redrive_some` return it.
struct Cursor {
    /// Part of the table; None: all is done.
    part: Option<i32>,
    sender: i32,
    recipient: i32,
    place: i64,
}

impl Cursor {
    fn arguments(&self) -> [Argument<'_>; 4] {
        [
            (&self.part, Type::INT4),
            (&self.sender, Type::INT4),
            (&self.recipient, Type::INT4),
            (&self.place, Type::INT8),
        ]
    }
}

/// How a request ended whose parts are done, or cannot be done to the end.
pub(super) enum End {
    /// There is no more to do.
    Done,
    /// The queue of this name is gone.
    Gone(String),
    /// Another transaction has kept the row of this queue locked for too long.
    Locked(String),
    /// A part has failed.
    Failed(Failure),
}

impl InParts {
    /// Returns the next request of a bundle, to be done in parts.
    pub(super) fn new(bundle: Box<Bundle>, shared: &Shared) -> Self {
        let name = |span: Span| text(span.of(&bundle.bytes)).to_owned();
        let work = match bundle.next_operation() {
            Some(&Operation::Redrive { from, to, .. }) => {
                Work::Redrive { from: name(from), to: to.map(name) }
            }
            operation => {
                let queue = operation.and_then(Operation::queue).map(name).unwrap_or_default();
                Work::Empty { queue }
            }
        };
        let first = match &work {
            Work::Empty { queue } => {
                tracing::info!("queue '{queue}' holds many messages, and is emptied {PART} at a time");
                FIRST_OF_ALL
            }
            Work::Redrive { from, .. } => {
                tracing::info!("queue '{from}' holds many dead letters, which start anew some at a time");
                FIRST_OF_LETTERS
            }
        };
        let next = Cursor { part: Some(first), sender: 0, recipient: 0, place: 0 };
        Self { bundle, work, server: None, next, done: 0, begun_ns: shared.reach.events.now() }
    }

    /// Does the next parts, for as long as a turn takes. Returns how the request ended; None: it needs another turn.
    pub(super) fn go_on(&mut self, link: &mut Link) -> Option<End> {
        let begun = Instant::now();
        while begun.elapsed() < TURN {
            if self.next.part.is_none() {
                return Some(End::Done);
            }
            match self.do_part(link) {
                Ok(None) => self.bundle.progress.row_wait_since = None,
                Ok(Some(gone)) => return Some(End::Gone(gone)),
                Err(failure) => match locked_queues(&failure).lines().next() {
                    Some(queue) => return self.wait_for(queue),
                    None => return Some(End::Failed(failure)),
                },
            }
        }
        None
    }

    /// Does one part; returns the name of a queue that is gone, if that is why nothing was done.
    fn do_part(&mut self, link: &mut Link) -> Result<Option<String>, Failure> {
        // That the server accepts no further connection does not mean that it is out of reach.
        if !link.is_open() {
            link.connect_spare()?;
        }
        let server = match self.server {
            Some(server) => server,
            None => *self.server.insert(link.server()?),
        };
        let [part, sender, recipient, place] = self.next.arguments();
        let rows = match &self.work {
            Work::Empty { queue } => link.ask_of(
                server,
                "SELECT part, sender, recipient, place, removed AS done, null::text AS missing \
                 FROM posthaste.sweep($1, $2, $3, $4, $5, $6)",
                &[(queue, Type::TEXT), part, sender, recipient, place, (&PART, Type::INT4)],
            ),
            Work::Redrive { from, to } => link.ask_of(
                server,
                "SELECT part, sender, recipient, place, moved AS done, missing \
                 FROM posthaste.redrive_some($1, $2, $3, $4, $5, $6)",
                &[(from, Type::TEXT), (to, Type::TEXT), part, sender, recipient, place],
            ),
        }?;
        let Some(row) = rows.first() else { return Ok(None) };
        self.done += u64::try_from(row.get::<_, i32>("done")).unwrap_or(0);
        self.next = Cursor {
            part: row.get("part"),
            sender: row.get("sender"),
            recipient: row.get("recipient"),
            place: row.get("place"),
        };
        Ok(row.get("missing"))
    }

    /// Notes that the row of a queue is locked: others have their turn, and then it is tried again.
    fn wait_for(&mut self, queue: &str) -> Option<End> {
        let since = self.bundle.progress.row_wait_since.get_or_insert_with(Instant::now);
        (since.elapsed() > ANSWER_WITHIN).then(|| End::Locked(queue.to_owned()))
    }

    /// Ends the request: it is answered, or left with what it has done so far, to be tried again for the rest.
    pub(super) fn end(self, how: End, shared: &Shared) -> Box<Bundle> {
        let Self { mut bundle, work, done, begun_ns, .. } = self;
        match work {
            Work::Empty { .. } => {
                shared.reach.events.since(begun_ns, EVENT_SOURCE, "large queue emptied");
                let mut counts = MessageCounts::default();
                counts.add(MessageEvent::Purged, done);
                shared.count_all(&counts);
                end_emptying(&mut bundle, how, done);
            }
            Work::Redrive { from, .. } => {
                end_redrive(&mut bundle, how, done, &from);
                // Other middlewares are told by the database.
                shared.parked().wake_all();
            }
        }
        bundle
    }
}

/// Ends a request that has `removed` so many messages of a queue.
fn end_emptying(bundle: &mut Bundle, how: End, removed: u64) {
    let messages = bundle.progress.removal.messages + removed;
    match how {
        End::Done | End::Gone(_) => bundle.progress.removal = Removal { messages, is_stuck: removed == 0 },
        End::Locked(queue) => bundle.refuse_one(&kept_locked(&queue, Changed::Removed(messages))),
        End::Failed(failure) => bundle.refuse_one(&failed(&failure, Changed::Removed(messages))),
    }
}

/// Ends a request that has `moved` so many dead letters of the queue `from`.
fn end_redrive(bundle: &mut Bundle, how: End, moved: u64, from: &str) {
    let changed = Changed::Moved(moved);
    let fault = match how {
        End::Done => return bundle.answer_integer(moved),
        End::Gone(queue) if moved == 0 => faults::no_queue(queue.as_bytes()),
        // The other letters went with it.
        End::Gone(queue) if queue == from => return bundle.answer_integer(moved),
        End::Gone(queue) => undone(Word::Store, format!("queue '{queue}' was deleted"), changed),
        End::Locked(queue) => kept_locked(&queue, changed),
        End::Failed(failure) => failed(&failure, changed),
    };
    bundle.refuse_one(&fault);
}
