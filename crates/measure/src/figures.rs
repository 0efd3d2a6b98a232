//! Figures of one window or of the whole run, ready for JSON.
//!
//! Names carry their units, as everywhere a figure leaves the program. The scheme decides which stages there
//! are, so they are lists of names and figures, which become fields in JSON.

use std::collections::BTreeMap;

use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::distribution::LatencySummary;

/// Figures with their names, in a meaningful order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Named<T>(pub(crate) Vec<(&'static str, T)>);

impl<T> Named<T> {
    /// Returns the figure of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&T> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, figure)| figure)
    }

    /// Returns names and figures in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &T)> {
        self.0.iter().map(|(name, figure)| (*name, figure))
    }
}

impl<T: Serialize> Serialize for Named<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, figure) in &self.0 {
            map.serialize_entry(name, figure)?;
        }
        map.end()
    }
}

/// One kind of requests over some time.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
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
    /// Mean time of each stage over all requests, by column; they add up to the mean response.
    #[serde(flatten)]
    pub stage_means_us: Named<f64>,
    /// Mean of the scheme's count over all requests, by column; empty when the scheme counts nothing.
    #[serde(flatten)]
    pub counted_means: Named<f64>,
    /// Distributions of the stages that keep one, over the requests that passed them, and of the time reported by
    /// the store.
    #[serde(flatten)]
    pub spreads: Named<LatencySummary>,
    /// Time from the first to the last stamp, of all requests.
    pub response: LatencySummary,
}

impl KindFigures {
    /// Returns the distribution of that name; an empty one when there is none.
    #[must_use]
    pub fn spread(&self, name: &str) -> LatencySummary {
        if name == "response" {
            return self.response;
        }
        self.spreads.get(name).copied().unwrap_or_default()
    }

    /// Returns all distributions with their names, the response last.
    pub(crate) fn all_spreads(&self) -> impl Iterator<Item = (&'static str, &LatencySummary)> {
        self.spreads.iter().chain([("response", &self.response)])
    }
}

/// All kinds over some time. Prints as a table.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Figures {
    /// Length of that time.
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
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Window {
    /// Begin, in seconds since the program's start.
    pub start_s: f64,
    /// Begin on the wall clock, as counted from the program's start.
    pub start_unix_ms: u64,
    /// Figures of this window.
    #[serde(flatten)]
    pub figures: Figures,
    /// Levels at the window's end, such as the number of waiting requests.
    pub gauges: BTreeMap<&'static str, u64>,
}
