//! `kill -9` inside PostgreSQL. A killed backend takes the others and the shared memory with it; a killed postmaster
//! leaves its processes to notice. Either way the log is replayed, and the middleware finds the server again by itself.

use rustix::process::{Pid, Signal, kill_process};

use crate::campaign::Campaign;
use crate::crew::rounds;
use crate::postgres::Postgres;
use crate::support::patience::{RECOVERY, wait_within};
use crate::tier::Tier;

#[test]
fn backends_killed() {
    let (postgres, tier) = both();
    let mut campaign = Campaign::new("PostgreSQL backend killed", 3);
    rounds(&mut campaign, 5, &tier.setting, |_| {
        let _ = kill_process(worker(&postgres), Signal::KILL); // it may have ended by itself
        tier.wait_until_back();
    });
    campaign.finish();
}

#[test]
fn postmasters_killed() {
    let (mut postgres, tier) = both();
    let mut campaign = Campaign::new("postmaster killed", 3);
    rounds(&mut campaign, 5, &tier.setting, |_| {
        postgres.kill9();
        postgres.start_again();
        tier.wait_until_back();
    });
    campaign.finish();
}

/// A server of its own, and two middlewares over a database in it.
fn both() -> (Postgres, Tier) {
    let postgres = Postgres::start(&[]);
    let tier = Tier::start(&postgres.url(&postgres.create_database()), 2);
    (postgres, tier)
}

/// The process that serves some worker of a middleware.
fn worker(postgres: &Postgres) -> Pid {
    let sql = "SELECT pid FROM pg_stat_activity WHERE application_name = 'posthaste' \
               AND query LIKE '%posthaste.apply%' ORDER BY random() LIMIT 1";
    wait_within(RECOVERY, "a worker has asked for something", || {
        let found = postgres.try_psql("postgres", sql);
        let pid = found.as_ref().ok().and_then(|pid| Pid::from_raw(pid.parse().ok()?));
        pid.ok_or_else(|| format!("{found:?}"))
    })
}
