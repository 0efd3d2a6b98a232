//! Workers: each takes what waits, has the store do it in one go, and sends the answers home.

use std::sync::Arc;
use std::time::Instant;

use posthaste_measure::Clock;
use posthaste_wire::operation::Operation;

use super::bundle::{Address, Bundle};
use super::mailbox::{Mail, Mailbox};
use super::waiting_line::{Taken, WaitingLine};
use crate::queue::answer::Answer;
use crate::queue::rules::{Ask, Outcome};

/// A store as the path sees it.
pub trait Store: Send + Sync {
    /// Executes every waiting bundle of the batch; those answered, and earlier ones whose wait ended, stand in
    /// `finished` afterwards, durable where they must be.
    fn run(&self, batch: &mut Batch);

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
    fn account(&self, name: &[u8]) -> u32;

    /// Figures for INFO and the record.
    fn figures(&self) -> Vec<(&'static str, u64)>;
}

/// What a worker carries.
#[derive(Default)]
pub struct Batch {
    /// Still to be executed.
    pub waiting: Vec<Box<Bundle>>,
    /// Answered.
    pub finished: Vec<Box<Bundle>>,
    /// When the store had answered all of it.
    pub answered_at: u64,
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
    /// Where requests wait.
    pub line: Arc<WaitingLine>,
    /// What does them.
    pub store: Arc<dyn Store>,
    /// Where answers go, by network thread.
    pub mailboxes: Vec<Arc<Mailbox>>,
    /// Most requests taken at once.
    pub batch_requests: usize,
    /// The time of the stamps.
    pub clock: Clock,
}

impl Worker {
    /// Works until the line is closed and empty.
    pub fn run(self) {
        let mut batch = Batch::default();
        let mut post: Vec<Vec<Mail>> = self.mailboxes.iter().map(|_| Vec::new()).collect();
        loop {
            let until = self.store.deadline();
            if self.line.take(self.batch_requests, until, &mut batch.waiting) == Taken::Closed {
                return;
            }
            let dequeued = self.clock.now();
            for bundle in &mut batch.waiting {
                bundle.stamp(|stamps| {
                    stamps.dequeued = dequeued;
                    stamps.sent = dequeued;
                });
            }
            self.store.run(&mut batch);
            self.send_home(&mut batch, &mut post);
        }
    }

    fn send_home(&self, batch: &mut Batch, post: &mut [Vec<Mail>]) {
        for mut bundle in batch.finished.drain(..) {
            bundle.stamp(|stamps| stamps.answered = batch.answered_at);
            post[bundle.address.thread].push(Mail::Answered(bundle));
        }
        for (mailbox, mail) in self.mailboxes.iter().zip(post) {
            mailbox.post_all(mail);
        }
    }
}
