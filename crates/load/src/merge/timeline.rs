//! One time for several records: where the clock of each begins on a clock that all share.
//!
//! On one machine that is the monotonic clock, and nothing is in doubt. Otherwise it is the wall clock of a server that
//! all of them loaded, and asked for the time before and after. Of each record the relation in the middle of what it
//! measured counts, and how far the clocks had drifted apart at both ends is part of its error. The error of all is the
//! sum of the two largest, since two records may be off in opposite directions. Without either clock, their own wall
//! clocks must do, with an unknown error.

use std::net::IpAddr;

use crate::error::LoadError;
use crate::merge::read::ReadRecord;

/// A window counts when no more of it than this lies outside of the common stretch: the thread that closes windows
/// may be a little late.
const OUTSIDE_SHARE_MAX: f64 = 0.05;

/// The common clock, and the stretch that all records measured.
#[derive(Debug)]
pub(super) struct Timeline {
    /// What the records' clocks have in common, in words.
    pub(super) clock: String,
    /// How far that clock may be off, in microseconds; None if unknown.
    pub(super) error_us: Option<f64>,
    /// For each record: the zero of its clock on the common one, in seconds after the first of these zeros.
    zeros_s: Vec<f64>,
    /// Begin and end of what all records measured, in seconds.
    pub(super) common_s: (f64, f64),
}

impl Timeline {
    /// Finds the common clock and the common stretch.
    ///
    /// # Errors
    /// There is no stretch that all of them measured.
    pub(super) fn of(records: &[ReadRecord]) -> Result<Self, LoadError> {
        let (clock, error_us, zeros_ns) = common_clock(records);
        let first = zeros_ns.iter().copied().min().unwrap_or_default();
        let zeros_s: Vec<f64> = zeros_ns.iter().map(|zero| (zero - first) as f64 / 1e9).collect();
        let measured = |(record, zero): (&ReadRecord, &f64)| {
            let (start, end) = record.measured().unwrap_or_default();
            (start + zero, end + zero)
        };
        let stretches: Vec<(f64, f64)> = records.iter().zip(&zeros_s).map(measured).collect();
        let latest = stretches.iter().enumerate().max_by(|a, b| a.1.0.total_cmp(&b.1.0));
        let earliest = stretches.iter().enumerate().min_by(|a, b| a.1.1.total_cmp(&b.1.1));
        let (Some((late, &(start, _))), Some((early, &(_, end)))) = (latest, earliest) else {
            return Err(LoadError::Usage("name the directories of the records to be merged".to_owned()));
        };
        if start >= end {
            return Err(LoadError::Failed(format!(
                "{} began to measure {:.1} s after {} had ended: they are no parts of one experiment; start them with \
                 the same --start-at",
                records[late].name,
                start - end,
                records[early].name
            )));
        }
        Ok(Self { clock, error_us, zeros_s, common_s: (start, end) })
    }

    /// Returns whether a window of the record at this place, in seconds of its clock, lies in the common stretch.
    pub(super) fn holds(&self, record: usize, start_s: f64, length_s: f64) -> bool {
        let start = start_s + self.zeros_s[record];
        let slack = length_s * OUTSIDE_SHARE_MAX;
        start >= self.common_s.0 - slack && start + length_s <= self.common_s.1 + slack
    }
}

/// Returns the common clock's name, its error, and the zero of each record's clock on it, in nanoseconds.
fn common_clock(records: &[ReadRecord]) -> (String, Option<f64>, Vec<i128>) {
    let starts = |clock: &str| records.iter().filter_map(|record| record.start_ns(clock)).collect::<Vec<_>>();
    let boot = records[0].boot_id();
    if boot.is_some() && records.iter().all(|record| record.boot_id() == boot) {
        return ("the monotonic clock of their machine".to_owned(), Some(0.0), starts("start_monotonic_ns"));
    }
    let relations: Vec<_> = records.iter().map(ReadRecord::relations).collect();
    let is_shared = |server: &str| relations.iter().all(|known| known.contains_key(server));
    let shared = relations[0].keys().find(|server| is_elsewhere(server) && is_shared(server));
    let unix = starts("start_unix_ns");
    let Some(server) = shared else {
        return ("their own wall clocks".to_owned(), None, unix);
    };
    let mut errors_us: Vec<f64> = relations.iter().map(|known| known[server].error_us).collect();
    errors_us.sort_by(f64::total_cmp);
    let error_us: f64 = errors_us.iter().rev().take(2).sum();
    let on_server =
        unix.iter().zip(&relations).map(|(start, known)| start + (known[server].offset_us * 1e3) as i128);
    (format!("the clock of {server}"), Some(error_us), on_server.collect())
}

/// Returns whether a server's address names the same server on every machine.
fn is_elsewhere(server: &str) -> bool {
    let host = server.rsplit_once(':').map_or(server, |(host, _)| host).trim_matches(['[', ']']);
    let is_loopback = host.parse().is_ok_and(|ip: IpAddr| ip.to_canonical().is_loopback());
    !(is_loopback || host == "localhost" || server.starts_with("unix:"))
}
