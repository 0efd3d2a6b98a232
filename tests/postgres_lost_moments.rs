//! A PostgreSQL that flushes no commit loses the last moments when one of its processes is killed, and whoever was met
//! in them: the next one is given his number, and must not get what is for him. The same happens when a database is
//! replaced by a dump of it.

mod support;

#[path = "support/client.rs"]
mod client;

#[path = "support/pooler.rs"]
mod pooler;

#[path = "support/postgres.rs"]
mod postgres;

use std::thread::sleep;
use std::time::Duration;

use client::{Answer, Client};
use pooler::Pooler;
use postgres::Postgres;
use rustix::process::{Pid, Signal, kill_process};
use support::Server;
use support::patience::{RECOVERY, wait_for, wait_within};

/// Sessions of a pooler, fewer than a middleware has connections.
const SESSIONS: usize = 3;

/// Behind a pooler it takes a second to see that the database has lost something.
const NOTICED: Duration = Duration::from_secs(5);

#[test]
fn a_killed_backend_gives_nobody_what_is_for_somebody_whose_account_it_took() {
    for is_pooled in [false, true] {
        // What a commit has not flushed is left alone for as long as that.
        let postgres = Postgres::start(&["synchronous_commit=off", "wal_writer_delay=10s"]);
        let database = postgres.create_database();
        let pooler = is_pooled.then(|| Pooler::start(&postgres, SESSIONS));
        let url = pooler.as_ref().map_or_else(|| postgres.url(&database), |pooler| pooler.url(&database));
        let servers = [(); 2].map(|()| Server::start(&url, &[]));
        ask(&servers[0], &["QCREATE", "q"]);
        // Somebody may have flushed it for another reason.
        let log_in = |attempt| log_in_and_kill(&postgres, &database, &servers[0], format!("carl{attempt}"));
        let (name, mut carl) = (0..20).find_map(log_in).expect("an account is gone");
        if is_pooled {
            sleep(NOTICED);
        }
        let done = |server: &Server, words: &[&str]| {
            wait_for("PostgreSQL is reached again", || match ask(server, words) {
                Answer::Integer(_) => Ok(()),
                answer => Err(format!("{answer:?}")),
            });
        };
        done(&servers[0], &["SEND", "q", "x", "TO", &name]);
        // Who has seen it away does not ask it again for a moment.
        done(&servers[1], &["QCREATE", "q"]);
        let mut dora = Client::login(servers[1].addr(), "dora").expect("it runs");
        assert_eq!(dora.ask(&["POP", "QUEUE", "q"]).expect("it runs"), Answer::Null, "pooled: {is_pooled}");
        carl.ask(&["SEND", "q", "y", "TO", "dora"]).expect("it runs");
        assert_eq!(carl.ask(&["POP", "QUEUE", "q"]).expect("it runs").body(), Some("x"));
        let seen = dora.ask(&["POP", "QUEUE", "q"]).expect("it runs");
        assert_eq!(seen.get("from").and_then(Answer::text), Some(name.as_str()));
    }
}

/// A dump has all that tells one database from another, and the server has not been restarted.
#[test]
fn a_database_made_from_a_dump_gives_nobody_what_is_for_somebody_whose_account_it_lacks() {
    let postgres = Postgres::start(&[]);
    let database = postgres.create_database();
    let server = Server::start(&postgres.url(&database), &[]);
    let mut shop = Client::login(server.addr(), "shop").expect("it runs");
    shop.ask(&["QCREATE", "q"]).expect("it runs");
    let dump = postgres.dump(&database);
    let mut bob = Client::login(server.addr(), "bob").expect("it runs");
    let other = postgres.load(&dump);
    let number = |database: &str, name: &str| {
        postgres.psql(database, &format!("SELECT id FROM posthaste.account WHERE name = '{name}'"))
    };
    postgres.psql(&other, "SELECT posthaste.login('mallory')");
    assert_eq!(number(&other, "mallory"), number(&database, "bob"), "or it shows nothing");
    postgres.replace(&database, &other);
    wait_for("PostgreSQL is reached again", || {
        match shop.ask(&["SEND", "q", "secret", "TO", "bob"]).expect("it runs") {
            Answer::Integer(_) => Ok(()),
            answer => Err(format!("{answer:?}")),
        }
    });
    assert_eq!(postgres.psql(&database, "SELECT count(*) FROM posthaste.pop('mallory', 'q')"), "0");
    assert_eq!(bob.ask(&["POP", "QUEUE", "q"]).expect("it runs").body(), Some("secret"));
}

/// Asks once over a connection of its own.
fn ask(server: &Server, words: &[&str]) -> Answer {
    Client::connect(server.addr()).expect("the server runs").ask(words).expect("the server runs")
}

/// Somebody logs in and a backend is killed at once; who that was, if the account is gone.
fn log_in_and_kill(
    postgres: &Postgres,
    database: &str,
    server: &Server,
    name: String,
) -> Option<(String, Client)> {
    // Both may still be recovering from the attempt before.
    wait_within(RECOVERY, "PostgreSQL is reached again", || match ask(server, &["QINFO", "q"]) {
        Answer::Error(why) => Err(why),
        _ => Ok(()),
    });
    let recovered = |database: &str, sql: &str| {
        wait_within(RECOVERY, "PostgreSQL has recovered", || postgres.try_psql(database, sql))
    };
    let asked = |sql: &str| recovered("postgres", sql);
    asked("CHECKPOINT");
    let backend = format!("SELECT pid FROM pg_stat_activity WHERE datname = '{database}' LIMIT 1");
    let pid = wait_for("a backend", || {
        let found = asked(&backend);
        found.parse().ok().and_then(Pid::from_raw).ok_or(found)
    });
    let client = Client::login(server.addr(), &name).expect("it runs");
    let _ = kill_process(pid, Signal::KILL); // it may have ended by itself
    let there = format!("SELECT count(*) FROM posthaste.account WHERE name = '{name}'");
    (recovered(database, &there) == "0").then_some((name, client))
}
