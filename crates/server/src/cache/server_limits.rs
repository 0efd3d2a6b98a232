//! Limits for one server: how long it may take to connect and to answer, and how many answers it may owe at once.
//!
//! A server's connections are shared by all pools that name it, so these must agree. Another configuration may change it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Limits for one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// How long the server may take to accept a connection.
    pub connect_timeout: Duration,
    /// How long the server may say nothing while it owes an answer.
    pub answer_timeout: Duration,
    /// Most answers that the server may owe over one connection.
    pub depth: usize,
}

impl ServerLimits {
    /// The longer of the two times: the system must not give a connection up sooner, and should not hold on to it for
    /// longer.
    #[must_use]
    pub fn longest_timeout(self) -> Duration {
        self.connect_timeout.max(self.answer_timeout)
    }
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(1),
            answer_timeout: Duration::from_secs(1),
            depth: usize::MAX,
        }
    }
}

/// A server's [`ServerLimits`], which every thread may read while it changes.
#[derive(Debug, Default)]
pub struct SharedServerLimits {
    connect_ns: AtomicU64,
    answer_ns: AtomicU64,
    depth: AtomicUsize,
}

impl SharedServerLimits {
    /// Sets the limits that hold from now on.
    pub fn set(&self, limits: ServerLimits) {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.connect_ns.store(ns(limits.connect_timeout), Ordering::Relaxed);
        self.answer_ns.store(ns(limits.answer_timeout), Ordering::Relaxed);
        self.depth.store(limits.depth, Ordering::Relaxed);
    }

    /// Returns the limits that hold now.
    #[must_use]
    pub fn get(&self) -> ServerLimits {
        let time = |ns: &AtomicU64| Duration::from_nanos(ns.load(Ordering::Relaxed));
        ServerLimits {
            connect_timeout: time(&self.connect_ns),
            answer_timeout: time(&self.answer_ns),
            depth: self.depth(),
        }
    }

    /// Returns how many answers the server may owe over one connection.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.depth.load(Ordering::Relaxed)
    }
}
