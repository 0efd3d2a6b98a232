//! The program from outside: error lines, exit codes, the record, the laboratory. Where options stand: `options.rs`.

mod support;

#[path = "support/program.rs"]
mod called;
#[path = "support/client.rs"]
mod client;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use called::{program, refusal, run};
use client::Client;
use serde_json::Value as Json;
use support::Server;

#[test]
fn a_reader_who_has_gone_is_no_failure() {
    let server = Server::start("memory:", &[]);
    let place = server.addr().to_string();
    Client::login(server.addr(), "alice").expect("it runs").ask(&["QCREATE", "orders"]).expect("it runs");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("cache.toml");
    fs::write(&file, "[cache]\n[cache.pools.all]\nservers = [\"127.0.0.1:1\"]\n").expect("a file");
    let file = file.to_str().expect("a path");
    let store =
        ["bench", "store", "--store", "memory:", "--duration", "10ms", "--batch", "1", "--repetitions", "1"];
    for words in [
        &["admin", "route", "key", "--file", file][..],
        &["admin", "queues", "--connect", &place],
        &["admin", "clients", "--json", "--connect", &place],
        &["admin", "delete", "orders", "--connect", &place],
        &["cache", "--check", file],
        &["migrate", "--print"],
        &store,
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = program(words).stdout(writer).output().expect("the program runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*error), (Some(0), ""), "{words:?}");
    }
}

#[test]
fn wrong_use_is_one_line_and_exit_code_2() {
    let long = &format!("unix:/{}", "x".repeat(107));
    for (words, names) in [
        (&["queue", "--store", "tape:"][..], "embedded:DIR"),
        (&["queue", "--frobnicate"], "--frobnicate"),
        (&["queue", "--batch", "0"], "at least 1"),
        (&["queue", "--workers", "10001"], "at most 10000"),
        (&["queue", "--threads", "10001"], "at most 10000"),
        (&["cache", "--threads", "10001"], "at most 10000"),
        (&["cache", "--workers", "10001"], "at most 10000"),
        (&["cache", "--workers", "many"], "pipelined"),
        (&["queue", "--max-message", "536870913"], "at most 536870912"),
        (&["queue", "--listen", "nowhere"], "nowhere"),
        (&["queue", "--priority-line", "peek,frob"], "frob"),
        (&["queue", "--window", "0s"], "10ms"),
        (&["queue", "--window", "10000000000000000000s"], "at most ten years"),
        (&["queue", "--drain", "10000000000000000000s"], "at most ten years"),
        (&["cache", "--send-timeout", "10000000000000000000s"], "at most ten years, 87600h, or off"),
        (&["queue", "--store", "mock:5", "--memory-limit", "100000"], "memory:"),
        (&["queue", "--listen", "127.0.0.1"], "--listen"),
        (&["queue", "--http", "unix:/run/http.sock"], "--http"),
        (&["cache", "--server", "10.0.0.1:http"], "--server"),
        (&["bench", "queue", "--arrivals", "poisson"], "--rate"),
        (&["bench", "queue", "--rate", "5", "--think", "1ms"], "leave one out"),
        (&["bench", "queue", "--duration", "5"], "unit"),
        (&["bench", "queue", "--window", "5s"], "--record"),
        (&["bench", "queue", "--message-bytes", "99999999999"], "is not a number"),
        (&["bench", "store", "--duration", "0s"], "10ms"),
        (&["bench", "store", "--store", "tape:"], "embedded:DIR"),
        (&["bench", "queue", "--connect", "zz"], "HOST:PORT"),
        (&["bench", "cache", "--connect", "unix:"], "unix:"),
        (&["admin", "queues", "--connect", "redis://127.0.0.1:7411"], "HOST:PORT"),
        (&["admin", "queues", "--user", "*"], "a name is"),
        (&["admin", "top", "--user", "a:b"], "colon"),
        (&["admin", "top", "--http", "zz"], "--http zz: write HOST:PORT"),
        (&["admin", "doctor", "--http", "http://"], "--http http://: write HOST:PORT"),
        (&["admin", "servers", "--http", "127.0.0.1:http"], "--http 127.0.0.1:http: write HOST:PORT"),
        (&["admin", "route", "key", "--http", "redis://127.0.0.1:1"], "write HOST:PORT"),
        (&["admin", "account", "add", "*"], "cannot be an account"),
        (&["admin", "account", "remove", "a:$b"], "cannot be an account"),
        (&["admin", "server", "127.0.0.1:11211", "sideways"], "up, drain, down"),
        (&["admin", "messages", "orders", "--count", "0"], "1..=10000"),
        (&["admin", "clients", "--kill", "me"], "must be a whole number"),
        (&["admin", "top", "--count", "0"], "--count"),
        (&["queue", "--listen", long], "107 bytes"),
        (&["cache", "--server", long], "107 bytes"),
        (&["admin", "queues", "--connect", long], "107 bytes"),
        (&["bench", "cache", "--connect", long], "107 bytes"),
        (&["frobnicate"], "frobnicate"),
        (&[], "see posthaste --help"),
        (&["admin", "account"], "see posthaste admin account --help"),
    ] {
        let (line, code) = refusal(&run(words));
        assert_eq!(code, Some(2), "{words:?}: {line}");
        assert!(line.contains(names), "{words:?}: {line}");
    }
}

/// Every option that a help text lists stands on one of these pages.
#[test]
fn the_pages_of_bench_name_every_option() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/");
    let page = |name: &str| fs::read_to_string(format!("{root}{name}")).expect("a page");
    let (all, cache) = (page("reference/bench.md"), page("reference/bench-cache.md"));
    let memtier = page("guides/from-memtier.md");
    for (command, pages) in [
        ("queue", vec![&all]),
        ("cache", vec![&all, &cache, &memtier]),
        ("merge", vec![&all]),
        ("store", vec![&all]),
    ] {
        let help = String::from_utf8(run(&["bench", command, "--help"]).stdout).expect("text");
        let listed = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
        let options =
            listed.flat_map(|line| line.split([' ', ',', '[', ']'])).filter(|word| word.starts_with("--"));
        let missing: Vec<_> = options
            .filter(|option| *option != "--help" && !pages.iter().any(|page| page.contains(option)))
            .collect();
        assert!(missing.is_empty(), "bench {command}: {missing:?}");
    }
}

#[test]
fn an_open_server_is_refused_beyond_this_machine() {
    let output = run(&["queue", "--listen", "0.0.0.0:0", "--http", "off", "--store", "memory:"]);
    let (line, code) = refusal(&output);
    assert_eq!(code, Some(2));
    assert!(line.contains("--accounts"), "{line}");
}

#[test]
fn where_no_account_exists_the_server_says_that_nobody_can_log_in() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("accounts.txt");
    fs::write(&file, "").expect("a file");
    let server = Server::start("memory:", &["--accounts", file.to_str().expect("a path in UTF-8")]);
    server.wait_for_log("nobody can log in; `posthaste admin account add NAME --file");
}

#[test]
fn a_database_that_is_not_there_keeps_the_server_from_starting_and_is_told_once() {
    let store = "postgres://app@127.0.0.1:1/posthaste";
    let (line, code) =
        refusal(&run(&["queue", "--listen", "127.0.0.1:0", "--http", "off", "--store", store]));
    assert_eq!(code, Some(1));
    assert!(line.contains("127.0.0.1:1"), "{line}");
}

#[test]
fn a_file_where_a_socket_should_be_is_left_alone() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("precious");
    fs::write(&file, "precious").expect("a file");
    let listen = format!("unix:{}", file.display());
    let (line, code) = refusal(&run(&["queue", "--listen", &listen, "--http", "off", "--store", "memory:"]));
    assert_eq!(code, Some(1));
    assert!(line.contains("no socket"), "{line}");
    assert_eq!(fs::read_to_string(&file).expect("it is still there"), "precious");
}

#[test]
fn what_a_load_generator_cannot_use_is_named_with_what_to_do() {
    let (server, file) = (Server::start("memory:", &[]), tempfile::NamedTempFile::new().expect("a file"));
    let (addr, store) = (server.addr().to_string(), format!("embedded:{}", file.path().display()));
    for (words, says) in [
        (&["bench", "store", "--store", &store][..], file.path().to_str().expect("text")),
        (&["bench", "queue", "--tls", "--connect", &addr], "leave out --tls"),
    ] {
        let (line, code) = refusal(&run(words));
        assert!(code == Some(1) && line.contains(says), "{words:?}: {line}");
    }
}

#[test]
fn a_load_that_fails_leaves_the_summary_of_an_earlier_one_and_none_of_its_own() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (earlier, new) = (dir.path().join("earlier.json"), dir.path().join("new.json"));
    fs::write(&earlier, "earlier").expect("a file");
    let store = format!("embedded:{}", dir.path().display());
    for bench in [
        &["bench", "queue", "--connect", "127.0.0.1:1"][..],
        &["bench", "queue", "--connect", "127.0.0.1:1", "--find-max-rate", "p99<5ms"],
        &["bench", "store", "--store", &store],
        &["bench", "store", "--store", "tape:"],
        &["bench", "store", "--store", "postgres://127.0.0.1:1/x"],
    ] {
        for file in [&earlier, &new] {
            refusal(&run(&[bench, &["--json", &file.display().to_string()]].concat()));
        }
        assert_eq!(fs::read_to_string(&earlier).expect("it is still there"), "earlier", "{bench:?}");
        assert!(!new.exists(), "{bench:?}");
    }
}

#[test]
fn a_directory_in_use_is_refused_with_the_process_that_has_it() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = format!("embedded:{}", dir.path().display());
    let server = Server::start(&store, &[]);
    let (line, code) =
        refusal(&run(&["queue", "--listen", "127.0.0.1:0", "--http", "off", "--store", &store]));
    assert_eq!(code, Some(1));
    assert!(line.contains(&server.pid().to_string()), "{line}");
}

#[test]
fn a_run_leaves_a_record() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let record = dir.path().join("record");
    let server = Server::start("memory:", &["--record", &record.display().to_string(), "--window", "100ms"]);
    let mut client = Client::connect(server.addr()).expect("it runs");
    client.ask(&["QCREATE", "q"]).expect("it runs");
    for _ in 0..50 {
        client.ask(&["SEND", "q", "x"]).expect("it runs");
    }
    std::thread::sleep(std::time::Duration::from_millis(250));
    assert_eq!(server.stop().code(), Some(0));
    let run: Json =
        serde_json::from_str(&fs::read_to_string(record.join("run.json")).expect("run.json")).expect("JSON");
    assert!(run["end_s"].is_number(), "{run}");
    let windows = fs::read_to_string(record.join("windows.csv")).expect("windows.csv");
    let mut lines = windows.lines();
    let columns: Vec<&str> = lines.next().expect("a head").split(',').collect();
    let column = |name: &str| columns.iter().position(|column| *column == name).expect("the column");
    let (kind, requests) = (column("kind"), column("requests"));
    let sends: u64 = lines
        .map(|line| line.split(',').collect::<Vec<_>>())
        .filter(|cells| cells[kind] == "send")
        .map(|cells| cells[requests].parse::<u64>().expect("a count"))
        .sum();
    assert_eq!(sends, 50);
    for file in ["latency.hlog", "system.csv", "events.csv"] {
        assert!(fs::metadata(record.join(file)).expect(file).len() > 0, "{file}");
    }
}

/// What the help of a command lists, but for what starts no tier.
fn options_of(command: &str) -> Vec<String> {
    let help = String::from_utf8(run(&[command, "--help"]).stdout).expect("text");
    let listed = help.lines().filter_map(|line| line.trim_start().strip_prefix("--"));
    let options = listed.map(|line| line.split([' ', '[']).next().unwrap_or_default().replace('-', "_"));
    options.filter(|option| !["help", "check", "import", "pool"].contains(&option.as_str())).collect()
}

#[test]
fn the_record_of_a_tier_holds_every_option() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for tier in ["queue", "cache"] {
        let record = dir.path().join(tier);
        let arguments = ["--record", &record.display().to_string(), "--reuse-port", "--log-format", "json"];
        let server = match tier {
            "queue" => Server::start("memory:", &arguments),
            _ => Server::start_cache(&[&arguments[..], &["--mock", "5"]].concat()),
        };
        assert!(server.stop().success());
        let run = fs::read_to_string(record.join("run.json")).expect("run.json");
        let run: Json = serde_json::from_str(&run).expect("JSON");
        let recorded = run["options"].as_object().expect("options");
        let is_recorded = |option: &String| {
            ["", "_s", "_bytes"].iter().any(|unit| recorded.contains_key(&format!("{option}{unit}")))
        };
        let options = options_of(tier);
        assert!(options.len() > 20, "{options:?}");
        let missing: Vec<_> = options.iter().filter(|option| !is_recorded(option)).collect();
        assert!(missing.is_empty(), "{tier}: {missing:?}");
        let values = (&recorded["reuse_port"], &recorded["log_format"], &recorded["record"]);
        assert_eq!(values, (&true.into(), &"json".into(), &record.display().to_string().into()));
    }
}

#[test]
fn a_store_in_memory_takes_no_more_than_it_may() {
    let server = Server::start("memory:", &["--memory-limit", "100000"]);
    let mut client = Client::connect(server.addr()).expect("it runs");
    let mut ask = |words: &[&str]| client.ask(words).expect("it runs");
    assert!(ask(&["QCREATE", "q"]).integer().is_some());
    let body = "x".repeat(60_000);
    // What is there counts, not what comes.
    assert!(ask(&["SEND", "q", &body]).integer().is_some());
    assert!(ask(&["SEND", "q", &body]).integer().is_some());
    assert!(ask(&["SEND", "q", "x"]).is_error("FULL"));
    assert!(ask(&["SENDMANY", "q", "x", "y"]).is_error("FULL"));
    assert!(ask(&["QCREATE", "r"]).is_error("FULL"));
    assert!(ask(&["POP", "FROM", "stranger", "BLOCK", "1"]).is_error("FULL"));
    assert!(ask(&["QCREATE", "q"]).integer().is_some(), "it is there already");
    // The first is kept for whoever asks with that key again.
    assert!(ask(&["POP", "QUEUE", "q", "REQID", "k"]).body().is_some());
    assert!(ask(&["SEND", "q", "x"]).is_error("FULL"));
    assert!(ask(&["POP", "QUEUE", "q"]).body().is_some());
    assert!(ask(&["SEND", "q", "x"]).integer().is_some());
}

#[test]
fn clients_of_redis_are_told_whether_the_store_is_durable() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let embedded = format!("embedded:{}", dir.path().display());
    for (store, is_durable) in [("memory:", "no"), ("mock:5", "no"), (&embedded, "yes")] {
        let server = Server::start(store, &[]);
        let mut client = Client::connect(server.addr()).expect("it runs");
        let settings = client.ask(&["CONFIG", "GET", "appendonly"]).expect("it runs");
        assert_eq!(settings.get("appendonly").and_then(|value| value.text()), Some(is_durable), "{store}");
    }
}

/// A laboratory that only tells how it was called.
const LAB: &str = "#!/bin/sh\necho \"$@\"\necho \"$POSTHASTE\"\nexit 7\n";

#[test]
fn a_reader_of_a_report_who_has_seen_enough_is_no_failure() {
    let server = Server::start("memory:", &[]);
    let connect = server.addr().to_string();
    let mut bench = program(&["bench", "queue", "--connect", &connect, "--requests", "1"]);
    let mut bench = bench.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
    drop(bench.stdout.take());
    let ran = bench.wait_with_output().expect("it ends");
    assert!(ran.status.success(), "{}: {}", ran.status, String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn lab_hands_everything_over_and_says_which_program_to_try() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let lab = dir.path().join("posthaste-lab");
    fs::write(&lab, LAB).expect("a file");
    fs::set_permissions(&lab, fs::Permissions::from_mode(0o755)).expect("permissions");
    let mut command = program(&["lab", "run", "a file.toml", "--quick", "--help"]);
    // A shell passes over a file that cannot be run, too.
    let torn = dir.path().join("torn");
    fs::create_dir(&torn).and_then(|()| fs::write(torn.join("posthaste-lab"), "")).expect("a file");
    let path = format!("{}:{}:/usr/bin:/bin", torn.display(), dir.path().display());
    command.env("PATH", path).env_remove("POSTHASTE");
    let output = command.output().expect("the program runs");
    assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(
        said.lines().collect::<Vec<_>>(),
        ["run a file.toml --quick --help", env!("CARGO_BIN_EXE_posthaste")]
    );
}

#[test]
fn without_a_laboratory_lab_says_where_it_looked() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let output = program(&["lab", "models"]).current_dir(dir.path()).env("PATH", "").output();
    let (line, code) = refusal(&output.expect("the program runs"));
    assert_eq!(code, Some(1));
    assert!(line.contains("not on PATH") && line.contains("make lab"), "{line}");
}

/// What a tier says whose log is in JSON, until it ends by itself or is told to; its exit code.
fn said_in_json(arguments: &[&str]) -> (Vec<Json>, Option<i32>) {
    let mut tier = program(&["queue", "--http", "off", "--log-format", "json"]);
    tier.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut tier = tier.spawn().expect("the program runs");
    let mut lines = BufReader::new(tier.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
    let mut said: Vec<String> = Vec::new();
    for line in lines.by_ref() {
        let listens = line.contains("listening on ");
        said.push(line);
        if listens {
            let number = tier.id().to_string();
            assert!(Command::new("kill").args(["-TERM", &number]).status().expect("kill runs").success());
        }
    }
    let output = tier.wait_with_output().expect("it ends");
    said.extend(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned));
    let json = |line: &String| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    (said.iter().map(json).collect(), output.status.code())
}

#[test]
fn files_that_cannot_be_used_are_told_with_their_option() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    fs::write(dir.path().join("passwd"), "").expect("a file");
    let occupied = format!("embedded:{}", dir.path().display());
    let tls = ["--tls-cert", "/nowhere/a.crt", "--tls-key", "/nowhere/a.key"];
    for (words, told) in [
        (
            &["queue", "--store", "memory:", tls[0], tls[1], tls[2], tls[3]][..],
            "--tls-cert: cannot use /nowhere/a.crt",
        ),
        (&["cache", "--mock", tls[0], tls[1], tls[2], tls[3]], "--tls-cert: cannot use /nowhere/a.crt"),
        (&["bench", "queue", "--tls", "--tls-ca", "/nowhere/ca"], "--tls-ca: cannot use /nowhere/ca"),
        (
            &["queue", "--store", "memory:", "--accounts", "/nowhere/a"],
            "`posthaste admin account add NAME --file FILE` makes one",
        ),
        (&["queue", "--store", &occupied], "(\"passwd\"): give the store a directory of its own"),
    ] {
        let (line, code) = refusal(&run(words));
        assert!(line.contains(told) && code == Some(1), "{line}");
    }
}

#[test]
fn whoever_wants_a_log_in_json_is_told_everything_so() {
    let (said, code) = said_in_json(&["--listen", "127.0.0.1:0", "--store", "memory:"]);
    assert_eq!(code, Some(0));
    assert_eq!(said.last().expect("a summary")["summary"]["all"]["kind"], "all");
    for (arguments, words, expected) in [
        (["--listen", "127.0.0.1:0", "--store", "embedded:/proc/nowhere"], "cannot make /proc/nowhere", 1),
        (["--listen", "0.0.0.0:0", "--store", "memory:"], "can be reached from other machines", 2),
    ] {
        let (said, code) = said_in_json(&arguments);
        assert_eq!((said.len(), code), (1, Some(expected)), "{said:?}");
        assert_eq!(said[0]["level"], "ERROR");
        assert!(said[0]["message"].as_str().is_some_and(|message| message.contains(words)), "{said:?}");
    }
}
