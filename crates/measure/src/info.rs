//! The figures as lines of `name:value`, as clients of INFO expect them.
//!
//! Rates and percentiles are of the last closed window, counts of the whole run. The text has no section head,
//! because the caller decides where it stands. Levels are left to the caller too, who knows their current values.

use std::fmt::Write;

use crate::figures::KindFigures;
use crate::meter::Meter;

impl Meter {
    /// Returns lines of `name:value`, each ended by CRLF.
    #[must_use]
    pub fn info(&self) -> String {
        let totals = self.totals();
        let mut info = Lines::default();
        info.line("measured_s", format_args!("{:.3}", totals.length_s));
        info.line("now_s", format_args!("{:.6}", self.clock().now() as f64 / 1e9));
        info.line("requests_so_far", self.requests_so_far());
        info.line("requests_total", totals.all.requests);
        info.line("nulls_total", totals.all.null);
        info.line("errors_total", totals.all.errors);
        let window = self.last_window();
        if let Some(window) = &window {
            let all = &window.figures.all;
            info.line("window_s", format_args!("{:.3}", window.figures.length_s));
            info.line("requests_per_s", format_args!("{:.1}", all.requests_per_s));
            for (stage, summary) in all.all_spreads() {
                info.line(&format!("{stage}_p50_us"), format_args!("{:.1}", summary.p50_us));
                info.line(&format!("{stage}_p99_us"), format_args!("{:.1}", summary.p99_us));
            }
        }
        for total in &totals.kinds {
            let kinds = window.iter().flat_map(|window| &window.figures.kinds);
            info.kind(total, kinds.clone().find(|kind| kind.kind == total.kind));
        }
        info.0
    }
}

#[derive(Default)]
struct Lines(String);

impl Lines {
    fn line(&mut self, name: &str, value: impl std::fmt::Display) {
        // Writing to a String cannot fail.
        let _ = write!(self.0, "{name}:{value}\r\n");
    }

    /// Adds one kind: its counts of the whole run and, if it occurred in the last window, that window's percentiles.
    fn kind(&mut self, total: &KindFigures, window: Option<&KindFigures>) {
        let mut value = format!(
            "requests={},ok={},null={},errors={}",
            total.requests, total.ok, total.null, total.errors
        );
        if let Some(window) = window {
            let _ = write!(value, ",requests_per_s={:.1}", window.requests_per_s);
            for (stage, summary) in window.all_spreads() {
                let (p50, p99) = (summary.p50_us, summary.p99_us);
                let _ = write!(value, ",{stage}_p50_us={p50:.1},{stage}_p99_us={p99:.1}");
            }
        }
        self.line(&format!("kind_{}", total.kind), value);
    }
}
