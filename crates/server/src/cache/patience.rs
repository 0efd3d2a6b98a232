//! How long a server is waited for, and how many answers it may owe at once.
//!
//! A server's connections are shared by all pools that name it, so these must agree. Another configuration may change it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Limits for one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// How long the server may take to accept a connection.
    pub connect: Duration,
    /// How long the server may say nothing while it owes an answer.
    pub answer: Duration,
    /// Most answers that the server may owe over one connection.
    pub depth: usize,
}

impl Patience {
    /// The longer of the two times: the system must not give a connection up sooner, and should not hold on to it for longer.
    #[must_use]
    pub fn longest(self) -> Duration {
        self.connect.max(self.answer)
    }
}

impl Default for Patience {
    fn default() -> Self {
        Self { connect: Duration::from_secs(1), answer: Duration::from_secs(1), depth: usize::MAX }
    }
}

/// A server's [`Patience`], which every thread may read while it changes.
#[derive(Debug, Default)]
pub struct SharedPatience {
    connect_ns: AtomicU64,
    answer_ns: AtomicU64,
    depth: AtomicUsize,
}

impl SharedPatience {
    /// Sets the limits that hold from now on.
    pub fn set(&self, patience: Patience) {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.connect_ns.store(ns(patience.connect), Ordering::Relaxed);
        self.answer_ns.store(ns(patience.answer), Ordering::Relaxed);
        self.depth.store(patience.depth, Ordering::Relaxed);
    }

    /// Returns the limits that hold now.
    #[must_use]
    pub fn get(&self) -> Patience {
        let time = |ns: &AtomicU64| Duration::from_nanos(ns.load(Ordering::Relaxed));
        Patience { connect: time(&self.connect_ns), answer: time(&self.answer_ns), depth: self.depth() }
    }

    /// Returns how many answers the server may owe over one connection.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.depth.load(Ordering::Relaxed)
    }
}
