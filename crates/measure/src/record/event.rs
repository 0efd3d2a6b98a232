//! Events: checkpoints, compactions, restarts, whatever can explain a dip in the windows.

use std::borrow::Cow;
use std::sync::Mutex;

use super::lines::{field, seconds};
use crate::lock::lock;

pub(super) const HEAD: &str = "start_s,duration_ms,source,kind\n";

/// More than these between two windows are counted and not kept: a source gone wild must not fill memory.
const PENDING_MAX: usize = 10_000;

/// Something that took place, not tied to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Begin, in nanoseconds of the run's clock.
    pub start_ns: u64,
    /// Length in nanoseconds; 0 for an instant.
    pub duration_ns: u64,
    /// Who tells: `store`, `record`, …
    pub source: Cow<'static, str>,
    /// What it was: `compaction`, `reconnect`, …
    pub kind: Cow<'static, str>,
}

impl Event {
    /// An event that began at `start_ns` and took `duration_ns`.
    pub fn new(
        start_ns: u64,
        duration_ns: u64,
        source: impl Into<Cow<'static, str>>,
        kind: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { start_ns, duration_ns, source: source.into(), kind: kind.into() }
    }

    pub(super) fn row(&self) -> String {
        let duration_ms = self.duration_ns as f64 / 1e6;
        let (source, kind) = (field(&self.source), field(&self.kind));
        format!("{},{duration_ms:.3},{source},{kind}\n", seconds(self.start_ns))
    }
}

/// Events not yet written.
#[derive(Debug, Default)]
pub(super) struct Events(Mutex<Pending>);

#[derive(Debug, Default)]
struct Pending {
    kept: Vec<Event>,
    dropped: u64,
    last_ns: u64,
}

impl Events {
    pub(super) fn push(&self, event: Event) {
        let mut pending = lock(&self.0);
        if pending.kept.len() < PENDING_MAX {
            pending.kept.push(event);
        } else {
            pending.dropped += 1;
            pending.last_ns = event.start_ns;
        }
    }

    /// The rows of all pending events, and one that tells how many were dropped.
    pub(super) fn drain(&self) -> String {
        let mut pending = std::mem::take(&mut *lock(&self.0));
        if pending.dropped > 0 {
            let kind = format!("{} events dropped", pending.dropped);
            pending.kept.push(Event::new(pending.last_ns, 0, "record", kind));
        }
        pending.kept.iter().map(Event::row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_beyond_the_bound_are_told_by_number() {
        let events = Events::default();
        for i in 0..PENDING_MAX as u64 + 3 {
            events.push(Event::new(i, 0, "store", "compaction"));
        }
        let rows = events.drain();
        assert_eq!(rows.lines().count(), PENDING_MAX + 1);
        assert!(rows.ends_with(",record,3 events dropped\n"));
        assert_eq!(events.drain(), "");
    }
}
