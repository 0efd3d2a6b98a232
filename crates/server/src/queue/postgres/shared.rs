//! What a store in a database and its keeper share.

use std::io;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Builder;
use std::time::Instant;

use posthaste_measure::lock;

use super::era::{CurrentEra, Era};
use super::floors::{Floors, Source};
use super::keeper;
use super::link::Link;
use super::parked::Parked;
use super::reach::Reach;
use super::under_way::{Mode, PATIENCE, Since};
use crate::path::waiting_line::WaitingLine;
use crate::time::Time;

/// All of it.
pub(super) struct Shared {
    pub(super) reach: Arc<Reach>,
    pub(super) parked: Mutex<Parked>,
    /// A call has ended for which others wait.
    pub(super) ended: Condvar,
    pub(super) era: CurrentEra,
    pub(super) floors: Mutex<Floors>,
    pub(super) keeper_counts: keeper::Counts,
    pub(super) line: OnceLock<Arc<WaitingLine>>,
    pub(super) time: Time,
    /// Set by tests instead of the database's clock.
    pub(super) hand: Option<Arc<AtomicI64>>,
}

impl Shared {
    /// Requests that wait.
    pub(super) fn parked(&self) -> MutexGuard<'_, Parked> {
        lock(&self.parked)
    }

    /// Begins a call as soon as calls under way let it, at the latest after `PATIENCE`.
    pub(super) fn begin(&self, mode: Mode) -> Since {
        let mut parked = self.parked();
        if parked.under_way.must_wait(mode) {
            parked.under_way.begin_wait(mode);
            let waited = self.ended.wait_timeout_while(parked, PATIENCE, |p| p.under_way.must_wait(mode));
            parked = waited.unwrap_or_else(PoisonError::into_inner).0;
            parked.under_way.end_wait(mode);
        }
        parked.begin(mode)
    }

    /// Ends a call, and lets calls that wait for it begin.
    pub(super) fn end(&self, since: Since) {
        let mut parked = self.parked();
        parked.end(since);
        let has_waiting = parked.under_way.has_waiting();
        drop(parked);
        if has_waiting {
            self.ended.notify_all();
        }
    }

    /// What is known of the ring.
    pub(super) fn floors(&self) -> MutexGuard<'_, Floors> {
        lock(&self.floors)
    }

    /// The server that is asked, if it is known which.
    pub(super) fn server(&self) -> Option<Source> {
        let made = self.reach.connections_made();
        self.era.get().map(|era| Source { server: era.server, made })
    }

    /// What was remembered of a server has ended with it.
    pub(super) fn end_era(&self, era: &Arc<Era>) {
        self.era.end(era);
        // What they wait for may be there already.
        self.parked().wake_all();
    }

    /// The floors, if this server's word still counts: what one says is not true of the next, which may have taken over
    /// from an earlier state.
    pub(super) fn floors_of(&self, server: Source) -> Option<MutexGuard<'_, Floors>> {
        let floors = self.floors();
        (self.server() == Some(server) && floors.are_of(server)).then_some(floors)
    }

    /// Does something to the waiting pops, and has a worker come if any is woken then.
    pub(super) fn wake(&self, act: impl FnOnce(&mut Parked)) {
        let mut parked = self.parked();
        act(&mut parked);
        let has_woken = parked.has_woken();
        drop(parked);
        if has_woken {
            self.nudge();
        }
    }

    /// Starts a thread of this name beside the workers, which leaves when `work` is done. It has a connection of its own, which is yet
    /// to be made.
    pub(super) fn start(
        self: &Arc<Self>,
        name: &str,
        work: impl FnOnce(&Self, Link) + Send + 'static,
    ) -> io::Result<()> {
        let link = Link::new(Arc::clone(&self.reach), None)?;
        let shared = Arc::clone(self);
        Builder::new().name(name.into()).spawn(move || work(&shared, link)).map(drop)
    }

    /// Has a worker come for woken pops.
    pub(super) fn nudge(&self) {
        if let Some(line) = self.line.get() {
            line.come_by(Instant::now());
        }
    }

    /// The time that tests set.
    pub(super) fn now_ms(&self) -> Option<i64> {
        self.hand.as_ref().map(|hand| hand.load(Ordering::SeqCst))
    }
}
