//! The database's checkpoints as events: they are the most frequent cause of a dip in throughput.

use std::time::{Duration, Instant};

use posthaste_measure::Event;

use super::super::failure::Failure;
use super::super::link::Link;
use super::super::shared::Shared;
use crate::queue::EVENT_SOURCE;

/// How often checkpoints are looked for, and so how late one may be noticed.
const EVERY: Duration = Duration::from_secs(1);

/// The version of PostgreSQL, as `server_version_num`, from which on checkpoints have a view of their own.
const OWN_VIEW: i32 = 170_000;

/// Asks how many milliseconds checkpoints have taken, writing and syncing, since the statistics were reset. The number
/// grows when a checkpoint ends.
const TAKEN: &str = "SELECT checkpoint_write_time + checkpoint_sync_time FROM pg_stat_bgwriter";
const TAKEN_OWN_VIEW: &str = "SELECT write_time + sync_time FROM pg_stat_checkpointer";

/// What is known of checkpoints.
pub(super) struct Checkpoints {
    looked: Instant,
    seen: Option<Seen>,
}

/// What the last look saw.
#[derive(Clone, Copy)]
struct Seen {
    /// The connection on which it was asked: the next one may lead to another server.
    connection: u64,
    taken_ms: f64,
}

impl Checkpoints {
    pub(super) fn new() -> Self {
        Self { looked: Instant::now(), seen: None }
    }

    /// Records an event for a checkpoint that has ended since the last look, if events are kept.
    pub(super) fn look(&mut self, shared: &Shared, link: &mut Link) {
        let events = &shared.reach.events;
        if !events.are_kept() || self.looked.elapsed() < EVERY {
            return;
        }
        self.looked = Instant::now();
        let before = self.seen.take().filter(|seen| seen.connection == link.made());
        let Ok(taken_ms) = taken_ms(link) else { return };
        self.seen = Some(Seen { connection: link.made(), taken_ms });
        let Some(before) = before.filter(|before| before.taken_ms < taken_ms) else { return };
        let duration_ns = ((taken_ms - before.taken_ms) * 1e6) as u64;
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
