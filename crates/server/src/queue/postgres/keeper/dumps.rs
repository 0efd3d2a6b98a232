//! Dumps of something else: sessions called `pg_dump` for which the tables of messages need not be left as they are.
//!
//! `pg_dump` takes its snapshot first and locks all that it is going to read afterwards. A table that is emptied in between
//! is missing from the dump, so none is emptied while such a session is there. But one that has locked tables, none of
//! these, and has locked no further one for a while is past that, and may be at work on other schemas for hours.

use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use super::super::link::Link;

/// For how long a dump must have locked no further table. Only one that stands still in the midst of locking is taken for
/// what it is not.
const QUIET: Duration = Duration::from_secs(60);

/// How what the database says begins when it leaves a table as it is for a dump.
pub(super) const POSTPONED: &str = "pg_dump ";

/// What is known of transactions of `pg_dump`, by their names in the server, which are never used again.
#[derive(Default)]
pub(super) struct Dumps {
    seen: FxHashMap<String, Seen>,
}

struct Seen {
    /// How many tables it and all others have locked together: workers of a dump lock again what that has locked.
    tables: i64,
    since: Instant,
    /// They have been so many for long enough.
    is_elsewhere: bool,
}

impl Dumps {
    /// Returns the transactions that are not going to read messages.
    pub(super) fn elsewhere(&self) -> Vec<&str> {
        let elsewhere = self.seen.iter().filter(|(_, seen)| seen.is_elsewhere);
        elsewhere.map(|(transaction, _)| transaction.as_str()).collect()
    }

    /// Looks what dumps there are, if the database has said that it leaves a table as it is for one.
    pub(super) fn look(&mut self, said: Option<&str>, link: &mut Link) {
        if !said.is_some_and(|said| said.starts_with(POSTPONED)) {
            return;
        }
        let asked = link.ask("SELECT transaction, tables FROM posthaste.dumps_elsewhere()", &[]);
        let Ok(rows) = asked else { return };
        let found: Vec<(String, i64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        self.note(&found, Instant::now());
    }

    /// Notes the transactions that have locked other tables only, and how many all have locked.
    fn note(&mut self, found: &[(String, i64)], now: Instant) {
        let mut before = std::mem::take(&mut self.seen);
        // Where one has ended, as many may have been locked as it has released.
        if before.keys().any(|known| found.iter().all(|(transaction, _)| transaction != known)) {
            before.clear();
        }
        self.seen = found
            .iter()
            .map(|&(ref transaction, tables)| {
                let known = before.get(transaction).filter(|seen| seen.tables == tables);
                let since = known.map_or(now, |seen| seen.since);
                let is_elsewhere = now.duration_since(since) >= QUIET;
                (transaction.clone(), Seen { tables, since, is_elsewhere })
            })
            .collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many are not waited for after looks that are so many seconds after the first, each with so many transactions, and
    /// the tables that they have locked together.
    fn after(looks: &[(u64, usize, i64)]) -> usize {
        let (mut dumps, begun) = (Dumps::default(), Instant::now());
        for &(seconds, transactions, tables) in looks {
            let found: Vec<_> = (0..transactions).map(|number| (format!("3/{number}"), tables)).collect();
            dumps.note(&found, begun + Duration::from_secs(seconds));
        }
        dumps.elsewhere().len()
    }

    #[test]
    fn a_dump_is_one_of_something_else_once_it_has_locked_nothing_more_for_a_minute() {
        assert_eq!(after(&[(0, 1, 5)]), 0);
        assert_eq!(after(&[(0, 1, 5), (59, 1, 5)]), 0);
        assert_eq!(after(&[(0, 1, 5), (30, 1, 5), (60, 1, 5)]), 1);
        assert_eq!(after(&[(0, 1, 5), (30, 3, 5), (60, 3, 5), (90, 3, 5)]), 3, "with its workers");
    }

    #[test]
    fn a_dump_that_goes_on_locking_tables_may_come_to_ours() {
        assert_eq!(after(&[(0, 1, 5), (59, 1, 6), (118, 1, 7)]), 0);
        assert_eq!(after(&[(0, 1, 5), (60, 1, 5), (61, 1, 6)]), 0);
        assert_eq!(after(&[(0, 1, 5), (60, 1, 5), (61, 0, 5), (62, 1, 5)]), 0, "it had to wait");
        assert_eq!(after(&[(0, 2, 5), (60, 1, 5)]), 0, "as many were locked as were released");
    }

    #[test]
    fn the_database_says_so_of_both_tables() {
        let sql = include_str!("../../../../../../sql/0008_upkeep.sql");
        assert!(sql.matches(&format!("'{POSTPONED}may be about to read ")).count() >= 2);
        assert!(sql.contains(&format!("'{POSTPONED}may be about to read message_aside'")));
    }
}
