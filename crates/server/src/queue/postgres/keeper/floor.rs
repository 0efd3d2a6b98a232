//! The keeper's view of the ring: below which place nothing is left, and, while the ring is long, which lanes hold something.

use std::time::{Duration, Instant};

use tokio_postgres::types::Type;

use super::super::census::Census;
use super::super::link::{Argument, Link};
use super::super::shared::Shared;
use super::counting::Counting;

/// How often it is looked at if so many messages have come since; and how long batches under way are waited for, and what is
/// left is looked for.
const EVERY: Duration = Duration::from_millis(100);
/// And how often in any case while there is something to count: messages may only leave.
const EVERY_COUNT: Duration = Duration::from_secs(1);
const BEHIND_MIN: i64 = 1000;
const PATIENCE_MS: i32 = 20;

/// When it was looked at, and what was seen.
pub(super) struct RingFloor {
    looked: Instant,
    /// When it was seen last, and the newest place at that time.
    seen: Instant,
    newest: i64,
    counting: Counting,
    /// There is more to count.
    is_behind: bool,
}

impl RingFloor {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self { looked: now, seen: now, newest: 0, counting: Counting::default(), is_behind: false }
    }

    /// Looks, if it is time to and much has happened since.
    pub(super) fn look(&mut self, shared: &Shared, link: &mut Link) {
        if self.looked.elapsed() < EVERY {
            return;
        }
        self.looked = Instant::now();
        let newest = shared.floors().newest();
        let is_due = self.is_behind
            || newest >= self.newest + BEHIND_MIN
            || self.counting.has_lanes() && self.seen.elapsed() >= EVERY_COUNT;
        if is_due && self.raise(shared, link).is_some() {
            self.newest = newest;
            self.seen = Instant::now();
        }
    }

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
        // Ids that were drawn and not kept may come again after a crash: what was met was kept.
        let met = shared.floors_of(server)?.newest();
        let [lowest, settled] = [0, 1].map(|column| row.get::<_, i64>(column).min(met));
        let is_long: bool = row.get(2);
        shared.floors_of(server)?.raise_ring(lowest);
        let census = if is_long {
            self.counting.go_on(link, server, lowest, settled).unwrap_or_default()
        } else {
            self.counting.stop();
            Census::default()
        };
        self.is_behind = self.counting.is_behind(settled);
        // What it replaces may be large, and everybody waits for the floors.
        let before = shared.floors_of(server)?.count(census);
        drop(before);
        Some(())
    }
}
