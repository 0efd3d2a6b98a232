//! Workers: each takes what waits, has the store execute it in one go, and sends the answers back.

use std::sync::Arc;
use std::time::Instant;

use posthaste_measure::Clock;
use posthaste_wire::fault::Fault;
use posthaste_wire::operation::Operation;

use super::bundle::{Address, Bundle};
use super::mail::{Mail, Mailbox};
use super::waiting_line::{Shift, Taken, Wait, WaitingLine};
use crate::queue::answer::Answer;
use crate::queue::rules::{Ask, Outcome};

/// A store as the path sees it.
pub trait Store: Send + Sync {
    /// Executes waiting bundles of the batch. Answered ones, and earlier ones whose wait ended, are in `finished`
    /// afterwards, durable where they must be; of a bundle with long answers, or with much to write, only the first
    /// requests may be answered. Bundles left in `waiting` would have kept blocked pops waiting, or made the commit too
    /// large: they are for another call.
    fn run(&self, batch: &mut Batch);

    /// Calls `run` unless another batch is being executed, and returns whether it did.
    fn try_run(&self, batch: &mut Batch) -> bool;

    /// Returns whether `answer` is worth calling for this operation.
    fn may_answer_at_once(&self, operation: &Operation) -> bool;

    /// Answers at once what needs neither a place in a batch nor a commit; None: the request needs one of them.
    fn answer(&self, ask: Ask<'_>, answer: &mut Answer<'_>) -> Option<Outcome>;

    /// Returns when a worker must call `run` even if no request waits.
    fn deadline(&self) -> Option<Instant>;

    /// Notes that a client has left. Ends the wait of its pop, and returns the bundle, answered with nothing; None: the
    /// pop does not wait yet, and will not.
    fn record_departure(&self, address: Address) -> Option<Box<Bundle>>;

    /// Forgets that a client has left, once its bundle is back or its connection has ended otherwise.
    fn forget_departure(&self, address: Address);

    /// Ends all waits when the tier stops: from now on a pop looks, and is answered with nothing where it would wait.
    /// `deadline` says that a worker must call `run` for those that wait.
    fn end_waits(&self);

    /// Returns the number of an account, which is made when the name is new, and counts it among those that have logged
    /// in.
    ///
    /// # Errors
    /// The name is new, and the store cannot take note of it now. Nothing was changed.
    fn account(&self, name: &[u8]) -> Result<u32, Fault>;

    /// Returns the number of an account, which is made when the name is new, whether it has logged in or not.
    ///
    /// # Errors
    /// As `account`.
    fn meet_account(&self, name: &[u8]) -> Result<u32, Fault>;

    /// Tells the store at which line its workers wait, for a store that has news between batches.
    fn attach(&self, _line: &Arc<WaitingLine>) {}

    /// Returns whether every batch goes to another process, perhaps over a network.
    fn is_far(&self) -> bool {
        false
    }

    /// Returns the name of the time that the store reports with every batch (`sync`, `statement`); None: it reports
    /// none.
    fn reported_time(&self) -> Option<&'static str> {
        None
    }

    /// Returns why changes are not accepted at present, with what helps; None: they are accepted.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// Returns figures for INFO and the record.
    fn figures(&self) -> Vec<(&'static str, u64)>;
}

/// The bundles that a worker hands to the store.
#[derive(Default)]
pub struct Batch {
    /// Bundles still to be executed.
    pub waiting: Vec<Box<Bundle>>,
    /// Bundles that are answered, at least as far as one call of the store does.
    pub finished: Vec<Box<Bundle>>,
    /// Stamp at which the store had answered all of `finished`.
    pub answered_at: u64,
    /// The time that the store reports for the batch (named by [`Store::reported_time`]), in nanoseconds; 0: none.
    pub reported_ns: u64,
    /// The worker's shift. A store that only has to encode its answers ends it early, so that another worker may take.
    pub shift: Option<Shift>,
}

impl Batch {
    /// Returns how many requests are to be executed.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.waiting.iter().map(|bundle| bundle.requests.len()).sum()
    }

    /// Returns the total length of these requests in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.waiting.iter().map(|bundle| bundle.bytes.len()).sum()
    }
}

/// One worker.
pub struct Worker {
    line: Arc<WaitingLine>,
    store: Arc<dyn Store>,
    mailboxes: Vec<Arc<Mailbox>>,
    clock: Clock,
    batch: Batch,
    /// Stamp at which the batch was taken.
    taken_at: u64,
    /// Answered bundles that are not posted yet, one list per mailbox.
    outboxes: Vec<Vec<Mail>>,
    /// Bundles that `run_here` answered for the network thread it runs on.
    done_here: Vec<Box<Bundle>>,
}

impl Worker {
    /// Returns a worker that takes from `line`, calls `store` and answers to `mailboxes`, one per network thread.
    #[must_use]
    pub fn new(
        line: Arc<WaitingLine>,
        store: Arc<dyn Store>,
        mailboxes: Vec<Arc<Mailbox>>,
        clock: Clock,
    ) -> Self {
        let outboxes = mailboxes.iter().map(|_| Vec::new()).collect();
        let (batch, done_here) = (Batch::default(), Vec::new());
        Self { line, store, mailboxes, clock, batch, taken_at: 0, outboxes, done_here }
    }

    /// Works until the line is closed and empty, taking at most `requests` at once.
    pub fn run(mut self, requests: usize) {
        loop {
            let deadline = self.store.deadline();
            if self.line.take(requests, deadline, &mut self.batch.waiting) == Taken::Closed {
                return;
            }
            self.run_batch();
        }
    }

    /// Takes like `run`, but does not wait, for a worker that is driven by hand.
    ///
    /// # Errors
    /// The wait that `run` would begin.
    pub fn try_take(&mut self, requests: usize) -> Result<Taken, Wait> {
        self.line.try_take(requests, self.store.deadline(), &mut self.batch.waiting)
    }

    /// Has the store execute what was taken, and sends the answers back.
    pub fn run_batch(&mut self) {
        self.batch.shift =
            (!self.batch.waiting.is_empty()).then(|| Shift::of(&self.line, self.batch.waiting.len()));
        self.stamp_batch();
        loop {
            self.store.run(&mut self.batch);
            self.batch.shift = None;
            self.send_answers(None);
            if self.batch.waiting.is_empty() {
                return;
            }
            self.batch.reported_ns = 0;
        }
    }

    /// Executes `bundles` on the network thread with the number `thread`, which calls this because no other client waits
    /// for it. If the store is busy they stay as they are. The thread fetches its answered bundles with
    /// `next_done_here`.
    pub fn run_here(&mut self, bundles: &mut Vec<Box<Bundle>>, thread: usize) {
        std::mem::swap(&mut self.batch.waiting, bundles);
        self.stamp_batch();
        if self.store.try_run(&mut self.batch) {
            self.send_answers(Some(thread));
            if let Some(deadline) = self.store.deadline() {
                self.line.wake_by(deadline);
            }
        }
        std::mem::swap(&mut self.batch.waiting, bundles);
    }

    /// Returns the next bundle that `run_here` answered for its own thread.
    pub fn next_done_here(&mut self) -> Option<Box<Bundle>> {
        self.done_here.pop()
    }

    fn stamp_batch(&mut self) {
        self.batch.reported_ns = 0;
        self.taken_at = self.clock.stamp();
        for bundle in self.batch.waiting.iter_mut().filter(|bundle| !bundle.awaits_next_piece()) {
            bundle.stamp_all(|stamps| {
                stamps.dequeued = self.taken_at;
                stamps.sent = self.taken_at;
            });
        }
    }

    /// Posts the answered bundles to their network threads; those of the thread `here` are kept for it.
    fn send_answers(&mut self, here: Option<usize>) {
        for mut bundle in self.batch.finished.drain(..) {
            // Pops of an earlier batch may end with this one: their wait is not measured. The stamps of a list in
            // pieces stay.
            if !bundle.awaits_next_piece() {
                bundle.end_wait(self.taken_at);
            }
            bundle.stamp_all(|stamps| stamps.answered = self.batch.answered_at);
            bundle.reported_ns = self.batch.reported_ns;
            let thread = bundle.address.thread;
            if here == Some(thread) {
                self.done_here.push(bundle);
            } else {
                self.outboxes[thread].push(Mail::Answered(bundle));
            }
        }
        for (mailbox, mail) in self.mailboxes.iter().zip(&mut self.outboxes) {
            mailbox.post_all(mail);
        }
    }
}
