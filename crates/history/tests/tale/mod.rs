//! Small histories told operation by operation, and what is wrong with them.

#![allow(dead_code, reason = "each test program uses its own part of this")]

use posthaste_history::{
    Answer, Body, Call, Delivery, History, Journal, Key, Outcome, Rule, Select, Send, Time, Verdict, check,
    fingerprint,
};

pub(crate) const MS: Time = 1_000_000;

/// Time of the final drain.
pub(crate) const END: Time = 1_000 * MS;

/// A history of one queue, `q`, told operation by operation; every operation is a client of its own.
pub(crate) struct Tale {
    pub(crate) history: History,
    pub(crate) next: u32,
}

/// Bodies are numbers, and ids follow them.
pub(crate) fn delivery(journal: &mut Journal, body: u64, from: &str, to: Option<&str>) -> Delivery {
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

pub(crate) fn numbers(numbers: &[u64], journal: &mut Journal) -> Outcome {
    let messages = numbers.iter().map(|body| delivery(journal, *body, "alice", None)).collect();
    Outcome::Ok(Answer::Messages(messages))
}

impl Tale {
    pub(crate) fn new() -> Self {
        let mut history = History::with_limbo(10);
        history.timers_late = 10;
        Self { history, next: 0 }
    }

    pub(crate) fn tell(
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

    pub(crate) fn send(mut self, body: u64, times: (Time, Time)) -> Self {
        let call =
            |journal: &mut Journal| Call::Send(Send::new(journal.name("q"), Body::of(&body.to_le_bytes())));
        self.tell("alice", times, call, |_| Outcome::Ok(Answer::Ids([body].into())));
        self
    }

    pub(crate) fn send_to(mut self, body: u64, to: &str, times: (Time, Time)) -> Self {
        let call = |journal: &mut Journal| {
            let send = Send::new(journal.name("q"), Body::of(&body.to_le_bytes()));
            Call::Send(Send { to: Some(journal.name(to)), ..send })
        };
        self.tell("alice", times, call, |_| Outcome::Ok(Answer::Ids([body].into())));
        self
    }

    pub(crate) fn pop(mut self, reader: &str, bodies: &[u64], times: (Time, Time)) -> Self {
        let count = if bodies.len() > 1 { bodies.len() as u32 } else { 0 };
        let call = |journal: &mut Journal| Call::Pop(Select { count, ..Select::queue(journal.name("q")) });
        self.tell(reader, times, call, |journal| numbers(bodies, journal));
        self
    }

    pub(crate) fn lost_pop(self, reader: &str, times: (Time, Time)) -> Self {
        self.pops(reader, times, |_| Outcome::Info)
    }

    pub(crate) fn pops(
        mut self,
        reader: &str,
        times: (Time, Time),
        outcome: impl FnOnce(&mut Journal) -> Outcome,
    ) -> Self {
        self.tell(reader, times, |journal| Call::Pop(Select::queue(journal.name("q"))), outcome);
        self
    }

    pub(crate) fn depth(mut self, depth: u64, times: (Time, Time)) -> Self {
        let call = |journal: &mut Journal| Call::Info { queue: journal.name("q") };
        self.tell("alice", times, call, |_| Outcome::Ok(Answer::Depth(depth)));
        self
    }

    pub(crate) fn delete(mut self, messages: u64, times: (Time, Time)) -> Self {
        let call = |journal: &mut Journal| Call::Delete { queue: journal.name("q") };
        self.tell("alice", times, call, |_| Outcome::Ok(Answer::Number(messages)));
        self
    }

    pub(crate) fn lost_delete(mut self, times: (Time, Time)) -> Self {
        let call = |journal: &mut Journal| Call::Delete { queue: journal.name("q") };
        self.tell("alice", times, call, |_| Outcome::Info);
        self
    }

    pub(crate) fn send_with(
        mut self,
        body: u64,
        times: (Time, Time),
        options: impl FnOnce(Send) -> Send,
    ) -> Self {
        let send = |journal: &mut Journal| {
            Call::Send(options(Send::new(journal.name("q"), Body::of(&body.to_le_bytes()))))
        };
        self.tell("alice", times, send, |_| Outcome::Ok(Answer::Ids([body].into())));
        self
    }

    /// Adds a PEEK that shows a message which was handed out `deliveries` times.
    pub(crate) fn peek(mut self, body: u64, deliveries: u32, times: (Time, Time)) -> Self {
        let call = |journal: &mut Journal| Call::Peek(Select::queue(journal.name("q")));
        self.tell("bob", times, call, |journal| {
            let message = Delivery { deliveries, ..delivery(journal, body, "alice", None) };
            Outcome::Ok(Answer::Messages([message].into()))
        });
        self
    }

    /// Adds a POP that leases a message for 10 ms; the receipt is the number of the delivery.
    pub(crate) fn lease(mut self, body: u64, deliveries: u32, times: (Time, Time)) -> Self {
        let call =
            |journal: &mut Journal| Call::Pop(Select { lease_ms: 10, ..Select::queue(journal.name("q")) });
        self.tell("bob", times, call, |journal| {
            let receipt = Some(receipt(deliveries));
            let message = Delivery { deliveries, receipt, ..delivery(journal, body, "alice", None) };
            Outcome::Ok(Answer::Messages([message].into()))
        });
        self
    }

    /// Adds what the holder of a lease does.
    pub(crate) fn hold(mut self, call: Call, outcome: Outcome, times: (Time, Time)) -> Self {
        self.tell("bob", times, |_| call, |_| outcome);
        self
    }

    /// Adds a POP under a key.
    pub(crate) fn keyed(self, bodies: &[u64], times: (Time, Time)) -> Self {
        let mut tale = self;
        let call = |journal: &mut Journal| {
            Call::Pop(Select { key: fingerprint(b"key"), ..Select::queue(journal.name("q")) })
        };
        tale.tell("bob", times, call, |journal| numbers(bodies, journal));
        tale
    }

    /// Adds a read under conditions that is given a message.
    pub(crate) fn read(
        mut self,
        times: (Time, Time),
        call: impl FnOnce(&mut Journal) -> Call,
        change: impl FnOnce(&mut Journal, &mut Delivery),
    ) -> Self {
        self.tell("bob", times, call, |journal| {
            let mut message = delivery(journal, 1, "alice", None);
            change(journal, &mut message);
            Outcome::Ok(Answer::Messages([message].into()))
        });
        self
    }

    /// Ends the history with a drain that finds nothing, and judges it.
    pub(crate) fn end(self) -> Verdict {
        self.end_with(&[])
    }

    /// Ends the history with a drain that finds these bodies, each with its number of deliveries, and judges it.
    pub(crate) fn end_with(mut self, left: &[(u64, u32)]) -> Verdict {
        let mut journal = Journal::new(1000, "drain");
        let queue = journal.name("q");
        let number = journal.begin(END, Call::Browse { queue });
        let left = left.iter().map(|(body, deliveries)| Delivery {
            deliveries: *deliveries,
            ..delivery(&mut journal, *body, "alice", None)
        });
        let left = Outcome::Ok(Answer::Messages(left.collect()));
        journal.end(number, END + 1, left);
        self.history.drain(&journal);
        check(&self.history)
    }
}

pub(crate) fn receipt(deliveries: u32) -> Key {
    fingerprint(&deliveries.to_le_bytes()).expect("bytes")
}

pub(crate) fn ack(deliveries: u32) -> Call {
    Call::Ack { receipt: receipt(deliveries) }
}

pub(crate) fn nack(deliveries: u32, delay_ms: u64) -> Call {
    Call::Nack { receipt: receipt(deliveries), delay_ms }
}

pub(crate) fn extend(deliveries: u32, ms: u64) -> Call {
    Call::Extend { receipt: receipt(deliveries), ms }
}

pub(crate) fn counted(number: u64) -> Outcome {
    Outcome::Ok(Answer::Number(number))
}

#[track_caller]
pub(crate) fn broken(tale: Tale, rules: &[Rule]) {
    breaks(&tale.end(), rules);
}

#[track_caller]
pub(crate) fn breaks(verdict: &Verdict, rules: &[Rule]) {
    let found: Vec<_> = Rule::ALL.into_iter().filter(|rule| verdict.broken(*rule) > 0).collect();
    assert_eq!(found, rules, "{verdict}");
}
