//! How much of each log segment is still needed.

use std::collections::BTreeMap;

use super::log::RECORD_OVERHEAD;
use super::message::Home;

/// Bytes of records that are the [`Home`] of something, by segment. A purged message counts until it is freed, even if
/// its segment has been dropped before.
#[derive(Default)]
pub(super) struct Live {
    by_segment: BTreeMap<u32, u64>,
    total: u64,
}

impl Live {
    pub(super) fn add(&mut self, home: Home) {
        *self.by_segment.entry(home.at.segment).or_default() += bytes(home);
        self.total += bytes(home);
    }

    pub(super) fn remove(&mut self, home: Home) {
        if let Some(live) = self.by_segment.get_mut(&home.at.segment) {
            *live -= bytes(home);
        }
        self.total -= bytes(home);
    }

    /// Live bytes of one segment.
    pub(super) fn of(&self, segment: u32) -> u64 {
        self.by_segment.get(&segment).copied().unwrap_or(0)
    }

    /// Live bytes of all segments.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Forgets a segment that was dropped.
    pub(super) fn forget(&mut self, segment: u32) {
        self.by_segment.remove(&segment);
    }
}

fn bytes(home: Home) -> u64 {
    u64::from(home.len) + RECORD_OVERHEAD
}
