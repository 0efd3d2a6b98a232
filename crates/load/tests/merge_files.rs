//! Records that were damaged, or are of something else: each is refused with the name of the file and what is wrong
//! with it.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};
use posthaste_load::merge::{Merged, MergedKeys, merge};
use posthaste_load::tally::histogram;

const RUN: &str = r#"{"process_id": PID, "start_unix_ns": 1000000000, "start_monotonic_ns": 5000,
    "machine": {"boot_id": "BOOT"}, "options": {"clients": 4, "rate": null},
    "end_s": 3.5, "measured": {"start_s": 1.0, "end_s": 3.0},
    "clock_relations": [{"server": "s", "at_s": 0.5, "offset_us": 1.5, "error_us": 2.0}]}"#;
const SUMMARY: &str = r#"{"invalid_because": [], "ok": 2, "nulls": 1}"#;
const WINDOWS: &str = "kind,start_s,length_s,ok,null,errors,response_mean_us\n\
    all,1.0,1.0,2,1,0,5.5\npop,1.0,1.0,2,1,0,5.5\nall,2.0,1.0,0,0,0,\n";
/// The head of a histogram log, without any window.
const LOG: &str = "#[Histogram log format version 1.3]\n";

/// Writes the windows of a record, and for each of their requests a response time.
fn write_windows(record: &Path, windows: &str) {
    let responses = windows.lines().skip(1).filter(|row| !row.starts_with("all")).map(|row| {
        let cells: Vec<&str> = row.split(',').collect();
        let requests = cells[3..6].iter().map(|count| count.parse::<u64>().expect("a count")).sum();
        interval(cells[1], requests, 5_500)
    });
    fs::write(record.join("latency.hlog"), LOG.to_owned() + &responses.collect::<String>()).expect("a file");
    fs::write(record.join("windows.csv"), windows).expect("a file");
}

/// Writes two records, and replaces one file of the second.
fn records(dir: &Path, file: &str, content: impl AsRef<[u8]>) -> Vec<PathBuf> {
    let write = |name: &str, number: &str| {
        let record = dir.join(name);
        fs::create_dir(&record).expect("a directory");
        let run = RUN.replace("PID", number).replace("BOOT", "same");
        let files = [("run.json", &run[..]), ("summary.json", SUMMARY)];
        files.iter().for_each(|(name, text)| fs::write(record.join(name), text).expect("a file"));
        write_windows(&record, WINDOWS);
        record
    };
    let records = vec![write("a", "1"), write("b", "2")];
    fs::write(records[1].join(file), content).expect("a file");
    records
}

fn refusal(file: &str, content: impl AsRef<[u8]>) -> String {
    let dir = tempfile::tempdir().expect("a directory");
    match merge(&records(dir.path(), file, content)) {
        Err(error) => error.to_string(),
        Ok(merged) => panic!("{file} was believed: {merged}"),
    }
}

#[test]
fn good_records_are_merged() {
    let dir = tempfile::tempdir().expect("a directory");
    let merged = merge(&records(dir.path(), "summary.json", SUMMARY)).expect("two good records");
    assert_eq!((merged.clients, merged.counts.ok, merged.counts.nulls), (8, 4, 2));
    assert!(merged.to_string().contains("fewer than 10 requests lie"), "{merged}");
}

#[test]
fn what_found_nothing_in_a_cache_is_called_a_miss() {
    let dir = tempfile::tempdir().expect("a directory");
    let records = records(dir.path(), "summary.json", SUMMARY);
    assert!(merge(&records).expect("two good records").to_string().contains(" null "));
    for (record, number) in records.iter().zip(["1", "2"]) {
        let run = RUN.replace("PID", number).replace("BOOT", "same");
        let run = run.replace(r#""clients": 4"#, r#""clients": 4, "ratio": "1:10""#);
        fs::write(record.join("run.json"), run).expect("a file");
    }
    assert!(merge(&records).expect("two good records").to_string().contains(" miss "));
}

#[test]
fn keys_of_caches_are_added_up() {
    let dir = tempfile::tempdir().expect("a directory");
    let records = records(dir.path(), "summary.json", SUMMARY);
    assert_eq!(merge(&records).expect("two good records").keys, None);
    for (record, hits) in records.iter().zip([60, 30]) {
        let summary =
            format!(r#"{{"invalid_because": [], "ok": 2, "nulls": 1, "hits": {hits}, "misses": 5}}"#);
        fs::write(record.join("summary.json"), summary).expect("a file");
    }
    let merged = merge(&records).expect("two good records");
    // Each was measured for two seconds.
    assert_eq!(merged.keys, Some(MergedKeys { hits: 90, misses: 10, keys_per_s: 50.0 }));
    assert!(merged.to_string().contains("keys: 90 hits, 10 misses (90.00 % hits, 50 keys/s)"), "{merged}");
    let json = serde_json::to_value(&merged).expect("JSON");
    assert_eq!((&json["hits"], &json["misses"]), (&90.into(), &10.into()));
}

/// Returns the line of a log for a window of a second with so many requests, each of which took `nanos`.
fn interval(start_s: &str, requests: u64, nanos: u64) -> String {
    let mut histogram = histogram(2);
    histogram.record_n(nanos, requests).expect("in range");
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(&histogram, &mut bytes).expect("memory takes it");
    format!("Tag=pop/response,{start_s},1.000,1.0,{}\n", STANDARD.encode(bytes))
}

/// Returns a log of `windows` windows of a second, each with one request that took `nanos`.
fn log(windows: u32, nanos: u64) -> String {
    let lines = (1..=windows).map(|second| interval(&format!("{second}.000"), 1, nanos));
    LOG.to_owned() + &lines.collect::<String>()
}

#[test]
fn the_windows_of_an_hour_are_not_held_in_memory_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let records = records(dir.path(), "latency.hlog", log(500, 2_000_000));
    let rows: String =
        (1..=500).map(|second| format!("all,{second}.0,1.0,1,0,0,1\npop,{second}.0,1.0,1,0,0,1\n")).collect();
    for (record, number) in records.iter().zip(["1", "2"]) {
        let run = RUN
            .replace("PID", number)
            .replace("BOOT", "same")
            .replace(r#""end_s": 3.0"#, r#""end_s": 501.0"#);
        let head = WINDOWS.lines().next().expect("a head");
        fs::write(record.join("run.json"), run).expect("a file");
        fs::write(record.join("windows.csv"), format!("{head}\n{rows}")).expect("a file");
    }
    fs::write(records[0].join("latency.hlog"), log(500, 1_000_000)).expect("a file");
    let mut merged = None;
    let taken = allocation_counter::measure(|| merged = Some(merge(&records).expect("two good records")));
    let merged = merged.expect("it was merged");
    let (fast, slow) = (merged.response.p50_us, merged.response.max_us);
    assert!((1000.0..1010.0).contains(&fast) && (2000.0..2020.0).contains(&slow), "half of each: {merged}");
    let of_one = histogram(2).distinct_values() * size_of::<u64>();
    assert!(taken.bytes_max < 50 * of_one as u64, "{} bytes, and a histogram has {of_one}", taken.bytes_max);
}

/// Returns the doubts about two records, of which the first measured from second 1 to 4 and the second from `from` to
/// `to`.
fn doubts_of_stretch(from: f64, to: f64) -> Vec<String> {
    let dir = tempfile::tempdir().expect("a directory");
    let records = records(dir.path(), "summary.json", SUMMARY);
    for (record, number, from, to) in [(&records[0], "1", 1.0, 4.0), (&records[1], "2", from, to)] {
        let run = RUN.replace("PID", number).replace("BOOT", "same");
        let run = run
            .replace(r#""start_s": 1.0"#, &format!(r#""start_s": {from:.1}"#))
            .replace(r#""end_s": 3.0"#, &format!(r#""end_s": {to:.1}"#));
        fs::write(record.join("run.json"), run).expect("a file");
        let rows = (0..(to - from) as u32)
            .map(|second| from + f64::from(second))
            .map(|start_s| format!("all,{start_s:.1},1.0,1,0,0,1\npop,{start_s:.1},1.0,1,0,0,1\n"));
        let head = WINDOWS.lines().next().expect("a head");
        write_windows(record, &format!("{head}\n{}", rows.collect::<String>()));
    }
    merge(&records).expect("two good records").invalid_because
}

#[test]
fn what_is_common_to_all_is_a_stretch_and_not_the_windows_in_it() {
    let none: [String; 0] = [];
    assert_eq!(doubts_of_stretch(1.5, 3.5), none, "two of three seconds, and one whole window of the first");
    let few = doubts_of_stretch(3.0, 4.0);
    assert_eq!(few.len(), 1, "{few:?}");
    assert!(few[0].ends_with("measured 3.0 s, of which only 1.0 s are common to all"), "{few:?}");
}

#[test]
fn what_fails_one_run_fails_the_merged_one() {
    let dir = tempfile::tempdir().expect("a directory");
    let merged = merge(&records(dir.path(), "summary.json", SUMMARY)).expect("two good records");
    assert!(merged.valid && merged.verdict().is_ok(), "{merged}");
    for (failure, ok, counts, about) in [
        (r#"[], "check": {"violations": 3}"#, 2, [3, 0, 0, 0, 0], "b: 3 violations"),
        (r#"["2 connections ended"], "connections_lost": 2"#, 2, [0, 2, 0, 0, 0], "b: 2 conn"),
        (r#"["1 was never answered"], "unanswered": 1"#, 2, [0, 0, 1, 0, 0], "b: 1 was never"),
        (r#"["nothing was served"], "errors": 9"#, 0, [0, 0, 0, 1, 0], "b: nothing was served"),
        (r#"[], "check": {"unasked": ["it is gone"]}"#, 2, [0, 0, 0, 0, 1], "not complete: it is gone"),
    ] {
        let summary = format!(r#"{{"invalid_because": {failure}, "ok": {ok}, "nulls": 0}}"#);
        let dir = tempfile::tempdir().expect("a directory");
        let merged = merge(&records(dir.path(), "summary.json", &summary)).expect("two good records");
        let Merged { violations, connections_lost, unanswered, unserved, unchecked, .. } = merged;
        assert_eq!([violations, connections_lost, unanswered, unserved, unchecked], counts, "{summary}");
        let refusal = merged.verdict().expect_err(&summary).to_string();
        assert!(!merged.valid && refusal.contains(about), "{refusal}");
    }
}

#[test]
fn where_nothing_was_served_nothing_was_measured() {
    for outcomes in [",0,0,0,", ",0,0,7,5.5"] {
        let dir = tempfile::tempdir().expect("a directory");
        let windows = WINDOWS.replace(",2,1,0,5.5", outcomes);
        let records = records(dir.path(), "summary.json", SUMMARY);
        records.iter().for_each(|record| write_windows(record, &windows));
        let merged = merge(&records).expect("two records");
        assert!(!merged.valid && merged.verdict().is_err(), "{outcomes}: {merged}");
    }
}

/// Merges a record with the options above and one with these, and returns the error, if any.
fn with_options(options: &str) -> Result<(), String> {
    let dir = tempfile::tempdir().expect("a directory");
    let run = RUN.replace("PID", "2").replace("BOOT", "same").replace(r#""rate": null"#, options);
    merge(&records(dir.path(), "run.json", run)).map(drop).map_err(|error| error.to_string())
}

#[test]
fn what_one_machine_has_or_does_for_all_may_differ() {
    for options in [r#""dataset": "full""#, r#""tls_ca": "/here/ca.pem""#, r#""tls_cert": "/here/own.pem""#] {
        assert_eq!(with_options(options), Ok(()), "{options}");
    }
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_its_name() {
    let number = |cell: &str| WINDOWS.replacen("2,1,0,5.5", cell, 1);
    let interval = |histogram: &str| format!("{LOG}Tag=pop/response,1.000,1.000,1.0,{histogram}\n");
    for (file, content, said) in [
        ("run.json", "{".to_owned(), "cannot read"),
        ("run.json", "[1]".to_owned(), "not of a bench that ran to its end"),
        ("run.json", RUN.replace("start_monotonic_ns", "x").replace("PID", "2"), "ran to its end"),
        ("summary.json", r#"{"unanswered": "1"}"#.to_owned(), "counts failures in no numbers"),
        ("summary.json", r#"{"check": {"violations": -1}}"#.to_owned(), "counts failures in no numbers"),
        ("summary.json", r#"{"ok": "many"}"#.to_owned(), "how many requests were served"),
        ("windows.csv", number("-2,1,0,5.5"), "no window: all,1.0,1.0,-2"),
        ("windows.csv", number("2,1,0,NaN"), "no window"),
        ("windows.csv", number("18446744073709551615,1,0,5.5"), "no window"),
        ("windows.csv", WINDOWS.replacen("1.0", "inf", 1), "no window"),
        ("windows.csv", number("2,1\u{1},0,5.5"), "no window: all,1.0,1.0,2,1\\u{1}"),
        ("latency.hlog", format!("{LOG}Tag=pop/response,1.0,1.0\n"), "at byte"),
        ("latency.hlog", interval("AAAA"), "pop/response from 1.000 s on: it is no compressed histogram"),
        ("latency.hlog", LOG.to_owned(), "it holds 0 response times, and windows.csv counts 3 requests"),
        ("windows.csv", WINDOWS.replace("pop,1.0,1.0,2,1,0,5.5\n", ""), "rows are missing"),
        (
            "run.json",
            RUN.replace("3.5", "null").replace("PID", "2"),
            "recording stopped before the run ended",
        ),
        ("latency.hlog", interval("%%%%"), "pop/response from 1.000 s on: "),
    ] {
        let refusal = refusal(file, &content);
        assert!(refusal.contains(&format!("/b/{file}")) && refusal.contains(said), "{content}: {refusal}");
        assert_eq!(refusal.lines().count(), 1, "{refusal}");
    }
}

/// Two records of different machines, of which both have asked `server` for the time.
fn of_two_machines(server: &str) -> Merged {
    let dir = tempfile::tempdir().expect("a directory");
    let asked = RUN.replace(r#""server": "s""#, &format!(r#""server": "{server}""#));
    let records = records(dir.path(), "run.json", asked.replace("PID", "2").replace("BOOT", "other"));
    let first = asked.replace("PID", "1").replace("BOOT", "same");
    fs::write(records[0].join("run.json"), first).expect("a file");
    merge(&records).expect("two good records")
}

#[test]
fn the_clock_of_one_server_relates_two_machines_and_each_may_be_off() {
    let merged = of_two_machines("tier:7411");
    assert_eq!((merged.clock.as_str(), merged.clock_error_us), ("the clock of tier:7411", Some(4.0)));
}

#[test]
fn clocks_that_drift_apart_are_related_in_the_middle_of_what_was_measured() {
    // The second machine's clock falls behind by 30 ms in 10 s: it measured from second 1 to 3, in whose middle the offset
    // is 6 ms, and 3 ms less and more at both ends.
    let relation = |at_s: f64, offset_us: f64, error_us: f64| {
        format!(
            r#"{{"server": "tier:7411", "at_s": {at_s:.1}, "offset_us": {offset_us:.1}, "error_us": {error_us:.1}}}"#
        )
    };
    let drifting = [relation(0.0, 0.0, 2.0), relation(10.0, 30_000.0, 5.0)].join(", ");
    let steady = [relation(0.0, 6_000.0, 2.0), relation(10.0, 6_000.0, 5.0)].join(", ");
    let merged = |first: &str, second: &str| {
        let dir = tempfile::tempdir().expect("a directory");
        let run = |relations: &str, pid: &str, boot: &str| {
            let run = RUN.replace("PID", pid).replace("BOOT", boot);
            let relations = format!(r#""clock_relations": [{relations}]}}"#);
            run[..run.find(r#""clock_relations""#).expect("they are there")].to_owned() + &relations
        };
        let records = records(dir.path(), "run.json", run(second, "2", "other"));
        fs::write(records[0].join("run.json"), run(first, "1", "same")).expect("a file");
        merge(&records).expect("two good records")
    };
    let of_drifting = merged(&steady, &drifting);
    assert_eq!(of_drifting.clock_error_us, Some(5.0 + 5.0 + 3_000.0));
    // Both began to measure at the same time of the server's clock.
    assert!((of_drifting.common_s - 2.0).abs() < 1e-9, "{of_drifting}");
    assert_eq!(merged(&steady, &steady).clock_error_us, Some(10.0));
}

#[test]
fn a_server_of_each_machine_is_no_common_clock() {
    for server in ["127.0.0.1:7411", "localhost:7411", "[::1]:7411", "unix:/run/posthaste.sock"] {
        let merged = of_two_machines(server);
        assert_eq!(
            (merged.clock.as_str(), merged.clock_error_us),
            ("their own wall clocks", None),
            "{server}"
        );
    }
}

/// Returns the doubts about the merge of two records whose options are those above and these.
fn doubts(one: &str, other: &str) -> Vec<String> {
    let dir = tempfile::tempdir().expect("a directory");
    let run = |pid: &str, options: &str| {
        RUN.replace("PID", pid).replace("BOOT", "same").replace(r#""rate": null"#, options)
    };
    let records = records(dir.path(), "run.json", run("2", other));
    fs::write(records[0].join("run.json"), run("1", one)).expect("a file");
    merge(&records).expect("two good records").invalid_because
}

#[test]
fn generators_that_draw_the_same_are_doubted() {
    let twins = |options: &str| doubts(options, options);
    for alike in [r#""rate": 100.0, "seed": 1"#, r#""seed": 7"#, r#""seed": 1, "think_ms": 10.0"#] {
        let said = twins(alike);
        assert!(said.len() == 1 && said[0].contains("--seed"), "{alike}: {said:?}");
    }
    for (one, other) in [
        (r#""rate": 100.0, "seed": 1"#, r#""rate": 100.0, "seed": 2"#),
        (r#""seed": 1, "first_client": 1"#, r#""seed": 1, "first_client": 65"#),
        (
            r#""seed": 1, "first_client": 1, "think_ms": 0.0"#,
            r#""seed": 1, "first_client": 65, "think_ms": 0.0"#,
        ),
        (r#""seed": 1, "think_ms": 10.0"#, r#""seed": 2, "think_ms": 10.0"#),
        // They have four clients each.
        (r#""seed": 1, "first_client": 1"#, r#""seed": 1, "first_client": 5"#),
        (r#""seed": 1, "first_client": 5"#, r#""seed": 1, "first_client": 1"#),
    ] {
        assert_eq!(doubts(one, other), Vec::<String>::new(), "{one}, {other}");
    }
    for (one, other) in [(1, 4), (4, 1)] {
        let of = |first: u32| format!(r#""seed": 1, "first_client": {first}"#);
        let said = doubts(&of(one), &of(other));
        assert_eq!(said.len(), 1, "client 4 is in both: {said:?}");
    }
    for pace in [r#""rate": 100.0"#, r#""think_ms": 10.0"#] {
        let of = |first: u32| format!(r#"{pace}, "seed": 1, "first_client": {first}"#);
        let said = doubts(&of(1), &of(65));
        assert_eq!(said.len(), 1, "{pace}: arrivals and think times are drawn by the seed alone: {said:?}");
    }
}

#[test]
fn a_clock_that_is_centuries_off_relates_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let run = RUN.replace("PID", "2").replace("BOOT", "other").replace("1.5", "1e300");
    let merged = merge(&records(dir.path(), "run.json", run)).expect("their own clocks will do");
    assert_eq!(merged.clock_error_us, None);
}
