//! Connections to PostgreSQL that end, or cannot be made, while others work.

mod support;

#[path = "support/client.rs"]
mod client;

#[path = "support/news.rs"]
mod news;

#[path = "support/postgres.rs"]
mod postgres;

#[path = "support/session.rs"]
mod session;

use std::thread;
use std::time::{Duration, Instant};

use client::{Answer, Client};
use news::{wait_for_info, wait_until_blocked};
use postgres::Postgres;
use session::Session;
use support::Server;
use support::patience::{wait_for, wait_until, wait_within};

/// A server of its own, a database in it, and a middleware over that.
fn both(arguments: &[&str]) -> (Postgres, String, Server) {
    let postgres = Postgres::start(&[]);
    let database = postgres.create_database();
    let server = Server::start_with_http(&postgres.url(&database), arguments);
    (postgres, database, server)
}

fn connect(server: &Server) -> Client {
    Client::connect(server.addr()).expect("it runs")
}

/// One request and its answer, which is no error.
fn ask(client: &mut Client, request: &str) -> Answer {
    let answer = client.ask(&request.split(' ').collect::<Vec<_>>()).expect("it runs");
    assert!(!matches!(answer, Answer::Error(_)), "{request}: {answer:?}");
    answer
}

/// Lets further connections into the database, or none.
fn let_in(postgres: &Postgres, database: &str, further: bool) {
    postgres.psql("postgres", &format!("ALTER DATABASE {database} WITH ALLOW_CONNECTIONS {further}"));
}

/// Ends the keeper's connection.
fn end_keepers(postgres: &Postgres, database: &str) {
    let sql = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}' AND query ~ 'upkeep'"
    );
    wait_until("the keeper's connection is ended", || postgres.psql("postgres", &sql) == "t");
}

/// Time passes, messages are found and nobody hears of an outage, for as long as requests can be served.
#[test]
fn without_a_connection_of_its_own_the_keeper_uses_one_of_the_workers() {
    const LASTS: Duration = Duration::from_secs(5);
    let (postgres, database, server) = both(&["--workers", "1"]);
    let (mut ann, mut bob) = (connect(&server), connect(&server));
    ask(&mut ann, "QCREATE q");
    wait_for_info(server.addr(), "keeper_listens:1");
    let mut app = Session::open(&postgres, &database, "postgres");
    assert_eq!(app.run("SELECT 1"), "1");
    let_in(&postgres, &database, false);
    end_keepers(&postgres, &database);
    let begun = Instant::now();
    let mut rounds = 0;
    while begun.elapsed() < LASTS {
        let (status, said) = server.readiness();
        assert_eq!((status, said.as_str()), (200, "ready"));
        bob.send(&["POP", "QUEUE", "q", "BLOCK", "600000"]).expect("it runs");
        wait_until_blocked(server.addr(), 1);
        ask(&mut ann, "SEND q x DELAY 100");
        assert_eq!(bob.answer().expect("it runs").body(), Some("x"));
        rounds += 1;
    }
    assert!(rounds > 5, "messages with a delay come late: {rounds}");
    // It finds by itself what nobody tells.
    bob.send(&["POP", "QUEUE", "q", "BLOCK", "600000"]).expect("it runs");
    wait_until_blocked(server.addr(), 1);
    app.run("SELECT posthaste.send('app', 'q', 'found')");
    assert_eq!(bob.answer().expect("it runs").body(), Some("found"));
    let_in(&postgres, &database, true);
    wait_for_info(server.addr(), "keeper_listens:1");
    assert!(!server.log().contains("requests get STORE"), "{}", server.log());
}

/// They are counted at the server, which lets in only so many.
#[test]
fn connections_that_are_of_no_use_are_ended() {
    const WORKERS: usize = 6;
    const ENDED_WITHIN: Duration = Duration::from_secs(30);
    let (postgres, database, server) = both(&["--batch", "1", "--workers", &WORKERS.to_string()]);
    ask(&mut connect(&server), "QCREATE q");
    let sql = format!("SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}'");
    let connections = || postgres.psql("postgres", &sql).parse::<usize>().expect("a number");
    let all_send = || {
        thread::scope(|scope| {
            for _ in 0..2 * WORKERS {
                scope.spawn(|| {
                    let mut client = connect(&server);
                    (0..10).for_each(|_| drop(client.ask(&["SEND", "q", "x"])));
                });
            }
        });
    };
    wait_for("several workers are connected", || {
        all_send();
        Some(connections()).filter(|count| *count > 3).ok_or("not yet")
    });
    let read_only = |yes: &str| {
        postgres.psql("postgres", &format!("ALTER SYSTEM SET default_transaction_read_only = {yes}"));
        postgres.psql("postgres", "SELECT pg_reload_conf()");
    };
    read_only("on");
    wait_within(ENDED_WITHIN, "no connection is left", || {
        all_send();
        let left = connections();
        if left == 0 { Ok(()) } else { Err(left) }
    });
    read_only("off");
    wait_for("requests are served again", || {
        let sent = connect(&server).ask(&["SEND", "q", "x"]).expect("it runs");
        sent.integer().ok_or(format!("{sent:?}"))
    });
}
