//! Connections cut, slowed and half-open, on either side of the middleware, through a wire of the tests' own.
//!
//! What a half-open connection of a client costs is the connection: its server goes on believing in it. Between the
//! middleware and PostgreSQL the silence ends with a reset, as it does on a real network when packets pass again.

use std::thread::sleep;
use std::time::Duration;

use fastrand::Rng;

use crate::campaign::Campaign;
use crate::crew::{Setting, rounds};
use crate::cut::Wire;
use crate::postgres::Postgres;
use crate::tier::Tier;

/// How long clients wait for an answer: longer than a slow wire takes, shorter than silence lasts.
const GIVEN_UP_AFTER: Duration = Duration::from_millis(400);

#[test]
fn clients_connections_cut_slowed_and_half_open() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let tier = Tier::start(&format!("embedded:{}", dir.path().display()), 1);
    let wire = Wire::to(tier.server(0).addr().port());
    let setting = behind(&wire);
    let mut campaign = Campaign::new("clients' connections cut, slowed, half-open; embedded store", 12);
    rounds(&mut campaign, 10, &setting, |dice| disturb(&wire, dice));
    campaign.finish_in_doubt();
}

#[test]
fn the_database_s_connections_cut_slowed_and_half_open() {
    let postgres = Postgres::start(&[]);
    let wire = Wire::to(postgres.port());
    let url = format!("postgres://postgres@127.0.0.1:{}/{}", wire.port(), postgres.create_database());
    let tier = Tier::start(&url, 1);
    let mut campaign = Campaign::new("PostgreSQL's connections cut, slowed, half-open", 12);
    rounds(&mut campaign, 10, &tier.setting, |dice| {
        disturb(&wire, dice);
        wire.cut();
        tier.wait_until_back();
    });
    campaign.finish();
}

/// Where clients work who come by this wire, and give up what takes long.
fn behind(wire: &Wire) -> Setting {
    Setting::at(vec![wire.address()]).hurried(GIVEN_UP_AFTER)
}

fn disturb(wire: &Wire, dice: &mut Rng) {
    match dice.u32(..3) {
        0 => wire.cut(),
        1 => wire.swallow(),
        _ => {
            wire.delay(Duration::from_millis(dice.u64(1..40)));
            sleep(Duration::from_millis(dice.u64(50..300)));
            wire.delay(Duration::ZERO);
        }
    }
    sleep(Duration::from_millis(dice.u64(..300)));
}
