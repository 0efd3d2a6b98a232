//! The twelve-step workload: the one place that states it, but for the peers that pgbench drives
//! (`benches/side_by_side/sql/twelve_step.pgbench`).
//!
//! Every feature at least once, weight on sending and reading, some contention on queue `1`, no error
//! expected, and the store neither fills nor drains: each loop removes as many messages as it sends.

use crate::dialogue::Outcome;
use crate::queue::program::{Ask, Expect};
use crate::queue::request::{Account, Queue, Read, Request};

/// The queue all clients share.
pub const SHARED_QUEUE: Queue = 1;

/// Steps of one loop.
pub const STEPS: u8 = 12;

/// Returns what client `c` asks in a step (1 to 12); `own` is the queue made in step 7.
#[must_use]
pub const fn request(step: u8, c: Account, own: Queue) -> Request {
    match step {
        1 => Request::Send { queue: SHARED_QUEUE, to: None },
        2 => read(false, Some(SHARED_QUEUE), None),
        3 => read(true, Some(SHARED_QUEUE), None),
        4 => Request::Send { queue: SHARED_QUEUE, to: Some(c) },
        5 => read(false, Some(SHARED_QUEUE), Some(c)),
        6 => read(true, Some(SHARED_QUEUE), Some(c)),
        7 => Request::Create,
        8 => Request::Send { queue: own, to: None },
        9 => Request::Readable,
        10 => read(false, None, Some(c)),
        11 => read(true, Some(own), None),
        _ => Request::Delete { queue: own },
    }
}

const fn read(remove: bool, queue: Option<Queue>, from: Option<Account>) -> Request {
    Request::Read(Read { remove, queue, from, broadcast: false })
}

/// One client's place in the loop. It waits for each answer: step 8 needs that of step 7.
#[derive(Clone, Debug)]
pub struct TwelveStep {
    client: Account,
    /// Whether the client is in no other loop, whose step 3 could take what step 4 sends.
    alone: bool,
    /// The step at which it begins, and rests.
    first: u8,
    step: u8,
    waiting: bool,
    own: Queue,
    /// Queues made and not deleted: beside the own one those whose deletion was refused, or has no answer.
    made: Vec<Queue>,
    /// Whether step 4 was acknowledged: then steps 5 and 6 of a client's only loop find a message, as nobody else may
    /// take it.
    sent_to_self: bool,
    /// Whether step 8 was acknowledged: then steps 9 to 11 find its message, as no other client knows the queue.
    sent_to_own: bool,
}

impl TwelveStep {
    /// Creates the loop of one client, at its beginning; `alone`: the client's only one.
    #[must_use]
    pub const fn new(client: Account, alone: bool) -> Self {
        let made = Vec::new();
        Self {
            client,
            alone,
            first: 1,
            step: 1,
            waiting: false,
            own: 0,
            made,
            sent_to_self: false,
            sent_to_own: false,
        }
    }

    /// Returns the loop beginning at another step, one that does not depend on those before.
    #[must_use]
    pub fn beginning_at(self, step: u8) -> Self {
        Self { first: step, step, ..self }
    }

    /// Returns the next step, once the one before is answered.
    pub fn next_ask(&mut self) -> Option<Ask> {
        if self.waiting {
            return None;
        }
        self.waiting = true;
        let request = request(self.step, self.client, self.own);
        Some(Ask { request, step: self.step, expect: self.expect() })
    }

    fn expect(&self) -> Expect {
        match self.step {
            5 | 6 if self.sent_to_self && self.alone => Expect::Found,
            9 if self.sent_to_own => Expect::Lists(self.own),
            10 | 11 if self.sent_to_own => Expect::Found,
            _ => Expect::Any,
        }
    }

    /// Takes the answer to the step asked last; `number` is that of an integer answer.
    pub fn answered(&mut self, outcome: Outcome, number: Option<i64>) {
        self.waiting = false;
        let done = outcome == Outcome::Ok;
        match self.step {
            4 => self.sent_to_self = done,
            7 => match number.and_then(|n| Queue::try_from(n).ok()) {
                Some(queue) if done => {
                    self.own = queue;
                    self.made.push(queue);
                }
                // Without a queue of its own the client has nothing for the other steps.
                _ => {
                    self.step = 1;
                    return;
                }
            },
            8 => self.sent_to_own = done,
            12 if done => {
                self.made.pop();
            }
            _ => {}
        }
        self.step = if self.step == STEPS { 1 } else { self.step + 1 };
    }

    /// Returns whether a loop has ended and the next not begun.
    #[must_use]
    pub const fn is_at_rest(&self) -> bool {
        self.step == self.first && !self.waiting
    }

    /// Returns the queues that it made and that, as far as it knows, still exist.
    #[must_use]
    pub fn leftovers(&self) -> &[Queue] {
        &self.made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A loop as words, `b` standing for the body, with 31 as the id of the new queue.
    fn loop_of(client: Account) -> Vec<String> {
        let mut steps = TwelveStep::new(client, true);
        let mut lines = Vec::new();
        for _ in 0..STEPS {
            let ask = steps.next_ask().expect("a step");
            assert_eq!(steps.next_ask(), None, "the answer comes first");
            let mut bytes = Vec::new();
            ask.request.encode(b"b", &mut bytes);
            lines.push(
                String::from_utf8(bytes)
                    .expect("text")
                    .split("\r\n")
                    .filter(|w| !w.is_empty() && !w.starts_with(['*', '$']))
                    .collect::<Vec<_>>()
                    .join(" "),
            );
            steps.answered(Outcome::Ok, Some(31));
        }
        assert!(steps.is_at_rest());
        lines
    }

    #[test]
    fn the_twelve_requests_are_those_of_the_reports() {
        assert_eq!(
            loop_of(5),
            [
                "SEND 1 b",
                "PEEK QUEUE 1",
                "POP QUEUE 1",
                "SEND 1 b TO 5",
                "PEEK QUEUE 1 FROM 5",
                "POP QUEUE 1 FROM 5",
                "QCREATE",
                "SEND 31 b",
                "QREADABLE",
                "PEEK FROM 5",
                "POP QUEUE 31",
                "QDELETE 31",
            ]
        );
    }

    #[test]
    fn a_queue_whose_deletion_fails_is_left_over_though_others_follow() {
        let mut steps = TwelveStep::new(1, true);
        for (queue, deleted) in [(31, Outcome::Error), (32, Outcome::Ok), (33, Outcome::Ok)] {
            for step in 1..=STEPS {
                steps.next_ask().expect("a step");
                steps.answered(if step == STEPS { deleted } else { Outcome::Ok }, Some(queue));
            }
            assert_eq!(steps.leftovers(), [31]);
        }
    }

    #[test]
    fn only_steps_2_and_3_may_find_nothing() {
        let mut steps = TwelveStep::new(1, true);
        for step in 1..=STEPS {
            let ask = steps.next_ask().expect("a step");
            let expect = match step {
                5 | 6 | 10 | 11 => Expect::Found,
                9 => Expect::Lists(8),
                _ => Expect::Any,
            };
            assert_eq!((ask.step, ask.expect), (step, expect));
            steps.answered(Outcome::Ok, Some(8));
        }
    }

    #[test]
    fn a_refused_send_takes_the_expectation_away() {
        let mut steps = TwelveStep::new(1, true);
        for _ in 1..=STEPS {
            let ask = steps.next_ask().expect("a step");
            assert_eq!(ask.expect, Expect::Any);
            let refused = matches!(ask.request, Request::Send { .. });
            steps.answered(if refused { Outcome::Error } else { Outcome::Ok }, Some(8));
        }
    }

    #[test]
    fn a_refused_queue_ends_the_loop() {
        let mut steps = TwelveStep::new(1, true);
        for _ in 1..=6 {
            steps.next_ask();
            steps.answered(Outcome::Ok, Some(1));
        }
        steps.next_ask();
        steps.answered(Outcome::Error, None);
        assert!(steps.is_at_rest());
    }
}
