//! The cache tier beside the routers one would otherwise choose, and beside a bare memcached, which is the limit.
//!
//! What is compared is the CPU time of the router: on a small machine the rate says more of the load generator, of
//! memcached and of the kernel than of what is between them. Each router has memcached processes of its own, so the
//! ways in which they place keys do not matter, and is asked in turn with the others.

use std::net::SocketAddr;

use crate::cores::Cores;
use crate::load::{Load, Sample, Unit};
use crate::memcache::{Ask, Memcache, fill};
use crate::options::{Options, Scenario};
use crate::peers::memcached::Proxying;
use crate::peers::{Peer, memcached, posthaste, twemproxy};
use crate::report::{Bound, Section, rate, ratio};
use crate::scenarios::{Figures, cache_idle, in_turn, no_figures, rates, ratio_cell, those_that_start};
use crate::statistics::Spread;
use crate::{Result, interrupt};

/// What is behind a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behind {
    One,
    ThreeShards,
    ThreeReplicas,
}

const BEHIND: [Behind; 3] = [Behind::One, Behind::ThreeShards, Behind::ThreeReplicas];

/// What is asked, by how many clients, with how many requests of each in flight.
type Cell = (Ask, usize, usize);

/// Of all: `Ask::Get(12)` over shards is split by their owners. Eight clients with 16 requests each are what the targets
/// call pipelined.
const CELLS: [Cell; 22] = [
    (Ask::Set, 1, 1),
    (Ask::Set, 2, 1),
    (Ask::Set, 16, 1),
    (Ask::Set, 32, 1),
    (Ask::Set, 128, 1),
    (Ask::Set, 8, 16),
    (Ask::Get(1), 1, 1),
    (Ask::Get(1), 2, 1),
    (Ask::Get(1), 16, 1),
    (Ask::Get(1), 32, 1),
    (Ask::Get(1), 128, 1),
    (Ask::Get(1), 8, 16),
    (Ask::Both, 2, 1),
    (Ask::Both, 16, 1),
    (Ask::Both, 128, 1),
    (Ask::Both, 16, 16),
    (Ask::Get(3), 32, 1),
    (Ask::Get(6), 32, 1),
    (Ask::Get(12), 2, 1),
    (Ask::Get(12), 32, 1),
    (Ask::Get(12), 128, 1),
    (Ask::Get(12), 8, 16),
];

/// Of replicas, where only memcached's own proxy has what is compared.
const CELLS_OF_REPLICAS: [Cell; 8] = [
    (Ask::Set, 1, 1),
    (Ask::Set, 2, 1),
    (Ask::Set, 32, 1),
    (Ask::Set, 128, 1),
    (Ask::Set, 8, 16),
    (Ask::Get(1), 32, 1),
    (Ask::Both, 32, 1),
    (Ask::Get(12), 32, 1),
];

/// The rate that is held against a bare memcached's.
const RATE_CLIENTS: usize = 128;

const HOW: &str = "1 kB values, 10,000 keys, all there, over TCP on the loopback. Every router has one thread, a core of its own and \
    memcached processes of its own (one thread each), which run on another core together with the load; the bare memcached runs there \
    too. Shards: twemproxy and memcached's proxy as their manuals recommend (ketama, jump), posthaste with `--writes owner`. \
    Replicas: posthaste with `--multiget whole`; memcached's proxy sends a set to all, waits for all, and asks the key's owner. CPU is user and system \
    time of the router's process for each request; a set and a get of 12 keys are each one. In the cells `1:1` sets and gets alternate.";

const HEAD: [&str; 6] =
    ["servers and load", "system", "CPU us/request", "posthaste / it", "per second", "of memcached alone"];

/// Everything that is measured with the same servers behind it.
struct Field {
    behind: Behind,
    cells: &'static [Cell],
    /// Ours first.
    peers: Vec<Peer>,
    figures: Figures<Sample>,
    /// The memcached processes; after the routers, so that those end first.
    _servers: Vec<Peer>,
}

/// Measures every cell in turn, and what idle clients cost at last.
pub(crate) fn run(options: &Options) -> Result<Section> {
    let mut section = Section::new(Scenario::Cache.title(), HOW, &HEAD);
    let cores = Cores::take()?;
    if cores.is_none() {
        section.note("one core only: routers share it with their load, and rates mean little");
    }
    let mut fields = Vec::new();
    for behind in BEHIND {
        fields.push(Field::start(behind, options, cores.as_ref(), &mut section)?);
    }
    for round in 0..options.rounds() {
        for field in &mut fields {
            eprintln!("round {}: {}", round + 1, field.behind.name());
            field.measure(options, round)?;
        }
    }
    let [one, shards, replicas] = &fields[..] else { return Err("three kinds of servers".into()) };
    fields.iter().for_each(|field| field.tell(&mut section));
    promise(one, shards, replicas, &mut section);
    drop(fields);
    cache_idle::tell(options, cores.as_ref(), &mut section)?;
    Ok(section)
}

impl Behind {
    const fn name(self) -> &'static str {
        match self {
            Self::One => "one server",
            Self::ThreeShards => "three shards",
            Self::ThreeReplicas => "three replicas",
        }
    }

    const fn servers(self) -> usize {
        match self {
            Self::One => 1,
            Self::ThreeShards | Self::ThreeReplicas => 3,
        }
    }

    const fn cells(self) -> &'static [Cell] {
        match self {
            Self::One | Self::ThreeShards => &CELLS,
            Self::ThreeReplicas => &CELLS_OF_REPLICAS,
        }
    }
}

impl Field {
    fn start(
        behind: Behind,
        options: &Options,
        cores: Option<&Cores>,
        section: &mut Section,
    ) -> Result<Self> {
        let (core, below) = (cores.map(|cores| cores.measured), &options.dir);
        let mut servers = Vec::new();
        let mut some = || -> Result<Vec<SocketAddr>> {
            let started = (0..behind.servers()).map(|_| memcached::start_bare(below, None));
            let started = started.collect::<Result<Vec<_>>>()?;
            let addresses = started.iter().map(|server| server.address).collect();
            servers.extend(started);
            Ok(addresses)
        };
        let arguments: &[&str] = match behind {
            Behind::ThreeReplicas => &["--multiget", "whole"],
            Behind::One | Behind::ThreeShards => &["--writes", "owner"],
        };
        let mut starts = vec![posthaste::start_cache(below, core, &some()?, arguments)];
        if behind == Behind::One {
            starts.push(memcached::start_bare(below, cores.map(|cores| cores.load)));
        }
        if behind != Behind::ThreeReplicas {
            starts.push(twemproxy::start(below, core, &some()?));
        }
        let proxying = if behind == Behind::ThreeReplicas { Proxying::Replicate } else { Proxying::Share };
        starts.push(match &options.memcached_proxy {
            Some(program) => memcached::start_proxy(program, below, core, &some()?, proxying),
            None => Err("memcached's own proxy: name a memcached built with it in MEMCACHED_PROXY".into()),
        });
        let peers = those_that_start(starts, section);
        if peers.first().is_none_or(|peer| peer.name != "posthaste") {
            return Err("posthaste cache did not start".into());
        }
        peers.iter().try_for_each(|peer| fill(peer.address))?;
        let cells = behind.cells();
        Ok(Self { behind, cells, figures: no_figures(cells.len(), peers.len()), peers, _servers: servers })
    }

    fn measure(&mut self, options: &Options, round: usize) -> Result<()> {
        for (&(ask, connections, depth), figures) in self.cells.iter().zip(&mut self.figures) {
            let unit = if ask == Ask::Both { Unit::Pair } else { Unit::Send };
            let load = Load { unit, connections, depth, warm_up: options.warm_up(), span: options.span() };
            for subject in in_turn(self.peers.len(), round) {
                interrupt::check()?;
                let protocol = |number| Box::new(Memcache::new(ask, number)) as _;
                figures[subject].push(self.peers[subject].load_with(&load, &protocol)?);
            }
        }
        Ok(())
    }

    /// The place of a peer by its name.
    fn place(&self, name: &str) -> Option<usize> {
        self.peers.iter().position(|peer| peer.name == name)
    }

    fn alone(&self) -> Option<usize> {
        self.place("memcached alone")
    }

    fn tell(&self, section: &mut Section) {
        for (&cell, subjects) in self.cells.iter().zip(&self.figures) {
            let ours = cpu(&subjects[0]);
            for (place, (peer, samples)) in self.peers.iter().zip(subjects).enumerate() {
                let of_alone = self.alone().filter(|alone| *alone != place);
                section.row(vec![
                    format!("{}, {}", self.behind.name(), name(cell)),
                    peer.name.clone(),
                    Spread::of(cpu(samples)).map_or("-".into(), ratio),
                    if place == 0 { "1.00".into() } else { ratio_cell(&ours, &cpu(samples)) },
                    Spread::of(rates(samples)).map_or("-".into(), rate),
                    of_alone
                        .map_or("-".into(), |alone| ratio_cell(&rates(samples), &rates(&subjects[alone]))),
                ]);
            }
        }
    }

    /// Ours to the best of the other routers, of those that are in the cell.
    fn against_best(&self, cell: Cell) -> Option<(String, Spread)> {
        let subjects = &self.figures[self.cells.iter().position(|known| *known == cell)?];
        let others = (1..self.peers.len()).filter(|place| self.alone() != Some(*place));
        let median =
            |place: &usize| Spread::of(cpu(&subjects[*place])).map_or(f64::MAX, |spread| spread.median);
        let best = others.min_by(|one, other| median(one).total_cmp(&median(other)))?;
        let spread = Spread::of_ratios(&cpu(&subjects[0]), &cpu(&subjects[best]))?;
        Some((self.peers[best].name.clone(), spread))
    }

    fn promise_cpu(&self, cell: Cell, bound: f64, section: &mut Section) {
        let (best, spread) = self.against_best(cell).unzip();
        let best = best.as_deref().unwrap_or("best other");
        let what = format!("CPU, posthaste / {best}, {}, {}", self.behind.name(), name(cell));
        section.target(what, Bound::AtMost(bound), spread);
    }
}

/// What was promised.
fn promise(one: &Field, shards: &Field, replicas: &Field, section: &mut Section) {
    for ask in [Ask::Set, Ask::Get(1)] {
        for field in [one, shards] {
            field.promise_cpu((ask, 1, 1), 0.9, section);
            field.promise_cpu((ask, 32, 1), 0.8, section);
            field.promise_cpu((ask, 8, 16), 0.7, section);
        }
    }
    one.promise_cpu((Ask::Get(12), 32, 1), 0.8, section);
    shards.promise_cpu((Ask::Get(12), 32, 1), 0.75, section);
    for (clients, depth) in [(1, 1), (32, 1), (8, 16)] {
        replicas.promise_cpu((Ask::Set, clients, depth), 0.7, section);
    }
    for ask in [Ask::Set, Ask::Get(1)] {
        let cell = (ask, RATE_CLIENTS, 1);
        let subjects = one.cells.iter().position(|known| *known == cell).map(|place| &one.figures[place]);
        let spread = subjects
            .zip(one.alone())
            .and_then(|(subjects, alone)| Spread::of_ratios(&rates(&subjects[0]), &rates(&subjects[alone])));
        let what = format!("rate, posthaste / memcached alone, {}", name(cell));
        section.target(what, Bound::AtLeast(0.85), spread);
    }
}

fn name((ask, clients, depth): Cell) -> String {
    let ask = match ask {
        Ask::Set => "set".into(),
        Ask::Get(1) => "get".into(),
        Ask::Get(keys) => format!("get of {keys} keys"),
        Ask::Both => "1:1".to_owned(),
    };
    let clients = if clients == 1 { "1 client".into() } else { format!("{clients} clients") };
    let depth = if depth == 1 { String::new() } else { format!(", {depth} in flight") };
    format!("{ask}, {clients}{depth}")
}

fn cpu(samples: &[Sample]) -> Vec<f64> {
    samples.iter().map(|sample| sample.server_us).collect()
}
