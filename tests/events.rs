//! What a queue tier's record tells of the store: whatever can explain a dip, as rows of `events.csv`.

#[path = "support/client.rs"]
mod client;
#[path = "support/postgres.rs"]
mod postgres;
mod support;

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use client::Client;
use postgres::{Postgres, Stop};
use support::Server;
use support::patience::{wait_for, wait_until};

/// The rows of a record's events.
struct Events(PathBuf);

impl Events {
    /// Waits for an event of the store; when it began and how long it took, in seconds.
    #[track_caller]
    fn wait_for(&self, kind: &str) -> (f64, f64) {
        wait_for(format!("the event '{kind}'"), || {
            let text = fs::read_to_string(&self.0).expect("events");
            let number = |text: &str| text.parse::<f64>().expect("a number");
            let mut rows = text.lines().map(|row| row.split(',').collect::<Vec<_>>());
            let found = rows.rfind(|row| row[2..] == ["store", kind]);
            found.map(|row| (number(row[0]), number(row[1]) / 1e3)).ok_or(text)
        })
    }
}

#[test]
fn a_database_s_checkpoints_turns_sweeps_and_absences_are_told() {
    let home = tempfile::tempdir().expect("a directory");
    let record = home.path().join("record");
    let mut postgres = Postgres::start(&[]);
    let database = postgres.create_database();
    let arguments = ["--record", &record.to_string_lossy(), "--window", "50ms"];
    let server = Server::start(&postgres.url(&database), &arguments);
    let events = Events(record.join("events.csv"));
    let mut client = Client::login(server.addr(), "alice").expect("it runs");
    let mut ask = |words: &[&str]| client.ask(words).expect("an answer");

    ask(&["QCREATE", "q"]);
    let body = "x".repeat(1900);
    for _ in 0..100 {
        ask(&[&["SENDMANY", "q"], &[&*body; 15][..]].concat());
    }
    events.wait_for("ring turned");

    postgres.psql(
        &database,
        "INSERT INTO posthaste.message (ring, id, place, queue_id, sender_id, recipient_id, sent_ms, body)
         SELECT 2, id, posthaste.place_of(0, id), (SELECT id FROM posthaste.queue WHERE name = 'q'), 1, 0,
             posthaste.now_ms(), 'x'::bytea
         FROM (SELECT nextval('posthaste.message_id') AS id FROM generate_series(1, 60000)) AS new",
    );
    assert_eq!(ask(&["QPURGE", "q"]).integer(), Some(61_500));
    events.wait_for("large queue emptied");

    wait_until("a checkpoint is told", || {
        postgres.psql(&database, "CHECKPOINT");
        thread::sleep(Duration::from_millis(100));
        fs::read_to_string(&events.0).expect("events").contains("checkpoint")
    });
    let (_, took) = events.wait_for("checkpoint");
    assert!(took > 0.0, "it took {took} s");

    postgres.stop(Stop::Immediate);
    let (lost, _) = events.wait_for("PostgreSQL lost");
    postgres.start_again();
    let (away, took) = events.wait_for("PostgreSQL out of reach");
    assert!(away >= lost && took > 0.0, "lost at {lost} s, away from {away} s for {took} s");
    assert!(server.stop().success());
}
