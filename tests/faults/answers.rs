//! Answers lost after the commit: the request took effect, and its client was never told.
//!
//! Whoever asks again under the same DEDUP or REQID key gets the answer that was lost, and nothing happens twice. Whoever
//! has no key does not know.

use std::time::Duration;

use crate::campaign::Campaign;
use crate::crew::{Setting, rounds};
use crate::cut::Wire;
use crate::postgres;
use crate::tier::Tier;

#[test]
fn answers_lost_by_the_embedded_store() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let tier = Tier::start(&format!("embedded:{}", dir.path().display()), 1);
    lose(Campaign::new("answers of all clients lost after the commit, embedded store", 20), &tier);
}

#[test]
fn answers_lost_by_postgresql_s_middleware() {
    let postgres = postgres::shared();
    let tier = Tier::start(&postgres.url(&postgres.create_database()), 1);
    lose(Campaign::new("answers of all clients lost after the commit, PostgreSQL", 20), &tier);
}

fn lose(mut campaign: Campaign, tier: &Tier) {
    let wire = Wire::to(tier.server(0).addr().port());
    // The answer left after the commit.
    let setting = Setting { limbo: Duration::ZERO, ..Setting::at(vec![wire.address()]) };
    rounds(&mut campaign, 20, &setting, |_| wire.lose_answers());
    campaign.finish_in_doubt();
}
