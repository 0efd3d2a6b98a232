//! A server that is at another address gets what waits there, once it has answered what it was sent.

use std::sync::Arc;

use posthaste_server::cache::fleet::Fleet;
use posthaste_server::cache::health::Ejection;
use posthaste_server::cache::layout::{Layout, MemberPlan};
use posthaste_server::cache::router::{Admission, Router};
use posthaste_server::cache::rules::Rules;
use posthaste_wire::memcached::decode::{Decoded, Limits, decode};

const LIMITS: Limits = Limits { value_bytes: 1000, line_bytes: 100_000 };

/// A router before one server, with three clients.
fn router() -> Router {
    let layout = Layout::of_one_pool(vec![MemberPlan::of("10.0.0.1:11211")], Rules::default());
    let mut router = Router::new(Arc::new(Fleet::new(&layout, Ejection::Never).expect("addresses")), 0);
    (0..3).for_each(|client| router.add_client(client, client as u64));
    router
}

fn ask(router: &mut Router, client: usize, text: &str) {
    let Decoded::Request(request, end) = decode(text.as_bytes(), &LIMITS) else { panic!("{text:?}") };
    assert_eq!(router.ask(client, &request, &text.as_bytes()[..end], 1), Admission::Accepted);
}

fn send_all(router: &mut Router) {
    let bytes = router.unsent(0).len();
    router.note_sending(0);
    router.sent(0, bytes);
}

#[test]
fn what_waits_goes_another_way_when_all_that_was_sent_is_answered_and_not_before() {
    let mut router = router();
    assert!(router.is_caught_up(0), "nothing was sent");
    ask(&mut router, 0, "set a 0 0 1\r\nx\r\n");
    assert!(router.is_caught_up(0), "nothing was sent yet");
    send_all(&mut router);
    assert!(!router.is_caught_up(0));
    // New requests keep coming, and wait.
    ask(&mut router, 1, "set b 0 0 1\r\nx\r\n");
    assert!(!router.is_caught_up(0) && !router.is_cut(0));
    router.feed(0, b"STORED\r\n").unwrap();
    assert!(router.is_caught_up(0), "only what was not sent is to be answered");
    router.note_new_connection(0);
    assert_eq!((router.owes(0), router.unsent(0)), (false, &b"set b 0 0 1\r\nx\r\n"[..]));
    send_all(&mut router);
    router.feed(0, b"STORED\r\n").unwrap();
    assert!(router.is_caught_up(0));
    assert_eq!(router.answers.unwritten(1), b"STORED\r\n");
}

#[test]
fn a_command_that_was_sent_in_part_is_sent_to_its_end_first() {
    let mut router = router();
    ask(&mut router, 0, "set a 0 0 1\r\nx\r\n");
    ask(&mut router, 1, "set b 0 0 1\r\nx\r\n");
    router.note_sending(0);
    router.sent(0, 20);
    assert!(router.is_cut(0) && !router.is_caught_up(0));
    router.feed(0, b"STORED\r\n").unwrap();
    assert!(router.is_cut(0) && !router.is_caught_up(0), "the rest of the second is still to go there");
    send_all(&mut router);
    assert!(!router.is_cut(0) && !router.is_caught_up(0));
    router.feed(0, b"STORED\r\n").unwrap();
    assert!(router.is_caught_up(0));
}

#[test]
fn what_was_asked_for_since_a_command_was_sent_in_part_is_no_part_of_what_still_goes_there() {
    let mut router = router();
    ask(&mut router, 0, "set a 0 0 1\r\nx\r\n");
    router.note_sending(0);
    router.sent(0, 5);
    ask(&mut router, 1, "set b 0 0 1\r\nx\r\n");
    assert_eq!(router.rest_of_cut(0), b" 0 0 1\r\nx\r\n".as_slice());
    router.sent(0, 3);
    assert!(router.is_cut(0));
    let bytes = router.rest_of_cut(0).len();
    router.sent(0, bytes);
    assert!(!router.is_cut(0) && !router.is_caught_up(0), "its answer is to come");
    router.feed(0, b"STORED\r\n").unwrap();
    assert!(router.is_caught_up(0));
    assert_eq!(router.unsent(0), b"set b 0 0 1\r\nx\r\n");
}

#[test]
fn a_command_that_is_pending_in_a_record_goes_nowhere_else() {
    let mut router = router();
    ask(&mut router, 0, "incr a 1\r\n");
    router.note_sending(0);
    let pending = router.unsent(0).len();
    router.sent(0, 0);
    router.note_pending(0, pending);
    assert!(router.is_cut(0) && !router.is_caught_up(0), "the server may do it any time");
    ask(&mut router, 1, "incr b 1\r\n");
    assert_eq!(router.rest_of_cut(0), b"incr a 1\r\n".as_slice());
    // Again nothing of it counts: what came later waits all the same.
    router.sent(0, 0);
    router.note_pending(0, pending);
    let rest = router.rest_of_cut(0).len();
    assert_eq!(rest, pending);
    router.sent(0, rest);
    router.note_pending(0, 0);
    assert!(!router.is_cut(0) && !router.is_caught_up(0), "its answer is to come");
    router.feed(0, b"7\r\n").unwrap();
    assert!(router.is_caught_up(0));
    assert_eq!(router.unsent(0), b"incr b 1\r\n");
}

#[test]
fn what_joins_a_command_sent_in_part_in_its_next_record_goes_where_that_goes() {
    let mut router = router();
    ask(&mut router, 0, "set a 0 0 1\r\nx\r\n");
    router.note_sending(0);
    router.sent(0, 5);
    ask(&mut router, 1, "incr b 1\r\n");
    let pending = router.unsent(0).len();
    router.sent(0, 0);
    router.note_pending(0, pending);
    assert_eq!(router.rest_of_cut(0).len(), pending);
}

#[test]
fn what_waits_for_a_replica_that_has_nothing_where_it_is_now_is_looked_up_on_another() {
    for (asked, missed, found, told) in [
        ("get k\r\n", "END\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n"),
        ("mg k v\r\n", "EN\r\n", "VA 1\r\nx\r\n", "VA 1\r\nx\r\n"),
    ] {
        let members = ["10.0.0.1:11211", "10.0.0.2:11211"].map(MemberPlan::of).to_vec();
        let layout = Layout::of_one_pool(members, Rules::default());
        let mut router = Router::new(Arc::new(Fleet::new(&layout, Ejection::OnLoss).expect("addresses")), 0);
        router.add_client(0, 0);
        ask(&mut router, 0, asked);
        let server = (0..2).find(|server| !router.unsent(*server).is_empty()).expect("one is asked");
        router.servers()[server].health.mark_empty();
        router.recheck_lookups(server);
        let bytes = router.unsent(server).len();
        router.note_sending(server);
        router.sent(server, bytes);
        router.feed(server, missed.as_bytes()).unwrap();
        assert!(router.answers.unwritten(0).is_empty(), "{asked}");
        let other = 1 - server;
        assert!(!router.unsent(other).is_empty(), "{asked}");
        let bytes = router.unsent(other).len();
        router.note_sending(other);
        router.sent(other, bytes);
        router.feed(other, found.as_bytes()).unwrap();
        assert_eq!(String::from_utf8_lossy(router.answers.unwritten(0)), told);
    }
}
