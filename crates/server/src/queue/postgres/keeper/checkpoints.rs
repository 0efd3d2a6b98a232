//! The database's checkpoints, for the record: nobody who looks for the cause of a dip asks for anything sooner.

use std::time::{Duration, Instant};

use posthaste_measure::Event;

use super::super::link::{Failure, Link};
use super::super::shared::Shared;
use crate::queue::EVENT_SOURCE;

/// How often they are looked for, and so how late one may be told.
const EVERY: Duration = Duration::from_secs(1);

/// The version from which checkpoints have a view of their own, as `server_version_num` has it.
const OWN_VIEW: i32 = 170_000;

/// Milliseconds that checkpoints have taken, writing and syncing, since the statistics were reset. It grows when one ends.
const TAKEN: &str = "SELECT checkpoint_write_time + checkpoint_sync_time FROM pg_stat_bgwriter";
const TAKEN_OWN_VIEW: &str = "SELECT write_time + sync_time FROM pg_stat_checkpointer";

/// What was seen of them.
pub(super) struct Checkpoints {
    looked: Instant,
    /// On which connection, for the next one may lead to another server; and what they had taken.
    seen: Option<(u64, f64)>,
}

impl Checkpoints {
    pub(super) fn new() -> Self {
        Self { looked: Instant::now(), seen: None }
    }

    /// Leaves an event for one that has ended since the last look, if anybody keeps events.
    pub(super) fn look(&mut self, shared: &Shared, link: &mut Link) {
        let events = &shared.reach.events;
        if !events.are_kept() || self.looked.elapsed() < EVERY {
            return;
        }
        self.looked = Instant::now();
        let before = self.seen.take().filter(|(made, _)| *made == link.made());
        let Ok(taken_ms) = taken_ms(link) else { return };
        self.seen = Some((link.made(), taken_ms));
        let Some((_, before_ms)) = before.filter(|(_, before_ms)| *before_ms < taken_ms) else { return };
        let duration_ns = ((taken_ms - before_ms) * 1e6) as u64;
        let start_ns = events.now().saturating_sub(duration_ns);
        events.add(Event::new(start_ns, duration_ns, EVENT_SOURCE, "checkpoint"));
    }
}

fn taken_ms(link: &mut Link) -> Result<f64, Failure> {
    let version = link.ask_prepared("SELECT current_setting('server_version_num')::int", &[])?;
    let has_own_view = version.first().is_some_and(|row| row.get::<_, i32>(0) >= OWN_VIEW);
    let rows = link.ask_prepared(if has_own_view { TAKEN_OWN_VIEW } else { TAKEN }, &[])?;
    Ok(rows.first().map_or(0.0, |row| row.get(0)))
}
