//! The waiting line before the workers: bounded, first come first served; chosen request kinds have a line of their
//! own, which goes first.
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
    Some,
    /// Nothing arrived until the given time, or a worker was woken to ask the store again what is due.
    Nothing,
    /// The line is closed and empty.
    Closed,
}

/// A worker's wait: there was nothing to take, and it sleeps until it is called.
#[derive(Debug)]
#[must_use = "a worker that waits is counted until it gets up"]
pub struct Pause {
    /// When the worker looks again in any case; None: only when it is called.
    pub until: Option<Instant>,
    /// When the wait began.
    since: Instant,
    /// Whether this worker watches how long the first waiting bundle has waited, to take it as the reserve.
    watches: bool,
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
        self.line.done(self.bundles, self.since);
    }
}

/// The line.
pub struct WaitingLine {
    state: Mutex<State>,
    clock: Clock,
    requests_max: usize,
    first_kinds: Vec<Kind>,
}

#[derive(Default)]
struct State {
    first: VecDeque<Box<Bundle>>,
    normal: VecDeque<Box<Bundle>>,
    requests: usize,
    idle_workers: usize,
    /// Idle workers that sleep and were not called. The one that fell asleep last is called first: its working set is
    /// still in its core's caches, and if a worker watches, it is that one.
    sleepers: Vec<Thread>,
    /// When idle workers that have a deadline look again, in no order.
    alarms: Vec<Instant>,
    /// Earliest deadline known only to a worker that is busy with a batch.
    due: Option<Instant>,
    /// Workers busy with a batch.
    working: usize,
    /// Since when the first waiting bundle has waited, as far as is known.
    waiting_since: Option<Instant>,
    /// Idle workers that watch how long bundles wait.
    watchers: usize,
    /// Whether a worker was called to watch, and none has looked since.
    called_to_watch: bool,
    /// The batch size that workers last asked for.
    batch: usize,
    /// How long a worker waits for a fuller batch before it takes.
    gathering: Gathering,
    nudged: bool,
    /// How often an idle worker was called.
    calls: u64,
    closed: bool,
}

impl WaitingLine {
    /// Returns a line for at most `requests_max` requests; bundles that begin with one of `first_kinds` go first.
    #[must_use]
    pub fn new(clock: Clock, requests_max: usize, first_kinds: Vec<Kind>) -> Self {
        Self { state: Mutex::default(), clock, requests_max, first_kinds }
    }

    /// From now on a worker that may take first waits for clients that are about to send again, for at most this long.
    pub fn gather(&self, most: Duration) {
        self.lock().gathering.begin(most);
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
            state.push(bundle, &self.first_kinds);
        }
        if state.gathering.is_on() {
            let came = state.bundles() - before;
            state.gathering.arrive(self.clock.instant(), came);
        }
        self.call_worker(state);
    }

    /// Wakes a worker if there is something for it to do. The lock is released before: the first thing a woken worker
    /// does is to take it, and it would only sleep again.
    fn call_worker(&self, mut state: MutexGuard<'_, State>) {
        if self.claim_wake_up(&mut state) {
            let called = state.next_called();
            drop(state);
            called.iter().for_each(Thread::unpark);
        }
    }

    /// Returns whether the caller must wake an idle worker, to take what waits or to watch how long it waits. Only one
    /// worker is called to watch, so asking takes note of that call.
    fn claim_wake_up(&self, state: &mut State) -> bool {
        let batch = state.batch;
        state.idle_workers > 0
            && state.requests > 0
            && (state.may_take(batch, self.clock).is_ok()
                || state.watchers == 0 && !std::mem::replace(&mut state.called_to_watch, true))
    }

    /// Ends a worker's shift: as far as the line is concerned its batch is done, and the next may be taken.
    fn done(&self, bundles: usize, since: Instant) {
        let mut state = self.lock();
        state.working -= 1;
        if state.working == 0 {
            // Every worker asks the store again what is due before it sleeps.
            state.due = None;
        }
        if state.gathering.is_on() {
            let (now, waiting) = (self.clock.instant(), state.bundles());
            state.gathering.turn_ends(now, now.saturating_duration_since(since), bundles, waiting);
        }
        self.call_worker(state);
    }

    /// Takes bundles in order until they hold `requests` requests; waits for the first one, at most until `until`.
    pub fn take(&self, requests: usize, until: Option<Instant>, batch: &mut Vec<Box<Bundle>>) -> Taken {
        let mut state = self.lock();
        loop {
            let pause = match self.look(&mut state, requests, until, batch) {
                Ok(taken) => return taken,
                Err(pause) => pause,
            };
            let me = thread::current();
            let id = me.id();
            state.sleepers.push(me);
            drop(state);
            match pause.until.map(|until| until.saturating_duration_since(pause.since)) {
                None => thread::park(),
                Some(wait) => thread::park_timeout(wait),
            }
            state = self.lock();
            state.sleepers.retain(|sleeper| sleeper.id() != id);
            state.get_up(&pause);
        }
    }

    /// Takes like [`take`](Self::take), but returns the wait instead of waiting, for a worker that is driven by hand.
    /// Its driver calls [`get_up`](Self::get_up) when the worker is called or its time has come, and tries again.
    ///
    /// # Errors
    /// The wait that `take` would begin.
    pub fn try_take(
        &self,
        requests: usize,
        until: Option<Instant>,
        batch: &mut Vec<Box<Bundle>>,
    ) -> Result<Taken, Pause> {
        self.look(&mut self.lock(), requests, until, batch)
    }

    /// Ends the wait of a worker that is driven by hand.
    pub fn get_up(&self, pause: &Pause) {
        self.lock().get_up(pause);
    }

    /// Returns how often an idle worker was called, whichever it was.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.lock().calls
    }

    /// Takes what may be taken, or begins a wait.
    fn look(
        &self,
        state: &mut State,
        requests: usize,
        until: Option<Instant>,
        batch: &mut Vec<Box<Bundle>>,
    ) -> Result<Taken, Pause> {
        state.batch = requests;
        state.called_to_watch = false;
        if let Err(reserve_by) = state.may_take(requests, self.clock) {
            if state.closed && state.requests == 0 {
                return Ok(Taken::Closed);
            }
            if std::mem::take(&mut state.nudged) {
                return Ok(Taken::Nothing);
            }
            let now = self.clock.instant();
            if state.due.take_if(|due| *due <= now).is_some() || until.is_some_and(|until| until <= now) {
                return Ok(Taken::Nothing);
            }
            return Err(state.lie_down(now, until, reserve_by));
        }
        let mut taken = 0;
        while let Some(bundle) = state.pop_within(requests.saturating_sub(taken), taken == 0) {
            taken += bundle.requests.len();
            batch.push(bundle);
        }
        state.working += 1;
        state.waiting_since = (state.requests > 0).then(|| self.clock.instant());
        if self.claim_wake_up(state) {
            state.call_one();
        }
        self.leave_word(state, until);
        Ok(Taken::Some)
    }

    /// Leaves a busy worker's deadline to the others, as its batch may take long.
    fn leave_word(&self, state: &mut State, until: Option<Instant>) {
        // What is due already is done together with the batch.
        let Some(until) = until.filter(|until| *until > self.clock.instant()) else { return };
        if state.due.is_none_or(|due| until < due) {
            state.due = Some(until);
        }
        if state.idle_workers > 0 && state.sleeps_beyond(until) {
            state.call_one();
        }
    }

    /// Tells the workers of a deadline that they do not know of: an idle one wakes up if all would sleep longer. If
    /// none is idle, the next that is about to sleep asks the store again, for it may have asked before this was due.
    pub fn come_by(&self, deadline: Instant) {
        let mut state = self.lock();
        if state.idle_workers == 0 {
            state.nudged = true;
        } else if state.sleeps_beyond(deadline) {
            state.nudged = true;
            state.call_one();
        }
    }

    /// Closes the line: no more bundles will arrive; workers finish what waits and stop.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.sleepers.drain(..).for_each(|sleeper| sleeper.unpark());
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
        self.first.len() + self.normal.len()
    }

    /// Returns whether one more worker may take now; if not, when it may if nothing else happens.
    fn may_take(&mut self, batch: usize, clock: Clock) -> Result<(), Option<Instant>> {
        if self.requests > 0 && (self.requests >= batch || self.closed) {
            return Ok(());
        }
        if self.working == 0 {
            let worth_it = self.gathering.is_on().then(|| clock.instant());
            let until = worth_it.and_then(|now| self.gathering.until(now, self.bundles()));
            return if self.requests > 0 && until.is_none() { Ok(()) } else { Err(until) };
        }
        if self.requests == 0 {
            return Err(None);
        }
        let now = clock.instant();
        let since = *self.waiting_since.get_or_insert(now);
        let reserve_by = since + limits::RESERVE_AFTER * u32::try_from(self.working).unwrap_or(u32::MAX);
        if reserve_by <= now { Ok(()) } else { Err(Some(reserve_by)) }
    }

    fn call_one(&mut self) {
        self.next_called().iter().for_each(Thread::unpark);
    }

    /// Chooses the worker that is called next; the caller must wake it up.
    fn next_called(&mut self) -> Option<Thread> {
        self.calls += 1;
        self.sleepers.pop()
    }

    /// Begins a worker's wait.
    fn lie_down(&mut self, now: Instant, until: Option<Instant>, reserve_by: Option<Instant>) -> Pause {
        let until = until.into_iter().chain(self.due).chain(reserve_by).min();
        let pause = Pause { until, since: now, watches: reserve_by.is_some() };
        self.idle_workers += 1;
        self.alarms.extend(pause.until);
        self.watchers += usize::from(pause.watches);
        pause
    }

    /// Ends a worker's wait.
    fn get_up(&mut self, pause: &Pause) {
        self.idle_workers -= 1;
        if let Some(at) = self.alarms.iter().position(|alarm| Some(*alarm) == pause.until) {
            self.alarms.swap_remove(at);
        }
        self.watchers -= usize::from(pause.watches);
    }

    /// Returns whether all idle workers would sleep past `deadline` if none is called.
    fn sleeps_beyond(&self, deadline: Instant) -> bool {
        self.alarms.iter().all(|alarm| deadline < *alarm)
    }

    fn push(&mut self, bundle: Box<Bundle>, first_kinds: &[Kind]) {
        self.requests += bundle.requests.len();
        match bundle.requests.first() {
            Some(request) if first_kinds.contains(&request.kind) => self.first.push_back(bundle),
            _ => self.normal.push_back(bundle),
        }
    }

    /// Takes the next bundle if it holds at most `room` requests, or in any case if `must`.
    fn pop_within(&mut self, room: usize, must: bool) -> Option<Box<Bundle>> {
        let line = if self.first.is_empty() { &mut self.normal } else { &mut self.first };
        let waiting = line.front()?.requests.len();
        if waiting > room && !must {
            return None;
        }
        self.requests -= waiting;
        line.pop_front()
    }
}
