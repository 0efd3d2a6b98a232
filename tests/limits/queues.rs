//! A hundred thousand queues with a message in each: made, listed, found again after a start, read and deleted.

use std::time::Instant;

use crate::client::Answer;
use crate::measure::{Limit, ask, connect, of, pipeline};
use crate::postgres;
use crate::support::Server;

/// Requests in a pipeline.
const DEPTH: usize = 500;

#[test]
fn many_queues_in_the_embedded_store() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    fill(&format!("embedded:{}", dir.path().display()), "embedded store", of(2_000, 100_000));
}

#[test]
fn many_queues_in_postgresql() {
    let postgres = postgres::shared();
    fill(&postgres.url(&postgres.create_database()), "PostgreSQL", of(1_000, 100_000));
}

fn fill(store: &str, name: &str, many: usize) {
    let limit = Limit::new(format!("{many} queues with a message in each, {name}"));
    let server = Server::start(store, &[]);
    let mut client = connect(&server);
    let words = |words: &[&str]| -> Vec<String> { words.iter().map(ToString::to_string).collect() };
    let each = |verb: &'static str| (0..many).map(move |queue| words(&[verb, &format!("q{queue}")]));
    pipeline(&mut client, each("QCREATE"), DEPTH, |answer| assert!(answer.integer().is_some(), "{answer:?}"));
    let sends = (0..many).map(|queue| words(&["SEND", &format!("q{queue}"), &queue.to_string()]));
    pipeline(&mut client, sends, DEPTH, |answer| assert!(answer.integer().is_some(), "{answer:?}"));
    let asked = Instant::now();
    assert_eq!(ask(&mut client, &["QLIST"]).list().len(), many);
    let listed = asked.elapsed();
    limit.finish(&server, 400, &format!("QLIST in {:.1} s", listed.as_secs_f64()));
    assert!(server.stop().success());

    let started = Instant::now();
    let server = Server::start(store, &[]);
    let mut client = connect(&server);
    assert_eq!(ask(&mut client, &["POP", "QUEUE", "q0"]).body(), Some("0"));
    let opened = started.elapsed();
    assert!(ask(&mut client, &["SEND", "q0", "0"]).integer().is_some());
    let mut expected = 0..many;
    let pops = (0..many).map(|queue| words(&["POP", "QUEUE", &format!("q{queue}")]));
    pipeline(&mut client, pops, DEPTH, |answer| {
        assert_eq!(answer.body(), expected.next().map(|queue| queue.to_string()).as_deref());
    });
    pipeline(&mut client, each("QDELETE"), DEPTH, |answer| assert_eq!(answer, Answer::Integer(0)));
    assert!(ask(&mut client, &["QLIST"]).list().is_empty());
    limit.finish(
        &server,
        400,
        &format!("started and read in {:.1} s; emptied, deleted", opened.as_secs_f64()),
    );
}
