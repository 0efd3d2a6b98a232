//! A memcached server as all threads see it: where it is, whether it takes part, what it understands, what it did.

use std::sync::atomic::AtomicU64;

use super::backend::Backend;
use super::dialect::Dialect;
use super::health::Health;
use super::latency::Latency;
use super::server_limits::SharedServerLimits;

/// Counters of one server.
#[derive(Debug, Default)]
pub struct ServerCounts {
    /// Commands sent to the server.
    pub requests: AtomicU64,
    /// Keys asked of the server.
    pub keys: AtomicU64,
    /// Errors that the server answered, and answers that it did not give.
    pub errors: AtomicU64,
    /// Writes that were answered while the server did not have them: it was away.
    pub missed_writes: AtomicU64,
    /// How long the server's replies took.
    pub latency: Latency,
}

/// One memcached server.
pub struct Server {
    /// The server's place in [`Table::servers`](super::table::Table::servers), for as long as the program runs.
    pub slot: usize,
    /// The server's address.
    pub backend: Backend,
    /// How long the server may take, and how much it may owe.
    pub limits: SharedServerLimits,
    /// Whether the server takes part.
    pub health: Health,
    /// Which meta commands the server understands.
    pub dialect: Dialect,
    /// The server's counters.
    pub counts: ServerCounts,
    /// When the delayed `flush_all` is due for which the server is to be flushed once more (see
    /// [`super::delayed_flush`]), in Unix seconds; 0: there is none.
    pub(super) flush_again_s: AtomicU64,
}

impl Server {
    /// A server of which nothing is known yet.
    pub(super) fn new(slot: usize, backend: Backend, health: Health, dialect: Dialect) -> Self {
        let (limits, counts) = (SharedServerLimits::default(), ServerCounts::default());
        Self { slot, backend, limits, health, dialect, counts, flush_again_s: AtomicU64::new(0) }
    }

    /// The server's name: `host:port` or `unix:PATH`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.backend.name
    }
}
