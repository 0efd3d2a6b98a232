//! Figures for Prometheus, in its text format, version 0.0.4.
//!
//! Every metric is a row in one table with its name, type, help and how it is read: a page of `/metrics` and the
//! reference in `docs/reference/metrics.md` are both written from these rows, so neither can lack a metric or name it
//! otherwise. Names follow Prometheus' conventions: base units, `_total` for what only grows.

pub mod requests; // what was answered, of any tier

pub mod process; // the process, of any tier

pub mod entrance; // who was let in, of any tier

pub mod tier; // what the queue tier has

pub mod store; // what its stores tell

pub mod queues; // the largest queues

pub mod router; // what the cache tier has

pub mod reference; // the same tables for readers

use std::fmt::{Display, Write as _};

use posthaste_measure::Distribution;

/// The type of a metric in Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, until the process ends.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Cumulative buckets, a sum and a count.
    Histogram,
}

impl Kind {
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

/// The head of a metric, written before its values.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// The metric's name.
    pub name: &'static str,
    /// The metric's type.
    pub kind: Kind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What the metric says, in a sentence.
    pub help: &'static str,
}

impl Head {
    /// Returns the head of a metric without labels.
    #[must_use]
    pub const fn plain(name: &'static str, kind: Kind, help: &'static str) -> Self {
        Self { name, kind, labels: &[], help }
    }
}

/// A metric of one value, and how it is read from `T`.
pub struct Single<T> {
    /// The metric's head.
    pub head: Head,
    /// Reads the value; None: the metric does not apply.
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
    /// Returns the text of the page so far.
    #[must_use]
    pub fn text(self) -> String {
        self.0
    }

    /// Writes the head of a metric; its values must follow at once.
    pub fn head(&mut self, head: &Head) {
        let Head { name, kind, help, .. } = head;
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {}\n", kind.name());
    }

    /// Writes one value; `labels` are in the order of the head's.
    pub fn value(&mut self, head: &Head, labels: &[&str], value: impl Display) {
        self.0.push_str(head.name);
        self.labels(head.labels.iter().copied().zip(labels.iter().copied()));
        let _ = writeln!(self.0, " {value}");
    }

    /// Writes a distribution of nanoseconds as buckets in seconds.
    pub fn histogram(&mut self, head: &Head, labels: &[&str], distribution: &Distribution) {
        let bounds: Vec<u64> = BUCKETS.iter().map(|(ns, _)| *ns).collect();
        let counts = distribution.not_longer_than(&bounds);
        self.buckets(head, labels, &counts, distribution.count(), distribution.sum_ns() as f64);
    }

    /// Writes a histogram from counts in finer buckets: pairs of the upper bound in microseconds and the count. The sum
    /// is only as exact as these buckets are fine.
    pub fn counts(&mut self, head: &Head, labels: &[&str], fine: &[(f64, u64)]) {
        let below = |ns: u64| fine.iter().filter(move |(end, _)| end * 1000.0 <= ns as f64);
        let counts: Vec<u64> =
            BUCKETS.iter().map(|(ns, _)| below(*ns).map(|(_, count)| count).sum()).collect();
        let all = fine.iter().map(|(_, count)| count).sum();
        let sum_ns = fine.iter().map(|(end, count)| end * 1000.0 * *count as f64).sum();
        self.buckets(head, labels, &counts, all, sum_ns);
    }

    fn buckets(&mut self, head: &Head, labels: &[&str], counts: &[u64], all: u64, sum_ns: f64) {
        let ends = BUCKETS.iter().map(|(_, seconds)| *seconds).chain(["+Inf"]);
        let named = || head.labels.iter().copied().zip(labels.iter().copied());
        for (end, count) in ends.zip(counts.iter().chain([&all])) {
            let _ = write!(self.0, "{}_bucket", head.name);
            self.labels(named().chain([("le", end)]));
            let _ = writeln!(self.0, " {count}");
        }
        let _ = write!(self.0, "{}_sum", head.name);
        self.labels(named());
        let _ = writeln!(self.0, " {}", sum_ns / 1e9);
        let _ = write!(self.0, "{}_count", head.name);
        self.labels(named());
        let _ = writeln!(self.0, " {all}");
    }

    /// Writes the metrics of a table, as far as they apply.
    pub fn singles<T>(&mut self, table: &[Single<T>], of: &T) {
        for Single { head, read } in table {
            if let Some(value) = read(of) {
                self.head(head);
                self.value(head, &[], value);
            }
        }
    }

    fn labels<'a>(&mut self, labels: impl Iterator<Item = (&'a str, &'a str)>) {
        let mut before = '{';
        for (name, value) in labels {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{before}{name}=\"{value}\"");
            before = ',';
        }
        if before == ',' {
            self.0.push('}');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: Head =
        Head { name: "posthaste_x_seconds", kind: Kind::Histogram, labels: &["kind"], help: "X." };

    #[test]
    fn buckets_are_cumulative_and_end_with_all() {
        let mut distribution = Distribution::new();
        for ns in [5_000, 60_000, 70_000, 3_000_000_000] {
            distribution.record(ns, 1);
        }
        let mut page = Page::default();
        page.histogram(&HEAD, &["send"], &distribution);
        let text = page.text();
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
    fn finer_buckets_count_where_they_end() {
        let mut page = Page::default();
        page.counts(&HEAD, &["get"], &[(9.0, 2), (10.0, 1), (11.0, 4), (2e7, 1)]);
        let text = page.text();
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
    fn the_ends_of_buckets_are_what_they_are_called() {
        for (ns, seconds) in BUCKETS {
            assert_eq!(seconds.parse::<f64>().map(|seconds| (seconds * 1e9).round()), Ok(ns as f64));
        }
        assert!(BUCKETS.is_sorted());
    }

    #[test]
    fn a_label_cannot_end_its_quotes() {
        let mut page = Page::default();
        page.value(&HEAD, &["a\"b\\c\nd"], 1);
        assert_eq!(page.text(), "posthaste_x_seconds{kind=\"a\\\"b\\\\c\\nd\"} 1\n");
    }
}
