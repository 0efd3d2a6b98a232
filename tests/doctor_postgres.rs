//! `posthaste admin doctor` with a database behind the tier: directly, through a pooler, and with somebody in the way.

#[path = "support/pooler.rs"]
mod pooler;
#[path = "support/postgres.rs"]
mod postgres;
#[path = "support/session.rs"]
mod session;
#[path = "support/mod.rs"]
mod support;

use std::process::Command;

use pooler::Pooler;
use postgres::Postgres;
use serde_json::Value as Json;
use session::Session;
use support::Server;
use support::patience::wait_for;

/// What it finds about the database, the pooler and the clock: whether it is a problem, and its text.
fn findings(server: &Server, store: &str) -> Vec<(bool, String)> {
    let http = server.http().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    command.args(["admin", "doctor", "--json", "--older-than", "0s", "--http", &http, "--store", store]);
    let output = command.output().expect("the program runs");
    let report: Json = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let rows = report["findings"].as_array().cloned().unwrap_or_default();
    let mine = rows
        .into_iter()
        .filter(|row| ["database", "pooler", "clock"].iter().any(|word| row["about"] == *word));
    mine.map(|row| (row["problem"] == true, row["text"].as_str().unwrap_or_default().to_owned())).collect()
}

#[test]
fn a_pooler_is_noticed_with_its_mode_and_its_absence_too() {
    // Dead rows and WAL must not depend on what the template left.
    let postgres = Postgres::start(&[]);
    let database = postgres.create_database();
    let pooler = Pooler::start(&postgres, 8);
    let server =
        Server::start_with_http(&postgres.url(&database), &["--max-clients", "10", "--workers", "1"]);
    let about_poolers = |store: &str| -> Vec<(bool, String)> {
        findings(&server, store).into_iter().filter(|(_, text)| text.contains("pooler")).collect()
    };
    assert_eq!(about_poolers(&postgres.url(&database)), []);
    let found = about_poolers(&pooler.url(&database));
    assert!(found.len() == 1 && !found[0].0 && found[0].1.contains("transaction mode"), "{found:?}");
}

#[test]
fn every_figure_of_the_store_has_its_metric() {
    let postgres = Postgres::start(&[]);
    let database = postgres.create_database();
    let server = Server::start_with_http(&postgres.url(&database), &[]);
    let status: Json = serde_json::from_str(&server.page("/v1/status").1).expect("JSON");
    let figures = status["figures"].as_object().map_or(0, serde_json::Map::len);
    let metrics = wait_for("the keeper hears itself", || {
        let metrics = server.page("/metrics").1;
        if metrics.contains("\nposthaste_keeper_listens 1\n") { Ok(metrics) } else { Err(metrics) }
    });
    let of_store = |line: &&str| {
        ["posthaste_store_", "posthaste_keeper_", "posthaste_messages_total{"]
            .iter()
            .any(|name| line.starts_with(name))
    };
    assert_eq!(metrics.lines().filter(of_store).count(), figures, "{status}\n{metrics}");
    assert!(figures > 10, "{status}");
}

#[test]
fn who_pins_the_horizon_is_named() {
    let postgres = Postgres::start(&[]);
    let database = postgres.create_database();
    let url = postgres.url(&database);
    let server = Server::start_with_http(&url, &["--max-clients", "10", "--workers", "1"]);
    let mut session = Session::open(&postgres, &database, "postgres");
    session.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM posthaste.queue");
    let pid = session.run("SELECT pg_backend_pid()");
    let found = findings(&server, &url);
    let named = |(is_problem, text): &(bool, String)| {
        *is_problem && text.contains(&format!("pg_terminate_backend({pid})"))
    };
    assert!(found.iter().any(named), "{pid}: {found:?}");
}
