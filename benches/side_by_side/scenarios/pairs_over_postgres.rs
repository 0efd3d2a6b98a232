//! Pairs of a send and a pop over PostgreSQL: our tier, pgmq's functions, and the batch functions without a
//! middleware as the limit.

use std::fs;
use std::path::Path;

use crate::load::{Load, Unit};
use crate::options::{Options, Scenario};
use crate::peers::postgres::{PgBench, Postgres, sql_file};
use crate::peers::{BODY, Peer, posthaste};
use crate::report::{Bound, Section, rate};
use crate::scenarios::{Figures, in_turn, no_figures, ratio_cell};
use crate::statistics::Spread;
use crate::{Result, interrupt};

/// Connections, and requests in flight on each.
const CELLS: [(usize, usize); 3] = [(16, 1), (64, 1), (16, 16)];
/// Messages in one call of the limit.
const FULL_BATCH: f64 = 64.0;
/// More than this do not help on two cores.
const LIMIT_CONNECTIONS: usize = 2;

const OURS: usize = 0;
const LIMIT: usize = 1;
const PGMQ: usize = 2;
const SYSTEMS: [&str; 3] = ["posthaste over PostgreSQL", "batch functions, full batches", "pgmq's functions"];

const HOW: &str = "Bodies of 200 bytes, one queue, PostgreSQL with default settings (synced commits), everything on this \
    machine. Ours: `posthaste queue --store postgres://…` with its defaults, loaded over TCP. Full batches: pgbench with two \
    connections calls `posthaste.apply` with 64 sends, then with 64 pops, each connection on a queue of its own. pgmq: its \
    functions, one statement for each send and pop, by pgbench with as many connections.";

const HEAD: [&str; 5] = ["load", "system", "pairs per second", "posthaste / it", "us of CPU/pair"];

#[derive(Clone, Copy, Debug)]
struct Figure {
    pairs_per_s: f64,
    /// Of PostgreSQL and, if it is ours, of the middleware.
    server_us: f64,
}

/// Measures the systems in every cell.
pub(crate) fn run(options: &Options) -> Result<Section> {
    let mut section = Section::new(Scenario::PairsOverPostgres.title(), HOW, &HEAD);
    let postgres = Postgres::start(&options.dir)?;
    postgres.sql("postgres", "CREATE DATABASE ours")?;
    let peer = posthaste::start_over(&options.dir, &postgres.url("ours")?, &[])?;
    postgres.sql("ours", "INSERT INTO posthaste.queue (id, name) SELECT 1000000 + n, 'full ' || n FROM generate_series(0, 9) n")?;
    let mut subjects = vec![OURS, LIMIT];
    match &options.pgmq {
        Some(file) => {
            start_pgmq(&postgres, file)?;
            subjects.push(PGMQ);
        }
        None => section.note("pgmq is left out: give its pgmq.sql with --pgmq"),
    }
    let bench = Bench { options, postgres, peer };
    let mut figures = no_figures(CELLS.len(), SYSTEMS.len());
    for round in 0..options.rounds() {
        for (cell, &(connections, depth)) in CELLS.iter().enumerate() {
            eprintln!("round {}: {connections} connections, depth {depth}", round + 1);
            for turn in in_turn(subjects.len(), round) {
                interrupt::check()?;
                let subject = subjects[turn];
                figures[cell][subject].push(bench.measure(subject, connections, depth)?);
            }
        }
    }
    tell(&figures, &mut section);
    Ok(section)
}

fn start_pgmq(postgres: &Postgres, file: &Path) -> Result<()> {
    postgres.sql("postgres", "CREATE DATABASE pgmq")?;
    postgres.sql("pgmq", "CREATE SCHEMA IF NOT EXISTS pgmq")?;
    postgres.sql("pgmq", &fs::read_to_string(file)?)?;
    postgres.sql("pgmq", "SELECT pgmq.create('q')")
}

struct Bench<'a> {
    options: &'a Options,
    postgres: Postgres,
    peer: Peer,
}

impl Bench<'_> {
    fn measure(&self, subject: usize, connections: usize, depth: usize) -> Result<Figure> {
        match subject {
            OURS => self.ours(connections, depth),
            LIMIT => self.pgbench("ours", "full_batches", LIMIT_CONNECTIONS, FULL_BATCH),
            _ => self.pgbench("pgmq", "pgmq_pair", connections, 1.0),
        }
    }

    fn ours(&self, connections: usize, depth: usize) -> Result<Figure> {
        let (warm_up, span) = (self.options.warm_up(), self.options.span() * 2);
        let before = self.postgres.server.cpu();
        let sample = self.peer.load(&Load { unit: Unit::Pair, connections, depth, warm_up, span })?;
        let database_us = (self.postgres.server.cpu() - before).as_secs_f64() * 1e6 / sample.requests as f64;
        Ok(Figure { pairs_per_s: sample.units_per_s, server_us: 2.0 * (database_us + sample.server_us) })
    }

    fn pgbench(&self, database: &str, script: &str, clients: usize, pairs: f64) -> Result<Figure> {
        self.postgres.vacuum(database)?;
        let body = String::from_utf8_lossy(&BODY);
        let seconds = self.seconds();
        let run = PgBench {
            database,
            script: &sql_file(&format!("{script}.pgbench")),
            define: &format!("body={body}"),
            clients,
            seconds,
        };
        let before = self.postgres.server.cpu();
        let pairs_per_s = self.postgres.pgbench(&run)? * pairs;
        let cpu = (self.postgres.server.cpu() - before).as_secs_f64();
        Ok(Figure { pairs_per_s, server_us: cpu * 1e6 / (pairs_per_s * seconds as f64) })
    }

    const fn seconds(&self) -> usize {
        if self.options.quick { 1 } else { 3 }
    }
}

fn pairs(figures: &[Figure]) -> Vec<f64> {
    figures.iter().map(|figure| figure.pairs_per_s).collect()
}

fn tell(figures: &Figures<Figure>, section: &mut Section) {
    for (&(connections, depth), subjects) in CELLS.iter().zip(figures) {
        let load = format!("connections {connections}, depth {depth}");
        let ours = pairs(&subjects[OURS]);
        for (system, figures) in SYSTEMS.iter().zip(subjects) {
            let theirs = pairs(figures);
            let cpu = Spread::of(figures.iter().map(|figure| figure.server_us));
            section.row(vec![
                load.clone(),
                (*system).into(),
                Spread::of(theirs.iter().copied()).map_or("-".into(), rate),
                ratio_cell(&ours, &theirs),
                cpu.map_or("-".into(), |cpu| format!("{:.0}", cpu.median)),
            ]);
        }
        let to = |subject: usize| Spread::of_ratios(&ours, &pairs(&subjects[subject]));
        let share = if depth == 1 { 0.35 } else { 0.6 };
        section.target(format!("posthaste / full batches, {load}"), Bound::AtLeast(share), to(LIMIT));
        if depth == 1 {
            section.target(format!("posthaste / pgmq, {load}"), Bound::AtLeast(5.0), to(PGMQ));
        }
    }
}
