//! `--workers N` where the waiting line has no room.

#[path = "support/cache_by_hand.rs"]
mod cache_by_hand;

use std::sync::Arc;

use cache_by_hand::Thread;
use mio::Poll;
use posthaste_measure::Clock;
use posthaste_server::cache::engine::{ClientId, Engine as _};
use posthaste_server::cache::layout::{Layout, MemberPlan};
use posthaste_server::cache::queued::Queued;
use posthaste_server::cache::router::Admission;
use posthaste_server::cache::rules::Rules;
use posthaste_wire::memcached::decode::{Decoded, decode};

#[test]
fn a_line_without_room_refuses_what_is_not_to_be_answered_without_a_word() {
    let layout = Layout::of_one_pool(vec![MemberPlan::of("127.0.0.1:1")], Rules::default());
    // Its line takes nothing.
    let shared = Arc::clone(&Thread::new(&layout, Clock::start()).shared);
    let (mut queued, poll) = (Queued::new(0, Arc::clone(&shared)), Poll::new().expect("events"));
    let client_id = ClientId { slot: 0, number: 1 };
    queued.add_client(client_id);
    for (text, answer) in
        [("set k 0 0 1 noreply\r\nx\r\n", ""), ("get k\r\n", "SERVER_ERROR the waiting line is full\r\n")]
    {
        let Decoded::Request(request, end) = decode(text.as_bytes(), &shared.limits) else {
            panic!("{text}")
        };
        assert_eq!(queued.ask(client_id, &request, &text.as_bytes()[..end], 0), Admission::Accepted);
        queued.send(poll.registry());
        let said = String::from_utf8_lossy(queued.answers().unwritten(0)).into_owned();
        assert_eq!(said, answer, "{text:?}");
        queued.answers_mut().written(0, said.len());
    }
}
