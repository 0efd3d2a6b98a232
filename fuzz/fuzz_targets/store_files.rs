//! Any bytes as the files of an embedded store, with checksums that are right and with such that are not: refused in a
//! sentence and left as they were, or a store that works and can be opened again.

#![no_main]

#[path = "../../crates/server/tests/support/segments.rs"]
mod segments;

use libfuzzer_sys::fuzz_target;

/// Longer stories are slow and show nothing that shorter ones do not.
const BYTES: usize = 4096;

fuzz_target!(|data: &[u8]| {
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory");
    segments::check(directory.path(), &segments::build(&data[..data.len().min(BYTES)]));
});
