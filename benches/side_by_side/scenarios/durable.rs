//! Durable messaging: sends, and pairs of a send and a pop, each on disk before it is answered.

use crate::load::{Load, Sample, Unit};
use crate::options::{Options, Scenario};
use crate::peers::posthaste::Store;
use crate::peers::{Peer, beanstalkd, nats, posthaste, redis};
use crate::report::{Bound, Section, rate};
use crate::scenarios::{Figures, cpu_cells, in_turn, no_figures, rates, ratio_cell, those_that_start};
use crate::statistics::Spread;
use crate::{Result, interrupt};

/// Unit, connections, requests in flight per connection.
type Cell = (Unit, usize, usize);

/// Pairs go first, while the queue is short.
const CELLS: [Cell; 8] = [
    (Unit::Pair, 1, 1),
    (Unit::Pair, 16, 1),
    (Unit::Pair, 64, 1),
    (Unit::Pair, 16, 16),
    (Unit::Pair, 64, 16),
    (Unit::Send, 1, 1),
    (Unit::Send, 16, 1),
    (Unit::Send, 64, 1),
];

const HOW: &str = "Bodies of 200 bytes over TCP on the loopback, one client thread. A pair is a send and a pop, each \
    acknowledged; for beanstalkd a pop is reserve and delete, for NATS a pull and an acknowledged acknowledgment. `depth` \
    is the number of requests in flight per connection. Every server is started anew on an empty directory in each round; \
    Redis runs with `appendonly yes`, `appendfsync always` and no rewriting, beanstalkd with `-f0`. A client near 100 % \
    busy was itself the limit.";

const NATS_NOTE: &str = "this NATS is older than 2.10 and cannot sync before it answers: it syncs every 2 minutes, so \
    its answers are not durable and its figures no measure for the others";

const HEAD: [&str; 7] = [
    "load",
    "system",
    "per second",
    "posthaste / it",
    "server us/request",
    "client us/request",
    "client busy %",
];

/// How many times the peer's rate ours has to be, and where.
const TARGETS: [(&str, Cell, f64); 6] = [
    (redis::NAME, (Unit::Pair, 64, 1), 1.0),
    (beanstalkd::NAME, (Unit::Pair, 64, 1), 5.0),
    (redis::NAME, (Unit::Pair, 16, 16), 0.5),
    (redis::NAME, (Unit::Pair, 64, 16), 0.5),
    (redis::NAME, (Unit::Pair, 1, 1), 1.25),
    (redis::NAME, (Unit::Send, 1, 1), 1.25),
];

/// Measures all systems in all cells.
pub(crate) fn run(options: &Options) -> Result<Section> {
    let mut section = Section::new(Scenario::Durable.title(), HOW, &HEAD);
    let mut figures = Vec::new();
    let mut names = Vec::new();
    for round in 0..options.rounds() {
        let peers = start(options, &mut section)?;
        if round == 0 {
            names = peers.iter().map(|peer| peer.name.clone()).collect();
            figures = no_figures(CELLS.len(), peers.len());
        }
        measure(options, round, &peers, &mut figures)?;
    }
    tell(&names, &figures, &mut section);
    Ok(section)
}

/// Ours first, then the peers that are installed.
fn start(options: &Options, section: &mut Section) -> Result<Vec<Peer>> {
    let dir = &options.dir;
    let mut peers = vec![posthaste::start(dir, Store::Embedded)?];
    peers
        .extend(those_that_start(vec![redis::start(dir), beanstalkd::start(dir), nats::start(dir)], section));
    if peers.iter().any(|peer| peer.name == nats::NAME_UNSYNCED) {
        section.note(NATS_NOTE);
    }
    Ok(peers)
}

fn measure(options: &Options, round: usize, peers: &[Peer], figures: &mut Figures<Sample>) -> Result<()> {
    for (&cell, figures) in CELLS.iter().zip(figures) {
        let (unit, connections, depth) = cell;
        eprintln!("round {}: {}", round + 1, name(cell));
        for subject in in_turn(peers.len(), round) {
            interrupt::check()?;
            let load = Load { unit, connections, depth, warm_up: options.warm_up(), span: options.span() };
            figures[subject].push(peers[subject].load(&load)?);
        }
    }
    Ok(())
}

fn name((unit, connections, depth): Cell) -> String {
    let unit = if unit == Unit::Send { "sends" } else { "pairs" };
    format!("{unit}, connections {connections}, depth {depth}")
}

fn tell(names: &[String], figures: &Figures<Sample>, section: &mut Section) {
    for (&cell, subjects) in CELLS.iter().zip(figures) {
        let ours = rates(&subjects[0]);
        for (system, samples) in names.iter().zip(subjects) {
            let theirs = rates(samples);
            let mut row = vec![name(cell), system.clone()];
            row.push(Spread::of(theirs.iter().copied()).map_or("-".into(), rate));
            row.push(ratio_cell(&ours, &theirs));
            row.extend(cpu_cells(samples));
            section.row(row);
        }
    }
    for (peer, cell, bound) in TARGETS {
        let measured = ratio_to(peer, cell, names, figures);
        section.target(format!("posthaste / {peer}, {}", name(cell)), Bound::AtLeast(bound), measured);
    }
}

/// Ours over a peer's; None when the peer is left out.
fn ratio_to(peer: &str, cell: Cell, names: &[String], figures: &Figures<Sample>) -> Option<Spread> {
    let subject = names.iter().position(|name| name == peer)?;
    let cell = CELLS.iter().position(|&known| known == cell)?;
    Spread::of_ratios(&rates(&figures[cell][0]), &rates(&figures[cell][subject]))
}
