//! `posthaste admin` against a running tier, as tables and as JSON.

mod support;

#[path = "support/client.rs"]
mod client;

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use std::thread;

use client::Client;
use posthaste_server::accounts::AccountsFile;
use posthaste_server::grants::{Grants, Role};
use serde_json::{Value as Json, json};
use support::Server;
use support::patience::wait_until;

fn admin(server: &Server, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_posthaste"))
        .arg("admin")
        .args(words)
        .args(["--connect", &server.addr().to_string()])
        .output()
        .expect("the program runs")
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn json(server: &Server, words: &[&str]) -> Json {
    serde_json::from_str(&text(&admin(server, &[words, &["--json"]].concat()))).expect("JSON")
}

/// A tier with a queue of three messages: to anyone, to bob, and one leased.
fn furnished() -> (Server, Client) {
    let server = Server::start("memory:", &[]);
    let mut client = Client::login(server.addr(), "alice").expect("it runs");
    for words in [
        &["QCREATE", "orders", "MAXMSGS", "10"][..],
        &["SEND", "orders", "first"],
        &["SEND", "orders", "for bob", "TO", "bob"],
        &["SEND", "orders", "\u{1b}[31mred"],
        &["POP", "QUEUE", "orders", "LEASE", "60000"],
    ] {
        client.ask(words).expect("it runs");
    }
    (server, client)
}

#[test]
fn queues_are_shown_as_a_table_and_as_json() {
    let (server, _client) = furnished();
    let table = text(&admin(&server, &["queues"]));
    assert!(table.starts_with("name") && table.contains("orders"), "{table}");
    let queues = json(&server, &["queues"]);
    assert_eq!(queues[0]["name"], "orders");
    assert_eq!(queues[0]["messages"], 3);
    let one = json(&server, &["queues", "orders"]);
    assert_eq!((&one["leased"], &one["maxmsgs"]), (&Json::from(1), &Json::from(10)));
}

#[test]
fn as_many_messages_are_shown_as_were_asked_for_however_large_they_are() {
    let server = Server::start("memory:", &[]);
    let mut client = Client::login(server.addr(), "alice").expect("it runs");
    client.ask(&["QCREATE", "large"]).expect("it runs");
    let body = "x".repeat(60_000);
    for _ in 0..200 {
        client.ask(&["SEND", "large", &body]).expect("it runs");
    }
    for (count, shown, is_cut) in [("150", 150, true), ("1000", 200, false)] {
        let output = admin(&server, &["messages", "large", "--json", "--count", count]);
        assert_eq!(String::from_utf8_lossy(&output.stderr).contains("--after 150"), is_cut, "{count}");
        let messages: Json = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(messages.as_array().map(Vec::len), Some(shown), "{count}");
    }
}

#[test]
fn messages_of_every_recipient_and_state_are_shown_and_none_is_taken() {
    let (server, _client) = furnished();
    let messages = json(&server, &["messages", "orders"]);
    let states: Vec<_> = messages.as_array().expect("a list").iter().map(|m| m["state"].clone()).collect();
    assert_eq!(states, ["leased", "ready", "ready"]);
    assert_eq!(messages[1]["to"], "bob");
    let rest = json(&server, &["messages", "orders", "--after", "2", "--count", "1"]);
    assert_eq!(rest.as_array().map(Vec::len), Some(1));
    assert_eq!(json(&server, &["queues"])[0]["messages"], 3);
}

#[test]
fn a_body_that_is_no_text_is_base64_in_json_as_over_http() {
    let (server, mut client) = furnished();
    client.write(b"*3\r\n$4\r\nSEND\r\n$6\r\norders\r\n$2\r\n\xff\x00\r\n").expect("it runs");
    client.answer().expect("it runs");
    let messages = json(&server, &["messages", "orders", "--after", "3"]);
    assert_eq!((&messages[0]["body_base64"], &messages[0]["body"]), (&Json::from("/wA="), &Json::Null));
}

#[test]
fn control_characters_of_a_body_do_not_reach_the_terminal() {
    let (server, _client) = furnished();
    let table = text(&admin(&server, &["messages", "orders"]));
    assert!(table.contains("red") && !table.contains('\u{1b}'), "{table:?}");
}

#[test]
fn an_administrator_has_the_log_tell_more_or_less() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (file, secret) = (dir.path().join("accounts.txt"), dir.path().join("secret.txt"));
    std::fs::write(&secret, "secret\n").expect("a file");
    for (name, role, pattern) in [("keeper", Role::Administer, "*"), ("sender", Role::Send, "*")] {
        let mut grants = Grants::default();
        grants.add(role, pattern).expect("a pattern");
        AccountsFile::set(&file, name, "secret", Some(grants)).expect("it can be written");
    }
    let server = Server::start_with_http("memory:", &["--accounts", &file.display().to_string()]);
    let log_level = |who: &str, words: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_posthaste"))
            .args(["admin", "log-level"])
            .args(words)
            .args(["--http", &server.http().to_string(), "--user", who, "--secret-file"])
            .arg(&secret)
            .output()
            .expect("the program runs")
    };
    assert_eq!(text(&log_level("keeper", &[])), "info\n");
    assert_eq!(text(&log_level("keeper", &["debug"])), "debug\n");
    server.wait_for_log("the log level was set level=debug before=info");
    assert_eq!(text(&log_level("keeper", &["warn"])), "warn\n");
    assert_eq!(text(&log_level("keeper", &[])), "warn\n");
    for words in [&[][..], &["error"]] {
        let refused = log_level("sender", words);
        assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("403"));
    }
    let unknown = log_level("keeper", &["loud"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert_eq!(server.log().matches("the log level was set").count(), 1, "{}", server.log());
}

#[test]
fn accounts_and_clients_are_shown_and_a_client_can_be_closed() {
    let (server, mut client) = furnished();
    client.ask(&["CLIENT", "SETNAME", "17"]).expect("it runs");
    assert_eq!(json(&server, &["accounts"])[0]["name"], "alice");
    let clients = json(&server, &["clients"]);
    let alice =
        clients.as_array().expect("a list").iter().find(|c| c["user"] == "alice").expect("alice is there");
    assert_eq!(alice["requests"], 7, "a login and six more");
    assert_eq!((alice["resp"].is_number(), &alice["name"]), (true, &Json::from("17")));
    let id = alice["id"].as_u64().expect("an id").to_string();
    assert_eq!(json(&server, &["clients", "--kill", &id])["closed"], 1);
    assert!(client.is_closed());
    let again = admin(&server, &["clients", "--kill", &id]);
    let error = String::from_utf8_lossy(&again.stderr);
    assert_eq!(again.status.code(), Some(1), "{error}");
    assert!(error.starts_with(&format!("posthaste: no client has the id {id}")), "{error}");
}

#[test]
fn a_client_is_shown_with_its_account_whatever_stands_in_its_name() {
    let (server, _client) = furnished();
    let name = "the 5% \u{a0}=";
    let _other = Client::login(server.addr(), name).expect("it runs");
    let clients = json(&server, &["clients"]);
    let of_it = |client: &&Json| client["user"] == name;
    assert_eq!(clients.as_array().expect("a list").iter().filter(of_it).count(), 1, "{clients}");
}

#[test]
fn purging_and_deleting_say_how_many_messages_went() {
    let (server, _client) = furnished();
    assert_eq!(text(&admin(&server, &["purge", "orders"])), "3 removed\n");
    assert_eq!(text(&admin(&server, &["delete", "orders"])), "0 removed\n");
    let gone = admin(&server, &["queues", "orders"]);
    assert_eq!(gone.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&gone.stderr).starts_with("posthaste: NOQUEUE"), "{gone:?}");
}

#[test]
fn a_server_that_is_not_there_is_one_line_that_says_so() {
    let output = Command::new(env!("CARGO_BIN_EXE_posthaste"))
        .args(["admin", "queues", "--connect", "127.0.0.1:1"])
        .output()
        .expect("the program runs");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.contains("127.0.0.1:1"), "{error}");
}

/// An address where everybody is told this, and no more.
fn somebody_else(says: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("an address");
    let address = listener.local_addr().expect("an address").to_string();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // Who asks may have gone.
            let _ = stream.read(&mut [0; 4096]).and_then(|_| stream.write_all(says));
        }
    });
    address
}

#[test]
fn who_is_asked_by_mistake_is_named_with_what_is_asked_there() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let accounts = dir.path().join("accounts.txt");
    AccountsFile::set(&accounts, "alice", "secret", None).expect("it can be written");
    let (open, closed) = (
        Server::start_with_http("memory:", &[]),
        Server::start_with_http("memory:", &["--accounts", &accounts.display().to_string()]),
    );
    let (resp, http) = (open.addr().to_string(), open.http().to_string());
    let (memcached, nobody) = (somebody_else(b"ERROR\r\n"), somebody_else(b""));
    let other =
        somebody_else(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 9\r\n\r\n{\"a\": {}}");
    let page = somebody_else(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 6\r\n\r\n<html>");
    let queue_tier = "is a queue tier: name the --http of a cache tier";
    let stranger = "does not answer as a tier does";
    let closed_http = closed.http().to_string();
    for (words, at, says) in [
        (&["queues", "--connect"][..], &http, "does not speak RESP"),
        (&["purge", "orders", "--connect"], &memcached, "does not speak RESP"),
        (&["accounts", "--connect"], &nobody, "closed the connection"),
        (&["servers", "--http"], &resp, "does not speak HTTP"),
        (&["top", "--http"], &memcached, "does not speak HTTP"),
        (&["doctor", "--http"], &nobody, "does not speak HTTP"),
        (&["doctor", "--http"], &page, stranger),
        (&["top", "--http"], &page, stranger),
        (&["pools", "--http"], &page, stranger),
        (&["route", "key", "--json", "--http"], &page, stranger),
        (&["route", "key", "--http"], &other, "does not answer as a cache tier does"),
        (&["servers", "--http"], &other, "does not answer as a cache tier does"),
        (&["clients", "--http"], &other, "does not answer as a cache tier does"),
        (&["servers", "--http"], &http, queue_tier),
        (&["server", "127.0.0.1:11211", "up", "--http"], &http, queue_tier),
        (&["route", "key", "--http"], &closed_http, queue_tier),
        (&["clients", "--http"], &closed_http, queue_tier),
        (&["clients", "--kill", "1", "--http"], &closed_http, queue_tier),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_posthaste"))
            .arg("admin")
            .args(words)
            .arg(at)
            .output()
            .expect("the program runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(
            error.contains(at) && error.contains(says) && error.lines().count() == 1,
            "{words:?}: {error}"
        );
        assert_eq!(output.status.code(), Some(1), "{words:?}: {error}");
    }
}

#[test]
fn a_database_that_cannot_be_asked_is_one_finding_among_others() {
    let server = Server::start_with_http("memory:", &[]);
    let http = server.http().to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_posthaste"))
        .args(["admin", "doctor", "--json", "--http", &http, "--store", "postgres://app@127.0.0.1:1/x"])
        .output()
        .expect("the program runs");
    let report: Json = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let has = |about: &str, words: &str| {
        let is_it = |row: &Json| row["about"] == about && row["text"].as_str().unwrap().contains(words);
        report["findings"].as_array().unwrap().iter().any(is_it)
    };
    assert!(has("store", "not durable") && has("database", "is it running"), "{report}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_tier_that_is_away_keeps_nobody_from_looking_at_its_database() {
    let doctor = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
        command
            .args(["admin", "doctor", "--http", "127.0.0.1:1"])
            .args(more)
            .output()
            .expect("the program runs")
    };
    let output = doctor(&["--store", "postgres://app@127.0.0.1:1/x"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("problem tier: cannot reach http://127.0.0.1:1"), "{said}");
    assert!(said.contains("problem database: PostgreSQL at 127.0.0.1:1"), "{said}");
    assert_eq!(output.status.code(), Some(1));
    assert!(doctor(&[]).stdout.is_empty(), "nothing was looked at");
}

#[test]
fn figures_that_find_no_room_are_a_failure() {
    let server = Server::start_with_http("memory:", &[]);
    let full = File::options().write(true).open("/dev/full").expect("a device");
    let output = Command::new(env!("CARGO_BIN_EXE_posthaste"))
        .args(["admin", "top", "--count", "1", "--http", &server.http().to_string()])
        .stdout(full)
        .output()
        .expect("the program runs");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

#[test]
fn an_account_added_to_the_file_may_log_in_at_once_and_one_taken_out_may_not() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("accounts.txt");
    let change = |words: &[&str], secret: &str| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_posthaste"))
            .args(["admin", "account"])
            .args(words)
            .arg("--file")
            .arg(&file)
            .stdin(Stdio::piped())
            .spawn()
            .expect("the program runs");
        writeln!(child.stdin.take().expect("a pipe"), "{secret}").expect("it reads");
        assert!(child.wait().expect("it ends").success());
    };
    change(&["add", "alice"], "wonder land");
    let server = Server::start("memory:", &["--accounts", &file.display().to_string()]);
    let login = |name: &str, secret: &str| {
        let mut client = Client::connect(server.addr()).expect("it runs");
        assert!(client.ask(&["QLIST"]).expect("it runs").is_error("NOAUTH"));
        client.ask(&["LOGIN", name, secret]).expect("it runs")
    };
    assert!(login("alice", "wonder land").integer().is_some());
    assert!(login("alice", "wonderland").is_error("NOACCOUNT"));
    assert!(login("bob", "builder").is_error("NOACCOUNT"));
    change(&["add", "bob"], "builder");
    assert!(login("bob", "builder").integer().is_some());
    change(&["remove", "alice"], "");
    assert!(login("alice", "wonder land").is_error("NOACCOUNT"));
}

#[test]
fn a_file_without_a_secret_is_named() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (accounts, secret) = (dir.path().join("accounts.txt"), dir.path().join("secret.txt"));
    AccountsFile::set(&accounts, "alice", "secret", None).expect("it can be written");
    fs::write(&secret, "\nsecret\n").expect("a file");
    let server = Server::start_with_http("memory:", &["--accounts", &accounts.display().to_string()]);
    let (resp, http) = (server.addr().to_string(), server.http().to_string());
    for words in [["queues", "--connect", &resp], ["doctor", "--http", &http]] {
        let output = Command::new(env!("CARGO_BIN_EXE_posthaste"))
            .arg("admin")
            .args(words)
            .args(["--user", "alice", "--secret-file"])
            .arg(&secret)
            .output()
            .expect("the program runs");
        let error = String::from_utf8_lossy(&output.stderr);
        let says = format!("the first line of {} is empty", secret.display());
        assert!(error.contains(&says) && error.lines().count() == 1, "{words:?}: {error}");
    }
}

#[test]
fn a_secret_that_is_too_long_to_log_in_with_is_refused() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("accounts.txt");
    for (bytes, code) in [(4096, 0), (4097, 1)] {
        let secret = dir.path().join("secret");
        fs::write(&secret, "x".repeat(bytes)).expect("a file");
        let output = Command::new(env!("CARGO_BIN_EXE_posthaste"))
            .args(["admin", "account", "add", "alice", "--file"])
            .arg(&file)
            .stdin(File::open(&secret).expect("a file"))
            .output()
            .expect("the program runs");
        assert_eq!(output.status.code(), Some(code), "{output:?}");
    }
}

#[test]
fn the_accounts_of_a_file_are_listed_with_what_they_may_do_and_without_their_hashes() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("accounts.txt");
    let mut grants = Grants::default();
    grants.add(Role::Send, "orders.*").expect("a pattern");
    grants.add(Role::Receive, "bills").expect("a pattern");
    AccountsFile::set(&file, "shop", "secret", Some(grants)).expect("it can be written");
    AccountsFile::set(&file, "alice", "secret", None).expect("it can be written");
    let list = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
        command.args(["admin", "account", "list", "--file"]).arg(&file).args(more);
        let output = command.output().expect("the program runs");
        assert!(output.status.success());
        String::from_utf8(output.stdout).expect("text")
    };
    assert_eq!(list(&[]), "account  may\nalice    everything\nshop     send=orders.* receive=bills\n");
    let rows: Json = serde_json::from_str(&list(&["--json"])).expect("it is JSON");
    assert_eq!(rows[1], json!({ "account": "shop", "may": "send=orders.* receive=bills" }));
}

#[test]
fn who_adds_an_account_that_cannot_log_in_over_http_is_told() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let add = |name: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
        command.args(["admin", "account", "add", name, "--file", "accounts.txt"]).current_dir(dir.path());
        command.stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program runs");
        writeln!(child.stdin.take().expect("a pipe"), "secret").expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert_eq!(add("shop"), "");
    let told = add("shop:mail");
    assert!(told.contains("shop:mail cannot log in over HTTP"), "{told}");
}

#[test]
fn an_account_added_to_the_file_is_written_to_before_it_has_logged_in() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("accounts.txt");
    let set = |name: &str| AccountsFile::set(&file, name, "secret", None).expect("it can be written");
    set("alice");
    let server = Server::start("memory:", &["--accounts", &file.display().to_string()]);
    let mut alice = Client::connect(server.addr()).expect("it runs");
    let mut ask = |words: &[&str]| alice.ask(words).expect("it runs");
    assert!(ask(&["LOGIN", "alice", "secret"]).integer().is_some());
    assert!(ask(&["QCREATE", "q"]).integer().is_some());
    assert_eq!(ask(&["SEND", "q", "nobody else is there", "TO", "*"]).integer(), Some(0));
    set("bob");
    wait_until("the file is read again", || ask(&["ACCOUNTS"]).list().len() == 2);
    assert_eq!(ask(&["SEND", "q", "hello", "TO", "*"]).integer(), Some(1));
    assert!(ask(&["LOGIN", "bob", "secret"]).integer().is_some());
    assert_eq!(ask(&["POP", "QUEUE", "q"]).body(), Some("hello"));
}
