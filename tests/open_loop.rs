//! A server that stalls once: an open loop shows what everybody would have felt, or that it cannot, and a closed one
//! hides it.

mod support;

#[path = "support/client.rs"]
mod client;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use client::Client;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::Server;
use support::patience::wait_for;

/// A load of four seconds on a server without a store; two seconds into it the server stands still for one.
fn stalled(json: &Path, pace: &[&str]) -> Option<Value> {
    let server = Server::start("mock:200", &[]);
    let bench = start(&server, json, pace, "4s");
    sleep(Duration::from_secs(2));
    server.signal("STOP");
    sleep(Duration::from_secs(1));
    server.signal("CONT");
    report(bench, json)
}

fn start(server: &Server, json: &Path, pace: &[&str], duration: &str) -> Child {
    start_with(server, json, pace, &["--warmup", "200ms", "--cooldown", "0s", "--duration", duration])
}

fn start_with(server: &Server, json: &Path, pace: &[&str], length: &[&str]) -> Child {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    bench.args([
        "bench",
        "queue",
        "--connect",
        &server.addr().to_string(),
        "--workload",
        "mix:send=0.5,pop=0.5",
    ]);
    bench.args(length).args(pace).arg("--json").arg(json);
    bench.stdout(Stdio::null()).spawn().expect("the program runs")
}

/// What a run reports that may show something else where the machine stands still meanwhile: it has ten tries, and what
/// is wrong with the program is wrong in each.
fn undisturbed(mut run: impl FnMut() -> Option<Value>, is_as_known: impl Fn(&Value) -> bool) -> Value {
    let mut found = None;
    for _ in 0..10 {
        found = run().or(found);
        if found.as_ref().is_some_and(&is_as_known) {
            break;
        }
    }
    found.expect("it ends well")
}

/// Its report, if it ends well: it does not where nothing was answered in time.
fn report(mut bench: Child, json: &Path) -> Option<Value> {
    let ended = bench.wait().expect("it ends");
    ended.success().then(|| serde_json::from_slice(&fs::read(json).expect("a report")).expect("JSON"))
}

fn number(report: &Value, path: &str) -> f64 {
    report.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {path} in {report}"))
}

#[test]
fn a_stall_shows_in_the_percentiles_of_an_open_loop_and_not_in_those_of_a_closed_one() {
    let dir = tempfile::tempdir().expect("a directory");
    let json = dir.path().join("report.json");
    let stalls = |closed: &Value| number(closed, "/response/max_us") > 900e3;
    let is_hidden = |closed: &Value| number(closed, "/response/p99_us") < 100e3;
    let is_as_known = |closed: &Value| stalls(closed) && is_hidden(closed);
    let closed = undisturbed(|| stalled(&json, &["--clients", "4"]), is_as_known);
    assert!(stalls(&closed), "it did stall: {closed}");
    assert!(is_hidden(&closed), "four of thousands of requests: {closed}");
    // A quarter of the requests came while it stood still, and waited half a second on average.
    let is_felt =
        |open: &Value| number(open, "/response/p90_us") > 300e3 && number(open, "/response/p99_us") > 800e3;
    let are_sent = |open: &Value| (number(open, "/throughput_per_s") / 1000.0 - 1.0).abs() < 0.1;
    let is_as_known = |open: &Value| is_felt(open) && are_sent(open);
    let open = undisturbed(|| stalled(&json, &["--clients", "4", "--rate", "1000"]), is_as_known);
    assert!(is_felt(&open), "{open}");
    assert!(are_sent(&open), "all were sent in the end: {open}");
}

#[test]
fn an_open_loop_is_not_valid_where_the_server_does_not_keep_up() {
    let dir = tempfile::tempdir().expect("a directory");
    let json = dir.path().join("report.json");
    let server = Server::start("mock:200", &[]);
    let run = || report(start(&server, &json, &["--clients", "1", "--rate", "10000000"], "1s"), &json);
    let report = undisturbed(run, |_| true);
    assert_eq!(report["valid"], false);
    assert!(number(&report, "/behind") > 1e6, "{report}");
    assert!(report["invalid_because"].to_string().contains("does not keep up"), "{report}");
}

#[test]
fn an_open_loop_whose_server_stands_still_at_the_end_is_not_valid() {
    let dir = tempfile::tempdir().expect("a directory");
    let json = dir.path().join("report.json");
    // Some 700 of 1000 requests are due while it stands still, each to a client that is free. What is measured ends in
    // the middle of that, and all are answered afterwards.
    let run = || {
        let server = Server::start("mock:200", &[]);
        let length = ["--warmup", "200ms", "--duration", "2s", "--cooldown", "4s"];
        let bench = start_with(&server, &json, &["--clients", "1000", "--rate", "500"], &length);
        sleep(Duration::from_millis(1400));
        server.signal("STOP");
        sleep(Duration::from_millis(1900));
        server.signal("CONT");
        report(bench, &json)
    };
    let is_hidden = |report: &Value| number(report, "/response/max_us") < 300e3;
    let is_said =
        |report: &Value| report["invalid_because"].to_string().contains("were not answered at the end");
    let report = undisturbed(run, |report| is_hidden(report) && is_said(report));
    assert!(is_hidden(&report) && number(&report, "/unanswered") == 0.0, "no figure shows it: {report}");
    assert!(is_said(&report) && report["valid"] == false, "{report}");
    assert!(number(&report, "/waiting") > 200.0 && number(&report, "/behind") == 0.0, "{report}");
}

#[test]
fn of_a_run_that_is_ended_in_the_warm_up_it_is_told_that_it_was() {
    let server = Server::start("mock:200", &[]);
    let dir = tempfile::tempdir().expect("a directory");
    let json = dir.path().join("report.json");
    let mut bench = start_with(&server, &json, &["--rate", "200"], &["--warmup", "60s"]);
    // Queues are made before the first request is due.
    let mut client = Client::login(server.addr(), "onlooker").expect("it runs");
    wait_for("requests are on their way", || {
        let info = client.ask(&["INFO"]).expect("it runs");
        let info = info.text().expect("a text").to_owned();
        let so_far = info.lines().find_map(|line| line.strip_prefix("requests_so_far:")?.trim().parse().ok());
        if so_far.unwrap_or(0) > 200 { Ok(()) } else { Err(info) }
    });
    server.signal("STOP");
    sleep(Duration::from_millis(200));
    kill_process(Pid::from_child(&bench), Signal::INT).expect("it runs");
    bench.wait().expect("it ends");
    server.signal("CONT");
    let report: Value = serde_json::from_slice(&fs::read(&json).expect("a report")).expect("JSON");
    let reasons = report["invalid_because"].to_string();
    assert!(reasons.contains("the run was interrupted") && !reasons.contains("requests due"), "{reasons}");
}

#[test]
fn a_closed_loop_obeys_the_interactive_law() {
    let dir = tempfile::tempdir().expect("a directory");
    let json = dir.path().join("report.json");
    let server = Server::start("mock:200", &[]);
    for pace in [&["--clients", "16"][..], &["--clients", "16", "--think", "exponential:5ms"]] {
        let run = || Some(report(start(&server, &json, pace, "2s"), &json)?["interactive_law"].clone());
        let holds = |law: &Value| number(law, "/difference").abs() < 0.05;
        let law = undisturbed(run, holds);
        assert!(holds(&law), "{pace:?}: {law}");
    }
}

#[test]
fn the_highest_rate_is_found_between_one_that_passes_and_one_that_fails() {
    let dir = tempfile::tempdir().expect("a directory");
    let json = dir.path().join("report.json");
    let server = Server::start("mock:200", &[]);
    let mut records = dir.path().join("records");
    let search = [
        "--clients",
        "4",
        "--think",
        "0ms",
        "--rate",
        "200",
        "--find-max-rate",
        "p50<200ms",
        "--window",
        "100ms",
    ];
    // Again where the machine stood still so often that no rate was kept.
    let report = (0..10).find_map(|attempt| {
        records = dir.path().join(format!("records-{attempt}"));
        let record = ["--record", records.to_str().expect("a path")];
        let pace = [&search[..], &record].concat();
        report(start(&server, &json, &pace, "300ms"), &json)
    });
    let report = report.expect("no rate was kept");
    let trials = report["search"].as_array().expect("trials");
    // Where a run was made again, the second one decides.
    let again = |one: &Value, next: &Value| one["rate_per_s"] == next["rate_per_s"];
    let decided: Vec<&Value> = trials.chunk_by(again).filter_map(<[Value]>::last).collect();
    let rates = |kept: bool| {
        let of = decided.iter().filter(move |trial| trial["kept"] == kept);
        of.map(|trial| number(trial, "/rate_per_s")).collect::<Vec<_>>()
    };
    let (best, least) =
        (rates(true).into_iter().fold(0.0, f64::max), rates(false).into_iter().fold(f64::MAX, f64::min));
    assert!(best > 0.0 && least < f64::MAX, "{trials:?}");
    assert!(best < least && least <= best * 1.04, "{best} {least}");
    assert!((number(&report, "/options/rate") - best).abs() < 1e-6, "the report is of the best: {report}");
    for trial in trials {
        let dir = Path::new(trial["record"].as_str().expect("a record for each trial"));
        let run: Value =
            serde_json::from_slice(&fs::read(dir.join("run.json")).expect("a file")).expect("JSON");
        assert_eq!(run["options"]["rate"], trial["rate_per_s"]);
        assert!(
            dir.starts_with(&records) && run["end_s"].is_f64() && dir.join("summary.json").exists(),
            "{run}"
        );
    }
}
