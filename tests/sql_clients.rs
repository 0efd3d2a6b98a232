//! The SQL functions of the queue tier, called as an application calls them: as a plain role, inside transactions of
//! its own, while a middleware serves RESP clients over the same database.

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

use std::thread;

use client::Answer;
use place::{BLOCK, Place, WAITING, ask, login, pop, together};
use postgres::shared;
use session::Session;
use support::patience::wait_until;

/// Body, then sender, recipient and deliveries of what a read gives.
fn brief(read: &str) -> String {
    format!("SELECT convert_from(body, 'UTF8'), sender, recipient, deliveries FROM posthaste.{read}")
}

#[test]
fn each_function_does_what_its_command_does() {
    let place = Place::new();
    let mut app = place.app();
    let alice = app.run("SELECT posthaste.login('alice', 'secret')");
    assert_eq!(app.run("SELECT posthaste.login('alice')"), alice, "an account keeps its id");
    let queue = app.run("SELECT posthaste.create_queue('orders')");
    assert_eq!(app.run("SELECT posthaste.create_queue(name => 'orders')"), queue, "an existing name, its id");
    let unnamed = app.run("SELECT posthaste.create_queue()");
    assert_eq!(place.as_owner(&format!("SELECT name FROM posthaste.queue WHERE id = {unnamed}")), unnamed);
    let first = app.run("SELECT posthaste.send('alice', 'orders', 'for bob', 'bob')");
    let second = app.run("SELECT posthaste.send('alice', 'orders', '\\x00ff'::bytea)");
    assert!(first.parse::<i64>().expect("an id") < second.parse::<i64>().expect("an id"), "{first} {second}");
    assert_eq!(app.run("SELECT posthaste.readable('bob')"), "orders");
    assert_eq!(app.run("SELECT posthaste.readable('bob', not_own => true)"), "orders");
    assert_eq!(
        app.run("SELECT posthaste.readable('stranger', not_own => true)"),
        "orders",
        "one is for anyone"
    );
    assert_eq!(app.run("SELECT posthaste.readable('alice')"), "orders");
    assert_eq!(app.run("SELECT posthaste.readable('alice', not_own => true)"), "", "she sent all of them");
    assert_eq!(app.run(&brief("peek('bob', 'orders')")), "for bob|alice|bob|0");
    assert_eq!(app.run(&brief("peek(reader => 'bob', sender => 'alice')")), "for bob|alice|bob|0");
    let taken = app.run(
        "SELECT id, queue, body, headers IS NULL, now() - sent_at < interval '1 min' FROM posthaste.pop('eve', 'orders', 'alice')",
    );
    assert_eq!(taken, format!("{second}|orders|\\x00ff|t|t"), "eve passes over what is for bob");
    assert_eq!(app.run(&brief("pop('eve', sender => 'alice')")), "");
    assert_eq!(app.run(&brief("pop('bob', sender => 'nobody')")), "");
    assert_eq!(app.run(&brief("pop('bob', sender => 'alice')")), "for bob|alice|bob|1");
    assert_eq!(app.run("SELECT posthaste.readable('bob')"), "");
    app.run("SELECT posthaste.send('alice', 'orders', 'x'), posthaste.send('alice', 'orders', 'y')");
    assert_eq!(app.run("SELECT posthaste.delete_queue('orders')"), "2");
    assert!(app.run("SELECT posthaste.delete_queue('orders')").starts_with("ERROR:  PHNOQ:"));
}

#[test]
fn sql_and_resp_clients_share_queues_and_accounts() {
    let place = Place::new();
    let (server, mut app) = (place.middleware(&[]), place.app());
    let mut bob = login(&server, "bob");
    app.run("SELECT posthaste.create_queue('q')");
    app.run("SELECT posthaste.send('alice', 'q', 'to bob', 'bob')");
    let message = ask(&mut bob, &["POP", "QUEUE", "q", "FROM", "alice"]);
    assert_eq!(message.body(), Some("to bob"));
    assert_eq!(message.get("from").and_then(Answer::text), Some("alice"));
    assert_eq!(message.get("to").and_then(Answer::text), Some("bob"));
    ask(&mut bob, &["SEND", "q", "marked", "HEADER", "colour", "red", "HEADER", "size", "8"]);
    let headers = "SELECT convert_from(headers[1][1], 'UTF8'), convert_from(headers[1][2], 'UTF8'), \
                   convert_from(headers[2][2], 'UTF8'), recipient IS NULL, sender FROM posthaste.pop('carol', 'q')";
    assert_eq!(app.run(headers), "colour|red|8|t|bob");
    app.run("SELECT posthaste.login('alice'), posthaste.login('carol')");
    assert_eq!(app.run("SELECT posthaste.send('alice', 'q', 'news', '*')"), "2", "bob and carol");
    assert_eq!(pop(&mut bob).as_deref(), Some("news"));
    assert_eq!(pop(&mut bob), None, "the other copy is carol's");
    assert_eq!(app.run(&brief("pop('carol', 'q')")), "news|alice|carol|1");
}

#[test]
fn a_message_is_sent_by_the_commit_of_the_application_s_transaction() {
    let place = Place::new();
    let (server, mut app) = (place.middleware(&[]), place.app());
    let mut bob = login(&server, "bob");
    ask(&mut bob, &["QCREATE", "q"]);
    let both = "SELECT posthaste.send('billing', 'q', 'bill 1', 'stranger'), posthaste.send('billing', 'q', 'bill 1')";
    app.run(&format!("BEGIN; INSERT INTO bill VALUES (1); {both}"));
    assert_eq!(app.run(&brief("peek('bob', 'q')")), "bill 1|billing||0", "it sees its own");
    assert_eq!(pop(&mut bob), None, "nobody else does");
    app.run("ROLLBACK");
    assert_eq!(pop(&mut bob), None);
    assert_eq!(place.as_owner("SELECT count(*) FROM bill"), "0");
    assert_eq!(
        place.as_owner("SELECT count(*) FROM posthaste.account WHERE name IN ('billing', 'stranger')"),
        "0"
    );
    app.run(&format!("BEGIN; INSERT INTO bill VALUES (1); {both}; COMMIT"));
    assert_eq!(pop(&mut bob).as_deref(), Some("bill 1"));
    assert_eq!(place.as_owner("SELECT count(*) FROM bill"), "1");
    assert_eq!(
        pop(&mut login(&server, "stranger")).as_deref(),
        Some("bill 1"),
        "now there is such an account"
    );
    app.run("BEGIN; SAVEPOINT s; SELECT posthaste.send('other', 'q', 'lost'); ROLLBACK TO s");
    app.run("SELECT posthaste.send('other', 'q', 'kept'); COMMIT");
    assert_eq!(pop(&mut bob).as_deref(), Some("kept"), "a savepoint takes its own message back only");
}

#[test]
fn who_logs_in_finds_what_the_same_transaction_has_sent_before() {
    let place = Place::new();
    let mut app = place.app();
    app.run("SELECT posthaste.create_queue('q')");
    app.run("BEGIN; SELECT posthaste.send('new', 'q', 'to me', 'newer'), posthaste.login('newer'), posthaste.login('new')");
    assert_eq!(app.run(&brief("pop('newer', 'q', 'new')")), "to me|new|newer|1");
    app.run("COMMIT");
    let accounts =
        "SELECT string_agg(name, ' ' ORDER BY name) FROM posthaste.account WHERE known AND name LIKE 'new%'";
    assert_eq!(place.as_owner(accounts), "new newer");
}

#[test]
fn a_message_popped_in_a_transaction_returns_with_its_rollback_and_nobody_waits_for_it() {
    let place = Place::new();
    let (server, mut app) = (place.middleware(&[]), place.app());
    let mut bob = login(&server, "bob");
    ask(&mut bob, &["QCREATE", "q"]);
    for body in ["1", "2", "3"] {
        ask(&mut bob, &["SEND", "q", body]);
    }
    // Whoever waited for this transaction would wait for good: it ends when all of them have their answers.
    app.run("BEGIN");
    assert_eq!(app.run(&brief("pop('app', 'q')")), "1|bob||1");
    assert_eq!(pop(&mut bob).as_deref(), Some("2"), "a middleware takes the next one");
    let mut second = place.app();
    assert_eq!(second.run(&brief("pop('app', 'q')")), "3|bob||1", "and so does another SQL client");
    assert!(ask(&mut bob, &["QDELETE", "q"]).is_error("BUSY"), "the queue is in use");
    assert!(second.run("SELECT posthaste.delete_queue('q')").starts_with("ERROR:  PHBSY:"));
    app.run("ROLLBACK");
    assert_eq!(pop(&mut bob).as_deref(), Some("1"), "it is back where it was");
    ask(&mut bob, &["SEND", "q", "4"]);
    app.run("BEGIN; INSERT INTO bill SELECT 4 FROM posthaste.pop('app', 'q'); COMMIT");
    assert_eq!(place.as_owner("SELECT id FROM bill"), "4");
    assert_eq!(pop(&mut bob), None, "gone with the commit");
}

#[test]
fn a_queue_is_purged_of_all_that_was_there_or_not_at_all() {
    let place = Place::new();
    let (server, mut app) = (place.middleware(&[]), place.app());
    let mut bob = login(&server, "bob");
    ask(&mut bob, &["QCREATE", "q"]);
    for body in ["1", "2", "3", "4"] {
        ask(&mut bob, &["SEND", "q", body]);
    }
    app.run("BEGIN");
    assert_eq!(app.run(&brief("pop('app', 'q')")), "1|bob||1");
    assert!(ask(&mut bob, &["QPURGE", "q"]).is_error("BUSY"), "1 may come back");
    let leased = ask(&mut bob, &["POP", "QUEUE", "q", "LEASE", "600000"]);
    assert_eq!(leased.body(), Some("2"), "nothing was removed");
    app.run("ROLLBACK");
    let mut holder = Session::open(shared(), &place.database, "postgres");
    holder.run("BEGIN; SELECT id FROM posthaste.message WHERE holder_id IS NOT NULL FOR UPDATE");
    assert!(ask(&mut bob, &["QPURGE", "q"]).is_error("BUSY"), "2 may come back");
    assert_eq!(pop(&mut bob).as_deref(), Some("1"), "nothing was removed");
    holder.run("ROLLBACK");
    assert_eq!(ask(&mut bob, &["QPURGE", "q"]), Answer::Integer(3), "2 is leased, 3 and 4 are ready");
    let receipt = leased.get("receipt").and_then(Answer::text).expect("a receipt");
    assert_eq!(ask(&mut bob, &["ACK", receipt]), Answer::Integer(0));
}

#[test]
fn who_cannot_see_what_was_sent_meanwhile_neither_reads_nor_deletes() {
    let place = Place::new();
    let (server, mut app) = (place.middleware(&[]), place.app());
    let mut bob = login(&server, "bob");
    ask(&mut bob, &["QCREATE", "q"]);
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        for call in
            ["delete_queue('q')", "peek('app', 'q')", "pop('app', sender => 'bob')", "readable('app')"]
        {
            app.run(&format!("BEGIN ISOLATION LEVEL {level}; SELECT FROM pg_class LIMIT 1"));
            ask(&mut bob, &["SEND", "q", "x"]);
            let refused = app.run(&format!("SELECT posthaste.{call}"));
            assert!(refused.starts_with("ERROR:  PHBAD:"), "{level}, {call}: {refused}");
            app.run("ROLLBACK");
            assert_eq!(pop(&mut bob).as_deref(), Some("x"));
        }
        app.run(&format!("BEGIN ISOLATION LEVEL {level}; SELECT posthaste.send('app', 'q', 'x'); COMMIT"));
        assert_eq!(pop(&mut bob).as_deref(), Some("x"), "sending needs to see nothing");
    }
    ask(&mut bob, &["SEND", "q", "x"]);
    // PostgreSQL executes it as READ COMMITTED.
    app.run("BEGIN ISOLATION LEVEL READ UNCOMMITTED; SELECT FROM pg_class LIMIT 1");
    assert_eq!(app.run(&brief("pop('app', 'q')")), "x|bob||1");
}

#[test]
fn who_cannot_see_a_queue_that_was_made_meanwhile_is_told_to_try_again() {
    let place = Place::new();
    let mut app = place.app();
    app.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM pg_class LIMIT 1");
    place.as_owner("SELECT posthaste.create_queue('q')");
    let refused = app.run("SELECT posthaste.create_queue('q')");
    assert!(refused.starts_with("ERROR:  40001:"), "{refused}");
    app.run("ROLLBACK");
    assert_eq!(
        app.run("SELECT posthaste.create_queue('q')"),
        place.as_owner("SELECT id FROM posthaste.queue")
    );
}

/// Waits until a pop that has the lock of its REQID waits for another one; the keeper, which has none, may wait too.
fn wait_until_a_pop_waits_with_its_key(place: &Place) {
    let its_key = "locktype = 'advisory' AND objsubid = 1 AND granted";
    let its_key = format!("SELECT count(*) FROM pg_locks WHERE pid IN ({WAITING}) AND {its_key}");
    wait_until("a pop waits, and has the lock of its key", || place.as_owner(&its_key) == "1");
}

#[test]
fn a_pop_that_is_repeated_while_it_is_being_done_is_told_so_and_then_gets_the_same() {
    let place = Place::new();
    let servers = [place.middleware(&[]), place.middleware(&[])];
    let [mut here, mut there] = [&servers[0], &servers[1]].map(|server| login(server, "ann"));
    let mut bob = login(&servers[0], "bob");
    ask(&mut bob, &["QCREATE", "q"]);
    ask(&mut bob, &["SEND", "q", "1"]);
    ask(&mut bob, &["SEND", "q", "2"]);
    // It has given the message, and keeps it and its note until this ends.
    let mut slow = Session::open(shared(), &place.database, "postgres");
    slow.run("BEGIN; LOCK TABLE posthaste.remembered_pop IN SHARE MODE");
    let words = ["POP", "FROM", "bob", "REQID", "k"];
    here.send(&words).expect("it runs");
    wait_until_a_pop_waits_with_its_key(&place);
    assert!(ask(&mut there, &words).is_error("BUSY"));
    slow.run("COMMIT");
    assert_eq!(here.answer().expect("it runs").body(), Some("1"));
    assert_eq!(ask(&mut there, &words).body(), Some("1"), "the same again");
    // Its time is over, and it has not been cleared away yet.
    slow.run("BEGIN; UPDATE posthaste.remembered_pop SET ends_ms = 0; COMMIT");
    let again = ask(&mut there, &words);
    assert!(again.body() == Some("2"), "{again:?}");
}

/// Whoever looked first, and then took the key's lock, could overlook what its holder noted in between.
#[test]
fn who_repeats_a_pop_of_all_queues_has_the_lock_of_its_key_before_it_looks() {
    let place = Place::new();
    let server = place.middleware(&[]);
    let mut bob = login(&server, "bob");
    ask(&mut bob, &["QCREATE", "q"]);
    ask(&mut bob, &["SEND", "q", "1"]);
    let mut slow = Session::open(shared(), &place.database, "postgres");
    slow.run("BEGIN; LOCK TABLE posthaste.remembered_pop IN ACCESS EXCLUSIVE MODE");
    bob.send(&["POP", "FROM", "bob", "REQID", "k"]).expect("it runs");
    wait_until_a_pop_waits_with_its_key(&place);
    slow.run("COMMIT");
    assert_eq!(bob.answer().expect("it runs").body(), Some("1"));
}

/// What stands first is taken by a transaction that has not ended, so the pop has to look further: at what its own
/// connection has just sent.
#[test]
fn a_pop_finds_what_was_sent_before_it_behind_what_somebody_has_taken() {
    let place = Place::new();
    let (server, mut app) = (place.middleware(&[]), place.app());
    let mut bob = login(&server, "bob");
    ask(&mut bob, &["QCREATE", "q"]);
    ask(&mut bob, &["SEND", "q", "1"]);
    app.run("BEGIN");
    assert_eq!(app.run(&brief("pop('app', 'q')")), "1|bob||1");
    let pipeline: [&[&str]; 6] = [
        &["SEND", "q", "2"],
        &["SEND", "q", "3"],
        &["POP", "QUEUE", "q"],
        &["SEND", "q", "4"],
        &["POP", "QUEUE", "q"],
        &["PEEK", "QUEUE", "q"],
    ];
    let answers = together(&mut bob, &pipeline);
    assert_eq!([2, 4].map(|at| answers[at].body()), [Some("2"), Some("3")]);
    app.run("ROLLBACK");
    assert_eq!(
        [(); 3].map(|()| pop(&mut bob)),
        [Some("1".to_owned()), Some("4".to_owned()), None],
        "each is stored once"
    );
}

/// What stands first is taken by a transaction that has not ended. The first pop gets what comes next, and not what is
/// left when the others have theirs.
#[test]
fn pops_that_are_sent_together_keep_their_order_behind_what_somebody_has_taken() {
    let place = Place::new();
    let (server, mut app) = (place.middleware(&[]), place.app());
    let mut bob = login(&server, "bob");
    for queue in ["q", "other"] {
        ask(&mut bob, &["QCREATE", queue]);
    }
    // A few are looked for once more; of many the rules find the end.
    let take = |taken| format!("BEGIN; SELECT posthaste.pop('app', 'q') FROM generate_series(1, {taken})");
    let pops: [&[&str]; 6] = [
        &["POP", "QUEUE", "q"],
        &["POP", "QUEUE", "q", "LEASE", "600000"],
        &["POP", "QUEUE", "q", "FROM", "bob"],
        &["POP", "QUEUE", "q", "FROM", "bob", "LEASE", "600000"],
        &["POP", "FROM", "bob"],
        &["POP", "FROM", "bob", "LEASE", "600000"],
    ];
    for (words, taken, left) in
        pops.iter().flat_map(|pop| [(pop, 1, 1), (pop, 1, 2), (pop, 1, 3), (pop, 8, 2)])
    {
        for body in 1..=taken + left {
            ask(&mut bob, &["SEND", "q", &body.to_string()]);
        }
        app.run(&take(taken));
        let answers = together(&mut bob, &[*words; 3]);
        let bodies: Vec<_> = answers.iter().map(|answer| answer.body().unwrap_or("null")).collect();
        let next = (taken + 1..=taken + left).map(|body| body.to_string());
        let next: Vec<_> = next.chain(std::iter::repeat("null".to_owned())).take(3).collect();
        assert_eq!(bodies, next, "{words:?} behind {taken}");
        app.run("ROLLBACK");
        assert_eq!(pop(&mut bob).as_deref(), Some("1"), "{words:?}");
        ask(&mut bob, &["QPURGE", "q"]);
    }
    // Whoever stands before them, or asks for something else, has its message from the beginning.
    for body in 1..=13 {
        ask(&mut bob, &["SEND", "q", &body.to_string()]);
    }
    ask(&mut bob, &["SEND", "other", "x"]);
    app.run(&take(8));
    ask(&mut bob, &["SEND", "q", "urgent", "PRIORITY", "1"]);
    let two: &[&str] = &["POP", "QUEUE", "q", "COUNT", "2"];
    let answers = together(&mut bob, &[pops[0], two, &["POP", "QUEUE", "other"], two, two, pops[0]]);
    let bodies = |answer: Answer| match answer.body() {
        Some(body) => body.to_owned(),
        None => answer.list().iter().filter_map(Answer::body).collect::<Vec<_>>().join(" "),
    };
    let bodies: Vec<_> = answers.into_iter().map(bodies).collect();
    assert_eq!(bodies, ["urgent", "9 10", "x", "11 12", "13", ""]);
}

/// What a reader of all queues is about to show may go with its queue, which has no name any more then.
#[test]
fn a_peek_at_a_sender_s_messages_passes_over_what_goes_with_its_queue() {
    // Whoever has read a message waits for whoever holds this lock.
    const SLOW: &str = "
        CREATE OR REPLACE FUNCTION posthaste.row_at(part smallint, tid tid, place bigint) RETURNS posthaste.message
        LANGUAGE plpgsql AS $$
        DECLARE m posthaste.message;
        BEGIN
            SELECT * INTO m FROM posthaste.message WHERE ring = part AND ctid = row_at.tid;
            PERFORM pg_advisory_xact_lock_shared(1, 2);
            RETURN m;
        END $$";
    let place = Place::new();
    let server = place.middleware(&[]);
    let [mut bob, mut eve] = ["bob", "eve"].map(|name| login(&server, name));
    place.as_owner(SLOW);
    let mut app = place.app();
    let mut holder = Session::open(shared(), &place.database, "postgres");
    ask(&mut bob, &["QCREATE", "kept"]);
    for peek in [&["PEEK", "FROM", "bob"][..], &["PEEK", "FROM", "bob", "COUNT", "1"], &[]] {
        ask(&mut bob, &["QCREATE", "gone"]);
        for queue in ["gone", "kept"] {
            ask(&mut bob, &["SEND", queue, "x"]);
        }
        holder.run("SELECT pg_advisory_lock(1, 2)");
        match peek {
            [] => app.begin("SELECT queue FROM posthaste.peek('eve', sender => 'bob')"),
            words => eve.send(words).expect("it runs"),
        }
        place.wait_for_waiting("it has read the message");
        assert_eq!(ask(&mut bob, &["QDELETE", "gone"]), Answer::Integer(1));
        holder.run("SELECT pg_advisory_unlock(1, 2)");
        let queue = match peek {
            [] => app.finish(),
            _ => match eve.answer().expect("an answer") {
                Answer::List(those) if matches!(those[0], Answer::List(_)) => queue_of(&those[0]),
                one => queue_of(&one),
            },
        };
        assert_eq!(queue, "kept", "{peek:?}");
        ask(&mut bob, &["QPURGE", "kept"]);
    }
}

/// The queue of a message.
fn queue_of(message: &Answer) -> String {
    message.get("queue").and_then(Answer::text).expect("a message").to_owned()
}

#[test]
fn messages_come_in_the_order_of_their_ids_whoever_sent_them() {
    let place = Place::new();
    let (server, mut app) = (place.middleware(&[]), place.app());
    let mut bob = login(&server, "bob");
    ask(&mut bob, &["QCREATE", "q"]);
    for number in 0..10 {
        let body = format!("{number:02}");
        if number % 3 == 0 {
            ask(&mut bob, &["SEND", "q", &body]);
        } else {
            app.run(&format!("SELECT posthaste.send('app', 'q', '{body}')"));
        }
    }
    ask(&mut bob, &["SEND", "q", "urgent", "PRIORITY", "9"]);
    let mut bodies = Vec::new();
    for number in 0..11 {
        let body = if number % 2 == 0 {
            pop(&mut bob)
        } else {
            Some(app.run("SELECT convert_from(body, 'UTF8') FROM posthaste.pop('app', 'q')"))
        };
        bodies.push(body.expect("a message"));
    }
    assert_eq!(bodies.join(" "), "urgent 00 01 02 03 04 05 06 07 08 09");
}

#[test]
fn what_was_wrong_is_raised_with_a_state_and_a_hint() {
    let place = Place::new();
    let server = place.middleware(&[]);
    let mut bob = login(&server, "bob");
    for create in [
        &["QCREATE", "q"][..],
        &["QCREATE", "strict", "STRICT"],
        &["QCREATE", "noself", "FORBIDSELF"],
        &["QCREATE", "two", "MAXMSGS", "2"],
        &["QCREATE", "small", "MAXBYTES", "4"],
    ] {
        assert!(ask(&mut bob, create).integer().is_some(), "{create:?}");
    }
    let long = "n".repeat(256);
    let mut app = place.app();
    app.run("SELECT posthaste.send('app', 'two', '1'), posthaste.send('app', 'two', '2')");
    for (call, state) in [
        ("send('app', 'nosuch', 'x')".to_owned(), "PHNOQ"),
        ("peek('app', 'nosuch')".into(), "PHNOQ"),
        ("pop('app', 'nosuch')".into(), "PHNOQ"),
        ("delete_queue('nosuch')".into(), "PHNOQ"),
        ("send('app', 'noself', 'x', 'app')".into(), "PHDEN"),
        ("send('bob', 'noself', 'x', 'bob')".into(), "PHDEN"),
        ("send('app', 'two', '3')".into(), "PHFUL"),
        ("send('app', 'small', '12345')".into(), "PHFUL"),
        ("send('app', 'strict', 'x', 'nobody')".into(), "PHNOA"),
        ("peek('app')".into(), "PHBAD"),
        ("pop('app')".into(), "PHBAD"),
        ("pop(null, 'q')".into(), "PHBAD"),
        ("readable('')".into(), "PHBAD"),
        ("login('*')".into(), "PHBAD"),
        ("create_queue('-')".into(), "PHBAD"),
        (format!("create_queue('{long}')"), "PHBAD"),
        ("create_queue(E'a\\tb')".into(), "PHBAD"),
        ("create_queue(U&'a\\0085b')".into(), "PHBAD"),
        ("send('app', 'q', 'x', '-')".into(), "PHBAD"),
        ("send('*', 'q', 'x')".into(), "PHBAD"),
        ("send('app', 'q', null::text)".into(), "PHBAD"),
    ] {
        let said = app.run(&format!("SELECT posthaste.{call}"));
        assert!(said.starts_with(&format!("ERROR:  {state}: ")), "{call}: {said}");
        assert!(said.contains("\nHINT:  "), "{call}: {said}");
    }
    place.as_owner(
        "CREATE OR REPLACE FUNCTION posthaste.body_bytes_max() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1000'",
    );
    let said = app.run("SELECT posthaste.send('app', 'q', repeat('x', 1001))");
    assert!(said.starts_with("ERROR:  PHTOO: the body has 1001 bytes") && said.contains("HINT"), "{said}");
    for allowed in [
        "send('app', 'q', repeat('x', 1000), 'bob')",
        "send('app', 'strict', 'x', 'bob')",
        "send('app', 'noself', 'x', 'bob')",
        "send('app', 'small', '1234')",
        "send('app', 'q', '')",
    ] {
        let said = app.run(&format!("SELECT posthaste.{allowed}"));
        assert!(said.parse::<i64>().is_ok(), "{allowed}: {said}");
    }
    // It ends the transaction like any error, and a savepoint saves the rest.
    app.run("BEGIN; SELECT posthaste.send('app', 'q', 'kept'); SAVEPOINT s; SELECT posthaste.pop('app'); ROLLBACK TO s; COMMIT");
    assert_eq!(app.run("SELECT count(*) FROM posthaste.pop('app', 'q', 'app')"), "1");
}

#[test]
fn names_and_bodies_come_from_columns_whatever_their_collation_is() {
    let place = Place::new();
    let mut app = place.app();
    place.as_owner(
        "CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false); \
         CREATE TABLE plain (it text COLLATE \"POSIX\", who text COLLATE \"C\"); CREATE TABLE lax (it text COLLATE loose, who text); \
         INSERT INTO plain VALUES ('shop', 'Shop'); INSERT INTO lax TABLE plain; GRANT SELECT ON plain, lax TO app",
    );
    for names in ["plain", "lax"] {
        for call in
            ["create_queue(it)", "login(it)", "send(it, it, it, who)", "send('x', 'shop', it::bytea, it)"]
        {
            let said = app.run(&format!("SELECT posthaste.{call} FROM {names}"));
            assert!(said.parse::<i64>().is_ok(), "{call} from {names}: {said}");
        }
        assert_eq!(app.run(&format!("SELECT posthaste.readable(it) FROM {names}")), "shop");
        let body = |read| {
            format!(
                "SELECT convert_from(body, 'UTF8'), m.sender, m.recipient FROM {names}, posthaste.{read} AS m"
            )
        };
        assert_eq!(app.run(&body("peek(who, it)")), "shop|shop|Shop");
        assert_eq!(
            app.run(&body("pop(who, sender => it)")),
            "shop|shop|Shop",
            "another case is another name"
        );
        assert_eq!(app.run(&body("pop(it, it, 'x')")), "shop|x|shop");
        assert_eq!(app.run(&format!("SELECT posthaste.delete_queue(it) FROM {names}")), "0");
    }
    assert!(app.run("SELECT posthaste.send('x', '*', 'x' COLLATE loose)").starts_with("ERROR:  PHBAD:"));
}

#[test]
fn what_is_sent_while_changes_are_applied_as_a_replica_reaches_those_it_is_for() {
    let place = Place::new();
    let server = place.middleware(&[]);
    let mut bob = login(&server, "bob");
    ask(&mut bob, &["QCREATE", "q"]);
    bob.send(BLOCK).expect("it is connected");
    wait_until("others know that bob waits", || {
        place.as_owner("SELECT count(*) FROM posthaste.watch") == "1"
    });
    let send = "SELECT posthaste.send('stranger', 'q', 'to bob', 'bob'), posthaste.send('stranger', 'q', 'to eve', 'eve')";
    place.as_owner(&format!("SET session_replication_role = replica; {send}"));
    assert_eq!(bob.answer().expect("an answer").body(), Some("to bob"));
    let found = ask(&mut login(&server, "eve"), &["POP", "QUEUE", "q", "FROM", "stranger"]);
    assert_eq!(found.body(), Some("to eve"));
    assert_eq!(place.as_owner("SELECT count(*) FROM posthaste.newcomer"), "0");
}

#[test]
fn an_application_s_role_may_call_what_is_made_for_it_and_nothing_else() {
    let place = Place::new();
    let mut app = place.app();
    for forbidden in [
        "SELECT * FROM posthaste.message",
        "SELECT * FROM posthaste.account",
        "DELETE FROM posthaste.queue",
        "SELECT posthaste.upkeep(null, 0, 1)",
        "SELECT posthaste.turn_ring(1, 1, 2000, null, null)",
        "SELECT posthaste.remove_queue(1, 'refuse')",
        "SELECT nextval('posthaste.message_id')",
        "SELECT posthaste.lock_name('q')",
    ] {
        let said = app.run(forbidden);
        assert!(said.starts_with("ERROR:  42501: permission denied"), "{forbidden}: {said}");
    }
    let callable = "SELECT DISTINCT proname FROM pg_proc p WHERE pronamespace = 'posthaste'::regnamespace \
                    AND has_function_privilege('app', p.oid, 'EXECUTE') AND prorettype <> 'trigger'::regtype ORDER BY 1";
    let names = "create_queue delete_queue login peek pop readable send";
    assert_eq!(place.as_owner(callable).replace('\n', " "), names);
    place.as_owner("REVOKE USAGE ON SCHEMA posthaste FROM app");
    assert!(app.run("SELECT posthaste.readable('app')").contains("permission denied for schema posthaste"));
    // A schema of the caller's own, first on its path, is not looked into.
    place.as_owner("GRANT USAGE ON SCHEMA posthaste TO app; CREATE SCHEMA trap AUTHORIZATION app");
    app.run("CREATE TABLE trap.queue (id bigint, name text); SET search_path = trap, posthaste");
    app.run("SELECT posthaste.create_queue('q')");
    assert_eq!(app.run("SELECT count(*) FROM trap.queue"), "0");
}

#[test]
fn every_message_is_popped_once_by_sql_and_resp_clients_at_once() {
    let place = Place::new();
    let server = place.middleware(&[]);
    let mut sender = login(&server, "sender");
    ask(&mut sender, &["QCREATE", "q"]);
    for number in 0..300 {
        ask(&mut sender, &["SEND", "q", &number.to_string()]);
    }
    place.as_owner("SELECT posthaste.send('app', 'q', n::text) FROM generate_series(300, 599) n");
    let by_resp = || {
        let mut client = login(&server, "reader");
        std::iter::from_fn(|| pop(&mut client)).collect::<Vec<_>>()
    };
    let by_sql = || {
        let mut app = place.app();
        let take = "SELECT convert_from(body, 'UTF8') FROM posthaste.pop('reader', 'q')";
        std::iter::from_fn(|| Some(app.run(take)).filter(|body| !body.is_empty())).collect::<Vec<_>>()
    };
    let mut bodies: Vec<u32> = thread::scope(|scope| {
        let hands: Vec<_> = (0..2).flat_map(|_| [scope.spawn(by_resp), scope.spawn(by_sql)]).collect();
        let taken = hands.into_iter().flat_map(|hand| hand.join().expect("no panic"));
        taken.map(|body| body.parse().expect("a number")).collect()
    });
    bodies.sort_unstable();
    assert_eq!(bodies, (0..600).collect::<Vec<_>>());
}
