//! Where a rule ends: small histories beside each other, of which one is valid and the next is not.

use posthaste_history::{
    Answer, Body, Call, Delivery, Ending, History, Journal, Kind, Outcome, Requests, Rule, Select, Send,
    Time, Verdict, check, fingerprint,
};

/// A history of one queue, `q`, told operation by operation; every operation is a client of its own.
struct Tale {
    history: History,
    next: u32,
}

/// Bodies are numbers, and ids follow them.
fn delivery(journal: &mut Journal, body: u64, from: &str, to: Option<&str>) -> Delivery {
    Delivery {
        id: body,
        queue: journal.name("q"),
        from: journal.name(from),
        to: to.map(|to| journal.name(to)),
        priority: 0,
        deliveries: 1,
        headers: None,
        body: Body::of(&body.to_le_bytes()),
        receipt: None,
        first_queue: None,
    }
}

fn numbers(numbers: &[u64], journal: &mut Journal) -> Outcome {
    let messages = numbers.iter().map(|body| delivery(journal, *body, "alice", None)).collect();
    Outcome::Ok(Answer::Messages(messages))
}

impl Tale {
    fn new() -> Self {
        Self { history: History::with_limbo(10), next: 0 }
    }

    fn tell(
        &mut self,
        account: &str,
        (begin, end): (Time, Time),
        call: impl FnOnce(&mut Journal) -> Call,
        outcome: impl FnOnce(&mut Journal) -> Outcome,
    ) {
        let mut journal = Journal::new(self.next, account);
        self.next += 1;
        let call = call(&mut journal);
        let number = journal.begin(begin, call);
        let outcome = outcome(&mut journal);
        journal.end(number, end, outcome);
        self.history.add(&journal);
    }

    fn send(mut self, body: u64, times: (Time, Time)) -> Self {
        let call =
            |journal: &mut Journal| Call::Send(Send::new(journal.name("q"), Body::of(&body.to_le_bytes())));
        self.tell("alice", times, call, |_| Outcome::Ok(Answer::Ids([body].into())));
        self
    }

    fn send_to(mut self, body: u64, to: &str, times: (Time, Time)) -> Self {
        let call = |journal: &mut Journal| {
            let send = Send::new(journal.name("q"), Body::of(&body.to_le_bytes()));
            Call::Send(Send { to: Some(journal.name(to)), ..send })
        };
        self.tell("alice", times, call, |_| Outcome::Ok(Answer::Ids([body].into())));
        self
    }

    fn pop(self, reader: &str, bodies: &[u64], times: (Time, Time)) -> Self {
        self.pops(reader, times, |journal| numbers(bodies, journal))
    }

    fn lost_pop(self, reader: &str, times: (Time, Time)) -> Self {
        self.pops(reader, times, |_| Outcome::Info)
    }

    fn pops(
        mut self,
        reader: &str,
        times: (Time, Time),
        outcome: impl FnOnce(&mut Journal) -> Outcome,
    ) -> Self {
        self.tell(reader, times, |journal| Call::Pop(Select::queue(journal.name("q"))), outcome);
        self
    }

    fn depth(mut self, depth: u64, times: (Time, Time)) -> Self {
        let call = |journal: &mut Journal| Call::Info { queue: journal.name("q") };
        self.tell("alice", times, call, |_| Outcome::Ok(Answer::Depth(depth)));
        self
    }

    fn delete(mut self, messages: u64, times: (Time, Time)) -> Self {
        let call = |journal: &mut Journal| Call::Delete { queue: journal.name("q") };
        self.tell("alice", times, call, |_| Outcome::Ok(Answer::Number(messages)));
        self
    }

    fn lost_delete(mut self, times: (Time, Time)) -> Self {
        let call = |journal: &mut Journal| Call::Delete { queue: journal.name("q") };
        self.tell("alice", times, call, |_| Outcome::Info);
        self
    }

    /// Nothing is left.
    fn end(mut self) -> Verdict {
        let mut journal = Journal::new(1000, "drain");
        let queue = journal.name("q");
        let number = journal.begin(1_000_000, Call::Browse { queue });
        journal.end(number, 1_000_001, Outcome::Ok(Answer::Messages([].into())));
        self.history.drain(&journal);
        check(&self.history)
    }
}

#[track_caller]
fn broken(tale: Tale, rules: &[Rule]) {
    let verdict = tale.end();
    let found: Vec<_> = Rule::ALL.into_iter().filter(|rule| verdict.broken(*rule) > 0).collect();
    assert_eq!(found, rules, "{verdict}");
}

#[test]
fn a_missing_message_is_explained_by_what_can_have_taken_it_and_by_nothing_else() {
    let sent = || Tale::new().send(1, (0, 1)).send_to(2, "bob", (2, 3));
    broken(sent(), &[Rule::A]);
    broken(sent().lost_pop("bob", (10, 11)), &[Rule::A]);
    broken(sent().lost_pop("carol", (10, 11)).lost_pop("dave", (10, 11)), &[Rule::A]);
    // Bob's pop must be kept for what is to bob, whichever is explained first.
    broken(sent().lost_pop("bob", (10, 11)).lost_pop("carol", (10, 11)), &[]);
    broken(sent().delete(2, (10, 11)), &[]);
    broken(sent().delete(1, (10, 11)), &[Rule::A]);
    // It had ended before anything was sent.
    broken(Tale::new().delete(1, (0, 1)).send(1, (2, 3)), &[Rule::A, Rule::I]);
}

#[test]
fn what_was_given_up_may_still_happen_for_ten_more() {
    let tale = |times| Tale::new().lost_delete((6, 7)).send(1, times);
    broken(tale((17, 18)), &[]);
    broken(tale((18, 19)), &[Rule::A]);
}

#[test]
fn only_sends_that_were_apart_have_an_order() {
    let popped = |tale: Tale| tale.pop("bob", &[2], (20, 21)).pop("bob", &[1], (22, 23));
    broken(popped(Tale::new().send(1, (0, 5)).send(2, (6, 7))), &[Rule::E]);
    broken(popped(Tale::new().send(1, (0, 5)).send(2, (5, 7))), &[]);
    // Somebody was about to take the first while the second was taken.
    let raced = Tale::new().send(1, (0, 5)).send(2, (6, 7)).pop("bob", &[2], (20, 30));
    broken(raced.pop("carol", &[1], (29, 40)), &[]);
    let told = Tale::new().send(1, (0, 5)).send(2, (6, 7));
    broken(told.pops("bob", (20, 21), |journal| numbers(&[2, 1], journal)), &[Rule::E]);
}

#[test]
fn a_null_is_judged_only_where_a_message_stood_all_the_while() {
    let popped = |tale: Tale| tale.pop("bob", &[1], (50, 60));
    broken(popped(Tale::new().send(1, (0, 5)).pop("bob", &[], (6, 49))), &[Rule::F]);
    broken(popped(Tale::new().send(1, (0, 5)).pop("bob", &[], (5, 49))), &[]);
    broken(popped(Tale::new().send(1, (0, 5)).pop("bob", &[], (6, 50))), &[]);
    // For ten more after a pop was lost it may have held the message.
    broken(popped(Tale::new().send(1, (0, 5)).lost_pop("dave", (6, 7)).pop("bob", &[], (17, 20))), &[]);
    broken(
        popped(Tale::new().send(1, (0, 5)).lost_pop("dave", (6, 7)).pop("bob", &[], (18, 20))),
        &[Rule::F],
    );
    let to_carol = Tale::new().send_to(1, "carol", (0, 5)).pop("bob", &[], (6, 7));
    let to = |journal: &mut Journal| {
        Outcome::Ok(Answer::Messages([delivery(journal, 1, "alice", Some("carol"))].into()))
    };
    broken(to_carol.pops("carol", (50, 60), to), &[]);
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
}

#[test]
fn a_lease_is_held_by_one_at_a_time() {
    let ms = 1_000_000;
    let tale = |second: (Time, Time)| {
        let mut tale = Tale::new().send(1, (0, 5));
        for (deliveries, times) in [(1, (10, 20)), (2, second)] {
            let call = |journal: &mut Journal| {
                Call::Pop(Select { lease_ms: 10, ..Select::queue(journal.name("q")) })
            };
            tale.tell("bob", times, call, |journal| {
                let receipt = fingerprint(&[deliveries as u8]);
                let message = Delivery { deliveries, receipt, ..delivery(journal, 1, "alice", None) };
                Outcome::Ok(Answer::Messages([message].into()))
            });
        }
        let receipt = fingerprint(&[2]).expect("bytes");
        let end = second.1 + 10;
        tale.tell("bob", (second.1 + 1, end), |_| Call::Ack { receipt }, |_| Outcome::Ok(Answer::Number(1)));
        tale
    };
    broken(tale((5 * ms, 6 * ms)), &[Rule::C]);
    broken(tale((5 * ms, 11 * ms)), &[]);
}

#[test]
fn counted_requests_are_those_that_were_answered() {
    for (counted, rules) in [(0, [Rule::H].as_slice()), (1, &[]), (2, &[Rule::H])] {
        let mut tale = Tale::new().send(1, (0, 5)).pop("bob", &[1], (6, 7));
        tale.history.count(Requests { kind: Kind::Send, ending: Ending::Ok, counted });
        broken(tale, rules);
    }
}
