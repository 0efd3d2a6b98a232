//! `windows.csv`: the figures of every window, a row per kind that occurred and always one for `all`.
//!
//! A cell is empty where nothing was measured: zero would be a measurement. Gauges are levels of the whole
//! program, so they stand in the rows of `all` only; their columns are those of the first window.

use std::fmt::Write;
use std::path::Path;

use super::RecordError;
use super::lines::LineFile;
use crate::distribution::LatencySummary;
use crate::figures::{KindFigures, Window};

#[derive(Debug)]
pub(super) struct WindowTable {
    lines: LineFile,
    /// None until the first window has named them.
    gauges: Option<Vec<&'static str>>,
}

impl WindowTable {
    pub(super) fn create(dir: &Path) -> Result<Self, RecordError> {
        Ok(Self { lines: LineFile::create(dir, "windows.csv", "")?, gauges: None })
    }

    pub(super) fn append(&mut self, window: &Window) -> Result<(), RecordError> {
        let mut rows = String::new();
        let gauges = self.gauges.get_or_insert_with(|| {
            let gauges: Vec<_> = window.gauges.keys().copied().collect();
            rows.push_str(&head(&window.figures.all, &gauges));
            gauges
        });
        let figures = &window.figures;
        for kind in figures.kinds.iter().chain([&figures.all]) {
            let _ = write!(rows, "{:.6},{:.6},", window.start_s, figures.length_s);
            kind_cells(&mut rows, kind);
            for gauge in gauges.iter() {
                let level = window.gauges.get(gauge).filter(|_| kind.kind == "all");
                let _ = write!(rows, ",{}", level.map(u64::to_string).unwrap_or_default());
            }
            rows.push('\n');
        }
        self.lines.append(&rows)
    }
}

fn head(all: &KindFigures, gauges: &[&str]) -> String {
    let mut head = "start_s,length_s,kind,requests,ok,null,errors,requests_per_s".to_owned();
    all.stage_means_us.iter().for_each(|(column, _)| head.extend([",", column]));
    all.counted_means.iter().for_each(|(column, _)| head.extend([",", column]));
    for (stage, _) in all.all_spreads() {
        let _ = write!(head, ",{stage}_count");
        for figure in ["mean", "stdev", "p50", "p90", "p99", "p99_9", "max"] {
            let _ = write!(head, ",{stage}_{figure}_us");
        }
    }
    gauges.iter().for_each(|gauge| head.extend([",", gauge]));
    head.push('\n');
    head
}

fn kind_cells(row: &mut String, kind: &KindFigures) {
    let KindFigures { kind: name, requests, ok, null, errors, requests_per_s, .. } = kind;
    let _ = write!(row, "{name},{requests},{ok},{null},{errors},{requests_per_s:.3}");
    let means = kind.stage_means_us.iter().chain(kind.counted_means.iter());
    means.for_each(|(_, mean)| over(row, *requests, [*mean]));
    for (_, summary) in kind.all_spreads() {
        let LatencySummary { count, mean_us, stdev_us, p50_us, p90_us, p99_us, p99_9_us, max_us } = summary;
        let _ = write!(row, ",{count}");
        over(row, *count, [*mean_us, *stdev_us, *p50_us, *p90_us, *p99_us, *p99_9_us, *max_us]);
    }
}

/// Appends cells of figures over `count` requests; they are empty when there was none.
fn over<const N: usize>(row: &mut String, count: u64, figures: [f64; N]) {
    for figure in figures {
        row.push(',');
        if count > 0 {
            let _ = write!(row, "{figure:.3}");
        }
    }
}
