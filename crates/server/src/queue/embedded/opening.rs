//! Logs how far the opening of a large store is, so that nobody takes a long start for one that hangs.
//!
//! For a store that is read within moments nothing is logged.

use posthaste_measure::Clock;

use super::log::Progress;
use crate::queue::rules::Millis;

/// Size from which on a store is announced before it is read: at 200 MB a second reading takes five seconds.
const ANNOUNCED_BYTES: u64 = 1 << 30;

/// Interval of the progress messages.
const EVERY_NS: u64 = 5_000_000_000;

/// A clock that is this far behind was set wrong, and not just corrected.
const BEHIND_MS: Millis = 60_000;

/// Messages about one opening of a store.
pub(super) struct OpeningLog {
    clock: Option<Clock>,
    began_ns: u64,
    /// When something was last logged, or opening began.
    logged_ns: u64,
    has_logged: bool,
}

impl OpeningLog {
    /// Begins now; without a clock nothing is logged.
    pub(super) fn begin(clock: Option<Clock>) -> Self {
        let now = clock.map_or(0, |clock| clock.now());
        Self { clock, began_ns: now, logged_ns: now, has_logged: false }
    }

    /// Logs the progress, if a message is due.
    pub(super) fn log_progress(&mut self, progress: Progress) {
        let Some(now) = self.clock.map(|clock| clock.now()) else { return };
        let Progress { files, bytes, done } = progress;
        if done == 0 && bytes >= ANNOUNCED_BYTES {
            tracing::info!("reading the store: {files} files, {} MiB", bytes >> 20);
        } else if now - self.logged_ns >= EVERY_NS {
            let percent = u128::from(done) * 100 / u128::from(bytes.max(1));
            let seconds = (now - self.began_ns) / 1_000_000_000;
            tracing::info!("reading the store: {percent} % of {} MiB after {seconds} s", bytes >> 20);
        } else {
            return;
        }
        (self.logged_ns, self.has_logged) = (now, true);
    }

    /// Logs what was read, if anything was logged before.
    pub(super) fn log_end(&self, messages: u64, queues: usize) {
        let Some(clock) = self.clock.filter(|_| self.has_logged) else { return };
        let tenths = (clock.now() - self.began_ns) / 100_000_000;
        let (seconds, tenth) = (tenths / 10, tenths % 10);
        tracing::info!("the store is read: {messages} messages in {queues} queues, in {seconds}.{tenth} s");
    }

    /// Warns if this machine's clock is behind the last message of the store: leases, delays and TTLs then end so
    /// much later, even if the clock is corrected, because a server goes by the time with which it started.
    pub(super) fn warn_of_late_clock(&self, last_sent_ms: Millis) {
        let Some(clock) = self.clock else { return };
        let behind_ms = last_sent_ms.saturating_sub((clock.started_unix_ns() + clock.now()) / 1_000_000);
        if behind_ms >= BEHIND_MS {
            tracing::warn!(
                "this machine's clock is {} s behind the last message of the store: leases, delays and times to live from before \
                 end so much later; set the clock, then restart",
                behind_ms / 1000
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use posthaste_measure::Hand;

    use super::*;
    use crate::heard::heard;

    const SECOND: u64 = 1_000_000_000;

    /// Returns what is logged for a store of `mib` MiB that is read in tenths, each in `seconds`.
    fn told(mib: u64, seconds: u64) -> Vec<String> {
        let hand = Hand::at_zero();
        let mut opening = OpeningLog::begin(Some(Clock::by_hand(hand, 0)));
        heard(|| {
            for tenth in 0..=10 {
                let bytes = mib << 20;
                hand.set(tenth * seconds * SECOND + tenth * SECOND / 20);
                opening.log_progress(Progress { files: 7, bytes, done: bytes / 10 * tenth });
            }
            opening.log_end(3, 2);
        })
    }

    #[test]
    fn nobody_is_told_of_a_store_that_is_read_at_once() {
        assert!(told(1023, 0).is_empty());
        assert!(told(0, 0).is_empty());
    }

    #[test]
    fn a_large_store_is_announced_and_its_end_told() {
        let lines = [
            "INFO reading the store: 7 files, 2048 MiB",
            "INFO the store is read: 3 messages in 2 queues, in 0.5 s",
        ];
        assert_eq!(told(2048, 0), lines);
    }

    #[test]
    fn a_clock_that_is_behind_the_store_is_told() {
        let told = |last_sent_ms| {
            let opening = OpeningLog::begin(Some(Clock::by_hand(Hand::at_zero(), 5_000 * SECOND)));
            heard(|| opening.warn_of_late_clock(last_sent_ms))
        };
        assert!(told(0).is_empty() && told(5_059_999).is_empty());
        let lines = told(8_600_500);
        assert!(
            lines.len() == 1 && lines[0].starts_with("WARN this machine's clock is 3600 s behind"),
            "{lines:?}"
        );
    }

    #[test]
    fn every_few_seconds_it_is_told_how_far_it_is() {
        let lines = told(100, 2);
        let some = ["30 % of 100 MiB after 6 s", "60 % of 100 MiB after 12 s", "90 % of 100 MiB after 18 s"];
        let mut expected: Vec<String> =
            some.iter().map(|words| format!("INFO reading the store: {words}")).collect();
        expected.push("INFO the store is read: 3 messages in 2 queues, in 20.5 s".into());
        assert_eq!(lines, expected);
    }
}
