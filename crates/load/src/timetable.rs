//! How many requests of an open loop are due by a time, all clients together, and when each of them is.

use std::sync::Arc;

use crate::error::LoadError;
use crate::profile::RateProfile;
use crate::replay::Replay;
use crate::report::legible;
use crate::run_options::RunOptions;

/// When requests are due, in nanoseconds since the first moment of the run.
#[derive(Clone, Debug)]
pub(crate) enum Timetable {
    /// At one rate, in requests per second.
    Even(f64),
    /// At a rate that changes from the beginning of the measured time on.
    Profile {
        /// The rate.
        profile: Arc<RateProfile>,
        /// Length of the warm-up, in seconds.
        warmup_s: f64,
    },
    /// When other requests were once due.
    Replay(Arc<Replay>),
}

impl Timetable {
    /// Returns the timetable that options ask for; None for a closed loop.
    ///
    /// # Errors
    /// The file to be replayed cannot be read.
    pub(crate) fn of(options: &RunOptions) -> Result<Option<Self>, LoadError> {
        if let Some(path) = &options.replay {
            let replay = Replay::read(path, options.replay_speed).map_err(LoadError::Usage)?;
            return Ok(Some(Self::Replay(Arc::new(replay))));
        }
        let profile = options.rate_profile.clone().map(Arc::new);
        let warmup_s = options.warmup.as_secs_f64();
        let profile = profile.map(|profile| Self::Profile { profile, warmup_s });
        Ok(profile.or_else(|| options.total_rate().map(Self::Even)))
    }

    /// Returns how many requests are due by `ns`.
    pub(crate) fn due_by(&self, ns: f64) -> f64 {
        match self {
            Self::Even(per_s) => per_s * ns / 1e9,
            Self::Profile { profile, warmup_s } => {
                profile.due_by(ns / 1e9 - warmup_s) - profile.due_by(-warmup_s)
            }
            Self::Replay(replay) => replay.due_by(ns) as f64,
        }
    }

    /// Returns how many requests are due from one time to another, in seconds.
    pub(crate) fn due_between(&self, from_s: f64, to_s: f64) -> f64 {
        self.due_by(to_s * 1e9) - self.due_by(from_s * 1e9)
    }

    /// Returns when the request of this number is due, counted from 0; None if there are fewer.
    pub(crate) fn time_of(&self, number: f64) -> Option<f64> {
        match self {
            Self::Even(per_s) => Some(number * (1e9 / per_s)),
            Self::Profile { profile, warmup_s } => {
                profile.time_of(number + profile.due_by(-warmup_s)).map(|at_s| (at_s + warmup_s) * 1e9)
            }
            Self::Replay(replay) => replay.time_of(number as usize).map(|ns| ns as f64),
        }
    }

    /// Returns how many requests are due at most in any stretch of so many seconds.
    pub(crate) fn due_at_most(&self, stretch_s: f64) -> f64 {
        match self {
            Self::Even(per_s) => per_s * stretch_s,
            Self::Profile { profile, .. } => profile.peak_per_s() * stretch_s,
            Self::Replay(replay) => replay.due_at_most(stretch_s * 1e9) as f64,
        }
    }

    /// Returns whether a part of a gap may be added to all times, so that several generators do not march in step.
    pub(crate) const fn may_be_shifted(&self) -> bool {
        !matches!(self, Self::Replay(_))
    }

    /// Returns the time of the last request in seconds, if there is a last one.
    pub(crate) fn end_s(&self) -> Option<f64> {
        match self {
            Self::Replay(replay) => Some(replay.end() as f64 / 1e9),
            Self::Even(_) | Self::Profile { .. } => None,
        }
    }

    /// Describes the load, as in "does not keep up with …".
    pub(crate) fn described(&self) -> String {
        match self {
            Self::Even(per_s) => format!("{} requests per second", legible(*per_s)),
            Self::Profile { profile, .. } => {
                format!("a profile of up to {} requests per second", legible(profile.peak_per_s()))
            }
            Self::Replay(replay) => format!("a replay of {} requests", replay.count()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_begins_when_the_warm_up_ends() {
        let profile = Arc::new("0s:100 10s:100 10s:50".parse().expect("a profile"));
        let timetable = Timetable::Profile { profile, warmup_s: 5.0 };
        assert_eq!(timetable.due_by(5e9), 500.0);
        assert_eq!(timetable.due_between(5.0, 16.0), 1050.0);
        assert_eq!(timetable.time_of(0.0), Some(0.0));
        let at = timetable.time_of(1525.0).expect("it goes on");
        assert!((at - 15.5e9).abs() < 1.0, "{at}");
        assert_eq!(timetable.due_at_most(30.0), 3000.0);
    }
}
