//! Timers over PostgreSQL: what ends together comes back together, however much it is.

#[path = "support/client.rs"]
mod client;
#[path = "support/postgres.rs"]
mod postgres;
#[path = "support/session.rs"]
mod session;
#[path = "support/mod.rs"]
mod support;

use std::thread::sleep;
use std::time::{Duration, Instant};

use client::{Answer, Client};
use postgres::{Postgres, shared};
use session::Session;
use support::Server;
use support::patience::{PATIENCE, wait_for};

/// Messages that a tick of the keeper gives back at most, and how many are due here at once.
const TICK: usize = 1000;
const LEASES: usize = 10 * TICK;

/// The pauses between so many ticks, if each came when it is due.
const PAUSES: Duration = Duration::from_millis(9 * 50);

/// How often that is tried. Machines that are shared stand still at times.
const TRIES: usize = 10;

/// Leases of account 1 in queue 1 that end at this time; when that is.
fn lease(postgres: &Postgres, database: &str, leases: usize, due: &str) -> u64 {
    let due = postgres.psql(
        database,
        &format!(
            "WITH made AS (INSERT INTO posthaste.message (ring, id, place, queue_id, sender_id, recipient_id, due_ms, holder_id, receipt,
                deliveries, sent_ms, body)
            SELECT 2, n, posthaste.place_of(0, n), 1, 1, 0, due, 1, n, 1, 0, 'x'
            FROM (SELECT {due} AS due) AS one, generate_series(1, {leases}) AS n
            RETURNING due_ms) SELECT max(due_ms) FROM made"
        ),
    );
    number(&due)
}

#[test]
fn thousands_of_leases_that_end_together_come_back_without_a_pause() {
    let postgres = shared();
    let database = postgres.create_database();
    let server = Server::start(&postgres.url(&database), &[]);
    let mut client = Client::login(server.addr(), "ann").expect("it runs");
    assert_eq!(client.ask(&["QCREATE", "q"]).expect("an answer"), Answer::Integer(1));
    let alone = postgres.create_database();
    let mut session = Session::open(postgres, &database, "postgres");
    let mut by_hand = Session::open(postgres, &alone, "postgres");
    let mut is_without_pauses = || {
        let due_ms = lease(postgres, &database, LEASES, "posthaste.now_ms() + 1000");
        let late = late(&mut session, due_ms);
        let purged = client.ask(&["QPURGE", "q"]).expect("an answer");
        assert_eq!(purged.integer(), i64::try_from(LEASES).ok());
        lease(postgres, &alone, LEASES, "1000::bigint");
        let work = work(&mut by_hand);
        println!("late {late:?}, of which {work:?} are work");
        late < work + PAUSES / 2
    };
    assert!((0..TRIES).any(|_| is_without_pauses()), "they come back with pauses");
}

/// How late the last of the leases has ended that were to end then.
fn late(session: &mut Session, due_ms: u64) -> Duration {
    wait_for("all leases have ended", || {
        let seen = session.run("SELECT count(due_ms), posthaste.now_ms() FROM posthaste.message");
        match seen.split_once('|') {
            Some(("0", now)) => Ok(Duration::from_millis(number(now) - due_ms)),
            _ => Err(seen),
        }
    })
}

/// How long as many leases keep somebody busy who does nothing else.
fn work(session: &mut Session) -> Duration {
    let begun = Instant::now();
    while session.run("SELECT number FROM posthaste.upkeep(1000, 0, 1000) WHERE kind = 't'") != "1000" {
        assert!(begun.elapsed() < PATIENCE, "leases do not end");
    }
    let work = begun.elapsed();
    session.run("DELETE FROM posthaste.message");
    work
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("{text} is a number"))
}

#[test]
fn a_tick_says_when_there_may_be_more_than_it_does() {
    let postgres = shared();
    let database = postgres.create_database();
    let sql = |sql: &str| postgres.psql(&database, sql);
    sql("SELECT posthaste.login('ann'), posthaste.create_queue('q')");
    lease(postgres, &database, 25, "1000::bigint");
    for (done, ended, left) in [(999, 10, 15), (999, 10, 5), (1000, 5, 0)] {
        let ticked = sql("SELECT kind, number, due_ms FROM posthaste.upkeep(1000, 0, 10)");
        let told = format!("v||\nc|{ended}|\nt|{done}|1000");
        assert_eq!(ticked, told, "one piece of news, how many have ended, and how far it is");
        assert_eq!(sql("SELECT count(due_ms) FROM posthaste.message"), left.to_string());
    }
}

/// As it is where a transaction elsewhere keeps what was removed in the indexes by time: a second for an hour that is
/// gone through.
const SLOW_PAST: &str = "
    ALTER FUNCTION posthaste.upkeep(bigint, bigint, int) RENAME TO upkeep_without_it;
    CREATE FUNCTION posthaste.upkeep(given_ms bigint, from_ms bigint, most int) RETURNS SETOF posthaste.answer
    LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pg_sleep(greatest(coalesce(given_ms, posthaste.now_ms()) - from_ms, 0) / 3600000.0);
        RETURN QUERY SELECT * FROM posthaste.upkeep_without_it(given_ms, from_ms, most);
    END $$";

#[test]
fn leases_end_though_it_takes_days_to_go_through_all_of_the_past() {
    let postgres = shared();
    let database = postgres.create_database();
    postgres.psql(&database, "SELECT posthaste.login('ann'), posthaste.create_queue('q')");
    // One that comes to light late, and one that ends while the past is gone through.
    lease(postgres, &database, 1, "posthaste.now_ms() - 600000");
    postgres.psql(&database, "SELECT setval('posthaste.message_id', 1)");
    postgres.psql(&database, SLOW_PAST);
    let server = Server::start(&postgres.url(&database), &[]);
    let mut client = Client::login(server.addr(), "ann").expect("it runs");
    let pop = ["POP", "QUEUE", "q", "LEASE", "1000", "BLOCK", "180000"];
    for _ in 0..2 {
        assert_eq!(client.ask(&pop).expect("an answer").body(), Some("x"));
    }
}

/// How long a message is delayed, and how late it may be in a quiet moment.
const DELAY: Duration = Duration::from_millis(100);
const LATE_MAX: Duration = Duration::from_millis(200);

/// How many messages are delayed in a round, each after another pause, so that they come due at all moments of the keeper's
/// rhythm: whoever was just woken knows when its last tick was. Then half of them are less than half as late as any
/// may be.
const ROUND: u32 = 17;
const PAUSE: Duration = Duration::from_millis(23);

#[test]
fn in_a_quiet_moment_timers_are_as_little_late_as_is_promised() {
    let database = shared().create_database();
    let server = Server::start(&shared().url(&database), &[]);
    let mut client = Client::login(server.addr(), "ann").expect("it runs");
    client.ask(&["QCREATE", "q"]).expect("an answer");
    let delay = DELAY.as_millis().to_string();
    let mut late = |pause: Duration, make: &[&[&str]], pop: &[&str]| {
        sleep(pause);
        let begun = make.iter().map(|words| {
            let asked = Instant::now();
            client.ask(words).expect("an answer");
            asked
        });
        let begun = begun.last().expect("a request");
        assert_eq!(client.ask(pop).expect("an answer").body(), Some("x"));
        begun.elapsed().saturating_sub(DELAY)
    };
    let pop = ["POP", "QUEUE", "q", "BLOCK", "60000"];
    for make in [
        &[&["SEND", "q", "x", "DELAY", &delay][..]][..],
        &[&["SEND", "q", "x"], &["POP", "QUEUE", "q", "LEASE", &delay]],
    ] {
        let mut is_in_time = || {
            let mut round: Vec<Duration> =
                (0..ROUND).map(|number| late(PAUSE * number, make, &pop)).collect();
            round.sort_unstable();
            println!("late {round:?}");
            round[round.len() / 2] < LATE_MAX / 2
        };
        assert!((0..TRIES).any(|_| is_in_time()), "{make:?}");
    }
}

/// Whether that is deleted or stays is known at the end of the other transaction.
#[test]
fn a_message_waits_for_who_may_be_deleting_its_dead_letter_queue() {
    let postgres = shared();
    let database = postgres.create_database();
    let server = Server::start(&postgres.url(&database), &[]);
    let mut client = Client::login(server.addr(), "ann").expect("it runs");
    let mut ask = |line: &str| client.ask(&line.split(' ').collect::<Vec<_>>()).expect("an answer");
    let mut app = Session::open(postgres, &database, "postgres");
    for (end, goes_to) in [("ROLLBACK", "dead"), ("COMMIT", "work")] {
        ask("QCREATE dead");
        ask("QCREATE work DEADLETTER dead AFTER 1");
        ask("SENDMANY work nack lease");
        let nacked = ask("POP QUEUE work LEASE 600000");
        app.run("BEGIN; SELECT posthaste.delete_queue('dead')");
        ask("POP QUEUE work LEASE 100");
        let receipt = nacked.get("receipt").and_then(Answer::text).expect("a receipt").to_owned();
        assert_eq!(ask(&format!("NACK {receipt}")), Answer::Integer(1));
        // It is tried again each second.
        let until = Instant::now() + Duration::from_millis(2500);
        while Instant::now() < until {
            assert_eq!(ask("POP QUEUE work"), Answer::Null, "its last delivery is over");
            assert_eq!(ask(&format!("ACK {receipt}")), Answer::Integer(0));
            sleep(Duration::from_millis(50));
        }
        app.run(end);
        for _ in 0..2 {
            let found = wait_for(format!("it is in {goes_to}"), || {
                let found = ask(&format!("POP QUEUE {goes_to}"));
                if found.body().is_some() { Ok(found) } else { Err(format!("{found:?}")) }
            });
            let reason = match found.body() {
                Some("nack") => "nack",
                _ => "lease ran out",
            };
            let given = found.get("reason").and_then(Answer::text);
            assert_eq!(given, Some(reason).filter(|_| goes_to == "dead"), "{found:?}");
        }
    }
}
