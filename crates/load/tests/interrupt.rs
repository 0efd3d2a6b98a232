//! A run that is interrupted. Alone in its file, since an interruption ends all runs of a process.

#[allow(dead_code, reason = "each test program uses its own part of this")]
mod fake;
#[path = "../../../tests/support/patience.rs"]
mod patience;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread::spawn;
use std::time::{Duration, Instant};

use fake::{Mutant, bench, serve};
use patience::wait_until;
use posthaste_load::{interrupt, run};

/// How many windows a record has so far.
fn windows(record: &Path) -> usize {
    let rows = fs::read_to_string(record.join("windows.csv")).unwrap_or_default();
    rows.lines().skip(1).map(|row| row.split(',').next()).collect::<BTreeSet<_>>().len()
}

#[test]
fn an_interrupted_run_reports_what_it_measured() {
    let (address, dir) = (serve(Mutant::Honest), tempfile::tempdir().expect("a temporary directory"));
    let (start, record) = (Instant::now(), dir.path().join("record"));
    let recorded_events = record.join("events.csv");
    let words =
        "--clients 4 --threads 2 --rate 200 --workload twelve-step --warmup 0s --duration 300s --check";
    let recorded = format!("--record {} --window 100ms", record.display());
    spawn(move || {
        wait_until("a second of it is recorded", || windows(&record) >= 10);
        interrupt();
    });
    let report = run(bench(&format!("--connect {address} {words} {recorded}"))).expect("a report");
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    assert!(report.counts.ok > 0 && report.unanswered == 0 && report.violations() == 0, "{report}");
    assert!(report.duration_s > 0.5 && report.duration_s < 60.0, "{report}");
    let says = report.invalid_because.iter().any(|why| why.contains("interrupted"));
    assert!(says && !report.valid, "{report}");
    let events = fs::read_to_string(recorded_events).expect("a record");
    let measured = events.lines().find(|row| row.ends_with(",measured")).expect("a phase");
    let length_s = measured.split(',').nth(1).and_then(|ms| ms.parse::<f64>().ok()).expect("a time") / 1e3;
    assert!((length_s - report.duration_s).abs() < 1.0 && !events.contains("cool-down"), "{events}");
    // As many as were due in the time that is reported, from which throughput is counted.
    assert!((0.5..1.5).contains(&(report.throughput_per_s / 200.0)), "{report}");
}
