//! A run that is interrupted before its first request. Alone in its file, since an interruption ends all runs of a
//! process.

#[allow(dead_code, reason = "each test program uses its own part of this")]
mod fake;
#[allow(dead_code, reason = "each test program uses its own part of this")]
mod memcached;

use std::thread::{sleep, spawn};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Parser as _;
use fake::{Mutant, bench, serve};
use posthaste_load::{CacheBench, LoadError, find_max_rate, interrupt, run};

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    bench: CacheBench,
}

/// Each of these set-ups would take hours.
#[test]
fn nothing_that_comes_before_a_run_goes_on_after_an_interrupt() {
    let address = serve(Mutant::Honest);
    let bench = |words: &str| bench(&format!("--connect {address} --clients 2 {words}"));
    let hour = SystemTime::now().duration_since(UNIX_EPOCH).expect("no time travel").as_secs() + 3600;
    let (preloading, waiting) = (bench("--preload 1000000000"), bench(&format!("--start-at {hour}")));
    spawn(|| {
        sleep(Duration::from_secs(1));
        interrupt();
    });
    let waited = spawn(move || matches!(run(waiting), Err(LoadError::Interrupted)));
    assert!(matches!(run(preloading), Err(LoadError::Interrupted)));
    assert!(waited.join().expect("no panic"));
    let cache = memcached::serve(memcached::Mutant::Honest);
    let words = ["bench", "--connect", &cache, "--clients", "1", "--preload", "--keys", "1000000000"];
    assert!(matches!(run(Line::parse_from(words).bench), Err(LoadError::Interrupted)));
    let limit = "p99<5ms".parse().expect("a limit");
    assert!(matches!(find_max_rate(&bench(""), limit), Err(LoadError::Interrupted)));
}
