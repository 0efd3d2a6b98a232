//! Long lists of queues: one answer, whole and in its place, though a store makes it a piece at a time.

#[path = "support/client.rs"]
mod client;
#[path = "support/postgres.rs"]
mod postgres;
#[path = "support/mod.rs"]
mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use client::{Answer, Client};
use posthaste_wire::operation::LIST_PIECE;
use support::Server;
use support::ends::Ends;

/// Several pieces, the last of which is not full.
const QUEUES: usize = 3 * LIST_PIECE + 7;

#[test]
fn a_long_list_is_whole_in_the_memory_store() {
    list_on("memory:");
}

#[test]
fn a_long_list_is_whole_in_the_embedded_store() {
    let home = tempfile::tempdir().expect("a directory");
    list_on(&format!("embedded:{}", home.path().display()));
}

#[test]
fn a_long_list_is_whole_in_postgresql() {
    let server = postgres::shared();
    list_on(&server.url(&server.create_database()));
}

/// Lists between changes of the same pipeline, while others change what is listed.
fn list_on(store: &str) {
    let server = Server::start(store, &[]);
    let mut client = Client::connect(server.addr()).expect("a connection");
    for number in 1..=QUEUES {
        client.send(&["QCREATE", &format!("q{number}")]).expect("it is connected");
    }
    for number in 1..=QUEUES {
        assert_eq!(client.answer().expect("an answer"), Answer::Integer(number as i64));
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let _ends = Ends(&done);
        scope.spawn(|| {
            let mut other = Client::connect(server.addr()).expect("a connection");
            while !done.load(Ordering::Relaxed) {
                let sent = other.ask(&["SEND", "q2", "x"]).expect("an answer");
                assert!(matches!(sent, Answer::Integer(_)), "{sent:?}");
                other.ask(&["POP", "QUEUE", "q2"]).expect("an answer");
            }
        });
        for _ in 0..3 {
            list_in_a_pipeline(&mut client);
        }
    });
}

fn list_in_a_pipeline(client: &mut Client) {
    let first: &[&[&str]] = &[&["SEND", "q1", "four"], &["QLIST"], &["QCREATE", "last"], &["QLIST"]];
    let then: &[&[&str]] = &[&["QDELETE", "last"], &["POP", "QUEUE", "q1"], &["QLIST"], &["PING"]];
    for words in first.iter().chain(then) {
        client.send(words).expect("it is connected");
    }
    let mut answer = || client.answer().expect("an answer");
    assert!(matches!(answer(), Answer::Integer(_)));
    let list = answer().list();
    assert_eq!((list.len(), figure(&list[0], "messages"), figure(&list[0], "bytes")), (QUEUES, 1, 4));
    assert!(matches!(answer(), Answer::Integer(_)));
    let list = answer().list();
    let (last, others) = list.split_last().expect("there are some");
    assert_eq!(last.get("name").and_then(Answer::text), Some("last"));
    assert!(others.iter().map(|queue| figure(queue, "id")).eq(1..=QUEUES as i64), "all of them, by id");
    assert_eq!(answer(), Answer::Integer(0));
    assert_eq!(answer().body(), Some("four"));
    let list = answer().list();
    assert_eq!((list.len(), figure(&list[0], "messages")), (QUEUES, 0));
    assert_eq!(answer(), Answer::Text(b"PONG".to_vec()));
}

fn figure(queue: &Answer, name: &str) -> i64 {
    match queue.get(name) {
        Some(Answer::Integer(value)) => *value,
        other => panic!("{name} is {other:?}"),
    }
}
