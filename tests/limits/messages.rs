//! Ten million messages in one queue: stored, counted, found again after a start, read at the head and purged.

use std::time::Instant;

use crate::client::Answer;
use crate::measure::{Limit, ask, connect, of, pipeline};
use crate::postgres;
use crate::support::Server;

/// Messages of a SENDMANY, and requests in a pipeline.
const AT_ONCE: usize = 1_000;
const DEPTH: usize = 8;

#[test]
fn many_messages_in_the_embedded_store() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    fill(&format!("embedded:{}", dir.path().display()), "embedded store", of(50_000, 10_000_000), 1_200);
}

#[test]
fn many_messages_in_postgresql() {
    let postgres = postgres::shared();
    fill(&postgres.url(&postgres.create_database()), "PostgreSQL", of(20_000, 10_000_000), 400);
}

fn fill(store: &str, name: &str, many: usize, most_mib: u64) {
    let limit = Limit::new(format!("{many} messages of 100 bytes in one queue, {name}"));
    let server = Server::start(store, &[]);
    let mut client = connect(&server);
    ask(&mut client, &["QCREATE", "q"]);
    let bodies = |first: usize| (first..first + AT_ONCE).map(|number| format!("{number:0100}"));
    let requests = (0..many).step_by(AT_ONCE).map(|first| {
        let words = ["SENDMANY".to_owned(), "q".to_owned()];
        words.into_iter().chain(bodies(first)).collect()
    });
    pipeline(&mut client, requests, DEPTH, |answer| assert_eq!(answer.list().len(), AT_ONCE));
    let stored = limit.seconds();
    assert_eq!(ask(&mut client, &["QINFO", "q"]).get("messages"), Some(&Answer::Integer(many as i64)));
    limit.finish(&server, most_mib, &format!("stored in {stored:.0} s"));
    assert!(server.stop().success());

    let started = Instant::now();
    let server = Server::start(store, &[]);
    let mut client = connect(&server);
    let head = ask(&mut client, &["POP", "QUEUE", "q", "COUNT", "1000"]).list();
    let opened = started.elapsed();
    assert_eq!(head.len(), AT_ONCE);
    for (message, body) in head.iter().zip(bodies(0)) {
        assert_eq!(message.body(), Some(body.as_str()));
    }
    let asked = Instant::now();
    assert_eq!(ask(&mut client, &["QPURGE", "q"]), Answer::Integer((many - AT_ONCE) as i64));
    let purged = asked.elapsed();
    let said =
        format!("started and read in {:.1} s, purged in {:.1} s", opened.as_secs_f64(), purged.as_secs_f64());
    limit.finish(&server, most_mib, &said);
}
