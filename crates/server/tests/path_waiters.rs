//! Parked pops: first come first served among those a message suits.

use std::collections::BTreeMap;

use posthaste_server::path::bundle::{Address, Bundle};
use posthaste_server::path::waiters::{ParkedPop, Ticket, Waiters};
use posthaste_server::queue::rules::{Interest, News};

fn address(client: u64) -> Address {
    Address { thread: 0, slot: usize::try_from(client).unwrap_or(0), client }
}

fn park(waiters: &mut Waiters, client: u64, interest: Interest, deadline: u64) {
    waiters.park(ParkedPop { bundle: Box::new(Bundle::new(address(client))), interest, deadline });
}

fn of_queue(reader: u32, queue: u64) -> Interest {
    Interest { reader, queue: Some(queue), sender: None, not_own: false, broadcast: false }
}

fn available(queue: u64, sender: u32, recipient: Option<u32>) -> News {
    News::Available { queue, sender, recipient }
}

fn served(waiters: &mut Waiters, news: News) -> Option<u64> {
    waiters.take_match(news).map(|(_, waiting)| waiting.bundle.address.client)
}

#[test]
fn the_longest_waiting_pop_of_the_queue_is_served_first() {
    let mut waiters = Waiters::default();
    park(&mut waiters, 1, of_queue(1, 7), 100);
    park(&mut waiters, 2, of_queue(2, 7), 100);
    park(&mut waiters, 3, of_queue(3, 8), 100);
    assert_eq!(served(&mut waiters, available(7, 9, None)), Some(1));
    assert_eq!(served(&mut waiters, available(7, 9, None)), Some(2));
    assert_eq!(served(&mut waiters, available(7, 9, None)), None);
    assert_eq!(waiters.len(), 1);
}

#[test]
fn a_message_to_one_account_passes_over_the_others() {
    let mut waiters = Waiters::default();
    park(&mut waiters, 1, of_queue(1, 7), 100);
    park(&mut waiters, 2, Interest { broadcast: true, ..of_queue(2, 7) }, 100);
    park(&mut waiters, 3, of_queue(2, 7), 100);
    assert_eq!(served(&mut waiters, available(7, 9, Some(2))), Some(3));
    assert_eq!(served(&mut waiters, available(7, 9, Some(2))), None);
}

#[test]
fn pops_by_sender_and_by_queue_are_served_in_one_order() {
    let mut waiters = Waiters::default();
    let by_sender = Interest { queue: None, sender: Some(9), ..of_queue(1, 0) };
    let by_both = Interest { sender: Some(9), ..of_queue(3, 7) };
    park(&mut waiters, 1, by_sender, 100);
    park(&mut waiters, 2, Interest { not_own: true, ..of_queue(9, 7) }, 100);
    park(&mut waiters, 3, by_both, 100);
    park(&mut waiters, 4, of_queue(4, 7), 100);
    assert_eq!(served(&mut waiters, available(7, 9, None)), Some(1));
    assert_eq!(served(&mut waiters, available(7, 9, None)), Some(3), "2 sent it itself");
    assert_eq!(served(&mut waiters, available(7, 9, None)), Some(4));
    assert_eq!(served(&mut waiters, available(7, 8, None)), Some(2));
}

/// Compared with a look at all that wait, one after the other.
#[test]
fn whoever_waits_the_first_that_takes_a_message_is_found() {
    let dice = &mut fastrand::Rng::with_seed(1);
    for _ in 0..200 {
        let (mut waiters, mut parked) = (Waiters::default(), BTreeMap::new());
        for number in 0..40 {
            let interest = Interest {
                not_own: dice.u8(..4) > 0,
                broadcast: dice.bool(),
                sender: dice.bool().then(|| dice.u32(1..=2)),
                ..of_queue(dice.u32(1..=2), 7)
            };
            park(&mut waiters, number, interest, 100);
            parked.insert(number, interest);
        }
        while !parked.is_empty() {
            let sender = dice.u32(1..=3);
            let news = available(7, sender, dice.bool().then(|| dice.u32(1..=2)));
            let from = dice.u64(..40);
            let takes = |(_, interest): &(&Ticket, &Interest)| interest.matches(news);
            let expected = parked.range(from..).find(takes).map(|(ticket, _)| *ticket);
            assert_eq!(waiters.first_match(news, from), expected, "{news:?} among {parked:?}");
            let ticket = dice.u64(..40);
            let taken = waiters.take(ticket);
            assert_eq!(taken.is_some(), parked.contains_key(&ticket));
            match taken {
                Some(waiting) if dice.bool() => waiters.put_back(ticket, waiting),
                _ => drop(parked.remove(&ticket)),
            }
        }
    }
}

/// A look at each of those would take hours.
#[test]
fn a_sender_passes_over_those_of_its_own_that_wait_for_others_however_many_they_are() {
    const OWN: u64 = 100_000;
    let mut waiters = Waiters::default();
    let not_own = Interest { not_own: true, ..of_queue(9, 7) };
    (0..OWN).for_each(|client| park(&mut waiters, client, not_own, 100));
    park(&mut waiters, OWN, of_queue(1, 7), 100);
    park(&mut waiters, OWN + 1, Interest { not_own: true, ..of_queue(2, 7) }, 100);
    for _ in 0..OWN {
        assert_eq!(waiters.first_match(available(7, 9, None), 0), Some(OWN));
    }
}

#[test]
fn a_pop_put_back_keeps_its_place() {
    let mut waiters = Waiters::default();
    park(&mut waiters, 1, of_queue(1, 7), 100);
    park(&mut waiters, 2, of_queue(2, 7), 100);
    let (ticket, waiting) = waiters.take_match(available(7, 9, None)).expect("two wait");
    waiters.put_back(ticket, waiting);
    assert_eq!(served(&mut waiters, available(7, 9, None)), Some(1));
    assert_eq!(served(&mut waiters, available(7, 9, None)), Some(2));
}

#[test]
fn waits_end_in_the_order_of_their_deadlines() {
    let mut waiters = Waiters::default();
    park(&mut waiters, 1, of_queue(1, 7), 300);
    park(&mut waiters, 2, of_queue(2, 7), 200);
    assert_eq!(waiters.deadline(), Some(200));
    assert!(waiters.take_expired(199).is_none());
    let expired = waiters.take_expired(250).expect("one is over");
    assert_eq!(expired.1.bundle.address.client, 2);
    assert_eq!(waiters.deadline(), Some(300));
}

#[test]
fn the_end_of_a_queue_reaches_everyone_who_names_it() {
    let mut waiters = Waiters::default();
    park(&mut waiters, 1, of_queue(1, 7), 100);
    park(&mut waiters, 2, Interest { sender: Some(5), ..of_queue(2, 7) }, 100);
    park(&mut waiters, 3, Interest { queue: None, sender: Some(5), ..of_queue(3, 0) }, 100);
    assert_eq!(served(&mut waiters, News::QueueGone(7)), Some(1));
    assert_eq!(served(&mut waiters, News::QueueGone(7)), Some(2));
    assert_eq!(served(&mut waiters, News::QueueGone(7)), None);
}

#[test]
fn when_waits_are_ended_nobody_waits_any_longer_who_does_or_comes_later() {
    let mut waiters = Waiters::default();
    park(&mut waiters, 1, of_queue(1, 7), 100);
    assert!(waiters.take_expired(99).is_none());
    waiters.end_waits();
    park(&mut waiters, 2, of_queue(2, 7), 200);
    for client in [1, 2] {
        assert_eq!(waiters.deadline(), Some(0));
        let (_, over) = waiters.take_expired(99).expect("its wait is over");
        assert_eq!(over.bundle.address.client, client);
    }
    assert_eq!(waiters.deadline(), None);
}

#[test]
fn who_left_is_given_nothing_whether_parked_already_or_not_yet() {
    let mut waiters = Waiters::default();
    park(&mut waiters, 1, of_queue(1, 7), 100);
    assert!(waiters.record_departure(address(1)).is_some());
    assert_eq!(served(&mut waiters, available(7, 9, None)), None);
    assert!(waiters.record_departure(address(2)).is_none());
    assert!(waiters.has_departed(address(2)));
    waiters.forget_departure(address(2));
    assert!(!waiters.has_departed(address(2)));
}
