//! The metrics of the queue tier: the line, readiness, the disk of its store.

use std::path::Path;

use rustix::fs::{StatVfs, statfs, statvfs};

use super::{Metric, MetricType, Page, SingleValue, admission, process, queues, requests, store};
use crate::queue_shared::QueueShared;

static SINGLE_VALUES: [SingleValue<QueueShared>; 8] = [
    SingleValue {
        metric: Metric::unlabeled(
            "posthaste_line_requests",
            MetricType::Gauge,
            "Requests that wait for a worker.",
        ),
        read: |shared| Some(shared.line.len() as f64),
    },
    SingleValue {
        metric: Metric::unlabeled(
            "posthaste_line_requests_max",
            MetricType::Gauge,
            "Most requests that may wait (--line-limit); more get BUSY.",
        ),
        read: |shared| Some(shared.line.requests_max() as f64),
    },
    SingleValue {
        metric: Metric::unlabeled(
            "posthaste_ready",
            MetricType::Gauge,
            "1 while the store accepts changes, as /readyz says.",
        ),
        read: |shared| Some(f64::from(u8::from(shared.trouble().is_none()))),
    },
    SingleValue {
        metric: Metric::unlabeled(
            "posthaste_slow_requests_total",
            MetricType::Counter,
            "Requests that took longer than --slow; absent without it.",
        ),
        read: |shared| shared.slow.as_ref().map(|slow| slow.count() as f64),
    },
    SingleValue {
        metric: Metric::unlabeled(
            "posthaste_traces_lost_total",
            MetricType::Counter,
            "Messages with traces that the collector was not told of; absent without --traces.",
        ),
        read: |shared| shared.tracer.as_ref().map(|tracer| tracer.lost() as f64),
    },
    SingleValue {
        metric: Metric::unlabeled(
            "posthaste_disk_free_bytes",
            MetricType::Gauge,
            "Free space on the disk of an embedded store, for users without privileges.",
        ),
        read: |shared| {
            filesystem(shared.store_dir.as_deref()).map(|fs| fs.f_bavail as f64 * fs.f_frsize as f64)
        },
    },
    SingleValue {
        metric: Metric::unlabeled(
            "posthaste_disk_size_bytes",
            MetricType::Gauge,
            "Size of the disk that an embedded store is on.",
        ),
        read: |shared| {
            filesystem(shared.store_dir.as_deref()).map(|fs| fs.f_blocks as f64 * fs.f_frsize as f64)
        },
    },
    SingleValue {
        metric: Metric::unlabeled(
            "posthaste_disk_is_memory",
            MetricType::Gauge,
            "1 if the directory of an embedded store is in a file system that is lost when the machine restarts (tmpfs, ramfs).",
        ),
        read: |shared| is_in_memory(shared.store_dir.as_deref()?).map(|is| f64::from(u8::from(is))),
    },
];

/// Types of file systems that keep files in memory and nowhere else, as statfs(2) says them.
const TMPFS: u32 = 0x0102_1994;
const RAMFS: u32 = 0x8584_58f6;

/// Returns whether a directory lies in memory, where a sync waits for nothing.
fn is_in_memory(dir: &Path) -> Option<bool> {
    // The number has 32 bits, in a field whose width and sign differ from system to system.
    statfs(dir).ok().map(|fs| [TMPFS, RAMFS].contains(&(fs.f_type as u32)))
}

fn filesystem(dir: Option<&Path>) -> Option<StatVfs> {
    statvfs(dir?).ok()
}

/// Returns all metrics of the page, in its order.
pub fn metrics() -> impl Iterator<Item = &'static Metric> {
    process::metrics()
        .chain(admission::metrics())
        .chain(SINGLE_VALUES.iter().map(|single| &single.metric))
        .chain([&admission::LOGINS, &admission::ACCOUNTS_FILE])
        .chain(store::metrics())
        .chain(requests::METRICS)
        .chain(queues::metrics())
}

/// Returns the page with all metrics but those of queues, which must be asked of the store.
#[must_use]
pub fn page(shared: &QueueShared) -> Page {
    let mut page = Page::default();
    process::write(&mut page, &shared.clock);
    page.single_values(&SINGLE_VALUES, shared);
    admission::write(&mut page, &shared.gate, shared.logins());
    store::write(&mut page, &shared.store.figures());
    requests::write(&mut page, &shared.meter);
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_in_memory_is_told_from_one_on_a_disk() {
        assert_eq!(is_in_memory(Path::new("/dev/shm")), Some(true));
        assert_eq!(is_in_memory(Path::new("/proc")), Some(false));
        assert_eq!(is_in_memory(Path::new("/nowhere")), None);
    }
}
