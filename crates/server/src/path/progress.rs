//! How far a store has come with a bundle that it does not execute in one go, as the store in PostgreSQL does not: some
//! requests are left for a later call, and some take several.

use std::time::Instant;

/// The progress of a bundle in such a store.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Index of the first request that is left for a later turn; None: all belong to this turn.
    pub held_back: Option<usize>,
    /// What the next request has removed so far, if it is a QPURGE or QDELETE of a large queue.
    pub removal: Removal,
    /// Since when the next request waits for the row of a queue that another transaction keeps locked; None: it does not.
    pub row_wait_since: Option<Instant>,
}

impl Progress {
    /// Notes that the next request is answered: the one behind it has neither removed anything nor waited.
    pub(super) fn begin_next(&mut self) {
        self.removal = Removal::default();
        self.row_wait_since = None;
    }
}

/// The progress of a QPURGE or QDELETE that empties a large queue in parts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Removal {
    /// How many messages were removed so far.
    pub messages: u64,
    /// Whether the last attempt to remove more found nothing that it could remove.
    pub is_stuck: bool,
}
