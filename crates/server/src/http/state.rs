//! State shared by all handlers of a queue tier's HTTP requests: the house, connections inside, lists of queues.

use std::sync::Arc;

use super::inside::Pool;
use super::list::Lists;
use crate::house::{Entrance, House};

/// The state behind all paths of a queue tier.
pub(super) struct QueueState {
    /// The server.
    pub(super) house: Arc<House>,
    /// Connections by which HTTP is a client of the path.
    pub(super) pool: Pool,
    /// The kept list of queues, shared by all visitors.
    pub(super) lists: Lists,
}

impl QueueState {
    /// Returns the state for a server.
    pub(super) fn new(house: Arc<House>) -> Arc<Self> {
        Arc::new(Self { pool: Pool::new(Arc::clone(&house)), lists: Lists::default(), house })
    }

    /// Returns whether any client may ask without a secret.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.house.entrance, Entrance::Open(_))
    }
}
