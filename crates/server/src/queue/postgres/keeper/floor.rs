//! The keeper's view of the ring: below which place nothing is left, and, while the ring is long, in which lanes something is.

use std::time::{Duration, Instant};

use tokio_postgres::types::{ToSql, Type};

use super::super::census::{Census, Occupied};
use super::super::link::Link;
use super::super::store::Shared;

/// How often the floor of the whole ring is raised if so many messages have come since; and how long batches under way are
/// waited for, and what is left is looked for.
const EVERY: Duration = Duration::from_millis(100);
const BEHIND_MIN: i64 = 1000;
const PATIENCE_MS: i32 = 20;

/// How many messages a census may have to read, and for how many times as long as it took there is no other.
const CENSUS_MAX: i64 = 200_000;
const CENSUS_REST: u32 = 20;

/// When it was looked at.
pub(super) struct Floor {
    raised: Instant,
    /// The newest place when the floor was raised.
    newest: i64,
    census_at: Instant,
}

impl Floor {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self { raised: now, newest: 0, census_at: now }
    }

    /// Looks, if it is time to and much has happened since.
    pub(super) fn look(&mut self, shared: &Shared, link: &mut Link) {
        if self.raised.elapsed() < EVERY {
            return;
        }
        self.raised = Instant::now();
        let newest = shared.floors().newest();
        if newest >= self.newest + BEHIND_MIN && self.raise(shared, link).is_some() {
            self.newest = newest;
        }
    }

    fn raise(&mut self, shared: &Shared, link: &mut Link) -> Option<()> {
        let server = shared.reach.connections_made();
        let patience: (&(dyn ToSql + Sync), Type) = (&PATIENCE_MS, Type::INT4);
        let settled = "SELECT posthaste.settled_id($1)";
        let rows = link.ask(settled, std::slice::from_ref(&patience), true).ok()?;
        let settled: i64 = rows.first()?.get::<_, Option<_>>(0)?;
        let known = shared.floors_of(server)?.ring();
        let arguments: [(&(dyn ToSql + Sync), Type); 3] =
            [(&settled, Type::INT8), (&known, Type::INT8), patience];
        let lowest = "SELECT lowest, up_to, is_long FROM posthaste.lowest_place($1, $2, $3)";
        let rows = link.ask(lowest, &arguments, true).ok()?;
        let row = rows.first()?;
        let (lowest, up_to, is_long) = (row.get(0), row.get(1), row.get(2));
        shared.floors_of(server)?.raise_ring(lowest);
        if is_long && up_to - lowest <= CENSUS_MAX && Instant::now() >= self.census_at {
            let census = self.take_census(link, lowest, up_to)?;
            shared.floors_of(server)?.count(census);
        }
        Some(())
    }

    fn take_census(&mut self, link: &mut Link, lowest: i64, up_to: i64) -> Option<Census> {
        let began = Instant::now();
        let sql = "SELECT queue, sender, recipient, place FROM posthaste.take_census($1)";
        let rows = link.ask(sql, &[(&lowest, Type::INT8)], true).ok()?;
        let account = |id: i32| id.cast_unsigned();
        let census = Census::new(
            up_to,
            rows.iter().map(|row| Occupied {
                queue: row.get(0),
                sender: account(row.get(1)),
                recipient: account(row.get(2)),
                place: row.get(3),
            }),
        );
        self.census_at = Instant::now() + began.elapsed() * CENSUS_REST;
        Some(census)
    }
}
