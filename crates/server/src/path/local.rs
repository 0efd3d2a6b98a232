//! A store in this process: runs a batch through the rules, serves the blocked pops, commits.
//!
//! The store is locked while requests are decided and unlocked during the write to disk, so that network threads can
//! answer reads that need no commit. Batches run one at a time: the next begins when the frame of the last one is on
//! disk.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use posthaste_measure::{Clock, lock};
use posthaste_wire::fault::Fault;
use posthaste_wire::operation::Operation;

use super::bundle::{Address, Bundle};
use super::limits::BUNDLE_ANSWER_BYTES;
use super::waiters::{ParkedPop, Ticket, Waiters};
use super::worker::{Batch, Store};
use crate::queue::answer::Answer;
use crate::queue::rules::{Ask, Commit, Flow, Millis, News, Outcome, Rules};
use crate::time::Time;

/// Pause before the store is called to go on with what it has left. A lock that is not fair would otherwise be taken
/// again and again before a thread that waits for it has woken up.
const PAUSE_NS: u64 = 1_000_000;

/// A store of this process, shared by workers and network threads.
pub struct Local<R: Rules> {
    rules: Mutex<R>,
    waiters: Mutex<Waiters>,
    /// Locked while a batch runs. Holds the news that the last commit had no room for.
    pending_news: Mutex<Vec<News>>,
    /// Whether the last commit left news that was not given to the blocked pops.
    has_pending_news: AtomicBool,
    /// When the store is called to go on with what it has left, on the clock; 0: it has left nothing.
    next_piece_ns: AtomicU64,
    time: Time,
    clock: Clock,
}

impl<R: Rules> Local<R> {
    /// Shares a store.
    pub fn new(rules: R, time: Time, clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            rules: Mutex::new(rules),
            waiters: Mutex::default(),
            pending_news: Mutex::default(),
            has_pending_news: AtomicBool::new(false),
            next_piece_ns: AtomicU64::new(0),
            time,
            clock,
        })
    }

    fn rules(&self) -> MutexGuard<'_, R> {
        lock(&self.rules)
    }

    fn waiters(&self) -> MutexGuard<'_, Waiters> {
        lock(&self.waiters)
    }

    /// Returns when the store is called to go on with what it has left; None: it has left nothing.
    fn next_piece(&self) -> Option<Instant> {
        let at_ns = self.next_piece_ns.load(Ordering::Acquire);
        let left = || Duration::from_nanos(at_ns.saturating_sub(self.clock.now()));
        (at_ns > 0).then(|| self.clock.instant() + left())
    }

    /// Runs a batch; the caller has locked the news, so that no other batch runs.
    fn run_locked(&self, batch: &mut Batch, news: &mut Vec<News>) {
        let mut rules = self.rules();
        let requests = batch.requests() + self.waiters().len();
        if let Some(wait) = rules.awaited(requests, batch.bytes()) {
            drop(rules);
            wait();
            rules = self.rules();
        }
        let mut waiters = self.waiters();
        let mut run = BatchRun {
            now: self.time.millis(),
            stamp: self.clock.stamp(),
            may_change: rules.prepare(requests, batch.bytes()),
            rules: &mut *rules,
            waiters: &mut waiters,
            news,
            finished: &mut batch.finished,
        };
        run.tick();
        if !run.has_pending_news() {
            run.expire_waits();
        }
        let mut remaining = Vec::new();
        for (index, bundle) in batch.waiting.drain(..).enumerate() {
            // The first bundle runs even if the tick alone filled the commit, but never before blocked pops that
            // have news.
            if run.has_pending_news() || index > 0 && run.rules.is_commit_full() {
                remaining.push(bundle);
            } else {
                run.run_bundle(bundle);
            }
        }
        batch.waiting.append(&mut remaining);
        self.has_pending_news.store(run.has_pending_news(), Ordering::Release);
        let sealed = rules.seal();
        let has_work_left = rules.has_work_left();
        drop(waiters);
        drop(rules);
        let next_piece_ns = if has_work_left { self.clock.now() + PAUSE_NS } else { 0 };
        self.next_piece_ns.store(next_piece_ns, Ordering::Release);
        let decided = self.clock.stamp();
        let has_synced = sealed.is_some();
        self.commit(sealed, &mut batch.finished);
        batch.answered_at = self.clock.stamp();
        batch.reported_ns = if has_synced { batch.answered_at - decided } else { 0 };
    }

    /// Makes the batch durable. If that fails, all its requests and all blocked pops are answered with the error: no
    /// client is told of a success, and none waits for a message that will never come.
    fn commit(&self, commit: Option<R::Commit>, finished: &mut Vec<Box<Bundle>>) {
        let Some(mut commit) = commit else { return };
        let result = commit.sync();
        self.rules().committed(commit, &result);
        if let Err(fault) = result {
            finished.extend(self.waiters().take_all().into_iter().map(|(_, pop)| pop.bundle));
            for bundle in finished {
                bundle.refuse_all(&fault);
            }
        }
    }
}

impl<R: Rules> Store for Local<R> {
    fn run(&self, batch: &mut Batch) {
        let mut news = lock(&self.pending_news);
        self.run_locked(batch, &mut news);
    }

    fn try_run(&self, batch: &mut Batch) -> bool {
        let Ok(mut news) = self.pending_news.try_lock() else { return false };
        self.run_locked(batch, &mut news);
        true
    }

    fn may_answer_at_once(&self, operation: &Operation) -> bool {
        let is_short_read = operation.is_read() && !operation.comes_in_pieces();
        is_short_read || matches!(operation, Operation::Login { .. }) || R::NEEDS_NO_WORKER
    }

    fn answer(&self, ask: Ask<'_>, answer: &mut Answer<'_>) -> Option<Outcome> {
        self.rules().read(self.time.millis(), ask, answer)
    }

    fn deadline(&self) -> Option<Instant> {
        if self.has_pending_news.load(Ordering::Acquire) {
            return Some(self.clock.instant());
        }
        let rules = self.rules().deadline();
        let waiters = self.waiters().deadline();
        let due = rules.into_iter().chain(waiters).min().map(|at| self.time.instant(at));
        due.into_iter().chain(self.next_piece()).min()
    }

    fn record_departure(&self, address: Address) -> Option<Box<Bundle>> {
        let mut pop = self.waiters().record_departure(address)?;
        pop.bundle.answer_empty();
        Some(pop.bundle)
    }

    fn forget_departure(&self, address: Address) {
        self.waiters().forget_departure(address);
    }

    fn end_waits(&self) {
        self.waiters().end_waits();
    }

    fn account(&self, name: &[u8]) -> Result<u32, Fault> {
        self.rules().account(name)
    }

    fn meet_account(&self, name: &[u8]) -> Result<u32, Fault> {
        self.rules().meet_account(name)
    }

    fn reported_time(&self) -> Option<&'static str> {
        R::REPORTED_TIME
    }

    fn trouble(&self) -> Option<String> {
        self.rules().trouble()
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        let mut figures = self.rules().figures();
        figures.push(("blocked_clients", self.waiters().len() as u64));
        figures
    }
}

impl<R: Rules> Drop for Local<R> {
    /// Commits what was recorded outside of any batch, as a new account is: a log can be closed in order only when
    /// nothing is left.
    fn drop(&mut self) {
        let rules = self.rules.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut commit) = rules.seal() {
            let result = commit.sync();
            rules.committed(commit, &result);
        }
    }
}

/// A batch while the rules decide it.
struct BatchRun<'a, R: Rules> {
    now: Millis,
    /// Stamp at which the run began.
    stamp: u64,
    /// Whether the store accepts changes; if not, the error that answers them.
    may_change: Result<(), Fault>,
    rules: &'a mut R,
    waiters: &'a mut Waiters,
    news: &'a mut Vec<News>,
    finished: &'a mut Vec<Box<Bundle>>,
}

impl<R: Rules> BatchRun<'_, R> {
    /// Returns whether news for blocked pops is left that this commit has no room for.
    fn has_pending_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// Ends the waits whose deadline has passed.
    fn expire_waits(&mut self) {
        while let Some((_, mut pop)) = self.waiters.take_expired(self.now) {
            pop.bundle.answer_empty();
            self.run_bundle(pop.bundle);
        }
    }

    /// Lets time pass in the store, and serves pops with what that makes available.
    fn tick(&mut self) {
        self.rules.tick(self.now, self.news);
        self.serve_waiters();
    }

    /// Executes a bundle until it is done, has to wait, has answers enough for now, or the commit has enough.
    fn run_bundle(&mut self, mut bundle: Box<Bundle>) {
        while !bundle.is_done() && bundle.answers.len() < BUNDLE_ANSWER_BYTES {
            if bundle.may_wait() && self.waiters.has_departed(bundle.address) {
                // No client would read what the pop took.
                bundle.refuse_departed();
                break;
            }
            match self.execute(&mut bundle) {
                Flow::Done(outcome) => bundle.finish_one(outcome),
                Flow::Waits(interest) => {
                    let deadline = bundle.pop_deadline(self.now, self.stamp);
                    return self.waiters.park(ParkedPop { bundle, interest, deadline });
                }
            }
            self.serve_waiters();
            if self.rules.is_commit_full() {
                break;
            }
        }
        self.finished.push(bundle);
    }

    fn execute(&mut self, bundle: &mut Bundle) -> Flow {
        let Some((ask, mut answer)) = bundle.next_ask() else { return Flow::Done(Outcome::Ok) };
        match &self.may_change {
            Err(fault) if !ask.operation.is_read() => Flow::Done(answer.fault(fault)),
            _ => self.rules.execute(self.now, ask, &mut answer, self.news),
        }
    }

    /// Gives messages that became available to the pops that wait for them, the longest waiting first, before any other
    /// request can take them.
    ///
    /// Each piece of news calls the first pop that it suits. That pop need not take the message: it may prefer another
    /// one that came at the same time, or repeat an earlier answer. So the news calls one pop after another until one
    /// finds nothing: then the message is gone.
    ///
    /// When the commit is full, the rest of the news is kept for the next one.
    fn serve_waiters(&mut self) {
        // Messages that become due while pops run are news too.
        while !self.waiters.is_empty() && !self.news.is_empty() {
            let mut news = std::mem::take(self.news);
            let message_count = news.len();
            news.sort_unstable();
            news.dedup();
            let first_call = |(news_index, news): (usize, &News)| {
                let ticket = self.waiters.first_match(*news, 0)?;
                Some(Call { ticket, news_index })
            };
            let mut calls: BTreeSet<Call> = news.iter().enumerate().filter_map(first_call).collect();
            let mut last: Option<Served> = None;
            while let Some(call) = calls.pop_first() {
                if self.rules.is_commit_full() {
                    // Twice, so that the next commit takes none of it for the news of a single message.
                    let times = message_count.min(2);
                    let left = calls.iter().chain([&call]).map(|call| news[call.news_index]);
                    return self.news.extend(left.flat_map(|news| std::iter::repeat_n(news, times)));
                }
                let served = match last {
                    Some(served) if served.ticket == call.ticket => served,
                    _ => self.serve(call.ticket, message_count),
                };
                last = Some(served);
                if !served.is_message_gone {
                    let next = self.waiters.first_match(news[call.news_index], call.ticket + 1);
                    calls.extend(next.map(|ticket| Call { ticket, ..call }));
                }
            }
            if self.news.is_empty() {
                // Its capacity is used again.
                news.clear();
                *self.news = news;
            }
        }
        self.news.clear();
    }

    /// Executes a parked pop that news of `message_count` messages calls: if of one, a pop that returns a message has
    /// taken this one.
    fn serve(&mut self, ticket: Ticket, message_count: usize) -> Served {
        let Some(mut pop) = self.waiters.take(ticket) else {
            return Served { ticket, is_message_gone: false };
        };
        let takes_it = message_count == 1 && !pop.bundle.may_repeat();
        let is_message_gone = match self.execute(&mut pop.bundle) {
            Flow::Waits(_) => {
                self.waiters.put_back(ticket, pop);
                true
            }
            Flow::Done(outcome) => {
                pop.bundle.finish_one(outcome);
                self.finished.push(pop.bundle);
                takes_it && outcome == Outcome::Ok
            }
        };
        Served { ticket, is_message_gone }
    }
}

/// A piece of news calls a parked pop. Calls are ordered by how long their pops have waited.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Call {
    ticket: Ticket,
    news_index: usize,
}

/// What became of a parked pop that was called.
#[derive(Clone, Copy)]
struct Served {
    ticket: Ticket,
    /// Whether the message that the pop was called for is known to be gone.
    is_message_gone: bool,
}
