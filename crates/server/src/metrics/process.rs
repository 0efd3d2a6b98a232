//! The process itself, of any tier, under the names that Prometheus' own libraries use.

use std::fs;

use posthaste_measure::{Clock, cpu_ticks};
use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

use super::{Metric, MetricType, Page, SingleValue};
use crate::info::VERSION;

const BUILD: Metric = Metric {
    name: "posthaste_build_info",
    kind: MetricType::Gauge,
    labels: &["version"],
    help: "1; the version of the program is its label.",
};

static SINGLE_VALUES: [SingleValue<Clock>; 7] = [
    SingleValue {
        metric: Metric::unlabeled("posthaste_uptime_seconds", MetricType::Gauge, "Time since the start."),
        read: |clock| Some(clock.now() as f64 / 1e9),
    },
    SingleValue {
        metric: Metric::unlabeled(
            "posthaste_clock_seconds",
            MetricType::Gauge,
            "The machine's wall clock, in seconds since 1970; compare it with when it was asked.",
        ),
        read: |_| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.ok().map(|now| now.as_secs_f64())
        },
    },
    SingleValue {
        metric: Metric::unlabeled(
            "process_start_time_seconds",
            MetricType::Gauge,
            "When the process started, in seconds since 1970.",
        ),
        read: |clock| Some(clock.started_unix_ns() as f64 / 1e9),
    },
    SingleValue {
        metric: Metric::unlabeled(
            "process_cpu_seconds_total",
            MetricType::Counter,
            "User and system time that the process has used.",
        ),
        read: |_| {
            let [user, system] = cpu_ticks("/proc/self/stat")?;
            Some((user + system) as f64 / clock_ticks_per_second() as f64)
        },
    },
    SingleValue {
        metric: Metric::unlabeled(
            "process_resident_memory_bytes",
            MetricType::Gauge,
            "Memory that the process has in RAM.",
        ),
        read: |_| {
            let text = fs::read_to_string("/proc/self/statm").ok()?;
            let pages: f64 = text.split(' ').nth(1)?.parse().ok()?;
            Some(pages * page_size() as f64)
        },
    },
    SingleValue {
        metric: Metric::unlabeled(
            "process_open_fds",
            MetricType::Gauge,
            "Open files, sockets among them; every client is one.",
        ),
        read: |_| Some(fs::read_dir("/proc/self/fd").ok()?.count() as f64),
    },
    SingleValue {
        metric: Metric::unlabeled(
            "process_max_fds",
            MetricType::Gauge,
            "How many files the process may have open.",
        ),
        read: |_| getrlimit(Resource::Nofile).current.map(|limit| limit as f64),
    },
];

/// Returns the metrics of this file.
pub fn metrics() -> impl Iterator<Item = &'static Metric> {
    std::iter::once(&BUILD).chain(SINGLE_VALUES.iter().map(|single| &single.metric))
}

/// Writes the metrics.
pub fn write(page: &mut Page, clock: &Clock) {
    page.header(&BUILD);
    page.value(&BUILD, &[VERSION], 1);
    page.single_values(&SINGLE_VALUES, clock);
}
