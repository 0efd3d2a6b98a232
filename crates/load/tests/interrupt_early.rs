//! A run that is interrupted in its warm-up. Alone in its file, since an interruption ends all runs of a process.

#[allow(dead_code, reason = "each test program uses its own part of this")]
mod fake;

use std::thread::{sleep, spawn};
use std::time::Duration;

use fake::{Mutant, bench, serve_counted};
use posthaste_load::{interrupt, run};

#[test]
fn a_run_that_ends_in_its_warm_up_says_that_nothing_was_measured() {
    let (address, answered) = serve_counted(Mutant::Honest);
    spawn(move || {
        // More than are asked before the load begins.
        while answered() < 100 {
            sleep(Duration::from_millis(1));
        }
        sleep(Duration::from_millis(200));
        interrupt();
    });
    let words =
        format!("--connect {address} --clients 2 --workload mix:echo=1 --warmup 300s --duration 300s");
    let report = run(bench(&words)).expect("a report");
    let why = "the run was interrupted before anything was measured";
    assert_eq!(report.invalid_because, [why], "a longer --duration would not help");
    assert_eq!(report.verdict().expect_err("nothing was measured").to_string(), why);
    assert!((0.1..60.0).contains(&report.warmup_s), "{report}");
    assert!(!report.to_string().contains("after 300 s of warm-up"), "{report}");
}
