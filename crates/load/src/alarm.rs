//! A timer that wakes a readiness loop more exactly than a wait for readiness, which counts in whole milliseconds; an
//! open loop needs that.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

/// The token of the alarm's events.
pub(crate) const ALARM: Token = Token(usize::MAX);

/// A timer of the system, watched like a socket.
#[derive(Debug)]
pub(crate) struct Alarm {
    timer: OwnedFd,
    /// When the alarm will ring; `u64::MAX`: not set.
    at: u64,
}

impl Alarm {
    /// Creates an alarm that is not set.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub(crate) fn new(registry: &Registry) -> io::Result<Self> {
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        registry.register(&mut SourceFd(&timer.as_raw_fd()), ALARM, Interest::READABLE)?;
        Ok(Self { timer, at: u64::MAX })
    }

    /// Sets the alarm to ring at `at`, unless it will ring before; both times are nanoseconds of the same clock.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn set(&mut self, at: u64, now: u64) -> io::Result<()> {
        if self.at > now && self.at <= at {
            return Ok(());
        }
        // A wait of zero would stop the timer.
        let wait = Duration::from_nanos(at.saturating_sub(now).max(1));
        let seconds = i64::try_from(wait.as_secs()).unwrap_or(i64::MAX);
        let it_value = Timespec { tv_sec: seconds, tv_nsec: wait.subsec_nanos().into() };
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &Itimerspec { it_interval, it_value })?;
        self.at = at;
        Ok(())
    }
}
