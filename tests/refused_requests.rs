//! A request that PostgreSQL itself refuses, with an error where the rules have an answer for everything: it fails
//! alone, and the rest of its batch is done as if it had never been there.

mod support;

#[path = "support/client.rs"]
mod client;

#[path = "support/news.rs"]
mod news;

#[path = "support/postgres.rs"]
mod postgres;

#[path = "support/session.rs"]
mod session;

use std::net::SocketAddr;

use client::{Answer, Client};
use news::{wait_for_info, wait_until_blocked};
use postgres::{Postgres, Stop};
use session::Session;
use support::Server;
use support::patience::wait_until;

/// Clients whose requests go together: no power of two, so that halves differ.
const CLIENTS: usize = 7;

/// Stands for whatever a database may have against one row and no other: a damaged page, say. And for what is more than
/// it can do.
const REFUSES_POISON: &str = "
    CREATE FUNCTION refuse_poison() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF NEW.body = convert_to('poison', 'UTF8') THEN
            RAISE EXCEPTION USING ERRCODE = 'data_corrupted', MESSAGE = 'poison is not stored';
        ELSIF NEW.body = convert_to('too much', 'UTF8') THEN
            RAISE EXCEPTION USING ERRCODE = 'configuration_limit_exceeded', MESSAGE = 'that is too much';
        ELSIF NEW.body = convert_to('for ever', 'UTF8') THEN
            PERFORM pg_sleep(3600);
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER refuse_poison BEFORE INSERT ON posthaste.message FOR EACH ROW EXECUTE FUNCTION refuse_poison()";

/// A database that refuses one body, and a middleware whose only worker takes all that waits.
struct Place {
    postgres: Postgres,
    database: String,
    server: Server,
}

impl Place {
    fn new() -> Self {
        let postgres = Postgres::start(&[]);
        let database = postgres.create_database();
        postgres.psql(&database, REFUSES_POISON);
        let server = Server::start(&postgres.url(&database), &["--workers", "1"]);
        let mut client = connect(server.addr());
        for queue in ["held", "q", "waiting"] {
            ask(&mut client, &["QCREATE", queue]);
        }
        Self { postgres, database, server }
    }

    /// Has clients ask in one batch; what each of them was answered.
    fn in_one_batch(&self, pipelines: &[Vec<Vec<String>>]) -> Vec<Vec<Answer>> {
        let mut clients = self.ask_in_one_batch(pipelines);
        let answers = clients.iter_mut().zip(pipelines);
        answers
            .map(|(client, asked)| asked.iter().map(|_| client.answer().expect("it runs")).collect())
            .collect()
    }

    /// Has clients ask while the worker waits for a lock, so that all they ask is one batch.
    fn ask_in_one_batch(&self, pipelines: &[Vec<Vec<String>>]) -> Vec<Client> {
        let mut holder = Session::open(&self.postgres, &self.database, "postgres");
        let lock = "BEGIN; SELECT name FROM posthaste.queue WHERE name = 'held' FOR UPDATE";
        assert_eq!(holder.run(lock), "held");
        let mut held = connect(self.server.addr());
        held.send(&["SEND", "held", "x"]).expect("it runs");
        self.wait_until(&self.waits_for_a_lock(), "1");
        let mut asked = 0;
        let clients = pipelines
            .iter()
            .map(|requests| {
                let mut client = connect(self.server.addr());
                client
                    .write(&requests.iter().flat_map(|words| encoded(words)).collect::<Vec<u8>>())
                    .expect("it runs");
                asked += requests.len();
                // They come in this order.
                self.wait_until_in_line(asked);
                client
            })
            .collect();
        assert_eq!(holder.run("COMMIT"), "");
        assert!(held.answer().expect("it runs").integer().is_some());
        clients
    }

    /// How many sessions wait for a lock.
    fn waits_for_a_lock(&self) -> String {
        format!(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND wait_event_type = 'Lock'",
            self.database
        )
    }

    #[track_caller]
    fn wait_until(&self, sql: &str, said: &str) {
        wait_until(format!("{said}, to {sql}"), || self.postgres.psql("postgres", sql) == said);
    }

    #[track_caller]
    fn wait_until_in_line(&self, requests: usize) {
        wait_for_info(self.server.addr(), &format!("line_requests:{requests}"));
    }

    /// What a queue holds, sorted.
    fn bodies(&self, queue: &str) -> String {
        let sql = "SELECT string_agg(convert_from(body, 'UTF8'), ',' ORDER BY body) FROM posthaste.message
            WHERE queue_id = (SELECT id FROM posthaste.queue WHERE name";
        self.postgres.psql(&self.database, &format!("{sql} = '{queue}')"))
    }
}

fn connect(server: SocketAddr) -> Client {
    Client::connect(server).expect("it runs")
}

fn ask(client: &mut Client, words: &[&str]) -> Answer {
    client.ask(words).expect("it runs")
}

fn words(request: &str) -> Vec<String> {
    request.split('|').map(str::to_owned).collect()
}

fn encoded(words: &[String]) -> Vec<u8> {
    let words = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    format!("*{}\r\n{}", words.len(), words.collect::<String>()).into_bytes()
}

fn is_refused(answer: &Answer) -> bool {
    matches!(answer, Answer::Error(text)
        if text.starts_with("STORE ") && text.contains("poison is not stored") && text.contains("nothing was changed"))
}

#[test]
fn the_request_to_blame_fails_alone() {
    let mut place = Place::new();
    let mut kept = Vec::new();
    // Wherever it stands, and where there are two.
    for (round, poisoned) in [&[0][..], &[3], &[CLIENTS - 1], &[1, 2], &[0, 5]].into_iter().enumerate() {
        let mut feeder = connect(place.server.addr());
        let pipelines: Vec<_> = (0..CLIENTS)
            .map(|number| {
                if poisoned.contains(&number) {
                    return vec![words("SEND|q|poison")];
                }
                let own = format!("own{number}");
                ask(&mut feeder, &["QCREATE", &own]);
                ask(&mut feeder, &["SEND", &own, "own"]);
                let mine = ["a", "b"].map(|letter| format!("{round}{number}{letter}"));
                let sends = mine.clone().map(|body| words(&format!("SEND|q|{body}")));
                kept.extend(mine);
                let [first, last] = sends;
                vec![first, words(&format!("POP|QUEUE|{own}")), last]
            })
            .collect();
        for (number, answers) in place.in_one_batch(&pipelines).iter().enumerate() {
            if poisoned.contains(&number) {
                assert!(answers.iter().all(is_refused), "{poisoned:?}, {number}: {answers:?}");
                continue;
            }
            let (first, last) = (answers[0].integer(), answers[2].integer());
            assert!(first.is_some() && first < last, "{poisoned:?}, {number}: {answers:?}");
            assert_eq!(answers[1].body(), Some("own"), "{poisoned:?}, {number}: {answers:?}");
        }
        assert!((0..CLIENTS).all(|number| place.bodies(&format!("own{number}")).is_empty()));
        place.server.wait_for_log("tried in parts");
    }
    // What was answered well is on the disk.
    place.postgres.stop(Stop::Immediate);
    place.postgres.start_again();
    assert_eq!(place.bodies("q"), kept.join(","));
}

#[test]
fn a_pop_that_waits_gets_through_it() {
    let place = Place::new();
    for (poisoned, sends) in [(0, CLIENTS - 1), (0, 1), (CLIENTS - 1, 0), (3, 4), (4, 3)] {
        let mut waiting = connect(place.server.addr());
        waiting.send(&["POP", "QUEUE", "waiting", "BLOCK", "600000"]).expect("it runs");
        wait_until_blocked(place.server.addr(), 1);
        let request = |number| match number {
            _ if number == poisoned => "SEND|q|poison",
            _ if number == sends => "SEND|waiting|at last",
            _ => "SEND|q|other",
        };
        let pipelines: Vec<_> = (0..CLIENTS).map(|number| vec![words(request(number))]).collect();
        let answers = place.in_one_batch(&pipelines);
        for (number, answers) in answers.iter().enumerate() {
            let is_well =
                if number == poisoned { is_refused(&answers[0]) } else { answers[0].integer().is_some() };
            assert!(is_well, "{poisoned}, {number}: {answers:?}");
        }
        assert_eq!(waiting.answer().expect("it runs").body(), Some("at last"), "{poisoned} {sends}");
        assert_eq!(place.bodies("waiting"), "");
    }
    place.server.wait_for_log("tried in parts");
}

/// What a connection has asked at once is one piece of a batch, which is done or not done.
#[test]
fn what_its_own_connection_asked_with_it_is_not_done_and_is_told_so() {
    let place = Place::new();
    let mut waiting = connect(place.server.addr());
    waiting.send(&["POP", "QUEUE", "waiting", "BLOCK", "600000"]).expect("it runs");
    wait_until_blocked(place.server.addr(), 1);
    let piece = ["SEND|waiting|never", "SEND|q|poison", "SEND|q|neither"].map(words).to_vec();
    let answers = place.in_one_batch(&[piece, vec![words("SEND|q|other")]]);
    assert!(answers[0].iter().all(is_refused), "{answers:?}");
    assert!(answers[1][0].integer().is_some(), "{answers:?}");
    assert_eq!((place.bodies("q").as_str(), place.bodies("waiting").as_str()), ("other", ""));
    // The pop that was called for nothing waits on.
    let sent = ask(&mut connect(place.server.addr()), &["SEND", "waiting", "at last"]);
    assert!(sent.integer().is_some(), "{sent:?}");
    assert_eq!(waiting.answer().expect("it runs").body(), Some("at last"));
}

#[test]
fn a_queue_that_is_kept_locked_holds_up_its_batch_once() {
    let place = Place::new();
    let mut holder = Session::open(&place.postgres, &place.database, "postgres");
    assert_eq!(
        holder.run("BEGIN; SELECT name FROM posthaste.queue WHERE name = 'waiting' FOR UPDATE"),
        "waiting"
    );
    let is_locked = |number: usize| number % 3 == 1;
    let request = |number| if is_locked(number) { "SEND|waiting|x" } else { "SEND|q|x" };
    let pipelines: Vec<_> = (0..CLIENTS).map(|number| vec![words(request(number))]).collect();
    let mut clients = place.ask_in_one_batch(&pipelines);
    let mut answer = |number: usize| clients[number].answer().expect("it runs").integer();
    for number in (0..CLIENTS).filter(|number| !is_locked(*number)) {
        assert!(answer(number).is_some(), "{number}");
    }
    let waits = place.postgres.log().matches("another transaction holds a lock on queue 'waiting'").count();
    assert_eq!(waits, 1, "each takes a second, in which nobody of the batch is answered");
    holder.run("COMMIT");
    for number in (0..CLIENTS).filter(|number| is_locked(*number)) {
        assert!(answer(number).is_some(), "{number}");
    }
}

/// Each of them is waited for a second; were they told one by one, nobody of the batch would be answered for as many
/// seconds.
#[test]
fn queues_that_are_kept_locked_together_hold_up_their_batch_once() {
    let place = Place::new();
    let mut holder = Session::open(&place.postgres, &place.database, "postgres");
    let kept: Vec<String> = (0..CLIENTS - 2).map(|number| format!("kept{number}")).collect();
    let mut client = connect(place.server.addr());
    for queue in &kept {
        ask(&mut client, &["QCREATE", queue]);
    }
    let lock =
        "BEGIN; SELECT count(*) FROM (SELECT FROM posthaste.queue WHERE name LIKE 'kept%' FOR UPDATE) AS l";
    assert_eq!(holder.run(lock), kept.len().to_string());
    let others = ["q", "waiting"].map(str::to_owned);
    let pipelines: Vec<_> =
        kept.iter().chain(&others).map(|queue| vec![words(&format!("SEND|{queue}|x"))]).collect();
    let mut clients = place.ask_in_one_batch(&pipelines);
    let kept = clients.drain(..kept.len()).collect::<Vec<_>>();
    for mut client in clients {
        assert!(client.answer().expect("it runs").integer().is_some());
    }
    assert_eq!(place.postgres.log().matches("ERROR:  another transaction holds a lock on queue").count(), 1);
    holder.run("COMMIT");
    for mut client in kept {
        assert!(client.answer().expect("it runs").integer().is_some());
    }
}

/// The same error may be one request's fault or that of all together.
#[test]
fn what_is_too_much_at_once_is_done_in_parts() {
    let place = Place::new();
    let sends = |bodies: [&str; 3]| bodies.map(|body| words(&format!("SEND|q|{body}"))).to_vec();
    let answers = place.in_one_batch(&[
        sends(["1", "2", "3"]),
        sends(["4", "too much", "5"]),
        sends(["too much", "6", "7"]),
        sends(["8", "9", "too much"]),
    ]);
    let is_done = |answer: &Answer| answer.integer().is_some();
    let done: Vec<Vec<bool>> = answers.iter().map(|answers| answers.iter().map(is_done).collect()).collect();
    let expected = [[true, true, true], [true, false, true], [false, true, true], [true, true, false]];
    assert_eq!(done, expected, "{answers:?}");
    assert_eq!(place.bodies("q"), "1,2,3,4,5,6,7,8,9");
}

#[test]
fn a_request_that_takes_for_ever_fails_alone() {
    let place = Place::new();
    let requests =
        ["SEND|q|for ever", "SEND|q|other", "SEND|waiting|another"].map(|request| vec![words(request)]);
    let answers = place.in_one_batch(&requests);
    assert!(answers[0][0].is_error("STORE"), "{answers:?}");
    assert!(answers[1..].iter().all(|answers| answers[0].integer().is_some()), "{answers:?}");
    assert_eq!((place.bodies("q").as_str(), place.bodies("waiting").as_str()), ("other", "another"));
}

/// What PostgreSQL gives up for now and would do the next time: 40001 and 40P01, as bodies. The first of each two attempts
/// fails, or every one. Attempts are counted by a sequence, which no rollback takes back.
const REFUSES_FOR_NOW: &str = "
    CREATE SEQUENCE public.attempts;
    CREATE FUNCTION refuse_for_now() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE said text[] := string_to_array(convert_from(NEW.body, 'UTF8'), ' ');
    BEGIN
        IF said[1] IN ('40001', '40P01') AND (nextval('public.attempts') % 2 = 1 OR said[2] = 'always') THEN
            RAISE EXCEPTION USING ERRCODE = said[1], MESSAGE = 'not now';
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER refuse_for_now BEFORE INSERT ON posthaste.message FOR EACH ROW EXECUTE FUNCTION refuse_for_now()";

/// Attempts of one request that fails each time, by itself or with others: by halves there are few.
const ATTEMPTS_MAX: usize = 20;

#[test]
fn what_the_database_gives_up_for_now_is_done_once_more_and_once_only() {
    let place = Place::new();
    place.postgres.psql(&place.database, REFUSES_FOR_NOW);
    let attempts = || {
        let tried: usize = place
            .postgres
            .psql(&place.database, "SELECT last_value FROM attempts")
            .parse()
            .expect("a number");
        place.postgres.psql(&place.database, "SELECT setval('attempts', 1, false)");
        tried
    };
    for code in ["40001", "40P01"] {
        let mut client = connect(place.server.addr());
        let sent = ask(&mut client, &["SEND", "q", code]);
        assert!(sent.integer().is_some(), "{code}: {sent:?}");
        assert_eq!((attempts(), place.bodies("q").as_str()), (2, code));
        // With a pop before it and a send after it, which are done once too.
        ask(&mut client, &["SEND", "waiting", "first"]);
        let asked = ["POP|QUEUE|q", &format!("SEND|waiting|{code}"), "SEND|q|last"].map(words).to_vec();
        let answers = place.in_one_batch(&[asked, vec![words("POP|QUEUE|waiting")]]);
        assert_eq!(answers[0][0].body(), Some(code), "{answers:?}");
        assert!(answers[0][1..].iter().all(|answer| answer.integer().is_some()), "{answers:?}");
        assert_eq!(answers[1][0].body(), Some("first"), "{answers:?}");
        assert_eq!((attempts(), place.bodies("q").as_str()), (2, "last"));
        assert_eq!(place.bodies("waiting"), code);
        for queue in ["q", "waiting"] {
            ask(&mut client, &["QPURGE", queue]);
        }
        // If it does not help, that is said, and the others of the batch are done.
        let never = format!("SEND|q|{code} always");
        let alone = ask(&mut client, &["SEND", "q", &format!("{code} always")]);
        assert!(alone.is_error("STORE"), "{alone:?}");
        assert_eq!(attempts(), 2);
        let requests: Vec<_> = (0..CLIENTS)
            .map(|number| if number == 3 { never.clone() } else { format!("SEND|q|{number}") })
            .collect();
        let answers =
            place.in_one_batch(&requests.iter().map(|request| vec![words(request)]).collect::<Vec<_>>());
        for (number, answers) in answers.iter().enumerate() {
            assert_eq!(answers[0].is_error("STORE"), number == 3, "{answers:?}");
        }
        assert!(attempts() <= ATTEMPTS_MAX, "it is given up in time");
        assert_eq!(place.bodies("q"), "0,1,2,4,5,6");
        ask(&mut client, &["QPURGE", "q"]);
    }
}
