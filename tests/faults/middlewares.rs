//! `kill -9` of the middleware: what it had acknowledged is true for the next one.

use crate::campaign::Campaign;
use crate::crew::rounds;
use crate::postgres;
use crate::tier::Tier;

#[test]
fn middlewares_killed_on_the_embedded_store() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let tier = Tier::start(&format!("embedded:{}", dir.path().display()), 1).without_limbo();
    kill(Campaign::new("middleware killed, embedded store", 12), tier);
}

/// One of two dies; transactions end halfway, and answers are lost on the way. The other one goes on.
#[test]
fn middlewares_killed_on_postgresql() {
    let postgres = postgres::shared();
    let tier = Tier::start(&postgres.url(&postgres.create_database()), 2);
    kill(Campaign::new("middleware killed, PostgreSQL", 8), tier);
}

fn kill(mut campaign: Campaign, mut tier: Tier) {
    let setting = tier.setting.clone();
    rounds(&mut campaign, 10, &setting, |dice| {
        let number = dice.usize(..tier.count());
        tier.kill(number);
        tier.start_again(number);
    });
    campaign.finish();
}
