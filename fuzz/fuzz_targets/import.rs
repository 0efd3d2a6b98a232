//! Any text as a configuration of mcrouter or twemproxy: a file of ours that we read, with every word of theirs that
//! was left out in a line of its own; or an error in one line.

#![no_main]

use libfuzzer_sys::fuzz_target;
use posthaste::files;

/// Longer files are slow and show nothing that shorter ones do not.
const BYTES: usize = 4096;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(&data[..data.len().min(BYTES)]) else { return };
    for pool in [None, Some("a")] {
        match files::import(text, pool) {
            Err(error) => assert!(!error.is_empty() && !error.contains(char::is_control), "{error:?}"),
            Ok((toml, left_out)) => {
                let layout = files::pools(&toml).expect("what we write we read");
                assert!(!layout.routes.is_empty());
                files::options("cache", &toml).expect("and its options too");
                for what in left_out {
                    assert!(!what.contains(char::is_control), "{what:?}");
                    assert!(
                        toml.lines().any(|line| line.strip_prefix("# Left out: ") == Some(&what)),
                        "{what}"
                    );
                }
            }
        }
    }
});
