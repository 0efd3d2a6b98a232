//! The connections that a store's workers share. The one used last is taken first, because its session is warm; another
//! one is made when all are in use.
//!
//! If the server accepts no further connection, that is no outage while others of ours work: a worker then waits for
//! one of those. So does a worker whose connection has ended meanwhile. Only where none works does a failed connection
//! concern all workers, and one of them finds that out for all.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use posthaste_measure::lock;

use super::link::{Failure, Link};
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
    /// None works, and one worker tries to connect: the others wait for the outcome.
    tries: bool,
    /// Until then no further connection is tried.
    more_at: Option<Instant>,
}

impl State {
    /// Takes out the connection used last of those that work.
    fn take_open(&mut self) -> Option<Link> {
        let at = self.idle.iter().rposition(Link::is_open)?;
        self.used += 1;
        Some(self.idle.remove(at))
    }
}

impl Links {
    /// Starts with this one connection, which is not in use.
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

    /// Figures for INFO.
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
            let alone = state.used == 0;
            let wait = match state.more_at {
                _ if state.tries => MORE_AFTER,
                Some(at) if !alone => at.saturating_duration_since(Instant::now()),
                _ => Duration::ZERO,
            };
            if !wait.is_zero() {
                self.waited.fetch_add(1, Ordering::Relaxed);
                state = self.returned.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            let ended = state.idle.pop();
            state.tries = alone;
            drop(state);
            let (link, connected) = self.one_more(ended, alone);
            state = self.state();
            state.idle.extend(link);
            if alone {
                state.tries = false;
                self.returned.notify_all();
            }
            match connected {
                Ok(()) => {}
                Err(failure) if alone => return Err(failure),
                Err(failure) => {
                    tracing::warn!("{failure}; the connections that work are shared");
                    state.more_at = Some(Instant::now() + MORE_AFTER);
                }
            }
        }
    }

    /// Makes a connection that has ended again, or a new one. Its failure concerns all workers if none works (`alone`).
    fn one_more(&self, ended: Option<Link>, alone: bool) -> (Option<Link>, Result<(), Failure>) {
        let mut link = match ended.map_or_else(|| Link::new(Arc::clone(&self.reach), None), Ok) {
            Ok(link) => link,
            Err(error) => {
                let why = format!("another connection cannot be made: {error}");
                return (None, Err(Failure::Unreachable(why)));
            }
        };
        let connected = if alone { link.ready() } else { link.connect_spare() };
        (Some(link), connected)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}
