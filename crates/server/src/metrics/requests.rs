//! Counts and latencies of requests, of any tier: from the histograms that the collector keeps anyway, so requests pay
//! nothing for it. The figures cover the windows that have ended.

use posthaste_measure::{Ending, Meter};

use super::{Metric, MetricType, Page};

/// Requests by how they ended.
pub const REQUESTS: Metric = Metric {
    name: "posthaste_requests_total",
    kind: MetricType::Counter,
    labels: &["kind", "ending"],
    help: "Requests answered, by kind and ending (ok, null: nothing was there, error). What is refused before it \
           waits, for its size, its words or a missing role, is of kind session.",
};

/// How long requests took.
pub const DURATION: Metric = Metric {
    name: "posthaste_request_duration_seconds",
    kind: MetricType::Histogram,
    labels: &["kind"],
    help: "Time from the whole request being there to its answer being handed to the network.",
};

/// How long requests took in the stages whose distribution is kept.
pub const STAGE_DURATION: Metric = Metric {
    name: "posthaste_stage_duration_seconds",
    kind: MetricType::Histogram,
    labels: &["kind", "stage"],
    help: "Time in a stage, of the requests that passed it: waiting (in the line), service (the store or the servers), \
           and what the store tells of itself: sync (the disk) or statement (PostgreSQL).",
};

/// The time of all stages.
pub const STAGE_SUM: Metric = Metric {
    name: "posthaste_stage_seconds_total",
    kind: MetricType::Counter,
    labels: &["kind", "stage"],
    help: "Time that all requests together spent in each of the five stages parse, waiting, dispatch, service, reply; \
           divide its rate by that of posthaste_requests_total.",
};

/// The metrics of this file.
pub const METRICS: [&Metric; 4] = [&REQUESTS, &DURATION, &STAGE_DURATION, &STAGE_SUM];

/// The name of the distribution of whole requests among those of a kind; the others are of stages.
const WHOLE_REQUEST: &str = "response";

/// Writes the metrics.
pub fn write(page: &mut Page, meter: &Meter) {
    let tallies = meter.tallies();
    page.header(&REQUESTS);
    for (kind, tally) in tallies.active() {
        for ending in [Ending::Ok, Ending::Null, Ending::Error] {
            page.value(&REQUESTS, &[kind, ending.name()], tally.ended(ending));
        }
    }
    page.header(&DURATION);
    for (kind, tally) in tallies.active() {
        for (_, distribution) in tally.distributions().filter(|(name, _)| *name == WHOLE_REQUEST) {
            page.histogram(&DURATION, &[kind], distribution);
        }
    }
    page.header(&STAGE_DURATION);
    for (kind, tally) in tallies.active() {
        let stages =
            tally.distributions().filter(|(name, stage)| *name != WHOLE_REQUEST && stage.count() > 0);
        for (name, distribution) in stages {
            page.histogram(&STAGE_DURATION, &[kind, name], distribution);
        }
    }
    page.header(&STAGE_SUM);
    for (kind, tally) in tallies.active() {
        for (stage, ns) in tally.stages() {
            page.value(&STAGE_SUM, &[kind, stage], ns as f64 / 1e9);
        }
    }
}
