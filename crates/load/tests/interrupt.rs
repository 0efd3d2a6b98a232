//! A run that somebody ends: by itself, for what ends one run of a process ends all.

#[allow(dead_code, reason = "each test program uses its own part of this")]
mod fake;

use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use fake::{Mutant, bench, serve};
use posthaste_load::{interrupt, run};

#[test]
fn an_interrupted_run_reports_what_it_measured() {
    let address = serve(Mutant::Honest);
    let start = Instant::now();
    let words =
        "--clients 4 --threads 2 --rate 200 --workload twelve-step --warmup 0s --duration 300s --check";
    spawn(|| {
        sleep(Duration::from_secs(2));
        interrupt();
    });
    let report = run(bench(&format!("--connect {address} {words}"))).expect("a report");
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    assert!(report.counts.ok > 0 && report.unanswered == 0 && report.violations() == 0, "{report}");
    assert!(report.duration_s > 0.5 && report.duration_s < 60.0, "{report}");
    let says = report.invalid_because.iter().any(|why| why.contains("interrupted"));
    assert!(says && !report.valid, "{report}");
    // As many as were due in the time that is reported, from which throughput is counted.
    assert!((0.5..1.5).contains(&(report.throughput_per_s / 200.0)), "{report}");
}
