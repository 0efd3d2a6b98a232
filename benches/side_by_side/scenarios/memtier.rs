//! What the load generator itself costs, beside memtier_benchmark: the same words on the command line, the same server.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::options::{Options, Scenario};
use crate::peers::{find, memcached, posthaste, text};
use crate::process::{As, command, directory, finish};
use crate::report::{Bound, Section, rate, ratio};
use crate::scenarios::{in_turn, no_figures, ratio_cell};
use crate::statistics::Spread;
use crate::{Result, cpu, interrupt};

/// One load, and what it is put on.
#[derive(Clone, Copy, Debug)]
struct Load {
    against: Against,
    clients: u64,
    /// Requests in flight of each client.
    pipeline: u64,
    /// Of a value.
    bytes: u64,
    /// Of a get.
    keys: u64,
}

/// What both generators load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Against {
    Memcached,
    /// The cache tier with fixed answers: a server that does next to nothing, so that the generator sets the pace.
    Mock,
}

const CELLS: [Load; 12] = [
    Load { against: Against::Memcached, clients: 1, pipeline: 1, bytes: 1024, keys: 1 },
    Load { against: Against::Memcached, clients: 64, pipeline: 1, bytes: 1024, keys: 1 },
    Load { against: Against::Memcached, clients: 1024, pipeline: 1, bytes: 1024, keys: 1 },
    Load { against: Against::Memcached, clients: 64, pipeline: 1, bytes: 32, keys: 1 },
    Load { against: Against::Memcached, clients: 64, pipeline: 16, bytes: 32, keys: 1 },
    Load { against: Against::Memcached, clients: 64, pipeline: 16, bytes: 1024, keys: 1 },
    Load { against: Against::Memcached, clients: 64, pipeline: 1, bytes: 1024, keys: 9 },
    Load { against: Against::Mock, clients: 1, pipeline: 1, bytes: MOCK_BYTES, keys: 1 },
    Load { against: Against::Mock, clients: 64, pipeline: 1, bytes: MOCK_BYTES, keys: 1 },
    Load { against: Against::Mock, clients: 1024, pipeline: 1, bytes: MOCK_BYTES, keys: 1 },
    Load { against: Against::Mock, clients: 64, pipeline: 16, bytes: MOCK_BYTES, keys: 1 },
    Load { against: Against::Mock, clients: 64, pipeline: 64, bytes: MOCK_BYTES, keys: 1 },
];
/// Of every value that the mock tier answers with.
const MOCK_BYTES: u64 = 32;
const KEYS: &str = "--key-prefix key- --key-minimum 1 --key-maximum 10000 --key-pattern R:R";
const OURS: usize = 0;
const THEIRS: usize = 1;
const NAMES: [&str; 2] = ["posthaste bench cache", "memtier_benchmark"];

const HOW: &str = "Both load generators are given the same words (`-c N -t 1 -n REQUESTS --ratio 1:1 -d BYTES` and so on) and \
    put the same number of requests, half sets, half gets, on the same server, over TCP on the loopback, in turn: on \
    memcached (one thread, 10,000 keys, filled before), and on `posthaste cache --mock 32 --threads 1`, which answers without \
    looking anything up, so that the rate is the highest that generator and sockets allow. CPU is user and system time of \
    the load generator's process from its start to its end, connecting included, for each request. With keys 9, a turn is \
    nine sets and one get of nine keys.";

const HEAD: [&str; 6] =
    ["load", "generator", "CPU us/request", "posthaste / it", "requests per second", "posthaste / it"];

impl Load {
    fn name(self) -> String {
        let Self { against, clients, pipeline, bytes, keys } = self;
        let against = if against == Against::Mock { "mock tier" } else { "memcached" };
        let keys = if keys > 1 { format!(", keys {keys}") } else { String::new() };
        format!("{against}, clients {clients}, pipeline {pipeline}, {bytes} bytes{keys}")
    }

    /// Requests of each client. A single client waits for every answer, so it takes longer for fewer.
    fn requests_each(self, quick: bool) -> u64 {
        let all = if self.clients == 1 { 40_000 } else { 400_000 } * self.pipeline.min(4);
        (all / if quick { 10 } else { 1 } / self.clients).max(20)
    }
}

/// One run of one generator.
#[derive(Clone, Copy, Debug)]
struct Figure {
    cpu_us: f64,
    per_s: f64,
}

/// A program and the file it leaves its summary in.
struct Generator {
    program: PathBuf,
    words: &'static [&'static str],
}

/// Measures both in turn at every load; without memtier_benchmark there is nothing to compare.
pub(crate) fn run(options: &Options) -> Result<Section> {
    let mut section = Section::new(Scenario::Memtier.title(), HOW, &HEAD);
    let theirs =
        match options.memtier.clone().map_or_else(|| find("memtier_benchmark", "memtier-benchmark"), Ok) {
            Ok(program) => program,
            Err(error) => {
                section.note(format!("left out: {error}; or name it with --memtier PROGRAM"));
                return Ok(section);
            }
        };
    let generators = [
        Generator { program: posthaste::PROGRAM.into(), words: &["bench", "cache"] },
        Generator { program: theirs, words: &[] },
    ];
    let dir = directory(&options.dir)?;
    let (_server, memcached) = memcached::start(dir.path())?;
    fill(memcached)?;
    let mock = posthaste::start_cache(&options.dir, None, &[], &["--mock", &MOCK_BYTES.to_string()])?;
    let mut figures = no_figures(CELLS.len(), generators.len());
    for round in 0..options.rounds() {
        for (cell, &load) in CELLS.iter().enumerate() {
            eprintln!("round {}: {}", round + 1, load.name());
            let address = if load.against == Against::Mock { mock.address } else { memcached };
            for subject in in_turn(generators.len(), round) {
                let figure = measure(&generators[subject], address, load, options.quick, dir.path())?;
                figures[cell][subject].push(figure);
            }
        }
    }
    for (&load, subjects) in CELLS.iter().zip(&figures) {
        tell(load, subjects, &mut section);
    }
    Ok(section)
}

/// Every key with a value as long as the longest that will be read.
fn fill(address: SocketAddr) -> Result<()> {
    let mut bench = command(posthaste::PROGRAM, &As::Me);
    bench.args(["bench", "cache", "--preload", "--connect", &address.to_string()]);
    bench.args(["--clients", "1", "--requests", "1", "--key-minimum", "1"]);
    finish(&mut bench).map(drop)
}

fn measure(
    generator: &Generator,
    address: SocketAddr,
    load: Load,
    quick: bool,
    dir: &Path,
) -> Result<Figure> {
    interrupt::check()?;
    let Load { clients, pipeline, bytes, keys, .. } = load;
    let each = load.requests_each(quick);
    let json = dir.join("summary.json");
    let _ = fs::remove_file(&json);
    let mut command: Command = command(&generator.program, &As::Me);
    command.args(generator.words);
    command.args(["-s", &address.ip().to_string(), "-p", &address.port().to_string(), "-P", "memcache_text"]);
    command.args(["-c", &clients.to_string(), "-t", "1", "-n", &each.to_string()]);
    command.args(["--pipeline", &pipeline.to_string(), "-d", &bytes.to_string()]);
    command.args(KEYS.split(' '));
    command.args(["--hide-histogram", "--json-out-file", text(&json)?]);
    if keys > 1 {
        command.args(["--ratio", &format!("{keys}:{keys}"), "--multi-key-get", &keys.to_string()]);
    } else {
        command.args(["--ratio", "1:1"]);
    }
    let before = cpu::of_finished_children();
    finish(&mut command)?;
    let used = cpu::of_finished_children() - before;
    let summary: Value = serde_json::from_reader(File::open(&json)?)?;
    let per_s = summary
        .pointer("/throughput_per_s")
        .or_else(|| summary.pointer("/ALL STATS/Totals/Ops~1sec"))
        .and_then(Value::as_f64)
        .ok_or("the summary lacks a throughput")?;
    Ok(Figure { cpu_us: used.as_secs_f64() * 1e6 / (each * clients) as f64, per_s })
}

fn tell(load: Load, subjects: &[Vec<Figure>], section: &mut Section) {
    let of =
        |subject: usize, which: fn(&Figure) -> f64| subjects[subject].iter().map(which).collect::<Vec<_>>();
    let cpu: fn(&Figure) -> f64 = |figure| figure.cpu_us;
    let per_s: fn(&Figure) -> f64 = |figure| figure.per_s;
    for (subject, name_of) in NAMES.iter().enumerate() {
        section.row(vec![
            load.name(),
            (*name_of).into(),
            Spread::of(of(subject, cpu)).map_or("-".into(), ratio),
            ratio_cell(&of(OURS, cpu), &of(subject, cpu)),
            Spread::of(of(subject, per_s)).map_or("-".into(), rate),
            ratio_cell(&of(OURS, per_s), &of(subject, per_s)),
        ]);
    }
    let spread = Spread::of_ratios(&of(OURS, cpu), &of(THEIRS, cpu));
    section.target(format!("CPU, posthaste / memtier, {}", load.name()), Bound::AtMost(1.0), spread);
    let spread = Spread::of_ratios(&of(OURS, per_s), &of(THEIRS, per_s));
    section.target(format!("rate, posthaste / memtier, {}", load.name()), Bound::AtLeast(1.0), spread);
}
