//! The record of a run: every request with whose it was, its lengths, its stamps, and its reads from servers; what its
//! servers went through.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use parquet::file::reader::SerializedFileReader;
use parquet::record::Field;

use crate::client::{Client, router};
use crate::memcached::Memcached;
use crate::support::patience::wait_until;

/// One row of `requests.parquet`.
struct Row(BTreeMap<String, Field>);

impl Row {
    fn number(&self, column: &str) -> i64 {
        match &self.0[column] {
            Field::Long(number) => *number,
            Field::Int(number) => i64::from(*number),
            Field::Null => 0,
            other => panic!("{column} is {other:?}"),
        }
    }

    fn is(&self, kind: &str) -> bool {
        matches!(&self.0["kind"], Field::Str(name) if name == kind)
    }

    /// Its client, its length, that of its answer, and the reads it took.
    fn figures(&self) -> [i64; 4] {
        ["client", "request_bytes", "answer_bytes", "server_reads"].map(|column| self.number(column))
    }
}

fn requests(record: &Path) -> Vec<Row> {
    let file = File::open(record.join("requests.parquet")).expect("requests");
    let rows = SerializedFileReader::new(file).expect("Parquet").into_iter();
    let row = |row: parquet::record::Row| {
        Row(row.get_column_iter().map(|(name, field)| (name.clone(), field.clone())).collect())
    };
    rows.map(|read| row(read.expect("a row"))).collect()
}

/// Reads from servers of all windows together, from their means.
fn reads_by_the_windows(record: &Path) -> f64 {
    let windows = fs::read_to_string(record.join("windows.csv")).expect("windows");
    let mut rows = windows.lines().map(|row| row.split(',').collect::<Vec<_>>());
    let head = rows.next().expect("a head");
    let place = |name: &str| head.iter().position(|column| *column == name).expect("a column");
    let (kind, requests, reads) = (place("kind"), place("requests"), place("server_reads_mean"));
    let number = |cell: &str| cell.parse::<f64>().unwrap_or(0.0);
    rows.filter(|row| row[kind] == "all").map(|row| number(row[requests]) * number(row[reads])).sum()
}

#[test]
fn every_request_is_recorded_with_its_client_its_lengths_and_its_reads_from_servers() {
    for mode in ["2", "pipelined"] {
        let servers = Memcached::several::<3>();
        let names: Vec<String> = servers.iter().map(Memcached::name).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let dir = tempfile::tempdir().expect("a temporary directory");
        let record = dir.path().join("run");
        let path = record.to_str().expect("a path");
        let server = router(
            &names,
            &["--workers", mode, "--multiget", "split", "--record", path, "--record-requests"],
        );
        let (mut one, mut two) = (Client::to(server.addr()), Client::to(server.addr()));
        one.ask("set a 0 0 1\r\nx\r\n");
        one.ask("get a\r\n");
        one.ask("get a b c\r\n");
        two.ask(&format!("set large 0 0 500000\r\n{}\r\n", "x".repeat(500_000)));
        two.ask("get large\r\n");
        assert!(server.stop().success());

        let rows = requests(&record);
        // The shortest request first: rows are in no particular order.
        let of = |kind: &str| {
            let mut of: Vec<_> = rows.iter().filter(|row| row.is(kind)).map(Row::figures).collect();
            of.sort_unstable_by_key(|figures| figures[1]);
            of
        };
        let (sets, gets, multigets) = (of("set"), of("get"), of("multiget"));
        let [small, large] = sets[..] else { panic!("{mode}: {sets:?}") };
        let (first, second) = (small[0], large[0]);
        assert_ne!(first, second, "{mode}: clients have numbers");
        assert_eq!(small, [first, 16, 8, 3], "{mode}: one answer of each server");
        assert_eq!((large[1], large[2]), (500_024, 8), "{mode}");
        let [hit, long] = gets[..] else { panic!("{mode}: {gets:?}") };
        assert_eq!(hit, [first, 7, "VALUE a 0 1\r\nx\r\nEND\r\n".len() as i64, 1], "{mode}");
        assert_eq!(long[..3], [second, 11, "VALUE large 0 500000\r\n\r\nEND\r\n".len() as i64 + 500_000]);
        assert!(long[3] > 7, "{mode}: half a megabyte in {} reads of at most 64 KiB", long[3]);
        assert_eq!(multigets, [[first, 11, hit[2], 3]], "{mode}: a share from each server");
        for row in rows.iter().filter(|row| !row.is("other")) {
            let stamps =
                ["received_ns", "sent_ns", "answered_ns", "replied_ns"].map(|stamp| row.number(stamp));
            assert!(stamps.is_sorted() && stamps[0] > 0, "{mode}: {stamps:?}");
        }
        let reads: i64 = rows.iter().map(|row| row.number("server_reads")).sum();
        let by_windows = reads_by_the_windows(&record);
        assert!((reads as f64 - by_windows).abs() < 0.1, "{mode}: {reads} in rows, {by_windows} in windows");
    }
}

/// Loads a server for a second; what it printed, and the record it left. Nothing if the machine stood still so long that
/// too little was measured.
fn bench(server: &str, record: &Path) -> Option<(String, serde_json::Value)> {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    bench.args([
        "bench",
        "cache",
        "--connect",
        server,
        "--clients",
        "4",
        "--duration",
        "1s",
        "--warmup",
        "200ms",
    ]);
    let ran = bench.arg("--record").arg(record).output().expect("the program runs");
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    println!("{said}{}", String::from_utf8_lossy(&ran.stderr));
    let run = || fs::read(record.join("run.json")).expect("a record");
    ran.status.success().then(|| (said, serde_json::from_slice(&run()).expect("JSON")))
}

#[test]
fn clients_and_router_count_the_same_throughput_and_a_memcached_is_not_asked() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let memcached = Memcached::start(&[]);
    let server = router(&[&memcached.name()], &["--workers", "pipelined"]);
    // Both ask their clocks for the time: where the machine stands still between them they count differently, or the
    // router is asked too late to compare.
    let agreed = (0..10).any(|run| {
        let measured = bench(&server.addr().to_string(), &home.path().join(format!("router{run}")));
        let Some((said, record)) = measured else { return false };
        let Some(line) = said.lines().find(|line| line.starts_with("middleware: counted ")) else {
            return false;
        };
        let relation = &record["clock_relations"][0];
        let (offset, error) = (&relation["offset_us"], &relation["error_us"]);
        let offset = offset.as_f64().expect("an offset");
        assert!(
            offset.abs() <= error.as_f64().expect("an error") + 1e3,
            "one machine, two clocks: {relation}"
        );
        let difference =
            line.split(['(', ' ']).find_map(|word| word.strip_prefix(['+', '-'])?.parse::<f64>().ok());
        difference.expect("a difference") < 5.0
    });
    assert!(agreed, "ten times they did not count the same");
    let mut measured =
        (0..10).filter_map(|run| bench(&memcached.name(), &home.path().join(format!("memcached{run}"))));
    let (said, record) = measured.next().expect("one of ten runs");
    assert!(!said.contains("middleware:") && record["clock_relations"].is_null(), "{said}");
}

/// What a record tells of a server so far: kinds, and how long each took in milliseconds.
fn told_of(record: &Path, server: &str) -> Vec<(String, f64)> {
    let text = fs::read_to_string(record.join("events.csv")).expect("events");
    let rows = text.lines().map(|row| row.split(',').collect::<Vec<_>>());
    let of_it = rows.filter(|row| row[2] == server);
    of_it.map(|row| (row[3].to_owned(), row[1].parse().expect("a duration"))).collect()
}

#[test]
fn what_a_server_goes_through_is_told_once_however_many_connections_it_has() {
    for mode in [&["--threads", "4"][..], &["--workers", "4", "--eject", "on"], &["--workers", "4"]] {
        let mut servers = Memcached::several::<3>();
        let names: Vec<String> = servers.iter().map(Memcached::name).collect();
        let home = tempfile::tempdir().expect("a temporary directory");
        let record = home.path().join("run");
        let path = record.to_str().expect("a path");
        servers[2].kill();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let server = router(&names, &[mode, &["--record", path, "--window", "20ms"]].concat());
        let mut clients: Vec<Client> = (0..16).map(|_| Client::to(server.addr())).collect();
        let mut all_ask = || clients.iter_mut().for_each(|client| drop(client.ask("set k 0 0 1\r\nx\r\n")));
        wait_until("it is known who is there", || told_of(&record, names[2]).len() == 1);

        all_ask();
        servers[0].kill();
        all_ask();
        wait_until("it is lost", || !told_of(&record, names[0]).is_empty());
        servers[0].restart();
        let mut watcher = Client::to(server.addr());
        watcher.wait_for_live(2);
        all_ask();
        for state in ["down", "up"] {
            let mut admin = Command::new(env!("CARGO_BIN_EXE_posthaste"));
            admin.args(["admin", "server", names[1], state, "--http", &server.http().to_string()]);
            assert!(admin.output().expect("it can be run").status.success());
        }
        watcher.wait_for_live(2);
        assert!(server.stop().success());

        let kinds = |server| told_of(&record, server).into_iter().map(|(kind, _)| kind).collect::<Vec<_>>();
        assert_eq!(kinds(names[0]), ["lost", "away"], "{mode:?}");
        assert_eq!(kinds(names[1]), ["set down", "set up", "away"], "{mode:?}");
        assert_eq!(kinds(names[2]), ["not there"], "{mode:?}");
        let took = [&told_of(&record, names[0])[1], &told_of(&record, names[1])[2]].map(|(_, took)| *took);
        assert!(took.iter().all(|ms| *ms > 0.0), "{mode:?}: {took:?}");
    }
}
