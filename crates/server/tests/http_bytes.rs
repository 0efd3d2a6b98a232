//! HTTP in one thread: requests in any pieces, well made and not, are answered as they are when they come whole, and no
//! bytes make the server say that it failed.

#[path = "support/by_hand.rs"]
mod by_hand;
#[path = "support/cache_by_hand.rs"]
mod cache_by_hand;
#[path = "support/pages.rs"]
mod pages;

use by_hand::Tier;
use pages::{answers, ask, runtime};

const HOST: &str = "Host: localhost\r\n";

fn post(path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\n{HOST}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\n{HOST}\r\n")
}

#[test]
fn requests_are_answered_in_order_however_they_are_cut() {
    let said = [
        get("/healthz"),
        post("/v1/queues", r#"{"name": "q"}"#),
        post("/v1/queues/q/messages", r#"{"body": "hello"}"#),
        post("/v1/queues/q/pop", "{}"),
        post("/v1/queues/q/pop", r#"{"nonsense": 1}"#),
        get("/v1/queues"),
        get("/nowhere"),
        "BAD\r\n\r\n".to_owned(),
    ]
    .concat();
    let (runtime, mut tier) = (runtime(), Tier::new());
    let statuses = |heard: &[u8]| answers(heard).iter().map(|(status, _)| *status).collect::<Vec<_>>();
    let whole = statuses(&ask(&runtime, &mut tier, &[said.as_bytes()]));
    assert_eq!(whole.len(), 8, "{whole:?}");
    assert_eq!((whole[0], whole[3], whole[6], whole[7]), (200, 200, 404, 400), "{whole:?}");
    for piece in [1, 7, 64] {
        let pieces: Vec<&[u8]> = said.as_bytes().chunks(piece).collect();
        assert_eq!(statuses(&ask(&runtime, &mut tier, &pieces)), whole, "in pieces of {piece}");
    }
}

#[test]
fn who_sends_half_a_request_is_let_go() {
    let (runtime, mut tier) = (runtime(), Tier::new());
    for said in ["", "GET / HT", "POST /v1/queues HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{"]
    {
        assert!(answers(&ask(&runtime, &mut tier, &[said.as_bytes()])).len() <= 1, "{said}");
    }
    let wait = post("/v1/queues", r#"{"name": "q"}"#) + &post("/v1/queues/q/pop", r#"{"block_ms": 60000}"#);
    assert_eq!(
        answers(&ask(&runtime, &mut tier, &[wait.as_bytes()])).len(),
        1,
        "the pop waits, and ends with its client"
    );
}

/// Nor are they among those that are connected.
#[test]
fn visitors_are_not_counted_among_clients_that_ever_connected() {
    let (runtime, mut tier) = (runtime(), Tier::new());
    for path in ["/v1/queues", "/metrics", "/v1/clients"] {
        assert_eq!(answers(&ask(&runtime, &mut tier, &[get(path).as_bytes()]))[0].0, 200, "{path}");
    }
    let page = answers(&ask(&runtime, &mut tier, &[get("/metrics").as_bytes()])).remove(0).1;
    let page = String::from_utf8(page).expect("text");
    assert!(page.contains("\nposthaste_connections_total 0\n"), "{page}");
}

#[test]
fn a_list_that_is_too_long_is_not_even_asked_for() {
    let (runtime, mut tier) = (runtime(), Tier::new());
    let ids = vec!["1"; 16 * 1024].join(",");
    let said = post("/v1/queues/q/ack", &format!("{{\"ids\": [{ids}]}}"));
    let heard = answers(&ask(&runtime, &mut tier, &[said.as_bytes()]));
    assert_eq!(heard[0].0, 400);
    assert!(String::from_utf8_lossy(&heard[0].1).contains("at most 16383"), "{heard:?}");
}

#[test]
fn a_refusal_says_what_to_ask_instead() {
    let (runtime, mut tier) = (runtime(), Tier::new());
    for (path, status, words) in [
        ("/v1/queues/q/messages?peek=1&after=3", 400, "peek is 1 or left out: count and from go with peek=1"),
        ("/v1/queues/q/messages?not_own=true", 400, "not_own, broadcast and any_order only with it"),
        ("/v1/queues/q/messages?peek=1&not_own=yes", 400, "not_own: expected true, false, 1 or 0"),
        ("/v1/queues/q/messages?peek=2", 400, "peek is 1 or left out"),
        ("/v1/queues?descending=yes", 400, "descending: expected true, false, 1 or 0"),
        ("/v1/queues?descending=1", 200, "queues"),
        // Nothing is logged by this test.
        ("/v1/log-level", 404, "so there is no level to set"),
    ] {
        let heard = answers(&ask(&runtime, &mut tier, &[get(path).as_bytes()]));
        assert_eq!(heard[0].0, status, "{path}");
        assert!(String::from_utf8_lossy(&heard[0].1).contains(words), "{path}: {heard:?}");
    }
}
