//! Pops that wait over PostgreSQL, with several workers: served in the order they came, and told when their queue is gone,
//! whatever comes right behind.

#[path = "support/client.rs"]
mod client;
#[path = "support/news.rs"]
mod news;
#[path = "support/postgres.rs"]
mod postgres;
#[path = "support/mod.rs"]
mod support;

use client::{Answer, Client};
use news::wait_until_blocked;
use support::Server;

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
    fn new(waiters: usize) -> Self {
        let server = postgres::shared();
        let server = Server::start(&server.url(&server.create_database()), &[]);
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
    let mut place = Place::new(6);
    ask(&mut place.client, &["QCREATE", "q"]);
    for round in 0..ROUNDS {
        place.wait("q");
        let bodies: Vec<String> =
            (0..place.waiters.len()).map(|number| format!("{round} {number}")).collect();
        // Each acknowledged before the next; by two clients at once in every other round, who send the second half together.
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

#[test]
fn who_waits_for_a_queue_that_is_deleted_gets_nothing_of_the_next_one_of_that_name() {
    let mut place = Place::new(2);
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
