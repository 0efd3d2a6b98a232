//! `latency.hlog`: every window's histograms in the HdrHistogram log format 1.3, readable by its tools.
//!
//! Tags are `kind/stage`. Values are nanoseconds, which those tools assume; times are seconds since the run's
//! start, which `BaseTime` puts on the wall clock. The crate writes the lines, the head is ours because the
//! crate knows neither the version line nor the legend.

use std::path::Path;
use std::time::Duration;

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use super::RecordError;
use super::lines::LineFile;
use crate::clock::Clock;
use crate::meter::WindowEnd;

pub(super) struct HistogramLog {
    lines: LineFile,
    serializer: V2DeflateSerializer,
}

impl std::fmt::Debug for HistogramLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.lines.fmt(f)
    }
}

impl HistogramLog {
    pub(super) fn create(dir: &Path, clock: &Clock) -> Result<Self, RecordError> {
        let start_s = clock.started_unix_ns() as f64 / 1e9;
        let head = format!(
            "#[Histogram log format version 1.3]\n\
             #[StartTime: {start_s:.3} (seconds since epoch)]\n\
             #[BaseTime: {start_s:.3} (seconds since epoch)]\n\
             #[Values and Interval_Max are nanoseconds; Tag is kind/stage]\n\
             \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n"
        );
        let lines = LineFile::create(dir, "latency.hlog", &head)?;
        Ok(Self { lines, serializer: V2DeflateSerializer::new() })
    }

    /// Appends a line for each kind that occurred and each stage that was passed.
    pub(super) fn append(&mut self, end: &WindowEnd) -> Result<(), RecordError> {
        let start = Duration::from_secs_f64(end.window.start_s);
        let length = Duration::from_secs_f64(end.window.figures.length_s);
        let mut text = Vec::new();
        let mut log = IntervalLogWriterBuilder::new()
            .begin_log_with(&mut text, &mut self.serializer)
            .expect("memory takes every write");
        for (kind, tally) in end.tallies.active() {
            for (stage, distribution) in tally.distributions().filter(|(_, d)| d.count() > 0) {
                let tag = format!("{kind}/{stage}");
                log.write_histogram(distribution.histogram(), start, length, Tag::new(&tag))
                    .expect("memory takes every write, and no count comes near the format's limit of 2^63");
            }
        }
        self.lines.append(&String::from_utf8_lossy(&text))
    }

    #[cfg(test)]
    pub(super) fn fill_disk(&mut self) {
        self.lines.fill_disk();
    }
}
