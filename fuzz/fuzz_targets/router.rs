//! Any story of requests, replies cut anywhere, servers that are late, end and come back: every request has one answer
//! of its own, nobody reads what was replaced, and replicas hold nothing that the others do not.

#![no_main]

#[path = "../../crates/server/tests/support/routing.rs"]
mod routing;

use libfuzzer_sys::fuzz_target;
use routing::{Event, World, one_pool, rules};

/// Steps of a story: longer ones are slow and show nothing that shorter ones do not.
const STEPS: usize = 300;

fuzz_target!(|data: &[u8]| {
    let Some((choice, story)) = data.split_first() else { return };
    let (rules, ejection) = rules(*choice);
    let mut world = World::new(&one_pool(&rules), ejection);
    for step in story.chunks_exact(3).take(STEPS) {
        world.happen(&Event::from_bytes([step[0], step[1], step[2]]));
    }
    world.finish();
});
