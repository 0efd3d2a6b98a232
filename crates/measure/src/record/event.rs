//! Events: checkpoints, compactions, restarts, and whatever else can explain a dip in the windows.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use super::lines::{field, seconds};
use crate::clock::Clock;
use crate::lock::lock;

pub(super) const HEAD: &str = "start_s,duration_ms,source,kind\n";

/// Most events kept between two windows; more are only counted, as a runaway source must not fill memory.
const PENDING_MAX: usize = 10_000;

/// An event that is not tied to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Begin, in nanoseconds of the run's clock.
    pub start_ns: u64,
    /// Length in nanoseconds; 0 for an instant.
    pub duration_ns: u64,
    /// Source or subject of the event: `store`, `record`, a server's name, …
    pub source: Cow<'static, str>,
    /// Kind of event: `compaction`, `reconnect`, …
    pub kind: Cow<'static, str>,
}

impl Event {
    /// Makes an event that began at `start_ns` and took `duration_ns`.
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

/// Collects events from all parts of a program for its record. Clones share the same collection; the default
/// one keeps nothing.
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
    /// Makes a collection for a program that keeps a record.
    #[must_use]
    pub fn kept(clock: Clock) -> Self {
        Self(Some(Arc::new(Kept { clock, pending: Mutex::default() })))
    }

    /// Returns whether events are kept; if not, nobody needs to find out what happens.
    #[must_use]
    pub fn are_kept(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the current time on the clock of events, as the start of one; 0 when none are kept.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.0.as_ref().map_or(0, |kept| kept.clock.now())
    }

    /// Adds an event that took place just now.
    pub fn note(&self, source: impl Into<Cow<'static, str>>, kind: &'static str) {
        self.add(Event::new(self.now(), 0, source, kind));
    }

    /// Adds an event that began at `start_ns` and has ended now.
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

    /// Takes all events so far. If some were dropped, the last event tells their number.
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
