//! Events: checkpoints, compactions, restarts, whatever can explain a dip in the windows.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use super::lines::{field, seconds};
use crate::clock::Clock;
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
    /// Who tells, or of whom: `store`, `record`, a server's name, …
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

/// Where the parts of a program leave events for its record. Clones lead to the same place; the default keeps nothing.
#[derive(Clone, Debug, Default)]
pub struct Events(Option<Arc<Kept>>);

#[derive(Debug)]
struct Kept {
    clock: Clock,
    pending: Mutex<Pending>,
}

#[derive(Debug, Default)]
struct Pending {
    kept: Vec<Event>,
    dropped: u64,
    last_ns: u64,
}

impl Events {
    /// For a program that keeps a record.
    #[must_use]
    pub fn kept(clock: Clock) -> Self {
        Self(Some(Arc::new(Kept { clock, pending: Mutex::default() })))
    }

    /// Whether there is a record: otherwise nobody needs to find out what happens.
    #[must_use]
    pub fn are_kept(&self) -> bool {
        self.0.is_some()
    }

    /// The time that events are given in, for one that begins; 0 when none are kept.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.0.as_ref().map_or(0, |kept| kept.clock.now())
    }

    /// Something took place just now.
    pub fn note(&self, source: impl Into<Cow<'static, str>>, kind: &'static str) {
        self.add(Event::new(self.now(), 0, source, kind));
    }

    /// Something that began at `start_ns` has ended.
    pub fn since(
        &self,
        start_ns: u64,
        source: impl Into<Cow<'static, str>>,
        kind: impl Into<Cow<'static, str>>,
    ) {
        self.add(Event::new(start_ns, self.now().saturating_sub(start_ns), source, kind));
    }

    /// Keeps an event until it is written.
    pub fn add(&self, event: Event) {
        let Some(kept) = &self.0 else { return };
        let mut pending = lock(&kept.pending);
        if pending.kept.len() < PENDING_MAX {
            pending.kept.push(event);
        } else {
            pending.dropped += 1;
            pending.last_ns = event.start_ns;
        }
    }

    /// Takes what was left so far, with an event that tells how many others were dropped.
    #[must_use]
    pub fn take(&self) -> Vec<Event> {
        let Some(kept) = &self.0 else { return Vec::new() };
        let mut pending = std::mem::take(&mut *lock(&kept.pending));
        if pending.dropped > 0 {
            let kind = format!("{} events dropped", pending.dropped);
            pending.kept.push(Event::new(pending.last_ns, 0, "record", kind));
        }
        pending.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Hand;

    #[test]
    fn events_beyond_the_bound_are_told_by_number() {
        let events = Events::kept(Clock::start());
        for i in 0..PENDING_MAX as u64 + 3 {
            events.add(Event::new(i, 0, "store", "compaction"));
        }
        let taken = events.take();
        assert_eq!(taken.len(), PENDING_MAX + 1);
        assert_eq!(taken[PENDING_MAX].kind, "3 events dropped");
        assert!(events.take().is_empty());
    }

    #[test]
    fn an_event_lasts_from_its_begin_until_it_is_told_and_is_seen_by_who_shares_the_place() {
        let clock = Hand::at_zero();
        let events = Events::kept(Clock::by_hand(clock, 0));
        clock.set(1_000_000_000);
        let begun = events.now();
        clock.set(1_250_000_000);
        events.clone().since(begun, "store", "sweep");
        events.note("store", "full disk");
        let rows: Vec<String> = events.take().iter().map(Event::row).collect();
        assert_eq!(rows, ["1.000000,250.000,store,sweep\n", "1.250000,0.000,store,full disk\n"]);
    }

    #[test]
    fn without_a_record_nothing_is_kept() {
        let events = Events::default();
        events.note("store", "sweep");
        assert!(!events.are_kept() && events.take().is_empty());
        assert_eq!(events.now(), 0);
    }
}
