//! Messages that are moved, set aside or changed while others look for them: nobody misses one that is there all the
//! time.

#[path = "support/client.rs"]
mod client;
#[path = "support/place.rs"]
mod place;
#[path = "support/postgres.rs"]
mod postgres;
#[path = "support/session.rs"]
mod session;
#[path = "support/mod.rs"]
mod support;

use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use client::{Answer, Client};
use place::{Place, ask, login};
use postgres::shared;
use session::Session;

fn ask_line(client: &mut Client, line: &str) -> Answer {
    ask(client, &line.split(' ').collect::<Vec<_>>())
}

/// So many messages of bob's that were given up, in `dead`.
fn letters(bob: &mut Client, count: usize) {
    let bodies = vec!["x"; count];
    ask(bob, &[&["SENDMANY", "home"], &bodies[..]].concat());
    let leased = ask_line(bob, &format!("POP QUEUE home COUNT {count} LEASE 60000")).list();
    assert_eq!(leased.len(), count);
    let receipts = leased.iter().filter_map(|message| message.get("receipt").and_then(Answer::text));
    let nacks: String = receipts.map(|receipt| format!("NACK {receipt}\r\n")).collect();
    bob.write(nacks.as_bytes()).expect("it runs");
    for _ in 0..count {
        assert_eq!(bob.answer().expect("an answer"), Answer::Integer(1));
    }
}

#[test]
fn a_pop_by_sender_misses_nothing_while_letters_start_anew() {
    const LETTERS: usize = 1000;
    let place = Place::new();
    let servers = [place.middleware(&[]), place.middleware(&[])];
    let [mut bob, mut eve] = servers.each_ref().map(|server| login(server, "bob"));
    ask_line(&mut bob, "QCREATE dead");
    ask_line(&mut bob, "QCREATE home DEADLETTER dead AFTER 1");
    for round in 0..6 {
        letters(&mut bob, LETTERS);
        let missed = thread::scope(|scope| {
            let redriven = scope.spawn(|| ask_line(&mut eve, "QREDRIVE dead"));
            sleep(Duration::from_millis(20 * round));
            bob.write("POP FROM bob\r\n".repeat(LETTERS).as_bytes()).expect("it runs");
            let answers: Vec<_> = (0..LETTERS).map(|_| bob.answer().expect("an answer")).collect();
            assert!(redriven.join().expect("no panic").integer().is_some());
            answers.iter().filter(|answer| answer.body().is_none()).count()
        });
        assert_eq!(missed, 0, "round {round}: all {LETTERS} were there all the time");
    }
}

#[test]
fn a_pop_by_sender_misses_nothing_while_a_purge_waits_in_vain() {
    let place = Place::new();
    let (server, mut app) = (place.middleware(&[]), place.app());
    let [mut bob, mut eve] = ["bob", "eve"].map(|name| login(&server, name));
    ask_line(&mut bob, "QCREATE q");
    for together in [1, 2] {
        ask_line(&mut bob, "SENDMANY q 1 2 3 4 5");
        app.run("BEGIN; SELECT FROM posthaste.pop('app', 'q')");
        eve.send(&["QPURGE", "q"]).expect("sent");
        sleep(Duration::from_millis(100));
        bob.write("POP FROM bob\r\n".repeat(together).as_bytes()).expect("it runs");
        for _ in 0..together {
            assert!(bob.answer().expect("an answer").body().is_some(), "four are nobody's");
        }
        assert!(eve.answer().expect("an answer").is_error("BUSY"));
        app.run("ROLLBACK");
        ask_line(&mut bob, "QPURGE q");
    }
}

/// The transaction that pops goes on meanwhile, so what it waited for before must not count.
#[test]
fn a_pop_by_sql_misses_nothing_while_somebody_empties_the_queue_in_vain() {
    let place = Place::new();
    let server = place.middleware(&[]);
    let [mut app, mut other] = [place.app(), place.app()];
    let [mut bob, mut eve] = ["bob", "eve"].map(|name| login(&server, name));
    ask_line(&mut bob, "QCREATE q");
    ask_line(&mut bob, "SENDMANY q 1 2 3 4 5");
    app.run("BEGIN; SELECT FROM posthaste.pop('app', 'q')");
    other.run("BEGIN");
    for word in ["QPURGE", "QDELETE"] {
        eve.send(&[word, "q"]).expect("sent");
        sleep(Duration::from_millis(100));
        let popped = other.run("SELECT count(*) FROM posthaste.pop('bob', 'q')");
        assert_eq!(popped, "1", "during a {word}");
        assert!(eve.answer().expect("an answer").is_error("BUSY"));
        // Longer than it waits altogether.
        sleep(Duration::from_millis(500));
    }
}

/// A batch that waits may hold the rows of queues, whose users wait for it.
#[test]
fn pops_of_one_batch_wait_together_while_messages_are_moved() {
    const POPS: usize = 20;
    // Half a second, and what a busy machine adds; half a second for each of them is 10 s.
    const WAITS: Duration = Duration::from_secs(4);
    let place = Place::new();
    let (server, mut app) = (place.middleware(&[]), place.app());
    let mut bob = login(&server, "bob");
    ask_line(&mut bob, "QCREATE q");
    ask_line(&mut bob, "SEND q taken");
    app.run("BEGIN; SELECT FROM posthaste.pop('app', 'q')");
    let mut mover = Session::open(shared(), &place.database, "postgres");
    mover.run("BEGIN; SELECT posthaste.begin_move()");
    for options in ["", " LEASE 60000", " BROADCAST"] {
        let begun = Instant::now();
        bob.write(format!("POP FROM bob{options}\r\n").repeat(POPS).as_bytes()).expect("it runs");
        for _ in 0..POPS {
            assert_eq!(bob.answer().expect("an answer"), Answer::Null, "it is being taken");
        }
        assert!(begun.elapsed() < WAITS, "{POPS} POPs{options}: {:?}", begun.elapsed());
    }
}

/// Leases that other POPs of the batch were given before count from then, too.
#[test]
fn a_lease_counts_from_when_its_batch_waits_for_no_purge_any_more() {
    const LEASE: &str = "600000";
    let place = Place::new();
    let (server, mut app) = (place.middleware(&[]), place.app());
    let [mut ann, mut bob, mut eve] = ["ann", "bob", "eve"].map(|name| login(&server, name));
    for (of_others, of_all) in [(0, 1), (0, 2), (1, 1), (2, 2)] {
        for queue in ["q", "other"] {
            ask_line(&mut bob, &format!("QCREATE {queue}"));
        }
        ask_line(&mut ann, "SENDMANY other 1 2");
        ask_line(&mut bob, "SENDMANY q 1 2 3 4 5");
        app.run("BEGIN; SELECT FROM posthaste.pop('app', 'q')");
        let begun: u64 = place.as_owner("SELECT posthaste.now_ms()").parse().expect("a number");
        eve.send(&["QPURGE", "q"]).expect("sent");
        sleep(Duration::from_millis(100));
        let pops = [("POP QUEUE other", of_others), ("POP FROM bob", of_all)]
            .map(|(pop, times)| format!("{pop} LEASE {LEASE}\r\n").repeat(times));
        bob.write(pops.concat().as_bytes()).expect("it runs");
        for _ in 0..of_others + of_all {
            assert!(bob.answer().expect("an answer").body().is_some(), "it is there");
        }
        assert!(eve.answer().expect("an answer").is_error("BUSY"));
        // The purge waits in vain for 300 ms, of which the last 20 may be left out.
        let due = format!("SELECT min(due_ms) - {LEASE} FROM posthaste.message WHERE holder_id IS NOT NULL");
        let due: u64 = place.as_owner(&due).parse().expect("a number");
        assert!(due >= begun + 280, "{of_others} and {of_all} POPs: {due} < {begun} + 280");
        app.run("ROLLBACK");
        for queue in ["q", "other"] {
            ask_line(&mut bob, &format!("QDELETE {queue}"));
        }
    }
}

/// A dump takes its snapshot first and locks what it reads afterwards.
#[test]
fn what_is_set_aside_is_in_a_dump_that_has_just_begun() {
    let place = Place::new();
    let server = place.middleware(&[]);
    let mut bob = login(&server, "bob");
    ask_line(&mut bob, "QCREATE q");
    ask_line(&mut bob, "SENDMANY q 1 2 3");
    server.stop();
    let turn = || place.as_owner("SELECT said FROM posthaste.turn_ring(0, 1000, 2000, null, null)");
    assert_eq!(turn(), "turned");
    let mut dump = Session::open(shared(), &place.database, "postgres");
    dump.run("SET application_name = 'pg_dump'; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    let dumps = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pg_dump'";
    assert_eq!(place.app().run(dumps), "1", "a role without rights sees it too");
    assert!(turn().starts_with("eased"));
    assert!(turn().starts_with("pg_dump"));
    assert_eq!(dump.run("SELECT count(*) FROM posthaste.message"), "3");
    dump.run("COMMIT; SET application_name = 'other'");
    assert!(turn().starts_with("emptied"));
    assert_eq!(place.as_owner("SELECT count(*) FROM posthaste.message"), "3");
}

/// As a server gives it that does not look again whether a row is the one that was asked for.
#[test]
fn a_row_that_was_changed_while_it_was_being_locked_is_lost() {
    let place = Place::new();
    place.as_owner(
        "SELECT posthaste.create_queue('q'), posthaste.send('bob', 'q', n::text) FROM generate_series(1, 3) AS n",
    );
    let locked = "SELECT (posthaste.lock_assigned(
            ROW(c.places, array_fill(1, ARRAY[3]), null, null, c.tids, null, null, null, null)::posthaste.assignment,
            ROW(array_fill(1, ARRAY[3]), c.places, '(77,7)'::tid || c.tids[2:], array_fill(2, ARRAY[3]), null)
                ::posthaste.candidates)).lost = c.places[1:1]
        FROM (SELECT array_agg(place ORDER BY place) AS places, array_agg(ctid ORDER BY place) AS tids
            FROM posthaste.message_aside) AS c";
    let as_older = "CREATE OR REPLACE FUNCTION posthaste.gives_changed_rows() RETURNS boolean LANGUAGE sql AS 'SELECT true'";
    place.as_owner(as_older);
    let locked = format!("SET search_path = posthaste; {locked}");
    assert_eq!(place.as_owner(&locked), "t", "the first is not the row that was chosen");
}
