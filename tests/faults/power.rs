//! Power cuts: whatever only the page cache held is gone, of the embedded store and of PostgreSQL below the middleware.
//!
//! For a moment after the cut everything still runs, and every sync fails: what is acknowledged then is lost too.

use std::thread::sleep;
use std::time::Duration;

use rustix::process::Signal;

use crate::campaign::Campaign;
use crate::crew::rounds;
use crate::disk::Disk;
use crate::postgres::Postgres;
use crate::tier::Tier;

/// How long programs run on after the cut.
const AFTERLIFE_MS: std::ops::Range<u64> = 0..50;

#[test]
fn power_cut_below_the_embedded_store() {
    let Some(disk) = Disk::of_mib(256) else { return };
    let mut tier =
        Tier::start(&format!("embedded:{}", disk.path().join("store").display()), 1).without_limbo();
    let setting = tier.setting.clone();
    let mut campaign = Campaign::new("power cut (ext4 shut down), embedded store", 6);
    rounds(&mut campaign, 5, &setting, |dice| {
        disk.cut_power();
        sleep(Duration::from_millis(dice.u64(AFTERLIFE_MS)));
        tier.kill(0);
        disk.restart();
        tier.start_again(0);
    });
    campaign.finish();
}

#[test]
fn power_cut_below_postgresql() {
    let Some(disk) = Disk::of_mib(512) else { return };
    let mut postgres = Postgres::start_below(disk.path(), &[]);
    let tier = Tier::start(&postgres.url(&postgres.create_database()), 2);
    // What initdb wrote was never synced.
    disk.sync();
    let mut campaign = Campaign::new("power cut (ext4 shut down), PostgreSQL", 3);
    rounds(&mut campaign, 5, &tier.setting, |dice| {
        disk.cut_power();
        sleep(Duration::from_millis(dice.u64(AFTERLIFE_MS)));
        postgres.signal_all(Signal::KILL);
        postgres.kill9();
        disk.restart();
        postgres.start_again();
        tier.wait_until_back();
    });
    campaign.finish();
}
