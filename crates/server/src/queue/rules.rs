//! What every store of the queue tier must do, as one trait over one request at a time.
//!
//! A store in this process (memory, embedded) is a plain state machine: it takes the time and one request, and returns
//! an answer and news. It knows no sockets, threads or timers; [`Rules::deadline`] says when it needs the time
//! again. Durability is separate: [`Rules::seal`] returns what must reach the disk before any of the answers since
//! the last seal may be sent.
//!
//! Two promises tie the calls together:
//! - `execute` sees every earlier `execute`, committed or not: its answer is sent only after the commit.
//! - `read` answers at once, so it never shows what a crash could still undo: neither a message that is not durable
//!   yet, nor the lack of one that is just being taken.

use posthaste_wire::fault::Fault;
use posthaste_wire::operation::Operation;
use posthaste_wire::span::Span;

use super::answer::{Answer, Headers};

/// Milliseconds since 1970, never going back within a process.
pub type Millis = u64;

/// Returns when a time of `ms` that begins now is over. Part of the current millisecond has passed already: without one
/// more, the time would end before a client's measurement of it.
#[must_use]
pub const fn after(now: Millis, ms: Millis) -> Millis {
    now.saturating_add(ms).saturating_add(1)
}

/// An account's number: 1, 2, …
pub type AccountId = u32;

/// A queue's number: 1, 2, … never used twice.
pub type QueueId = u64;

/// A message's number: grows with every send across all queues. Below 2^53, so JavaScript clients keep every digit.
pub type MessageId = u64;

/// How a request ended, for counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done.
    Ok,
    /// There was nothing to read.
    Null,
    /// Refused; the answer is an error.
    Error,
}

/// What `execute` did with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The answer is written.
    Done(Outcome),
    /// A pop with BLOCK found nothing. No answer was written, and at most a number was given to the sender that it
    /// names. It is to be executed again when news matches.
    Waits(Interest),
}

/// What a waiting pop waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Interest {
    /// The reader.
    pub reader: AccountId,
    /// Only messages of this queue; None: of any.
    pub queue: Option<QueueId>,
    /// Only messages from this sender; None: from anyone.
    pub sender: Option<AccountId>,
    /// No messages that the reader sent.
    pub not_own: bool,
    /// Only messages to anyone.
    pub broadcast: bool,
}

/// An event that may end the wait of pops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum News {
    /// A message can now be read.
    Available {
        /// Its queue.
        queue: QueueId,
        /// Its sender.
        sender: AccountId,
        /// The account that may read it; None: any.
        recipient: Option<AccountId>,
    },
    /// A queue was deleted; pops that wait on it get `NOQUEUE`.
    QueueGone(QueueId),
}

impl Interest {
    /// Returns whether the news may end the wait.
    #[must_use]
    pub fn matches(&self, news: News) -> bool {
        match news {
            News::QueueGone(queue) => self.queue == Some(queue),
            News::Available { queue, sender, recipient } => {
                self.queue.is_none_or(|q| q == queue)
                    && self.sender.is_none_or(|s| s == sender)
                    && !(self.not_own && sender == self.reader)
                    && match recipient {
                        None => true,
                        Some(account) => !self.broadcast && account == self.reader,
                    }
            }
        }
    }
}

/// One request as a store sees it.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The account that asks, by the number that the store gave it.
    pub account: AccountId,
    /// The request itself.
    pub operation: &'a Operation,
    /// The bytes that the operation's spans refer to.
    pub bytes: &'a [u8],
}

impl<'a> Ask<'a> {
    /// Returns the bytes of one of the operation's spans.
    #[must_use]
    pub fn bytes_of(self, span: Span) -> &'a [u8] {
        span.of(self.bytes)
    }

    /// Returns names and values of headers in the form in which stores keep them, see [`Headers`].
    #[must_use]
    pub fn headers(self, pairs: &[(Span, Span)]) -> Vec<u8> {
        let mut stored = Vec::new();
        for (name, value) in pairs {
            Headers::push(&mut stored, self.bytes_of(*name), self.bytes_of(*value));
        }
        stored
    }
}

/// A store that decides one request at a time.
pub trait Rules: Send {
    /// What must reach the disk; see [`Commit`].
    type Commit: Commit;

    /// What this store's commit is called in measurements; None: a commit takes no time.
    const REPORTED_TIME: Option<&'static str> = None;

    /// Whether `read` answers every request: such a store needs no worker (the mock).
    const NEEDS_NO_WORKER: bool = false;

    /// Returns what a run of so many requests and bytes would wait for, to be waited for without holding the store;
    /// None: nothing.
    fn awaited(&self, requests: usize, request_bytes: usize) -> Option<Box<dyn FnOnce() + Send>>;

    /// Called before a run of `execute` whose requests hold `request_bytes` bytes in all, `requests` in number.
    /// An error says that nothing that changes the store can be accepted now (the disk is full, or a sync failed);
    /// the caller answers it for each such request and still executes the others.
    ///
    /// # Errors
    /// `STORE` with what to do.
    fn prepare(&mut self, requests: usize, request_bytes: usize) -> Result<(), Fault>;

    /// Decides one request. Writes exactly one answer unless it says [`Flow::Waits`].
    fn execute(&mut self, now: Millis, ask: Ask<'_>, answer: &mut Answer<'_>, news: &mut Vec<News>) -> Flow;

    /// Answers a request that changes nothing and need not wait for a commit (PEEK, QREADABLE, QINFO, QBROWSE,
    /// LOGIN of an account already durable), from what is durable. None: it must be executed. It is not asked for
    /// what comes in pieces (QLIST, ACCOUNTS), unless it answers everything.
    fn read(&mut self, now: Millis, ask: Ask<'_>, answer: &mut Answer<'_>) -> Option<Outcome>;

    /// Lets time pass: delays and leases run out, messages expire. Cheap when nothing is due.
    fn tick(&mut self, now: Millis, news: &mut Vec<News>);

    /// Returns when `tick` is next wanted; None: only requests change anything.
    fn deadline(&self) -> Option<Millis>;

    /// Returns whether the last seal left work that nobody waits for. Each seal does a piece of it, and the next one
    /// should come soon, but not at once: so threads that wait for the store get it in between.
    fn has_work_left(&self) -> bool;

    /// Returns what must be written for the executions since the last seal; None: they changed nothing.
    fn seal(&mut self) -> Option<Self::Commit>;

    /// Returns whether the next seal should come before anything else is decided: what was decided since the last one
    /// is much, all of it held in memory, or what comes next would have to wait for the disk. Not before anything was
    /// decided.
    fn is_commit_full(&self) -> bool;

    /// Notes that the commit has ended. After an error the store accepts no more changes until it is opened again.
    fn committed(&mut self, commit: Self::Commit, result: &Result<(), Fault>);

    /// Returns the account's number, made when the name is new, and counts it among those that have logged in; used for
    /// the accounts file. Durable with the next commit.
    ///
    /// # Errors
    /// `STORE`: the name is new and cannot be recorded now. Nothing was changed.
    fn account(&mut self, name: &[u8]) -> Result<AccountId, Fault>;

    /// Returns the account's number, made when the name is new, whether it has logged in or not; used for `default`.
    /// Durable with the next commit.
    ///
    /// # Errors
    /// As `account`.
    fn meet_account(&mut self, name: &[u8]) -> Result<AccountId, Fault>;

    /// Returns why nothing is accepted at present, not even what would help, with what does; None: something is.
    fn trouble(&self) -> Option<String>;

    /// Returns figures for INFO and the record, each with its name (unit included) and value.
    fn figures(&self) -> Vec<(&'static str, u64)>;
}

/// Work for the disk, done without holding the store.
pub trait Commit: Send {
    /// Writes and syncs.
    ///
    /// # Errors
    /// `STORE`: it is unknown how much reached the disk.
    fn sync(&mut self) -> Result<(), Fault>;
}
