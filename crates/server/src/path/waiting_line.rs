//! The waiting line before the workers: bounded, first come first served, with a line of its own for chosen
//! request kinds that go first.
//!
//! A worker takes everything that waits, up to its batch size: an idle system has batches of one, a busy one large
//! batches, so the cost per request falls as the load rises. Where a batch is dear, as over PostgreSQL, it may wait a moment
//! for those who are about to come back: see `gathering`.
//!
//! One worker does that; the others are its reserve. Were they to take what comes while it works, they would cut
//! one large batch into many small ones that wait for each other in the store. So they take only when a whole batch
//! waits (with batches of one: always), or when the worker is kept waiting by a slow or distant store.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use posthaste_measure::Clock;
use posthaste_wire::command::Kind;

use super::bundle::Bundle;
use super::gathering::Gathering;
use super::limits;

/// What a worker got.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    /// At least one bundle.
    Some,
    /// Nothing came until the given time, or somebody asked the workers to look around.
    Nothing,
    /// The line is closed and empty.
    Closed,
}

/// A worker's wait: it has looked, there was nothing to take, and it sleeps until it is called.
#[derive(Debug)]
#[must_use = "a worker that waits is counted until it gets up"]
pub struct Pause {
    /// When it looks again in any case; None: when it is called.
    pub until: Option<Instant>,
    /// When it looked.
    since: Instant,
    /// It watches how long the first of those that wait has waited.
    watches: bool,
}

/// A worker's shift at the store; it ends when this is dropped.
pub struct Shift {
    line: Arc<WaitingLine>,
    bundles: usize,
    since: Instant,
}

impl Shift {
    /// For a worker that took so many bundles.
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
    /// Those of them that sleep and were not called. The one that lay down last is called first: what it works with is still
    /// in its core's caches, and if one watches, it is that one.
    sleepers: Vec<Thread>,
    /// When those of them that do not wait for a call alone look again, in no order.
    alarms: Vec<Instant>,
    /// When something is due of which a worker knew that is under way with a batch now.
    due: Option<Instant>,
    /// Workers under way with a batch.
    working: usize,
    /// Since when the first of those that wait now has waited.
    waiting_since: Option<Instant>,
    /// Sleeping workers that watch how long they wait.
    watchers: usize,
    /// One was called to watch, and none has looked since.
    called_to_watch: bool,
    /// The batch size that workers last asked for.
    batch: usize,
    /// Who is waited for before a worker takes.
    gathering: Gathering,
    nudged: bool,
    /// How often a worker that waits was called.
    calls: u64,
    closed: bool,
}

impl WaitingLine {
    /// A line for at most `requests_max` requests; bundles that begin with one of `first_kinds` go first.
    #[must_use]
    pub fn new(clock: Clock, requests_max: usize, first_kinds: Vec<Kind>) -> Self {
        Self { state: Mutex::default(), clock, requests_max, first_kinds }
    }

    /// From now on a worker that may take waits first for those who are about to come back, for so long at most.
    pub fn gather(&self, most: Duration) {
        self.lock().gathering.begin(most);
    }

    /// Most requests that may wait.
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

    /// Wakes a worker if there is something for one to do, and lets go of the line before: who wakes takes it first of all, and
    /// would sleep once more until it is free.
    fn call_worker(&self, mut state: MutexGuard<'_, State>) {
        if self.wants_worker(&mut state) {
            let called = state.next_called();
            drop(state);
            called.iter().for_each(Thread::unpark);
        }
    }

    /// Whether there is something to do for a worker that waits: take what waits, or watch how long it waits.
    fn wants_worker(&self, state: &mut State) -> bool {
        let batch = state.batch;
        state.idle_workers > 0
            && state.requests > 0
            && (state.may_take(batch, self.clock).is_ok()
                || state.watchers == 0 && !std::mem::replace(&mut state.called_to_watch, true))
    }

    /// A worker is done with the batch it took, as far as the others need care: the next batch may be taken.
    fn done(&self, bundles: usize, since: Instant) {
        let mut state = self.lock();
        state.working -= 1;
        if state.working == 0 {
            // Each of them asks anew what is due.
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

    /// The same for a worker that is driven by hand: instead of waiting it says how it would. Whoever drives it lets it
    /// [`get up`](Self::get_up) when it is called or its time has come, and try again.
    ///
    /// # Errors
    /// Its wait.
    pub fn try_take(
        &self,
        requests: usize,
        until: Option<Instant>,
        batch: &mut Vec<Box<Bundle>>,
    ) -> Result<Taken, Pause> {
        self.look(&mut self.lock(), requests, until, batch)
    }

    /// The wait of a worker that is driven by hand is over.
    pub fn get_up(&self, pause: &Pause) {
        self.lock().get_up(pause);
    }

    /// How often one of the workers that wait was called, whichever it was.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.lock().calls
    }

    /// Takes what may be taken, or lies down.
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
        if self.wants_worker(state) {
            state.call_one();
        }
        self.leave_word(state, until);
        Ok(Taken::Some)
    }

    /// Whoever goes to work, and may be long at it, knew that something is due at that time: another keeps watch of it.
    fn leave_word(&self, state: &mut State, until: Option<Instant>) {
        // What is due already is done with the batch.
        let Some(until) = until.filter(|until| *until > self.clock.instant()) else { return };
        if state.due.is_none_or(|due| until < due) {
            state.due = Some(until);
        }
        if state.idle_workers > 0 && state.sleeps_beyond(until) {
            state.call_one();
        }
    }

    /// Something is due at `deadline` that the waiting workers do not know of: one wakes if it would sleep longer. If none
    /// waits, the first that is about to looks around before, for it may have asked when to wake before this was due.
    pub fn come_by(&self, deadline: Instant) {
        let mut state = self.lock();
        if state.idle_workers == 0 {
            state.nudged = true;
        } else if state.sleeps_beyond(deadline) {
            state.nudged = true;
            state.call_one();
        }
    }

    /// No more bundles will come; workers finish what waits and stop.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.sleepers.drain(..).for_each(|sleeper| sleeper.unpark());
    }

    /// Requests that wait now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().requests
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// How many wait.
    fn bundles(&self) -> usize {
        self.first.len() + self.normal.len()
    }

    /// Whether one more worker may take now; if not, when it may if nothing else happens.
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

    /// A worker is called; whoever it is has yet to be woken.
    fn next_called(&mut self) -> Option<Thread> {
        self.calls += 1;
        self.sleepers.pop()
    }

    /// One more worker waits.
    fn lie_down(&mut self, now: Instant, until: Option<Instant>, reserve_by: Option<Instant>) -> Pause {
        let until = until.into_iter().chain(self.due).chain(reserve_by).min();
        let pause = Pause { until, since: now, watches: reserve_by.is_some() };
        self.idle_workers += 1;
        self.alarms.extend(pause.until);
        self.watchers += usize::from(pause.watches);
        pause
    }

    /// It waits no more.
    fn get_up(&mut self, pause: &Pause) {
        self.idle_workers -= 1;
        if let Some(at) = self.alarms.iter().position(|alarm| Some(*alarm) == pause.until) {
            self.alarms.swap_remove(at);
        }
        self.watchers -= usize::from(pause.watches);
    }

    /// Whether all that wait sleep longer, if nobody calls.
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

    /// The next bundle if it holds at most `room` requests, or in any case when `must`.
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
