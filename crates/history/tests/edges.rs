//! Where a rule ends: pairs of nearly equal small histories, of which one is valid and the other is not. Here: order,
//! nulls, counters, and what is seen of messages and queues (rules E, F, H and I).

mod tale;

use posthaste_history::{
    Answer, Body, Call, Delivery, Ending, Journal, Kind, Outcome, Requests, Rule, Select, Send,
};
use tale::{MS, Tale, ack, broken, counted, delivery, extend, nack};

#[test]
fn only_sends_that_were_apart_have_an_order() {
    let popped = |tale: Tale| tale.pop("bob", &[2], (20, 21)).pop("bob", &[1], (22, 23));
    broken(popped(Tale::new().send(1, (0, 5)).send(2, (6, 7))), &[Rule::E]);
    broken(popped(Tale::new().send(1, (0, 5)).send(2, (5, 7))), &[]);
    // Carol's pop of the first message may have taken effect before bob's pop of the second.
    let raced = Tale::new().send(1, (0, 5)).send(2, (6, 7)).pop("bob", &[2], (20, 30));
    broken(raced.pop("carol", &[1], (29, 40)), &[]);
    let told = Tale::new().send(1, (0, 5)).send(2, (6, 7));
    broken(told.pop("bob", &[2, 1], (20, 21)), &[Rule::E]);
}

#[test]
fn a_peek_of_several_shows_all_that_stand_before_its_last() {
    let peeked = |tale: Tale, bodies: &'static [u64], times: (u64, u64)| {
        let mut tale = tale;
        let peek =
            |journal: &mut Journal| Call::Peek(Select { count: 3, ..Select::queue(journal.name("q")) });
        tale.tell("bob", times, peek, |journal| {
            let shown = bodies
                .iter()
                .map(|body| Delivery { deliveries: 0, ..delivery(journal, *body, "alice", None) });
            Outcome::Ok(Answer::Messages(shown.collect()))
        });
        tale
    };
    let three = || Tale::new().send(1, (0, 1)).send(2, (2, 3)).send(3, (4, 5));
    let popped =
        |tale: Tale| tale.pop("bob", &[1], (50, 51)).pop("bob", &[2], (52, 53)).pop("bob", &[3], (54, 55));
    broken(popped(peeked(three(), &[1, 2, 3], (6, 7))), &[]);
    broken(popped(peeked(three(), &[1, 2], (6, 7))), &[]);
    broken(popped(peeked(three(), &[1, 3], (6, 7))), &[Rule::E]);
    broken(popped(peeked(three(), &[1, 3], (6, 51))), &[Rule::E]);
    broken(popped(peeked(three(), &[1, 3], (6, 52))), &[]);
    // The message left out may have been taken, or not yet have been there, or have come later in the order.
    broken(popped(peeked(three(), &[3], (6, 53))), &[]);
    let raced = three().pop("carol", &[1, 2], (6, 9));
    broken(peeked(raced, &[1, 3], (6, 7)).pop("bob", &[3], (50, 51)), &[]);
    let beside = || Tale::new().send(1, (0, 1)).send(2, (2, 4)).send(3, (4, 5));
    broken(popped(peeked(beside(), &[1, 3], (6, 7))), &[]);
    let aside = Tale::new().send(1, (0, 1)).send_to(2, "carol", (2, 3)).send(3, (4, 5));
    let to_carol = |journal: &mut Journal| {
        Outcome::Ok(Answer::Messages([delivery(journal, 2, "alice", Some("carol"))].into()))
    };
    let taken = peeked(aside, &[1, 3], (6, 7)).pop("bob", &[1, 3], (50, 51));
    broken(taken.pops("carol", (52, 53), to_carol), &[]);
}

#[test]
fn a_null_is_judged_only_where_a_message_stood_all_the_while() {
    let popped = |tale: Tale| tale.pop("bob", &[1], (50, 60));
    broken(popped(Tale::new().send(1, (0, 5)).pop("bob", &[], (6, 49))), &[Rule::F]);
    broken(popped(Tale::new().send(1, (0, 5)).pop("bob", &[], (5, 49))), &[]);
    broken(popped(Tale::new().send(1, (0, 5)).pop("bob", &[], (6, 50))), &[]);
    // A lost pop may have held the message for `limbo`, ten, longer.
    broken(popped(Tale::new().send(1, (0, 5)).lost_pop("dave", (6, 7)).pop("bob", &[], (17, 20))), &[]);
    broken(
        popped(Tale::new().send(1, (0, 5)).lost_pop("dave", (6, 7)).pop("bob", &[], (18, 20))),
        &[Rule::F],
    );
    // A purge that gave up may have held it meanwhile, unless it gave up at once.
    let purged = |times, pop| {
        let mut tale = Tale::new().send(1, (0, 5));
        tale.tell("dave", times, |journal| Call::Purge { queue: journal.name("q") }, |_| Outcome::Fail);
        tale.pop("bob", &[], pop).pop("bob", &[1], (400 * MS, 401 * MS))
    };
    broken(purged((6, 6 + 100 * MS), (100 * MS, 101 * MS)), &[]);
    broken(purged((6, 6 + 100 * MS), (7 + 100 * MS, 101 * MS)), &[Rule::F]);
    broken(purged((6, 5 + 100 * MS), (99 * MS, 101 * MS)), &[Rule::F]);
    let to_carol = Tale::new().send_to(1, "carol", (0, 5)).pop("bob", &[], (6, 7));
    let to = |journal: &mut Journal| {
        Outcome::Ok(Answer::Messages([delivery(journal, 1, "alice", Some("carol"))].into()))
    };
    broken(to_carol.pops("carol", (50, 60), to), &[]);
}

#[test]
fn a_pop_that_waits_finds_what_comes_meanwhile() {
    // The pop waits for 30 ms, and news of a message may take ten nanoseconds; its null arrives at 40 ms.
    let waited = |block_ms, acked| {
        let mut tale = Tale::new();
        let pop = |journal: &mut Journal| Call::Pop(Select { block_ms, ..Select::queue(journal.name("q")) });
        tale.tell("bob", (0, 40 * MS), pop, |_| Outcome::Ok(Answer::Messages([].into())));
        tale.send(1, (acked - 1, acked))
    };
    let left = |tale: Tale| tale.pop("bob", &[1], (60 * MS, 61 * MS));
    broken(left(waited(30, 20)), &[Rule::F]);
    broken(left(waited(30, 30 * MS - 11)), &[Rule::F]);
    broken(left(waited(30, 30 * MS - 10)), &[]);
    broken(left(waited(0, 20)), &[]);
    // A server that stops answers before the time of BLOCK is over.
    broken(left(waited(50, 40 * MS - 11)), &[Rule::F]);
    broken(left(waited(50, 40 * MS - 10)), &[]);
    // Another pop under way at the same time may have been given the message first.
    broken(waited(30, 20).pop("carol", &[1], (40 * MS, 41 * MS)), &[]);
}

#[test]
fn a_depth_lies_between_what_must_and_what_may_be_there() {
    let tale = |depth| {
        let tale = Tale::new().send(1, (0, 5)).send(2, (10, 20)).depth(depth, (12, 13));
        tale.pop("bob", &[1, 2], (50, 60))
    };
    broken(tale(0), &[Rule::H]);
    broken(tale(1), &[]);
    broken(tale(2), &[]);
    broken(tale(3), &[Rule::H]);
}

#[test]
fn a_queue_that_was_deleted_takes_nothing_and_gives_nothing() {
    let sent = || Tale::new().send(1, (0, 5));
    broken(sent().delete(0, (6, 7)).pop("bob", &[1], (8, 9)), &[Rule::I]);
    broken(sent().delete(0, (5, 9)).pop("bob", &[1], (8, 12)), &[]);
    broken(sent().delete(1, (6, 7)).send(2, (8, 9)).pop("bob", &[2], (10, 11)), &[Rule::I]);
    broken(sent().delete(1, (6, 7)).depth(0, (7, 9)), &[]);
    broken(sent().delete(1, (6, 7)).depth(0, (8, 9)), &[Rule::I]);
    broken(sent().delete(1, (6, 7)).delete(0, (8, 9)), &[Rule::I]);
}

#[test]
fn priorities_and_one_connection_s_sends_keep_their_order() {
    let acknowledged = || Outcome::Ok(Answer::Ids([1].into()));
    // Two sends of one connection, under way at once.
    let piped = |first: Outcome, priorities: [u8; 2], popped: &[u64]| {
        let mut tale = Tale::new();
        let mut journal = Journal::new(500, "alice");
        let queue = journal.name("q");
        let begin = |journal: &mut Journal, at, body: u64, priority| {
            let send = Send::new(queue, Body::of(&body.to_le_bytes()));
            journal.begin(at, Call::Send(Send { priority, ..send }))
        };
        let numbers = [begin(&mut journal, 0, 1, priorities[0]), begin(&mut journal, 1, 2, priorities[1])];
        for (number, outcome) in numbers.into_iter().zip([first, Outcome::Ok(Answer::Ids([2].into()))]) {
            journal.end(number, 5, outcome);
        }
        tale.history.add(&journal);
        let message = |journal: &mut Journal, body: u64| {
            let priority = priorities[usize::from(body == 2)];
            Delivery { priority, ..delivery(journal, body, "alice", None) }
        };
        // The messages are popped one after the other, and both in one answer.
        let mut apart = Tale { history: tale.history.clone(), next: 0 };
        for (body, at) in popped.iter().zip([10, 20]) {
            let pop = |journal: &mut Journal| Call::Pop(Select::queue(journal.name("q")));
            apart.tell("bob", (at, at + 1), pop, |journal| {
                Outcome::Ok(Answer::Messages([message(journal, *body)].into()))
            });
        }
        let pop = |journal: &mut Journal| Call::Pop(Select { count: 2, ..Select::queue(journal.name("q")) });
        tale.tell("bob", (10, 11), pop, |journal| {
            Outcome::Ok(Answer::Messages(popped.iter().map(|body| message(journal, *body)).collect()))
        });
        (apart, tale)
    };
    for (priorities, popped, rules) in [
        ([0, 0], [1, 2], [].as_slice()),
        ([0, 0], [2, 1], &[Rule::E]),
        ([0, 1], [2, 1], &[]),
        ([0, 1], [1, 2], &[Rule::E]),
        ([1, 0], [1, 2], &[]),
        ([1, 0], [2, 1], &[Rule::E]),
    ] {
        let (apart, together) = piped(acknowledged(), priorities, &popped);
        broken(apart, rules);
        broken(together, rules);
    }
    // What was given up may take effect later than what was sent after it.
    for popped in [[1, 2], [2, 1]] {
        let (apart, together) = piped(Outcome::Info, [0, 0], &popped);
        broken(apart, &[]);
        broken(together, &[]);
    }
}

#[test]
fn a_peek_sees_nothing_that_somebody_has_or_had() {
    let popped = || Tale::new().send(1, (0, 1)).pop("carol", &[1], (4, 8));
    broken(popped().peek(1, 0, (8, 9)), &[]);
    broken(popped().peek(1, 0, (9, 10)), &[Rule::I]);
    let leased = || {
        let tale = Tale::new().send(1, (0, 1)).lease(1, 1, (2, 3));
        tale.hold(ack(1), counted(1), (9 * MS, 9 * MS + 1))
    };
    broken(leased().peek(1, 1, (3, 4)), &[]);
    broken(leased().peek(1, 1, (4, 5)), &[Rule::I]);
    broken(leased().peek(1, 1, (4, 8 * MS + 2)), &[]);
    broken(leased().peek(1, 2, (3, 4)), &[Rule::C]);
}

#[test]
fn a_message_is_seen_from_its_delay_to_its_time_to_live() {
    let delayed = |times| {
        let tale = Tale::new().send_with(1, (5, 9), |send| Send { delay_ms: 5, ..send });
        tale.pop("bob", &[1], times)
    };
    broken(delayed((10, 3 * MS + 4)), &[Rule::I]);
    broken(delayed((10, 3 * MS + 5)), &[]);
    let mortal = |times| {
        let tale = Tale::new().send_with(1, (5, 9), |send| Send { ttl_ms: 5, ..send });
        tale.pop("bob", &[1], times)
    };
    broken(mortal((5 * MS + 19, 5 * MS + 30)), &[]);
    broken(mortal((5 * MS + 20, 5 * MS + 30)), &[Rule::I]);
}

#[test]
fn a_null_is_judged_where_a_message_was_delayed_or_came_back() {
    let delayed = |begin| {
        let tale = Tale::new().send_with(1, (5, 9), |send| Send { delay_ms: 5, ..send });
        tale.pop("bob", &[], (begin, begin + 1)).pop("bob", &[1], (9 * MS, 9 * MS + 1))
    };
    broken(delayed(5 * MS + 19), &[]);
    broken(delayed(5 * MS + 20), &[Rule::F]);
    let leased = |call, outcome, begin| {
        let tale = Tale::new().send(1, (0, 1)).lease(1, 1, (2, 3)).hold(call, outcome, (4, 5));
        let tale = tale.pop("carol", &[], (begin, begin + 1)).lease(1, 2, (80 * MS, 80 * MS + 1));
        tale.hold(ack(2), counted(1), (81 * MS, 82 * MS))
    };
    broken(leased(nack(1, 0), counted(1), 5), &[]);
    broken(leased(nack(1, 0), counted(1), 6), &[Rule::F]);
    broken(leased(nack(1, 20), counted(1), 20 * MS + 15), &[]);
    broken(leased(nack(1, 20), counted(1), 20 * MS + 16), &[Rule::F]);
    // It is unknown whether the extension took effect; if so, the lease lasted until then.
    broken(leased(extend(1, 30), Outcome::Info, 30 * MS + 25), &[]);
    broken(leased(extend(1, 30), Outcome::Info, 30 * MS + 26), &[Rule::F]);
}

#[test]
fn ids_grow_and_are_unlike_over_all_queues() {
    let ids = |second: &[u64], times| {
        let mut tale = Tale::new().send(5, (0, 5)).delete(1, (300, 301));
        let send = |journal: &mut Journal| {
            let bodies: Box<[_]> = second.iter().map(|id| Body::of(&(100 + id).to_le_bytes())).collect();
            Call::Send(Send { bodies, ..Send::new(journal.name("other"), Body::of(b"")) })
        };
        tale.tell("bob", times, send, |_| Outcome::Ok(Answer::Ids(second.into())));
        let delete = |journal: &mut Journal| Call::Delete { queue: journal.name("other") };
        tale.tell("bob", (300, 301), delete, |_| counted(second.len() as u64));
        tale
    };
    broken(ids(&[6], (6, 7)), &[]);
    broken(ids(&[4], (5, 7)), &[]);
    broken(ids(&[4], (6, 7)), &[Rule::E]);
    broken(ids(&[5], (5, 7)), &[Rule::E]);
    broken(ids(&[6, 7], (5, 7)), &[]);
    broken(ids(&[7, 6], (5, 7)), &[Rule::E]);
}

#[test]
fn an_id_given_twice_is_held_against_the_answer_that_gave_it_again() {
    // The order in which journals are added does not matter.
    for times in [[(0_u64, 1), (5, 6)], [(5, 6), (0, 1)]] {
        let mut tale = Tale::new();
        for (begin, end) in times {
            let send = |journal: &mut Journal| {
                Call::Send(Send::new(journal.name("q"), Body::of(&begin.to_le_bytes())))
            };
            tale.tell("alice", (begin, end), send, |_| Outcome::Ok(Answer::Ids([7].into())));
        }
        let verdict = tale.end();
        let twice = verdict.violations.iter().find(|one| one.text.contains("given to two messages"));
        let [first, again] = twice.expect("it is found").operations[..] else { panic!("{verdict}") };
        assert_eq!(first.client < again.client, times[0] < times[1], "{verdict}");
    }
}

#[test]
fn what_is_sent_together_has_an_id_for_each() {
    let sent = |ids: &[u64]| {
        let mut tale = Tale::new().delete(2, (300, 301));
        let send = |journal: &mut Journal| {
            let bodies = [1_u64, 2].map(|body| Body::of(&body.to_le_bytes())).into();
            Call::Send(Send { bodies, ..Send::new(journal.name("q"), Body::of(b"")) })
        };
        tale.tell("alice", (0, 1), send, |_| Outcome::Ok(Answer::Ids(ids.into())));
        tale
    };
    broken(sent(&[1, 2]), &[]);
    for ids in [&[1][..], &[], &[1, 2, 3]] {
        broken(sent(ids), &[Rule::E]);
    }
}

#[test]
fn an_id_is_that_of_one_message_also_where_only_its_reader_was_told() {
    let popped = |told: Outcome, id: u64| {
        let mut tale = Tale::new().send(1, (0, 1)).peek(1, 0, (2, 3)).pop("bob", &[1], (4, 5));
        let send = |journal: &mut Journal| {
            Call::Send(Send::new(journal.name("other"), Body::of(&2_u64.to_le_bytes())))
        };
        tale.tell("alice", (10, 11), send, |_| told);
        for (begin, pops) in [(30, false), (40, false), (50, true)] {
            let read = |journal: &mut Journal| {
                let select = Select::queue(journal.name("other"));
                if pops { Call::Pop(select) } else { Call::Peek(select) }
            };
            tale.tell("bob", (begin, begin + 1), read, |journal| {
                let queue = journal.name("other");
                let deliveries = u32::from(pops);
                let message = Delivery { id, queue, deliveries, ..delivery(journal, 2, "alice", None) };
                Outcome::Ok(Answer::Messages([message].into()))
            });
        }
        tale
    };
    broken(popped(Outcome::Info, 2), &[]);
    broken(popped(Outcome::Info, 1), &[Rule::E]);
    assert_eq!(popped(Outcome::Info, 1).end().broken(Rule::E), 1, "however often it was shown");
    // If the sender was told another id, the id shown breaks rule B instead.
    broken(popped(Outcome::Ok(Answer::Ids([2].into())), 1), &[Rule::B]);
}

#[test]
fn a_sender_s_messages_of_all_queues_come_in_order() {
    let tale = |times| {
        let mut tale = Tale::new().send(1, (0, 5));
        let send = |journal: &mut Journal| {
            Call::Send(Send::new(journal.name("other"), Body::of(&2_u64.to_le_bytes())))
        };
        tale.tell("alice", times, send, |_| Outcome::Ok(Answer::Ids([2].into())));
        let pop = |journal: &mut Journal| {
            Call::Pop(Select { from: Some(journal.name("alice")), ..Select::default() })
        };
        tale.tell("bob", (20, 21), pop, |journal| {
            let message = Delivery { queue: journal.name("other"), ..delivery(journal, 2, "alice", None) };
            Outcome::Ok(Answer::Messages([message].into()))
        });
        tale.pop("bob", &[1], (30, 31))
    };
    broken(tale((5, 9)), &[]);
    broken(tale((6, 9)), &[Rule::E]);
}

#[test]
fn no_more_is_wiped_than_can_have_been_there() {
    let tale = |messages| Tale::new().send(1, (0, 5)).pop("bob", &[1], (6, 9)).delete(messages, (9, 11));
    broken(tale(1), &[]);
    broken(tale(2), &[Rule::H]);
}

#[test]
fn counted_requests_are_those_that_were_answered() {
    for (counted, rules) in [(0, [Rule::H].as_slice()), (1, &[]), (2, &[Rule::H])] {
        let mut tale = Tale::new().send(1, (0, 5)).pop("bob", &[1], (6, 7));
        tale.history.count(Requests { kind: Kind::Send, ending: Ending::Ok, counted });
        broken(tale, rules);
    }
}
