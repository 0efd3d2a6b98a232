//! Any bytes over an HTTP connection to the queue tier, in any pieces: the answers are whole, none says that we failed, those
//! in JSON are JSON, and of the client nothing is left.

#![no_main]

#[path = "../../crates/server/tests/support/by_hand.rs"]
mod by_hand;
#[path = "../../crates/server/tests/support/pages.rs"]
mod pages;

use std::cell::RefCell;

use by_hand::Tier;
use libfuzzer_sys::fuzz_target;
use tokio::runtime::Runtime;

/// Longer conversations are slow and show nothing that shorter ones do not.
const BYTES: usize = 2048;

/// Where bytes are cut: no request needs it.
const CUT: u8 = 0xff;

thread_local! {
    static TIER: RefCell<(Runtime, Tier)> = RefCell::new((pages::runtime(), Tier::new()));
}

fuzz_target!(|data: &[u8]| {
    let pieces: Vec<&[u8]> = data[..data.len().min(BYTES)].split(|byte| *byte == CUT).collect();
    let asks_for_heads = pieces.concat().windows(4).any(|four| four == b"HEAD");
    TIER.with_borrow_mut(|(runtime, tier)| {
        drop(pages::answers_to(&pages::ask(runtime, tier, &pieces), asks_for_heads));
    });
});
