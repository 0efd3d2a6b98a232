//! One file for each question.

pub(crate) mod cache;
mod cache_idle;
pub(crate) mod churn;
pub(crate) mod depth;
pub(crate) mod durable;
pub(crate) mod measuring;
pub(crate) mod memtier;
pub(crate) mod pairs_over_postgres;
pub(crate) mod path;
pub(crate) mod recording;
pub(crate) mod steps_over_postgres;
pub(crate) mod store;
pub(crate) mod twelve_step;

use crate::Result;
use crate::load::Sample;
use crate::peers::Peer;
use crate::report::{Section, ratio};
use crate::statistics::Spread;

/// One figure of each round, for each subject of each cell: `figures[cell][subject][round]`.
type Figures<T> = Vec<Vec<Vec<T>>>;

fn no_figures<T: Clone>(cells: usize, subjects: usize) -> Figures<T> {
    vec![vec![Vec::new(); subjects]; cells]
}

/// The subjects in this round's order: who goes first rotates, so that no one always follows the same neighbor.
fn in_turn(subjects: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..subjects).map(move |i| (i + round) % subjects)
}

/// Keeps the peers that start; says why another does not.
fn those_that_start(starts: Vec<Result<Peer>>, section: &mut Section) -> Vec<Peer> {
    let mut running = Vec::new();
    for start in starts {
        match start {
            Ok(peer) => running.push(peer),
            Err(error) => section.note(format!("left out: {error}")),
        }
    }
    running
}

/// Units per second of each round.
fn rates(samples: &[Sample]) -> Vec<f64> {
    samples.iter().map(|sample| sample.units_per_s).collect()
}

/// Requests for each CPU second of the server, in each round.
fn per_cpu_second(samples: &[Sample]) -> Vec<f64> {
    samples.iter().map(|sample| 1e6 / sample.server_us).collect()
}

/// Where the CPU went: the server's microseconds per request, the client's, the client's share of the time.
fn cpu_cells(samples: &[Sample]) -> Vec<String> {
    let cell = |of: fn(&Sample) -> f64| {
        Spread::of(samples.iter().map(of)).map_or("-".into(), |s| format!("{:.2}", s.median))
    };
    vec![cell(|s| s.server_us), cell(|s| s.client_us), cell(|s| 100.0 * s.client_busy)]
}

fn ratio_cell(above: &[f64], below: &[f64]) -> String {
    Spread::of_ratios(above, below).map_or("-".into(), ratio)
}
