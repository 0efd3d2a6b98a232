//! Short sleeps that let answers of several servers come together, as network cards moderate their interrupts.
//!
//! Each server answers in its own time, so a thread with several is woken up for each of them, with few answers at a
//! time: few share the turn's cost, and the next gets leave in small commands, which cost the servers more too. Two
//! dozen microseconds later there would be answers of all. Replies of a single server come together without that.

use std::time::Duration;

/// A sleep is at most a response time divided by this, and response times grow by at most that.
const RESPONSE_TIME_SHARE: u64 = 8;

/// The shortest sleep: a shorter one is not worth its timer.
const SLEEP_NS_MIN: u64 = 8_000;

/// The longest sleep: by then enough answers have come.
const SLEEP_NS_MAX: u64 = 20_000;

/// A turn with this many answers shares its cost well enough without a sleep.
const ANSWERS_ENOUGH: u64 = 16;

/// Answers that a sleep must be expected to bring, in hundredths: the gain from a single one is lost where the router
/// shares its cores with other programs.
const ANSWERS_GAINED_PERCENT: u64 = 150;

/// The figures of a turn by which the sleep after it is chosen.
#[derive(Debug, Default)]
pub(super) struct Moderation {
    answers: u64,
    /// The shortest response time in this turn.
    quickest_ns: u64,
    /// The client of the last answer.
    last_client: Option<usize>,
    /// A client got several answers: it has several requests under way, which are answered together anyway.
    is_pipelined: bool,
}

impl Moderation {
    /// Notes that a client's request was answered in this turn, after this time.
    pub(super) fn note_answer(&mut self, client: Option<usize>, response_ns: u64) {
        self.is_pipelined |= client.is_some() && client == self.last_client;
        self.quickest_ns = if self.answers == 0 { response_ns } else { self.quickest_ns.min(response_ns) };
        self.answers += 1;
        self.last_client = client;
    }

    /// Ends the turn, in which `under_way` requests wait for several servers. Returns how long to sleep, if that pays.
    pub(super) fn end_turn(&mut self, under_way: usize) -> Option<Duration> {
        let turn = std::mem::take(self);
        let under_way = under_way as u64;
        if turn.is_pipelined || turn.answers >= ANSWERS_ENOUGH || turn.answers > under_way {
            return None;
        }
        let sleep_ns = (turn.quickest_ns / RESPONSE_TIME_SHARE).min(SLEEP_NS_MAX);
        // By Little's law, requests divided by response time are answered in a second.
        let pays = (under_way + turn.answers) * sleep_ns >= ANSWERS_GAINED_PERCENT * turn.quickest_ns / 100;
        (pays && sleep_ns >= SLEEP_NS_MIN).then(|| Duration::from_nanos(sleep_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(under_way: usize, answers: usize, response_us: u64) -> Option<u64> {
        let mut moderation = Moderation::default();
        (0..answers).for_each(|client| moderation.note_answer(Some(client), response_us * 1000));
        moderation.end_turn(under_way).map(|pause| pause.as_micros() as u64)
    }

    #[test]
    fn a_pause_is_a_small_part_of_a_response_time() {
        assert_eq!(pause(10, 5, 80), Some(10));
        assert_eq!(pause(10, 5, 63), None, "not worth it");
        assert_eq!(pause(60, 5, 800), Some(20));
    }

    #[test]
    fn there_is_none_that_brings_nothing() {
        assert_eq!(pause(0, 0, 80), None, "nothing is known");
        assert_eq!(pause(10, 1, 80), None, "too few");
        assert_eq!(pause(11, 1, 80), Some(10), "one and a half");
        assert_eq!(pause(54, 5, 800), None, "too few even in the longest");
        assert_eq!(pause(55, 5, 800), Some(20), "one and a half in the longest");
        assert_eq!(pause(9, 10, 80), None, "most have come");
        assert_eq!(pause(60, 16, 80), None, "many have come");
    }

    #[test]
    fn there_is_none_for_pipelined_requests() {
        let mut moderation = Moderation::default();
        for client in [1, 2, 2, 3] {
            moderation.note_answer(Some(client), 80_000);
        }
        assert_eq!(moderation.end_turn(20), None);
        // The next turn knows nothing of the last.
        moderation.note_answer(Some(3), 80_000);
        assert!(moderation.end_turn(20).is_some());
    }

    #[test]
    fn the_quickest_answer_of_the_turn_counts() {
        let mut moderation = Moderation::default();
        moderation.note_answer(Some(1), 96_000);
        moderation.note_answer(Some(2), 72_000);
        moderation.note_answer(Some(3), 120_000);
        assert_eq!(moderation.end_turn(20), Some(Duration::from_micros(9)));
    }
}
