//! Where a rule ends: pairs of nearly equal small histories, of which one is valid and the other is not. Here: what
//! becomes of a message that is lost, made up, doubled, or shown to the wrong reader (rules A, B, C, D and G).

mod tale;

use posthaste_history::{
    Answer, Body, Call, Delivery, Journal, Name, Outcome, Rule, Select, Send, Time, Verdict, fingerprint,
};
use tale::{MS, Tale, ack, breaks, broken, counted, delivery, extend, nack, numbers};

#[test]
fn a_missing_message_is_explained_by_what_can_have_taken_it_and_by_nothing_else() {
    let sent = || Tale::new().send(1, (0, 1)).send_to(2, "bob", (2, 3));
    broken(sent(), &[Rule::A]);
    broken(sent().lost_pop("bob", (10, 11)), &[Rule::A]);
    broken(sent().lost_pop("carol", (10, 11)).lost_pop("dave", (10, 11)), &[Rule::A]);
    // Bob's pop must be kept for the message to bob, whichever message is explained first.
    broken(sent().lost_pop("bob", (10, 11)).lost_pop("carol", (10, 11)), &[]);
    broken(sent().delete(2, (10, 11)), &[]);
    broken(sent().delete(1, (10, 11)), &[Rule::A]);
    // The deletion was over before the send, so it explains nothing.
    broken(Tale::new().delete(1, (0, 1)).send(1, (2, 3)), &[Rule::A, Rule::H, Rule::I]);
}

#[test]
fn what_was_given_up_may_still_happen_for_ten_more() {
    let tale = |times| Tale::new().lost_delete((6, 7)).send(1, times);
    broken(tale((17, 18)), &[]);
    broken(tale((18, 19)), &[Rule::A]);
}

#[test]
fn what_was_over_before_a_message_was_there_does_not_explain_its_absence() {
    // Requests of unknown outcome may take effect for `limbo`, ten, longer.
    let sent = |times| Tale::new().lost_pop("bob", (0, 1)).send(1, times);
    broken(sent((11, 12)), &[]);
    broken(sent((12, 13)), &[Rule::A]);
    let seen = |times| Tale::new().send(1, (0, 1)).lost_pop("bob", (2, 3)).peek(1, 0, times);
    broken(seen((13, 15)), &[]);
    broken(seen((14, 15)), &[Rule::A]);
    let seen = |times| Tale::new().send(1, (0, 1)).lost_delete((2, 3)).peek(1, 0, times);
    broken(seen((13, 15)), &[]);
    broken(seen((14, 15)), &[Rule::A]);
    let delayed =
        |end| Tale::new().send_with(1, (0, 1), |send| Send { delay_ms: 5, ..send }).lost_pop("bob", (2, end));
    broken(delayed(5 * MS), &[]);
    broken(delayed(2 * MS), &[Rule::A]);
    let leased = |end| Tale::new().send(1, (0, 1)).lease(1, 1, (2, 3)).lost_pop("carol", (5, end));
    broken(leased(10 * MS), &[]);
    broken(leased(7 * MS), &[Rule::A]);
    // A message leased by a lost answer is back at the end, if the lease was over by then.
    let lost_lease = |lease_ms| {
        let mut tale = Tale::new().send(1, (0, 1));
        let call = |journal: &mut Journal| Call::Pop(Select { lease_ms, ..Select::queue(journal.name("q")) });
        tale.tell("bob", (2, 3), call, |_| Outcome::Info);
        tale
    };
    broken(lost_lease(2000), &[]);
    broken(lost_lease(500), &[Rule::A]);
    let acked = |times| {
        let tale = Tale::new().send(1, (0, 1)).lease(1, 1, (2, 3)).hold(ack(1), Outcome::Info, (4, 20 * MS));
        tale.peek(1, 1, times)
    };
    broken(acked((20 * MS, 21 * MS)), &[]);
    broken(acked((21 * MS, 22 * MS)), &[Rule::A]);
}

#[test]
fn messages_that_were_sent_together_are_there_together() {
    let sent = |outcome: Outcome| {
        let mut tale = Tale::new();
        let send = |journal: &mut Journal| {
            let bodies = [1_u64, 2, 3].map(|body| Body::of(&body.to_le_bytes())).into();
            Call::Send(Send { bodies, ..Send::new(journal.name("q"), Body::of(b"")) })
        };
        tale.tell("alice", (0, 1), send, |_| outcome);
        tale
    };
    broken(sent(Outcome::Info), &[]);
    broken(sent(Outcome::Info).pop("bob", &[1, 2, 3], (20, 21)), &[]);
    broken(sent(Outcome::Info).pop("bob", &[1, 2], (20, 21)), &[Rule::A]);
    broken(sent(Outcome::Info).pop("bob", &[1], (20, 21)), &[Rule::A]);
    broken(sent(Outcome::Info).pop("bob", &[1, 2], (20, 21)).lost_pop("carol", (22, 23)), &[]);
    broken(sent(Outcome::Info).pop("bob", &[1], (20, 21)).delete(2, (22, 23)), &[]);
    // Three messages in three sends have nothing to do with each other.
    let doubtful = |tale: Tale, body: u64| {
        let mut tale = tale;
        let send =
            |journal: &mut Journal| Call::Send(Send::new(journal.name("q"), Body::of(&body.to_le_bytes())));
        tale.tell("alice", (0, 1), send, |_| Outcome::Info);
        tale
    };
    broken(doubtful(doubtful(Tale::new(), 1), 2).pop("bob", &[1], (20, 21)), &[]);
    // A message that was seen is stored, even if its send has an unknown outcome.
    broken(doubtful(Tale::new(), 1).peek(1, 0, (20, 21)), &[Rule::A]);
    broken(doubtful(Tale::new(), 1).lease(1, 1, (20, 21)), &[Rule::A]);
    broken(doubtful(Tale::new(), 1).peek(1, 0, (20, 21)).lost_pop("carol", (22, 23)), &[]);
    breaks(&doubtful(Tale::new(), 1).lease(1, 1, (20, 21)).end_with(&[(1, 1)]), &[]);
}

#[test]
fn a_message_is_away_only_with_its_last_holder_and_until_it_is_given_back() {
    // The lease of the pop would last until after the drain, and so would that of the first delivery.
    let long = 2_000;
    let leased = |tale: Tale, deliveries, times| {
        let pop =
            |journal: &mut Journal| Call::Pop(Select { lease_ms: long, ..Select::queue(journal.name("q")) });
        tale.read(times, pop, |_, message| {
            message.deliveries = deliveries;
            message.receipt = Some(tale::receipt(deliveries));
        })
    };
    let sent = || leased(Tale::new().send(1, (0, 1)), 1, (2, 3));
    broken(sent(), &[]);
    broken(sent().hold(nack(1, 0), Outcome::Info, (4, 5)), &[]);
    broken(sent().hold(nack(1, long), counted(1), (4, 5)), &[]);
    broken(sent().hold(nack(1, 20), counted(1), (4, 5)), &[Rule::A]);
    let again = || sent().hold(nack(1, 0), counted(1), (4, 5));
    broken(again(), &[Rule::A]);
    broken(leased(again(), 2, (6, 7)), &[]);
    broken(again().lease(1, 2, (6, 7)), &[Rule::A]);
    // The first return has an unknown outcome, but the second delivery shows that it took effect.
    let unknown = sent().hold(nack(1, 0), Outcome::Info, (4, 5));
    broken(unknown.lease(1, 2, (20, 21)), &[Rule::A]);
}

#[test]
fn each_lost_answer_explains_what_it_can_have_been_and_moves_up_for_others() {
    let early = |tale: Tale| tale.lost_pop("bob", (0, 3));
    let late = |tale: Tale| tale.lost_pop("bob", (100, 103));
    let two = || Tale::new().send(1, (0, 1)).send(2, (50, 51));
    broken(late(early(two())), &[]);
    broken(early(late(two())), &[]);
    broken(late(late(two())), &[]);
    broken(early(early(two())), &[Rule::A]);
    // The first message must leave the pop of any queue to the second.
    let anywhere = |mut tale: Tale| {
        let select =
            |journal: &mut Journal| Select { from: Some(journal.name("alice")), ..Select::default() };
        tale.tell("bob", (100, 103), |journal| Call::Pop(select(journal)), |_| Outcome::Info);
        tale
    };
    broken(early(anywhere(two())), &[]);
    broken(anywhere(early(two())), &[]);
    broken(anywhere(early(two().send(3, (52, 53)))), &[Rule::A]);
}

#[test]
fn a_lease_is_held_by_one_at_a_time() {
    let tale = |second: (Time, Time)| {
        let tale = Tale::new().send(1, (0, 5)).lease(1, 1, (10, 20)).lease(1, 2, second);
        tale.hold(ack(2), counted(1), (second.1 + 1, second.1 + 10))
    };
    broken(tale((5 * MS, 6 * MS)), &[Rule::C]);
    broken(tale((5 * MS, 11 * MS)), &[]);
}

#[test]
fn what_is_done_with_a_lease_counts_in_time_and_only_then() {
    let leased = || Tale::new().send(1, (0, 1)).lease(1, 1, (2, 3));
    let taken = |tale: Tale| {
        tale.pops("carol", (40 * MS, 41 * MS), |journal| {
            Outcome::Ok(Answer::Messages(
                [Delivery { deliveries: 2, ..delivery(journal, 1, "alice", None) }].into(),
            ))
        })
    };
    for call in [ack(1), nack(1, 0), extend(1, 20)] {
        broken(taken(leased().hold(call.clone(), counted(0), (4, 7 * MS))), &[Rule::C]);
        broken(taken(leased().hold(call.clone(), counted(0), (4, 9 * MS))), &[]);
    }
    for call in [nack(1, 0), extend(1, 20)] {
        // The lease was over at 10 ms.
        broken(taken(leased().hold(call.clone(), counted(1), (10 * MS + 13, 11 * MS))), &[]);
        broken(taken(leased().hold(call.clone(), counted(1), (10 * MS + 14, 11 * MS))), &[Rule::C]);
        // The message was with another client.
        broken(taken(leased()).hold(call, counted(1), (41 * MS + 1, 42 * MS)), &[Rule::C]);
    }
    // An extension moves the end, whether it counted for certain or not.
    for outcome in [counted(1), Outcome::Info] {
        let extended = leased().hold(extend(1, 30), outcome, (4, 5));
        broken(taken(extended.hold(nack(1, 0), counted(1), (20 * MS, 21 * MS))), &[]);
    }
    for (first, second, rules) in [
        (nack(1, 0), ack(1), [Rule::C].as_slice()),
        (nack(1, 0), extend(1, 1), &[Rule::C]),
        (ack(1), nack(1, 0), &[Rule::C]),
        (ack(1), ack(1), &[Rule::C]),
        (extend(1, 1), ack(1), &[]),
    ] {
        let tale = leased().hold(first, counted(1), (4, 5)).hold(second, counted(1), (6, 7));
        let verdict = tale.end();
        let found: Vec<_> = Rule::ALL.into_iter().filter(|rule| verdict.broken(*rule) > 0).collect();
        assert!(
            rules.iter().all(|rule| found.contains(rule)) && (rules.is_empty() == found.is_empty()),
            "{verdict}"
        );
    }
}

#[test]
fn what_was_given_back_with_a_delay_is_away_until_then() {
    let given_back = |times| {
        let tale = Tale::new().send(1, (0, 1)).lease(1, 1, (2, 3)).hold(nack(1, 20), counted(1), (4, 5));
        tale.lease(1, 2, times).hold(ack(2), counted(1), (30 * MS, 31 * MS))
    };
    broken(given_back((16 * MS, 17 * MS)), &[Rule::C]);
    broken(given_back((16 * MS, 24 * MS)), &[]);
    // The holder may be told before that the lease is over.
    broken(given_back((25 * MS, 26 * MS)).hold(ack(1), counted(0), (6, 7)), &[]);
}

#[test]
fn what_comes_back_is_what_was_sent() {
    let came_back = |times, change: fn(&mut Journal, &mut Delivery)| {
        let pop = |journal: &mut Journal| {
            Call::Pop(Select { from: Some(journal.name("alice")), ..Select::default() })
        };
        Tale::new().send(1, (2, 5)).read(times, pop, change)
    };
    broken(came_back((0, 2), |_, _| ()), &[]);
    broken(came_back((0, 1), |_, _| ()), &[Rule::B]);
    let changes: [fn(&mut Journal, &mut Delivery); 6] = [
        |journal, message| message.queue = journal.name("other"),
        |journal, message| message.from = journal.name("mallory"),
        |journal, message| message.to = Some(journal.name("bob")),
        |_, message| message.priority = 1,
        |_, message| message.headers = fingerprint(b"header"),
        |_, message| message.id = 7,
    ];
    for change in changes {
        broken(came_back((10, 11), change), &[Rule::B]);
    }
}

#[test]
fn nobody_is_shown_what_they_did_not_ask_for() {
    let sent = |queue: &'static str, sender: &'static str, to: Option<&'static str>| {
        let mut tale = Tale::new();
        let send = |journal: &mut Journal| {
            let to = to.map(|to| journal.name(to));
            Call::Send(Send { to, ..Send::new(journal.name(queue), Body::of(&1_u64.to_le_bytes())) })
        };
        tale.tell(sender, (0, 1), send, |_| Outcome::Ok(Answer::Ids([1].into())));
        let shown = move |journal: &mut Journal, message: &mut Delivery| {
            message.queue = journal.name(queue);
            message.from = journal.name(sender);
            message.to = to.map(|to| journal.name(to));
        };
        move |select: fn(Name) -> Select| {
            tale.read((2, 3), |journal| Call::Pop(select(journal.name("q"))), shown)
        }
    };
    let plain: fn(Name) -> Select = Select::queue;
    broken(sent("q", "alice", None)(plain), &[]);
    broken(sent("other", "alice", None)(plain), &[Rule::D]);
    broken(sent("q", "alice", Some("carol"))(plain), &[Rule::D]);
    broken(sent("q", "alice", Some("bob"))(plain), &[]);
    broken(sent("q", "alice", Some("bob"))(|q| Select { broadcast: true, ..Select::queue(q) }), &[Rule::D]);
    broken(sent("q", "bob", None)(|q| Select { not_own: true, ..Select::queue(q) }), &[Rule::D]);
    let counted = |count, bodies: &'static [u64]| {
        let mut tale = Tale::new().send(1, (0, 1)).send(2, (2, 3)).send(3, (4, 5));
        let call = |journal: &mut Journal| Call::Pop(Select { count, ..Select::queue(journal.name("q")) });
        tale.tell("bob", (6, 7), call, |journal| tale::numbers(bodies, journal));
        breaks(
            &tale.end_with(if bodies.len() < 3 { &[(3, 0)] } else { &[] }),
            if bodies.len() as u32 > count { &[Rule::D] } else { &[] },
        );
    };
    counted(2, &[1, 2]);
    counted(3, &[1, 2]);
    counted(2, &[1, 2, 3]);
    // `q` is the name of no account.
    broken(sent("q", "bob", None)(|q| Select { from: Some(q), ..Select::queue(q) }), &[Rule::D]);
}

#[test]
fn what_was_taken_or_is_held_is_not_handed_out() {
    let again = |tale: Tale, deliveries, times| {
        tale.read(
            times,
            |journal| Call::Pop(Select::queue(journal.name("q"))),
            |_, message| message.deliveries = deliveries,
        )
    };
    let leased = || Tale::new().send(1, (0, 1)).lease(1, 1, (2, 3));
    broken(again(Tale::new().send(1, (0, 1)).pop("carol", &[1], (2, 3)), 2, (4, 5)), &[Rule::C]);
    broken(again(leased().hold(ack(1), counted(1), (4, 5)), 2, (6, 7)), &[Rule::C]);
    broken(again(leased(), 2, (20 * MS, 21 * MS)), &[]);
    broken(again(leased(), 1, (20 * MS, 21 * MS)), &[Rule::C]);
    // The lease may have been over at 8 ms, and certainly was at 10; a second delivery at 9 ms shows that it was over
    // then.
    for call in [ack(1), nack(1, 0), extend(1, 1)] {
        let taken = || again(leased(), 2, (9 * MS, 9 * MS + 1));
        broken(taken().hold(call.clone(), counted(0), (9 * MS + 2, 9 * MS + 3)), &[]);
        broken(taken().hold(call, counted(1), (9 * MS + 2, 9 * MS + 3)), &[Rule::C]);
    }
    breaks(&Tale::new().send(1, (0, 1)).pop("bob", &[1], (2, 3)).end_with(&[(1, 1)]), &[Rule::C]);
    breaks(&Tale::new().send(1, (0, 1)).end_with(&[(1, 0)]), &[]);
    breaks(&Tale::new().send(1, (0, 1)).end_with(&[(1, 1)]), &[Rule::C]);
}

#[test]
fn a_send_repeated_under_its_key_is_one_message() {
    let attempts = |first: Outcome, second: Outcome| {
        let mut tale = Tale::new();
        for (outcome, times) in [(first, (0, 1)), (second, (2, 3))] {
            let send = |journal: &mut Journal| {
                let send = Send::new(journal.name("q"), Body::of(&1_u64.to_le_bytes()));
                Call::Send(Send { key: fingerprint(b"key"), ..send })
            };
            tale.tell("alice", times, send, |_| outcome);
        }
        tale
    };
    let id = |id: u64| Outcome::Ok(Answer::Ids([id].into()));
    let popped = |tale: Tale, id| {
        tale.read(
            (20, 21),
            |journal| Call::Pop(Select::queue(journal.name("q"))),
            |_, message| message.id = id,
        )
    };
    broken(popped(attempts(id(1), id(1)), 1), &[]);
    broken(popped(attempts(id(1), id(2)), 1), &[Rule::G]);
    broken(popped(attempts(Outcome::Info, Outcome::Info), 1), &[]);
    broken(popped(popped(attempts(Outcome::Info, Outcome::Info), 1), 2), &[Rule::G]);
    broken(popped(attempts(Outcome::Fail, Outcome::Info), 1), &[]);
    broken(popped(attempts(Outcome::Fail, Outcome::Fail), 1), &[Rule::G]);
}

#[test]
fn what_was_sent_once_is_not_left_twice() {
    let left = |ids: &[u64]| {
        let mut tale = Tale::new();
        let send =
            |journal: &mut Journal| Call::Send(Send::new(journal.name("q"), Body::of(&1_u64.to_le_bytes())));
        tale.tell("alice", (0, 1), send, |_| Outcome::Info);
        let mut journal = Journal::new(1000, "drain");
        let queue = journal.name("q");
        let number = journal.begin(tale::END, Call::Browse { queue });
        let left = ids.iter().map(|id| Delivery {
            id: *id,
            deliveries: 0,
            ..delivery(&mut journal, 1, "alice", None)
        });
        let left = Outcome::Ok(Answer::Messages(left.collect()));
        journal.end(number, tale::END + 1, left);
        tale.history.drain(&journal);
        posthaste_history::check(&tale.history)
    };
    breaks(&left(&[]), &[]);
    breaks(&left(&[1]), &[]);
    breaks(&left(&[1, 2]), &[Rule::G]);
}

/// Ends a tale with a drain that finds message 1 in these queues one after the other, as a dead letter in `dead`, and
/// judges it.
fn left_in(mut tale: Tale, browsed: &[&str]) -> Verdict {
    for (queue, begin) in browsed.iter().zip((tale::END..).step_by(10)) {
        let mut journal = Journal::new(1000 + begin as u32, "drain");
        let name = journal.name(queue);
        let number = journal.begin(begin, Call::Browse { queue: name });
        let first_queue = (*queue == "dead").then(|| journal.name("q"));
        let message =
            Delivery { queue: name, first_queue, deliveries: 0, ..delivery(&mut journal, 1, "alice", None) };
        journal.end(number, begin + 1, Outcome::Ok(Answer::Messages([message].into())));
        tale.history.drain(&journal);
    }
    posthaste_history::check(&tale.history)
}

#[test]
fn a_dead_letter_is_not_left_in_its_own_queue_too() {
    let left = |browsed: &[&str]| left_in(Tale::new().send(1, (0, 1)), browsed);
    breaks(&left(&["dead", "dead"]), &[]);
    breaks(&left(&["q", "q"]), &[]);
    // The message may have become a dead letter in between, when its lease ended.
    breaks(&left(&["q", "dead"]), &[]);
    breaks(&left(&["dead", "q"]), &[Rule::C]);
    breaks(&left(&["q", "dead", "q", "dead", "q"]), &[Rule::C]);
}

#[test]
fn a_dead_letter_has_left_its_own_queue_since_a_time_that_nobody_saw() {
    let leased = || Tale::new().send(1, (0, 1)).lease(1, 1, (2, 3)).hold(nack(1, 0), counted(1), (4, 5));
    for (depth, rules) in [(0, &[][..]), (1, &[]), (2, &[Rule::H])] {
        breaks(&left_in(leased().depth(depth, (50, 51)), &["dead"]), rules);
    }
    // What was left in its own queue was there all the while.
    breaks(&left_in(leased().depth(0, (50, 51)), &["q"]), &[Rule::H]);
    // A pop whose answer was lost had it, and nobody saw since when it was a dead letter.
    let unseen = || {
        let tale = Tale::new().send(1, (0, 1)).lost_pop("carol", (2, 3));
        tale.pops("bob", (50, 51), |journal| numbers(&[], journal))
    };
    breaks(&left_in(unseen(), &["dead"]), &[]);
    breaks(&left_in(unseen(), &["q"]), &[Rule::F]);
    let popped = |queue: &'static str| {
        let call = |journal: &mut Journal| Call::Pop(Select::queue(journal.name(queue)));
        unseen().read((60, 61), call, |journal, message| {
            message.queue = journal.name(queue);
            message.first_queue = (queue == "dead").then(|| journal.name("q"));
        })
    };
    broken(popped("dead"), &[]);
    broken(popped("q"), &[Rule::F]);
}

#[test]
fn no_answer_shows_a_message_twice() {
    let peeked = |bodies: &'static [u64]| {
        let mut tale = Tale::new().send(1, (0, 1)).send(2, (2, 3));
        let peek =
            |journal: &mut Journal| Call::Peek(Select { count: 3, ..Select::queue(journal.name("q")) });
        tale.tell("bob", (4, 5), peek, |journal| {
            let shown = bodies
                .iter()
                .map(|body| Delivery { deliveries: 0, ..delivery(journal, *body, "alice", None) });
            Outcome::Ok(Answer::Messages(shown.collect()))
        });
        tale.pop("bob", &[1, 2], (6, 7))
    };
    broken(peeked(&[1, 2]), &[]);
    broken(peeked(&[1, 2, 1]), &[Rule::C, Rule::E]);
    broken(peeked(&[1, 1]), &[Rule::C]);
    breaks(&Tale::new().send(1, (0, 1)).end_with(&[(1, 0), (1, 0)]), &[Rule::C]);
}

#[test]
fn a_pop_asked_again_is_not_told_that_there_is_nothing() {
    let first = || Tale::new().send(1, (0, 1)).keyed(&[1], (2, 9));
    broken(first().keyed(&[1], (10, 11)), &[]);
    // The repeated pop must not be given the second message, so rule A counts that as lost.
    let another = || first().send(2, (0, 1)).keyed(&[2], (10, 11));
    broken(another(), &[Rule::A, Rule::C]);
    let mut beginning = another();
    beginning.history.cut(100);
    broken(beginning, &[Rule::C]);
    broken(first().keyed(&[], (9, 11)), &[]);
    broken(first().keyed(&[], (10, 11)), &[Rule::C]);
    // Keys go with their queue.
    broken(first().delete(0, (5, 10)).keyed(&[], (11, 12)), &[Rule::I]);
}

#[test]
fn a_pop_of_all_queues_asked_again_is_not_told_that_there_is_nothing() {
    let keyed = |mut tale: Tale, bodies: &[u64], times| {
        let pop = |journal: &mut Journal| {
            let from = Some(journal.name("alice"));
            Call::Pop(Select { from, key: fingerprint(b"key"), ..Select::default() })
        };
        tale.tell("bob", times, pop, |journal| tale::numbers(bodies, journal));
        tale
    };
    let first = || keyed(Tale::new().send(1, (0, 1)), &[1], (2, 9));
    broken(keyed(first(), &[1], (10, 11)), &[]);
    broken(keyed(first(), &[], (9, 11)), &[]);
    broken(keyed(first(), &[], (10, 11)), &[Rule::C]);
    // The same `REQID` with a queue is another key.
    broken(first().keyed(&[], (10, 11)), &[]);
    // Keys go with the queue of the messages that were given.
    broken(keyed(first().delete(0, (9, 10)), &[], (11, 12)), &[]);
    broken(keyed(first().delete(0, (9, 10)), &[], (8, 12)), &[]);
}
