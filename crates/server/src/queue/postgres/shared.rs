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
use crate::queue::counts::MessageCounts;
use crate::time::Time;

/// State that workers and the keeper share.
pub(super) struct Shared {
    pub(super) reach: Arc<Reach>,
    pub(super) parked: Mutex<Parked>,
    /// Notified when a call has ended for which others wait.
    pub(super) ended: Condvar,
    pub(super) era: CurrentEra,
    pub(super) floors: Mutex<Floors>,
    pub(super) keeper_counts: keeper::Counts,
    /// What this process has done to messages.
    pub(super) counts: Mutex<MessageCounts>,
    pub(super) line: OnceLock<Arc<WaitingLine>>,
    pub(super) time: Time,
    /// The time that tests set in place of the database's clock.
    pub(super) hand: Option<Arc<AtomicI64>>,
}

impl Shared {
    /// Locks and returns the waiting pops.
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

    /// Locks and returns the floors.
    pub(super) fn floors(&self) -> MutexGuard<'_, Floors> {
        lock(&self.floors)
    }

    /// Counts what was done to messages.
    pub(super) fn count_all(&self, counts: &MessageCounts) {
        lock(&self.counts).add_all(counts);
    }

    /// Returns the server that is asked, if it is known which.
    pub(super) fn server(&self) -> Option<Source> {
        let made = self.reach.connections_made();
        self.era.get().map(|era| Source { server: era.server, made })
    }

    /// Ends an era: another server has answered.
    pub(super) fn end_era(&self, era: &Arc<Era>) {
        self.era.end(era);
        // At that server there may be messages for pops that wait.
        self.parked().wake_all();
    }

    /// Locks and returns the floors if they are still this server's: what one server says is not true of the next,
    /// which may have taken over from an earlier state.
    pub(super) fn floors_of(&self, server: Source) -> Option<MutexGuard<'_, Floors>> {
        let floors = self.floors();
        (self.server() == Some(server) && floors.are_of(server)).then_some(floors)
    }

    /// Does something to the waiting pops, and has a worker come if any is woken by that.
    pub(super) fn wake(&self, act: impl FnOnce(&mut Parked)) {
        let mut parked = self.parked();
        act(&mut parked);
        let has_woken = parked.has_woken();
        drop(parked);
        if has_woken {
            self.nudge();
        }
    }

    /// Starts a thread of this name beside the workers, which ends when `work` is done. Its link is not connected yet.
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
            line.wake_by(Instant::now());
        }
    }

    /// Returns the time that tests set; None: the database's clock is used.
    pub(super) fn now_ms(&self) -> Option<i64> {
        self.hand.as_ref().map(|hand| hand.load(Ordering::SeqCst))
    }
}
