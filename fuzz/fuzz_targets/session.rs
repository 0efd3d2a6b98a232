//! Whatever clients of the queue tier send over several connections, in any pieces: each request has one answer in its
//! place, one connection's answers are the same however its bytes are cut, and of those who leave nothing is left.

#![no_main]

#[path = "../../crates/server/tests/support/by_hand.rs"]
mod by_hand;
#[path = "../../crates/server/tests/support/sessions.rs"]
mod sessions;

use std::cell::RefCell;

use by_hand::Tier;
use libfuzzer_sys::fuzz_target;

/// Longer stories are slow and show nothing that shorter ones do not.
const BYTES: usize = 4096;

/// The largest of the pieces.
const PIECE_BYTES: usize = 64;

thread_local! {
    // Kept from story to story, as a server keeps it from client to client: each leaves it as it was.
    static TIER: RefCell<Tier> = RefCell::new(Tier::new());
}

fuzz_target!(|data: &[u8]| {
    let Some((&how, story)) = data.split_first() else { return };
    let story = &story[..story.len().min(BYTES)];
    TIER.with_borrow_mut(|tier| match how {
        0..128 => sessions::tell(tier, story),
        _ => sessions::cut(tier, story, pieces(how)),
    });
});

/// A fixed rule, so that the bytes alone make a crash happen again.
fn pieces(seed: u8) -> impl Iterator<Item = usize> {
    (0..).scan(seed, |state, _| {
        *state = state.wrapping_mul(73).wrapping_add(41);
        Some(1 + usize::from(*state) % PIECE_BYTES)
    })
}
