//! Quiet clients: those that take nothing of the answers that are ready for them, and, if a limit is set, those that
//! send no request.
//!
//! There is no timer per write: a thread looks at all of its clients now and then, and sees whether a client with
//! pending output has taken anything since the last look.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::limits::GONE;

/// Looks per shorter limit: a client may be quiet for longer than its limit by one such interval.
const LOOKS: u32 = 4;

/// Shortest and longest time between two looks.
const LOOK_EVERY: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(5));

/// How long clients may be quiet; None: for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuietLimits {
    /// How long a client may take nothing of what is written to it.
    pub send: Option<Duration>,
    /// How long a client may send no request and wait for no answer.
    pub idle: Option<Duration>,
}

impl QuietLimits {
    /// Returns how often to look; None: there are no limits.
    #[must_use]
    pub fn look_every(&self) -> Option<Duration> {
        let shorter = self.send.into_iter().chain(self.idle).min()?;
        Some((shorter / LOOKS).clamp(LOOK_EVERY.0, LOOK_EVERY.1))
    }

    /// Returns the idle limit in whole seconds, as clients of Redis are told it; 0: there is none. It is rounded down,
    /// as clients send something shortly before, but it is at least 1.
    #[must_use]
    pub fn idle_s(&self) -> u64 {
        self.idle.map_or(0, |limit| limit.as_secs().max(1))
    }

    /// Returns whether a client that takes nothing is closed before the kernel takes it for gone.
    #[must_use]
    pub fn end_before_gone(&self) -> bool {
        self.send.is_some_and(|limit| limit + limit / LOOKS <= GONE)
    }
}

/// Why a quiet connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quiet {
    /// The client took nothing of what was written to it.
    Send,
    /// The client sent no request.
    Idle,
}

impl Quiet {
    /// All reasons.
    pub const ALL: [Self; 2] = [Self::Send, Self::Idle];

    /// Returns the reason's name in figures.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Idle => "idle",
        }
    }
}

/// Counts of quiet connections that were closed, by reason.
#[derive(Debug, Default)]
pub struct QuietCounts([AtomicU64; 2]);

impl QuietCounts {
    /// Counts one more connection.
    pub fn note(&self, why: Quiet) {
        self.0[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many were closed for this reason.
    #[must_use]
    pub fn count(&self, why: Quiet) -> u64 {
        self.0[why as usize].load(Ordering::Relaxed)
    }
}

/// Whether a client takes what is written to it.
#[derive(Debug, Default)]
pub struct Taking {
    /// Bytes that the client ever took.
    taken: u64,
    /// Whether the last write was not taken in full.
    is_behind: bool,
    /// What it had taken when it was first seen not to take more, and the stamp of that look.
    stands_since: Option<(u64, u64)>,
}

impl Taking {
    /// Notes how much was taken, and whether that was not all.
    pub fn note(&mut self, bytes: usize, is_behind: bool) {
        self.taken += bytes as u64;
        self.is_behind = is_behind;
    }

    /// Returns how many bytes the client ever took.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Looks at the client now, and returns whether it has taken nothing for longer than `limit`.
    pub fn stands(&mut self, limit: Duration, now_ns: u64) -> bool {
        match self.stands_since {
            _ if !self.is_behind => self.stands_since = None,
            Some((taken, since_ns)) if taken == self.taken => return is_over(since_ns, limit, now_ns),
            _ => self.stands_since = Some((self.taken, now_ns)),
        }
        false
    }
}

/// Returns whether more than `limit` has passed.
#[must_use]
pub fn is_over(since_ns: u64, limit: Duration, now_ns: u64) -> bool {
    u128::from(now_ns.saturating_sub(since_ns)) > limit.as_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_nanos(100);

    #[test]
    fn who_takes_a_little_now_and_then_does_not_stand() {
        let mut taking = Taking::default();
        for now in (0..1000).step_by(60) {
            taking.note(1, true);
            assert!(!taking.stands(LIMIT, now));
        }
        assert!(!taking.stands(LIMIT, 1_000) && !taking.stands(LIMIT, 1_060));
        assert!(taking.stands(LIMIT, 1_061));
    }

    #[test]
    fn who_has_everything_may_wait_for_ever() {
        let mut taking = Taking::default();
        taking.note(5, true);
        assert!(!taking.stands(LIMIT, 0));
        taking.note(5, false);
        assert!(!taking.stands(LIMIT, 1_000) && !taking.stands(LIMIT, 9_000));
        taking.note(0, true);
        assert!(!taking.stands(LIMIT, 10_000), "its time begins anew");
    }

    #[test]
    fn clients_are_told_of_a_limit_that_they_can_keep() {
        for (ms, seconds) in [(None, 0), (Some(300), 1), (Some(1_000), 1), (Some(59_999), 59)] {
            let limits = QuietLimits { idle: ms.map(Duration::from_millis), ..QuietLimits::default() };
            assert_eq!(limits.idle_s(), seconds, "{ms:?}");
        }
    }

    #[test]
    fn looks_are_as_frequent_as_the_shorter_limit_wants() {
        let limits = |send: u64, idle: u64| QuietLimits {
            send: (send > 0).then(|| Duration::from_secs(send)),
            idle: (idle > 0).then(|| Duration::from_secs(idle)),
        };
        assert_eq!(limits(0, 0).look_every(), None);
        assert_eq!(limits(60, 0).look_every(), Some(Duration::from_secs(5)));
        assert_eq!(limits(60, 2).look_every(), Some(Duration::from_millis(500)));
    }
}
