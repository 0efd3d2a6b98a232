//! Figures for Prometheus, in its text format, version 0.0.4.
//!
//! Every metric is a row in a table, with its name, type and help, and often how it is read: a page of `/metrics` and
//! the reference in `docs/reference/metrics.md` are both written from these rows, so neither can lack a metric or name
//! it otherwise. Names follow Prometheus' conventions: base units, `_total` for what only grows.

pub mod process; // the process, of any tier

pub mod requests; // requests that were answered, of any tier

pub mod admission; // connections and logins, admitted or refused, of any tier

pub mod queue_tier; // the queue tier's own

pub mod store; // figures that its stores report

pub mod queues; // its fullest queues

pub mod cache_tier; // the cache tier's own

pub mod reference; // the page of the reference, from the same tables

use std::fmt::{Display, Write as _};

use posthaste_measure::Distribution;

/// The type of a metric in Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricType {
    /// Only grows, until the process ends.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Cumulative buckets, a sum and a count.
    Histogram,
}

impl MetricType {
    /// Returns the type's word in the text format.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric, without its values.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// The metric's name.
    pub name: &'static str,
    /// The metric's type.
    pub kind: MetricType,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// The meaning of the values, in a sentence.
    pub help: &'static str,
}

impl Metric {
    /// Returns a metric without labels.
    #[must_use]
    pub const fn unlabeled(name: &'static str, kind: MetricType, help: &'static str) -> Self {
        Self { name, kind, labels: &[], help }
    }
}

/// A metric of one value, and how it is read from `T`.
pub struct SingleValue<T> {
    /// The metric.
    pub metric: Metric,
    /// Reads the value; None: the metric is absent.
    pub read: fn(&T) -> Option<f64>,
}

/// Upper bounds of the buckets of every histogram, in nanoseconds and, as written, in seconds.
const BUCKETS: [(u64, &str); 19] = [
    (10_000, "0.00001"),
    (25_000, "0.000025"),
    (50_000, "0.00005"),
    (100_000, "0.0001"),
    (250_000, "0.00025"),
    (500_000, "0.0005"),
    (1_000_000, "0.001"),
    (2_500_000, "0.0025"),
    (5_000_000, "0.005"),
    (10_000_000, "0.01"),
    (25_000_000, "0.025"),
    (50_000_000, "0.05"),
    (100_000_000, "0.1"),
    (250_000_000, "0.25"),
    (500_000_000, "0.5"),
    (1_000_000_000, "1"),
    (2_500_000_000, "2.5"),
    (5_000_000_000, "5"),
    (10_000_000_000, "10"),
];

/// A page of metrics being written.
#[derive(Debug, Default)]
pub struct Page(String);

impl Page {
    /// Returns the text of the page.
    #[must_use]
    pub fn into_text(self) -> String {
        self.0
    }

    /// Writes the lines that introduce a metric; its values must follow at once.
    pub fn header(&mut self, metric: &Metric) {
        let Metric { name, kind, help, .. } = metric;
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {}\n", kind.name());
    }

    /// Writes one value; `labels` are in the order of the metric's.
    pub fn value(&mut self, metric: &Metric, labels: &[&str], value: impl Display) {
        self.0.push_str(metric.name);
        self.labels(metric.labels.iter().copied().zip(labels.iter().copied()));
        let _ = writeln!(self.0, " {value}");
    }

    /// Writes a distribution of nanoseconds as buckets in seconds.
    pub fn histogram(&mut self, metric: &Metric, labels: &[&str], distribution: &Distribution) {
        let bounds: Vec<u64> = BUCKETS.iter().map(|(ns, _)| *ns).collect();
        let counts = distribution.not_longer_than(&bounds);
        self.write_histogram(metric, labels, &counts, distribution.count(), distribution.sum_ns() as f64);
    }

    /// Writes a histogram from counts in finer buckets: pairs of the upper bound in microseconds and the count. The sum
    /// is only as exact as these buckets are fine.
    pub fn histogram_of_fine_buckets(&mut self, metric: &Metric, labels: &[&str], fine: &[(f64, u64)]) {
        let up_to = |ns: u64| fine.iter().filter(move |(bound_us, _)| bound_us * 1000.0 <= ns as f64);
        let counts: Vec<u64> =
            BUCKETS.iter().map(|(ns, _)| up_to(*ns).map(|(_, count)| count).sum()).collect();
        let total = fine.iter().map(|(_, count)| count).sum();
        let sum_ns = fine.iter().map(|(bound_us, count)| bound_us * 1000.0 * *count as f64).sum();
        self.write_histogram(metric, labels, &counts, total, sum_ns);
    }

    /// Writes a histogram. `counts` are cumulative, one for each of [`BUCKETS`].
    fn write_histogram(&mut self, metric: &Metric, labels: &[&str], counts: &[u64], total: u64, sum_ns: f64) {
        let bounds = BUCKETS.iter().map(|(_, seconds)| *seconds).chain(["+Inf"]);
        let pairs = || metric.labels.iter().copied().zip(labels.iter().copied());
        for (bound, count) in bounds.zip(counts.iter().chain([&total])) {
            let _ = write!(self.0, "{}_bucket", metric.name);
            self.labels(pairs().chain([("le", bound)]));
            let _ = writeln!(self.0, " {count}");
        }
        let _ = write!(self.0, "{}_sum", metric.name);
        self.labels(pairs());
        let _ = writeln!(self.0, " {}", sum_ns / 1e9);
        let _ = write!(self.0, "{}_count", metric.name);
        self.labels(pairs());
        let _ = writeln!(self.0, " {total}");
    }

    /// Writes the metrics of a table, without those that are absent.
    pub fn single_values<T>(&mut self, table: &[SingleValue<T>], of: &T) {
        for SingleValue { metric, read } in table {
            if let Some(value) = read(of) {
                self.header(metric);
                self.value(metric, &[], value);
            }
        }
    }

    /// Writes labels in braces; nothing if there are none.
    fn labels<'a>(&mut self, labels: impl Iterator<Item = (&'a str, &'a str)>) {
        let mut separator = '{';
        for (name, value) in labels {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{separator}{name}=\"{value}\"");
            separator = ',';
        }
        if separator == ',' {
            self.0.push('}');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRIC: Metric =
        Metric { name: "posthaste_x_seconds", kind: MetricType::Histogram, labels: &["kind"], help: "X." };

    #[test]
    fn buckets_are_cumulative_and_end_with_the_total() {
        let mut distribution = Distribution::new();
        for ns in [5_000, 60_000, 70_000, 3_000_000_000] {
            distribution.record(ns, 1);
        }
        let mut page = Page::default();
        page.histogram(&METRIC, &["send"], &distribution);
        let text = page.into_text();
        let counts: Vec<u64> = text
            .lines()
            .filter(|line| line.starts_with("posthaste_x_seconds_bucket"))
            .filter_map(|line| line.rsplit(' ').next()?.parse().ok())
            .collect();
        assert_eq!(counts, [1, 1, 1, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 4, 4, 4]);
        assert!(text.contains("posthaste_x_seconds_bucket{kind=\"send\",le=\"+Inf\"} 4\n"), "{text}");
        assert!(text.ends_with(
            "posthaste_x_seconds_sum{kind=\"send\"} 3.000135\nposthaste_x_seconds_count{kind=\"send\"} 4\n"
        ));
    }

    #[test]
    fn a_finer_bucket_counts_where_its_upper_bound_is() {
        let mut page = Page::default();
        page.histogram_of_fine_buckets(&METRIC, &["get"], &[(9.0, 2), (10.0, 1), (11.0, 4), (2e7, 1)]);
        let text = page.into_text();
        for line in [
            "_bucket{kind=\"get\",le=\"0.00001\"} 3",
            "_bucket{kind=\"get\",le=\"0.000025\"} 7",
            "_count{kind=\"get\"} 8",
        ] {
            assert!(text.contains(&format!("posthaste_x_seconds{line}\n")), "{text}");
        }
        assert!(text.contains("le=\"10\"} 7\n") && text.contains("le=\"+Inf\"} 8\n"), "{text}");
    }

    #[test]
    fn the_bounds_of_buckets_in_seconds_are_those_in_nanoseconds() {
        for (ns, seconds) in BUCKETS {
            assert_eq!(seconds.parse::<f64>().map(|seconds| (seconds * 1e9).round()), Ok(ns as f64));
        }
        assert!(BUCKETS.is_sorted());
    }

    #[test]
    fn a_label_cannot_end_its_quotes() {
        let mut page = Page::default();
        page.value(&METRIC, &["a\"b\\c\nd"], 1);
        assert_eq!(page.into_text(), "posthaste_x_seconds{kind=\"a\\\"b\\\\c\\nd\"} 1\n");
    }
}
