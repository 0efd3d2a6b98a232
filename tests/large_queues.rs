//! QPURGE, QDELETE and QREDRIVE of large queues over PostgreSQL: in several transactions, while others use the queue
//! and the tier, with requests of the same pipeline before and behind; and what is answered when it cannot be done to
//! the end.

#[path = "support/client.rs"]
mod client;
#[path = "support/postgres.rs"]
mod postgres;
#[path = "support/session.rs"]
mod session;
#[path = "support/mod.rs"]
mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use client::{Answer, Client};
use postgres::Postgres;
use session::Session;
use support::Server;
use support::ends::Ends;
use support::patience::wait_until;

/// More than are removed at once.
const MANY: i64 = 60_000;

/// A database of its own, and two middlewares.
struct Place {
    postgres: &'static Postgres,
    database: String,
    servers: [Server; 2],
}

impl Place {
    fn new(options: &[&str]) -> Self {
        let postgres = postgres::shared();
        let database = postgres.create_database();
        let servers = [(); 2].map(|()| Server::start(&postgres.url(&database), options));
        Self { postgres, database, servers }
    }

    fn client(&self, server: usize, account: &str) -> Client {
        Client::login(self.servers[server].addr(), account).expect("it runs")
    }

    fn sql(&self, sql: &str) -> String {
        self.postgres.psql(&self.database, sql)
    }

    /// So many messages for a queue: ready ones in every part of the table, from and to several accounts, and leased
    /// ones. Every 37th is part of the aside, every 41st is leased.
    fn fill(&self, queue: &str, messages: i64) {
        self.sql(&format!(
            "INSERT INTO posthaste.message (ring, id, place, queue_id, sender_id, recipient_id, due_ms, holder_id, receipt,
                sent_ms, body)
             SELECT CASE WHEN id % 37 = 0 OR id % 41 = 0 THEN 2 ELSE id % 2 END, id, posthaste.place_of(0, id),
                 (SELECT id FROM posthaste.queue WHERE name = '{queue}'), 1 + id % 5, id % 3,
                 CASE WHEN id % 41 = 0 THEN posthaste.now_ms() + 3600000 END, CASE WHEN id % 41 = 0 THEN 1 END,
                 CASE WHEN id % 41 = 0 THEN id END, posthaste.now_ms(), 'x'::bytea
             FROM (SELECT nextval('posthaste.message_id') AS id FROM generate_series(1, {messages})) AS new"
        ));
    }

    /// So many dead letters, of `orders` and of a queue that is gone: every 7th is delayed, every 11th leased.
    fn bury(&self, queue: &str, letters: i64) {
        self.sql(&format!(
            "INSERT INTO posthaste.message (ring, id, place, queue_id, sender_id, recipient_id, due_ms, holder_id, receipt,
                sent_ms, first_queue, reason, body)
             SELECT 2, id, posthaste.place_of(0, id), (SELECT id FROM posthaste.queue WHERE name = '{queue}'), 1 + id % 5, 0,
                 CASE WHEN id % 7 = 0 OR id % 11 = 0 THEN posthaste.now_ms() + 3600000 END, CASE WHEN id % 11 = 0 THEN 1 END,
                 CASE WHEN id % 11 = 0 THEN id END, posthaste.now_ms(), CASE WHEN id % 2 = 0 THEN 'orders' ELSE 'gone' END,
                 'nack', 'x'::bytea
             FROM (SELECT nextval('posthaste.message_id') AS id FROM generate_series(1, {letters})) AS new"
        ));
    }

    /// How many messages of a queue are stored.
    fn held(&self, queue: &str) -> String {
        self.sql(&format!(
            "SELECT count(*) FROM posthaste.message m JOIN posthaste.queue q ON q.id = m.queue_id WHERE q.name = '{queue}'"
        ))
    }
}

fn ask(client: &mut Client, words: &[&str]) -> Answer {
    client.ask(words).expect("an answer")
}

/// The answers to requests sent in one go.
fn ask_together(client: &mut Client, requests: &[&[&str]]) -> Vec<Answer> {
    requests.iter().for_each(|words| client.send(words).expect("it is connected"));
    requests.iter().map(|_| client.answer().expect("an answer")).collect()
}

fn number(answer: &Answer) -> i64 {
    match answer {
        Answer::Integer(number) => *number,
        other => panic!("{other:?} is no number"),
    }
}

fn emptied_and_deleted(options: &[&str]) {
    let place = Place::new(options);
    let mut client = place.client(0, "ann");
    for queue in ["large", "small"] {
        ask(&mut client, &["QCREATE", queue]);
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for server in 0..2 {
            let (place, done) = (&place, &done);
            scope.spawn(move || {
                let mut other = place.client(server, "bob");
                let own = format!("own {server}");
                ask(&mut other, &["QCREATE", &own]);
                while !done.load(Ordering::Relaxed) {
                    number(&ask(&mut other, &["SEND", &own, "x"]));
                    assert_eq!(ask(&mut other, &["POP", "QUEUE", &own]).body(), Some("x"));
                }
            });
        }
        let _ends = Ends(&done);
        place.fill("large", MANY);
        assert_eq!(ask(&mut client, &["QPURGE", "large"]), Answer::Integer(MANY));
        assert_eq!(place.held("large"), "0");

        // What is asked before it happens before it, and what is asked behind it afterwards.
        place.fill("large", MANY);
        let answers = ask_together(
            &mut client,
            &[
                &["SEND", "small", "1"],
                &["POP", "QUEUE", "large"],
                &["QPURGE", "large"],
                &["SEND", "large", "new"],
                &["QPURGE", "large"],
                &["POP", "QUEUE", "small"],
            ],
        );
        assert_eq!(answers[1].body(), Some("x"));
        assert_eq!(answers[2], Answer::Integer(MANY - 1));
        assert_eq!(answers[4], Answer::Integer(1));
        assert_eq!(answers[5].body(), Some("1"));

        place.fill("large", MANY);
        assert_eq!(ask(&mut client, &["QDELETE", "large"]), Answer::Integer(MANY));
    });
    let info = ask(&mut client, &["INFO", "store"]);
    let purged = format!("\nmessages_purged:{}\r\n", 3 * MANY);
    assert!(info.text().is_some_and(|text| text.contains(&purged)), "each is counted once: {info:?}");
    let gone = ask(&mut client, &["QINFO", "large"]);
    assert!(matches!(&gone, Answer::Error(text) if text.starts_with("NOQUEUE")), "{gone:?}");
    assert_eq!(place.sql("SELECT count(*) FROM posthaste.message"), "0");
}

#[test]
fn a_large_queue_is_emptied_and_deleted_while_others_work() {
    emptied_and_deleted(&[]);
}

#[test]
fn so_it_is_where_every_request_is_a_statement_of_its_own() {
    emptied_and_deleted(&["--batch", "1"]);
}

#[test]
fn many_dead_letters_start_anew_while_others_work() {
    const LETTERS: i64 = 22_000;
    for options in [&[][..], &["--batch", "1"]] {
        let place = Place::new(options);
        let mut client = place.client(0, "ann");
        for queue in ["grave", "orders", "other"] {
            ask(&mut client, &["QCREATE", queue]);
        }
        place.bury("grave", LETTERS);
        let free = place.sql("SELECT count(*) FROM posthaste.message WHERE holder_id IS NULL AND id % 2 = 0");
        let mut waits = place.client(1, "bob");
        waits.send(&["POP", "QUEUE", "orders", "BLOCK", "600000"]).expect("it is connected");
        let answers = ask_together(
            &mut client,
            &[&["SEND", "other", "before"], &["QREDRIVE", "grave"], &["POP", "QUEUE", "other"]],
        );
        number(&answers[0]);
        assert_eq!(
            number(&answers[1]).to_string(),
            free,
            "{options:?}: of what nobody holds, what has a queue"
        );
        assert_eq!(answers[2].body(), Some("before"));
        assert_eq!(waits.answer().expect("one is for it").body(), Some("x"));
        // What is left has no first queue, or a holder.
        let moved = number(&ask(&mut client, &["QREDRIVE", "grave", "other"]));
        assert_eq!(place.held("other"), moved.to_string());
        assert_eq!(place.held("grave"), (LETTERS / 11).to_string());
        assert!(ask(&mut client, &["QREDRIVE", "grave", "nowhere"]).is_error("NOQUEUE"));
    }
}

/// One of the queues is deleted before the first part, or between two of them.
#[test]
fn who_cannot_redrive_many_dead_letters_to_the_end_is_told_so() {
    const LETTERS: i64 = 22_000;
    let place = Place::new(&[]);
    let mut client = place.client(0, "ann");
    place.sql(
        "CREATE TABLE deletion (queue text, before_part int);
         CREATE SEQUENCE parts;
         ALTER FUNCTION posthaste.redrive_some RENAME TO redrive_without_it;
         CREATE FUNCTION posthaste.redrive_some(from_name text, to_name text, INOUT part int, INOUT sender int,
             INOUT recipient int, INOUT place bigint, OUT moved int, OUT missing text) LANGUAGE plpgsql AS $$ BEGIN
             PERFORM posthaste.delete_queue(d.queue)
                 FROM public.deletion AS d WHERE d.before_part = nextval('public.parts');
             SELECT * INTO part, sender, recipient, place, moved, missing
                 FROM posthaste.redrive_without_it(from_name, to_name, part, sender, recipient, place);
         END $$",
    );
    for (deleted, before_part) in [("other", 1), ("grave", 1), ("other", 2), ("grave", 2)] {
        for queue in ["grave", "other"] {
            ask(&mut client, &["QCREATE", queue]);
        }
        place.bury("grave", LETTERS);
        place.sql(&format!(
            "TRUNCATE deletion; INSERT INTO deletion VALUES ('{deleted}', {before_part});
             ALTER SEQUENCE parts RESTART"
        ));
        let answer = ask(&mut client, &["QREDRIVE", "grave", "other"]);
        let case = format!("{deleted} before part {before_part}: {answer:?}");
        match (deleted, before_part, &answer) {
            (_, 1, Answer::Error(text)) => {
                assert!(text.starts_with("NOQUEUE ") && text.contains(deleted), "{case}");
            }
            ("other", _, Answer::Error(text)) => {
                let told = "at least 5000 messages were moved";
                assert!(
                    text.starts_with("STORE ") && text.contains("'other'") && text.contains(told),
                    "{case}"
                );
                assert_eq!(place.held("grave"), (LETTERS - 5000).to_string());
            }
            // The letters that were not moved went with it.
            ("grave", _, Answer::Integer(5000)) => assert_eq!(place.held("other"), "5000"),
            _ => panic!("{case}"),
        }
        for queue in ["grave", "other"] {
            ask(&mut client, &["QDELETE", queue]);
        }
    }
}

/// What has come so far is told by numbers that mean nothing at the next server.
#[test]
fn many_dead_letters_are_not_moved_on_at_another_server() {
    let place = Place::new(&[]);
    let mut client = place.client(0, "ann");
    for queue in ["grave", "other"] {
        ask(&mut client, &["QCREATE", queue]);
    }
    place.bury("grave", 22_000);
    // The second of five parts makes another server of it.
    place.sql(
        "CREATE SEQUENCE parts;
         ALTER FUNCTION posthaste.redrive_some RENAME TO redrive_at_one_server;
         CREATE FUNCTION posthaste.redrive_some(from_name text, to_name text, INOUT part int, INOUT sender int,
             INOUT recipient int, INOUT place bigint, OUT moved int, OUT missing text) LANGUAGE plpgsql AS $$ BEGIN
             IF nextval('public.parts') = 2 THEN
                 ALTER TABLE posthaste.life RENAME TO life_before;
                 CREATE UNLOGGED TABLE posthaste.life (LIKE posthaste.life_before INCLUDING ALL);
             END IF;
             SELECT * INTO part, sender, recipient, place, moved, missing
                 FROM posthaste.redrive_at_one_server(from_name, to_name, part, sender, recipient, place);
         END $$",
    );
    let answer = ask(&mut client, &["QREDRIVE", "grave", "other"]);
    assert!(answer.is_error("STORE"), "{answer:?}");
    assert!(format!("{answer:?}").contains("at least 10000 messages were moved"), "{answer:?}");
    assert_eq!(place.held("grave"), "12000");
    // Every eleventh is leased.
    assert_eq!(ask(&mut client, &["QREDRIVE", "grave", "other"]), Answer::Integer(10_000));
}

#[test]
fn two_that_empty_one_queue_share_its_messages() {
    let place = Place::new(&[]);
    let mut clients = [place.client(0, "ann"), place.client(1, "bob")];
    ask(&mut clients[0], &["QCREATE", "large"]);
    for command in ["QPURGE", "QDELETE"] {
        place.fill("large", MANY);
        clients.iter_mut().for_each(|client| client.send(&[command, "large"]).expect("it is connected"));
        let answers = clients.each_mut().map(|client| client.answer().expect("an answer"));
        // Who comes second to a queue that is gone, and has removed nothing of it, is told so.
        let removed = answers.iter().map(|answer| match answer {
            Answer::Error(text) => {
                assert!(command == "QDELETE" && text.starts_with("NOQUEUE"), "{text}");
                0
            }
            answer => number(answer),
        });
        assert_eq!(removed.sum::<i64>(), MANY, "{command}: {answers:?}");
    }
}

/// A batch in which each of two pipelines empties a large queue behind something else.
#[test]
fn two_large_queues_are_emptied_by_one_batch() {
    let place = Place::new(&["--workers", "1"]);
    let mut clients = ["ann", "bob", "cid"].map(|name| place.client(0, name));
    for queue in ["a", "b", "small", "busy"] {
        ask(&mut clients[0], &["QCREATE", queue]);
    }
    place.fill("a", MANY);
    place.fill("b", MANY);
    // While this is done the others wait for the only worker, and then go together.
    place.fill("busy", 40_000);
    clients[2].send(&["QPURGE", "busy"]).expect("it is connected");
    for (client, queue) in clients.iter_mut().zip(["a", "b"]) {
        client.send(&["SEND", "small", "x"]).expect("it is connected");
        client.send(&["QPURGE", queue]).expect("it is connected");
    }
    for client in &mut clients[..2] {
        number(&client.answer().expect("an answer"));
        assert_eq!(client.answer().expect("an answer"), Answer::Integer(MANY));
    }
    assert_eq!(clients[2].answer().expect("an answer"), Answer::Integer(40_000));
}

/// None of them is large, but together they are.
#[test]
fn a_pipeline_that_empties_many_queues_is_done_in_parts() {
    let place = Place::new(&[]);
    let mut ann = place.client(0, "ann");
    let queues = ["a", "b", "c", "d"];
    for queue in queues {
        ask(&mut ann, &["QCREATE", queue]);
        place.fill(queue, MANY / 2);
    }
    place.sql(
        "CREATE TABLE removed (transaction xid8, messages bigint);
         CREATE FUNCTION note_removed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             INSERT INTO public.removed SELECT pg_current_xact_id(), count(*) FROM gone;
             RETURN null;
         END $$;
         CREATE TRIGGER removed AFTER DELETE ON posthaste.message REFERENCING OLD TABLE AS gone
             FOR EACH STATEMENT EXECUTE FUNCTION note_removed()",
    );
    let removals = [["QPURGE", "a"], ["QDELETE", "b"], ["QDELETE", "c"], ["QPURGE", "d"]];
    let answers = ask_together(&mut ann, &removals.each_ref().map(|words| &words[..]));
    assert_eq!(answers, [(); 4].map(|()| Answer::Integer(MANY / 2)));
    let by_transaction = "SELECT sum(messages) AS messages FROM removed GROUP BY transaction";
    let at_once = place.sql(&format!("SELECT max(messages), sum(messages) FROM ({by_transaction}) AS each"));
    let (most, all) = at_once.split_once('|').expect("two numbers");
    assert_eq!(all, (4 * MANY / 2).to_string());
    assert!(most.parse::<i64>().expect("a number") <= 50_000, "{most} in one transaction");
    let log = place.servers[0].log();
    assert!(!log.contains("holds many messages"), "{log}");
}

/// None of them is large, but together they are: each is emptied at once, however many clients ask.
#[test]
fn many_clients_that_each_empty_a_queue_have_it_emptied_at_once() {
    const EACH: i64 = 5_000;
    let place = Place::new(&["--workers", "1"]);
    let mut clients: Vec<Client> =
        (0..20).map(|number| place.client(0, &format!("client {number}"))).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let queue = format!("q{number}");
        ask(client, &["QCREATE", &queue]);
        place.fill(&queue, EACH);
    }
    for queue in ["busy", "small"] {
        ask(&mut clients[0], &["QCREATE", queue]);
    }
    // While this is done the others wait for the only worker, and then go together.
    place.fill("busy", 40_000);
    let mut first = place.client(0, "first");
    first.send(&["QPURGE", "busy"]).expect("it is connected");
    for (number, client) in clients.iter_mut().enumerate() {
        let queue = format!("q{number}");
        let command = if number % 3 == 0 { "QPURGE" } else { "QDELETE" };
        client.send(&["SEND", "small", "x"]).expect("it is connected");
        client.send(&[command, &queue]).expect("it is connected");
        client.send(&["POP", "QUEUE", "small"]).expect("it is connected");
    }
    assert_eq!(first.answer().expect("an answer"), Answer::Integer(40_000));
    for client in &mut clients {
        number(&client.answer().expect("an answer"));
        assert_eq!(client.answer().expect("an answer"), Answer::Integer(EACH));
        assert_eq!(client.answer().expect("an answer").body(), Some("x"));
    }
    assert_eq!(place.sql("SELECT count(*) FROM posthaste.message"), "0");
    let log = place.servers[0].log();
    assert!(!log.contains("holds many messages"), "{log}");
}

/// Messages of a transaction that does not end are neither removed nor waited for, and what was removed is said.
#[test]
fn what_somebody_holds_keeps_a_large_queue_from_being_emptied_but_for_that() {
    let place = Place::new(&[]);
    let mut client = place.client(0, "ann");
    ask(&mut client, &["QCREATE", "large"]);
    place.fill("large", MANY);
    let mut other = Session::open(place.postgres, &place.database, "postgres");
    other.run("BEGIN; SELECT count(*) FROM (SELECT FROM posthaste.message LIMIT 10 FOR UPDATE) AS held");
    for command in ["QPURGE", "QDELETE"] {
        let answer = ask(&mut client, &[command, "large"]);
        let Answer::Error(text) = &answer else { panic!("{command}: {answer:?}") };
        assert!(text.starts_with("BUSY"), "{text}");
        assert_eq!(
            text.contains(&format!("at least {} messages were removed", MANY - 10)),
            command == "QPURGE",
            "{text}"
        );
        assert_eq!(place.held("large"), "10");
    }
    other.run("ROLLBACK");
    assert_eq!(ask(&mut client, &["QDELETE", "large"]), Answer::Integer(10));
}

#[test]
fn a_large_queue_of_which_somebody_holds_all_is_in_use() {
    let place = Place::new(&[]);
    let mut client = place.client(0, "ann");
    ask(&mut client, &["QCREATE", "large"]);
    place.fill("large", MANY);
    let mut other = Session::open(place.postgres, &place.database, "postgres");
    other.run("BEGIN; DELETE FROM posthaste.message");
    for command in ["QPURGE", "QDELETE"] {
        let answer = ask(&mut client, &[command, "large"]);
        assert!(matches!(&answer, Answer::Error(text) if text.starts_with("BUSY")), "{command}: {answer:?}");
    }
    other.run("ROLLBACK");
    assert_eq!(ask(&mut client, &["QPURGE", "large"]), Answer::Integer(MANY));
}

/// Has sweeps stand still at a gate: after each part, those of queue `last` after the last one.
struct Gates<'a> {
    place: &'a Place,
    keeper: Session,
}

impl<'a> Gates<'a> {
    fn new(place: &'a Place) -> Self {
        place.sql(
            "CREATE FUNCTION stand_at_gate() RETURNS trigger LANGUAGE plpgsql AS $$
             DECLARE swept posthaste.queue := (SELECT q FROM posthaste.queue q WHERE q.id = (SELECT queue_id FROM gone LIMIT 1));
             BEGIN
                 IF swept.name <> 'last' OR NOT EXISTS (SELECT FROM posthaste.message WHERE queue_id = swept.id) THEN
                     PERFORM pg_advisory_xact_lock(hashtext(swept.name));
                 END IF;
                 RETURN null;
             END $$;
             CREATE TRIGGER gate AFTER DELETE ON posthaste.message REFERENCING OLD TABLE AS gone
                 FOR EACH STATEMENT EXECUTE FUNCTION stand_at_gate()",
        );
        Self { place, keeper: Session::open(place.postgres, &place.database, "postgres") }
    }

    fn ask_keeper(&mut self, what: &str, queue: &str) {
        self.keeper.run(&format!("SELECT pg_advisory_{what}(hashtext('{queue}'))"));
    }

    /// Sends a request that empties a large queue. A transaction waits for the row while the sweep stands at its gate, gets
    /// it when the gate opens, and keeps it.
    fn send_into_lock(&mut self, client: &mut Client, request: &[&str; 2]) -> Session {
        let [_, queue] = *request;
        self.ask_keeper("lock", queue);
        client.send(request).expect("it is connected");
        let waiting = |who: &str| {
            self.place.sql(&format!(
                "SELECT count(*) FROM pg_stat_activity
                 WHERE datname = current_database() AND wait_event_type = 'Lock' AND {who}"
            ))
        };
        wait_until("it is at the gate", || waiting("wait_event = 'advisory'") == "1");
        let mut session = Session::open(self.place.postgres, &self.place.database, "postgres");
        session.begin(&format!("BEGIN; SELECT FROM posthaste.queue WHERE name = '{queue}' FOR UPDATE"));
        wait_until("it waits for the row", || waiting("query LIKE '%FOR UPDATE%'") == "1");
        // Nor may a batch get it first.
        self.keeper.run("SELECT pg_advisory_lock(hashtext('posthaste.append'), 0)");
        self.ask_keeper("unlock", queue);
        session.finish();
        self.keeper.run("SELECT pg_advisory_unlock(hashtext('posthaste.append'), 0)");
        session
    }
}

#[test]
fn who_cannot_empty_a_large_queue_to_the_end_is_told_how_much_is_gone() {
    let place = Place::new(&[]);
    let mut gates = Gates::new(&place);
    let removals = [["QPURGE", "first"], ["QDELETE", "last"]];
    let mut removing: Vec<(Client, Session)> = removals
        .iter()
        .map(|request| {
            let mut client = place.client(0, "ann");
            ask(&mut client, &["QCREATE", request[1]]);
            place.fill(request[1], MANY);
            let lock = gates.send_into_lock(&mut client, request);
            (client, lock)
        })
        .collect();
    for (request, (client, lock)) in removals.iter().zip(&mut removing) {
        let answer = client.answer().expect("an answer");
        let Answer::Error(text) = &answer else { panic!("{request:?}: {answer:?}") };
        let held: i64 = place.held(request[1]).parse().expect("a number");
        assert!(if request[1] == "first" { (10_000..MANY).contains(&held) } else { held == 0 }, "{held}");
        let told = format!("at least {} messages were removed", MANY - held);
        assert!(text.starts_with("STORE ") && text.contains(request[1]) && text.contains(&told), "{text}");
        lock.run("ROLLBACK");
        assert_eq!(ask(client, request), Answer::Integer(held));
    }
}

#[test]
fn who_empties_another_large_queue_does_not_wait_for_one_that_is_locked() {
    // Less than as long as the database is waited for.
    const SOON: Duration = Duration::from_secs(20);
    let place = Place::new(&[]);
    let mut clients = ["ann", "bob"].map(|name| place.client(0, name));
    for queue in ["kept", "other"] {
        ask(&mut clients[0], &["QCREATE", queue]);
        place.fill(queue, MANY);
    }
    let mut lock = Gates::new(&place).send_into_lock(&mut clients[0], &["QPURGE", "kept"]);
    let begun = Instant::now();
    assert_eq!(ask(&mut clients[1], &["QDELETE", "other"]), Answer::Integer(MANY));
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    lock.run("ROLLBACK");
    assert_eq!(clients[0].answer().expect("an answer"), Answer::Integer(MANY));
}

/// The connection that sweeps is cut: the answer says so, and asked again it does the rest.
#[test]
fn a_sweep_that_is_cut_says_what_it_did() {
    let place = Place::new(&[]);
    let mut client = place.client(0, "ann");
    ask(&mut client, &["QCREATE", "large"]);
    // As often as it takes to meet it.
    let mut goes = 0;
    let text = loop {
        goes += 1;
        assert!(goes <= 50, "no sweep was met");
        place.fill("large", MANY);
        client.send(&["QPURGE", "large"]).expect("it is connected");
        let answered = AtomicBool::new(false);
        let answer = thread::scope(|scope| {
            scope.spawn(|| {
                let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                    WHERE query LIKE '%posthaste.sweep%' AND state = 'active' AND datname = current_database()
                        AND pid <> pg_backend_pid()";
                while !answered.load(Ordering::Relaxed) && place.sql(cut) == "0" {
                    thread::yield_now();
                }
            });
            let _ends = Ends(&answered);
            client.answer().expect("an answer")
        });
        match answer {
            Answer::Error(text) => break text,
            done => assert_eq!(done, Answer::Integer(MANY)),
        }
    };
    assert!(text.starts_with("STORE"), "{text}");
    let told = text.split_once("at least ").and_then(|(_, rest)| rest.split_once(" messages were removed"));
    // Of the first part nobody knows.
    assert!(told.is_some() || text.contains("it is unknown"), "{text}");
    let removed: i64 = told.map_or(0, |(number, _)| number.parse().expect("a number"));
    let held: i64 = place.held("large").parse().expect("a number");
    assert!(removed + held <= MANY && held > 0, "{text}, and {held} are left");
    assert_eq!(ask(&mut client, &["QPURGE", "large"]), Answer::Integer(held));
}
