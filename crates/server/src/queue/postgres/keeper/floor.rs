//! The keeper's view of the ring: below which place nothing is left, and which lanes hold something while the ring is
//! long.

use std::time::{Duration, Instant};

use tokio_postgres::types::Type;

use super::super::census::Census;
use super::super::link::{Argument, Link};
use super::super::shared::Shared;
use super::counting::Counting;

/// How often the floor is looked for, if at least `BEHIND_MIN` messages have come since it was found.
const EVERY: Duration = Duration::from_millis(100);
const BEHIND_MIN: i64 = 1000;

/// Longest pause while it is not found, since batches do not end at once: whenever it is looked for, new batches wait for
/// those under way, for `PATIENCE_MS`.
const EVERY_MAX: Duration = Duration::from_secs(2);

/// How often it is looked for in any case while lanes hold something: their messages may be taken while none come.
const EVERY_COUNT: Duration = Duration::from_secs(1);

/// How long batches under way are waited for, and then how long the lowest place is searched for.
const PATIENCE_MS: i32 = 20;

/// When the floor was looked for and found.
pub(super) struct RingFloor {
    looked: Instant,
    /// Time until it is looked for again.
    pause: Duration,
    /// When it was found last, and the newest place at that time.
    found: Instant,
    newest: i64,
    counting: Counting,
    /// Whether there is more to count.
    is_behind: bool,
}

impl RingFloor {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self {
            looked: now,
            pause: EVERY,
            found: now,
            newest: 0,
            counting: Counting::default(),
            is_behind: false,
        }
    }

    /// Looks for the floor, if it is time to and much has happened since it was found.
    pub(super) fn look(&mut self, shared: &Shared, link: &mut Link) {
        if self.looked.elapsed() < self.pause {
            return;
        }
        self.looked = Instant::now();
        let newest = shared.floors().newest();
        let is_due = self.is_behind
            || newest >= self.newest + BEHIND_MIN
            || self.counting.has_lanes() && self.found.elapsed() >= EVERY_COUNT;
        if !is_due {
            return;
        }
        let is_found = self.raise(shared, link).is_some();
        self.plan(is_found);
        if is_found {
            self.newest = newest;
            self.found = Instant::now();
        }
    }

    /// Decides when the floor is looked for again.
    fn plan(&mut self, is_found: bool) {
        self.pause = if is_found { EVERY } else { EVERY_MAX.min(2 * self.pause) };
    }

    /// Raises the floor and counts; None: the database did not answer, or another server does by now.
    fn raise(&mut self, shared: &Shared, link: &mut Link) -> Option<()> {
        let server = shared.server()?;
        let patience: Argument<'_> = (&PATIENCE_MS, Type::INT4);
        let settled = "SELECT posthaste.settled_id($1)";
        let rows = link.ask_of(server.server, settled, std::slice::from_ref(&patience)).ok()?;
        let settled: i64 = rows.first()?.get::<_, Option<_>>(0)?;
        let known = shared.floors_of(server)?.ring();
        let arguments: [Argument<'_>; 3] = [(&settled, Type::INT8), (&known, Type::INT8), patience];
        let lowest = "SELECT lowest, up_to, is_long FROM posthaste.lowest_place($1, $2, $3)";
        let rows = link.ask_of(server.server, lowest, &arguments).ok()?;
        let row = rows.first()?;
        // Ids that were drawn and not stored may come again after a crash; those that were met are stored.
        let met = shared.floors_of(server)?.newest();
        let [lowest, settled] = [0, 1].map(|column| row.get::<_, i64>(column).min(met));
        let is_long: bool = row.get(2);
        shared.floors_of(server)?.raise_ring(lowest);
        let census = if is_long {
            self.counting.advance(link, server, lowest, settled).unwrap_or_default()
        } else {
            self.counting.reset();
            Census::default()
        };
        self.is_behind = self.counting.is_behind(settled);
        // The census before may be large: it is freed when the floors are unlocked, since batches wait for that lock.
        let before = shared.floors_of(server)?.count(census);
        drop(before);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn while_batches_do_not_end_at_once_they_are_stopped_ever_more_seldom() {
        let mut floor = RingFloor::new();
        let pauses: Vec<u128> = (0..6)
            .map(|_| {
                floor.plan(false);
                floor.pause.as_millis()
            })
            .collect();
        assert_eq!(pauses, [200, 400, 800, 1600, 2000, 2000]);
        floor.plan(true);
        assert_eq!(floor.pause, EVERY);
    }
}
