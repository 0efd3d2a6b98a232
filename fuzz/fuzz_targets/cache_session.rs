//! Whatever clients of the cache tier send over several connections, in any pieces, with servers that answer in any
//! pieces: each gets what it would get alone, servers are asked what is well-formed, and of those who leave nothing is
//! left.

#![no_main]

#[path = "../../crates/server/tests/support/cache_by_hand.rs"]
mod cache_by_hand;
#[path = "../../crates/server/tests/support/cache_sessions.rs"]
mod cache_sessions;

use std::cell::RefCell;

use cache_sessions::{LAYOUTS, World};
use libfuzzer_sys::fuzz_target;

/// Longer stories are slow and show nothing that shorter ones do not.
const BYTES: usize = 2048;

thread_local! {
    // Kept from story to story, as a server keeps it from client to client.
    static WORLDS: RefCell<[Option<World>; LAYOUTS]> = const { RefCell::new([const { None }; LAYOUTS]) };
}

fuzz_target!(|data: &[u8]| {
    let Some((&how, story)) = data.split_first() else { return };
    let number = usize::from(how) % LAYOUTS;
    WORLDS.with_borrow_mut(|worlds| {
        let world = worlds[number].get_or_insert_with(|| World::new(number));
        if !cache_sessions::tell(world, &story[..story.len().min(BYTES)]) {
            worlds[number] = None;
        }
    });
});
