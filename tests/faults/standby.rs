//! A primary killed and its synchronous standby promoted, again and again: every promoted standby becomes the primary of
//! the next, which is made from it while clients work.

use crate::campaign::Campaign;
use crate::crew::rounds;
use crate::pair::{primary, standby_of, url};
use crate::tier::Tier;

#[test]
fn standbys_promoted() {
    let mut primary = primary();
    let database = primary.create_database();
    let mut standby = standby_of(&primary);
    let mut tier = Tier::start(&url([&primary, &standby], &database), 1);
    let setting = tier.setting.clone();
    let mut campaign = Campaign::new("primary killed and its synchronous standby promoted", 1);
    rounds(&mut campaign, 2, &setting, |_| {
        primary.kill9();
        standby.promote();
        // The middleware finds it by itself; only for the next one it must be told where that is.
        tier.wait_until_back();
        let next = standby_of(&standby);
        primary = std::mem::replace(&mut standby, next);
        tier.kill(0);
        tier.start_on(0, &url([&primary, &standby], &database));
    });
    campaign.finish();
}
