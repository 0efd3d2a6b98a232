//! Six stamps per request and the durations between them.
//!
//! ```text
//! received -parse- enqueued -waiting- dequeued -dispatch- sent -service- answered -reply- replied
//! |<----------------------------------- response -------------------------------------------->|
//! ```
//!
//! The five stages add up to the response time exactly, whatever the stamps hold. Not every request passes
//! every station (PING needs no store, BUSY never waits): a stamp not taken is 0 and counts as taken together
//! with the one before it, so its stage is empty and the time falls into the next stage that was stamped.

/// When a request passed each station, in nanoseconds of [`Clock`](crate::Clock); 0 is "did not pass".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    /// The whole request was there. Always taken.
    pub received: u64,
    /// It entered the waiting line.
    pub enqueued: u64,
    /// A worker took it from the line.
    pub dequeued: u64,
    /// It was handed to the backend.
    pub sent: u64,
    /// All of the backend's answers were there.
    pub answered: u64,
    /// Its answer was handed to the network. Always taken.
    pub replied: u64,
}

impl Stamps {
    /// Nanoseconds from arrival to the waiting line.
    #[inline]
    #[must_use]
    pub fn parse(&self) -> u64 {
        self.stages()[0]
    }

    /// Nanoseconds in the waiting line.
    #[inline]
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.stages()[1]
    }

    /// Nanoseconds from the waiting line to the backend: the batch is put together.
    #[inline]
    #[must_use]
    pub fn dispatch(&self) -> u64 {
        self.stages()[2]
    }

    /// Nanoseconds with the backend.
    #[inline]
    #[must_use]
    pub fn service(&self) -> u64 {
        self.stages()[3]
    }

    /// Nanoseconds from the backend's answer to ours.
    #[inline]
    #[must_use]
    pub fn reply(&self) -> u64 {
        self.stages()[4]
    }

    /// Nanoseconds from arrival to answer: the sum of the five stages.
    #[inline]
    #[must_use]
    pub fn response(&self) -> u64 {
        self.stages().iter().sum()
    }

    /// Whether the request came out of a waiting line, so that its waiting time means something (0 included).
    #[inline]
    #[must_use]
    pub fn has_waited(&self) -> bool {
        self.dequeued != 0
    }

    /// Whether a backend answered, so that its service time means something.
    #[inline]
    #[must_use]
    pub fn was_served(&self) -> bool {
        self.answered != 0
    }

    /// Parse, waiting, dispatch, service, reply. A stamp behind its forerunner counts as equal to it.
    #[inline]
    #[must_use]
    pub fn stages(&self) -> [u64; 5] {
        let mut reached = self.received;
        [self.enqueued, self.dequeued, self.sent, self.answered, self.replied].map(|stamp| {
            let stage = stamp.saturating_sub(reached);
            reached += stage;
            stage
        })
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// Done.
    Ok,
    /// Nothing was there to read.
    Null,
    /// Refused or failed.
    Error,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_stage_is_the_distance_between_its_stamps() {
        let stamps = Stamps { received: 10, enqueued: 11, dequeued: 13, sent: 17, answered: 25, replied: 41 };
        let stages = [stamps.parse(), stamps.waiting(), stamps.dispatch(), stamps.service(), stamps.reply()];
        assert_eq!(stages, [1, 2, 4, 8, 16]);
        assert_eq!(stamps.response(), 31);
    }

    #[test]
    fn a_request_answered_on_the_spot_spends_all_its_time_replying() {
        let stamps = Stamps { received: 100, replied: 130, ..Stamps::default() };
        assert_eq!(stamps.stages(), [0, 0, 0, 0, 30]);
        assert!(!stamps.has_waited() && !stamps.was_served());
    }

    proptest! {
        #[test]
        fn the_stages_add_up_to_the_whole_for_any_stamps(s: [u64; 6]) {
            let stamps = Stamps {
                received: s[0], enqueued: s[1], dequeued: s[2], sent: s[3], answered: s[4], replied: s[5],
            };
            let latest = s.iter().copied().max().unwrap_or(0);
            prop_assert_eq!(stamps.stages().iter().sum::<u64>(), latest - stamps.received);
        }
    }

    proptest! {
        #[test]
        fn stamps_in_order_give_the_plain_difference(mut s: [u64; 6]) {
            s.sort_unstable();
            let stamps = Stamps {
                received: s[0], enqueued: s[1], dequeued: s[2], sent: s[3], answered: s[4], replied: s[5],
            };
            prop_assert_eq!(stamps.response(), s[5] - s[0]);
            prop_assert_eq!(stamps.waiting(), s[2] - s[1]);
            prop_assert_eq!(stamps.service(), s[4] - s[3]);
        }
    }
}
