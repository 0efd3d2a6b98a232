//! The records that a tier and a load generator leave of the same run, read back and laid side by side.

mod support;

#[path = "support/client.rs"]
mod client;

#[path = "support/postgres.rs"]
mod postgres;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Command, Output};

use client::{Answer, Client};
use parquet::file::reader::SerializedFileReader;
use parquet::record::Field;
use serde_json::Value;
use support::Server;
use support::patience::wait_for;

const TIER: &[&str] = &["received", "enqueued", "dequeued", "sent", "answered", "replied"];
const CLIENT: &[&str] = &["due", "begun", "encoded", "arrived", "parsed"];

/// Runs a load for so long, with these further arguments.
fn bench(server: &Server, seconds: u32, arguments: &[&str]) -> Output {
    let connect = server.addr().to_string();
    let mut bench = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    bench.args(["bench", "queue", "--connect", &connect, "--duration", &format!("{seconds}s")]);
    bench.args(["--warmup", "200ms", "--cooldown", "100ms"]).args(arguments);
    if arguments.contains(&"--record") {
        bench.args(["--window", "250ms"]);
    }
    bench.output().expect("the program runs")
}

/// How many requests a run must be of, and for how long it is given the time at most.
const REQUESTS: u64 = 100;
const SECONDS: u32 = 64;

/// Records a run on both sides. On a machine that is busy with other things it must be longer to be of enough requests.
fn recorded(store: &str, load: &[&str]) -> tempfile::TempDir {
    let mut seconds = 1;
    loop {
        let dir = tempfile::tempdir().expect("a directory");
        let store = store.replace("DIR", &dir.path().join("data").to_string_lossy());
        let at = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
        let server =
            Server::start(&store, &["--record", &at("tier"), "--record-requests", "--window", "250ms"]);
        let ran =
            bench(&server, seconds, &[&["--record", &at("clients"), "--record-requests"], load].concat());
        assert!(server.stop().success());
        if ran.status.success() && measured(dir.path()) > REQUESTS {
            return dir;
        }
        assert!(seconds < SECONDS, "{}", String::from_utf8_lossy(&ran.stderr));
        seconds *= 2;
    }
}

/// How many requests were measured in a recorded run.
fn measured(dir: &Path) -> u64 {
    let summary = json(&dir.join("clients/summary.json"));
    summary["ok"].as_u64().unwrap_or(0) + summary["nulls"].as_u64().unwrap_or(0)
}

type Row = BTreeMap<String, String>;

fn windows(record: &Path) -> Vec<Row> {
    let text = fs::read_to_string(record.join("windows.csv")).expect("windows");
    let mut lines = text.lines().map(|line| line.split(','));
    let head: Vec<String> = lines.next().expect("a head").map(str::to_owned).collect();
    lines.map(|cells| head.iter().cloned().zip(cells.map(str::to_owned)).collect()).collect()
}

fn number(row: &Row, column: &str) -> f64 {
    row[column].parse().unwrap_or(0.0)
}

/// The rows of `requests.parquet`: kind and stamps, 0 where one was not taken.
fn requests(record: &Path, stamps: &[&str]) -> Vec<(String, Vec<i64>)> {
    let file = File::open(record.join("requests.parquet")).expect("requests");
    let rows = SerializedFileReader::new(file).expect("Parquet").into_iter();
    rows.map(|row| {
        let row = row.expect("a row");
        let fields: BTreeMap<&str, &Field> =
            row.get_column_iter().map(|(name, field)| (name.as_str(), field)).collect();
        let stamp = |name: &&str| match fields[format!("{name}_ns").as_str()] {
            Field::Long(ns) => *ns,
            _ => 0,
        };
        let Field::Str(kind) = fields["kind"] else { panic!("{row}") };
        (kind.clone(), stamps.iter().map(stamp).collect())
    })
    .collect()
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("a file")).expect("JSON")
}

/// In every window and kind the means of the stages add up to the mean response, and what every request's row says
/// adds up to what the windows say.
fn stages_add_up(record: &Path, stamps: &[&str]) {
    let windows = windows(record);
    let mut responses_ns = 0.0;
    for row in &windows {
        let means: Vec<&String> = row.keys().filter(|column| is_stage_mean(column)).collect();
        assert_eq!(means.len(), stamps.len() - 1, "{means:?}");
        let sum: f64 = means.iter().map(|column| number(row, column)).sum();
        // Each of the figures is rounded to a thousandth of a microsecond.
        let rounding = 0.0005 * (stamps.len() + 1) as f64;
        assert!((sum - number(row, "response_mean_us")).abs() <= rounding, "{sum} in {row:?}");
        if row["kind"] == "all" {
            responses_ns += number(row, "response_mean_us") * 1000.0 * number(row, "requests");
        }
    }
    let rows = requests(record, stamps);
    assert!(rows.len() as u64 > REQUESTS, "{}", rows.len());
    let mut total = 0;
    for (kind, taken) in &rows {
        let passed: Vec<i64> = taken.iter().copied().filter(|ns| *ns > 0).collect();
        assert!(passed.is_sorted(), "{kind}: {taken:?}");
        total += taken[taken.len() - 1] - taken[0];
    }
    let counted: f64 =
        windows.iter().filter(|row| row["kind"] == "all").map(|row| number(row, "requests")).sum();
    assert!((counted - rows.len() as f64).abs() < 0.5, "{counted} in windows, {} rows", rows.len());
    // Half a nanosecond of rounding in the mean, for each request.
    assert!(
        (responses_ns - total as f64).abs() <= 0.5 * rows.len() as f64 + 1.0,
        "{responses_ns} and {total}"
    );
}

/// Means over all requests, whether or not they passed the stage.
fn is_stage_mean(column: &str) -> bool {
    column.ends_with("_all_mean_us")
        || ["parse_mean_us", "dispatch_mean_us", "reply_mean_us", "schedule_mean_us"].contains(&column)
}

#[test]
fn stages_add_up_to_the_whole_on_both_sides() {
    let dir = recorded("embedded:DIR", &["--clients", "8"]);
    stages_add_up(&dir.path().join("tier"), TIER);
    stages_add_up(&dir.path().join("clients"), CLIENT);
}

/// Those that were answered on the spot would hide how long the others wait.
#[test]
fn only_requests_that_were_in_the_line_count_as_waiting() {
    let dir = tempfile::tempdir().expect("a directory");
    let record = dir.path().join("tier");
    let server = Server::start("memory:", &["--record", &record.to_string_lossy()]);
    let mut client = Client::connect(server.addr()).expect("it runs");
    for request in ["QCREATE q", "SEND q x", "PEEK QUEUE q", "PEEK QUEUE q"] {
        client.ask(&request.split(' ').collect::<Vec<_>>()).expect("it runs");
    }
    assert!(server.stop().success());
    let windows = windows(&record);
    let count = |kind: &str, column: &str| -> f64 {
        windows.iter().filter(|row| row["kind"] == kind).map(|row| number(row, column)).sum()
    };
    let counts = ["send", "peek", "all"].map(|kind| (count(kind, "requests"), count(kind, "waiting_count")));
    assert_eq!(counts, [(1.0, 1.0), (2.0, 0.0), (4.0, 2.0)]);
}

#[test]
fn stages_add_up_in_an_open_loop_and_with_pipelines_and_think_times() {
    let pairs = ["--workload", "pairs", "--clients", "8"];
    for pace in [&["--rate", "3000"][..], &["--pipeline", "8"], &["--think", "exponential:2ms"]] {
        let dir = recorded("memory:", &[&pairs[..], pace].concat());
        stages_add_up(&dir.path().join("tier"), TIER);
        stages_add_up(&dir.path().join("clients"), CLIENT);
    }
}

#[test]
fn both_sides_recorded_the_same_requests() {
    let dir = recorded("memory:", &["--clients", "4", "--threads", "2"]);
    let count = |record: &str, stamps: &[&str]| {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for (kind, _) in requests(&dir.path().join(record), stamps) {
            *counts.entry(kind).or_default() += 1;
        }
        counts
    };
    let (tier, clients) = (count("tier", TIER), count("clients", CLIENT));
    for kind in ["send", "peek", "pop", "readable", "delete"] {
        assert_eq!(tier[kind], clients[kind], "{kind}");
    }
    let measured = measured(dir.path());
    assert!(measured > 0 && measured <= clients.values().sum(), "the record holds warm-up and cool-down too");
}

#[test]
fn a_client_sees_no_answer_sooner_than_the_tier_gave_it_once_the_clocks_are_related() {
    let dir = recorded("memory:", &["--clients", "1"]);
    let (tier, clients) =
        (json(&dir.path().join("tier/run.json")), json(&dir.path().join("clients/run.json")));
    let relations = clients["clock_relations"].as_array().expect("relations");
    assert_eq!(relations.len(), 2, "before and after");
    for relation in relations {
        let figure = |name: &str| relation[name].as_f64().expect("a figure");
        // One machine, one clock; TIME tells microseconds.
        assert!(figure("offset_us").abs() <= figure("error_us") + 1.0, "{relation}");
        assert!(figure("error_us") > 0.0);
    }
    assert_eq!(tier["machine"]["boot_id"], clients["machine"]["boot_id"]);
    let start = |run: &Value| run["start_monotonic_ns"].as_i64().expect("a start");
    let ahead = start(&clients) - start(&tier);
    let pops = |record: &str, stamps: &[&str]| {
        let of = requests(&dir.path().join(record), stamps).into_iter().filter(|(kind, _)| kind == "pop");
        of.map(|(_, taken)| taken).collect::<Vec<_>>()
    };
    for (tier, client) in pops("tier", TIER).iter().zip(pops("clients", CLIENT)) {
        let (encoded, arrived) = (client[2] + ahead, client[3] + ahead);
        assert!(encoded <= tier[0], "received after it was sent");
        assert!(tier[4] <= arrived, "answered before it arrived");
    }
}

#[test]
fn clients_and_tier_count_the_same_throughput_and_say_so() {
    let server = Server::start("mock:200", &[]);
    // Both ask their clocks for the time: where the machine stands still between them they count differently, or the
    // server is asked too late to compare.
    let agree = || {
        let ran = bench(&server, 1, &["--clients", "4"]);
        let said = String::from_utf8_lossy(&ran.stdout);
        println!("{said}{}", String::from_utf8_lossy(&ran.stderr));
        let line = said.lines().find(|line| line.starts_with("middleware: counted "));
        line.is_some_and(|line| {
            let mut words = line.split(['(', ' ']);
            let difference = words.find_map(|word| word.strip_prefix(['+', '-'])?.parse::<f64>().ok());
            difference.expect("a difference") < 5.0
        })
    };
    assert!((0..10).any(|_| agree()), "ten times they did not count the same");
}

#[test]
fn a_directory_that_holds_a_record_is_refused_before_the_load() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("run.json"), "{}").expect("a file");
    let server = Server::start("mock:200", &[]);
    let ran = bench(&server, 1, &["--record", &dir.path().to_string_lossy()]);
    assert_eq!(ran.status.code(), Some(1));
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(said.contains("already holds a recorded run") && said.lines().count() == 1, "{said}");
}

#[test]
fn a_directory_whose_name_is_no_text_holds_a_record_too() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(OsStr::from_bytes(&[name.as_bytes(), b"-\xff"].concat()));
    let written = |record: &Path| {
        let run = json(&record.join("run.json"));
        let words = run["command"].as_array().expect("words").iter().filter_map(Value::as_str);
        assert!(words.into_iter().any(|word| word.contains("-\u{fffd}")), "{run}");
        run["options"]["record"].as_str().expect("a path").to_owned()
    };
    let tiers = [
        ("queue", &["queue", "--http", "off", "--store", "mock:200"][..]),
        ("cache", &["cache", "--http", "off", "--mock", "200"]),
    ];
    for (tier, command) in tiers {
        let (own, clients, summary) = (at(tier), at("clients").join(tier), at("summary"));
        let server = Server::start_recorded(command, &own);
        let mut bench = Command::new(env!("CARGO_BIN_EXE_posthaste"));
        bench.args(["bench", tier, "--connect", &server.addr().to_string(), "--requests", "10"]);
        let ran = bench.arg("--record").arg(&clients).arg("--json").arg(&summary).output().expect("it runs");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        assert!(server.stop().success());
        assert_eq!([written(&own), written(&clients)], [&own, &clients].map(|path| path.to_string_lossy()));
        assert_eq!(json(&summary)["options"]["json"], *summary.to_string_lossy());
    }
}

/// What the database says of itself is a part of what the middleware waits for.
#[test]
fn a_database_tells_what_its_statements_took() {
    let postgres = postgres::shared();
    let store = postgres.url(&postgres.create_database());
    let dir = recorded(&store, &["--workload", "pairs", "--clients", "4"]);
    let windows: Vec<Row> =
        windows(&dir.path().join("tier")).into_iter().filter(|row| row["kind"] == "send").collect();
    assert!(windows.iter().any(|row| number(row, "requests") > 0.0), "nothing was sent");
    for row in windows.iter().filter(|row| number(row, "statement_count") > 0.0) {
        let statement = number(row, "statement_mean_us");
        assert!(statement > 0.0 && statement < number(row, "service_mean_us"), "{row:?}");
    }
    assert!(windows.iter().any(|row| number(row, "statement_count") > 0.0), "it was never told");
}

/// Each kind of request, in the forms that have functions of their own, with an answer, with none, and refused.
const FORMS: &[&str] = &[
    "QCREATE",
    "QCREATE q",
    "QCREATE small MAXMSGS 1",
    "SEND q one",
    "SEND q two",
    "SEND q three TO ann",
    "SEND q four PRIORITY 1",
    "SEND small one",
    "SEND small two",
    "SEND none x",
    "PEEK QUEUE q",
    "PEEK QUEUE none",
    "POP QUEUE q",
    "POP QUEUE q LEASE 60000",
    "POP FROM ann",
    "QREADABLE",
    "POP QUEUE q",
    "POP QUEUE q",
    "POP FROM ben",
    "POP QUEUE none",
    "PEEK QUEUE q",
    "QINFO q",
    "QDELETE q",
    "QDELETE none",
];

/// Ways to ask a database: in batches, by functions for one request, and by each way of popping.
const WAYS: &[&[&str]] = &[
    &[],
    &["--batch", "1"],
    &["--batch", "1", "--pop-strategy", "skip-locked"],
    &["--batch", "1", "--pop-strategy", "delete-retry", "--pop-backoff", "exponential"],
    &["--batch", "1", "--pop-strategy", "for-update"],
    &["--batch", "1", "--pop-strategy", "repeatable-read"],
    &["--batch", "1", "--pop-strategy", "mark-update"],
];

/// Whether INFO has seen statements of QREADABLE in its last window.
fn tells_of_statements(info: &Answer) -> bool {
    let lines = info.text().unwrap_or_default().lines();
    let figures =
        lines.filter_map(|line| line.strip_prefix("kind_readable:")).flat_map(|line| line.split(','));
    let median = figures.filter_map(|figure| figure.strip_prefix("statement_p50_us="));
    median.filter_map(|us| us.parse::<f64>().ok()).any(|us| us > 0.0)
}

#[test]
fn every_function_that_a_middleware_calls_tells_what_it_took() {
    let postgres = postgres::shared();
    for way in WAYS {
        let dir = tempfile::tempdir().expect("a directory");
        let record = dir.path().join("tier").to_string_lossy().into_owned();
        let store = postgres.url(&postgres.create_database());
        let recording = ["--record", &record, "--record-requests", "--window", "250ms"];
        let server = Server::start(&store, &[way, &recording[..]].concat());
        let mut client = Client::login(server.addr(), "ann").expect("it runs");
        let mut ask = |form: &str| client.ask(&form.split(' ').collect::<Vec<_>>()).expect("it runs");
        let answers: Vec<String> = FORMS.iter().map(|form| format!("{form}: {:?}", ask(form))).collect();
        wait_for(format!("{way:?}: INFO tells of statements"), || {
            ask("QREADABLE");
            let info = ask("INFO");
            if tells_of_statements(&info) { Ok(()) } else { Err(format!("{info:?}")) }
        });
        assert!(server.stop().success());
        let told =
            requests(Path::new(&record), &["statement"]).into_iter().filter(|(kind, _)| kind != "login");
        let told: Vec<(String, Vec<i64>)> = told.collect();
        assert!(told.len() > FORMS.len(), "{way:?}: {told:?}");
        for (answer, (kind, statement)) in answers.iter().zip(told) {
            assert!(statement[0] > 0, "{way:?}: nothing told of {kind}, {answer}");
        }
    }
}
