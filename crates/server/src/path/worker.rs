//! Workers: each takes what waits, has the store do it in one go, and sends the answers home.

use std::sync::Arc;
use std::time::Instant;

use posthaste_measure::Clock;
use posthaste_wire::fault::Fault;
use posthaste_wire::operation::Operation;

use super::bundle::{Address, Bundle};
use super::mail::{Mail, Mailbox};
use super::waiting_line::{Pause, Shift, Taken, WaitingLine};
use crate::queue::answer::Answer;
use crate::queue::rules::{Ask, Outcome};

/// A store as the path sees it.
pub trait Store: Send + Sync {
    /// Executes waiting bundles of the batch; those answered, and earlier ones whose wait ended, stand in
    /// `finished` afterwards, durable where they must be. Of one with long answers, or with much to write, only the first requests may be answered.
    /// What is left waiting would have kept the others waiting, or made the commit too large: it is for another call.
    fn run(&self, batch: &mut Batch);

    /// The same unless another batch is being executed; whether it was done.
    fn try_run(&self, batch: &mut Batch) -> bool;

    /// Whether `answer` is worth asking for this operation.
    fn at_once(&self, operation: &Operation) -> bool;

    /// Answers at once what needs neither a place in a batch nor a commit; None: it does need one.
    fn answer(&self, ask: Ask<'_>, answer: &mut Answer<'_>) -> Option<Outcome>;

    /// When a worker must come even if nothing waits.
    fn deadline(&self) -> Option<Instant>;

    /// A client left while its pop was waiting: the bundle, answered with nothing.
    fn leave(&self, address: Address) -> Option<Box<Bundle>>;

    /// The bundle of a client that left is back, or its connection has ended otherwise.
    fn forget(&self, address: Address);

    /// The number of an account, made when the name is new.
    ///
    /// # Errors
    /// The name is new, and the store cannot take note of it now. Nothing was changed.
    fn account(&self, name: &[u8]) -> Result<u32, Fault>;

    /// The line that workers of this store wait at, for a store that has news between batches.
    fn attach(&self, _line: &Arc<WaitingLine>) {}

    /// Whether a batch is a journey of its own: to another process, over a network perhaps.
    fn is_far(&self) -> bool {
        false
    }

    /// What the time is that it tells with every batch: `sync`, `statement`; None: it tells none.
    fn tells(&self) -> Option<&'static str> {
        None
    }

    /// Why changes are not accepted at present, in a sentence that says what helps; None: they are.
    fn trouble(&self) -> Option<String> {
        let failed = self.figures().iter().any(|&(name, value)| name == "store_failed" && value != 0);
        failed.then(|| "the store failed: see the log, then restart".into())
    }

    /// Figures for INFO and the record.
    fn figures(&self) -> Vec<(&'static str, u64)>;
}

/// What a worker carries.
#[derive(Default)]
pub struct Batch {
    /// Still to be executed.
    pub waiting: Vec<Box<Bundle>>,
    /// Answered, or as far as may be for now.
    pub finished: Vec<Box<Bundle>>,
    /// When the store had answered all of it.
    pub answered_at: u64,
    /// What the store tells of the time it needed (its figure is named by [`Store::tells`]), in nanoseconds; 0: nothing.
    pub told_ns: u64,
    /// A store that has its answers, but must still put them into words, ends the shift, and another worker may come.
    pub shift: Option<Shift>,
}

impl Batch {
    /// How many requests are to be executed.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.waiting.iter().map(|bundle| bundle.requests.len()).sum()
    }

    /// How many bytes they have.
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
    /// When the batch was.
    taken_at: u64,
    post: Vec<Vec<Mail>>,
    here: Vec<Box<Bundle>>,
}

impl Worker {
    /// A worker that takes from `line`, asks `store` and answers to `mailboxes`, one for each network thread.
    #[must_use]
    pub fn new(
        line: Arc<WaitingLine>,
        store: Arc<dyn Store>,
        mailboxes: Vec<Arc<Mailbox>>,
        clock: Clock,
    ) -> Self {
        let post = mailboxes.iter().map(|_| Vec::new()).collect();
        let (batch, here) = (Batch::default(), Vec::new());
        Self { line, store, mailboxes, clock, batch, taken_at: 0, post, here }
    }

    /// Works until the line is closed and empty, taking at most `requests` at once.
    pub fn run(mut self, requests: usize) {
        loop {
            let until = self.store.deadline();
            if self.line.take(requests, until, &mut self.batch.waiting) == Taken::Closed {
                return;
            }
            self.work();
        }
    }

    /// For whoever drives the worker by hand: takes like `run`, but does not wait.
    ///
    /// # Errors
    /// How it would wait.
    pub fn try_take(&mut self, requests: usize) -> Result<Taken, Pause> {
        self.line.try_take(requests, self.store.deadline(), &mut self.batch.waiting)
    }

    /// Has the store do what was taken, and sends the answers home.
    pub fn work(&mut self) {
        self.batch.shift =
            (!self.batch.waiting.is_empty()).then(|| Shift::of(&self.line, self.batch.waiting.len()));
        self.stamp();
        loop {
            self.store.run(&mut self.batch);
            self.batch.shift = None;
            self.send_home(None);
            if self.batch.waiting.is_empty() {
                return;
            }
            self.batch.told_ns = 0;
        }
    }

    /// For the network thread `thread` when nobody else waits for it: does `bundles` here and now, unless the store
    /// is busy; then they are left as they are. Those of the thread itself are to be had from `next_done_here`.
    pub fn do_here(&mut self, bundles: &mut Vec<Box<Bundle>>, thread: usize) {
        std::mem::swap(&mut self.batch.waiting, bundles);
        self.stamp();
        if self.store.try_run(&mut self.batch) {
            self.send_home(Some(thread));
            if let Some(deadline) = self.store.deadline() {
                self.line.come_by(deadline);
            }
        }
        std::mem::swap(&mut self.batch.waiting, bundles);
    }

    /// What was done here and is not for another thread.
    pub fn next_done_here(&mut self) -> Option<Box<Bundle>> {
        self.here.pop()
    }

    fn stamp(&mut self) {
        self.batch.told_ns = 0;
        self.taken_at = self.clock.stamp();
        for bundle in self.batch.waiting.iter_mut().filter(|bundle| !bundle.goes_on()) {
            bundle.stamp(|stamps| {
                stamps.dequeued = self.taken_at;
                stamps.sent = self.taken_at;
            });
        }
    }

    fn send_home(&mut self, here: Option<usize>) {
        for mut bundle in self.batch.finished.drain(..) {
            // Of an earlier batch are pops that waited for what this one brought; a list that goes on has been worked at.
            if !bundle.goes_on() {
                bundle.end_wait(self.taken_at);
            }
            bundle.stamp(|stamps| stamps.answered = self.batch.answered_at);
            bundle.told_ns = self.batch.told_ns;
            let thread = bundle.address.thread;
            if here == Some(thread) {
                self.here.push(bundle);
            } else {
                self.post[thread].push(Mail::Answered(bundle));
            }
        }
        for (mailbox, mail) in self.mailboxes.iter().zip(&mut self.post) {
            mailbox.post_all(mail);
        }
    }
}
