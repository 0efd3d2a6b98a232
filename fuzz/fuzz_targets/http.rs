//! Any bytes over an HTTP connection to the queue tier, or behind a `!` to the cache tier, in any pieces: the answers
//! are whole, none says that we failed, those in JSON are JSON, and of the client nothing is left.

#![no_main]

#[path = "../../crates/server/tests/support/by_hand.rs"]
mod by_hand;
#[path = "../../crates/server/tests/support/cache_by_hand.rs"]
mod cache_by_hand;
#[path = "../../crates/server/tests/support/pages.rs"]
mod pages;

use std::cell::RefCell;

use by_hand::Tier;
use cache_by_hand::Thread;
use libfuzzer_sys::fuzz_target;
use posthaste_measure::Clock;
use posthaste_server::cache::layout::{Layout, MemberPlan};
use posthaste_server::cache::rules::Rules;
use tokio::runtime::Runtime;

/// Longer conversations are slow and show nothing that shorter ones do not.
const BYTES: usize = 2048;

/// Where bytes are cut: no request needs it.
const CUT: u8 = 0xff;

/// Before what is said to the cache tier: no request begins so.
const CACHE: u8 = b'!';

thread_local! {
    static TIER: RefCell<(Runtime, Tier)> = RefCell::new((pages::runtime(), Tier::new()));
}

fuzz_target!(|data: &[u8]| {
    let data = &data[..data.len().min(BYTES)];
    let (is_cache, data) = data.strip_prefix(&[CACHE]).map_or((false, data), |data| (true, data));
    let pieces: Vec<&[u8]> = data.split(|byte| *byte == CUT).collect();
    let asks_for_heads = pieces.concat().windows(4).any(|four| four == b"HEAD");
    TIER.with_borrow_mut(|(runtime, tier)| {
        let heard = if is_cache {
            let members = ["10.0.0.1:11211", "10.0.0.2:11211"].map(MemberPlan::of).to_vec();
            let mut thread = Thread::new(&Layout::of_one_pool(members, Rules::default()), Clock::start());
            let _client = thread.connect();
            pages::ask(runtime, &mut thread, &pieces)
        } else {
            pages::ask(runtime, tier, &pieces)
        };
        drop(pages::answers_to(&heard, asks_for_heads));
    });
});
