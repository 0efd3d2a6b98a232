//! Quiet clients: those that take nothing of the answers that are ready for them, and, if a limit is set, those that
//! send no request.
//!
//! There is no timer per write: a thread checks all of its clients at an interval, and sees whether a client with
//! pending output has taken anything since the last check.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::limits::USER_TIMEOUT;

/// Checks per shorter limit: a client may be quiet for longer than its limit by one such interval.
const CHECKS_PER_LIMIT: u32 = 4;

/// Shortest time between two checks.
const CHECK_INTERVAL_MIN: Duration = Duration::from_millis(10);

/// Longest time between two checks.
const CHECK_INTERVAL_MAX: Duration = Duration::from_secs(5);

/// How long clients may be quiet; None: for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuietLimits {
    /// How long a client may take nothing of what is written to it.
    pub send: Option<Duration>,
    /// How long a client may send no request and wait for no answer.
    pub idle: Option<Duration>,
}

impl QuietLimits {
    /// Returns the time between two checks; None: there are no limits.
    #[must_use]
    pub fn check_interval(&self) -> Option<Duration> {
        let shorter = self.send.into_iter().chain(self.idle).min()?;
        Some((shorter / CHECKS_PER_LIMIT).clamp(CHECK_INTERVAL_MIN, CHECK_INTERVAL_MAX))
    }

    /// Returns the idle limit in whole seconds, as CONFIG GET reports it; 0: there is none. It is rounded down,
    /// as clients send something shortly before, but it is at least 1.
    #[must_use]
    pub fn idle_s(&self) -> u64 {
        self.idle.map_or(0, |limit| limit.as_secs().max(1))
    }

    /// Returns whether a client that takes nothing is closed no later than the kernel would end its connection.
    #[must_use]
    pub fn end_before_user_timeout(&self) -> bool {
        self.send.is_some_and(|limit| limit + limit / CHECKS_PER_LIMIT <= USER_TIMEOUT)
    }
}

/// Why a quiet connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuietReason {
    /// The client took nothing of what was written to it.
    Send,
    /// The client sent no request.
    Idle,
}

impl QuietReason {
    /// All reasons.
    pub const ALL: [Self; 2] = [Self::Send, Self::Idle];

    /// Returns the reason's name in metrics.
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
pub struct QuietCounts([AtomicU64; QuietReason::ALL.len()]);

impl QuietCounts {
    /// Counts one more connection that was closed for this reason.
    pub fn add(&self, reason: QuietReason) {
        self.0[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many were closed for this reason.
    #[must_use]
    pub fn count(&self, reason: QuietReason) -> u64 {
        self.0[reason as usize].load(Ordering::Relaxed)
    }
}

/// How far a client takes what is written to it.
#[derive(Debug, Default)]
pub struct WriteProgress {
    /// Bytes that were ever written.
    written: u64,
    /// Whether the last write left bytes over.
    has_unwritten: bool,
    /// The stall that the last check found, if it found one.
    stall: Option<Stall>,
}

/// A stretch of time in which a client with pending output takes nothing.
#[derive(Clone, Copy, Debug)]
struct Stall {
    /// Bytes that were ever written when the stall was found.
    written: u64,
    /// Stamp of the check that found it.
    since_ns: u64,
}

impl WriteProgress {
    /// Notes a write of so many bytes, and whether it left bytes over.
    pub fn note(&mut self, bytes: usize, has_unwritten: bool) {
        self.written += bytes as u64;
        self.has_unwritten = has_unwritten;
    }

    /// Returns how many bytes were ever written.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Checks the client now, and returns whether checks have seen it take nothing for longer than `limit`.
    pub fn has_stalled_for(&mut self, limit: Duration, now_ns: u64) -> bool {
        match self.stall {
            _ if !self.has_unwritten => self.stall = None,
            Some(stall) if stall.written == self.written => return has_passed(stall.since_ns, limit, now_ns),
            _ => self.stall = Some(Stall { written: self.written, since_ns: now_ns }),
        }
        false
    }
}

/// Returns whether more than `limit` has passed since the stamp `since_ns`.
#[must_use]
pub fn has_passed(since_ns: u64, limit: Duration, now_ns: u64) -> bool {
    u128::from(now_ns.saturating_sub(since_ns)) > limit.as_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_nanos(100);

    #[test]
    fn a_client_that_takes_a_little_now_and_then_has_not_stalled() {
        let mut progress = WriteProgress::default();
        for now in (0..1000).step_by(60) {
            progress.note(1, true);
            assert!(!progress.has_stalled_for(LIMIT, now));
        }
        assert!(!progress.has_stalled_for(LIMIT, 1_000) && !progress.has_stalled_for(LIMIT, 1_060));
        assert!(progress.has_stalled_for(LIMIT, 1_061));
    }

    #[test]
    fn a_client_that_took_everything_may_wait_for_ever() {
        let mut progress = WriteProgress::default();
        progress.note(5, true);
        assert!(!progress.has_stalled_for(LIMIT, 0));
        progress.note(5, false);
        assert!(!progress.has_stalled_for(LIMIT, 1_000) && !progress.has_stalled_for(LIMIT, 9_000));
        progress.note(0, true);
        assert!(!progress.has_stalled_for(LIMIT, 10_000), "its time begins anew");
    }

    #[test]
    fn clients_are_told_of_a_limit_that_they_can_keep() {
        for (ms, seconds) in [(None, 0), (Some(300), 1), (Some(1_000), 1), (Some(59_999), 59)] {
            let limits = QuietLimits { idle: ms.map(Duration::from_millis), ..QuietLimits::default() };
            assert_eq!(limits.idle_s(), seconds, "{ms:?}");
        }
    }

    #[test]
    fn checks_are_as_frequent_as_the_shorter_limit_wants() {
        let limits = |send: u64, idle: u64| QuietLimits {
            send: (send > 0).then(|| Duration::from_secs(send)),
            idle: (idle > 0).then(|| Duration::from_secs(idle)),
        };
        assert_eq!(limits(0, 0).check_interval(), None);
        assert_eq!(limits(60, 0).check_interval(), Some(Duration::from_secs(5)));
        assert_eq!(limits(60, 2).check_interval(), Some(Duration::from_millis(500)));
    }
}
