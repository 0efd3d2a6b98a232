//! Rewriting what is kept aside, once reads have walked many entries of what was removed there.

use std::time::{Duration, Instant};

use tokio_postgres::types::Type;

use super::super::link::{Argument, Link};
use super::super::shared::Shared;
use super::dumps::Dumps;
use crate::queue::EVENT_SOURCE;

/// How often the database is asked whether it is time to. Its statistics are no newer.
const EVERY: Duration = Duration::from_secs(1);

/// Longest pause after attempts that had to give up: readers keep a lock, a dump may need it, or too much is kept aside.
const AGAIN_MAX: Duration = Duration::from_secs(32);

/// How long readers are waited for: all other transactions wait meanwhile.
const PATIENCE_MS: i32 = 50;

/// What `rewrite_aside` says first when it has rewritten the table.
const DONE: &str = "rewrote ";

/// When the database was asked.
pub(super) struct Aside {
    asked: Instant,
    pause: Duration,
}

impl Aside {
    pub(super) fn new() -> Self {
        Self { asked: Instant::now(), pause: EVERY }
    }

    /// Has what is kept aside rewritten, if it is time to and costs less than to go on walking.
    pub(super) fn look(&mut self, shared: &Shared, link: &mut Link, dumps: &mut Dumps) {
        if self.asked.elapsed() < self.pause {
            return;
        }
        let events = &shared.reach.events;
        let began_ns = events.now();
        let rows = {
            let elsewhere = dumps.elsewhere();
            let arguments: [Argument<'_>; 2] = [(&PATIENCE_MS, Type::INT4), (&elsewhere, Type::TEXT_ARRAY)];
            link.ask_prepared("SELECT posthaste.rewrite_aside($1, $2)", &arguments)
        };
        self.asked = Instant::now();
        let said: Option<String> = rows.ok().and_then(|rows| rows.first().and_then(|row| row.get(0)));
        dumps.look(said.as_deref(), link);
        self.plan(said.as_deref());
        let Some(said) = said else { return };
        if said.starts_with(DONE) {
            events.since(began_ns, EVENT_SOURCE, "aside rewritten");
        }
        tracing::debug!("what is kept aside: {said}");
    }

    /// Decides how long the pause is, by what the database said; None: there was nothing to do.
    fn plan(&mut self, said: Option<&str>) {
        let gave_up = said.is_some_and(|said| !said.starts_with(DONE));
        self.pause = if gave_up { AGAIN_MAX.min(2 * self.pause) } else { EVERY };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_attempts_that_gave_up_pauses_are_ever_longer() {
        let sql = include_str!("../../../../../../sql/0008_upkeep.sql");
        assert!(sql.contains(&format!("'{DONE}message_aside")));
        let mut aside = Aside::new();
        for _ in 0..10 {
            aside.plan(Some("readers keep a lock on message_aside"));
        }
        assert_eq!(aside.pause, AGAIN_MAX);
        aside.plan(Some("rewrote message_aside, 3 messages"));
        assert_eq!(aside.pause, EVERY);
    }
}
