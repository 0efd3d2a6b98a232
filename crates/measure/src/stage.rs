//! The stamps of a request and the durations between them.
//!
//! ```text
//! tier:    received -parse- enqueued -waiting- dequeued -dispatch- sent -service- answered -reply- replied
//! client:  due -schedule- begun -serialization- encoded -network- arrived -deserialization- parsed
//!          |<---------------------------------- response ------------------------------------->|
//! ```
//!
//! The stages add up to the response time exactly, whatever the stamps hold. Not every request passes
//! every station (PING needs no store, BUSY never waits): a stamp not taken is 0 and counts as taken together
//! with the one before it, so its stage is empty and the time falls into the next stage that was stamped.

use crate::scheme::{STAGES_MAX, STAMPS_MAX};

/// Times at which a request passed each station of a tier, in nanoseconds of [`Clock`](crate::Clock); 0 means
/// "did not pass".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    /// The whole request had arrived. Always taken.
    pub received: u64,
    /// It entered the waiting line.
    pub enqueued: u64,
    /// A worker took it from the line.
    pub dequeued: u64,
    /// It was handed to the backend.
    pub sent: u64,
    /// All of the backend's answers had arrived.
    pub answered: u64,
    /// Its answer was handed to the network. Always taken.
    pub replied: u64,
}

impl Stamps {
    /// Takes a wait out of the measurement: the backend held the request from `sent` until `now` because
    /// there was no message for it yet. Nobody worked during that time, so the request is measured as if it
    /// had arrived that much later; all other stages stay as they were, and still add up.
    pub fn resume(&mut self, now: u64) {
        let waited = now.saturating_sub(self.sent);
        for stamp in [&mut self.received, &mut self.enqueued, &mut self.dequeued, &mut self.sent] {
            *stamp += waited;
        }
    }
}

/// Times at which a client passed each station of a request, in nanoseconds of [`Clock`](crate::Clock). All are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientStamps {
    /// The request should be sent: its client was free and had finished thinking, or the schedule of an open
    /// loop said so.
    pub due: u64,
    /// Its encoding began.
    pub begun: u64,
    /// Its bytes were ready to be written.
    pub encoded: u64,
    /// The last byte of its answer was read.
    pub arrived: u64,
    /// Its answer was parsed.
    pub parsed: u64,
}

/// Index of a client's last stamp.
const CLIENT_PARSED: usize = 4;

/// The stamps of one request in the order of its [`Scheme`](crate::Scheme); what the scheme does not name is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trail(pub(crate) [u64; STAMPS_MAX]);

impl Trail {
    /// Returns the length of each stage. A stamp earlier than its predecessor counts as equal to it.
    #[inline]
    #[must_use]
    pub fn stages(&self) -> [u64; STAGES_MAX] {
        let [first, rest @ ..] = self.0;
        let mut reached = first;
        rest.map(|stamp| {
            let stage = stamp.saturating_sub(reached);
            reached += stage;
            stage
        })
    }

    /// Returns the time from the first stamp to the last: the sum of the stages.
    #[inline]
    #[must_use]
    pub fn response(&self) -> u64 {
        self.stages().iter().sum()
    }

    /// Returns whether the stamp at the end of this stage was taken, so that its length means something.
    #[inline]
    pub(crate) fn has_stage(&self, place: usize) -> bool {
        self.0[place + 1] != 0
    }
}

impl From<Stamps> for Trail {
    #[inline]
    fn from(stamps: Stamps) -> Self {
        let Stamps { received, enqueued, dequeued, sent, answered, replied } = stamps;
        Self([received, enqueued, dequeued, sent, answered, replied])
    }
}

impl From<ClientStamps> for Trail {
    #[inline]
    fn from(stamps: ClientStamps) -> Self {
        let ClientStamps { due, begun, encoded, arrived, parsed } = stamps;
        Self([due, begun, encoded, arrived, parsed, 0])
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// Done.
    Ok,
    /// Nothing to read.
    Null,
    /// Refused or failed.
    Error,
}

impl Ending {
    /// Names of the endings, in the order of their numbers.
    pub(crate) const NAMES: [&str; 3] = ["ok", "null", "error"];

    /// Returns the name of the ending.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// One ended request.
#[derive(Clone, Copy, Debug)]
pub struct Noted {
    /// Its stamps.
    pub trail: Trail,
    /// Number of its client.
    pub client: u64,
    /// Time that the store reported, in nanoseconds; 0: none.
    pub reported_ns: u64,
    /// Length of the request, in bytes.
    pub request_bytes: u32,
    /// Length of its answer, in bytes.
    pub answer_bytes: u32,
    /// Number that the scheme counts, if it counts anything.
    pub counted: u32,
    /// Index of its kind in the scheme.
    pub kind: u8,
    /// How it ended.
    pub ending: Ending,
}

impl Noted {
    /// Makes a request of which nothing more is known.
    #[must_use]
    pub fn new(kind: u8, ending: Ending, stamps: impl Into<Trail>) -> Self {
        let trail = stamps.into();
        Self { trail, client: 0, reported_ns: 0, request_bytes: 0, answer_bytes: 0, counted: 0, kind, ending }
    }

    /// Sets the last stamp of a client's request, which is the same for all that were parsed together.
    #[inline]
    pub fn understood(&mut self, parsed: u64) {
        self.trail.0[CLIENT_PARSED] = parsed;
    }

    /// Returns whether both requests count alike in tallies and distributions.
    #[inline]
    #[must_use]
    pub fn counts_as(&self, other: &Self) -> bool {
        // No branch for each stamp, and no call that compares bytes, as this runs for every request.
        let stamps = self.trail.0.iter().zip(other.trail.0);
        let differences =
            stamps.fold(self.reported_ns ^ other.reported_ns, |all, (mine, theirs)| all | (mine ^ theirs));
        let of = |noted: &Self| (noted.kind, noted.ending, noted.counted);
        differences == 0 && of(self) == of(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_stage_is_the_distance_between_its_stamps() {
        let stamps = Stamps { received: 10, enqueued: 11, dequeued: 13, sent: 17, answered: 25, replied: 41 };
        assert_eq!(Trail::from(stamps).stages(), [1, 2, 4, 8, 16]);
        let stamps = ClientStamps { due: 10, begun: 11, encoded: 13, arrived: 17, parsed: 25 };
        assert_eq!(Trail::from(stamps).stages(), [1, 2, 4, 8, 0]);
    }

    #[test]
    fn a_request_answered_on_the_spot_spends_all_its_time_replying() {
        let trail = Trail::from(Stamps { received: 100, replied: 130, ..Stamps::default() });
        assert_eq!(trail.stages(), [0, 0, 0, 0, 30]);
        assert!(!trail.has_stage(1) && !trail.has_stage(3) && trail.has_stage(4));
    }

    #[test]
    fn a_request_refused_before_the_line_has_no_waiting_time() {
        let stamps = Stamps { received: 100, enqueued: 110, replied: 130, ..Stamps::default() };
        assert_eq!(Trail::from(stamps).stages(), [10, 0, 0, 0, 20]);
    }

    #[test]
    fn a_wait_for_something_to_come_is_in_no_stage() {
        let mut stamps = Stamps { received: 10, enqueued: 11, dequeued: 13, sent: 13, ..Stamps::default() };
        stamps.resume(1_000_000);
        (stamps.answered, stamps.replied) = (1_000_008, 1_000_024);
        assert_eq!(Trail::from(stamps).stages(), [1, 2, 0, 8, 16]);
    }

    proptest! {
        #[test]
        fn stages_always_add_up_to_the_response(stamps in prop::array::uniform6(0_u64..1_000)) {
            let trail = Trail(stamps);
            let latest = stamps.into_iter().max().unwrap_or(0);
            prop_assert_eq!(trail.response(), latest.saturating_sub(stamps[0]));
            prop_assert_eq!(trail.response(), trail.stages().iter().sum::<u64>());
        }
    }
}
