//! Several load generators as one experiment: they start together, and their records become one report.

mod support;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use support::Server;
use support::patience::wait_until;

/// A load of a second that leaves its record in `dir/name`.
fn start(server: &Server, dir: &Path, name: &str, arguments: &[&str]) -> Child {
    start_for("1s", server, dir, name, arguments)
}

fn start_for(duration: &str, server: &Server, dir: &Path, name: &str, arguments: &[&str]) -> Child {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    bench.args(["bench", "queue", "--connect", &server.addr().to_string(), "--clients", "4"]);
    bench.args(["--warmup", "200ms", "--duration", duration, "--cooldown", "200ms", "--window", "100ms"]);
    bench.arg("--record").arg(dir.join(name)).args(arguments);
    bench.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program runs")
}

/// One load; again where the machine was too busy for it.
fn run(server: &Server, dir: &Path, name: &str, arguments: &[&str]) {
    let is_done = (0..5).any(|_| {
        let _ = fs::remove_dir_all(dir.join(name)); // it is there from the second time on
        start(server, dir, name, arguments).wait().expect("it ends").success()
    });
    assert!(is_done, "{name}");
}

/// Two loads that begin together, in three seconds or, where the machine is too busy for that, later.
fn together(server: &Server, dir: &Path, further: &[&str]) {
    let is_done = [3.0, 10.0, 30.0].iter().any(|ahead_s| {
        ["a", "b"].iter().for_each(|name| drop(fs::remove_dir_all(dir.join(name))));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a date").as_secs_f64();
        let at = format!("{:.3}", now + ahead_s);
        let first = ["--start-at", &at];
        let second = [&first[..], &["--first-client", "5"], further].concat();
        let both = [start(server, dir, "a", &first), start(server, dir, "b", &second)];
        let ends = both.map(|mut bench| bench.wait().expect("it ends").success());
        ends == [true, true]
    });
    assert!(is_done, "they do not begin together");
}

fn merge(dir: &Path, names: &[&str]) -> Output {
    let mut merge = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    merge.current_dir(dir).args(["bench", "merge", "--json", "merged.json"]).args(names);
    merge.output().expect("the program runs")
}

fn refusal(dir: &Path, names: &[&str]) -> String {
    let said = merge(dir, names);
    assert_eq!(said.status.code(), Some(1));
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("a file")).expect("JSON")
}

fn figure(report: &Value, path: &str) -> f64 {
    report.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {path} in {report}"))
}

#[test]
fn two_generators_that_start_together_are_one_experiment() {
    let server = Server::start("memory:", &[]);
    let dir = tempfile::tempdir().expect("a directory");
    together(&server, dir.path(), &["--seed", "2"]);

    let said = merge(dir.path(), &["a", "b"]);
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let merged = json(&dir.path().join("merged.json"));
    let parts = merged["parts"].as_array().expect("parts");
    let sum: f64 = parts.iter().map(|part| figure(part, "/throughput_per_s")).sum();
    assert!((figure(&merged, "/throughput_per_s") / sum - 1.0).abs() < 1e-9, "throughputs add up");
    assert_eq!((figure(&merged, "/clients"), parts.len()), (8.0, 2));
    assert_eq!(merged["clock"], "the monotonic clock of their machine");
    assert!(figure(&merged, "/common_s") > 0.9, "they started together: {merged}");
    for part in parts {
        assert!(figure(part, "/throughput_per_s") > 0.0 && figure(part, "/counted_s") > 0.5, "{part}");
    }
    percentiles_are_of_all_requests(dir.path(), &merged);
}

/// Changes a record as if its server had been asked under a name that all machines know.
fn rename_server(record: &Path, name: &str) {
    let path = record.join("run.json");
    let mut run = json(&path);
    for relation in run["clock_relations"].as_array_mut().expect("relations") {
        relation["server"] = name.into();
    }
    fs::write(&path, run.to_string()).expect("a file can be written");
}

/// Makes a record that of a machine whose wall clock is ahead by so many seconds, which the server's answers showed.
fn move_to_another_machine(record: &Path, ahead_s: f64) {
    let path = record.join("run.json");
    let mut run = json(&path);
    run["machine"]["boot_id"] = "of another machine".into();
    run["start_monotonic_ns"] = 12_345_u64.into();
    let start = run["start_unix_ns"].as_u64().expect("a start");
    run["start_unix_ns"] = (start + (ahead_s * 1e9) as u64).into();
    for relation in run["clock_relations"].as_array_mut().expect("relations") {
        relation["offset_us"] = (figure(relation, "/offset_us") - ahead_s * 1e6).into();
    }
    fs::write(&path, run.to_string()).expect("a file can be written");
}

#[test]
fn generators_whose_clocks_differ_are_laid_together_by_the_clock_of_the_server() {
    let server = Server::start("memory:", &[]);
    let dir = tempfile::tempdir().expect("a directory");
    together(&server, dir.path(), &[]);
    let on_one_machine = merge(dir.path(), &["a", "b"]);
    assert!(on_one_machine.status.success());
    let same_clock = json(&dir.path().join("merged.json"));

    move_to_another_machine(&dir.path().join("b"), 90.0);
    ["a", "b"].iter().for_each(|name| rename_server(&dir.path().join(name), "tier:7411"));
    let said = merge(dir.path(), &["a", "b"]);
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let merged = json(&dir.path().join("merged.json"));
    assert_eq!(merged["clock"], "the clock of tier:7411");
    let error_us = figure(&merged, "/clock_error_us");
    let apart_us = (figure(&merged, "/common_s") - figure(&same_clock, "/common_s")).abs() * 1e6;
    assert!(error_us > 0.0 && apart_us <= error_us + 1.0, "{apart_us} us apart, {error_us} us of error");

    // Without the server's answers there are only the wall clocks, and by those they never met.
    let path = dir.path().join("b/run.json");
    let mut run = json(&path);
    run["clock_relations"] = Value::Array(Vec::new());
    fs::write(&path, run.to_string()).expect("a file can be written");
    let said = refusal(dir.path(), &["a", "b"]);
    assert!(said.contains("b began to measure 8") && said.contains("s after a had ended"), "{said}");
}

/// The merged maximum is the larger, the merged mean and median lie between those of the parts.
fn percentiles_are_of_all_requests(dir: &Path, merged: &Value) {
    let parts = ["a", "b"].map(|name| json(&dir.join(name).join("summary.json")));
    let of = |report: &Value, name: &str| figure(report, &format!("/response/{name}_us"));
    for name in ["mean", "p50"] {
        let (a, b) = (of(&parts[0], name), of(&parts[1], name));
        // The record holds two digits, and windows of the edges count for one and not for the other.
        let (low, high) = (a.min(b) * 0.7, a.max(b) * 1.4);
        assert!((low..=high).contains(&of(merged, name)), "{name}: {} of {a} and {b}", of(merged, name));
    }
    assert!(of(merged, "max") >= of(merged, "p99"));
}

#[test]
fn what_was_not_measured_at_the_same_time_or_is_not_alike_is_refused() {
    let server = Server::start("memory:", &[]);
    let dir = tempfile::tempdir().expect("a directory");
    run(&server, dir.path(), "a", &[]);
    run(&server, dir.path(), "later", &[]);
    run(&server, dir.path(), "small", &["--message-bytes", "100"]);
    run(&server, dir.path(), "open", &["--rate", "500"]);

    let said = refusal(dir.path(), &["a", "later"]);
    assert!(said.contains("later began to measure") && said.contains("--start-at"), "{said}");
    let said = refusal(dir.path(), &["a", "small"]);
    assert!(said.contains("message_bytes is 200 in one and 100 in the other"), "{said}");
    let said = refusal(dir.path(), &["a", "open"]);
    assert!(said.contains("open loop"), "{said}");
    let said = refusal(dir.path(), &["a", "a"]);
    assert!(said.contains("name each record once"), "{said}");
    let said = refusal(dir.path(), &["a", "nowhere"]);
    assert!(said.contains("nowhere/run.json"), "{said}");
}

#[test]
fn a_record_that_was_cut_off_is_no_part_of_an_experiment() {
    let server = Server::start("memory:", &[]);
    let dir = tempfile::tempdir().expect("a directory");
    let mut bench = start_for("60s", &server, dir.path(), "cut", &[]);
    wait_until("its record is begun", || {
        assert!(bench.try_wait().expect("a child can be asked").is_none(), "it runs on");
        dir.path().join("cut/windows.csv").exists()
    });
    bench.kill().and_then(|()| bench.wait()).expect("a child can be killed");
    let said = refusal(dir.path(), &["cut"]);
    assert!(said.contains("cut/summary.json"), "{said}");
}

#[test]
fn a_record_of_which_a_part_is_missing_is_no_part_of_an_experiment() {
    let server = Server::start("memory:", &[]);
    let dir = tempfile::tempdir().expect("a directory");
    run(&server, dir.path(), "whole", &[]);
    let cut = |file: &str, change: &dyn Fn(&str) -> String| {
        let path = dir.path().join("whole").join(file);
        let text = fs::read_to_string(&path).expect("a file");
        fs::write(&path, change(&text)).expect("a file can be written");
        let said = refusal(dir.path(), &["whole"]);
        fs::write(&path, text).expect("a file can be written");
        said
    };
    let without_last_lines = |text: &str, count: usize| {
        let lines: Vec<&str> = text.lines().collect();
        lines[..lines.len() - count].join("\n") + "\n"
    };
    let said = cut("latency.hlog", &|_| String::new());
    assert!(said.contains("latency.hlog") && said.contains("it holds 0 response times"), "{said}");
    let said = cut("latency.hlog", &|text| without_last_lines(text, 3));
    assert!(said.contains("latency.hlog") && said.contains("windows.csv counts"), "{said}");
    let said = cut("windows.csv", &|text| without_last_lines(text, 1));
    assert!(said.contains("windows.csv: rows are missing"), "{said}");
    let said = cut("run.json", &|text| {
        let mut run: Value = serde_json::from_str(text).expect("JSON");
        run["end_s"] = Value::Null;
        run.to_string()
    });
    assert!(said.contains("recording stopped before the run ended"), "{said}");
    assert!(merge(dir.path(), &["whole"]).status.success());
}

#[test]
fn a_start_that_has_passed_is_refused() {
    let server = Server::start("memory:", &[]);
    let dir = tempfile::tempdir().expect("a directory");
    let mut bench = start(&server, dir.path(), "a", &["--start-at", "1700000000"]);
    assert_eq!(bench.wait().expect("it ends").code(), Some(1));
}
