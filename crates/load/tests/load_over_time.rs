//! Open loops whose rate changes: by a profile, or as a record says.

mod fake;

use std::fs::{self, File};
use std::path::Path;

use fake::{Mutant, bench, serve, undisturbed};
use parquet::file::reader::SerializedFileReader;
use parquet::record::RowAccessor as _;
use posthaste_load::{QueueBench, run};
use serde_json::Value;

type Report = posthaste_load::Report<QueueBench>;

/// When the requests of a record were due, in nanoseconds of its clock, in order.
fn due(record: &Path) -> Vec<i64> {
    let file = File::open(record.join("requests.parquet")).expect("requests");
    let rows = SerializedFileReader::new(file).expect("Parquet").into_iter().map(|row| row.expect("a row"));
    let mut due: Vec<i64> = rows
        .map(|row| {
            let place = row.get_column_iter().position(|(name, _)| name == "due_ns").expect("a column");
            row.get_long(place).expect("a time")
        })
        .collect();
    due.sort_unstable();
    due
}

fn run_json(record: &Path) -> Value {
    serde_json::from_slice(&fs::read(record.join("run.json")).expect("a record")).expect("JSON")
}

/// A run of ECHOs of four clients on two threads, every request recorded there.
fn recorded(address: &str, record: &Path, words: &[&str]) -> Report {
    let fixed =
        format!("--connect {address} --clients 4 --threads 2 --workload mix:echo=1 --record-requests");
    let mut bench = bench(&format!("{fixed} --record {} {}", record.display(), words[0]));
    // A profile has spaces.
    bench.run.rate_profile = words.get(1).map(|profile| profile.parse().expect("a profile"));
    run(bench).expect("a report")
}

#[test]
fn requests_are_due_by_the_profile_and_again_when_it_is_replayed() {
    let (address, dir) = (serve(Mutant::Honest), tempfile::tempdir().expect("a directory"));
    let length = "--warmup 500ms --duration 2s --cooldown 500ms";
    let profile = "0s:200 1s:200 1s:1000 2s:0";
    let mut tries = 0;
    let run_once = || {
        tries += 1;
        let record = dir.path().join(tries.to_string());
        (recorded(&address, &record, &[length, profile]), record)
    };
    // What a busy machine has not sent at the very end is not recorded.
    let (report, first) = undisturbed(run_once, |(_, record)| due(record).len() >= 799);
    assert!(
        report.verdict().is_ok() && report.to_string().contains("0s:200 1s:200 1s:1000 2s:0"),
        "{report}"
    );
    let json = run_json(&first);
    assert_eq!(json["options"]["rate_profile"], "0s:200 1s:200 1s:1000 2s:0");
    let due_first = due(&first);
    // The first rate holds during the warm-up.
    let begin = (json["measured"]["start_s"].as_f64().expect("a time") * 1e9).round() as i64;
    let within = |from_ms: i64, to_ms: i64| {
        let place = |ms: i64| due_first.partition_point(|at| at - begin < ms * 1_000_000 - 1_000);
        place(to_ms) - place(from_ms)
    };
    assert_eq!((within(-500, 0), within(0, 1_000)), (100, 200));
    // Three quarters of a falling line's area lie under its first half.
    let (fast, slow) = (within(1_000, 1_500), within(1_500, 2_600));
    assert!((373..=377).contains(&fast) && (120..=126).contains(&slow), "{fast} and {slow}");
    let gaps = due_first[..300].windows(2).map(|pair| pair[1] - pair[0]);
    gaps.for_each(|gap| assert!((gap - 5_000_000).abs() <= 2, "{gap} ns are not 5 ms"));

    let half = "--warmup 250ms --duration 1s --cooldown 250ms";
    let words = format!("{half} --replay {} --replay-speed 2", first.display());
    let mut tries = 0;
    let replay = || {
        tries += 1;
        let record = dir.path().join(format!("replayed-{tries}"));
        (recorded(&address, &record, &[&words]), record)
    };
    let (report, second) = undisturbed(replay, |(_, record)| due(record).len() + 2 >= due_first.len());
    assert!(
        report.verdict().is_ok() && report.to_string().contains("requests due 2 times as fast"),
        "{report}"
    );
    let due_second = due(&second);
    assert!(due_first.len() - due_second.len() <= 2, "{} and {}", due_first.len(), due_second.len());
    for (before, now) in due_first.iter().zip(&due_second) {
        let (before, now) = (before - due_first[0], now - due_second[0]);
        assert!((before - 2 * now).abs() <= 2, "{before} ns became {now}");
    }
}

#[test]
fn a_replay_that_is_over_before_the_measured_time_is_not_valid() {
    let (address, dir) = (serve(Mutant::Honest), tempfile::tempdir().expect("a directory"));
    let mut tries = 0;
    let mut recorded = |words: &str| {
        tries += 1;
        let record = dir.path().join(tries.to_string());
        (recorded(&address, &record, &[words]), record)
    };
    let rate = "--rate 200 --warmup 0s --duration 500ms --cooldown 0s";
    let (_, first) = undisturbed(|| recorded(rate), |(_, record)| due(record).len() >= 99);
    let file = first.join("requests.parquet");
    let words = format!("--warmup 0s --duration 3s --cooldown 0s --replay {}", file.display());
    let (report, _) = undisturbed(|| recorded(&words), |(report, _)| report.counts.ok >= 95);
    let says = |why: &String| why.contains("the replay was over 2.5 s before the end");
    assert!(!report.valid && report.invalid_because.iter().any(says), "{report}");
    assert!(report.verdict().is_ok() && report.counts.ok >= 95, "{report}");
}

#[test]
fn what_cannot_be_replayed_is_refused_before_the_run() {
    let dir = tempfile::tempdir().expect("a directory");
    let record = dir.path().join("record");
    let words =
        format!("--connect 127.0.0.1:1 --record {} --replay {}", record.display(), dir.path().display());
    let refusal = run(bench(&words)).expect_err("there is nothing");
    assert!(
        refusal.is_usage() && refusal.to_string().contains("requests.parquet: No such file"),
        "{refusal}"
    );
    assert!(!record.exists());
}
