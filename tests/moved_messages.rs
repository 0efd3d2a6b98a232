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
use support::patience::wait_until;

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
    // For so long a POP waits for what is being moved.
    const WAITED: Duration = Duration::from_millis(500);
    let place = Place::new();
    let servers = [place.middleware(&[]), place.middleware(&[])];
    let [mut bob, mut eve] = servers.each_ref().map(|server| login(server, "bob"));
    ask_line(&mut bob, "QCREATE dead");
    ask_line(&mut bob, "QCREATE home DEADLETTER dead AFTER 1");
    let mut misses_nothing = |round: u64| {
        ask_line(&mut bob, "QPURGE home");
        letters(&mut bob, LETTERS);
        let (missed, time) = thread::scope(|scope| {
            let redriven = scope.spawn(|| ask_line(&mut eve, "QREDRIVE dead"));
            sleep(Duration::from_millis(20 * round));
            let begun = Instant::now();
            bob.write("POP FROM bob\r\n".repeat(LETTERS).as_bytes()).expect("it runs");
            let answers: Vec<_> = (0..LETTERS).map(|_| bob.answer().expect("an answer")).collect();
            let time = begun.elapsed();
            assert!(redriven.join().expect("no panic").integer().is_some());
            (answers.iter().filter(|answer| answer.body().is_none()).count(), time)
        });
        assert!(
            missed == 0 || time > WAITED,
            "round {round}: all {LETTERS} were there all the time, and {missed} were missed within {time:?}"
        );
        missed == 0
    };
    for round in 0..6 {
        assert!((0..10).any(|_| misses_nothing(round)), "round {round}: ten times it took too long");
    }
}

/// Has somebody ask for what an open transaction is in the way of, and does something else while that waits: for 300 ms,
/// of which a machine that stands still may leave nothing.
fn while_it_waits_in_vain(place: &Place, eve: &mut Client, line: &str, meanwhile: impl FnOnce()) {
    const WAITS: &str =
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()";
    thread::scope(|scope| {
        let asked = scope.spawn(|| ask_line(eve, line));
        wait_until("it waits", || asked.is_finished() || place.as_owner(WAITS) != "0");
        meanwhile();
        assert!(asked.join().expect("no panic").is_error("BUSY"));
    });
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
        while_it_waits_in_vain(&place, &mut eve, "QPURGE q", || {
            bob.write("POP FROM bob\r\n".repeat(together).as_bytes()).expect("it runs");
            for _ in 0..together {
                assert!(bob.answer().expect("an answer").body().is_some(), "four are nobody's");
            }
        });
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
        while_it_waits_in_vain(&place, &mut eve, &format!("{word} q"), || {
            let popped = other.run("SELECT count(*) FROM posthaste.pop('bob', 'q')");
            assert_eq!(popped, "1", "during a {word}");
        });
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
        let pops = [("POP QUEUE other", of_others), ("POP FROM bob", of_all)]
            .map(|(pop, times)| format!("{pop} LEASE {LEASE}\r\n").repeat(times));
        while_it_waits_in_vain(&place, &mut eve, "QPURGE q", || {
            bob.write(pops.concat().as_bytes()).expect("it runs");
            for _ in 0..of_others + of_all {
                assert!(bob.answer().expect("an answer").body().is_some(), "it is there");
            }
        });
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
    let dumps = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pg_dump' AND datname = current_database()";
    assert_eq!(place.app().run(dumps), "1", "a role without rights sees it too");
    assert!(turn().starts_with("eased"));
    assert!(turn().starts_with("pg_dump"));
    assert_eq!(dump.run("SELECT count(*) FROM posthaste.message"), "3");
    dump.run("COMMIT; SET application_name = 'other'");
    assert!(turn().starts_with("emptied"));
    assert_eq!(place.as_owner("SELECT count(*) FROM posthaste.message"), "3");
}

/// As when much has been walked in vain, so that it is rewritten whenever it may be.
fn always_worth_rewriting(place: &Place) {
    place.as_owner(
        "CREATE OR REPLACE FUNCTION posthaste.entries_walked(part regclass) RETURNS bigint LANGUAGE sql
            AS 'SELECT 1000000 + coalesce(pg_sequence_last_value(''posthaste.aside_walked''), 0)'",
    );
}

/// It has its snapshot from before the table is rewritten, and its lock afterwards.
#[test]
fn what_is_kept_aside_is_in_a_dump_that_begins_while_that_is_rewritten() {
    let place = Place::new();
    always_worth_rewriting(&place);
    let sends = "SELECT posthaste.create_queue('q'), posthaste.send('bob', 'q', n::text) FROM generate_series(1, 3) AS n";
    place.as_owner(sends);
    let [mut reader, mut dump, mut rewriter] =
        [(); 3].map(|()| Session::open(shared(), &place.database, "postgres"));
    reader.run("BEGIN; LOCK TABLE posthaste.message_aside IN ACCESS SHARE MODE");
    rewriter.begin("SELECT posthaste.rewrite_aside(60000)");
    place.wait_for_waiting("it waits for the reader");
    dump.run("SET application_name = 'pg_dump'; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    reader.run("COMMIT");
    let said = rewriter.finish();
    assert_eq!(dump.run("SELECT count(*) FROM posthaste.message"), "3", "after {said}");
    assert!(said.starts_with("pg_dump"), "{said}");
    dump.run("COMMIT; SET application_name = 'other'");
    assert!(rewriter.run("SELECT posthaste.rewrite_aside(60000)").starts_with("rewrote"));
    assert_eq!(place.as_owner("SELECT count(*) FROM posthaste.message"), "3");
}

/// As `pg_dump --exclude-schema=posthaste` for hours: it locks what it is going to read when it begins.
#[test]
fn a_dump_of_something_else_need_not_be_waited_for() {
    let place = Place::new();
    always_worth_rewriting(&place);
    place.as_owner("CREATE TABLE other (id int)");
    let [mut dump, mut writer] = [(); 2].map(|()| Session::open(shared(), &place.database, "postgres"));
    let elsewhere = || {
        let all =
            "SELECT coalesce(array_agg(transaction || ' ' || tables), '{}') FROM posthaste.dumps_elsewhere()";
        place.as_owner(all)
    };
    let rewrite =
        |elsewhere: &str| place.as_owner(&format!("SELECT posthaste.rewrite_aside(1000, '{elsewhere}')"));
    let turn = |elsewhere: &str| {
        place.as_owner(&format!(
            "SELECT said FROM posthaste.turn_ring(0, 1000, 2000, null, null, '{elsewhere}')"
        ))
    };
    place.as_owner(
        "INSERT INTO posthaste.message (ring, id, place, queue_id, sender_id, recipient_id, sent_ms, body)
            VALUES (posthaste.current_part(), 1, posthaste.place_of(0, 1), 1, 1, 0, 1, 'gone'); DELETE FROM posthaste.message",
    );
    assert_eq!(turn("{}"), "turned");
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) > 0 FROM pg_class";
    dump.run("SET application_name = 'pg_dump'");
    dump.run(begin);
    assert_eq!(elsewhere(), "{}", "it may still lock anything");
    dump.run("LOCK TABLE bill IN ACCESS SHARE MODE");
    let transaction = dump.run(
        "SELECT virtualtransaction FROM pg_locks WHERE locktype = 'virtualxid' AND pid = pg_backend_pid()",
    );
    let of_this = format!("{{{transaction}}}");
    let visible = format!(
        "SELECT count(*) > 0 FROM pg_locks WHERE virtualtransaction = '{transaction}' AND relation = 'bill'::regclass"
    );
    assert_eq!(place.app().run(&visible), "t", "a role without rights sees it too");
    assert_eq!(elsewhere(), format!("{{\"{transaction} 1\"}}"));
    let mut worker = Session::open(shared(), &place.database, "postgres");
    worker.run("SET application_name = 'pg_dump'; BEGIN; LOCK TABLE bill IN ACCESS SHARE MODE");
    let both = elsewhere();
    assert_eq!((both.matches(" 1\"").count(), both.matches(" 2\"").count()), (2, 0), "one table: {both}");
    worker.run("COMMIT; SET application_name = 'other'");
    assert!(rewrite("{}").starts_with("pg_dump") && rewrite(&of_this).starts_with("rewrote"));
    writer.run("BEGIN; LOCK TABLE posthaste.message_0, posthaste.message_1 IN ACCESS SHARE MODE");
    assert!(
        turn("{}").starts_with("pg_dump"),
        "it does not even ask for the lock, for which others would wait"
    );
    writer.run("COMMIT");
    assert!(turn("{}").starts_with("pg_dump") && turn(&of_this).starts_with("emptied"));
    writer.run("BEGIN; LOCK TABLE other");
    dump.begin("LOCK TABLE other IN ACCESS SHARE MODE");
    wait_until("it waits", || elsewhere() == "{}");
    writer.run("COMMIT");
    dump.finish();
    assert_eq!(elsewhere(), format!("{{\"{transaction} 2\"}}"));
    dump.run("LOCK TABLE posthaste.message_aside IN ACCESS SHARE MODE");
    assert_eq!(elsewhere(), "{}", "it reads messages");
    dump.run("COMMIT");
    dump.run(begin);
    assert!(rewrite(&of_this).starts_with("pg_dump"), "this one may read them");
    dump.run("COMMIT; SET application_name = 'other'");
    assert!(rewrite("{}").starts_with("rewrote"));
}

/// It lets transactions wait only for so long.
#[test]
fn a_clock_that_was_set_back_makes_nobody_wait_longer() {
    let place = Place::new();
    let in_an_hour = "(posthaste.now_ms() + 3600000)::text";
    for (told, says, before) in [
        ("SELECT set_config('posthaste.moves_awaited_until', '', true)", "posthaste.may_await_moves()", "t"),
        (
            &format!("SELECT set_config('posthaste.moves_awaited_until', {in_an_hour}, true)"),
            "posthaste.may_await_moves()",
            "f",
        ),
        (
            "SELECT posthaste.note_wait(clock_timestamp() - interval '100 ms')",
            "posthaste.patience_left() BETWEEN 1 AND 200",
            "t",
        ),
        (
            "SELECT posthaste.note_wait(clock_timestamp() + interval '1 hour')",
            "posthaste.patience_left()",
            "300",
        ),
    ] {
        let asked = format!("SET search_path = posthaste; BEGIN; {told}; SELECT {says}");
        assert_eq!(place.as_owner(&asked).lines().last(), Some(before), "{told}");
    }
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
