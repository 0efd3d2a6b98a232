//! Processor time of the calling thread: a load generator that was busy all the time measured itself.

use std::ops::Sub;

use posthaste_measure::cpu_ticks;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// A reading of a thread's processor time; only differences between two mean something.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuReading {
    total_s: f64,
    user_ticks: f64,
    system_ticks: f64,
    waited_s: f64,
}

/// Processor time used between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CpuTime {
    /// Seconds in the program.
    pub user_s: f64,
    /// Seconds in the kernel on the program's behalf.
    pub system_s: f64,
    /// Seconds in which the thread was ready to run and others had the processor; 0 where the kernel does not tell.
    pub waited_s: f64,
}

impl CpuReading {
    /// Reads the calling thread's times.
    #[must_use]
    pub fn of_this_thread() -> Self {
        let total = clock_gettime(ClockId::ThreadCPUTime);
        let [user_ticks, system_ticks] =
            cpu_ticks("/proc/thread-self/stat").unwrap_or_default().map(|ticks| ticks as f64);
        Self {
            total_s: total.tv_sec as f64 + total.tv_nsec as f64 * 1e-9,
            user_ticks,
            system_ticks,
            waited_s: waited_s().unwrap_or_default(),
        }
    }
}

impl Sub for CpuReading {
    type Output = CpuTime;

    /// Returns the time between two readings. The clock gives an exact total; the coarse ticks only divide it into user
    /// and system.
    fn sub(self, earlier: Self) -> CpuTime {
        let total = self.total_s - earlier.total_s;
        let (user, system) = (self.user_ticks - earlier.user_ticks, self.system_ticks - earlier.system_ticks);
        let user_share = if user + system > 0.0 { user / (user + system) } else { 0.0 };
        CpuTime {
            user_s: total * user_share,
            system_s: total * (1.0 - user_share),
            waited_s: self.waited_s - earlier.waited_s,
        }
    }
}

impl CpuTime {
    /// Returns user and system time together, in seconds.
    #[must_use]
    pub fn busy_s(self) -> f64 {
        self.user_s + self.system_s
    }

    /// Returns the share of `seconds` in which the thread was busy.
    #[must_use]
    pub fn share_of(self, seconds: f64) -> f64 {
        share(self.busy_s(), seconds)
    }

    /// Returns the share of `seconds` in which the thread could not have done more: it was busy, or kept from the
    /// processor.
    #[must_use]
    pub fn share_without_rest(self, seconds: f64) -> f64 {
        share(self.busy_s() + self.waited_s, seconds)
    }

    /// Adds the time of another thread.
    pub fn absorb(&mut self, other: Self) {
        self.user_s += other.user_s;
        self.system_s += other.system_s;
        self.waited_s += other.waited_s;
    }
}

/// Returns a share of `seconds`; 0 of a window of no length, as of a thread that stood still for all of its window.
fn share(part_s: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { part_s / seconds } else { 0.0 }
}

fn waited_s() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos: f64 = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(nanos * 1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_seen_as_processor_time() {
        let before = CpuReading::of_this_thread();
        let mut sum = 0_u64;
        for _ in 0..10_000_000 {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
        }
        let used = CpuReading::of_this_thread() - before;
        assert!(used.busy_s() > 0.001 && used.busy_s() < 10.0, "{used:?}");
    }

    #[test]
    fn a_window_of_no_length_was_not_busy() {
        let used = CpuTime { user_s: 0.001, ..CpuTime::default() };
        assert_eq!([used.share_of(0.0), used.share_of(0.002)], [0.0, 0.5]);
    }

    #[test]
    fn waiting_for_the_processor_is_no_rest() {
        let used = CpuTime { user_s: 1.0, system_s: 1.0, waited_s: 6.0 };
        assert_eq!([used.share_of(10.0), used.share_without_rest(10.0)], [0.2, 0.8]);
    }
}
