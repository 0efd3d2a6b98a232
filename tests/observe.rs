//! What the tiers tell of single requests and of themselves: the log of slow requests, `admin top`, `admin doctor`.

mod support;

#[path = "support/client.rs"]
mod client;

#[path = "support/news.rs"]
mod news;

#[path = "support/postgres.rs"]
mod postgres;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use client::Client;
use news::wait_until_blocked;
use posthaste_server::accounts::AccountsFile;
use serde_json::Value as Json;
use support::Server;
use support::patience::{PATIENCE, wait_for, wait_until};

fn admin(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_posthaste")).arg("admin").args(words).output().expect("the program runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The first line of the server's log that is so, as JSON; waits for it.
#[track_caller]
fn logged(server: &Server, is_it: impl Fn(&Json) -> bool) -> Json {
    wait_for("it is logged", || {
        let log = server.log();
        let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Json>(line).ok());
        lines.find(&is_it).ok_or(log)
    })
}

fn is_slow(kind: &'static str) -> impl Fn(&Json) -> bool {
    move |line| line["message"] == "slow request" && line["kind"] == kind
}

#[test]
fn a_slow_request_is_told_with_whose_it_was_and_where_its_time_went() {
    let server = Server::start("memory:", &["--slow", "0ms", "--log-format", "json"]);
    let mut client = Client::login(server.addr(), "ann").expect("it runs");
    for words in [&["QCREATE", "orders"][..], &["SEND", "orders", "x"], &["PEEK", "QUEUE", "orders"]] {
        client.ask(words).expect("it runs");
    }
    let sent = logged(&server, is_slow("send"));
    for (name, value) in [("queue", "orders"), ("account", "ann"), ("ending", "ok")] {
        assert_eq!(sent[name], value, "{sent}");
    }
    let ms = |name: &str| sent[name].as_f64().unwrap_or_else(|| panic!("{name} in {sent}"));
    let stages: f64 =
        ["parse_ms", "waiting_ms", "dispatch_ms", "service_ms", "reply_ms"].map(ms).iter().sum();
    // Each is cut to whole microseconds.
    assert!((ms("response_ms") - stages).abs() < 0.006, "{sent}");
    // The client's third request, after LOGIN and QCREATE.
    let id = sent["request"].as_str().expect("an id").to_owned();
    assert!(id.ends_with("-3"), "{id}");
    let peeked = logged(&server, is_slow("peek"));
    assert_eq!(peeked["request"], id.replace("-3", "-4"), "{peeked}");
}

/// Has a pop wait, ends its wait, and says what the log tells of it. Its time may be anything, on a machine that is
/// busy, but together with a part of the wait it is less than has passed.
fn told_of_a_wait(store: &str, ending: &str, end: impl FnOnce(&Server, Client)) {
    const WAIT: Duration = Duration::from_millis(500);
    let server = Server::start(store, &["--slow", "0ms", "--log-format", "json"]);
    let mut client = Client::login(server.addr(), "ann").expect("it runs");
    client.ask(&["QCREATE", "q"]).expect("it runs");
    let start = Instant::now();
    client.send(&["POP", "QUEUE", "q", "BLOCK", "600000"]).expect("it runs");
    wait_until_blocked(server.addr(), 1);
    sleep(WAIT);
    end(&server, client);
    let told = logged(&server, is_slow("pop"));
    let passed = start.elapsed();
    assert_eq!(told["ending"], ending, "{told}");
    let response = Duration::from_secs_f64(told["response_ms"].as_f64().expect("a number") / 1000.0);
    assert!(response + WAIT <= passed, "{passed:?} passed: {told}");
}

fn send(server: &Server, mut client: Client) {
    let mut other = Client::login(server.addr(), "bob").expect("it runs");
    other.ask(&["SEND", "q", "x"]).expect("it runs");
    assert_eq!(client.answer().expect("a message").body(), Some("x"));
}

#[test]
fn a_pop_that_waits_for_a_message_is_measured_without_its_wait() {
    told_of_a_wait("memory:", "ok", send);
    told_of_a_wait("memory:", "null", |_, client| drop(client));
    let server = postgres::shared();
    told_of_a_wait(&server.url(&server.create_database()), "ok", send);
    told_of_a_wait(&server.url(&server.create_database()), "null", |_, client| drop(client));
}

#[test]
fn info_tells_every_figure_once() {
    let server = Server::start("memory:", &["--window", "10ms"]);
    let mut client = Client::login(server.addr(), "ann").expect("it runs");
    let info = wait_for("a window is over", || {
        let info = client.ask(&["INFO"]).expect("it runs").text().expect("a text").to_owned();
        if info.contains("window_s:") { Ok(info) } else { Err(info) }
    });
    let mut names: Vec<&str> = info.lines().filter_map(|line| Some(line.split_once(':')?.0)).collect();
    assert!(names.contains(&"line_requests"), "{info}");
    names.sort_unstable();
    let many = names.len();
    names.dedup();
    assert_eq!(names.len(), many, "{info}");
}

/// Its answers are more than are made before it reads.
#[test]
fn how_long_a_client_takes_to_read_is_in_no_stage_of_what_waits_for_it() {
    const PAUSE: Duration = Duration::from_secs(2);
    let server = Server::start("memory:", &["--slow", "0ms", "--log-format", "json"]);
    let mut client = Client::login(server.addr(), "ann").expect("it runs");
    client.ask(&["QCREATE", "q"]).expect("it runs");
    let body = "x".repeat(60_000);
    for _ in 0..20 {
        client.ask(&[&["SENDMANY", "q"], &[body.as_str(); 10][..]].concat()).expect("it runs");
    }
    client.write(&b"POP QUEUE q\r\n".repeat(200)).expect("it reads");
    sleep(PAUSE);
    for _ in 0..200 {
        client.answer().expect("a message");
    }
    let is_last =
        |line: &Json| is_slow("pop")(line) && line["request"].as_str().is_some_and(|id| id.ends_with("-222"));
    let last = logged(&server, is_last);
    assert!(last["parse_ms"].as_f64().is_some_and(|ms| ms < PAUSE.as_secs_f64() * 1000.0), "{last}");
}

#[test]
fn how_many_slow_requests_are_not_told_is_told_though_no_other_comes() {
    let server = Server::start("memory:", &["--slow", "0ms"]);
    let mut socket = TcpStream::connect(server.addr()).expect("it listens");
    socket.write_all(&b"PING\r\n".repeat(1000)).expect("it reads");
    socket.read_exact(&mut [0; 7000]).expect("it answers");
    server.wait_for_log("more slow requests than are told one by one");
}

#[test]
fn slow_requests_of_the_cache_tier_are_told_too() {
    let server = Server::start_cache(&["--mock", "5", "--slow", "0ms", "--log-format", "json"]);
    let mut socket = TcpStream::connect(server.addr()).expect("it listens");
    socket.write_all(b"get a\r\n").expect("it reads");
    let get = logged(&server, is_slow("get"));
    assert_eq!(get["peer"], socket.local_addr().expect("an address").to_string(), "{get}");
    assert!(server.page("/metrics").1.contains("\nposthaste_slow_requests_total 1\n"));
}

/// `GET /metrics`, as an account (`NAME:SECRET`).
fn metrics_as(server: &Server, who: &str) -> String {
    let mut said = String::new();
    let mut stream = TcpStream::connect(server.http()).expect("HTTP is served");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let head = format!("Host: localhost\r\nAuthorization: Bearer {who}\r\nConnection: close");
    let asked = write!(stream, "GET /metrics HTTP/1.1\r\n{head}\r\n\r\n");
    asked.and_then(|()| stream.read_to_string(&mut said)).expect("an answer");
    said
}

#[test]
fn logins_are_counted_by_how_they_ended() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("accounts.txt");
    let path = file.to_str().expect("a path in UTF-8");
    let mut add = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    add.args(["admin", "account", "add", "ann", "--file", path]).stdin(Stdio::piped());
    let mut child = add.stdout(Stdio::null()).spawn().expect("the program runs");
    write!(child.stdin.take().expect("stdin is piped"), "right").expect("it reads");
    assert!(child.wait().is_ok_and(|status| status.success()));
    let server = Server::start_with_http("memory:", &["--accounts", path]);
    let mut client = Client::connect(server.addr()).expect("it listens");
    for secret in ["wrong", "right"] {
        client.ask(&["LOGIN", "ann", secret]).expect("it runs");
    }
    let found = metrics_as(&server, "ann:right");
    // HTTP has logged in as well, to ask.
    for (ending, count) in [("ok", 2), ("wrong", 1), ("busy", 0)] {
        let row = format!("\nposthaste_logins_total{{ending=\"{ending}\"}} {count}\n");
        assert!(found.contains(&row), "{row} in {found}");
    }
    let usable = "\nposthaste_accounts_file_usable ";
    assert!(found.contains(&format!("{usable}1\n")), "{found}");
    std::fs::write(&file, "rubbish").expect("written");
    client.ask(&["LOGIN", "ann", "right"]).expect("it goes by what the file said before");
    assert!(metrics_as(&server, "ann:right").contains(&format!("{usable}0\n")), "it was looked at");
    let open = Server::start_with_http("memory:", &[]);
    assert!(!open.page("/metrics").1.contains("posthaste_logins_total"), "nobody has to log in");
}

#[test]
fn clients_beyond_the_limit_are_counted_on_both_tiers() {
    let full = "\nposthaste_connections_refused_total{reason=\"full\"} 1\n";
    for (server, word) in [
        // HTTP is a client of the queue tier, too, and is let in all the same: it tells that the tier is full.
        (Server::start_with_http("memory:", &["--max-clients", "1"]), "-ERR max"),
        (Server::start_cache(&["--mock", "--max-clients", "1"]), "ERROR Too many open"),
    ] {
        let _first = TcpStream::connect(server.addr()).expect("it listens");
        let mut second = TcpStream::connect(server.addr()).expect("it listens");
        let mut said = String::new();
        second.read_to_string(&mut said).expect("the end");
        assert!(said.starts_with(word), "{said}");
        let (status, metrics) = server.page("/metrics");
        assert!(status == 200 && metrics.contains(full), "{metrics}");
        assert_eq!(server.page("/v1/clients").0, 200);
        let metrics = server.page("/metrics").1;
        assert!(metrics.contains("\nposthaste_connections 1\n"), "it counts itself: {metrics}");
    }
}

#[test]
fn a_cache_tier_says_what_others_may_do_who_reach_its_http() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let record = dir.path().join("record");
    let server = Server::start_recorded(&["cache", "--mock", "--http", "0.0.0.0:0"], &record);
    server.wait_for_log("may set the states of servers, and how much the log tells");
    let alone = Server::start_cache(&["--mock"]);
    alone.wait_for_log("health and figures");
    assert_eq!(alone.times_logged("may set the states"), 0);
}

#[test]
fn top_gives_plain_lines_where_there_is_no_terminal() {
    for server in [
        Server::start_with_http("memory:", &["--window", "200ms"]),
        Server::start_cache(&["--mock", "--window", "200ms"]),
    ] {
        let http = server.http().to_string();
        let output = admin(&["top", "--http", &http, "--every", "10ms", "--count", "100"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let said = text(&output.stdout);
        let lines: Vec<Vec<&str>> = said.lines().map(|line| line.split(' ').collect()).collect();
        assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{said}");
        assert!(said.starts_with("start_s requests_per_s "), "{said}");
        let begins: Vec<f64> = lines[1..].iter().map(|line| line[0].parse().expect("a time")).collect();
        assert!(begins.len() > 2 && begins.is_sorted_by(|one, next| one < next), "each window once: {said}");
    }
}

#[test]
fn top_says_nothing_of_a_window_before_there_is_one() {
    let server = Server::start_with_http("memory:", &["--window", "10m"]);
    let output = admin(&["top", "--http", &server.http().to_string(), "--every", "10ms", "--count", "3"]);
    assert_eq!(text(&output.stdout).lines().count(), 1, "the heading: {output:?}");
}

#[test]
fn top_goes_on_when_the_tier_is_away() {
    let server = Server::start_with_http("memory:", &["--window", "10ms"]);
    let http = server.http().to_string();
    let mut top = Command::new(env!("CARGO_BIN_EXE_posthaste"))
        .args(["admin", "top", "--http", &http, "--every", "10ms", "--count", "100"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut said = BufReader::new(top.stdout.take().expect("a pipe"));
    for _ in 0..2 {
        said.read_line(&mut String::new()).expect("the heading, and a line");
    }
    server.kill9();
    let mut told = BufReader::new(top.stderr.take().expect("a pipe"));
    let mut line = String::new();
    told.read_line(&mut line).expect("a line");
    assert!(line.starts_with("posthaste: asking again: cannot reach "), "{line}");
    let mut rest = String::new();
    told.read_to_string(&mut rest).expect("text");
    assert!(top.wait().expect("it ends").success() && rest.is_empty(), "told once: {rest}");
}

#[test]
fn top_on_a_terminal_shows_queues_and_clients() {
    let server = Server::start_with_http("memory:", &["--window", "10ms"]);
    let mut client = Client::login(server.addr(), "ann").expect("it runs");
    for words in [&["QCREATE", "orders"][..], &["SEND", "orders", "x"]] {
        client.ask(words).expect("it runs");
    }
    wait_until("a window is over", || server.page("/v1/windows").1.contains("\"send\""));
    let said = top_on_a_terminal(server.http());
    for words in ["posthaste queue", "memory:", "orders", "clients", "ann", "\x1b[J"] {
        assert!(said.contains(words), "{words} in {said}");
    }
}

/// Two looks at it. script(1) gives a terminal.
fn top_on_a_terminal(http: SocketAddr) -> String {
    let program = env!("CARGO_BIN_EXE_posthaste");
    let line = format!("{program} admin top --http {http} --every 10ms --count 2");
    let output = Command::new("timeout")
        .args(["180", "script", "-qec", &line, "/dev/null"])
        .output()
        .expect("script runs");
    text(&output.stdout)
}

/// As after a failed sync: nobody knows which queues there are, and the reason is what people look for.
#[test]
fn top_shows_what_troubles_a_store_that_shows_no_queues() {
    const STATUS: &str = r#"{"tier": "queue", "ready": false, "trouble": "the store failed", "store": "x:"}"#;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let http = listener.local_addr().expect("it listens");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.expect("a connection"));
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).expect("a request") > 0 {}
            let (status, body) = match head.split(['?', ' ']).nth(1) {
                Some("/v1/status") => (200, STATUS),
                Some("/v1/queues") => (503, r#"{"message": "nobody knows"}"#),
                _ => (200, "[]"),
            };
            let answer = format!("HTTP/1.1 {status} so\r\nConnection: close\r\n\r\n{body}");
            stream.get_mut().write_all(answer.as_bytes()).expect("it is read");
        }
    });
    let said = top_on_a_terminal(http);
    assert!(said.contains("x:") && said.contains("the store failed"), "{said}");
}

#[test]
fn the_doctor_names_what_is_wrong_and_fails() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let embedded = format!("embedded:{}", dir.path().display());
    let server = Server::start_with_http("memory:", &["--max-clients", "1000000000"]);
    let output = admin(&["doctor", "--http", &server.http().to_string()]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("problem store: memory: is not durable"), "{said}");
    assert!(said.contains("note    open files: ") && said.contains("LimitNOFILE"), "{said}");
    assert!(text(&output.stderr).contains("problem found"));
    let server = Server::start_with_http(&embedded, &["--max-clients", "10"]);
    let output = admin(&["doctor", "--http", &server.http().to_string(), "--json"]);
    let report: Json = serde_json::from_slice(&output.stdout).expect("JSON");
    // The disk of the machine may be nearly full or none, and nobody may set its clock.
    let is_of_machine = |row: &Json| {
        ["disk", "clock"].iter().any(|about| row["about"] == *about)
            || row["text"].as_str().is_some_and(|text| text.contains("is in memory"))
    };
    assert!(report["findings"].as_array().into_iter().flatten().all(is_of_machine), "{report}");
}

#[test]
fn a_store_in_memory_that_calls_itself_durable_is_a_problem() {
    let dir = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let server = Server::start_with_http(&format!("embedded:{}", dir.path().display()), &[]);
    let output = admin(&["doctor", "--http", &server.http().to_string()]);
    let said = text(&output.stdout);
    assert!(said.contains("problem store: the store's directory is in memory"), "{said}");
    assert_eq!(output.status.code(), Some(1), "{said}");
}

#[test]
fn the_doctor_of_a_cache_looks_at_its_servers() {
    let server = Server::start_cache(&["--server", "127.0.0.1:1"]);
    assert_eq!(server.readiness().0, 503, "it notices by itself that nobody is there");
    let output = admin(&["doctor", "--http", &server.http().to_string()]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("problem server: 127.0.0.1:1 takes no part"), "{said}");
    assert!(said.contains("problem readiness: "), "{said}");
    // Where doctor and alerts send their readers for the reason.
    server.wait_for_log("not there: Connection refused");
}

#[test]
fn who_cannot_be_reached_is_said_in_one_line() {
    for words in [&["doctor", "--http", "127.0.0.1:1"][..], &["top", "--http", "127.0.0.1:1"]] {
        let output = admin(words);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.lines().count() == 1 && said.contains("cannot reach http://127.0.0.1:1"), "{said}");
    }
}

/// What the system calls the threads of a process; the first one has the program's name.
fn threads(pid: u32) -> Vec<String> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").flatten();
    // One that has just ended has no name any more.
    let names = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
    let mut names: Vec<String> = names.map(|name| name.trim_end().to_owned()).collect();
    names.sort_unstable();
    names
}

#[test]
fn every_thread_says_by_its_name_what_it_is_for() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let [store, record, accounts] = ["store", "record", "accounts"].map(|name| dir.path().join(name));
    AccountsFile::set(&accounts, "ann", "secret", None).expect("it can be written");
    let [record, accounts] = [record, accounts].map(|path| path.display().to_string());
    let mut arguments = vec!["--threads", "1", "--workers", "1", "--slow", "1s", "--record-requests"];
    arguments.extend(["--accounts", &accounts, "--record", &record, "--traces", "http://127.0.0.1:1"]);
    let server = Server::start_with_http(&format!("embedded:{}", store.display()), &arguments);
    let wanted = [
        "authenticator",
        "collector",
        "http",
        "log-prepare",
        "network-0",
        "posthaste",
        "registrar",
        "requests",
        "signals",
        "slow-log",
        "traces",
        "worker-0",
    ];
    // Each gives itself its name when it comes to run.
    wait_for(format!("the threads {wanted:?}"), || {
        let threads = threads(server.pid());
        if threads == wanted { Ok(()) } else { Err(format!("{threads:?}")) }
    });
}
