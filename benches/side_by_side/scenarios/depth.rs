//! Depth: what a request costs when ten million messages are stored, and how long they take to open.

use crate::options::{Options, Scenario};
use crate::peers::posthaste;
use crate::peers::posthaste::{BenchStore, StoreFigures};
use crate::process::directory;
use crate::report::{Bound, Section, rate, ratio};
use crate::statistics::Spread;
use crate::{Result, interrupt};

const SHALLOW: u64 = 1_000;
const DEEP: u64 = 10_000_000;
/// A quick run fills less: it only shows that the measurement works.
const QUICK_DEEP: u64 = 1_000_000;
/// Filling ten million takes much longer than measuring: more rounds would not be worth it.
const ROUNDS_MAX: usize = 3;

const HOW: &str = "`posthaste bench store --workload pairs --batch 64` on the embedded store, with few and with many \
    messages stored before; pops take the oldest, sends add new ones. Opening is timed at the end of the same run, with \
    the files still in the page cache.";

const HEAD: [&str; 3] = ["stored messages", "operations per second", "opening, seconds"];

/// Measures both depths in turn.
pub(crate) fn run(options: &Options) -> Result<Section> {
    let mut section = Section::new(Scenario::Depth.title(), HOW, &HEAD);
    let deep = if options.quick { QUICK_DEEP } else { DEEP };
    let (mut shallow_figures, mut deep_figures) = (Vec::new(), Vec::new());
    for round in 0..options.rounds().min(ROUNDS_MAX) {
        eprintln!("round {}", round + 1);
        shallow_figures.push(measure(options, SHALLOW)?);
        deep_figures.push(measure(options, deep)?);
    }
    for (messages, figures) in [(SHALLOW, &shallow_figures), (deep, &deep_figures)] {
        let cell = |spread: Option<Spread>, show: fn(Spread) -> String| spread.map_or("-".into(), show);
        section.row(vec![
            messages.to_string(),
            cell(Spread::of(rates(figures)), rate),
            cell(Spread::of(openings(figures)), ratio),
        ]);
    }
    let slower = Spread::of_ratios(&rates(&shallow_figures), &rates(&deep_figures));
    section.target(
        format!("cost of an operation at {deep} messages / at {SHALLOW}"),
        Bound::AtMost(1.3),
        slower,
    );
    let opening = Spread::of(openings(&deep_figures));
    section.target(format!("seconds to open {deep} messages"), Bound::AtMost(10.0), opening);
    Ok(section)
}

fn measure(options: &Options, preload: u64) -> Result<StoreFigures> {
    interrupt::check()?;
    let dir = directory(&options.dir)?;
    posthaste::bench_store(dir.path(), &BenchStore { preload, batch: 64, span: 2 * options.span() })
}

fn rates(figures: &[StoreFigures]) -> Vec<f64> {
    figures.iter().map(|figure| figure.operations_per_s).collect()
}

fn openings(figures: &[StoreFigures]) -> Vec<f64> {
    figures.iter().map(|figure| figure.reopen_s).collect()
}
