//! The router allocates nothing in the steady state: what a request needs was needed by an earlier one.

use std::sync::Arc;

use posthaste_server::cache::fleet::Fleet;
use posthaste_server::cache::health::Ejection;
use posthaste_server::cache::layout::{Layout, MemberPlan};
use posthaste_server::cache::router::{Admission, Router};
use posthaste_server::cache::rules::{Multiget, Rules, Writes};
use posthaste_wire::memcached::decode::{Decoded, Limits, decode};

const LIMITS: Limits = Limits { value_bytes: 10_000, line_bytes: 100_000 };
const CLIENTS: usize = 8;
const SERVERS: [&str; 3] = ["10.0.0.1:11211", "10.0.0.2:11211", "10.0.0.3:11211"];

/// Answers every line of `asked` as a server that has every key.
fn answer(asked: &[u8], said: &mut Vec<u8>) {
    said.clear();
    for line in asked.split(|byte| *byte == b'\n') {
        let mut words = line.trim_ascii_end().split(|byte| *byte == b' ');
        match words.next() {
            Some(b"get") => {
                for key in words {
                    [&b"VALUE "[..], key, b" 0 3\r\nabc\r\n"]
                        .iter()
                        .for_each(|part| said.extend_from_slice(part));
                }
                said.extend_from_slice(b"END\r\n");
            }
            Some(b"mg") => said.extend_from_slice(b"VA 3\r\nabc\r\n"),
            Some(b"set" | b"delete") => said.extend_from_slice(b"STORED\r\n"),
            // A value, or the end.
            _ => {}
        }
    }
}

/// Every client asks all of these at once, the servers answer, and the answers are taken.
fn round(router: &mut Router, requests: &[&[u8]], said: &mut Vec<u8>) {
    router.now += 1;
    for client in 0..CLIENTS {
        for request in requests {
            let Decoded::Request(decoded, end) = decode(request, &LIMITS) else { panic!("{request:?}") };
            assert_eq!(router.ask(client, &decoded, &request[..end], router.now), Admission::Accepted);
        }
    }
    for server in 0..SERVERS.len() {
        let commands = router.unsent(server);
        answer(commands, said);
        let bytes = commands.len();
        router.sent(server, bytes);
        assert_eq!(router.feed(server, said), Ok(said.len()));
    }
    router.stamp_sent(router.now);
    for client in 0..CLIENTS {
        let bytes = router.answers.unwritten(client).len();
        assert!(bytes > 0 && !router.answers.is_waiting(client), "every request has its answer");
        router.answers.written(client, bytes);
    }
    let touched = router.answers.touched().take();
    router.answers.touched().give_back(touched);
    router.finished.clear();
}

#[test]
fn a_request_like_those_before_it_allocates_nothing() {
    let set = format!("set key 0 0 1000\r\n{}\r\n", "v".repeat(1000));
    let loads: [(&str, &[&[u8]]); 5] = [
        ("get", &[b"get key\r\n"]),
        ("gets and sets in flight", &[b"get one\r\n", b"get two\r\n", set.as_bytes(), b"get three\r\n"]),
        ("set", &[set.as_bytes()]),
        ("get of many keys", &[b"get a b c d e f g h i j k l\r\n"]),
        ("meta get", &[b"mg key v\r\n"]),
    ];
    for (writes, multiget) in
        [(Writes::All, Multiget::Split), (Writes::All, Multiget::Whole), (Writes::Owner, Multiget::Auto)]
    {
        for (name, requests) in loads {
            let rules = Rules { writes, multiget, ..Rules::default() };
            let layout = Layout::of_one_pool(SERVERS.map(MemberPlan::of).into(), rules);
            let mut router =
                Router::new(Arc::new(Fleet::new(&layout, Ejection::Never).expect("addresses")), 0);
            (0..CLIENTS).for_each(|client| router.add_client(client, client as u64 + 1));
            let mut said = Vec::new();
            (0..50).for_each(|_| round(&mut router, requests, &mut said));
            let counted = allocation_counter::measure(|| {
                (0..50).for_each(|_| round(&mut router, requests, &mut said));
            });
            assert_eq!(counted.count_total, 0, "{name}, {writes:?}, {multiget:?}");
        }
    }
}
