//! What many clients ask at once may be more than PostgreSQL takes in one message: then it is several calls. And what one
//! of them asks for may be more than an answer takes.

#[path = "support/postgres.rs"]
mod postgres;

mod support;

#[path = "../crates/server/tests/support/mod.rs"]
mod world;

use std::sync::Arc;

use posthaste_measure::Clock;
use posthaste_server::path::bundle::{Address, Bundle, Request, length};
use posthaste_server::path::worker::{Batch, Store as _};
use posthaste_server::queue::postgres::store::Postgres;
use posthaste_wire::command::Kind;
use posthaste_wire::encode::Protocol;
use world::{Got, decoded, parsed};

/// Clients that send at once; as many large bodies are more than one call takes.
const CLIENTS: usize = 5;
const LARGE: usize = 15 << 20;

#[test]
fn a_batch_that_is_too_large_for_one_call_is_several() {
    let (server, database, store, account) = place();
    assert_eq!(ask_at_once(&store, account, &["QCREATE q".to_owned()]), [Got::Integer(1)]);
    for (body, calls) in [(1, 1), (LARGE, 2)] {
        let request = format!("SEND q {}", "x".repeat(body));
        let answers = ask_at_once(&store, account, &vec![request; CLIENTS]);
        let are_sent = |answer: &Got| matches!(answer, Got::Integer(_));
        assert!(answers.len() == CLIENTS && answers.iter().all(are_sent), "{answers:?}");
        let sql = format!(
            "SELECT count(*), count(DISTINCT xmin::text) FROM posthaste.message WHERE octet_length(body) = {body}"
        );
        assert_eq!(server.psql(&database, &sql), format!("{CLIENTS}|{calls}"), "bodies of {body} bytes");
    }
}

#[test]
fn an_answer_ends_before_eight_mebibytes_also_in_a_batch() {
    let (_, _, store, account) = place();
    let ask = |requests: &[String]| ask_at_once(&store, account, requests);
    ask(&["QCREATE q".to_owned()]);
    let sends: Vec<String> = (0..10).map(|_| format!("SEND q {}", "x".repeat(1 << 20))).collect();
    for select in ["QUEUE q", "QUEUE q FROM ann", "FROM ann"] {
        for lease in ["", " LEASE 60000"] {
            let pops = [8, 4].map(|count| format!("POP {select}{lease} COUNT {count}"));
            let too_many = [10, 1, 1].map(|count| format!("POP {select}{lease} COUNT {count}"));
            // Stored before, and sent in the same batch. What the first one has no room for is for the second.
            for is_stored in [true, false] {
                let mut requests = sends.clone();
                if is_stored {
                    ask(&sends);
                    requests.clear();
                }
                requests.extend(too_many.clone());
                let answers = ask(&requests);
                let popped = &answers[answers.len() - too_many.len()..];
                assert_eq!(counts(popped), [8, 1, 1], "{select}{lease}, stored: {is_stored}");
                assert!(ids(popped).is_sorted(), "{:?}", ids(popped));
            }
            ask(&sends);
            assert_eq!(counts(&ask(&pops)), [8, 2], "that fits, {select}{lease}");
        }
        ask(&sends);
        let peeks = [64, 1].map(|count| format!("PEEK {select} COUNT {count}"));
        assert_eq!(counts(&ask(&peeks)), [8, 1], "{select}");
        ask(&[8, 2].map(|count| format!("POP QUEUE q COUNT {count}")));
    }
}

#[test]
fn what_counts_messages_is_answered_after_the_rest_of_its_batch() {
    let (_, _, store, account) = place();
    ask_at_once(&store, account, &["QCREATE q".to_owned()]);
    let requests = ["QLIST", "SEND q x", "QINFO q", "QBROWSE q", "PEEK QUEUE q"].map(str::to_owned);
    let mut batch = Batch { waiting: bundles(account, &requests), ..Batch::default() };
    let mut clients = Vec::new();
    while !batch.waiting.is_empty() {
        store.run(&mut batch);
        clients.push(batch.finished.drain(..).map(|bundle| bundle.address.client).collect());
    }
    clients.iter_mut().for_each(|group: &mut Vec<u64>| group.sort_unstable());
    assert_eq!(clients, [vec![2, 5], vec![1, 3, 4]]);
}

#[test]
fn copies_for_everyone_are_no_more_than_one_send_may_write() {
    let (server, database, store, account) = place();
    for other in 0..5 {
        server.psql(&database, &format!("SELECT posthaste.login('other{other}')"));
    }
    ask_at_once(&store, account, &["QCREATE q".to_owned()]);
    let send = |bytes: usize| ask_at_once(&store, account, &[format!("SEND q {} TO *", "x".repeat(bytes))]);
    assert_eq!(send(12 << 20), [Got::Integer(5)]);
    let refused = send(13 << 20);
    assert_eq!(refused[0].word(), "FULL", "{refused:?}");
    let by_sql = "SELECT posthaste.send('ann', 'q', repeat('x', 13 << 20), '*')";
    let refused = server.try_psql(&database, by_sql);
    assert!(refused.as_ref().is_err_and(|why| why.contains("copies of this message")), "{refused:?}");
    assert_eq!(server.psql(&database, "SELECT count(*) FROM posthaste.message"), "5");
}

#[test]
fn messages_for_everyone_are_stored_by_several_calls_where_they_are_many() {
    const ACCOUNTS: usize = 5_000;
    const SENDS: usize = 10;
    let (server, database, store, account) = place();
    server.psql(
        &database,
        &format!("SELECT count(posthaste.login('other' || n)) FROM generate_series(1, {ACCOUNTS}) AS n"),
    );
    ask_at_once(&store, account, &["QCREATE q".to_owned()]);
    let sends = vec!["SEND q x TO *".to_owned(); SENDS];
    let most =
        "SELECT max(n) FROM (SELECT count(*) AS n FROM posthaste.message GROUP BY xmin::text) AS calls";
    // Of one connection, and of as many as there are requests.
    for ask in [ask_by_one, ask_at_once] {
        let answers = ask(&store, account, &sends);
        assert_eq!(answers, vec![Got::Integer(i64::try_from(ACCOUNTS).expect("few")); SENDS]);
        let most: usize = server.psql(&database, most).parse().expect("a number");
        assert!((2 * ACCOUNTS..SENDS * ACCOUNTS).contains(&most), "{most} messages in one call");
        server.psql(&database, "DELETE FROM posthaste.message");
    }
}

/// A server, a database of a test's own, a store in it, and an account there.
fn place() -> (&'static postgres::Postgres, String, Postgres, u32) {
    let server = postgres::shared();
    let database = server.create_database();
    let address = server.url(&database).parse().expect("a URL");
    let store = Postgres::open_by_hand(&address, Arc::default(), Clock::start()).expect("a store");
    let account = store.account(b"ann").expect("an account");
    (server, database, store, account)
}

/// How many messages each of these has got.
fn counts(answers: &[Got]) -> Vec<usize> {
    answers.iter().map(|answer| answer.items().len()).collect()
}

/// The ids of all of them.
fn ids(answers: &[Got]) -> Vec<i64> {
    answers.iter().flat_map(|answer| answer.items().iter().map(|message| message.number("id"))).collect()
}

/// Asks for each request by a client of its own, all in one batch; the answers in that order.
fn ask_at_once(store: &Postgres, account: u32, requests: &[String]) -> Vec<Got> {
    let mut batch = Batch { waiting: bundles(account, requests), ..Batch::default() };
    while !batch.waiting.is_empty() {
        store.run(&mut batch);
    }
    batch.finished.sort_by_key(|bundle| bundle.address.client);
    batch.finished.iter().map(|bundle| decoded(&bundle.answers)).collect()
}

/// Asks for all of them by one client, in one go; the answers in that order.
fn ask_by_one(store: &Postgres, account: u32, requests: &[String]) -> Vec<Got> {
    let mut whole = Bundle::new(Address { thread: 0, slot: 0, client: 1 });
    (whole.account, whole.protocol) = (account, Protocol::Resp3);
    for bundle in bundles(account, requests) {
        whole.bytes.clone_from(&bundle.bytes);
        whole.requests.extend(bundle.requests);
    }
    let mut batch = Batch { waiting: vec![Box::new(whole)], ..Batch::default() };
    let mut answers = Vec::new();
    while !batch.waiting.is_empty() {
        store.run(&mut batch);
        for mut bundle in batch.finished.drain(..) {
            // What is held back comes again.
            batch.waiting.extend((!bundle.is_done()).then(|| bundle.split_rest()));
            answers.extend(
                String::from_utf8_lossy(&bundle.answers)
                    .split_inclusive('\n')
                    .map(|line| decoded(line.as_bytes())),
            );
        }
    }
    answers
}

/// A bundle for each request, of clients 1, 2, …
fn bundles(account: u32, requests: &[String]) -> Vec<Box<Bundle>> {
    let of_client = |(request, client): (&String, u64)| {
        let address = Address { thread: 0, slot: 0, client };
        let (bytes, operation) = parsed(request);
        let mut bundle = Box::new(Bundle::new(address));
        (bundle.account, bundle.protocol) = (account, Protocol::Resp3);
        let request_bytes = length(bytes.len());
        bundle.bytes = bytes;
        bundle.requests.push(Request { request_bytes, ..Request::new(operation, Kind::Send, 0) });
        bundle
    };
    requests.iter().zip(1..).map(of_client).collect()
}
