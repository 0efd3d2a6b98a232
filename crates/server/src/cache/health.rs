//! Which servers take part, and what those that were away have missed.
//!
//! A server that is lost leaves at once: nothing is sent to it, and keys stay where they are. Every key that is
//! written meanwhile, and every one whose write was under way when it was lost, is noted. Before it takes part again
//! those keys are deleted on it, so that it serves nothing that it missed. If they become too many it is flushed.
//!
//! One thing could undo that: a request that the server has not read yet, on a connection that we have given up. So
//! such a connection is not closed. Its sending side is, and it is read until the server has closed it too, which it
//! does when it has done all that it was sent. Until then the server stays away.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Keys noted for one server; one more, and it is flushed.
const MISSED_KEYS_MAX: usize = 16 * 1024;

/// A key as it is written in a command.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Missed {
    /// The key.
    pub key: Vec<u8>,
    /// It is written in base64.
    pub base64: bool,
}

/// All servers of a pool.
pub struct Health {
    eject: bool,
    servers: Vec<ServerHealth>,
    lost: Mutex<bool>,
    news: Condvar,
}

/// One of them.
#[derive(Default)]
struct ServerHealth {
    away: AtomicBool,
    losses: AtomicU64,
    journal: Mutex<Journal>,
}

/// What a server has missed, and the connections to it that were given up.
#[derive(Default)]
struct Journal {
    keys: HashSet<Missed>,
    everything: bool,
    given_up: Vec<OwnedFd>,
}

/// What must be done before a server may take part again.
#[derive(Debug)]
pub enum Before {
    /// Read these connections to their ends.
    Drain(Vec<OwnedFd>),
    /// Delete these keys.
    Delete(Vec<Missed>),
    /// Forget everything.
    Flush,
    /// Nothing: it takes part from now on.
    Nothing,
}

impl Health {
    /// All servers take part. `eject` false: they always do.
    #[must_use]
    pub fn new(servers: usize, eject: bool) -> Self {
        let servers = (0..servers).map(|_| ServerHealth::default()).collect();
        Self { eject, servers, lost: Mutex::new(false), news: Condvar::new() }
    }

    /// Whether servers that are lost leave.
    #[must_use]
    pub fn ejects(&self) -> bool {
        self.eject
    }

    /// Whether a server takes part.
    #[must_use]
    pub fn is_live(&self, server: usize) -> bool {
        !self.servers[server].away.load(Ordering::Relaxed)
    }

    /// How many take part.
    #[must_use]
    pub fn live(&self) -> usize {
        (0..self.servers.len()).filter(|server| self.is_live(*server)).count()
    }

    /// How often it was lost.
    #[must_use]
    pub fn losses(&self, server: usize) -> u64 {
        self.servers[server].losses.load(Ordering::Relaxed)
    }

    /// A connection was lost with the writes of these keys under way (None: of everything); `socket` is the connection
    /// if the server may still read what it was sent.
    pub fn lose(&self, server: usize, keys: Vec<Option<Missed>>, socket: Option<OwnedFd>) {
        self.servers[server].losses.fetch_add(1, Ordering::Relaxed);
        if !self.eject {
            return;
        }
        let mut journal = self.journal(server);
        keys.into_iter().for_each(|key| journal.note(key));
        journal.given_up.extend(socket);
        self.servers[server].away.store(true, Ordering::Release);
        drop(journal);
        *self.lost.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.news.notify_one();
    }

    /// Notes a write (None: of everything) that a server away does not get. False: it is there again and must get it.
    #[must_use]
    pub fn miss(&self, server: usize, key: Option<Missed>) -> bool {
        let mut journal = self.journal(server);
        let away = self.servers[server].away.load(Ordering::Acquire);
        if away {
            journal.note(key);
        }
        away
    }

    /// For who asks after servers that are away: what must be done before this one may take part. With
    /// [`Before::Nothing`] it does.
    #[must_use]
    pub fn before(&self, server: usize) -> Before {
        let mut journal = self.journal(server);
        if !journal.given_up.is_empty() {
            return Before::Drain(std::mem::take(&mut journal.given_up));
        }
        if std::mem::take(&mut journal.everything) {
            journal.keys.clear();
            return Before::Flush;
        }
        if !journal.keys.is_empty() {
            return Before::Delete(journal.keys.drain().collect());
        }
        self.servers[server].away.store(false, Ordering::Release);
        Before::Nothing
    }

    /// What was taken to be done could not be done.
    pub fn put_back(&self, server: usize, before: Before) {
        let mut journal = self.journal(server);
        match before {
            Before::Drain(sockets) => journal.given_up.extend(sockets),
            Before::Delete(keys) => keys.into_iter().for_each(|key| journal.note(Some(key))),
            Before::Flush => journal.note(None),
            Before::Nothing => {}
        }
    }

    /// Waits until a server is lost, at most so long.
    pub fn wait_for_loss(&self, at_most: Duration) {
        let lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.news.wait_timeout_while(lost, at_most, |lost| !*lost);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
    }

    /// Wakes who waits for a loss.
    pub fn wake(&self) {
        *self.lost.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.news.notify_all();
    }

    fn journal(&self, server: usize) -> MutexGuard<'_, Journal> {
        self.servers[server].journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Journal {
    fn note(&mut self, key: Option<Missed>) {
        match key {
            Some(key) if !self.everything && self.keys.len() < MISSED_KEYS_MAX => {
                self.keys.insert(key);
            }
            _ => {
                self.everything = true;
                self.keys.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Option<Missed> {
        Some(Missed { key: name.as_bytes().to_vec(), base64: false })
    }

    #[test]
    fn a_server_comes_back_when_all_it_missed_is_deleted() {
        let health = Health::new(2, true);
        assert!(!health.miss(1, key("before")), "it is there and must get the write itself");
        health.lose(1, vec![key("under way")], None);
        assert!(!health.is_live(1) && health.is_live(0));
        assert!(health.miss(1, key("meanwhile")));
        let Before::Delete(keys) = health.before(1) else { panic!("keys to delete") };
        assert_eq!(keys.len(), 2);
        assert!(!health.is_live(1));
        assert!(health.miss(1, key("while the others are deleted")));
        assert!(matches!(health.before(1), Before::Delete(keys) if keys.len() == 1));
        assert!(matches!(health.before(1), Before::Nothing));
        assert!(health.is_live(1) && !health.miss(1, key("after")));
    }

    #[test]
    fn a_server_that_missed_too_much_is_flushed() {
        let health = Health::new(1, true);
        health.lose(0, Vec::new(), None);
        for i in 0..=MISSED_KEYS_MAX {
            assert!(health.miss(0, key(&i.to_string())));
        }
        let flush = health.before(0);
        assert!(matches!(flush, Before::Flush));
        health.put_back(0, flush);
        assert!(matches!(health.before(0), Before::Flush), "it failed and must be done again");
        assert!(matches!(health.before(0), Before::Nothing));
    }

    #[test]
    fn a_connection_given_up_is_read_to_its_end_before_anything_is_deleted() {
        let health = Health::new(1, true);
        let (socket, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
        health.lose(0, vec![key("a")], Some(socket.into()));
        assert!(matches!(health.before(0), Before::Drain(sockets) if sockets.len() == 1));
        assert!(matches!(health.before(0), Before::Delete(_)));
    }

    #[test]
    fn without_ejection_a_lost_server_stays() {
        let health = Health::new(1, false);
        health.lose(0, vec![key("a")], None);
        assert!(health.is_live(0) && health.losses(0) == 1);
    }
}
