//! State of the handlers of a queue tier's HTTP requests.

use std::sync::Arc;

use super::internal_client::Pool;
use super::queue_list::QueueListCache;
use crate::queue_shared::{Entrance, QueueShared};

/// The state behind all paths of a queue tier.
pub(super) struct QueueState {
    /// What the threads of the tier share.
    pub(super) shared: Arc<QueueShared>,
    /// Connections by which HTTP is a client of the path.
    pub(super) pool: Pool,
    /// The list of queues, cached for all callers.
    pub(super) queue_list: QueueListCache,
}

impl QueueState {
    /// Returns the state for a server.
    pub(super) fn new(shared: Arc<QueueShared>) -> Arc<Self> {
        Arc::new(Self { pool: Pool::new(Arc::clone(&shared)), queue_list: QueueListCache::default(), shared })
    }

    /// Returns whether any client may ask without a secret.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.shared.entrance, Entrance::Open(_))
    }
}
