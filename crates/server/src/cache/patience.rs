//! How long a server is waited for, and for how much at once.
//!
//! A server's connections are shared by all pools that name it, so they agree about it; another file may say something else.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// How long a server may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// To take a connection.
    pub connect: Duration,
    /// To say something while it owes an answer.
    pub answer: Duration,
    /// Most answers that it may owe over one connection.
    pub depth: usize,
}

impl Patience {
    /// The longer one: the system may give a connection up no sooner, but should not hold on to it for longer either.
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

/// The same, as every thread may read it while it changes.
#[derive(Debug, Default)]
pub struct SharedPatience {
    connect_ns: AtomicU64,
    answer_ns: AtomicU64,
    depth: AtomicUsize,
}

impl SharedPatience {
    /// What holds from now on.
    pub fn set(&self, patience: Patience) {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.connect_ns.store(ns(patience.connect), Ordering::Relaxed);
        self.answer_ns.store(ns(patience.answer), Ordering::Relaxed);
        self.depth.store(patience.depth, Ordering::Relaxed);
    }

    /// What holds now.
    #[must_use]
    pub fn get(&self) -> Patience {
        let time = |ns: &AtomicU64| Duration::from_nanos(ns.load(Ordering::Relaxed));
        Patience { connect: time(&self.connect_ns), answer: time(&self.answer_ns), depth: self.depth() }
    }

    /// Most answers that it may owe over one connection now.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.depth.load(Ordering::Relaxed)
    }
}
