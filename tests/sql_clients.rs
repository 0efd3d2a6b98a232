//! The SQL functions of the queue tier, called as an application calls them: as a plain role, inside transactions of
//! its own, while a middleware serves RESP clients over the same database.

#[path = "support/client.rs"]
mod client;
#[path = "support/news.rs"]
mod news;
#[path = "support/postgres.rs"]
mod postgres;
#[path = "support/session.rs"]
mod session;
#[path = "support/mod.rs"]
mod support;

use std::sync::Once;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use client::{Answer, Client};
use news::{is_told, wait_until_blocked};
use postgres::shared;
use session::Session;
use support::Server;

/// A database of a test's own, and what talks to it.
struct Place {
    database: String,
}

impl Place {
    fn new() -> Self {
        static ROLE: Once = Once::new();
        let server = shared();
        let database = server.create_database();
        ROLE.call_once(|| drop(server.psql("postgres", "CREATE ROLE app LOGIN")));
        server.psql(
            &database,
            "GRANT USAGE ON SCHEMA posthaste TO app; CREATE TABLE bill (id int PRIMARY KEY)",
        );
        server.psql(&database, "GRANT ALL ON bill TO app");
        Self { database }
    }

    /// An application's session: its role has no right on any table of the schema.
    fn app(&self) -> Session {
        Session::open(shared(), &self.database, "app")
    }

    fn as_owner(&self, sql: &str) -> String {
        shared().psql(&self.database, sql)
    }

    fn middleware(&self, arguments: &[&str]) -> Server {
        Server::start(&shared().url(&self.database), arguments)
    }
}

/// Longer than any client here waits for an answer: a pop that nobody wakes fails its test.
const BLOCK: &[&str] = &["POP", "QUEUE", "q", "BLOCK", "600000"];

fn login(server: &Server, account: &str) -> Client {
    Client::login(server.addr(), account).expect("a login")
}

fn ask(client: &mut Client, words: &[&str]) -> Answer {
    client.ask(words).expect("an answer")
}

/// The body of the next message of queue q.
fn pop(client: &mut Client) -> Option<String> {
    ask(client, &["POP", "QUEUE", "q"]).body().map(str::to_owned)
}

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
    assert_eq!(app.run("SELECT posthaste.send('alice', 'q', 'news', '*')"), "3", "bob, carol and default");
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
fn whoever_waits_for_a_transaction_keeps_nobody_else_waiting() {
    let place = Place::new();
    let (server, mut app) = (place.middleware(&[]), place.app());
    let mut bob = login(&server, "bob");
    ask(&mut bob, &["QCREATE", "q"]);
    app.run("BEGIN; SELECT posthaste.delete_queue('q')");
    bob.send(&["SEND", "q", "x"]).expect("it runs");
    // The SEND waits by now, or will without harm; the newcomer's number is noted while it does.
    sleep(Duration::from_millis(200));
    drop(login(&server, "newcomer"));
    let mut ann = login(&server, "bob");
    assert_eq!(ask(&mut ann, &["PING"]).text(), Some("PONG"));
    app.run("COMMIT");
    assert!(bob.answer().expect("it runs").is_error("NOQUEUE"));
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
    let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted";
    while place.as_owner(waits) == "0" {
        sleep(Duration::from_millis(10));
    }
    assert!(ask(&mut there, &words).is_error("BUSY"));
    slow.run("COMMIT");
    assert_eq!(here.answer().expect("it runs").body(), Some("1"));
    assert_eq!(ask(&mut there, &words).body(), Some("1"), "the same again");
    // Its time is over, and it has not been cleared away yet.
    slow.run("BEGIN; UPDATE posthaste.remembered_pop SET ends_ms = 0; COMMIT");
    let again = ask(&mut there, &words);
    assert!(again.body() == Some("2"), "{again:?}");
}

#[test]
fn a_blocked_pop_is_woken_by_the_commit_and_not_before() {
    let place = Place::new();
    let (server, mut app) = (place.middleware(&[]), place.app());
    let mut bob = login(&server, "bob");
    ask(&mut bob, &["QCREATE", "q"]);
    for send in ["send('app', 'q', 'x')", "send('new', 'q', 'x', 'bob')"] {
        bob.send(BLOCK).expect("sent");
        wait_until_blocked(server.addr(), 1);
        app.run(&format!("BEGIN; SELECT posthaste.{send}"));
        let (committed, popped) = thread::scope(|scope| {
            let popper = scope.spawn(|| (bob.answer().expect("an answer"), Instant::now()));
            sleep(Duration::from_millis(1300)); // longer than it takes everybody to look for himself
            let committed = Instant::now();
            app.run("COMMIT");
            (committed, popper.join().expect("no panic"))
        });
        assert_eq!(popped.0.body(), Some("x"), "{send}");
        assert!(popped.1 > committed, "{send}: before the commit");
        let woken_after = || {
            bob.send(BLOCK).expect("sent");
            wait_until_blocked(server.addr(), 1);
            app.run(&format!("BEGIN; SELECT posthaste.{send}"));
            let committed = Instant::now();
            app.run("COMMIT");
            assert_eq!(bob.answer().expect("an answer").body(), Some("x"), "{send}");
            committed.elapsed()
        };
        assert!(is_told(woken_after), "{send}: not by the commit");
    }
}

#[test]
fn who_begins_to_wait_before_the_commit_is_told_and_else_nobody() {
    let place = Place::new();
    let (mut app, mut listener) = (place.app(), Session::open(shared(), &place.database, "postgres"));
    let queue = app.run("SELECT posthaste.create_queue('q')");
    let alice = app.run("SELECT posthaste.login('alice')");
    let bob = app.run("SELECT posthaste.login('bob')");
    listener.run("LISTEN posthaste");
    let mut heard = || {
        let said = listener.run("SELECT pg_sleep(0.1)");
        let told = said.lines().filter_map(|line| line.split_once("with payload ")?.1.split('"').nth(1));
        told.map(str::to_owned).collect::<Vec<_>>()
    };
    app.run("SELECT posthaste.send('alice', 'q', 'x')");
    assert_eq!(heard(), [""; 0], "nobody waits");
    app.run("BEGIN; SELECT posthaste.send('alice', 'q', 'x'), posthaste.send('alice', 'q', 'x', 'bob')");
    place.as_owner("SELECT posthaste.watch_news(1, 600000)");
    assert_eq!(heard(), [""; 0], "not committed");
    app.run("COMMIT");
    assert_eq!(heard(), [format!("0 {queue},{alice},0"), format!("0 {queue},{alice},{bob}")]);
    app.run("BEGIN; SELECT posthaste.send('alice', 'q', 'x'); ROLLBACK");
    assert_eq!(heard(), [""; 0], "taken back");
    app.run("SELECT posthaste.delete_queue('q')");
    assert_eq!(heard(), [format!("0 {queue},0,0")], "sender 0: the queue is gone");
}

#[test]
fn a_blocked_pop_learns_that_its_queue_was_deleted() {
    let place = Place::new();
    let (server, mut app) = (place.middleware(&[]), place.app());
    let mut bob = login(&server, "bob");
    let woken_after = || {
        ask(&mut bob, &["QCREATE", "q"]);
        bob.send(BLOCK).expect("sent");
        wait_until_blocked(server.addr(), 1);
        let deleted = Instant::now();
        assert_eq!(app.run("SELECT posthaste.delete_queue('q')"), "0");
        assert!(bob.answer().expect("an answer").is_error("NOQUEUE"));
        deleted.elapsed()
    };
    assert!(is_told(woken_after));
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
    for allowed in [
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
fn an_application_s_role_may_call_the_seven_functions_and_nothing_else() {
    let place = Place::new();
    let mut app = place.app();
    for forbidden in [
        "SELECT * FROM posthaste.message",
        "SELECT * FROM posthaste.account",
        "DELETE FROM posthaste.queue",
        "SELECT posthaste.upkeep(null, 0, 1)",
        "SELECT posthaste.turn_ring(1, 1, 2000, null)",
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
fn an_open_transaction_keeps_no_middleware_waiting() {
    let place = Place::new();
    let (server, mut app) = (place.middleware(&["--workers", "1"]), place.app());
    let mut bob = login(&server, "bob");
    ask(&mut bob, &["QCREATE", "q"]);
    ask(&mut bob, &["SEND", "q", "first"]);
    app.run("BEGIN; SELECT posthaste.send('first named', 'q', 'by sql', 'newcomer')");
    app.run("SELECT * FROM posthaste.pop('bob', 'q')");
    // Whoever waited for this transaction would wait for good: it ends when all of them have their answers.
    let mut newcomer = login(&server, "newcomer");
    assert!(ask(&mut newcomer, &["SEND", "q", "by resp", "TO", "first named"]).integer().is_some());
    assert!(ask(&mut bob, &["SEND", "q", "to newcomer", "TO", "newcomer"]).integer().is_some());
    app.run("COMMIT");
    // The accounts were made by others meanwhile; the message belongs to them now, ahead of the younger one.
    assert_eq!(pop(&mut newcomer).as_deref(), Some("by sql"));
    let message = ask(&mut newcomer, &["POP", "FROM", "bob"]);
    assert_eq!(message.body(), Some("to newcomer"));
    let mut first = login(&server, "first named");
    assert_eq!(pop(&mut first).as_deref(), Some("by resp"));
    let twice = "SELECT count(*), count(DISTINCT name) FROM posthaste.account";
    assert_eq!(place.as_owner(twice), "4|4", "bob, these two, and default");
    assert_eq!(place.as_owner("SELECT count(*) FROM posthaste.newcomer"), "0");
}

#[test]
fn a_lease_counts_from_when_the_queue_was_free_and_not_from_when_it_was_asked_for() {
    const LEASE: &str = "600000";
    let place = Place::new();
    let server = place.middleware(&[]);
    let mut bob = login(&server, "bob");
    ask(&mut bob, &["QCREATE", "q"]);
    for pop in
        [&["POP", "QUEUE", "q", "LEASE", LEASE][..], &["POP", "QUEUE", "q", "COUNT", "2", "LEASE", LEASE]]
    {
        ask(&mut bob, &["SEND", "q", "x"]);
        let mut slow = Session::open(shared(), &place.database, "postgres");
        slow.run("BEGIN; SELECT FROM posthaste.queue WHERE name = 'q' FOR UPDATE");
        bob.send(pop).expect("sent");
        while place.as_owner("SELECT count(*) FROM pg_locks WHERE NOT granted") == "0" {
            sleep(Duration::from_millis(10));
        }
        let free = place.as_owner("SELECT posthaste.now_ms()");
        slow.run("COMMIT");
        bob.answer().expect("an answer");
        let in_time = format!("SELECT bool_and(due_ms >= {free} + {LEASE}) FROM posthaste.message");
        assert_eq!(place.as_owner(&in_time), "t", "{pop:?}");
        ask(&mut bob, &["QPURGE", "q"]);
    }
}

/// Each of the others passes over what the transaction has taken, and must not look at all of it again for each message.
#[test]
fn a_transaction_that_takes_many_messages_does_not_slow_down_those_who_pass_them_over() {
    const TAKEN: usize = 1000;
    let place = Place::new();
    let (server, mut app) = (place.middleware(&[]), place.app());
    let mut bob = login(&server, "bob");
    ask(&mut bob, &["QCREATE", "q"]);
    place.as_owner(&format!(
        "SELECT count(posthaste.send('app', 'q', n::text)) FROM generate_series(0, {TAKEN} + 2) n"
    ));
    let take = format!(
        "SELECT count(*) FROM (SELECT posthaste.pop('app', 'q') FROM generate_series(1, {TAKEN})) AS taken"
    );
    assert_eq!(app.run(&format!("BEGIN; {take}")), TAKEN.to_string());
    // What one pop looks at, as often as it looks.
    let looked =
        "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'message_aside'";
    let popped = "SELECT count(*) FROM posthaste.pop('app', 'q')";
    let read = place.as_owner(&format!("BEGIN; {popped}; {looked}; ROLLBACK"));
    let read: usize = read.lines().last().and_then(|read| read.parse().ok()).expect("a number");
    assert!((TAKEN..20 * TAKEN).contains(&read), "{read} rows for one message behind {TAKEN}");
    for body in [TAKEN, TAKEN + 1, TAKEN + 2] {
        assert_eq!(pop(&mut bob), Some(body.to_string()));
    }
    assert_eq!(pop(&mut bob), None);
    app.run("ROLLBACK");
    assert_eq!(pop(&mut bob).as_deref(), Some("0"));
}

/// A POP that comes too late for a message may lock the row that the winner's lease made of it, until it commits.
#[test]
fn what_a_holder_does_is_never_refused_because_somebody_has_the_row_locked() {
    let place = Place::new();
    let server = place.middleware(&[]);
    let mut bob = login(&server, "bob");
    ask(&mut bob, &["QCREATE", "q"]);
    ask(&mut bob, &["SEND", "q", "x"]);
    let leased = ask(&mut bob, &["POP", "QUEUE", "q", "LEASE", "600000"]);
    let receipt = leased.get("receipt").and_then(Answer::text).expect("a receipt");
    let mut late = Session::open(shared(), &place.database, "postgres");
    late.run("BEGIN; SELECT id FROM posthaste.message WHERE holder_id IS NOT NULL FOR UPDATE");
    let requests = [&["EXTEND", receipt, "600000"][..], &["NACK", receipt], &["ACK", receipt]];
    for words in requests {
        let answer = ask(&mut bob, words);
        assert!(answer.is_error("STORE"), "{words:?} while it is locked: {answer:?}");
    }
    late.run("ROLLBACK");
    assert_eq!(ask(&mut bob, &["EXTEND", receipt, "600000"]), Answer::Integer(1));
    assert_eq!(ask(&mut bob, &["ACK", receipt]), Answer::Integer(1));
}

#[test]
fn who_makes_the_same_queue_takes_turns_and_gives_up_in_time() {
    let place = Place::new();
    let (mut first, mut second) = (place.app(), place.app());
    first.run("BEGIN; SELECT posthaste.create_queue('q')");
    assert!(second.run("SELECT posthaste.create_queue('q')").starts_with("ERROR:  PHBSY:"));
    first.run("ROLLBACK");
    // Where the machine stands still for longer than it is asked again, the second one gives up: then another queue.
    let takes_its_turn = |attempt: usize| {
        let create = format!("SELECT posthaste.create_queue('q{attempt}')");
        let id = first.run(&format!("BEGIN; {create}"));
        second.begin(&create);
        let asks = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%create_queue%' AND wait_event = 'PgSleep' AND datname = current_database()";
        while place.as_owner(asks) == "0" && !second.has_answered() {
            sleep(Duration::from_millis(1));
        }
        first.run("COMMIT");
        let answer = second.finish();
        assert!(answer == id || answer.starts_with("ERROR:  PHBSY:"), "{answer}");
        answer == id
    };
    assert!((0..20).any(takes_its_turn), "it never takes its turn");
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
