//! The connections that a store's workers share. The one used last is taken first, because its session is warm; another
//! one is made when all are in use.
//!
//! If the server accepts no further connection, that is no outage while others of ours work: a worker then waits for
//! one of those. So does a worker whose connection has ended meanwhile. Only where none works does a failed connection
//! concern all workers; then one of them tries to connect, and the others wait for the outcome. The keeper, which has
//! a connection of its own, borrows one of these while it is let in no more.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use posthaste_measure::lock;

use super::failure::Failure;
use super::link::Link;
use super::reach::Reach;

/// How long the store makes do with the connections it has after a further one has failed.
const MORE_AFTER: Duration = Duration::from_secs(1);

/// The connections of a store's workers.
pub(super) struct Links {
    reach: Arc<Reach>,
    state: Mutex<State>,
    returned: Condvar,
    /// How often a worker waited for a connection.
    waited: AtomicU64,
}

#[derive(Default)]
struct State {
    idle: Vec<Link>,
    /// How many connections are in use: each worked when it was taken.
    used: usize,
    /// Whether a worker tries to connect while none works.
    is_tried: bool,
    /// Until then no further connection is tried while others work.
    more_at: Option<Instant>,
}

/// What a worker does that finds no idle connection.
enum Next {
    /// Waits, at most for so long: for a connection to be returned, or for the outcome of another worker's attempt.
    Wait(Duration),
    /// Connects for all workers, since none of the connections works.
    ConnectFirst,
    /// Makes a further connection while others work.
    ConnectSpare,
}

impl State {
    /// Takes out the connection used last of those that work.
    fn take_open(&mut self) -> Option<Link> {
        let at = self.idle.iter().rposition(Link::is_open)?;
        self.used += 1;
        Some(self.idle.remove(at))
    }

    /// Decides what a worker does that finds no idle connection that works.
    fn next(&self) -> Next {
        if self.is_tried {
            return Next::Wait(MORE_AFTER);
        }
        if self.used == 0 {
            return Next::ConnectFirst;
        }
        match self.more_at.map(|at| at.saturating_duration_since(Instant::now())) {
            Some(wait) if !wait.is_zero() => Next::Wait(wait),
            _ => Next::ConnectSpare,
        }
    }
}

impl Links {
    /// Returns the connections, at first this one, which is not in use.
    pub(super) fn new(reach: Arc<Reach>, first: Link) -> Self {
        let state = State { idle: vec![first], ..State::default() };
        Self { reach, state: Mutex::new(state), returned: Condvar::new(), waited: AtomicU64::new(0) }
    }

    /// Runs `work` with a connection that works.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Link) -> Result<T, Failure>) -> Result<T, Failure> {
        let mut link = self.take()?;
        let outcome = work(&mut link);
        let mut state = self.state();
        state.idle.push(link);
        state.used -= 1;
        self.returned.notify_one();
        outcome
    }

    /// Returns whether a connection works, as far as can be known without asking the server.
    pub(super) fn any_works(&self) -> bool {
        let state = self.state();
        state.used > 0 || state.idle.iter().any(Link::is_open)
    }

    /// Returns figures for INFO.
    pub(super) fn figures(&self) -> [(&'static str, u64); 3] {
        let state = self.state();
        [
            ("links_used", state.used as u64),
            ("links_idle", state.idle.len() as u64),
            ("links_waited", self.waited.load(Ordering::Relaxed)),
        ]
    }

    fn take(&self) -> Result<Link, Failure> {
        let mut state = self.state();
        loop {
            if let Some(link) = state.take_open() {
                return Ok(link);
            }
            match state.next() {
                Next::Wait(wait) => {
                    self.waited.fetch_add(1, Ordering::Relaxed);
                    state = self.returned.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
                }
                Next::ConnectFirst => {
                    state.is_tried = true;
                    let connected = self.connect(state, Link::ready);
                    state = self.state();
                    state.is_tried = false;
                    self.returned.notify_all();
                    connected?;
                }
                Next::ConnectSpare => {
                    let connected = self.connect(state, Link::connect_spare);
                    state = self.state();
                    if let Err(failure) = connected {
                        tracing::warn!("{failure}; the connections that work are shared");
                        state.more_at = Some(Instant::now() + MORE_AFTER);
                    }
                }
            }
        }
    }

    /// Connects a link that is idle but not connected, or else a new one, which is idle then. The state is unlocked
    /// meanwhile.
    fn connect(
        &self,
        mut state: MutexGuard<'_, State>,
        connect: impl FnOnce(&mut Link) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let ended = state.idle.pop();
        drop(state);
        let link = ended.map_or_else(|| Link::new(Arc::clone(&self.reach), None), Ok);
        let mut link = link
            .map_err(|error| Failure::Unreachable(format!("another connection cannot be made: {error}")))?;
        let connected = connect(&mut link);
        self.state().idle.push(link);
        connected
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}
