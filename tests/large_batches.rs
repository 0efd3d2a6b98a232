//! What many clients ask at once may be more than PostgreSQL takes in one message: then it is several calls.

#[path = "support/postgres.rs"]
mod postgres;

#[path = "../crates/server/tests/support/mod.rs"]
mod support;

use std::sync::Arc;

use posthaste_measure::Clock;
use posthaste_server::path::bundle::{Address, Bundle, Request, length};
use posthaste_server::path::worker::{Batch, Store as _};
use posthaste_server::queue::postgres::store::Postgres;
use posthaste_wire::command::Kind;
use posthaste_wire::encode::Protocol;
use support::{Got, decoded, parsed};

/// Clients that send at once; as many large bodies are more than one call takes.
const CLIENTS: usize = 5;
const LARGE: usize = 15 << 20;

#[test]
fn a_batch_that_is_too_large_for_one_call_is_several() {
    let server = postgres::shared();
    let database = server.create_database();
    let address = server.url(&database).parse().expect("a URL");
    let store = Postgres::open_by_hand(&address, Arc::default(), Clock::start()).expect("a store");
    let account = store.account(b"ann").expect("an account");
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

/// Asks for each request by a client of its own, all in one batch.
fn ask_at_once(store: &Postgres, account: u32, requests: &[String]) -> Vec<Got> {
    let bundles = requests.iter().zip(1..).map(|(request, client)| {
        let address = Address { thread: 0, slot: 0, client };
        let (bytes, operation) = parsed(request);
        let mut bundle = Box::new(Bundle::new(address));
        bundle.reset(address, account, Protocol::Resp3, 0);
        let request_bytes = length(bytes.len());
        bundle.bytes = bytes;
        bundle.requests.push(Request { request_bytes, ..Request::new(operation, Kind::Send, 0) });
        bundle
    });
    let mut batch = Batch { waiting: bundles.collect(), ..Batch::default() };
    store.run(&mut batch);
    batch.finished.iter().map(|bundle| decoded(&bundle.answers)).collect()
}
