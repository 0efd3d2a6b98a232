//! The tables of metrics as a page of the reference.

use std::fmt::Write as _;

use super::{Metric, admission, cache_tier, process, queue_tier, requests};

const BEGIN: &str = "# Metrics

What `GET /metrics` gives, in the text format of Prometheus 0.0.4. Written by `make reference` from the table in the program
(`crates/server/src/metrics/`).

Times are seconds, sizes bytes. What ends in `_total` only grows until the process ends, of a route or a pool as long as the file
has it: ask for its `rate()`. Histograms have buckets from 10 µs to 10 s; an observation up to 1/128 longer than the end of a bucket
may count to it, and sums are exact. They and the counters of requests are those of the windows that are over (`--window`). A kind of request has its series
from its first request on. The time that a `POP … BLOCK` waits for a message is in no figure of requests.

    histogram_quantile(0.99, sum by (kind, le) (rate(posthaste_request_duration_seconds_bucket[1m])))

Where accounts are closed, `/metrics` needs one: `basic_auth` in `scrape_configs`. Queues are shown as far as that account may
see them. Rules and a dashboard that use these metrics are in `deploy/prometheus/` and `deploy/grafana/`.
";

/// Returns the page.
#[must_use]
pub fn page() -> String {
    let mut text = BEGIN.to_owned();
    let common = || process::metrics().chain(admission::metrics()).chain(requests::METRICS);
    let own = |metric: &&Metric| !common().any(|other| other.name == metric.name);
    section(&mut text, "Both tiers", common());
    section(&mut text, "posthaste queue", queue_tier::metrics().filter(own));
    section(&mut text, "posthaste cache", cache_tier::metrics().filter(own));
    text
}

fn section(text: &mut String, title: &str, metrics: impl Iterator<Item = &'static Metric>) {
    // Writing to a String does not fail.
    let _ = write!(text, "\n## {title}\n\n| metric | type | labels | says |\n| --- | --- | --- | --- |\n");
    for Metric { name, kind, labels, help } in metrics {
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        let _ = writeln!(text, "| `{name}` | {} | {} | {help} |", kind.name(), labels.join(", "));
    }
}

#[cfg(test)]
mod tests {
    use posthaste_measure::Events;

    use super::*;
    use crate::metrics::{MetricType, store};
    use crate::path::worker::Store;
    use crate::queue::choice::StoreChoice;
    use crate::time::Time;

    #[test]
    fn names_follow_the_conventions() {
        for metric in queue_tier::metrics().chain(cache_tier::metrics()) {
            let Metric { name, kind, help, .. } = metric;
            assert!(name.starts_with("posthaste_") || name.starts_with("process_"), "{name}");
            assert_eq!(name.ends_with("_total"), *kind == MetricType::Counter, "{name}");
            assert!(help.ends_with('.') && !help.contains('\n'), "{name}: {help}");
        }
    }

    #[test]
    fn no_two_metrics_of_a_tier_have_the_same_name() {
        for metrics in [queue_tier::metrics().collect::<Vec<_>>(), cache_tier::metrics().collect()] {
            let mut names: Vec<&str> = metrics.iter().map(|metric| metric.name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), metrics.len());
        }
    }

    #[test]
    fn every_figure_of_the_stores_in_this_process_has_its_metric() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let clock = posthaste_measure::Clock::start();
        for choice in [StoreChoice::Memory, StoreChoice::Mock(1), StoreChoice::Embedded(dir.path().into())] {
            let store: std::sync::Arc<dyn Store> =
                choice.open(None, None, Time::start(), clock, &Events::default()).expect("it opens");
            for (figure, _) in store.figures() {
                assert!(store::has_row(figure), "{choice}: {figure}");
            }
        }
    }
}
