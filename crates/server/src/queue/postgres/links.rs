//! The connections that a store's workers share: the one used last goes first, for its session is warm, and one more is
//! made when all are in use.
//!
//! A server that lets no more in is no outage while others of ours work: a worker then waits for one of those.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::link::{Failure, Link, Reach};

/// After one more connection could not be had, how long the store does with those it has.
const MORE_AFTER: Duration = Duration::from_secs(1);

/// The connections.
pub(super) struct Links {
    reach: Arc<Reach>,
    state: Mutex<State>,
    returned: Condvar,
    /// How often a worker waited for one.
    waited: AtomicU64,
}

#[derive(Default)]
struct State {
    idle: Vec<Link>,
    used: usize,
    /// Until then no further connection is tried.
    more_at: Option<Instant>,
}

impl Links {
    /// So far only this one, which nobody uses.
    pub(super) fn new(reach: Arc<Reach>, first: Link) -> Self {
        let state = State { idle: vec![first], ..State::default() };
        Self { reach, state: Mutex::new(state), returned: Condvar::new(), waited: AtomicU64::new(0) }
    }

    /// Has `work` use a connection.
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
            if let Some(link) = state.idle.pop() {
                state.used += 1;
                return Ok(link);
            }
            let alone = state.used == 0;
            let wait =
                state.more_at.map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()));
            if !alone && !wait.is_zero() {
                self.waited.fetch_add(1, Ordering::Relaxed);
                state = self.returned.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            state.used += 1;
            drop(state);
            match self.one_more(alone) {
                Ok(link) => return Ok(link),
                Err(failure) => {
                    state = self.state();
                    state.used -= 1;
                    if alone {
                        return Err(failure);
                    }
                    tracing::warn!("{failure}; the connections that work are shared");
                    state.more_at = Some(Instant::now() + MORE_AFTER);
                }
            }
        }
    }

    /// A new one. Who is alone connects when he uses it, which is then everybody's trouble.
    fn one_more(&self, alone: bool) -> Result<Link, Failure> {
        let mut link = Link::new(Arc::clone(&self.reach), None)
            .map_err(|error| Failure::Unreachable(format!("another connection cannot be made: {error}")))?;
        if !alone {
            link.connect_spare()?;
        }
        Ok(link)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
