//! The waiting line before the workers: bounded, first come first served; chosen kinds of requests have a line of their
//! own, which has priority.
//!
//! A worker takes everything that waits, up to its batch size: an idle system has batches of one, a busy one large
//! batches, so the cost per request falls as the load rises. Where a batch is expensive, as over PostgreSQL, a worker
//! may wait a moment for clients that are about to send again: see `gathering`.
//!
//! One worker does that; the others are its reserve. If they took what arrives while it works, they would cut one large
//! batch into many small ones that wait for each other in the store. So they take only when a whole batch waits (with
//! batches of one: always), or when the first worker is kept waiting by a slow or distant store.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use posthaste_measure::{Clock, lock};
use posthaste_wire::command::Kind;

use super::bundle::Bundle;
use super::gathering::Gathering;
use super::limits;

/// The result of a worker's attempt to take a batch.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    /// At least one bundle.
    Batch,
    /// Nothing arrived until the given time, or a worker was woken to ask the store again what is due.
    Nothing,
    /// The line is closed and empty.
    Closed,
}

/// An idle worker's wait: there was nothing to take, and it sleeps until it is called.
#[derive(Debug)]
#[must_use = "the worker counts as idle until its wait is ended"]
pub struct Wait {
    /// When the worker looks again in any case; None: only when it is called.
    pub deadline: Option<Instant>,
    /// When the wait began.
    since: Instant,
    /// Whether this worker watches how long the first waiting bundle has waited, to take it in time.
    is_watcher: bool,
}

/// Marks a worker as busy with a batch, until this is dropped.
pub struct Shift {
    line: Arc<WaitingLine>,
    bundles: usize,
    since: Instant,
}

impl Shift {
    /// Begins the shift of a worker that took so many bundles.
    #[must_use]
    pub fn of(line: &Arc<WaitingLine>, bundles: usize) -> Self {
        Self { line: Arc::clone(line), bundles, since: line.clock.instant() }
    }
}

impl Drop for Shift {
    fn drop(&mut self) {
        self.line.end_shift(self.bundles, self.since);
    }
}

/// The line.
pub struct WaitingLine {
    state: Mutex<State>,
    clock: Clock,
    requests_max: usize,
    priority_kinds: Vec<Kind>,
}

#[derive(Default)]
struct State {
    priority: VecDeque<Box<Bundle>>,
    normal: VecDeque<Box<Bundle>>,
    /// How many bundles have arrived so far.
    arrivals: u64,
    /// How many requests wait, in both lines.
    requests: usize,
    /// Since when the first waiting bundle has waited, as far as is known.
    waiting_since: Option<Instant>,
    is_closed: bool,
    idle: IdleWorkers,
    /// Workers busy with a batch.
    busy_workers: usize,
    /// Earliest deadline known only to a worker that is busy with a batch.
    busy_deadline: Option<Instant>,
    /// Whether the next worker that has nothing to take must ask the store again what is due.
    recheck_deadline: bool,
    /// The batch size that workers last asked for, in requests.
    batch_size: usize,
    /// How long a worker waits for a fuller batch before it takes.
    gathering: Gathering,
}

/// Workers that found nothing to take.
#[derive(Default)]
struct IdleWorkers {
    /// Workers that have begun a wait and not ended it: asleep, or called and about to look again.
    count: usize,
    /// The idle workers that are asleep and were not called; those driven by hand have no thread here. The one that
    /// fell asleep last is called first: its working set is still in its core's caches, and if a worker watches, it is
    /// that one.
    sleepers: Vec<Thread>,
    /// The deadlines of idle workers that have one, in no order.
    deadlines: Vec<Instant>,
    /// Idle workers that watch how long bundles wait.
    watchers: usize,
    /// Whether a worker was called to watch, and none has looked since.
    is_watcher_called: bool,
    /// How often an idle worker was called.
    calls: u64,
}

/// When one more worker may take, if nothing changes before.
#[derive(PartialEq, Eq)]
enum MayTake {
    Now,
    At(Instant),
    /// Not until a bundle arrives or a busy worker is done, when a worker is called.
    WhenCalled,
}

impl WaitingLine {
    /// Returns a line for at most `requests_max` requests; bundles that begin with one of `priority_kinds` have
    /// priority.
    #[must_use]
    pub fn new(clock: Clock, requests_max: usize, priority_kinds: Vec<Kind>) -> Self {
        Self { state: Mutex::default(), clock, requests_max, priority_kinds }
    }

    /// Makes workers wait, from now on and for at most `wait_max`, for clients that are about to send again.
    pub fn gather(&self, wait_max: Duration) {
        self.lock().gathering.enable(wait_max);
    }

    /// Returns how many requests may wait at most.
    #[must_use]
    pub fn requests_max(&self) -> usize {
        self.requests_max
    }

    /// Lines up the bundles of one network turn; those that find the line full stay in `bundles`.
    /// A bundle larger than the whole line is let in when the line is empty.
    pub fn push_all(&self, bundles: &mut Vec<Box<Bundle>>) {
        let mut state = self.lock();
        let mut waiting = state.requests;
        let fits = |bundle: &mut Box<Bundle>| {
            let fits = waiting == 0 || waiting + bundle.requests.len() <= self.requests_max;
            waiting += if fits { bundle.requests.len() } else { 0 };
            fits
        };
        let before = state.bundles();
        for bundle in bundles.extract_if(.., fits) {
            state.push(bundle, &self.priority_kinds);
        }
        if state.gathering.is_enabled() {
            let arrived = state.bundles() - before;
            state.gathering.record_arrivals(self.clock.instant(), arrived);
        }
        self.call_worker(state);
    }

    /// Wakes a worker if there is something for it to do. The lock is released before: the first thing a woken worker
    /// does is to take it, and it would only sleep again.
    fn call_worker(&self, mut state: MutexGuard<'_, State>) {
        if self.claim_wake_up(&mut state) {
            let called = state.idle.next_called();
            drop(state);
            called.iter().for_each(Thread::unpark);
        }
    }

    /// Returns whether the caller must wake an idle worker, to take what waits or to watch how long it waits. Only one
    /// worker is called to watch, so asking takes note of that call.
    fn claim_wake_up(&self, state: &mut State) -> bool {
        if state.idle.count == 0 || state.requests == 0 {
            return false;
        }
        state.may_take(state.batch_size, self.clock) == MayTake::Now || state.idle.claim_watcher_call()
    }

    /// Ends a worker's shift: as far as the line is concerned its batch is done, and the next may be taken.
    fn end_shift(&self, bundles: usize, since: Instant) {
        let mut state = self.lock();
        state.busy_workers -= 1;
        if state.busy_workers == 0 {
            // Every worker asks the store again what is due before it sleeps.
            state.busy_deadline = None;
        }
        if state.gathering.is_enabled() {
            let (now, queued) = (self.clock.instant(), state.bundles());
            state.gathering.record_turn(now, now.saturating_duration_since(since), bundles, queued);
        }
        self.call_worker(state);
    }

    /// Takes bundles in order until they hold `requests` requests; waits for the first one, at most until `deadline`.
    pub fn take(&self, requests: usize, deadline: Option<Instant>, batch: &mut Vec<Box<Bundle>>) -> Taken {
        let mut state = self.lock();
        loop {
            let wait = match self.take_or_begin_wait(&mut state, requests, deadline, batch) {
                Ok(taken) => return taken,
                Err(wait) => wait,
            };
            let me = thread::current();
            let id = me.id();
            state.idle.sleepers.push(me);
            drop(state);
            match wait.deadline.map(|deadline| deadline.saturating_duration_since(wait.since)) {
                None => thread::park(),
                Some(time) => thread::park_timeout(time),
            }
            state = self.lock();
            state.idle.sleepers.retain(|sleeper| sleeper.id() != id);
            state.idle.end_wait(&wait);
        }
    }

    /// Takes like [`take`](Self::take), but returns the wait instead of waiting, for a worker that is driven by hand.
    /// Its driver calls [`end_wait`](Self::end_wait) when the worker is called or its time has come, and tries again.
    ///
    /// # Errors
    /// The wait that `take` would begin.
    pub fn try_take(
        &self,
        requests: usize,
        deadline: Option<Instant>,
        batch: &mut Vec<Box<Bundle>>,
    ) -> Result<Taken, Wait> {
        self.take_or_begin_wait(&mut self.lock(), requests, deadline, batch)
    }

    /// Ends the wait of a worker that is driven by hand.
    pub fn end_wait(&self, wait: &Wait) {
        self.lock().idle.end_wait(wait);
    }

    /// Returns how often an idle worker was called, whichever it was.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.lock().idle.calls
    }

    /// Takes what may be taken, or begins a wait.
    fn take_or_begin_wait(
        &self,
        state: &mut State,
        requests: usize,
        deadline: Option<Instant>,
        batch: &mut Vec<Box<Bundle>>,
    ) -> Result<Taken, Wait> {
        state.batch_size = requests;
        state.idle.is_watcher_called = false;
        let take_at = match state.may_take(requests, self.clock) {
            MayTake::Now => {
                self.take_batch(state, requests, batch);
                self.hand_off_deadline(state, deadline);
                return Ok(Taken::Batch);
            }
            MayTake::At(time) => Some(time),
            MayTake::WhenCalled => None,
        };
        if state.is_closed && state.requests == 0 {
            return Ok(Taken::Closed);
        }
        if std::mem::take(&mut state.recheck_deadline) {
            return Ok(Taken::Nothing);
        }
        let now = self.clock.instant();
        let is_due = |deadline: &mut Instant| *deadline <= now;
        if state.busy_deadline.take_if(is_due).is_some() || deadline.is_some_and(|deadline| deadline <= now) {
            return Ok(Taken::Nothing);
        }
        let deadline = deadline.into_iter().chain(state.busy_deadline).chain(take_at).min();
        let wait = Wait { deadline, since: now, is_watcher: take_at.is_some() };
        state.idle.begin_wait(&wait);
        Err(wait)
    }

    /// Takes a batch, and wakes another worker if it leaves something to do for that one.
    fn take_batch(&self, state: &mut State, requests: usize, batch: &mut Vec<Box<Bundle>>) {
        let mut taken = 0;
        while let Some(bundle) = state.first_line().front() {
            let next = bundle.requests.len();
            if taken > 0 && taken + next > requests {
                break;
            }
            taken += next;
            batch.extend(state.first_line().pop_front());
        }
        state.requests -= taken;
        state.busy_workers += 1;
        state.waiting_since = (state.requests > 0).then(|| self.clock.instant());
        if self.claim_wake_up(state) {
            state.idle.call_one();
        }
    }

    /// Hands the deadline of a worker that becomes busy to the others, as its batch may take long.
    fn hand_off_deadline(&self, state: &mut State, deadline: Option<Instant>) {
        // What is due already is done together with the batch.
        let Some(deadline) = deadline.filter(|deadline| *deadline > self.clock.instant()) else { return };
        if state.busy_deadline.is_none_or(|earliest| deadline < earliest) {
            state.busy_deadline = Some(deadline);
        }
        if state.idle.count > 0 && state.idle.all_sleep_past(deadline) {
            state.idle.call_one();
        }
    }

    /// Tells the workers of a deadline that they do not know of: an idle one is woken if all would sleep longer. If
    /// none is idle, the next that has nothing to take asks the store again, as it may have asked before.
    pub fn wake_by(&self, deadline: Instant) {
        let mut state = self.lock();
        if state.idle.count == 0 {
            state.recheck_deadline = true;
        } else if state.idle.all_sleep_past(deadline) {
            state.recheck_deadline = true;
            state.idle.call_one();
        }
    }

    /// Closes the line: no more bundles will arrive; workers finish what waits and stop.
    pub fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.idle.sleepers.drain(..).for_each(|sleeper| sleeper.unpark());
    }

    /// Returns how many requests wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().requests
    }

    /// Returns whether no request waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    /// Returns how many bundles wait.
    fn bundles(&self) -> usize {
        self.priority.len() + self.normal.len()
    }

    /// Returns when one more worker may take a batch of so many requests.
    fn may_take(&mut self, batch_size: usize, clock: Clock) -> MayTake {
        if self.requests > 0 && (self.requests >= batch_size || self.is_closed) {
            return MayTake::Now;
        }
        if self.busy_workers == 0 {
            let now = self.gathering.is_enabled().then(|| clock.instant());
            return match now.and_then(|now| self.gathering.wait_deadline(now, self.bundles())) {
                Some(until) => MayTake::At(until),
                None if self.requests > 0 => MayTake::Now,
                None => MayTake::WhenCalled,
            };
        }
        if self.requests == 0 {
            return MayTake::WhenCalled;
        }
        let now = clock.instant();
        let since = *self.waiting_since.get_or_insert(now);
        let reserve_at = since + limits::RESERVE_AFTER * u32::try_from(self.busy_workers).unwrap_or(u32::MAX);
        if reserve_at <= now { MayTake::Now } else { MayTake::At(reserve_at) }
    }

    fn push(&mut self, mut bundle: Box<Bundle>, priority_kinds: &[Kind]) {
        self.arrivals += 1;
        bundle.arrival = self.arrivals;
        self.requests += bundle.requests.len();
        match bundle.requests.first() {
            Some(request) if priority_kinds.contains(&request.kind) => self.priority.push_back(bundle),
            _ => self.normal.push_back(bundle),
        }
    }

    /// Returns the line that bundles are taken from next.
    fn first_line(&mut self) -> &mut VecDeque<Box<Bundle>> {
        if self.priority.is_empty() { &mut self.normal } else { &mut self.priority }
    }
}

impl IdleWorkers {
    fn begin_wait(&mut self, wait: &Wait) {
        self.count += 1;
        self.deadlines.extend(wait.deadline);
        self.watchers += usize::from(wait.is_watcher);
    }

    fn end_wait(&mut self, wait: &Wait) {
        self.count -= 1;
        if let Some(at) = self.deadlines.iter().position(|deadline| Some(*deadline) == wait.deadline) {
            self.deadlines.swap_remove(at);
        }
        self.watchers -= usize::from(wait.is_watcher);
    }

    fn call_one(&mut self) {
        self.next_called().iter().for_each(Thread::unpark);
    }

    /// Chooses the worker that is called next; the caller must wake it up. None: it is driven by hand, or awake already.
    fn next_called(&mut self) -> Option<Thread> {
        self.calls += 1;
        self.sleepers.pop()
    }

    /// Returns whether a worker must be called to watch: none watches, and none was called to. Takes note of the call.
    fn claim_watcher_call(&mut self) -> bool {
        self.watchers == 0 && !std::mem::replace(&mut self.is_watcher_called, true)
    }

    /// Returns whether all idle workers would sleep past `deadline` if none is called.
    fn all_sleep_past(&self, deadline: Instant) -> bool {
        self.deadlines.iter().all(|other| deadline < *other)
    }
}
