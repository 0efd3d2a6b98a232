//! Several twelve-step loops of one client at once, as `--pipeline` has them. Each waits for its own answers; the
//! client asks for them in turn.

use std::collections::VecDeque;

use crate::dialogue::Outcome;
use crate::queue::program::Ask;
use crate::queue::request::{Account, Queue};
use crate::queue::twelve_step::TwelveStep;

/// Steps that do not depend on those before.
const BEGINNINGS: [u8; 3] = [1, 4, 7];

/// The loops of one client.
#[derive(Clone, Debug)]
pub struct Loops {
    loops: Vec<TwelveStep>,
    /// Index of the loop whose turn it is to ask.
    next: usize,
    /// Indices of the loops whose requests are under way, in the order of their answers.
    asked: VecDeque<usize>,
    finishing: bool,
}

impl Loops {
    /// Creates `count` loops of one client. They begin at different steps, or all would ask for the same at the same
    /// time.
    #[must_use]
    pub fn new(client: Account, count: usize) -> Self {
        let begins = BEGINNINGS.into_iter().cycle().take(count);
        let loops = begins.map(|step| TwelveStep::new(client, count == 1).beginning_at(step)).collect();
        Self { loops, next: 0, asked: VecDeque::new(), finishing: false }
    }

    /// Returns the next step of the next loop that does not wait for an answer; None if all of them do.
    pub fn next_ask(&mut self) -> Option<Ask> {
        for place in (self.next..self.loops.len()).chain(0..self.next) {
            let one = &mut self.loops[place];
            if self.finishing && one.is_at_rest() {
                continue;
            }
            if let Some(ask) = one.next_ask() {
                self.asked.push_back(place);
                self.next = (place + 1) % self.loops.len();
                return Some(ask);
            }
        }
        None
    }

    /// Takes the answer to the oldest request without one; `number` is that of an integer answer.
    pub fn answered(&mut self, outcome: Outcome, number: Option<i64>) {
        if let Some(place) = self.asked.pop_front() {
            self.loops[place].answered(outcome, number);
        }
    }

    /// Lets no loop begin again.
    pub const fn finish(&mut self) {
        self.finishing = true;
    }

    /// Returns whether all loops have ended and none has begun again.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.loops.iter().all(TwelveStep::is_at_rest)
    }

    /// Returns the queues that the loops made and that, as far as is known, still exist.
    #[must_use]
    pub fn leftovers(&self) -> Vec<Queue> {
        self.loops.iter().flat_map(TwelveStep::leftovers).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::queue::request::Request;
    use crate::queue::twelve_step::STEPS;

    /// Answers the oldest request of `asked` as an honest server would, new queues getting the next number.
    fn answer(loops: &mut Loops, asked: &mut VecDeque<Ask>, queues: &mut i64) {
        let ask = asked.pop_front().expect("a request under way");
        *queues += i64::from(ask.request == Request::Create);
        loops.answered(Outcome::Ok, Some(*queues));
    }

    #[test]
    fn loops_are_at_different_steps_and_each_keeps_to_its_own_queue() {
        let (mut loops, mut asked, mut queues) = (Loops::new(5, 4), VecDeque::new(), 30);
        let mut last_of_queue = BTreeMap::new();
        for _ in 0..200 {
            while let Some(ask) = loops.next_ask() {
                asked.push_back(ask);
                if let (8 | 12, Request::Send { queue, .. } | Request::Delete { queue }) =
                    (ask.step, ask.request)
                {
                    let before = last_of_queue.insert(queue, ask.step);
                    assert_eq!(before, (ask.step == 12).then_some(8), "queue {queue}");
                }
            }
            assert_eq!(asked.len(), 4, "as many in flight as there are loops");
            let steps: BTreeSet<_> = asked.iter().map(|ask| ask.step).collect();
            assert!(steps.len() >= 3, "{asked:?}");
            answer(&mut loops, &mut asked, &mut queues);
        }
        assert!(last_of_queue.len() > 10);
    }

    #[test]
    fn loops_that_finish_end_and_leave_nothing() {
        let (mut loops, mut asked, mut queues) = (Loops::new(5, 3), VecDeque::new(), 30);
        for _ in 0..50 {
            asked.extend(std::iter::from_fn(|| loops.next_ask()));
            answer(&mut loops, &mut asked, &mut queues);
        }
        assert!(!loops.is_at_rest() && !loops.leftovers().is_empty());
        loops.finish();
        let mut more = 0;
        while !asked.is_empty() {
            more += 1;
            answer(&mut loops, &mut asked, &mut queues);
            asked.extend(std::iter::from_fn(|| loops.next_ask()));
        }
        assert!(more <= 3 * usize::from(STEPS));
        assert!(loops.is_at_rest() && loops.leftovers().is_empty());
    }
}
