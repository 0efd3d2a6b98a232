//! `posthaste admin store` against a real PostgreSQL, in good health and with somebody in the way.

#[path = "support/client.rs"]
mod client;
#[path = "support/postgres.rs"]
mod postgres;
#[path = "support/session.rs"]
mod session;
#[path = "support/mod.rs"]
mod support;

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use client::Client;
use postgres::{Postgres, shared};
use serde_json::Value as Json;
use session::Session;
use support::Server;
use support::patience::wait_for;

fn run(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    command.args(["admin", "store"]).args(words).env_remove("PGPASSWORD").output().expect("the program runs")
}

fn text(url: &str, words: &[&str]) -> String {
    let output = run(&[&["--store", url], words].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The report, in which every open transaction counts.
fn report(url: &str) -> Json {
    serde_json::from_str(&text(url, &["--json", "--older-than", "0s"])).expect("JSON")
}

fn advice(report: &Json) -> Vec<String> {
    let advice = report["advice"].as_array().expect("a list");
    advice.iter().map(|line| line.as_str().expect("text").to_owned()).collect()
}

/// The process at the other end of a session.
fn pid(session: &mut Session) -> String {
    session.run("SELECT pg_backend_pid()")
}

/// The advice that names this process.
fn advice_on(report: &Json, pid: &str) -> Option<String> {
    advice(report).into_iter().find(|line| line.contains(&format!("pid {pid} ")))
}

#[test]
fn a_healthy_store_shows_its_tables_and_needs_nothing() {
    let server = Postgres::start(&[]);
    let database = server.create_database();
    let url = server.url(&database);
    let queue = Server::start(&url, &[]);
    let mut client = Client::login(queue.addr(), "alice").expect("it runs");
    for words in [
        &["QCREATE", "q"][..],
        &["SEND", "q", "one"],
        &["SEND", "q", "two"],
        &["SEND", "q", "urgent", "PRIORITY", "9"],
    ] {
        client.ask(words).expect("it runs");
    }
    queue.stop();
    // A session hands in its statistics when it ends, which takes a moment.
    let report = wait_for("its statistics", || {
        let report = report(&url);
        if report["state"]["messages"] == 3 { Ok(report) } else { Err(format!("{report:#}")) }
    });
    assert_eq!(report["state"]["ring_current"], "message_0");
    assert_eq!(report["state"]["ring_since"], Json::Null, "it never turned");
    let table = |name: &str| {
        let tables = report["tables"].as_array().expect("a list");
        tables.iter().find(|table| table["table"] == name).unwrap_or_else(|| panic!("{name} in {report:#}"))
    };
    for (name, part, live) in
        [("message_0", "ring, current", 2), ("message_1", "ring, next", 0), ("message_aside", "aside", 1)]
    {
        assert_eq!((&table(name)["part"], &table(name)["live_rows"]), (&part.into(), &live.into()), "{name}");
        assert!(table(name)["index_bytes"].as_i64() > Some(0), "{name}");
    }
    assert!(table("message_0")["table_bytes"].as_i64() > Some(0));
    assert_eq!(advice(&report), Vec::<String>::new());
    let shown = text(&url, &[]);
    assert!(shown.contains("message_aside") && shown.ends_with("what to do\nnothing\n"), "{shown}");
}

#[test]
fn whoever_keeps_dead_rows_is_named_with_what_to_do() {
    let database = shared().create_database();
    let url = shared().url(&database);
    let mut idle = Session::open(shared(), &database, "postgres");
    let pid = pid(&mut idle);
    let begun = Instant::now();
    idle.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM posthaste.message");
    let found = report(&url);
    let said = advice_on(&found, &pid).unwrap_or_else(|| panic!("{found:#}"));
    for words in
        ["(psql, user postgres)", "idle in transaction", "dead rows", "the ring", "pg_terminate_backend"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    let holder = &found["holders"][0];
    assert_eq!((&holder["kind"], &holder["name"]), (&"session".into(), &pid.as_str().into()));
    assert!(holder["query_start"].is_string() && holder["transaction_s"].is_number(), "{holder}");
    let shown = text(&url, &[]);
    // A machine that stands still may make it one.
    let is_long = begun.elapsed() >= Duration::from_secs(10);
    assert!(is_long || !shown.contains("pg_terminate_backend"), "open for less than 10 s is no finding");
    idle.run("COMMIT");
    assert_eq!(advice_on(&report(&url), &pid), None);
    // Without a snapshot it holds no rows, and still nobody can truncate what it has locked.
    idle.run("BEGIN; SELECT count(*) FROM posthaste.message");
    let said = advice_on(&report(&url), &pid).expect("advice");
    assert!(said.contains("the ring from turning") && !said.contains("dead rows"), "{said}");
    idle.run("COMMIT; SET application_name = 'pg_dump'; BEGIN");
    let said = advice_on(&report(&url), &pid).expect("advice");
    assert!(said.contains("pg_dump") && said.contains("the ring from turning"), "{said}");
    idle.run("CREATE TABLE bill ()");
    assert_eq!(advice_on(&report(&url), &pid).filter(|said| said.contains("ring")), None, "it reads that");
}

#[test]
fn who_keeps_requests_waiting_is_named_in_a_transaction_or_not() {
    let database = shared().create_database();
    names_who_keeps_requests_waiting(&database, &shared().url(&database));
}

#[test]
fn middlewares_are_known_by_the_name_that_the_url_gives_their_sessions() {
    let database = shared().create_database();
    names_who_keeps_requests_waiting(
        &database,
        &format!("{}?application_name=bob's%20caf%C3%A9", shared().url(&database)),
    );
}

fn names_who_keeps_requests_waiting(database: &str, url: &str) {
    let queue = Server::start(url, &[]);
    let mut client = Client::login(queue.addr(), "alice").expect("it runs");
    client.ask(&["QCREATE", "q"]).expect("it runs");
    let mut session = Session::open(shared(), database, "postgres");
    let pid = pid(&mut session);
    assert!(report(url)["state"]["posthaste_sessions"].as_i64() > Some(0));
    for (hold, words, release) in [
        // What every batch that sends has, shared; any role can take it.
        (
            "SELECT pg_advisory_lock(hashtext('posthaste.append'), 0)",
            ["session of pid", "keeps requests waiting"],
            "SELECT pg_advisory_unlock_all()",
        ),
        ("BEGIN; SELECT posthaste.delete_queue('q')", ["transaction of pid", "requests waiting"], "ROLLBACK"),
    ] {
        session.run(hold);
        client.send(&["SEND", "q", "x"]).expect("it runs");
        let said = wait_for("who is waited for", || {
            let report = report(url);
            advice_on(&report, &pid).filter(|said| said.contains("waiting")).ok_or(format!("{report:#}"))
        });
        assert!(
            words.iter().all(|word| said.contains(word)) && said.contains("pg_terminate_backend"),
            "{said}"
        );
        session.run(release);
        assert!(client.answer().expect("an answer").integer().is_some());
    }
}

#[test]
fn slots_prepared_transactions_and_settings_are_found() {
    let server = Postgres::start(&["max_prepared_transactions=2", "synchronous_commit=off"]);
    let database = server.create_database();
    let url = server.url(&database);
    server.psql(&database, "SELECT pg_create_physical_replication_slot('gone', true)");
    let mut session = Session::open(&server, &database, "postgres");
    session.run("BEGIN; SELECT posthaste.create_queue('q'); PREPARE TRANSACTION 'half'");
    let advice = advice(&report(&url));
    for words in ["pg_drop_replication_slot('gone')", "ROLLBACK PREPARED 'half'", "synchronous_commit is off"]
    {
        assert!(advice.iter().any(|line| line.contains(words)), "{words}: {advice:#?}");
    }
}

#[test]
fn a_user_that_does_not_see_others_is_told_so() {
    let server = Postgres::start(&[]);
    let database = server.create_database();
    server.psql(&database, "CREATE ROLE app LOGIN; GRANT USAGE ON SCHEMA posthaste TO app");
    server.psql(&database, "GRANT SELECT ON posthaste.migration, posthaste.ring, posthaste.ring_turn TO app");
    let url = format!("postgres://app@127.0.0.1:{}/{database}", server.port());
    assert!(advice(&report(&url)).iter().any(|line| line.contains("GRANT pg_monitor")));
}

#[test]
fn who_keeps_requests_waiting_is_named_to_a_user_that_does_not_see_others() {
    let server = shared();
    let database = server.create_empty_database_for("modest");
    let url = server.url(&database).replace("postgres@", "modest@");
    let mut migrate = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    assert!(migrate.args(["migrate", "--store", &url]).status().expect("it runs").success());
    let queue = Server::start(&url, &[]);
    let mut client = Client::login(queue.addr(), "alice").expect("it runs");
    client.ask(&["QCREATE", "q"]).expect("it runs");
    let mut session = Session::open(server, &database, "postgres");
    let pid = pid(&mut session);
    session.run("BEGIN; SELECT posthaste.delete_queue('q')");
    client.send(&["SEND", "q", "x"]).expect("it runs");
    let said = wait_for("who is waited for", || {
        let report = report(&url);
        advice_on(&report, &pid).filter(|said| said.contains("waiting")).ok_or(format!("{report:#}"))
    });
    assert!(
        said.contains("in no transaction that this user sees") && said.contains("pg_terminate_backend"),
        "{said}"
    );
    session.run("ROLLBACK");
    assert!(client.answer().expect("an answer").integer().is_some());
}

#[test]
fn what_is_no_postgresql_is_said_with_where_to_look() {
    for (store, words) in [("embedded:/tmp/x", "INFO"), ("memory:", "INFO"), ("nothing", "unknown store")] {
        let output = run(&["--store", store]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), error.lines().count()), (Some(2), 1), "{error}");
        assert!(error.contains(words), "{error}");
    }
    let empty = shared().create_empty_database();
    let output = run(&["--store", &shared().url(&empty)]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("posthaste migrate"));
}
