//! The options of every run, whatever it loads: how many clients, how long, at what pace.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, value_parser};
use serde::Serialize;

use crate::arrivals::Spacing;
use crate::error::LoadError;
use crate::pace::Think;
use crate::paths;
use crate::profile::RateProfile;
use crate::search::Limit;
use crate::timespan;
use crate::tls::TlsOptions;

/// Largest number of clients: as many connections as some sixteen client addresses can have to one server.
pub(crate) const CLIENTS_MAX: u32 = 1_000_000;

/// How much load, for how long, at what pace.
#[derive(Args, Clone, Debug, Serialize)]
pub struct RunOptions {
    /// Clients, each with a connection of its own
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = value_parser!(u32).range(1..=i64::from(CLIENTS_MAX)))]
    pub clients: u32,

    /// Threads that drive the clients
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..=1024))]
    pub threads: u32,

    /// How long to measure, between warm-up and cool-down
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = timespan::parse)]
    #[serde(rename = "duration_s", serialize_with = "timespan::seconds")]
    pub duration: Duration,

    /// Each client sends this many requests, and all of them are measured, instead of a --duration
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..), conflicts_with_all = ["duration", "warmup", "cooldown", "find_max_rate", "rate_profile", "replay"])]
    pub requests: Option<u64>,

    /// Load before measuring
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = timespan::parse)]
    #[serde(rename = "warmup_s", serialize_with = "timespan::seconds")]
    pub warmup: Duration,

    /// Load after measuring
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = timespan::parse)]
    #[serde(rename = "cooldown_s", serialize_with = "timespan::seconds")]
    pub cooldown: Duration,

    /// Pause of a client between an answer and its next request: a time, or exponential:TIME for draws with that mean
    #[arg(long, value_name = "TIME", default_value = "0ms")]
    #[serde(flatten)]
    pub think: Think,

    /// Open loop: this many requests per second are due in all, however fast the server answers; response times count
    /// from then
    #[arg(long, value_name = "PER_S", value_parser = rate, conflicts_with = "rate_per_client")]
    pub rate: Option<f64>,

    /// The same for each client
    #[arg(long, value_name = "PER_S", value_parser = rate)]
    pub rate_per_client: Option<f64>,

    /// Open loop whose rate changes along straight lines between points TIME:RATE, as in '0s:1000 30s:5000 30s:200'
    ///
    /// Times count from the end of the warm-up, in which the first rate holds; after the last point the last one does.
    /// Two points at the same time make a step.
    #[arg(long, value_name = "POINTS", conflicts_with_all = ["rate", "rate_per_client", "find_max_rate"])]
    pub rate_profile: Option<RateProfile>,

    /// Open loop whose requests are due when those of a record were: its directory, or its requests.parquet
    ///
    /// The first is due when the warm-up begins. What is asked follows the workload.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rate", "rate_per_client", "rate_profile", "find_max_rate"])]
    #[serde(serialize_with = "paths::legibly")]
    pub replay: Option<PathBuf>,

    /// How many times as fast as they were recorded the requests of --replay are due
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = speed, requires = "replay")]
    pub replay_speed: f64,

    /// How the requests of an open loop are spaced
    #[arg(long, value_name = "SPACING", default_value = "constant")]
    pub arrivals: Spacing,

    /// Looks for the highest rate at which a response time keeps its limit, as in p99<5ms
    ///
    /// Runs open loops, each for the whole --duration: first at --rate (or 1000) and twice that and so on, then between
    /// the last that kept it and the first that did not. Measures: mean, p50, p90, p99, p99.9, max.
    #[arg(long, value_name = "LIMIT")]
    pub find_max_rate: Option<Limit>,

    /// Requests each client keeps in flight
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..=65_536))]
    pub pipeline: u32,

    /// The same seed gives the same requests
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Send the first request at this time, in seconds since 1970, so that several processes begin together
    ///
    /// As in --start-at $(($(date +%s) + 10)). What they leave with --record becomes one report with bench merge.
    #[arg(long, value_name = "UNIX_S", value_parser = unix_time)]
    pub start_at: Option<f64>,

    /// Whether TLS is spoken, and how.
    #[command(flatten)]
    #[serde(flatten)]
    pub tls: TlsOptions,

    /// Write a summary here
    #[arg(long, value_name = "FILE")]
    #[serde(serialize_with = "paths::legibly")]
    pub json: Option<PathBuf>,

    /// Write a record to this directory, which must hold none yet: windows, histograms, the system, the summary
    ///
    /// With --find-max-rate there is one for each run, in DIR/1, DIR/2 and so on.
    #[arg(long, value_name = "DIR")]
    #[serde(serialize_with = "paths::legibly")]
    pub record: Option<PathBuf>,

    /// Record every single request too, with its stamps (requests.parquet)
    #[arg(long, requires = "record")]
    pub record_requests: bool,

    /// Aggregation window of the record
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = window, requires = "record")]
    #[serde(rename = "window_s", serialize_with = "timespan::seconds")]
    pub window: Duration,
}

impl RunOptions {
    /// Returns the requests per second that are due, of all clients together; None in a closed loop.
    #[must_use]
    pub fn total_rate(&self) -> Option<f64> {
        self.rate.or_else(|| self.rate_per_client.map(|rate| rate * f64::from(self.clients)))
    }

    /// Returns whether requests are due by the clock, however fast the server answers.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        let has_rate = self.rate.is_some() || self.rate_per_client.is_some();
        has_rate || self.rate_profile.is_some() || self.replay.is_some() || self.find_max_rate.is_some()
    }

    /// Looks for options that contradict each other.
    ///
    /// # Errors
    /// The first contradiction, with what to do.
    pub fn validate(&self) -> Result<(), LoadError> {
        if self.duration.is_zero() {
            return Err(LoadError::Usage(
                "--duration 0 measures nothing; give it a time such as 10s".to_owned(),
            ));
        }
        if self.requests.is_some() && self.find_max_rate.is_some() {
            return Err(LoadError::Usage(
                "--find-max-rate runs each rate for a --duration; leave out the number of requests"
                    .to_owned(),
            ));
        }
        if self.requests.is_some() && (self.rate_profile.is_some() || self.replay.is_some()) {
            return Err(LoadError::Usage(
                "--rate-profile and --replay say how many requests there are; leave out the number of requests"
                    .to_owned(),
            ));
        }
        if self.is_open() && !self.think.is_none() {
            return Err(LoadError::Usage(
                "--think is for a closed loop, and --rate, --rate-per-client, --rate-profile, --replay and --find-max-rate make an open one: leave one out"
                    .to_owned(),
            ));
        }
        if self.arrivals != Spacing::Constant && !self.is_open() {
            return Err(LoadError::Usage(
                "--arrivals poisson spaces the requests of an open loop; give it a --rate as well".to_owned(),
            ));
        }
        if self.arrivals != Spacing::Constant && self.replay.is_some() {
            return Err(LoadError::Usage(
                "--replay spaces requests as they were recorded; leave out --arrivals".to_owned(),
            ));
        }
        Ok(())
    }
}

/// Parses an instant after 2001, so that a number of seconds to wait is not taken for one.
fn unix_time(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(time) if (1e9..1e11).contains(&time) => Ok(time),
        _ => Err("must be seconds since 1970, as `date +%s` tells them".to_owned()),
    }
}

/// Parses how many times as fast a replay is.
fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if (1e-3..=1e3).contains(&speed) => Ok(speed),
        _ => Err("must be a number between 0.001 and 1000".to_owned()),
    }
}

/// Parses the length of a window.
fn window(text: &str) -> Result<Duration, String> {
    match timespan::parse(text)? {
        time if time < Duration::from_millis(10) => Err("must be at least 10ms".to_owned()),
        time => Ok(time),
    }
}

/// Highest rate, in requests per second: more than any machine sends.
pub(crate) const RATE_MAX: f64 = 1e9;

/// Parses a rate, in requests per second.
///
/// # Errors
/// A sentence that says what is accepted.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && (1e-3..=RATE_MAX).contains(&rate) => Ok(rate),
        _ => Err("must be a number of requests per second between 0.001 and 1e9".to_owned()),
    }
}
