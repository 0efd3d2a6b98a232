//! The embedded store without network or path, beside what the disk allows.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::options::{Options, Scenario};
use crate::peers::posthaste;
use crate::peers::posthaste::BenchStore;
use crate::process::directory;
use crate::report::{Bound, Section, rate};
use crate::scenarios::ratio_cell;
use crate::statistics::Spread;
use crate::{Result, interrupt};

const BATCHES: [usize; 4] = [1, 16, 64, 256];
/// The plain file is written over from its beginning when it is full.
const PREALLOCATED_BYTES: u64 = 64 << 20;

const HOW: &str = "`posthaste bench store --workload pairs` drives the embedded store directly, half sends, half pops, one \
    commit for each batch; the raw figures append to a plain file as many bytes as the store's log grows by, with one \
    fdatasync for each batch, in turn with it. `growing` is measured by `bench store` itself, inside the same process; `preallocated` beside it.";

const HEAD: [&str; 6] = [
    "batch",
    "store, operations per second",
    "growing file",
    "preallocated file",
    "store / growing",
    "store / preallocated",
];

/// One round at one batch size, operations or records per second.
#[derive(Clone, Copy, Debug)]
struct Figure {
    store: f64,
    growing: f64,
    preallocated: f64,
}

/// Measures the store and the plain files at every batch size.
pub(crate) fn run(options: &Options) -> Result<Section> {
    let mut section = Section::new(Scenario::Store.title(), HOW, &HEAD);
    let mut figures = vec![Vec::new(); BATCHES.len()];
    for round in 0..options.rounds() {
        for (batch, figures) in BATCHES.iter().zip(&mut figures) {
            eprintln!("round {}: batch {batch}", round + 1);
            figures.push(measure(options, *batch)?);
        }
    }
    for (batch, figures) in BATCHES.iter().zip(&figures) {
        let of = |which: fn(&Figure) -> f64| figures.iter().map(which).collect::<Vec<_>>();
        let (store, growing, preallocated) = (of(|f| f.store), of(|f| f.growing), of(|f| f.preallocated));
        let cell = |figures: &[f64]| Spread::of(figures.iter().copied()).map_or("-".into(), rate);
        section.row(vec![
            batch.to_string(),
            cell(&store),
            cell(&growing),
            cell(&preallocated),
            ratio_cell(&store, &growing),
            ratio_cell(&store, &preallocated),
        ]);
        if *batch == 64 {
            section.target(
                "store / growing file, batch 64",
                Bound::AtLeast(0.5),
                Spread::of_ratios(&store, &growing),
            );
        }
    }
    Ok(section)
}

fn measure(options: &Options, batch: usize) -> Result<Figure> {
    interrupt::check()?;
    let dir = directory(&options.dir)?;
    let run = posthaste::bench_store(dir.path(), &BenchStore { preload: 1000, batch, span: options.span() })?;
    Ok(Figure {
        store: run.operations_per_s,
        growing: run.raw_append_per_s,
        preallocated: preallocated(dir.path(), batch, run.raw_bytes_per_operation, options.span())?,
    })
}

/// Operations per second written over blocks that exist: a sync has only data to write, not the file's new length.
fn preallocated(dir: &Path, batch: usize, bytes_each: f64, span: Duration) -> Result<f64> {
    let mut file = File::create(dir.join("preallocated"))?;
    for _ in 0..PREALLOCATED_BYTES >> 20 {
        file.write_all(&[0; 1 << 20])?;
    }
    file.sync_all()?;
    let bytes = vec![b'x'; (batch as f64 * bytes_each) as usize];
    let (start, mut at, mut records) = (Instant::now(), 0, 0);
    while start.elapsed() < span {
        if at + bytes.len() as u64 > PREALLOCATED_BYTES {
            at = 0;
        }
        file.write_all_at(&bytes, at)?;
        file.sync_data()?;
        at += bytes.len() as u64;
        records += batch;
    }
    Ok(records as f64 / start.elapsed().as_secs_f64())
}
