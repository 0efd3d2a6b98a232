//! `posthaste bench store` on PostgreSQL, and what it measures against: a database with fixed answers.

mod support;

#[path = "support/client.rs"]
mod client;

#[path = "support/postgres.rs"]
mod postgres;

use std::fs;
use std::process::{Command, Output};

use client::{Answer, Client};
use serde_json::Value as Json;
use support::Server;

fn run(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_posthaste")).args(words).output().expect("the program runs")
}

fn bench(url: &str, words: &[&str]) -> Output {
    bench_for("300ms", url, words)
}

fn bench_for(duration: &str, url: &str, words: &[&str]) -> Output {
    let common = ["bench", "store", "--store", url, "--duration", duration, "--repetitions", "1"];
    run(&[&common, words].concat())
}

/// Whether a row was measured, and its figures fit together: as many calls at once as connections.
fn fits_together(row: &Json) -> bool {
    let figure = |name: &str| row[name].as_f64().expect("a number");
    let at_once = figure("operations_per_s") / figure("batch") * figure("call_mean_ms") / 1e3;
    let connections = figure("connections");
    let is_measured =
        ["operations_per_s", "call_mean_ms", "call_p99_ms"].iter().all(|name| figure(name) > 0.0);
    is_measured && at_once > connections * 0.5 && at_once < connections * 1.5
}

/// Kinds of requests of a workload.
fn expected_kinds(workload: &str) -> &[&str] {
    match workload {
        "send" => &["send"],
        "pairs" => &["pop", "send"],
        _ => &["create", "delete", "peek", "pop", "readable", "send"],
    }
}

/// Whether these kinds of requests, and no others, have figures.
fn has_kinds(expected: &[&str], row: &Json) -> bool {
    row["kinds"].as_object().expect("kinds").keys().eq(expected)
}

/// Checks that the figures of kinds are together those of all.
fn kinds_add_up(row: &Json) {
    let kinds = row["kinds"].as_object().expect("kinds");
    let sum = |name: &str| kinds.values().map(|kind| kind[name].as_f64().expect("a number")).sum::<f64>();
    let rate = row["operations_per_s"].as_f64().expect("a number");
    assert!((sum("operations_per_s") / rate - 1.0).abs() < 1e-6, "{row}");
    if row["batch"] == 1 {
        // Each call has one request, so the mean of all calls lies between those of the kinds.
        let means = kinds.values().map(|kind| kind["mean_ms"].as_f64().expect("a number"));
        let (least, most) =
            means.fold((f64::MAX, 0.0_f64), |(least, most), mean| (least.min(mean), most.max(mean)));
        let mean = row["call_mean_ms"].as_f64().expect("a number");
        assert!(least * 0.999_999 <= mean && mean <= most * 1.000_001, "{row}");
    }
}

/// The one line of an error, and the exit code.
fn refusal(output: &Output) -> (String, Option<i32>) {
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(error.lines().count(), 1, "{error}");
    (error.trim_end().to_owned(), output.status.code())
}

#[test]
fn every_workload_is_measured_at_every_number_of_connections() {
    let postgres = postgres::shared();
    let dir = tempfile::tempdir().expect("a temporary directory");
    for (number, (workload, more)) in [
        ("send", &["--batch", "1", "--batch", "30"][..]),
        ("pairs", &["--batch", "1", "--batch", "30"]),
        ("twelve-step", &["--batch", "1", "--batch", "30"]),
        ("twelve-step", &["--batch", "1", "--pop-strategy", "delete-retry"]),
    ]
    .into_iter()
    .enumerate()
    {
        let json = dir.path().join(number.to_string());
        let words = ["--workload", workload, "--connections", "1", "--connections", "3", "--preload", "300"];
        let json_words = ["--json", &json.display().to_string()];
        let words = [&words, more, &json_words].concat();
        let batches = more.iter().filter(|word| **word == "--batch").count();
        let measured = |duration: &str| {
            let database = postgres.create_database();
            let output = bench_for(duration, &postgres.url(&database), &words);
            if !output.status.success() {
                return Err(String::from_utf8_lossy(&output.stderr).into_owned());
            }
            let report: Json = serde_json::from_slice(&fs::read(&json).expect("a file")).expect("JSON");
            let rows = report["rows"].as_array().expect("rows").clone();
            assert_eq!(rows.len(), 2 * batches, "{report}");
            let is_whole = |row: &Json| has_kinds(expected_kinds(workload), row) && fits_together(row);
            if !rows.iter().all(is_whole) {
                return Err(report.to_string());
            }
            rows.iter().for_each(kinds_add_up);
            Ok(database)
        };
        // On a slow machine few calls fit into a short time, and those at its ends count for much.
        let database = measured("300ms").or_else(|_| measured("2s")).or_else(|_| measured("10s"));
        let database = database.unwrap_or_else(|why| panic!("{workload}: {why}"));
        // What one measurement leaves would be listed by each QREADABLE of the next.
        let queues = postgres.psql(&database, "SELECT string_agg(name, ' ') FROM posthaste.queue");
        assert_eq!(queues, "1", "{workload}");
        let left = postgres.psql(&database, "SELECT count(*) FROM posthaste.message WHERE queue_id > 0");
        let left: u64 = left.parse().expect("a count");
        match workload {
            "send" => assert!(left > 300, "{left}"),
            // What clients had sent and not yet taken when the time was over.
            _ => assert!((250..=300 + 3 * 62 * 2).contains(&left), "{workload}: {left}"),
        }
    }
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let postgres = postgres::shared();
    let database = postgres.create_database();
    let url = postgres.url(&database);
    postgres.psql(&database, "INSERT INTO posthaste.queue (id, name) VALUES (1, 'q')");
    let (line, code) = refusal(&bench(&url, &[]));
    assert!(line.contains("name a new database") && code == Some(1), "{line}");
    for (words, names) in [
        (&["--connections", "4"][..], "--connections"),
        (&["--workload", "twelve-step"], "twelve-step"),
        (&["--pop-strategy", "for-update", "--batch", "1"], "postgres://"),
    ] {
        let (line, code) = refusal(&bench("memory:", words));
        assert!(line.contains(names) && code == Some(2), "{line}");
    }
    let (line, code) = refusal(&bench(&url, &["--pop-strategy", "for-update"]));
    assert!(line.contains("--batch 1") && code == Some(2), "{line}");
}

#[test]
fn a_database_with_fixed_answers_answers_everything() {
    let postgres = postgres::shared();
    let database = postgres.create_empty_database();
    let url = postgres.url(&database);
    let migrated = run(&["migrate", "--store", &url, "--mock", "700"]);
    assert!(migrated.status.success(), "{}", String::from_utf8_lossy(&migrated.stderr));
    for more in [&[][..], &["--batch", "1", "--pop-strategy", "repeatable-read"]] {
        let server = Server::start(&url, more);
        let mut client = Client::login(server.addr(), "c").expect("it runs");
        let mut ask = |words: &[&str]| client.ask(words).expect("it runs");
        let body = "x".repeat(700);
        for read in [&["POP", "QUEUE", "q"][..], &["PEEK", "FROM", "c"], &["POP", "QUEUE", "q", "NOTOWN"]] {
            assert_eq!(ask(read).body(), Some(body.as_str()), "{read:?}");
        }
        let lists: [&[&str]; 3] = [&["QLIST"], &["QBROWSE", "q"], &["ACCOUNTS"]];
        for list in lists {
            assert_eq!(ask(list).list().len(), 1, "{list:?}");
        }
        assert_eq!(ask(&["QREADABLE"]), Answer::List(vec![Answer::Text(b"1".to_vec())]));
        assert!(ask(&["QINFO", "q"]).get("name").is_some());
        let numbers: [&[&str]; 8] = [
            &["SEND", "q", "m"],
            &["SEND", "q", "m", "TO", "d"],
            &["QCREATE"],
            &["QCREATE", "q"],
            &["QDELETE", "q"],
            &["QPURGE", "q"],
            &["ACK", "1"],
            &["NACK", "1"],
        ];
        for number in numbers {
            assert_eq!(ask(number).integer(), Some(1), "{number:?}");
        }
        assert_eq!(ask(&["SENDMANY", "q", "m", "n"]).list().len(), 2);
        let accounts = ["d", "e"].map(|name| ask(&["LOGIN", name]).integer().expect("a number"));
        assert!((1..100).contains(&accounts[0]) && accounts[1] == accounts[0] + 1, "{accounts:?}");
    }
    for more in [&["--workload", "pairs", "--batch", "30"][..], &["--workload", "twelve-step"]] {
        let output = bench(&url, &[&["--connections", "2", "--preload", "10"], more].concat());
        assert!(output.status.success(), "{more:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let kept = "SELECT (SELECT count(*) FROM posthaste.message) + (SELECT count(*) FROM posthaste.queue)";
    assert_eq!(postgres.psql(&database, kept), "0");
}

#[test]
fn a_database_in_use_keeps_its_functions() {
    let postgres = postgres::shared();
    let database = postgres.create_database();
    postgres.psql(&database, "INSERT INTO posthaste.queue (id, name) VALUES (1, 'q')");
    let (line, code) = refusal(&run(&["migrate", "--store", &postgres.url(&database), "--mock", "200"]));
    assert!(line.contains("name a new database") && code == Some(1), "{line}");
    let mocks = "SELECT count(*) FROM pg_proc WHERE proname LIKE 'mock%'";
    assert_eq!(postgres.psql(&database, mocks), "0");
}
