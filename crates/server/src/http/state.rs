//! What those share who answer requests to a queue tier: the house, a way to ask the server, lists of queues.

use std::sync::Arc;

use super::inside::Pool;
use super::list::Lists;
use crate::house::{Entrance, House};

/// The state behind all paths of a queue tier.
pub(super) struct QueueState {
    /// The server.
    pub(super) house: Arc<House>,
    /// Clients of its path.
    pub(super) pool: Pool,
    /// Lists of queues, kept for whoever asks.
    pub(super) lists: Lists,
}

impl QueueState {
    /// For a server.
    pub(super) fn new(house: Arc<House>) -> Arc<Self> {
        Arc::new(Self { pool: Pool::new(Arc::clone(&house)), lists: Lists::default(), house })
    }

    /// Whether anybody may come.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.house.entrance, Entrance::Open(_))
    }
}
