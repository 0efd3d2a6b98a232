//! What is read off the instrument: the figures of one window or of a whole life, ready for JSON.
//!
//! Names carry their units, as everywhere a figure leaves the program.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::distribution::LatencySummary;

/// One kind of requests over some time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KindFigures {
    /// Name of the kind; `all` for all of them.
    pub kind: &'static str,
    /// Requests, however they ended.
    pub requests: u64,
    /// Requests done.
    pub ok: u64,
    /// Requests that found nothing to read.
    pub null: u64,
    /// Requests refused or failed.
    pub errors: u64,
    /// Requests per second.
    pub requests_per_s: f64,
    /// Mean from arrival to the waiting line, over all requests.
    pub parse_mean_us: f64,
    /// Mean from the waiting line to the backend, over all requests.
    pub dispatch_mean_us: f64,
    /// Mean from the backend's answer to ours, over all requests.
    pub reply_mean_us: f64,
    /// Time in the waiting line, of requests that waited.
    pub waiting: LatencySummary,
    /// Time with the backend, of requests that were served by it.
    pub service: LatencySummary,
    /// Time from arrival to answer, of all requests.
    pub response: LatencySummary,
}

impl KindFigures {
    /// The three distributions with their names.
    pub(crate) fn stages(&self) -> [(&'static str, &LatencySummary); 3] {
        [("waiting", &self.waiting), ("service", &self.service), ("response", &self.response)]
    }
}

/// All kinds over some time. Prints as a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// How long that was.
    pub length_s: f64,
    /// All kinds together.
    pub all: KindFigures,
    /// Kinds with at least one request.
    pub kinds: Vec<KindFigures>,
}

/// One closed window.
///
/// A request belongs to the window in which its thread handed it over, at most one turn of its loop after
/// its reply.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Window {
    /// Begin, in seconds since the program's start.
    pub start_s: f64,
    /// Begin on the wall clock, as counted from the program's start.
    pub start_unix_ms: u64,
    /// What happened.
    #[serde(flatten)]
    pub figures: Figures,
    /// Levels at the window's end, such as the line's length.
    pub gauges: BTreeMap<&'static str, u64>,
}
