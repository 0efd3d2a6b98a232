//! Whether a server takes part, and which writes it has missed while it did not.
//!
//! A server that is lost is away at once: nothing is sent to it, and keys stay where they are. Every key that is
//! written meanwhile, and every one whose write was under way when it was lost, is noted. Before the server takes
//! part again those keys are deleted on it, so that it serves nothing stale. If they become too many it is flushed.
//!
//! A request that the server has not read yet, on a connection of ours, could undo that. So a connection that is
//! given up is not closed at once: its sending side is, and it is read until the server has closed it too, which it
//! does when it has executed all that it was sent. And threads whose connection still works are counted as the
//! server's users and keep it away until they have closed it.
//!
//! A server that is away is also ejected from rotation, so that requests do without it, unless the tier ejects none
//! ([`Ejection::Never`]): then its part of every answer is an error until it is back. The way back is the same. One
//! that an operator had taken out is counted on again when the first attempt to bring it back has failed: if it is
//! well, no request notices that it comes back.
//!
//! Whether the server answered when it was last asked is kept too, for the log and for readiness. Operators can also
//! take a server out (`down`), which is like a loss with the same way back, or have it draining (`drain`).
//!
//! | from | to | by |
//! | --- | --- | --- |
//! | live | away | `note_lost_connection`, `note_absent`, `note_unknown_contents` |
//! | live, away | down | `set_admin_state(Down)` |
//! | down | away | `set_admin_state(Up)` or `set_admin_state(Drain)` |
//! | away | live, or draining | `next_recovery_step`, when that is `Done` |
//! | live | draining, and back | `set_admin_state(Drain)`, `set_admin_state(Up)` |

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_measure::lock;

use super::admin_state::{AdminState, ServerState};
use super::identity::Run;
use super::missed_writes::{MissedWrite, Recovery, RecoveryStep};
use super::server_events::ServerEvents;

/// A server that came back counts as warm after this many misses in a row that no other replica could fill.
const COLD_KEYS: u32 = 1000;

/// The result of the last contact with a server, as it is kept in [`Health::contact`].
#[derive(Clone, Copy)]
#[repr(u8)]
enum Contact {
    /// The server has never been asked.
    NotYetAsked,
    /// The server answered.
    Answered,
    /// The server did not answer.
    Silent,
}

/// Where the prober waits for news of any server.
#[derive(Default)]
pub struct Watch {
    news: Mutex<bool>,
    arrival: Condvar,
    /// How many times a server (or several together) joined with less than other replicas may have.
    joins: AtomicU64,
}

impl Watch {
    /// Waits for news, at most for this time.
    pub fn wait(&self, at_most: Duration) {
        let news = lock(&self.news);
        let waited = self.arrival.wait_timeout_while(news, at_most, |news| !*news);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
    }

    /// Reports news, which wakes the prober up in [`Watch::wait`].
    pub fn wake(&self) {
        *lock(&self.news) = true;
        self.arrival.notify_all();
    }
}

/// Whether requests do without a server while it is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ejection {
    /// A lost server is out of rotation until it is back.
    OnLoss,
    /// A lost server stays in rotation: its part of every answer is an error.
    Never,
}

/// One server's health.
pub struct Health {
    ejection: Ejection,
    watch: Arc<Watch>,
    /// A [`Contact`].
    contact: AtomicU8,
    /// Whether the prober is to check the server: it may be gone, though no request has found that out.
    probe_requested: AtomicBool,
    /// Nothing is sent to the server.
    away: AtomicBool,
    /// Requests do without the server: it is out of rotation.
    ejected: AtomicBool,
    draining: AtomicBool,
    taken_out: AtomicBool,
    /// The server has refused to forget what it missed while it was away.
    refuses: AtomicBool,
    losses: AtomicU64,
    connections_lost: AtomicU64,
    /// How many more missed keys must turn out to be nowhere before the server counts as warm; 0: it is.
    cold: AtomicU32,
    /// The number of the server's last join, counted over all servers; 0: it has been there from the start.
    last_join: AtomicU64,
    /// Threads whose requests the server may still be reading.
    users: AtomicUsize,
    recovery: Mutex<Recovery>,
}

impl Health {
    /// Creates the health of a server that takes part.
    #[must_use]
    pub fn new(ejection: Ejection, watch: Arc<Watch>, events: ServerEvents) -> Self {
        Self {
            ejection,
            watch,
            contact: AtomicU8::new(Contact::NotYetAsked as u8),
            probe_requested: AtomicBool::new(false),
            away: AtomicBool::new(false),
            ejected: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            taken_out: AtomicBool::new(false),
            refuses: AtomicBool::new(false),
            losses: AtomicU64::new(0),
            connections_lost: AtomicU64::new(0),
            cold: AtomicU32::new(0),
            last_join: AtomicU64::new(0),
            users: AtomicUsize::new(0),
            recovery: Mutex::new(Recovery::new(events)),
        }
    }

    /// Returns whether requests count on this server. One that is away without being ejected is in rotation too.
    #[must_use]
    pub fn is_in_rotation(&self) -> bool {
        !self.ejected.load(Ordering::Acquire)
    }

    /// Returns whether nothing may be sent to this server. If requests count on it nevertheless, its part of them is
    /// an error.
    #[must_use]
    pub fn is_away(&self) -> bool {
        self.away.load(Ordering::Acquire)
    }

    /// Returns whether reads may choose this server where other replicas could answer too.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.is_in_rotation() && !self.draining.load(Ordering::Relaxed)
    }

    /// Returns whether the server has never been asked.
    #[must_use]
    pub fn is_untried(&self) -> bool {
        self.last_contact_was(Contact::NotYetAsked)
    }

    /// Returns whether the server takes part and answered when it was last asked.
    #[must_use]
    pub fn is_answering(&self) -> bool {
        !self.is_away() && self.last_contact_was(Contact::Answered)
    }

    fn last_contact_was(&self, contact: Contact) -> bool {
        self.contact.load(Ordering::Acquire) == contact as u8
    }

    /// Notes that the server answers.
    pub fn note_answer(&self) {
        self.contact.store(Contact::Answered as u8, Ordering::Release);
    }

    /// Has the prober check the server, which may be gone. It may have closed an idle connection just to save memory.
    pub fn request_probe(&self) {
        if !self.probe_requested.swap(true, Ordering::AcqRel) {
            self.watch.wake();
        }
    }

    /// Returns whether the server is to be probed, and resets that: the caller must probe it.
    #[must_use]
    pub fn take_probe_request(&self) -> bool {
        self.probe_requested.swap(false, Ordering::AcqRel)
    }

    /// Returns whether the server may lack what other replicas have, since it was away.
    #[must_use]
    pub fn is_cold(&self) -> bool {
        self.cold.load(Ordering::Relaxed) > 0
    }

    /// The number of the server's last join: of two servers, the one with the lower number may have what the other lacks.
    #[must_use]
    pub fn last_join(&self) -> u64 {
        self.last_join.load(Ordering::Acquire)
    }

    /// Counts keys that this server missed and that are looked for on another replica now.
    pub fn count_cache_misses(&self, keys: u32) {
        let fewer = |cold: u32| Some(cold.saturating_sub(keys));
        // Cannot fail: `fewer` always returns a number.
        let _ = self.cold.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
    }

    /// Notes that another replica had a key which this server missed: it counts as cold anew.
    pub fn mark_cold(&self) {
        self.cold.store(COLD_KEYS, Ordering::Relaxed);
    }

    /// Returns whether a run of this server is known: then every new connection asks for it again.
    #[must_use]
    pub fn has_run(&self) -> bool {
        self.recovery().run.is_some()
    }

    /// Notes the run that answers. Returns whether it is another one than before: the server was restarted and holds
    /// nothing.
    #[must_use]
    pub fn note_start(&self, run: Run) -> bool {
        let mut recovery = self.recovery();
        let is_restart = recovery.run.is_some_and(|known| !known.is_same(run));
        if is_restart {
            // Before the run is stored: other threads that find it known rely on this.
            self.mark_empty();
        }
        if is_restart || recovery.run.is_none() {
            recovery.run = Some(run);
        }
        is_restart
    }

    /// Sets the run that takes part from now on; `None`: the one that the server reports next.
    pub fn set_run(&self, run: Option<Run>) {
        self.recovery().run = run;
    }

    /// For the prober: sets the run that becomes the current one as soon as the server takes part again, not earlier.
    /// Threads that still have something for the run before must not send it to this one.
    pub fn set_next_run(&self, run: Option<Run>) {
        self.recovery().next_run = run;
    }

    /// Notes that another server may answer by now: it is to be asked which run it is.
    pub fn suspect_another_run(&self) {
        self.set_run(None);
        self.request_probe();
    }

    /// Returns whether the server is ejected as soon as it is lost, so that other servers stand in.
    #[must_use]
    pub fn is_ejected_when_lost(&self) -> bool {
        self.ejection == Ejection::OnLoss
    }

    /// What it means for requests that the server does not answer, in words for the log.
    #[must_use]
    pub fn consequence(&self) -> &'static str {
        if self.is_ejected_when_lost() {
            "it is left out until it answers"
        } else {
            "its part of every answer is an error"
        }
    }

    /// Returns whether an operator took the server out.
    #[must_use]
    pub fn is_taken_out(&self) -> bool {
        self.taken_out.load(Ordering::Relaxed)
    }

    /// The server's state, as operators see it.
    #[must_use]
    pub fn state(&self) -> ServerState {
        match (self.is_taken_out(), self.is_away(), self.is_readable()) {
            (true, ..) => ServerState::Down,
            (_, true, _) => ServerState::Away,
            (_, _, false) => ServerState::Draining,
            _ => ServerState::Live,
        }
    }

    /// Sets what an operator wants of the server.
    pub fn set_admin_state(&self, wanted: AdminState) {
        let mut recovery = self.recovery();
        recovery.events.note_admin_state(wanted);
        self.draining.store(wanted == AdminState::Drain, Ordering::Relaxed);
        self.taken_out.store(wanted == AdminState::Down, Ordering::Relaxed);
        if wanted == AdminState::Down {
            recovery.events.begin_away();
            self.ejected.store(true, Ordering::Release);
            self.away.store(true, Ordering::Release);
        }
        drop(recovery);
        self.watch.wake();
    }

    /// Notes that an attempt to bring the server back has failed. If lost servers are not ejected, requests count on it
    /// from now on, also if an operator had taken it out before.
    pub fn note_failed_return(&self) {
        let _recovery = self.recovery();
        if !self.is_ejected_when_lost() && !self.is_taken_out() {
            self.ejected.store(false, Ordering::Release);
        }
    }

    /// How often the server was lost, each time with the connections of all threads.
    #[must_use]
    pub fn losses(&self) -> u64 {
        self.losses.load(Ordering::Relaxed)
    }

    /// How many connections to the server were lost.
    #[must_use]
    pub fn connections_lost(&self) -> u64 {
        self.connections_lost.load(Ordering::Relaxed)
    }

    /// Counts a thread that begins to use the server.
    pub fn add_user(&self) {
        self.users.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns whether threads may have something under way on the server, which keeps it away if it is.
    #[must_use]
    pub fn has_users(&self) -> bool {
        self.users.load(Ordering::Acquire) > 0
    }

    /// Notes that a thread uses the server no more: only connections that it gave up may still be read.
    pub fn remove_user(&self) {
        let users = self.users.fetch_sub(1, Ordering::AcqRel);
        if users == 1 && self.is_away() {
            self.watch.wake();
        }
    }

    /// Notes that a connection was lost while these writes were under way. `socket` is the connection if the server
    /// may still read what it was sent. Returns whether this is news: whether the server was not silent before.
    pub fn note_lost_connection(&self, writes: Vec<MissedWrite>, socket: Option<OwnedFd>) -> bool {
        self.connections_lost.fetch_add(1, Ordering::Relaxed);
        let is_news = self.set_away(writes, socket, ServerEvents::note_loss);
        self.losses.fetch_add(u64::from(is_news), Ordering::Relaxed);
        is_news
    }

    /// Notes that the server holds nothing, where other replicas may hold something.
    pub fn mark_empty(&self) {
        self.mark_empty_as(self.next_join());
    }

    /// Does as [`Health::mark_empty`] for one of several servers that join together, of which none has more than
    /// another: all get the number `join`.
    pub fn mark_empty_as(&self, join: u64) {
        self.cold.store(COLD_KEYS, Ordering::Relaxed);
        self.last_join.store(join, Ordering::Release);
    }

    /// Draws the number of a join that happens now.
    #[must_use]
    pub fn next_join(&self) -> u64 {
        self.watch.joins.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Notes that what the server holds is unknown and that it could not be flushed: it comes back when it has been.
    /// Returns whether this is news.
    pub fn note_unknown_contents(&self) -> bool {
        self.set_away(vec![MissedWrite::AllKeys], None, ServerEvents::note_absence)
    }

    /// Notes that the server was not there when it was first asked. Returns whether this is news.
    pub fn note_absent(&self) -> bool {
        self.set_away(Vec::new(), None, ServerEvents::note_absence)
    }

    fn set_away(
        &self,
        writes: Vec<MissedWrite>,
        socket: Option<OwnedFd>,
        note_event: impl FnOnce(&mut ServerEvents),
    ) -> bool {
        let silent = Contact::Silent as u8;
        let is_news = self.contact.swap(silent, Ordering::AcqRel) != silent;
        let mut recovery = self.recovery();
        writes.into_iter().for_each(|write| recovery.note(write));
        recovery.give_up(socket);
        recovery.events.begin_away();
        if is_news {
            note_event(&mut recovery.events);
        }
        if self.is_ejected_when_lost() {
            // Set before `away` and cleared after it: a thread that finds the server away looks for others in rotation.
            self.ejected.store(true, Ordering::Release);
        }
        self.away.store(true, Ordering::Release);
        drop(recovery);
        if is_news {
            self.watch.wake();
        }
        is_news
    }

    /// Notes a write that the server does not get. Returns false if the server is there again and must get it.
    #[must_use]
    pub fn note_missed_write(&self, write: MissedWrite) -> bool {
        let mut recovery = self.recovery();
        let away = self.away.load(Ordering::Acquire);
        if away {
            recovery.note(write);
        }
        away
    }

    /// Returns how many keys the server is to delete before it takes part again, and whether it is to be flushed
    /// instead.
    #[must_use]
    pub fn missed(&self) -> (usize, bool) {
        self.recovery().missed()
    }

    /// For the prober: takes the next step of the server's recovery. With [`RecoveryStep::Done`] it takes part now.
    #[must_use]
    pub fn next_recovery_step(&self) -> RecoveryStep {
        let mut recovery = self.recovery();
        if self.is_taken_out() || self.has_users() {
            return RecoveryStep::Wait;
        }
        if let Some(step) = recovery.take_step() {
            return step;
        }
        self.note_answer();
        self.mark_empty();
        recovery.run = recovery.next_run.take();
        self.refuses.store(false, Ordering::Relaxed);
        self.away.store(false, Ordering::Release);
        self.ejected.store(false, Ordering::Release);
        recovery.events.end_away();
        RecoveryStep::Done
    }

    /// Notes that the server refuses to forget what it missed. Returns whether this is the first time since it was lost.
    pub fn note_refusal(&self) -> bool {
        !self.refuses.swap(true, Ordering::Relaxed)
    }

    /// Takes back a step from [`Health::next_recovery_step`] that could not be done.
    pub fn put_back_step(&self, step: RecoveryStep) {
        self.recovery().put_back(step);
    }

    fn recovery(&self) -> MutexGuard<'_, Recovery> {
        lock(&self.recovery)
    }
}

#[cfg(test)]
mod tests {
    use super::super::missed_writes::{MISSED_WRITES_MAX, MissedKey};
    use super::*;

    fn health(ejection: Ejection) -> Health {
        Health::new(ejection, Arc::default(), ServerEvents::default())
    }

    fn key(name: &str) -> MissedWrite {
        MissedWrite::Key(MissedKey { key: name.as_bytes().to_vec(), base64: false })
    }

    #[test]
    fn a_server_comes_back_when_all_it_missed_is_deleted() {
        let health = health(Ejection::OnLoss);
        assert!(!health.note_missed_write(key("before")), "it is there and must get the write itself");
        health.note_lost_connection(vec![key("under way")], None);
        assert!(!health.is_in_rotation());
        assert!(health.note_missed_write(key("meanwhile")));
        let RecoveryStep::Delete(keys) = health.next_recovery_step() else { panic!("keys to delete") };
        assert_eq!(keys.len(), 2);
        assert!(!health.is_in_rotation());
        assert!(health.note_missed_write(key("while the others are deleted")));
        assert!(matches!(health.next_recovery_step(), RecoveryStep::Delete(keys) if keys.len() == 1));
        assert!(matches!(health.next_recovery_step(), RecoveryStep::Done));
        assert!(health.is_in_rotation() && !health.note_missed_write(key("after")));
    }

    #[test]
    fn a_server_that_missed_too_much_is_flushed() {
        let health = health(Ejection::OnLoss);
        health.note_lost_connection(Vec::new(), None);
        for i in 0..=MISSED_WRITES_MAX {
            assert!(health.note_missed_write(key(&i.to_string())));
        }
        let flush = health.next_recovery_step();
        assert!(matches!(flush, RecoveryStep::Flush));
        health.put_back_step(flush);
        assert!(
            matches!(health.next_recovery_step(), RecoveryStep::Flush),
            "it failed and must be done again"
        );
        assert!(matches!(health.next_recovery_step(), RecoveryStep::Done));
    }

    #[test]
    fn a_connection_given_up_is_read_to_its_end_before_anything_is_deleted() {
        let health = health(Ejection::OnLoss);
        let (socket, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
        health.note_lost_connection(vec![key("a")], Some(socket.into()));
        assert!(
            matches!(health.next_recovery_step(), RecoveryStep::DrainConnections(sockets) if sockets.len() == 1)
        );
        assert!(matches!(health.next_recovery_step(), RecoveryStep::Delete(_)));
    }

    #[test]
    fn without_ejection_a_lost_server_is_counted_on_and_gets_nothing_before_it_forgot_what_it_missed() {
        let health = health(Ejection::Never);
        assert!(health.note_lost_connection(vec![key("a")], None));
        assert!(health.is_in_rotation() && health.is_away() && health.losses() == 1);
        assert!(health.state() == ServerState::Away && health.note_missed_write(key("b")));
        assert!(matches!(health.next_recovery_step(), RecoveryStep::Delete(keys) if keys.len() == 2));
        assert!(matches!(health.next_recovery_step(), RecoveryStep::Done));
        assert!(!health.is_away() && health.state() == ServerState::Live);
    }

    #[test]
    fn a_server_that_came_back_is_cold_until_what_it_misses_is_nowhere() {
        let health = health(Ejection::OnLoss);
        assert!(!health.is_cold());
        health.note_lost_connection(Vec::new(), None);
        assert!(matches!(health.next_recovery_step(), RecoveryStep::Done) && health.is_cold());
        health.count_cache_misses(COLD_KEYS - 1);
        health.mark_cold();
        health.count_cache_misses(COLD_KEYS - 1);
        assert!(health.is_cold());
        health.count_cache_misses(2);
        assert!(!health.is_cold());
    }

    #[test]
    fn that_a_server_is_lost_is_news_once() {
        for ejection in [Ejection::OnLoss, Ejection::Never] {
            let health = health(ejection);
            assert!(health.is_untried() && !health.is_answering());
            health.note_answer();
            assert!(health.is_answering());
            assert!(
                health.note_lost_connection(Vec::new(), None)
                    && !health.note_lost_connection(Vec::new(), None)
            );
            assert_eq!((health.losses(), health.connections_lost()), (1, 2));
            assert!(!health.is_answering());
            health.note_answer();
            assert!(matches!(health.next_recovery_step(), RecoveryStep::Done));
            assert!(health.is_answering() && health.note_lost_connection(Vec::new(), None));
        }
    }

    #[test]
    fn a_server_stays_away_while_a_thread_may_have_something_under_way_on_it() {
        let health = health(Ejection::OnLoss);
        health.add_user();
        health.note_lost_connection(Vec::new(), None);
        assert!(matches!(health.next_recovery_step(), RecoveryStep::Wait) && !health.is_in_rotation());
        health.remove_user();
        assert!(matches!(health.next_recovery_step(), RecoveryStep::Done) && health.is_in_rotation());
    }

    #[test]
    fn a_server_that_was_taken_out_misses_what_is_written_and_comes_back_when_it_is_wished() {
        for ejection in [Ejection::OnLoss, Ejection::Never] {
            let health = health(ejection);
            health.set_admin_state(AdminState::Drain);
            assert!(
                health.state() == ServerState::Draining && health.is_in_rotation() && !health.is_readable()
            );
            health.set_admin_state(AdminState::Down);
            assert!(
                health.state() == ServerState::Down
                    && !health.is_in_rotation()
                    && health.note_missed_write(key("a"))
            );
            assert!(matches!(health.next_recovery_step(), RecoveryStep::Wait));
            health.note_failed_return();
            assert!(!health.is_in_rotation(), "an operator took it out");
            health.set_admin_state(AdminState::Up);
            assert!(health.state() == ServerState::Away && !health.is_in_rotation());
            health.note_failed_return();
            assert_eq!(health.is_in_rotation(), ejection == Ejection::Never);
            assert!(matches!(health.next_recovery_step(), RecoveryStep::Delete(_)));
            assert!(matches!(health.next_recovery_step(), RecoveryStep::Done));
            assert_eq!(health.state(), ServerState::Live);
        }
    }
}
