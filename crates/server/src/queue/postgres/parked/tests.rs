//! Tests of which news wakes which pops, and that nothing is kept for longer than it may be needed.

use posthaste_wire::command::Kind;
use posthaste_wire::operation::{Operation, Pop, Selection};
use posthaste_wire::span::Span;

use super::*;
use crate::path::bundle::Request;

const NEWS: News = News::Available { queue: 7, sender: 9, recipient: None };

fn address(client: u64) -> Address {
    Address { thread: 0, slot: 0, client }
}

/// A bundle with one pop of the queue of this name; clients came in the order of their numbers.
fn bundle(client: u64, name: &str) -> Box<Bundle> {
    let mut bundle = Bundle::new(address(client));
    bundle.bytes.extend_from_slice(name.as_bytes());
    let select = Selection {
        queue: Some(Span { start: 0, len: u32::try_from(name.len()).expect("short") }),
        ..Selection::default()
    };
    let pop = Pop { select, block_ms: 1000, ..Pop::default() };
    bundle.requests.push(Request::new(Operation::Pop(pop), Kind::Pop, 0));
    bundle.arrival = client;
    Box::new(bundle)
}

fn interest() -> Interest {
    Interest { reader: 1, queue: Some(7), sender: None, not_own: false, broadcast: false }
}

/// A bundle that has not waited.
fn fresh(bundle: Box<Bundle>) -> Due {
    Due { seat: None, bundle }
}

/// The pop of a client that was executed, with the seat that it had.
fn returning(client: u64, seat: Seat) -> Due {
    Due { seat: Some(seat), bundle: bundle(client, "q") }
}

/// Parks pops that found nothing in one call.
fn park(parked: &mut Parked, clients: impl Iterator<Item = u64>) {
    let since = parked.begin(Mode::Shared);
    for client in clients {
        assert!(parked.park(fresh(bundle(client, "q")), interest(), 1000, since).is_none());
    }
    parked.end(since);
}

fn woken(parked: &mut Parked) -> Vec<(u64, Seat)> {
    let due = parked.take_woken(usize::MAX);
    due.into_iter().map(|Due { seat, bundle }| (bundle.address.client, seat.expect("it waited"))).collect()
}

#[test]
fn news_wakes_one_pop_and_twice_as_many_each_time_they_get_something() {
    let mut parked = Parked::default();
    park(&mut parked, 1..=20);
    parked.tell(NEWS);
    let mut due = woken(&mut parked);
    let mut waves = vec![due.len()];
    while !due.is_empty() {
        due.into_iter().for_each(|(_, seat)| parked.done(seat));
        due = woken(&mut parked);
        waves.push(due.len());
    }
    assert_eq!(waves, [1, 2, 4, 8, 5, 0], "twice as many each time, then those that are left");
}

/// The replies of several workers come in any order.
#[test]
fn whose_request_came_first_is_served_first_whenever_its_reply_comes() {
    let mut parked = Parked::default();
    let since = parked.begin(Mode::Shared);
    for client in [2, 3, 1] {
        assert!(parked.park(fresh(bundle(client, "q")), interest(), 1000, since).is_none());
    }
    parked.end(since);
    let served: Vec<u64> = (0..3)
        .map(|_| {
            parked.tell(NEWS);
            let (client, seat) = woken(&mut parked).pop().expect("one is woken");
            drop(parked.come_back(seat));
            client
        })
        .collect();
    assert_eq!(served, [1, 2, 3]);
}

fn clients(due: &[(u64, Seat)]) -> Vec<u64> {
    due.iter().map(|(client, _)| *client).collect()
}

/// Parks a woken pop again that found nothing.
fn park_again(parked: &mut Parked, (client, seat): (u64, Seat)) {
    let since = parked.begin(Mode::Shared);
    assert!(parked.park(returning(client, seat), interest(), 0, since).is_none());
    parked.end(since);
}

#[test]
fn news_for_a_pop_that_is_away_wakes_no_later_one_in_its_place() {
    let mut parked = Parked::default();
    park(&mut parked, 1..=3);
    parked.tell(NEWS);
    let first = woken(&mut parked);
    assert_eq!(clients(&first), [1]);
    let send = || std::iter::once((&b"q"[..], 9, None));
    assert!(parked.wake_for_sends(send()).is_empty(), "the first pop may take it");
    parked.tell(NEWS);
    assert!(!parked.has_woken());
    park_again(&mut parked, first[0]);
    let again = woken(&mut parked);
    assert_eq!(clients(&again), [1], "the news was left with it");
    parked.done(again[0].1);
    assert_eq!(clients(&woken(&mut parked)), [2, 3], "a pop that got something wakes the next ones");
}

#[test]
fn sends_of_a_batch_take_along_one_waiting_pop_for_each_message() {
    let mut parked = Parked::default();
    park(&mut parked, 1..=3);
    let send = (&b"q"[..], 9, None);
    let along = parked.wake_for_sends([send; 2].into_iter());
    let clients: Vec<u64> = along.iter().map(|Due { bundle, .. }| bundle.address.client).collect();
    assert_eq!(clients, [1, 2]);
    assert!(parked.wake_for_sends([send].into_iter()).is_empty());
    along.into_iter().for_each(|Due { seat, .. }| parked.done(seat.expect("it waited")));
    assert!(!parked.has_woken(), "a pop that was taken along need not wake others");
    assert_eq!(parked.wake_for_sends([send].into_iter()).len(), 1);
}

#[test]
fn when_a_queue_is_gone_all_pops_that_wait_for_it_are_woken() {
    let mut parked = Parked::default();
    park(&mut parked, 1..=4);
    parked.tell(NEWS);
    let away = woken(&mut parked);
    parked.done(away[0].1); // wakes 2 and 3
    parked.tell(News::QueueGone(7));
    assert_eq!(clients(&woken(&mut parked)), [2, 3, 4]);
}

#[test]
fn a_pop_that_is_away_when_its_queue_goes_is_woken_when_it_is_back() {
    let mut parked = Parked::default();
    park(&mut parked, 1..=1);
    parked.tell(NEWS);
    let away = woken(&mut parked)[0];
    assert!(parked.needs_news(0), "a woken pop may yet be parked again");
    parked.tell(News::QueueGone(7));
    park_again(&mut parked, away);
    assert_eq!(clients(&woken(&mut parked)), [1]);
}

#[test]
fn no_pop_stays_away_for_ever() {
    let mut parked = Parked::default();
    park(&mut parked, 1..=4);
    parked.wake_all();
    for (client, seat) in woken(&mut parked) {
        match client {
            1 => assert!(parked.put_back(seat, bundle(client, "q")).is_none()),
            2 => park_again(&mut parked, (client, seat)),
            3 => parked.done(seat),
            _ => {
                assert!(parked.leave(address(client)).is_none(), "it is away");
                let since = parked.begin(Mode::Shared);
                assert!(parked.park(returning(client, seat), interest(), 0, since).is_some());
                parked.end(since);
            }
        }
    }
    assert!(parked.away.is_empty());
}

#[test]
fn news_that_woke_a_pop_whose_client_leaves_wakes_the_next_one() {
    let mut parked = Parked::default();
    park(&mut parked, 1..=2);
    parked.tell(NEWS);
    assert!(parked.leave(address(1)).is_some());
    assert_eq!(woken(&mut parked).first().map(|(client, _)| *client), Some(2));
}

#[test]
fn news_that_woke_a_pop_whose_call_is_undone_is_repeated_once_the_database_answers() {
    let mut parked = Parked::default();
    park(&mut parked, 1..=2);
    parked.tell(NEWS);
    let (client, seat) = woken(&mut parked)[0];
    assert!(parked.put_back_undone(seat, bundle(client, "q")).is_none());
    assert!(!parked.has_woken(), "the database would fail it again");
    parked.repeat_undone();
    let (client, seat) = woken(&mut parked)[0];
    assert_eq!(client, 1);
    assert!(parked.leave(address(1)).is_none(), "it is away");
    assert!(parked.put_back_undone(seat, bundle(client, "q")).is_some());
    parked.repeat_undone();
    assert_eq!(clients(&woken(&mut parked)), [2], "it wakes the next one if its client has left");
    parked.repeat_undone();
    assert!(!parked.has_woken(), "it is repeated once");
}

#[test]
fn news_during_the_call_in_which_a_pop_found_nothing_wakes_it_once_it_is_parked() {
    let mut parked = Parked::default();
    let (mine, of_the_pop) = (parked.begin(Mode::Shared), parked.begin(Mode::Shared));
    assert!(parked.needs_news(1), "another call is under way");
    parked.tell(NEWS);
    parked.end(mine);
    assert!(parked.park(fresh(bundle(1, "q")), interest(), 1000, of_the_pop).is_none());
    parked.end(of_the_pop);
    let [Due { seat: Some(seat), .. }] = parked.take_woken(usize::MAX)[..] else {
        panic!("no pop was woken")
    };
    parked.done(seat);
    assert!(!parked.needs_news(0));
}

#[test]
fn news_is_kept_no_longer_than_the_oldest_call() {
    let mut parked = Parked::default();
    let mut before = parked.begin(Mode::Shared);
    for _ in 0..1000 {
        let next = parked.begin(Mode::Shared);
        parked.tell(NEWS);
        parked.end(before);
        before = next;
        assert!(parked.recent.len() <= 1, "{} pieces", parked.recent.len());
    }
    parked.end(before);
    assert!(parked.recent.is_empty() && parked.under_way.len() == 0);
}

#[test]
fn names_of_queues_that_no_pop_waits_for_are_not_kept_for_ever() {
    let mut parked = Parked::default();
    for number in 0..20_000 {
        let since = parked.begin(Mode::Shared);
        let bundle = bundle(number, &format!("queue {number}"));
        assert!(parked.park(fresh(bundle), interest(), 1, since).is_none());
        parked.end(since);
        assert!(parked.take_expired(1).is_some());
    }
    assert!(parked.awaited.len() <= AWAITED_SPARE + 1, "{} names", parked.awaited.len());
}

/// Of the pops that wait for the same only the first looks; the next ones follow for as long as something is found.
#[test]
fn the_first_of_the_pops_that_wait_for_the_same_looks_for_all() {
    let mut parked = Parked::default();
    park(&mut parked, 1..=20);
    parked.wake_to_look(usize::MAX);
    let mut due = woken(&mut parked);
    assert_eq!(clients(&due), [1]);
    park_again(&mut parked, due[0]);
    parked.wake_to_look(usize::MAX);
    due = woken(&mut parked);
    let mut found = Vec::new();
    while !due.is_empty() {
        found.extend(clients(&due));
        due.into_iter().for_each(|(_, seat)| parked.done(seat));
        due = woken(&mut parked);
    }
    found.sort_unstable();
    assert_eq!(found, (1..=20).collect::<Vec<u64>>());
}

/// Parks a pop with this reader, whose client has the same number.
fn park_reader(parked: &mut Parked, reader: u32) {
    let since = parked.begin(Mode::Shared);
    let waits = Interest { reader, ..interest() };
    assert!(parked.park(fresh(bundle(reader.into(), "q")), waits, 1000, since).is_none());
    parked.end(since);
}

fn park_all_again(parked: &mut Parked, due: Vec<(u64, Seat)>) {
    let since = parked.begin(Mode::Shared);
    for (client, seat) in due {
        assert!(parked.park(returning(client, seat), seat.interest, 0, since).is_none());
    }
    parked.end(since);
}

#[test]
fn few_pops_look_at_once_and_the_next_look_continues_behind_them() {
    let mut parked = Parked::default();
    (1..=5).for_each(|reader| park_reader(&mut parked, reader));
    let mut looked = Vec::new();
    for _ in 0..4 {
        parked.wake_to_look(2);
        let due = woken(&mut parked);
        looked.push(clients(&due));
        park_all_again(&mut parked, due);
    }
    // Client 1 waits longest and may take what any of the others looks for, so it looks with them.
    assert_eq!(looked, [vec![1, 2], vec![1, 3, 4], vec![1, 5], vec![1, 2]]);
    parked.wake_all_to_look();
    assert_eq!(clients(&woken(&mut parked)), [1, 2, 3, 4, 5]);
}

#[test]
fn woken_pops_beyond_what_a_call_takes_wait_for_their_turn_and_are_away() {
    let mut parked = Parked::default();
    (1..=3).for_each(|reader| park_reader(&mut parked, reader));
    parked.wake_all();
    let first = parked.take_woken(2);
    assert_eq!(first.len(), 2);
    assert!(parked.has_woken() && parked.len() == 3);
    park_reader(&mut parked, 4);
    let send = std::iter::once((&b"q"[..], 9, None));
    assert!(parked.wake_for_sends(send).is_empty(), "all three came before");
    for Due { seat, .. } in first {
        parked.done(seat.expect("it waited"));
    }
    assert!(parked.leave(address(3)).is_some(), "it is not executed yet");
    assert!(!parked.has_woken() && parked.away.is_empty());
}

/// Neither is parked yet, so it cannot be woken, and what it found may be older than what all are woken for.
#[test]
fn who_is_being_executed_when_all_are_woken_looks_again() {
    for wake_all in [Parked::wake_all, Parked::wake_all_to_look] {
        let mut parked = Parked::default();
        park(&mut parked, 1..=1);
        parked.tell(NEWS);
        let (_, seat) = woken(&mut parked).remove(0);
        let before = parked.begin(Mode::Shared);
        wake_all(&mut parked);
        assert!(!parked.has_woken(), "nobody is parked");
        let after = parked.begin(Mode::Shared);
        for (due, since) in
            [(returning(1, seat), before), (fresh(bundle(2, "q")), before), (fresh(bundle(3, "q")), after)]
        {
            assert!(parked.park(due, interest(), 1000, since).is_none());
        }
        let looks = woken(&mut parked);
        assert_eq!(looks.iter().map(|(client, _)| *client).collect::<Vec<_>>(), [1, 2]);
        let since = parked.begin(Mode::Shared);
        for (client, seat) in looks {
            assert!(parked.park(returning(client, seat), interest(), 1000, since).is_none());
        }
        assert!(!parked.has_woken(), "once");
    }
}

#[test]
fn pops_that_do_not_fit_into_a_call_are_the_next_to_be_executed() {
    let mut parked = Parked::default();
    park(&mut parked, 0..4);
    parked.wake_all();
    let mut due = parked.take_woken(3);
    parked.take_back(due.split_off(1));
    assert!(parked.has_woken());
    let clients: Vec<u64> = woken(&mut parked).into_iter().map(|(client, _)| client).collect();
    assert_eq!(clients, [1, 2, 3]);
}
