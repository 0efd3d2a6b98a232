//! What measuring costs: the same requests to a build with it and to one without.
//!
//! Three percent is less than the noise of CPU times on a shared machine, so instructions are counted where the
//! processor lets us (`perf stat`); elsewhere CPU times are shown, with the warning that they decide nothing alone.

use std::path::Path;

use crate::load::{Load, Unit};
use crate::options::{Options, Scenario};
use crate::peers::posthaste::Store;
use crate::peers::{Peer, posthaste};
use crate::perf::{Counter, can_count};
use crate::process::directory;
use crate::report::{Bound, Section, ratio};
use crate::resp::Resp;
use crate::scenarios::{Figures, in_turn, no_figures};
use crate::statistics::Spread;
use crate::{Result, interrupt};

/// Connections, requests in flight per connection.
const CELLS: [(usize, usize); 2] = [(16, 1), (16, 16)];
/// A ratio near 1 wants more rounds than one near 2.
const ROUNDS_FACTOR: usize = 3;
const EVENT: &str = "instructions:u";

const HOW: &str = "PEEK against `--store mock:200`, to this build and to one that does not measure (`--unmeasured PROGRAM`), \
    in turn. The path without a store is where measuring weighs most.";

const HEAD: [&str; 5] = ["load", "cost of a request", "measured", "not measured", "ratio"];

/// Measures both builds in turn; without a second build there is nothing to compare.
pub(crate) fn run(options: &Options) -> Result<Section> {
    let mut section = Section::new(Scenario::Measuring.title(), HOW, &HEAD);
    let Some(unmeasured) = &options.unmeasured else {
        section.note("left out: name a posthaste built without measuring with --unmeasured");
        return Ok(section);
    };
    let dir = &options.dir;
    let peers =
        [posthaste::start(dir, Store::Mock)?, posthaste::start_program(unmeasured, dir, Store::Mock)?];
    let scratch = directory(dir)?;
    let counting = can_count(EVENT, scratch.path());
    if !counting {
        section.note(format!(
            "this machine cannot count {EVENT}: CPU time is shown, whose noise exceeds the target"
        ));
    }
    let mut figures = no_figures(CELLS.len(), peers.len());
    for round in 0..options.rounds() * ROUNDS_FACTOR {
        eprintln!("round {}", round + 1);
        measure(options, round, &peers, counting.then_some(scratch.path()), &mut figures)?;
    }
    tell(&figures, counting, &mut section);
    Ok(section)
}

fn measure(
    options: &Options,
    round: usize,
    peers: &[Peer],
    scratch: Option<&Path>,
    figures: &mut Figures<f64>,
) -> Result<()> {
    for (cell, &(connections, depth)) in CELLS.iter().enumerate() {
        for subject in in_turn(peers.len(), round) {
            interrupt::check()?;
            let load = Load {
                unit: Unit::Send,
                connections,
                depth,
                warm_up: options.warm_up(),
                span: options.span(),
            };
            figures[cell][subject].push(cost(&peers[subject], &load, scratch)?);
        }
    }
    Ok(())
}

/// Of one request: instructions when there is a place for perf's output, else CPU microseconds.
fn cost(peer: &Peer, load: &Load, scratch: Option<&Path>) -> Result<f64> {
    let counter = scratch.map(|dir| Counter::start(EVENT, peer.server.pid(), dir)).transpose()?;
    let sample = peer.load_with(load, &|_| Box::new(Resp::only(&[b"PEEK", b"QUEUE", b"q"])))?;
    match counter {
        Some(counter) => Ok(counter.stop()? / sample.requests as f64),
        None => Ok(sample.server_us),
    }
}

fn tell(figures: &Figures<f64>, counting: bool, section: &mut Section) {
    for (&(connections, depth), subjects) in CELLS.iter().zip(figures) {
        let load = format!("connections {connections}, depth {depth}");
        let spread = Spread::of_ratios(&subjects[0], &subjects[1]);
        let cell = |figures: &[f64]| Spread::of(figures.iter().copied()).map_or("-".into(), ratio);
        section.row(vec![
            load.clone(),
            if counting { EVENT } else { "CPU us" }.into(),
            cell(&subjects[0]),
            cell(&subjects[1]),
            spread.map_or("-".into(), ratio),
        ]);
        section.target(format!("measured / not measured, {load}"), Bound::AtMost(1.03), spread);
    }
}
