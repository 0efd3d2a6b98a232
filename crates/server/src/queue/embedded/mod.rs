//! The embedded durable store: the state by which messages are selected is in memory, the messages are in a log.
//!
//! ```text
//!   request ─▶ decide (rules, reading the stock) ─▶ effect ─▶ stock (lanes, leases, counts …)
//!                                                     └─────▶ log (bodies, and what the stock is rebuilt from)
//! ```
//!
//! Every change is an [`effect::Effect`]. Deciding is free to look at anything but changes nothing; an effect is
//! applied to the stock and appended to the log in one step ([`Embedded::record`]); opening the store reads the log
//! and applies the same effects. So the state after a crash is the state before it, up to the last commit, because
//! there is only one piece of code that can produce it.
//!
//! A message that waits to be read costs some 60 bytes of memory, however long its body; a reader's next message is
//! the head of one of a few lanes (see [`lanes`]), so nothing slows down as queues deepen. Segments of the log whose
//! messages are gone are dropped; what still lives in an old one is appended anew (see [`reclaim`]).
//!
//! Rejected: a key-value engine with an index entry per kind of query. Each message then costs three writes in and
//! three out, sorted and compacted later, for state that fits in memory.

mod accounts;
mod ages;
mod apply;
mod changes;
mod decide;
mod discarded;
mod effect;
mod found;
mod lanes;
mod live;
pub mod log;
mod merge;
mod message;
mod opening;
mod plausible;
mod queues;
mod reader;
mod reclaim;
mod record;
mod remembered;
mod replay;
mod selection;
mod space;
mod stock;
mod timers;

use std::path::Path;
use std::sync::Arc;

use posthaste_measure::{Clock, Events};
use posthaste_wire::fault::{Fault, Word};
use posthaste_wire::operation::Operation;

use self::changes::Changes;
use self::effect::Effect;
use self::found::Found;
pub use self::log::OpenError;
use self::log::disk::Disk;
use self::log::{Log, LogCommit, LogError, Options, Purpose, RECORD_OVERHEAD};
use self::message::Home;
use self::reclaim::Reclaim;
use self::record::bounds::REQUEST_BYTES;
use self::replay::Replay;
use self::space::{Space, no_reservation};
use self::stock::Stock;
use super::EVENT_SOURCE;
use super::answer::Answer;
use super::bounds::COPIES_BYTES;
use super::counts::MessageCounts;
use super::receipts::Receipts;
use super::rules::{AccountId, Ask, Commit, Flow, MessageId, Millis, News, Outcome, QueueId, Rules};

/// Options for opening an [`Embedded`] store.
#[derive(Clone, Debug)]
pub struct EmbeddedOptions {
    /// Bytes of selection state beyond which SEND is refused with `FULL`; None: no limit.
    pub memory_limit: Option<u64>,
    /// Size of a log file in bytes.
    pub segment_bytes: u64,
    /// Seed from which receipts are drawn, for tests; None: the system's randomness.
    pub seed: Option<u64>,
    /// Recorder of the store's events, such as a slow sync or a full disk.
    pub events: Events,
    /// Clock for the progress messages while opening; None: nothing is logged.
    pub clock: Option<Clock>,
    /// Number of messages of purged queues that are freed with each commit at least. Few, for tests: so that there
    /// are always some to be freed.
    pub freed_at_once: usize,
    /// Size in bytes from which on a commit takes no more requests.
    pub commit_bytes: u64,
    /// Whether a thread makes files of the log ready ahead of their use; otherwise the request does that needs one.
    pub prepares_ahead: bool,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self {
            memory_limit: None,
            segment_bytes: Options::default().segment_bytes,
            seed: None,
            events: Events::default(),
            clock: None,
            freed_at_once: FREED_AT_ONCE,
            commit_bytes: COMMIT_BYTES,
            prepares_ahead: true,
        }
    }
}

impl EmbeddedOptions {
    fn log(&self) -> Options {
        let Self { segment_bytes, prepares_ahead, .. } = *self;
        Options { segment_bytes, prepares_ahead, ..Options::default() }
    }
}

/// Queues, messages and accounts in a directory.
pub struct Embedded {
    log: Log,
    stock: Stock,
    receipts: Receipts,
    memory_limit: Option<u64>,
    clock: Millis,
    /// When the store was first told the time; None: it was not yet.
    begun: Option<Millis>,
    /// Bytes of records that still fit into the reserved disk space.
    reserved_bytes: u64,
    /// Purpose of that reservation: what adds something may not use space that was left for removals.
    reserved_for: Purpose,
    /// Bytes of records since the last commit was sealed. Sweeps are not in it: they are done just before sealing.
    added: u64,
    /// Number of these records.
    records: usize,
    /// Bytes from which on a commit takes no more requests.
    commit_bytes: u64,
    /// Most bytes that are reserved for a whole batch before its requests run.
    ahead_max: u64,
    /// Bytes that are foreseen for the batch.
    foreseen: u64,
    /// For the rest of this batch, reservations like this one are refused without another try.
    refused: Option<RefusedReservation>,
    /// Fault of the commit that failed, after which nothing can be changed any more.
    failed: Option<Fault>,
    /// Whether something due could not be recorded; it is tried again later.
    stalled: bool,
    /// Whether a sealed frame is on its way to the disk.
    in_flight: bool,
    /// Whether anything was recorded since the last commit was sealed.
    unsettled: bool,
    durable: LastIds,
    /// What was decided, to be shown while all of it is durable.
    counts: MessageCounts,
    /// The counts without what a failed commit may undo.
    durable_counts: MessageCounts,
    reclaim: Reclaim,
    /// Number of messages of purged queues that are freed with each commit at least.
    freed_at_once: usize,
    events: Events,
    space: Space,
    head: Vec<u8>,
    found: Found,
}

/// A reservation to add something, for which there was no space.
struct RefusedReservation {
    /// Bytes from which on a reservation has no better chance.
    bytes_min: u64,
    fault: Fault,
}

/// The highest message and queue numbers given out so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LastIds {
    message: MessageId,
    queue: QueueId,
}

/// One commit of an [`Embedded`] store.
pub struct EmbeddedCommit {
    log: LogCommit,
    /// When the commit was sealed, on the clock of the events.
    sealed_ns: u64,
    last_ids: LastIds,
    counts: MessageCounts,
    error: Option<LogError>,
}

/// Size in bytes from which on a commit takes no more requests. One request may write as much, so a commit stays below
/// twice this size.
const COMMIT_BYTES: u64 = COPIES_BYTES;

/// A sync that takes at least this long is recorded as an event.
const SLOW_SYNC_NS: u64 = 100_000_000;

/// Number of messages of purged queues that are freed with each commit at least, which takes a tenth of a millisecond on
/// a quiet machine.
const FREED_AT_ONCE: usize = 4096;

/// Number of messages that are freed for every record of a commit, so that purges of whatever was sent with it leave no
/// more from one commit to the next.
const FREED_PER_RECORD: usize = 2;

/// Delay in milliseconds before what found no disk space, or could not be read, is tried again.
const RETRY_MS: Millis = 1000;

impl Embedded {
    /// Opens the store in `directory`, or makes one there.
    ///
    /// # Errors
    /// The directory is in use, damaged or of another version, or the disk refused. Nothing was changed.
    pub fn open(directory: &Path, options: EmbeddedOptions) -> Result<Self, OpenError> {
        let mut replay = Replay::begin(options.clock);
        let log = Log::open(directory, options.log(), &mut replay)?;
        Ok(Self::new(log, replay.finish(), options))
    }

    /// Opens a store like [`Embedded::open`], on any disk: for tests.
    ///
    /// # Errors
    /// As for [`Embedded::open`].
    pub fn open_on(disk: Arc<dyn Disk>, options: EmbeddedOptions) -> Result<Self, OpenError> {
        let mut replay = Replay::begin(options.clock);
        let log = Log::open_on(disk, options.log(), &mut replay)?;
        Ok(Self::new(log, replay.finish(), options))
    }

    /// Returns the store that consists of this log and the state read from it.
    fn new(log: Log, mut stock: Stock, options: EmbeddedOptions) -> Self {
        stock.changes = Changes::default();
        Self {
            log,
            receipts: Receipts::new(options.seed),
            memory_limit: options.memory_limit,
            clock: 0,
            begun: None,
            reserved_bytes: 0,
            reserved_for: Purpose::Add,
            added: 0,
            records: 0,
            freed_at_once: options.freed_at_once,
            commit_bytes: options.commit_bytes,
            ahead_max: options.segment_bytes / 8,
            foreseen: 0,
            refused: None,
            failed: None,
            stalled: false,
            in_flight: false,
            unsettled: false,
            durable: last_ids(&stock),
            counts: MessageCounts::default(),
            durable_counts: MessageCounts::default(),
            reclaim: Reclaim::new(options.segment_bytes),
            events: options.events,
            space: Space::default(),
            head: Vec::new(),
            found: Found::default(),
            stock,
        }
    }

    /// Returns the seed with which another store would draw the same receipts from now on; None without a seed.
    #[must_use]
    pub fn receipt_seed(&self) -> Option<u64> {
        self.receipts.seed()
    }

    /// Applies an effect to the state now and appends it to the log for the next commit. Space must be reserved before.
    fn record(&mut self, effect: &Effect<'_>) -> Option<News> {
        if self.is_settled() {
            self.durable_counts = self.counts;
        }
        self.head.clear();
        let tail = effect.encode(&mut self.head);
        let at = self.log.append_parts(&[&self.head, tail]);
        let len = self.head.len() + tail.len();
        self.reserved_bytes = self.reserved_bytes.saturating_sub(len as u64 + RECORD_OVERHEAD);
        self.added += len as u64 + RECORD_OVERHEAD;
        self.records += 1;
        self.unsettled = true;
        let len = u32::try_from(len).expect("records are reserved, and reservations end far below 4 GiB");
        self.stock.apply(effect, Home { at, len })
    }

    /// Returns whether all that was decided is durable.
    fn is_settled(&self) -> bool {
        !self.unsettled && !self.in_flight && self.failed.is_none()
    }

    /// Notes what time it is.
    fn set_clock(&mut self, now: Millis) {
        self.begun.get_or_insert(now);
        self.clock = self.clock.max(now);
    }

    /// Reserves disk space for a request's records, of `bytes` in all. Called once per request, so that all its records
    /// go into one frame.
    fn reserve(&mut self, bytes: u64, purpose: Purpose) -> Result<(), Fault> {
        if bytes <= self.reserved_bytes && self.reserved_for <= purpose {
            return Ok(());
        }
        let is_add = purpose == Purpose::Add;
        if let Some(refused) = self.refused.as_ref().filter(|refused| is_add && bytes >= refused.bytes_min) {
            return Err(refused.fault.clone());
        }
        if let Err(error) = self.log.reserve(bytes, purpose) {
            let fault = no_reservation(&error, purpose, self.stock.remembered.len() > 0);
            if is_add {
                let bytes_min = if self.log.has_no_space(0, purpose) { 0 } else { bytes };
                self.refused = Some(RefusedReservation { bytes_min, fault: fault.clone() });
            }
            return Err(fault);
        }
        (self.reserved_bytes, self.reserved_for) = (bytes, purpose);
        Ok(())
    }

    /// Returns how many bytes a batch of such requests may write, except those that write more than they carry. The cap
    /// keeps many requests from waiting for a new segment for what they may never write.
    fn foresee(&self, requests: usize, request_bytes: usize) -> u64 {
        (requests as u64 * REQUEST_BYTES).min(self.ahead_max) + request_bytes as u64
    }
}

fn last_ids(stock: &Stock) -> LastIds {
    LastIds { message: stock.last_message(), queue: stock.queues.last_id() }
}

fn store_fault(error: &LogError) -> Fault {
    Fault::about(Word::Store, error.to_string())
}

impl Rules for Embedded {
    type Commit = EmbeddedCommit;

    const REPORTED_TIME: Option<&'static str> = Some("sync");

    fn awaited(&self, requests: usize, request_bytes: usize) -> Option<Box<dyn FnOnce() + Send>> {
        if self.failed.is_some() {
            return None;
        }
        let awaited = self.log.awaited(self.foresee(requests, request_bytes), Purpose::Add)?;
        Some(Box::new(|| awaited.wait()))
    }

    fn prepare(&mut self, requests: usize, request_bytes: usize) -> Result<(), Fault> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        (self.refused, self.stalled, self.reserved_bytes) = (None, false, 0);
        self.foreseen = self.foresee(requests, request_bytes);
        // A full disk is no reason to refuse the batch: each request finds out itself whether it needs space. And the
        // cap keeps many requests from taking a new segment for what they may never write.
        let _ = self.reserve(self.foreseen.min(self.ahead_max), Purpose::Add);
        Ok(())
    }

    fn execute(&mut self, now: Millis, ask: Ask<'_>, answer: &mut Answer<'_>, news: &mut Vec<News>) -> Flow {
        self.tick(now, news);
        self.decide(ask, answer, news).unwrap_or_else(|fault| Flow::Done(answer.fault(&fault)))
    }

    fn read(&mut self, now: Millis, ask: Ask<'_>, answer: &mut Answer<'_>) -> Option<Outcome> {
        self.set_clock(now);
        let is_login = matches!(ask.operation, Operation::Login { .. });
        if !is_login && self.stock.due_timer(self.clock).is_some() {
            return None; // what has become due is not in the lanes yet, where readers look
        }
        self.show_durable(ask, answer).unwrap_or_else(|fault| Some(answer.fault(&fault)))
    }

    fn tick(&mut self, now: Millis, news: &mut Vec<News>) {
        self.set_clock(now);
        self.stock.forget(self.clock);
        if self.failed.is_none() {
            self.retry_file();
            self.fire_timers(news);
        }
    }

    fn deadline(&self) -> Option<Millis> {
        if self.failed.is_some() {
            return None;
        }
        let retry = self.clock + RETRY_MS;
        let deferred = self.stock.deferred().map(|_| retry);
        let reclaim = self.next_reclaim().map(|at| if self.stalled { at.max(retry) } else { at });
        let timers = self.stock.next_timer().into_iter().chain(deferred);
        timers.chain(reclaim).chain(self.space.file_due()).min()
    }

    fn has_work_left(&self) -> bool {
        self.failed.is_none() && self.stock.has_discarded()
    }

    fn seal(&mut self) -> Option<EmbeddedCommit> {
        if self.in_flight || self.failed.is_some() {
            return None;
        }
        self.stock.free_discarded(self.freed_at_once.max(FREED_PER_RECORD * self.records));
        self.reclaim_step();
        self.log_disk_space();
        let log = self.log.seal()?;
        self.in_flight = true;
        self.unsettled = false;
        self.stock.changes.seal();
        (self.reserved_bytes, self.added, self.records) = (0, 0, 0);
        let sealed_ns = self.events.now();
        let (last_ids, counts) = (last_ids(&self.stock), self.counts);
        Some(EmbeddedCommit { log, sealed_ns, last_ids, counts, error: None })
    }

    fn is_commit_full(&self) -> bool {
        let to_come = self.foreseen.saturating_sub(self.added);
        let is_enough = || self.added >= self.commit_bytes || self.log.may_have_to_wait(to_come);
        self.failed.is_none() && self.added > 0 && is_enough()
    }

    fn committed(&mut self, commit: EmbeddedCommit, result: &Result<(), Fault>) {
        let EmbeddedCommit { log, sealed_ns, last_ids, counts, error } = commit;
        self.in_flight = false;
        if self.events.are_kept() && self.events.now() - sealed_ns >= SLOW_SYNC_NS {
            self.events.since(sealed_ns, EVENT_SOURCE, "slow sync");
        }
        let result = match result {
            Ok(()) => {
                (self.durable, self.durable_counts) = (last_ids, counts);
                self.stock.changes.settle();
                Ok(())
            }
            Err(fault) => {
                self.failed = Some(fault.clone());
                self.events.note(EVENT_SOURCE, "disk failed");
                tracing::error!("{}", fault.text);
                Err(error.unwrap_or_else(|| LogError::Failed { cause: fault.text.to_string() }))
            }
        };
        self.log.committed(log, &result);
    }

    fn account(&mut self, name: &[u8]) -> Result<AccountId, Fault> {
        if self.stock.accounts.known(name).is_none() {
            self.reserve(REQUEST_BYTES, Purpose::Remove)?;
        }
        Ok(self.log_in(name))
    }

    fn meet_account(&mut self, name: &[u8]) -> Result<AccountId, Fault> {
        if self.stock.accounts.find(name).is_none() {
            self.reserve(REQUEST_BYTES, Purpose::Remove)?;
        }
        Ok(self.meet(name))
    }

    fn trouble(&self) -> Option<String> {
        let failed = self.failed.as_ref().map(|_| "the store failed: see the log, then restart".into());
        failed.or_else(|| self.stuck())
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        let mut figures = vec![
            ("store_failed", u64::from(self.failed.is_some())),
            ("store_full", u64::from(self.space.is_full())),
            ("store_stuck", u64::from(self.stuck().is_some())),
            ("queues", self.stock.queues.len() as u64),
            ("messages", self.stock.queues.messages()),
            ("message_bytes", self.stock.queues.bytes()),
            ("accounts", self.stock.accounts.known_count() as u64),
            ("remembered_answers", self.stock.remembered.len() as u64),
            ("state_bytes", self.stock.bytes()),
            ("log_bytes", self.log.total_bytes()),
            ("log_live_bytes", self.stock.live.total()),
            ("log_segments", self.log.segments() as u64),
            ("unreadable_segments", self.reclaim.unreadable()),
            ("disk_bytes", self.log.disk_bytes()),
        ];
        let counts = if self.is_settled() { &self.counts } else { &self.durable_counts };
        figures.extend(counts.figures());
        figures.extend(self.memory_limit.map(|limit| ("state_limit_bytes", limit)));
        figures
    }
}

impl Commit for EmbeddedCommit {
    fn sync(&mut self) -> Result<(), Fault> {
        self.log.sync().map_err(|error| {
            let fault = store_fault(&LogError::Failed { cause: error.to_string() });
            self.error = Some(error);
            fault
        })
    }
}
