//! Any text as a configuration file: options, or pools and routes, or an error in one line that names a line there is.

#![no_main]

use libfuzzer_sys::fuzz_target;
use posthaste::files;

/// Longer files are slow and show nothing that shorter ones do not.
const BYTES: usize = 4096;

fuzz_target!(|data: &[u8]| {
    let Some((&what, text)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(&text[..text.len().min(BYTES)]) else { return };
    let read = match what % 3 {
        0 => files::options("queue", text),
        1 => files::options("cache", text),
        _ => files::pools(text).map(|layout| {
            for route in &layout.routes {
                assert!(route.pool < layout.pools.len());
            }
            for pool in &layout.pools {
                assert!(
                    !pool.members.is_empty()
                        && pool.stand_ins.iter().all(|other| other.pool < layout.pools.len())
                );
                assert!(pool.source.is_none_or(|source| source.pool() < layout.pools.len()));
            }
        }),
    };
    if let Err(error) = read {
        assert!(!error.is_empty() && !error.contains(char::is_control), "{error:?}");
        if let Some(line) = error.strip_prefix("FILE:") {
            let line = line.split(':').next().and_then(|line| line.parse::<usize>().ok());
            assert!(line.is_some_and(|line| (1..=1 + text.matches('\n').count()).contains(&line)), "{error}");
        }
    }
});
