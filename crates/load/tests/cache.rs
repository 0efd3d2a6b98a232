//! Whole runs against the distribution's memcached, and against a cache that breaks its promises.

mod memcached;

use std::io::Read as _;
use std::net::TcpListener;
use std::thread;

use clap::Parser;
use memcached::{Memcached, Mutant, serve};
use posthaste_load::{CacheBench, LoadError, run};

type Report = posthaste_load::Report<CacheBench>;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    bench: CacheBench,
}

fn bench(words: &str) -> CacheBench {
    let line = std::iter::once("bench").chain(words.split_whitespace());
    Line::parse_from(line).bench.translated().expect(words)
}

/// A checked run of a fraction of a second. Counted, not timed: what it finds is there however slow the machine is.
fn checked(address: &str, words: &str) -> Report {
    let requests = if words.contains("-n ") || words.contains("--requests") { "" } else { "--requests 300" };
    run(bench(&format!("--connect {address} {requests} --check {words}"))).expect("a report")
}

#[test]
fn every_workload_passes_on_memcached() {
    let server = Memcached::start(256);
    for words in [
        "--clients 4 --preload",
        "--clients 5 --threads 2 --ratio 1:10",
        "--clients 4 --pipeline 16 --ratio 1:3 --multiget 1:50,7:50",
        "--clients 4 --ratio 0:1 --multiget 100 --key-distribution zipf:0.99 --requests 50",
        "--clients 4 --value-bytes 1-60 --key-prefix short- --preload",
        "--clients 4 --value-bytes 64:80,1024:15,65536:5 --key-prefix sizes- --keys 500 --preload",
        "--clients 2 --value-bytes 1000000 --key-prefix large- --keys 20 --pipeline 4 --preload --requests 50",
        "--clients 4 --ratio 0:1 --key-distribution sequential --key-prefix none-",
        "--clients 4 --rate 2000 --arrivals poisson",
        "--clients 4 --think 1ms --key-minimum 100 --keys 5",
    ] {
        let report = checked(&server.address(), words);
        println!("{report}");
        assert!(report.verdict().is_ok(), "{words}: {report}");
        assert_eq!(report.counts.errors, 0, "{words}: {report}");
        let details = &report.details;
        let values = report.check.as_ref().expect("--check").values;
        assert!(values >= details.hits, "{words}: {report}");
        let is_empty = words.contains("none-");
        assert_eq!(details.hits == 0, is_empty, "{words}: {report}");
        if words.contains("--preload") {
            assert_eq!(details.misses, 0, "{words}: {report}");
        }
    }
}

#[test]
fn so_many_requests_of_each_client_are_sent_and_measured() {
    let server = Memcached::start(64);
    let report = checked(&server.address(), "-c 3 -t 2 -n 100 --ratio 1:10 --multi-key-get 6 --preload");
    // A cycle has three requests: one set, a get of six keys, a get of four; clients begin at different places of it.
    assert_eq!(report.counts.served(), 600, "{report}");
    assert_eq!(report.kinds["set"].counts.ok, 200, "{report}");
    assert_eq!(report.kinds["multiget"].counts.ok, 400, "{report}");
    assert_eq!(report.details.hits, 2000, "{report}");
    assert!(report.duration_s > 0.0 && report.verdict().is_ok(), "{report}");
}

#[test]
fn what_a_cache_forgets_is_a_miss_and_no_violation() {
    let server = Memcached::start(2);
    let words = "--clients 4 --ratio 0:1 --keys 20000 --value-bytes 1024 --preload";
    let report = checked(&server.address(), words);
    assert!(report.details.misses > 0 && report.counts.nulls > 0, "{report}");
    assert!(report.details.hits > 0 && report.violations() == 0, "{report}");
}

#[test]
fn values_expire() {
    let server = Memcached::start(64);
    let words =
        "--clients 1 --keys 10 --ratio 0:1 --preload --expiry 1 --duration 3s --warmup 0s --cooldown 0s";
    let is_seen = || {
        let report = run(bench(&format!("--connect {} {words}", server.address()))).expect("a report");
        report.details.hits > 0 && report.details.misses > 0
    };
    // Tried again if the machine stood still for all the time that the values were there.
    assert!((0..10).any(|_| is_seen()), "values are there first, and then are not");
}

#[test]
fn a_value_too_large_for_the_server_is_an_error_with_its_words() {
    let server = Memcached::start(64);
    let report = checked(&server.address(), "--clients 1 --ratio 1:0 --value-bytes 2000000 --requests 5");
    assert!(report.counts.errors > 0 && report.counts.ok == 0, "{report}");
    assert!(report.errors_by_word.keys().any(|word| word.contains("too large")), "{report}");
    let words = format!("--connect {} --preload --value-bytes 2000000 --keys 3", server.address());
    let error = run(bench(&words)).expect_err("it cannot be preloaded");
    assert!(error.to_string().contains("too large"), "{error}");
}

#[test]
fn values_of_somebody_else_are_noticed() {
    let server = Memcached::start(64);
    let words = "--clients 1 --keys 10 --key-prefix mine- --value-bytes 100 --preload";
    assert_eq!(checked(&server.address(), words).violations(), 0);
    let others = format!("set mine-3 0 0 100\r\n{}\r\n", "x".repeat(100));
    let socket = server.address();
    let socket = socket.strip_prefix("unix:").expect("a socket");
    let mut stream = std::os::unix::net::UnixStream::connect(socket).expect("a connection");
    std::io::Write::write_all(&mut stream, others.as_bytes()).expect("a set");
    let mut answer = [0; 8];
    std::io::Read::read_exact(&mut stream, &mut answer).expect("an answer");
    let report =
        checked(&server.address(), "--clients 1 --keys 10 --key-prefix mine- --ratio 0:1 --value-bytes 100");
    let check = report.check.as_ref().expect("--check");
    assert!(check.first_violations[0].contains("not a value of this program"), "{report}");
}

#[test]
fn every_broken_promise_is_found() {
    for (mutant, words, about) in [
        (Mutant::Altered, "--value-bytes 100", "not a value of this program"),
        (Mutant::Altered, "--value-bytes 5", "byte 0 of 5"),
        (Mutant::Cut, "--value-bytes 100", "has 99 bytes"),
        (
            Mutant::Cut,
            "--value-bytes 5",
            "has 4 bytes, where this run stores 5 or more: it was cut, or is of another run",
        ),
        (Mutant::OtherValue, "--value-bytes 100", "that of key number"),
        (Mutant::OtherValue, "--value-bytes 5", "is not what was stored"),
        (Mutant::OtherKey, "--value-bytes 100", "not asked for"),
        (Mutant::Twice, "--value-bytes 100 --multiget 3", "not asked for"),
    ] {
        let words = format!("--clients 4 --keys 50 --preload {words}");
        let honest = checked(&serve(Mutant::Honest), &words);
        assert!(honest.verdict().is_ok() && honest.counts.ok > 100, "{honest}");
        let report = checked(&serve(mutant), &words);
        let check = report.check.as_ref().expect("--check");
        assert!(check.violations > 0, "{mutant:?} was not noticed: {words}");
        assert!(check.first_violations.iter().any(|v| v.contains(about)), "{mutant:?}: {report}");
        assert!(matches!(report.verdict(), Err(LoadError::Failed(_))));
    }
}

#[test]
fn the_first_requests_of_a_pipeline_leave_together() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = thread::spawn(move || {
        let (mut peer, _) = listener.accept().expect("a client");
        let mut bytes = vec![0; 64 * 1024];
        let length = peer.read(&mut bytes).expect("requests");
        bytes.truncate(length);
        bytes
    });
    let words = format!("--connect {address} --clients 1 --pipeline 8 --requests 8 --value-bytes 4");
    // The server closes the connection, which the report says; what counts here is what the server has read until then.
    run(bench(&words)).expect("a report").verdict().expect_err("it broke off");
    let first = server.join().expect("bytes");
    let requests = |verb: &[u8]| first.windows(verb.len()).filter(|bytes| *bytes == verb).count();
    assert_eq!((requests(b"set key-"), requests(b"get key-")), (4, 4), "{}", String::from_utf8_lossy(&first));
}

#[test]
fn refusals_are_counted_apart_and_babble_ends_the_connection() {
    let refused = checked(&serve(Mutant::Refused), "--clients 2 --preload --keys 10");
    assert_eq!(refused.errors_by_word["SERVER_ERROR out of luck"], 1, "{refused}");
    assert!(refused.verdict().is_ok(), "an error is an answer: {refused}");
    let refused = checked(&serve(Mutant::NotStored), "--clients 2");
    assert_eq!(refused.errors_by_word["NOT_STORED"], 1, "{refused}");
    let babble = checked(&serve(Mutant::Babble), "--clients 2 --preload --keys 10");
    assert_eq!(babble.connections_lost, 1, "{babble}");
    assert!(babble.verdict().is_err(), "{babble}");
}

#[test]
fn the_summary_holds_hits_misses_and_bytes() {
    let server = Memcached::start(64);
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("summary.json");
    let words = format!("--clients 2 --preload --keys 100 --json {}", file.display());
    let report = checked(&server.address(), &words);
    let json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(file).expect("a file")).expect("JSON");
    assert_eq!(json["hits"], report.details.hits);
    assert_eq!(json["kinds"]["get"]["ok"], report.kinds["get"].counts.ok);
    assert_eq!(json["options"]["value_bytes"], 1024);
    assert_eq!(json["check"]["violations"], 0);
    let gets = report.kinds["get"].counts.ok;
    // VALUE key-N 0 1024, the value, END.
    let least = gets * (1024 + 20) + report.kinds["set"].counts.ok * 8;
    assert!(report.traffic.traffic.received_bytes > least, "{report}");
    assert!(report.traffic.traffic.received_bytes < least + 20 * gets, "{report}");
}

#[test]
fn a_search_fills_the_server_once_and_ends_at_a_broken_promise() {
    let server = Memcached::start(64);
    let words = "--warmup 0s --cooldown 0s --duration 300ms --preload --keys 100 --rate 20000 --check";
    let limit = "p50<100ms".parse().expect("a limit");
    let search = |address: &str| {
        posthaste_load::find_max_rate(&bench(&format!("--connect {address} {words} --clients 2")), limit)
    };
    // Tried again if the machine stood still so often that no rate was kept.
    let report = (0..10).find_map(|_| search(&server.address()).ok()).expect("it ends");
    assert!(report.search.len() > 1 && report.options.preload, "{report}");
    assert!(report.details.hits > 0 && report.details.misses == 0, "{report}");
    let refusal = search(&serve(Mutant::Altered)).expect_err("a value was altered");
    assert!(refusal.to_string().contains("1 violations"), "{refusal}");
}
