//! The oldest open transaction of the database: no vacuum removes a row that died after it began.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::super::link::Link;
use super::super::shared::Shared;

/// How often the database is asked.
const EVERY: Duration = Duration::from_secs(5);

/// Asks for how many milliseconds the oldest transaction that keeps dead rows has been open. Of sessions of other roles
/// only a member of `pg_read_all_stats` is told.
const OLDEST: &str = "
    SELECT coalesce(max(extract(epoch FROM clock_timestamp() - begun)), 0)::float8 * 1000 FROM (
        SELECT xact_start AS begun FROM pg_stat_activity
        WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
            AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
        UNION ALL SELECT prepared FROM pg_prepared_xacts WHERE database = current_database()) AS open";

/// When the database was asked.
pub(super) struct Horizon {
    looked: Option<Instant>,
}

impl Horizon {
    pub(super) fn new() -> Self {
        Self { looked: None }
    }

    /// Notes how old the oldest transaction is, if it is time to.
    pub(super) fn look(&mut self, shared: &Shared, link: &mut Link) {
        if self.looked.is_some_and(|looked| looked.elapsed() < EVERY) {
            return;
        }
        self.looked = Some(Instant::now());
        let Ok(rows) = link.ask_prepared(OLDEST, &[]) else { return };
        let oldest_ms = rows.first().map_or(0.0, |row| row.get::<_, f64>(0)).max(0.0);
        shared.keeper_counts.oldest_transaction_ms.store(oldest_ms as u64, Ordering::Relaxed);
    }
}
