//! Any bytes from clients and from servers, in any order, over pools and routes of every kind: the router does not
//! panic, and when everybody is gone it holds nothing.

#![no_main]

#[path = "../../crates/server/tests/support/noise.rs"]
mod noise;

use libfuzzer_sys::fuzz_target;

/// Longer inputs are slow and show nothing that shorter ones do not.
const BYTES: usize = 4096;

fuzz_target!(|data: &[u8]| noise::make(&data[..data.len().min(BYTES)]));
