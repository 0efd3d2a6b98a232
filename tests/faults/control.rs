//! A campaign that finds nothing may be blind; this one must find something. A PostgreSQL that answers before it has
//! synced loses at a crash what it had acknowledged, and whoever pops again gets what was popped before.

use std::thread::sleep;
use std::time::Duration;

use crate::crew::Crew;
use crate::postgres::Postgres;
use crate::tier::Tier;

/// One is enough, unless nothing happened to be acknowledged in the time before it.
const CRASHES: usize = 20;

#[test]
fn a_database_that_acknowledges_too_early_is_found_out() {
    let mut postgres = Postgres::start(&["synchronous_commit=off", "wal_writer_delay=10s"]);
    let tier = Tier::start(&postgres.url(&postgres.create_database()), 1);
    for _ in 0..CRASHES {
        let crew = Crew::start(&tier.setting);
        sleep(Duration::from_millis(100));
        // The queues are to survive; only messages may be lost.
        postgres.psql("postgres", "CHECKPOINT");
        sleep(Duration::from_millis(200));
        postgres.kill9();
        postgres.start_again();
        tier.wait_until_back();
        if !crew.finish().broken.is_empty() {
            return;
        }
    }
    panic!("{CRASHES} crashes of a database that does not sync, and nothing was missed");
}
