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

/// Clients, requests in flight of each, bytes of a value, keys of a get.
const CELLS: [(u64, u64, u64, u64); 7] = [
    (1, 1, 1024, 1),
    (64, 1, 1024, 1),
    (1024, 1, 1024, 1),
    (64, 1, 32, 1),
    (64, 16, 32, 1),
    (64, 16, 1024, 1),
    (64, 1, 1024, 9),
];
const KEYS: &str = "--key-prefix key- --key-minimum 1 --key-maximum 10000 --key-pattern R:R";
const OURS: usize = 0;
const THEIRS: usize = 1;
const NAMES: [&str; 2] = ["posthaste bench cache", "memtier_benchmark"];

const HOW: &str = "Both load generators are given the same words (`-c N -t 1 -n REQUESTS --ratio 1:1 -d BYTES` and so on) and \
    put the same number of requests, half sets, half gets, on the same memcached (one thread, 10,000 keys, filled \
    before), over TCP on the loopback, in turn. CPU is user and system time of the load generator's process from its \
    start to its end, connecting included, for each request. With keys 9, a turn is nine sets and one get of nine keys.";

const HEAD: [&str; 6] =
    ["load", "generator", "CPU us/request", "posthaste / it", "requests per second", "posthaste / it"];

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
    let (_server, address) = memcached::start(dir.path())?;
    fill(address)?;
    let mut figures = no_figures(CELLS.len(), generators.len());
    for round in 0..options.rounds() {
        for (cell, &load) in CELLS.iter().enumerate() {
            eprintln!("round {}: {}", round + 1, name(load));
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

fn name((clients, pipeline, bytes, keys): (u64, u64, u64, u64)) -> String {
    let keys = if keys > 1 { format!(", keys {keys}") } else { String::new() };
    format!("clients {clients}, pipeline {pipeline}, {bytes} bytes{keys}")
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
    (clients, pipeline, bytes, keys): (u64, u64, u64, u64),
    quick: bool,
    dir: &Path,
) -> Result<Figure> {
    interrupt::check()?;
    // A single client waits for every answer, so it takes longer for fewer.
    let requests = if clients == 1 { 40_000 } else { 400_000 } * pipeline.min(4) / if quick { 10 } else { 1 };
    let each = (requests / clients).max(20);
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

fn tell(load: (u64, u64, u64, u64), subjects: &[Vec<Figure>], section: &mut Section) {
    let of =
        |subject: usize, which: fn(&Figure) -> f64| subjects[subject].iter().map(which).collect::<Vec<_>>();
    let cpu: fn(&Figure) -> f64 = |figure| figure.cpu_us;
    let per_s: fn(&Figure) -> f64 = |figure| figure.per_s;
    for (subject, name_of) in NAMES.iter().enumerate() {
        section.row(vec![
            name(load),
            (*name_of).into(),
            Spread::of(of(subject, cpu)).map_or("-".into(), ratio),
            ratio_cell(&of(OURS, cpu), &of(subject, cpu)),
            Spread::of(of(subject, per_s)).map_or("-".into(), rate),
            ratio_cell(&of(OURS, per_s), &of(subject, per_s)),
        ]);
    }
    let spread = Spread::of_ratios(&of(OURS, cpu), &of(THEIRS, cpu));
    section.target(format!("CPU, posthaste / memtier, {}", name(load)), Bound::AtMost(1.0), spread);
    let spread = Spread::of_ratios(&of(OURS, per_s), &of(THEIRS, per_s));
    section.target(format!("rate, posthaste / memtier, {}", name(load)), Bound::AtLeast(1.0), spread);
}
