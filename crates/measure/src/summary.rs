//! The table a program prints when it stops.

use std::fmt;

use crate::figures::{Figures, KindFigures};
use crate::meter::Meter;

impl Meter {
    /// Returns the figures of the whole run up to the last turn as a table for people.
    #[must_use]
    pub fn summary(&self) -> String {
        self.totals().to_string()
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.kinds.iter().map(|kind| kind.kind.len()).max().unwrap_or(0).max("kind".len());
        write!(
            f,
            "{:name$} {:>10} {:>10} {:>8} {:>8} | {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} |",
            "kind", "requests", "ok", "null", "errors", "mean", "p50", "p90", "p99", "p99.9", "max",
        )?;
        let stages: Vec<_> = self.all.spreads.iter().map(|(stage, _)| stage).collect();
        stages.iter().try_for_each(|stage| write!(f, " {stage:>9}"))?;
        writeln!(f)?;
        for kind in self.kinds.iter().chain([&self.all]) {
            row(f, kind, name)?;
        }
        writeln!(
            f,
            "{} requests in {:.1} s, {:.1} per second; response and mean {} time in us",
            self.all.requests,
            self.length_s,
            self.all.requests_per_s,
            stages.join(" and ")
        )
    }
}

fn row(f: &mut fmt::Formatter<'_>, kind: &KindFigures, name: usize) -> fmt::Result {
    write!(
        f,
        "{:name$} {:>10} {:>10} {:>8} {:>8} |",
        kind.kind, kind.requests, kind.ok, kind.null, kind.errors
    )?;
    let r = &kind.response;
    for us in [r.mean_us, r.p50_us, r.p90_us, r.p99_us, r.p99_9_us, r.max_us] {
        write!(f, " {us:>9.1}")?;
    }
    write!(f, " |")?;
    for (_, stage) in kind.spreads.iter() {
        write!(f, " {:>9.1}", stage.mean_us)?;
    }
    writeln!(f)
}
