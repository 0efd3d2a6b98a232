//! Who is called by what, and that nothing is kept for longer than somebody may ask for it.

use posthaste_wire::command::Kind;
use posthaste_wire::operation::{Operation, Pop, Selection};
use posthaste_wire::span::Span;

use super::*;
use crate::path::bundle::Request;

const NEWS: News = News::Available { queue: 7, sender: 9, recipient: None };

fn address(client: u64) -> Address {
    Address { thread: 0, slot: 0, client }
}

/// A bundle with one pop of the queue of this name.
fn bundle(client: u64, name: &str) -> Box<Bundle> {
    let mut bundle = Bundle::new(address(client));
    bundle.bytes.extend_from_slice(name.as_bytes());
    let select = Selection {
        queue: Some(Span { start: 0, len: u32::try_from(name.len()).expect("short") }),
        ..Selection::default()
    };
    let pop = Pop { select, block_ms: 1000, ..Pop::default() };
    bundle.requests.push(Request::new(Operation::Pop(pop), Kind::Pop, 0));
    Box::new(bundle)
}

fn interest() -> Interest {
    Interest { reader: 1, queue: Some(7), sender: None, not_own: false, broadcast: false }
}

/// Parks pops that found nothing in one call.
fn park(parked: &mut Parked, clients: impl Iterator<Item = u64>) {
    let since = parked.begin();
    for client in clients {
        assert!(parked.park((None, bundle(client, "q")), interest(), 1000, since).is_none());
    }
    parked.end(since);
}

fn woken(parked: &mut Parked) -> Vec<(u64, Seat)> {
    let called = parked.take_woken();
    called.into_iter().map(|(seat, bundle)| (bundle.address.client, seat.expect("it waited"))).collect()
}

#[test]
fn a_piece_of_news_calls_one_and_more_with_each_that_got_something() {
    let mut parked = Parked::default();
    park(&mut parked, 1..=20);
    parked.tell(NEWS);
    let mut called = woken(&mut parked);
    let mut waves = vec![called.len()];
    while !called.is_empty() {
        called.iter().filter_map(|(_, seat)| seat.passes_on()).for_each(|call| parked.pass_on(call));
        called = woken(&mut parked);
        waves.push(called.len());
    }
    assert_eq!(waves, [1, 2, 8, 9, 0], "two each, then four each, then who is left");
}

#[test]
fn the_end_of_a_queue_calls_everybody() {
    let mut parked = Parked::default();
    park(&mut parked, 1..=3);
    parked.tell(News::QueueGone(7));
    assert_eq!(woken(&mut parked).len(), 3);
}

#[test]
fn news_does_not_die_with_whom_it_called() {
    let mut parked = Parked::default();
    park(&mut parked, 1..=2);
    parked.tell(NEWS);
    assert!(parked.leave(address(1)).is_some());
    assert_eq!(woken(&mut parked).first().map(|(client, _)| *client), Some(2));
}

#[test]
fn what_was_told_while_a_pop_found_nothing_calls_it_though_nobody_waited() {
    let mut parked = Parked::default();
    let (mine, of_the_pop) = (parked.begin(), parked.begin());
    assert!(parked.is_curious(1), "another call is under way");
    parked.tell(NEWS);
    parked.end(mine);
    assert!(parked.park((None, bundle(1, "q")), interest(), 1000, of_the_pop).is_none());
    parked.end(of_the_pop);
    assert_eq!(parked.take_woken().len(), 1);
    assert!(!parked.is_curious(0));
}

#[test]
fn news_is_kept_no_longer_than_the_oldest_call() {
    let mut parked = Parked::default();
    let mut before = parked.begin();
    for _ in 0..1000 {
        let next = parked.begin();
        parked.tell(NEWS);
        parked.end(before);
        before = next;
        assert!(parked.recent.len() <= 1, "{} pieces", parked.recent.len());
    }
    parked.end(before);
    assert!(parked.recent.is_empty() && parked.under_way.is_empty());
}

#[test]
fn names_of_queues_that_nobody_waits_for_are_not_kept_for_ever() {
    let mut parked = Parked::default();
    for number in 0..20_000 {
        let since = parked.begin();
        let bundle = bundle(number, &format!("queue {number}"));
        assert!(parked.park((None, bundle), interest(), 1, since).is_none());
        parked.end(since);
        assert!(parked.take_expired(1).is_some());
    }
    assert!(parked.awaited.len() <= AWAITED_SPARE + 1, "{} names", parked.awaited.len());
}
