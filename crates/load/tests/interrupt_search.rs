//! A search that is interrupted. Alone in its file, since an interruption ends all runs of a process.

#[allow(dead_code, reason = "each test program uses its own part of this")]
mod fake;
#[path = "../../../tests/support/patience.rs"]
mod patience;

use std::thread::spawn;

use fake::{Mutant, bench, serve};
use patience::wait_until;
use posthaste_load::{find_max_rate, interrupt};

#[test]
fn an_interrupted_search_reports_what_it_measured() {
    let (address, dir) = (serve(Mutant::Honest), tempfile::tempdir().expect("a temporary directory"));
    let second = dir.path().join("records/2");
    spawn(move || {
        wait_until("the second run is begun", || second.exists());
        interrupt();
    });
    let (json, dir) = (dir.path().join("s.json"), dir.path().display());
    let words = "--clients 2 --rate 20 --workload mix:echo=1 --warmup 0s --cooldown 0s --duration 1s";
    let bench = bench(&format!("--connect {address} {words} --record {dir}/records --json {dir}/s.json"));
    let report = find_max_rate(&bench, "max<60s".parse().expect("a limit")).expect("a report");
    let says = report.invalid_because.iter().any(|why| why.contains("the search was interrupted"));
    assert!(says && !report.valid && !report.search.is_empty(), "{report}");
    let written: serde_json::Value =
        serde_json::from_slice(&std::fs::read(json).expect("written")).expect("JSON");
    assert_eq!(written["valid"], false);
    assert_eq!(written["search"].as_array().map(Vec::len), Some(report.search.len()));
}
