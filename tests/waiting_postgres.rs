//! Pops that wait over PostgreSQL, with several workers: served in the order they came, and told when their queue is
//! gone, whatever comes right behind.

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

use std::thread::sleep;
use std::time::Duration;

use client::{Answer, Client};
use news::{wait_for_info, wait_until_blocked};
use session::Session;
use support::Server;
use support::patience::wait_until;

/// Long enough for a middleware to hear that a client has left, or to do what was waited for.
const A_MOMENT: Duration = Duration::from_millis(300);

/// How often the same is tried: what goes wrong does so when threads meet.
const ROUNDS: usize = 25;

fn ask(client: &mut Client, words: &[&str]) -> Answer {
    client.ask(words).expect("an answer")
}

struct Place {
    server: Server,
    client: Client,
    waiters: Vec<Client>,
}

impl Place {
    fn new(waiters: usize, arguments: &[&str]) -> Self {
        let server = postgres::shared();
        let server = Server::start(&server.url(&server.create_database()), arguments);
        let login = |name: &str| Client::login(server.addr(), name).expect("it runs");
        let client = login("ann");
        let waiters = (0..waiters).map(|number| login(&format!("waiter {number}"))).collect();
        Self { server, client, waiters }
    }

    /// One after the other begins to wait.
    fn wait(&mut self, queue: &str) {
        for (before, waiter) in self.waiters.iter_mut().enumerate() {
            waiter.send(&["POP", "QUEUE", queue, "BLOCK", "600000"]).expect("it is connected");
            wait_until_blocked(self.server.addr(), before + 1);
        }
    }
}

#[test]
fn who_waits_longer_is_served_before_however_fast_messages_come() {
    let mut place = Place::new(6, &[]);
    ask(&mut place.client, &["QCREATE", "q"]);
    for round in 0..ROUNDS {
        place.wait("q");
        let bodies: Vec<String> =
            (0..place.waiters.len()).map(|number| format!("{round} {number}")).collect();
        // Each acknowledged before the next; by two clients at once in every other round, who send the second half
        // together.
        let (one_by_one, together) =
            bodies.split_at(if round % 2 == 0 { bodies.len() } else { bodies.len() / 2 });
        for body in one_by_one {
            ask(&mut place.client, &["SEND", "q", body]);
        }
        for body in together {
            place.client.send(&["SEND", "q", body]).expect("it is connected");
        }
        for _ in together {
            place.client.answer().expect("an answer");
        }
        for (waiter, body) in place.waiters.iter_mut().zip(&bodies) {
            assert_eq!(waiter.answer().expect("an answer").body(), Some(&**body));
        }
    }
    place.server.stop();
}

/// Where several workers ask the database, the replies come in any order.
#[test]
fn who_came_first_is_served_first_whenever_the_database_has_said_that_nothing_is_there() {
    // The kernel tells one thread of connections in the order in which something came, however long it had no processor.
    let mut place = Place::new(8, &["--threads", "1"]);
    ask(&mut place.client, &["QCREATE", "q"]);
    for _ in 0..ROUNDS {
        for waiter in &mut place.waiters {
            waiter.send(&["POP", "QUEUE", "q", "BLOCK", "600000"]).expect("it is connected");
            sleep(Duration::from_millis(5));
        }
        wait_until_blocked(place.server.addr(), place.waiters.len());
        let bodies: Vec<String> = (0..place.waiters.len()).map(|number| number.to_string()).collect();
        let words = ["SENDMANY", "q"].into_iter().chain(bodies.iter().map(String::as_str));
        ask(&mut place.client, &words.collect::<Vec<_>>());
        for (waiter, body) in place.waiters.iter_mut().zip(&bodies) {
            assert_eq!(waiter.answer().expect("an answer").body(), Some(&**body));
        }
    }
    place.server.stop();
}

#[test]
fn who_waits_for_a_queue_that_is_deleted_gets_nothing_of_the_next_one_of_that_name() {
    let mut place = Place::new(2, &[]);
    for round in 0..ROUNDS {
        let queue = format!("q{round}");
        let requests = [&["QDELETE", &queue][..], &["QCREATE", &queue], &["SEND", &queue, "new"]];
        ask(&mut place.client, &["QCREATE", &queue]);
        place.wait(&queue);
        if round % 2 == 0 {
            requests.iter().for_each(|words| place.client.send(words).expect("it is connected"));
            requests.iter().for_each(|_| drop(place.client.answer().expect("an answer")));
        } else {
            requests.iter().for_each(|words| drop(ask(&mut place.client, words)));
        }
        for waiter in &mut place.waiters {
            let answer = waiter.answer().expect("an answer");
            assert!(matches!(&answer, Answer::Error(text) if text.starts_with("NOQUEUE")), "{answer:?}");
        }
        assert_eq!(ask(&mut place.client, &["POP", "QUEUE", &queue]).body(), Some("new"));
    }
    place.server.stop();
}

/// A middleware with one worker, a queue `q` with a message, and an application's session.
fn with_one_worker() -> (Server, Client, Session, String) {
    let postgres = postgres::shared();
    let database = postgres.create_database();
    let server = Server::start(&postgres.url(&database), &["--workers", "1"]);
    let mut bob = Client::login(server.addr(), "bob").expect("it runs");
    for words in [&["QCREATE", "q"][..], &["QCREATE", "other"], &["SEND", "q", "x"]] {
        ask(&mut bob, words);
    }
    (server, bob, Session::open(postgres, &database, "postgres"), database)
}

/// Until it is known that everybody else has left; who looks is there, too.
#[track_caller]
fn wait_until_only_bob_is_there(server: &Server) {
    wait_for_info(server.addr(), "connected_clients:2");
}

fn is_known_to_be_locked(server: &Server) -> bool {
    server.log().contains("another transaction holds a lock on the row of queue 'q'")
}

/// The same, with the worker kept by an ACK of bob's for a lease that the application's transaction has locked, and a pop
/// of `q` behind it that nobody has looked at yet.
fn with_the_worker_kept() -> (Server, Client, Session, Client) {
    let (server, mut bob, mut app, database) = with_one_worker();
    ask(&mut bob, &["SEND", "other", "y"]);
    let leased = ask(&mut bob, &["POP", "QUEUE", "other", "LEASE", "600000"]);
    let receipt = leased.get("receipt").and_then(Answer::text).expect("a receipt").to_owned();
    let mut waiter = Client::login(server.addr(), "ann").expect("it runs");
    app.run("BEGIN; SELECT FROM posthaste.message WHERE holder_id IS NOT NULL FOR UPDATE");
    bob.send(&["ACK", &receipt]).expect("it runs");
    let waits = "SELECT count(*) FROM pg_stat_activity \
                 WHERE datname = current_database() AND wait_event_type = 'Lock'";
    wait_until("the worker waits", || postgres::shared().psql(&database, waits) != "0");
    waiter.send(&["POP", "QUEUE", "q", "BLOCK", "600000"]).expect("it runs");
    sleep(A_MOMENT);
    (server, bob, app, waiter)
}

#[test]
fn who_leaves_while_a_transaction_keeps_the_queue_takes_nothing_of_it() {
    let (server, mut bob, mut app, _) = with_one_worker();
    app.run("BEGIN; SELECT posthaste.delete_queue('q')");
    let waiters: Vec<Client> = [false, true]
        .map(|is_behind| {
            let mut waiter = Client::login(server.addr(), "ann").expect("it runs");
            if is_behind {
                waiter.write(b"SEND other y\r\nPOP QUEUE q BLOCK 600000\r\n").expect("it runs");
                assert!(waiter.answer().expect("an answer").integer().is_some());
            } else {
                waiter.send(&["POP", "QUEUE", "q", "BLOCK", "600000"]).expect("it runs");
                wait_until("it waits apart", || is_known_to_be_locked(&server));
            }
            waiter
        })
        .into();
    sleep(A_MOMENT);
    drop(waiters);
    wait_until_only_bob_is_there(&server);
    app.run("ROLLBACK");
    sleep(A_MOMENT);
    assert_eq!(ask(&mut bob, &["POP", "QUEUE", "q"]).body(), Some("x"));
    assert_eq!(ask(&mut bob, &["POP", "QUEUE", "other"]).body(), Some("y"));
    server.stop();
}

#[test]
fn who_leaves_while_all_workers_are_kept_takes_nothing() {
    let takes_nothing = || {
        let (server, mut bob, mut app, waiter) = with_the_worker_kept();
        drop(waiter);
        sleep(A_MOMENT); // it counts as there until a worker has looked at what it asked
        app.run("COMMIT");
        let answer = bob.answer().expect("an answer");
        if answer.is_error("STORE") {
            return false;
        }
        assert_eq!(answer, Answer::Integer(1));
        sleep(A_MOMENT);
        assert_eq!(ask(&mut bob, &["POP", "QUEUE", "q"]).body(), Some("x"));
        server.stop();
        true
    };
    // The worker is kept for two seconds, and free again before the waiter has left where the machine stands still.
    assert!((0..10).any(|_| takes_nothing()), "ten times bob's request was given up");
}

#[test]
fn a_stop_ends_waits_for_messages_and_for_a_queue_that_a_transaction_keeps() {
    let (server, mut bob, mut app, _) = with_one_worker();
    assert_eq!(ask(&mut bob, &["POP", "QUEUE", "q"]).body(), Some("x"));
    let mut waiters = ["ann", "cy", "di"].map(|name| Client::login(server.addr(), name).expect("it runs"));
    for (before, queue) in ["other", "q"].into_iter().enumerate() {
        waiters[before].send(&["POP", "QUEUE", queue, "BLOCK", "600000"]).expect("it runs");
        wait_until_blocked(server.addr(), before + 1);
    }
    app.run("BEGIN; SELECT posthaste.delete_queue('q')");
    waiters[2].send(&["POP", "QUEUE", "q", "BLOCK", "600000"]).expect("it runs");
    wait_until("it waits apart", || is_known_to_be_locked(&server));
    server.stop();
    let [nothing, unsure @ ..] = waiters.each_mut().map(|waiter| waiter.answer().expect("an answer"));
    assert_eq!(nothing, Answer::Null);
    for answer in unsure {
        let Answer::Error(text) = &answer else { panic!("it could not look: {answer:?}") };
        assert!(text.starts_with("STORE ") && text.contains("nothing was changed"), "{text}");
    }
}

/// A null says that there was nothing.
#[test]
fn who_has_not_looked_when_the_server_is_told_to_stop_gets_what_is_there() {
    let (server, _bob, mut app, mut waiter) = with_the_worker_kept();
    server.signal("TERM");
    sleep(A_MOMENT);
    app.run("COMMIT");
    assert_eq!(waiter.answer().expect("an answer").body(), Some("x"));
    assert_eq!(server.end().code(), Some(0));
}

/// As with a commit that takes long. The next pop of an empty queue has waited long enough, and is not parked.
#[test]
fn a_pop_whose_time_is_over_looks_when_its_queue_is_kept_no_longer() {
    const BLOCK: Duration = Duration::from_millis(1500);
    let (server, _, mut app, _) = with_one_worker();
    let mut waiters = ["ann", "cy"].map(|name| Client::login(server.addr(), name).expect("it runs"));
    app.run("BEGIN; SELECT FROM posthaste.queue WHERE name = 'q' FOR UPDATE");
    for waiter in &mut waiters {
        waiter.send(&["POP", "QUEUE", "q", "BLOCK", &BLOCK.as_millis().to_string()]).expect("it runs");
    }
    wait_until("they wait apart", || is_known_to_be_locked(&server));
    sleep(BLOCK + A_MOMENT);
    app.run("COMMIT");
    let answers = waiters.each_mut().map(|waiter| waiter.answer().expect("an answer"));
    assert!(answers.iter().any(|answer| answer.body() == Some("x")), "{answers:?}");
    assert!(answers.contains(&Answer::Null), "{answers:?}");
    server.stop();
}
