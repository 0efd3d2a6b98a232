//! The waiting line: bounded, in order, with a line that goes first, and never asleep while something waits.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use posthaste_measure::{Clock, Hand};
use posthaste_server::path::bundle::{Address, Bundle, Request};
use posthaste_server::path::waiting_line::{Shift, Taken, WaitingLine};
use posthaste_wire::command::Kind;
use posthaste_wire::operation::Operation;

fn bundle(client: u64, requests: usize, kind: Kind) -> Box<Bundle> {
    let mut bundle = Bundle::new(Address { thread: 0, slot: 0, client });
    for _ in 0..requests {
        bundle.requests.push(Request::new(Operation::Readable { not_own: false }, kind, 0));
    }
    Box::new(bundle)
}

fn clients(batch: &[Box<Bundle>]) -> Vec<u64> {
    batch.iter().map(|bundle| bundle.address.client).collect()
}

#[test]
fn bundles_are_taken_in_the_order_they_came_up_to_the_batch_size() {
    let line = WaitingLine::new(Clock::start(), 100, Vec::new());
    line.push_all(&mut (1..=4).map(|client| bundle(client, 3, Kind::Send)).collect());
    let mut batch = Vec::new();
    assert_eq!(line.take(7, None, &mut batch), Taken::Batch);
    assert_eq!(clients(&batch), [1, 2], "a third would make nine requests");
    batch.clear();
    assert_eq!(line.take(7, None, &mut batch), Taken::Batch);
    assert_eq!(clients(&batch), [3, 4]);
    assert!(line.is_empty());
}

#[test]
fn a_bundle_larger_than_the_batch_is_taken_alone() {
    let line = WaitingLine::new(Clock::start(), 100, Vec::new());
    line.push_all(&mut vec![bundle(1, 9, Kind::Send), bundle(2, 1, Kind::Send)]);
    let mut batch = Vec::new();
    assert_eq!(line.take(1, None, &mut batch), Taken::Batch);
    assert_eq!(clients(&batch), [1]);
}

#[test]
fn what_finds_the_line_full_stays_with_its_owner_and_nothing_is_dropped() {
    let line = WaitingLine::new(Clock::start(), 5, Vec::new());
    let mut bundles = vec![bundle(1, 3, Kind::Send), bundle(2, 3, Kind::Send), bundle(3, 2, Kind::Send)];
    line.push_all(&mut bundles);
    assert_eq!(clients(&bundles), [2]);
    assert_eq!(line.len(), 5);
    let mut batch = Vec::new();
    line.take(5, None, &mut batch);
    assert_eq!(clients(&batch), [1, 3]);
    line.push_all(&mut bundles);
    assert!(bundles.is_empty(), "there is room again");
}

#[test]
fn chosen_kinds_go_first() {
    let line = WaitingLine::new(Clock::start(), 100, vec![Kind::Peek]);
    line.push_all(&mut vec![bundle(1, 1, Kind::Send), bundle(2, 1, Kind::Peek), bundle(3, 1, Kind::Send)]);
    let mut batch = Vec::new();
    line.take(10, None, &mut batch);
    assert_eq!(clients(&batch), [2, 1, 3]);
}

#[test]
fn a_worker_waits_no_longer_than_its_deadline() {
    let line = WaitingLine::new(Clock::start(), 100, Vec::new());
    let start = Instant::now();
    let mut batch = Vec::new();
    assert_eq!(line.take(10, Some(start + Duration::from_millis(30)), &mut batch), Taken::Nothing);
    assert!(start.elapsed() >= Duration::from_millis(30));
}

#[test]
fn what_is_due_is_not_missed_by_a_worker_that_is_about_to_wait() {
    let line = WaitingLine::new(Clock::start(), 100, Vec::new());
    // It has asked its store when to wake, and something is due since.
    line.wake_by(Instant::now());
    let mut batch = Vec::new();
    assert_eq!(line.try_take(1, None, &mut batch).expect("it looks around first"), Taken::Nothing);
    let first = line.try_take(1, None, &mut batch).expect_err("there is nothing to do");
    let second = line.try_take(1, None, &mut batch).expect_err("there is nothing to do");
    let calls = line.calls();
    line.wake_by(Instant::now());
    assert_eq!(line.calls(), calls + 1, "one is called");
    line.end_wait(&first);
    line.wake_by(Instant::now() + Duration::from_secs(1));
    assert_eq!(line.calls(), calls + 2, "who got up does not wake in time");
    line.end_wait(&second);
}

/// Those answered are about to come back: a worker waits for them, and no longer than that is worth it.
#[test]
fn those_who_come_back_are_taken_with_those_who_wait() {
    let hand = Hand::at_zero();
    let clock = Clock::by_hand(hand, 0);
    let line = Arc::new(WaitingLine::new(clock, 100, Vec::new()));
    line.gather(Duration::from_micros(500));
    let mut batch = Vec::new();
    line.push_all(&mut vec![bundle(1, 1, Kind::Send), bundle(2, 1, Kind::Send)]);
    assert_eq!(line.take(10, None, &mut batch), Taken::Batch, "nobody was answered, so nobody comes back");
    let shift = Shift::of(&line, 2);
    line.push_all(&mut vec![bundle(3, 1, Kind::Send)]);
    hand.set(800_000);
    drop(shift);
    let wait = line.try_take(10, None, &mut batch).expect_err("two more are to come");
    assert_eq!(wait.deadline, Some(clock.instant() + Duration::from_micros(200)), "a quarter of the shift");
    line.push_all(&mut vec![bundle(1, 1, Kind::Send), bundle(2, 1, Kind::Send)]);
    line.end_wait(&wait);
    batch.clear();
    assert_eq!(line.try_take(10, None, &mut batch).expect("all are there"), Taken::Batch);
    assert_eq!(clients(&batch), [3, 1, 2]);
    let shift = Shift::of(&line, 3);
    hand.set(1_600_000);
    drop(shift);
    line.push_all(&mut vec![bundle(4, 1, Kind::Send)]);
    let wait = line.try_take(10, None, &mut batch).expect_err("two more are to come");
    hand.set(1_800_000);
    line.end_wait(&wait);
    assert_eq!(line.try_take(10, None, &mut batch).expect("they do not come"), Taken::Batch);
}

/// One that is called to watch how long others wait may take them instead: then nobody watches, and the next one is
/// called.
#[test]
fn somebody_watches_whenever_somebody_waits() {
    let hand = Hand::at_zero();
    let clock = Clock::by_hand(hand, 0);
    let line = Arc::new(WaitingLine::new(clock, 100, Vec::new()));
    line.gather(Duration::from_micros(500));
    let mut batch = Vec::new();
    line.push_all(&mut vec![bundle(1, 1, Kind::Send), bundle(2, 1, Kind::Send)]);
    assert_eq!(line.try_take(10, None, &mut batch).expect("two wait"), Taken::Batch);
    let shift = Shift::of(&line, 2);
    let reserve = line.try_take(10, None, &mut batch).expect_err("nobody waits");
    line.push_all(&mut vec![bundle(3, 1, Kind::Send), bundle(4, 1, Kind::Send)]);
    assert_eq!(line.calls(), 1, "the reserve is to watch");
    hand.set(800_000);
    drop(shift);
    hand.set(1_000_000);
    line.end_wait(&reserve);
    assert_eq!(line.try_take(10, None, &mut batch).expect("it was late"), Taken::Batch);
    let shift = Shift::of(&line, 2);
    hand.set(1_800_000);
    drop(shift);
    let wait = line.try_take(10, None, &mut batch).expect_err("nobody waits");
    assert_eq!(wait.deadline, Some(clock.instant() + Duration::from_micros(200)), "two are about to come");
    let calls = line.calls();
    line.push_all(&mut vec![bundle(1, 1, Kind::Send)]);
    assert_eq!(line.calls(), calls, "it watches already how long this one waits for the other");
    line.push_all(&mut vec![bundle(2, 1, Kind::Send)]);
    assert_eq!(line.calls(), calls + 1, "both are there");
    line.end_wait(&wait);
    batch.clear();
    assert_eq!(line.try_take(10, None, &mut batch).expect("both are there"), Taken::Batch);
    assert_eq!(clients(&batch), [1, 2]);
    let shift = Shift::of(&line, 2);
    hand.set(2_600_000);
    drop(shift);
    let wait = line.try_take(10, None, &mut batch).expect_err("nobody waits");
    hand.set(2_800_000);
    line.end_wait(&wait);
    let wait = line.try_take(10, None, &mut batch).expect_err("nobody came");
    assert_eq!(wait.deadline, None, "it watches no more");
    let calls = line.calls();
    line.push_all(&mut vec![bundle(1, 1, Kind::Send)]);
    assert_eq!(line.calls(), calls + 1, "who comes late does not wait");
}

/// Nobody waits for a worker that sleeps on.
#[test]
fn for_each_who_comes_a_worker_gets_up() {
    let line = Arc::new(WaitingLine::new(Clock::start(), 1000, Vec::new()));
    let (took, takers) = std::sync::mpsc::channel();
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let (line, took) = (Arc::clone(&line), took.clone());
            thread::spawn(move || {
                let mut batch = Vec::new();
                while line.take(1, None, &mut batch) == Taken::Batch {
                    batch.drain(..).for_each(|bundle| took.send(bundle.address.client).expect("a listener"));
                    drop(Shift::of(&line, 1));
                }
            })
        })
        .collect();
    for client in 0..500 {
        line.push_all(&mut vec![bundle(client, 1, Kind::Send)]);
        assert_eq!(takers.recv(), Ok(client), "somebody comes for each");
    }
    line.close();
    workers.into_iter().for_each(|worker| worker.join().expect("it ends"));
}

#[test]
fn what_is_due_is_not_missed_while_the_worker_that_knew_of_it_is_under_way() {
    let hand = Hand::at_zero();
    let clock = Clock::by_hand(hand, 0);
    let line = Arc::new(WaitingLine::new(clock, 100, Vec::new()));
    let come = || line.push_all(&mut vec![bundle(1, 1, Kind::Send)]);
    let mut batch = Vec::new();
    let mut take = |until| line.try_take(10, until, &mut batch);
    let due = clock.instant() + Duration::from_secs(1);
    let other = take(None).expect_err("nothing waits");
    come();
    let calls = line.calls();
    assert_eq!(take(Some(due)).expect("it waits"), Taken::Batch);
    let shift = Shift::of(&line, 1);
    assert_eq!(line.calls(), calls + 1, "the other is called, for it does not know");
    line.end_wait(&other);
    let other = take(None).expect_err("nothing waits");
    assert_eq!(other.deadline, Some(due), "it keeps watch");
    drop(shift);
    come();
    let calls = line.calls();
    assert_eq!(take(Some(due)).expect("it waits"), Taken::Batch);
    assert_eq!(line.calls(), calls, "the other keeps watch already");
    hand.set(1_000_000_000);
    line.end_wait(&other);
    assert_eq!(take(None).expect("it is due"), Taken::Nothing, "it looks around");
    let other = take(None).expect_err("nothing waits");
    assert_eq!(other.deadline, None, "it has looked");
}

#[test]
fn a_closed_line_is_emptied_before_workers_stop() {
    let line = WaitingLine::new(Clock::start(), 100, Vec::new());
    line.push_all(&mut vec![bundle(1, 1, Kind::Send)]);
    line.close();
    let mut batch = Vec::new();
    assert_eq!(line.take(10, None, &mut batch), Taken::Batch);
    assert_eq!(line.take(10, None, &mut batch), Taken::Closed);
}

#[test]
fn every_bundle_pushed_by_any_thread_is_taken_once_by_some_worker() {
    const PRODUCERS: u64 = 4;
    const EACH: u64 = 2_000;
    let line = Arc::new(WaitingLine::new(Clock::start(), 64, Vec::new()));
    let workers: Vec<_> = (0..3)
        .map(|_| {
            let line = Arc::clone(&line);
            thread::spawn(move || {
                let (mut seen, mut batch) = (Vec::new(), Vec::new());
                while line.take(8, None, &mut batch) != Taken::Closed {
                    seen.extend(batch.drain(..).map(|bundle| bundle.address.client));
                }
                seen
            })
        })
        .collect();
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|producer| {
            let line = Arc::clone(&line);
            thread::spawn(move || {
                for i in 0..EACH {
                    let mut bundles = vec![bundle(producer * EACH + i, 1, Kind::Send)];
                    while !bundles.is_empty() {
                        line.push_all(&mut bundles);
                    }
                }
            })
        })
        .collect();
    for producer in producers {
        producer.join().expect("a producer panicked");
    }
    line.close();
    let mut seen: Vec<u64> =
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker panicked")).collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..PRODUCERS * EACH).collect::<Vec<_>>());
}
