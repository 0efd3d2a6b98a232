//! Several servers in the URL: a standby is passed over, and takes over when it is promoted.

mod support;

#[path = "support/client.rs"]
mod client;

#[path = "support/crew.rs"]
mod crew;

#[path = "support/pair.rs"]
mod pair;

#[path = "support/postgres.rs"]
mod postgres;

use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use client::{Answer, Client};
use crew::Crew;
use pair::{primary, standby_of, url};
use postgres::Postgres;
use support::Server;

/// How long anything is waited for that comes by itself. Machines that are shared stand still at times.
const PATIENCE: Duration = Duration::from_secs(180);

/// Two servers, the second of which has everything that the first one acknowledged; and a database.
fn pair() -> (Postgres, Postgres, String) {
    let primary = primary();
    let database = primary.create_database();
    let standby = standby_of(&primary);
    (primary, standby, database)
}

#[test]
fn a_standby_is_refused_and_the_next_server_asked() {
    let (primary, standby, database) = pair();
    let mut alone = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    alone.args(["queue", "--listen", "127.0.0.1:0", "--http", "off", "--store", &standby.url(&database)]);
    let output = alone.output().expect("the program runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("takes no writes") && said.contains("name the primary"), "{said}");
    let server = Server::start(&url([&standby, &primary], &database), &[]);
    let mut client = Client::login(server.addr(), "ann").expect("it runs");
    client.ask(&["QCREATE", "q"]).expect("it runs");
    assert!(client.ask(&["SEND", "q", "hello"]).expect("it runs").integer().is_some());
    let popped = client.ask(&["POP", "QUEUE", "q"]).expect("it runs");
    assert_eq!(popped.body(), Some("hello"));
}

#[test]
fn a_promoted_standby_has_everything_and_is_found() {
    let (mut primary, standby, database) = pair();
    let server = Server::start_with_http(&url([&primary, &standby], &database), &[]);
    let crew = Crew::start(&[server.addr()], 6);
    crew.is_busy();
    primary.kill9();
    let start = Instant::now();
    loop {
        let (status, said) = server.readiness();
        if status == 503 && said.contains("is it running") && said.contains("takes no writes") {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "{status} {said}");
        sleep(Duration::from_millis(10));
    }
    crew.notices();
    standby.promote();
    let start = Instant::now();
    let mut client = Client::connect(server.addr()).expect("it runs");
    while !matches!(client.ask(&["QCREATE", "probe"]).expect("it runs"), Answer::Integer(_)) {
        assert!(start.elapsed() < PATIENCE, "the promoted standby is not used");
        sleep(Duration::from_millis(10));
    }
    crew.is_busy();
    crew.finish(server.addr());
}
