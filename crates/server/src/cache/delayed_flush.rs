//! A `flush_all` with a delay, and servers that were not sent it: they are flushed once more when it is due.
//!
//! Such a server must not be sent it ahead of time: memcached keeps a single time, and setting one in the future makes
//! visible again what an earlier flush has hidden.

use std::sync::atomic::Ordering;

use super::fleet::Fleet;
use super::memcached_server::Server;

impl Fleet {
    /// Notes that a `flush_all` was asked for that is due at this Unix second, or at once (0); it takes the place of the
    /// one before.
    pub fn note_flush(&self, due_s: u64) {
        self.flush_due_s.store(due_s, Ordering::Release);
    }

    /// In how many seconds the last `flush_all` is due, if it still lies ahead; `now` is on the program's clock in
    /// nanoseconds.
    #[must_use]
    pub fn seconds_until_flush(&self, now: u64) -> Option<u64> {
        let due_s = self.flush_due_s.load(Ordering::Acquire);
        due_s.checked_sub(self.began_s + now / 1_000_000_000).filter(|rest| *rest > 0)
    }

    /// Sets the reminder of a server that was flushed, or perhaps started anew: it is to be flushed once more when a
    /// delayed `flush_all` is due. If none lies ahead, it has no reminder any more.
    pub fn set_flush_reminder(&self, server: &Server, now: u64) {
        let due_s = self.flush_due_s.load(Ordering::Acquire);
        let reminder_s = if self.seconds_until_flush(now).is_some() { due_s } else { 0 };
        server.flush_again_s.store(reminder_s, Ordering::Release);
    }

    /// Does as [`Fleet::set_flush_reminder`] at the present time.
    pub(super) fn set_flush_reminder_now(&self, server: &Server) {
        self.set_flush_reminder(server, self.now());
    }

    /// Reminds a server that no pool had until now of a delayed `flush_all`, which it was not sent. If none lies ahead,
    /// an earlier reminder stays: the server may have left before it was flushed.
    pub(super) fn remind_of_pending_flush(&self, server: &Server) {
        let now = self.now();
        if self.seconds_until_flush(now).is_some() {
            self.set_flush_reminder(server, now);
        }
    }

    /// The present time on the program's clock, in nanoseconds.
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Takes a server's reminder once its time has come. Returns true if so: the caller must flush the server.
    #[must_use]
    pub fn take_due_reminder(&self, server: &Server, now: u64) -> bool {
        let reminder_s = server.flush_again_s.load(Ordering::Acquire);
        if reminder_s == 0 {
            return false;
        }
        // Another flush has taken its place: the server was told of that one, or it is noted for it as missed.
        let is_replaced = reminder_s != self.flush_due_s.load(Ordering::Acquire);
        if !is_replaced && self.seconds_until_flush(now).is_some() {
            return false;
        }
        server.flush_again_s.store(0, Ordering::Release);
        !is_replaced
    }
}
