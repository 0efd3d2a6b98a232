//! A thousand pops that wait on one queue: every message goes to one of them, and to each of them one.

use std::collections::BTreeSet;
use std::time::Instant;

use crate::client::Client;
use crate::measure::{Limit, ask, connect, of};
use crate::news::wait_until_blocked;
use crate::postgres;
use crate::process::allow_files;
use crate::support::Server;

#[test]
fn many_pops_wait_on_the_embedded_store() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    wait(&format!("embedded:{}", dir.path().display()), "embedded store");
}

#[test]
fn many_pops_wait_on_postgresql() {
    let postgres = postgres::shared();
    wait(&postgres.url(&postgres.create_database()), "PostgreSQL");
}

fn wait(store: &str, name: &str) {
    let many = of(200, 1_000);
    allow_files(many as u64 + 500);
    let limit = Limit::new(format!("{many} blocked pops on one queue, {name}"));
    let server = Server::start(store, &[]);
    let mut sender = connect(&server);
    ask(&mut sender, &["QCREATE", "q"]);
    let mut waiting: Vec<Client> = (0..many).map(|_| connect(&server)).collect();
    for client in &mut waiting {
        client.send(&["POP", "QUEUE", "q", "BLOCK", "600000"]).expect("the server reads");
    }
    wait_until_blocked(server.addr(), many);
    let sent = Instant::now();
    for number in 0..many {
        sender.send(&["SEND", "q", &number.to_string()]).expect("the server reads");
    }
    let got: BTreeSet<usize> = waiting
        .iter_mut()
        .map(|client| {
            let answer = client.answer().expect("an answer");
            answer.body().and_then(|body| body.parse().ok()).unwrap_or_else(|| panic!("{answer:?}"))
        })
        .collect();
    let served = sent.elapsed();
    assert_eq!(got.len(), many, "each got another message");
    for _ in 0..many {
        assert!(sender.answer().expect("an answer").integer().is_some());
    }
    limit.finish(&server, 100, &format!("all served {:.2} s after the first SEND", served.as_secs_f64()));
}
