//! Keeps the number of messages what it was, whatever a mix draws: `--constant-size`.
//!
//! Equal shares of sends and pops are not enough: drawn at random, their difference wanders off with the square root of
//! the number of requests, and a pop that finds nothing makes up for no send. So a client remembers where it has put
//! one message more than it took, or taken one more than it put, and its next send or pop, whichever is drawn, makes up
//! for that first. Each client is off by no more than its requests under way.

use std::collections::VecDeque;

use crate::dialogue::Outcome;
use crate::queue::request::Queue;

/// One client's account of what it put and took.
#[derive(Clone, Debug, Default)]
pub struct Balance {
    /// Queues where a message was put and none taken for it yet.
    ahead: VecDeque<Queue>,
    /// Queues where a message was taken and none put for it yet.
    behind: VecDeque<Queue>,
    under_way: VecDeque<Move>,
}

/// A message put, or one taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Whether the message is put, not taken.
    pub puts: bool,
    /// The queue that it is put to or taken from.
    pub queue: Queue,
    /// Whether it makes up for an earlier move, or is made up for by the other half of its pair.
    owed: bool,
}

impl Balance {
    /// Returns what the client does when a send (`puts`) or a removing read on `queue` was drawn.
    pub fn next(&mut self, puts: bool, queue: Queue) -> Move {
        let next = if let Some(queue) = self.ahead.pop_front() {
            Move { puts: false, queue, owed: true }
        } else if let Some(queue) = self.behind.pop_front() {
            Move { puts: true, queue, owed: true }
        } else {
            Move { puts, queue, owed: false }
        };
        self.under_way.push_back(next);
        next
    }

    /// Notes half of a pair: a move that the other half makes up for.
    pub fn paired(&mut self, puts: bool, queue: Queue) {
        self.under_way.push_back(Move { puts, queue, owed: true });
    }

    /// Takes the answer to the oldest move without one.
    pub fn answered(&mut self, outcome: Outcome) {
        let Some(Move { puts, queue, owed }) = self.under_way.pop_front() else { return };
        match (outcome == Outcome::Ok, owed) {
            (true, false) if puts => self.ahead.push_back(queue),
            (true, false) => self.behind.push_back(queue),
            (false, true) if puts => self.behind.push_back(queue),
            (false, true) => self.ahead.push_back(queue),
            (true, true) | (false, false) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;

    #[test]
    fn the_number_of_messages_stays_what_it_was_whatever_is_drawn() {
        const CLIENTS: usize = 10;
        let mut rng = Rng::with_seed(5);
        let mut clients = vec![Balance::default(); CLIENTS];
        let mut queues = [3_i64; 4];
        for _ in 0..100_000 {
            let client = &mut clients[rng.usize(..CLIENTS)];
            let Move { puts, queue, .. } = client.next(rng.bool(), rng.u64(..4));
            let messages = &mut queues[queue as usize];
            let outcome = match (puts, *messages, rng.u8(..100)) {
                (.., 0) => Outcome::Error,
                (false, 0, _) => Outcome::Null,
                (true, ..) => {
                    *messages += 1;
                    Outcome::Ok
                }
                (false, ..) => {
                    *messages -= 1;
                    Outcome::Ok
                }
            };
            client.answered(outcome);
            let all: i64 = queues.iter().sum();
            assert!((all - 12).abs() <= CLIENTS as i64, "{queues:?}");
        }
    }

    #[test]
    fn what_found_nothing_is_tried_again() {
        let mut balance = Balance::default();
        assert!(balance.next(true, 7).puts);
        balance.answered(Outcome::Ok);
        for outcome in [Outcome::Null, Outcome::Error, Outcome::Ok] {
            let Move { puts, queue, .. } = balance.next(true, 1);
            assert_eq!((puts, queue), (false, 7), "it owes a pop");
            balance.answered(outcome);
        }
        assert_eq!(balance.next(true, 1).queue, 1, "all is made up for");
    }
}
