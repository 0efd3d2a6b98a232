//! Any bytes in any pieces give the same requests as in one piece, and little of them is kept.

#![no_main]

#[path = "../../crates/wire/tests/feed/mod.rs"]
mod feed;

use libfuzzer_sys::fuzz_target;
use posthaste_wire::decode::Limits;

const LIMITS: Limits = Limits { bulk_bytes: 64, request_bytes: 256, args: 16, inline_bytes: 128 };

/// A length in a head may stand unfinished beside what a request may hold.
const HEAD_BYTES: usize = 64;

/// The largest of the read buffer's pieces.
const PIECE_BYTES: usize = 16;

fuzz_target!(|data: &[u8]| {
    let Some((&seed, input)) = data.split_first() else { return };
    let whole = feed::feed(LIMITS, input, []);
    // A fixed rule, so that the bytes alone make a crash happen again.
    let pieces = (0..).scan(seed, |state, _| {
        *state = state.wrapping_mul(73).wrapping_add(41);
        Some(1 + usize::from(*state) % PIECE_BYTES)
    });
    let cut = feed::feed(LIMITS, input, pieces);
    assert_eq!(whole.events, cut.events);
    assert!(cut.kept_max <= LIMITS.request_bytes + HEAD_BYTES);
    assert!(cut.args_capacity <= 4 * LIMITS.args.max(LIMITS.inline_bytes));
});
