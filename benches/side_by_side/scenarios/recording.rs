//! What a record costs: the load generator's CPU time and the tier's, without a record, with one, and with one that
//! holds every request.
//!
//! CPU time of the whole process, so that the threads that write count too. The system tells it in hundredths of a
//! second, hence the long spans and the many rounds.

use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::load::{Load, Unit};
use crate::options::{Options, Scenario};
use crate::peers::posthaste::{self, PROGRAM, Store};
use crate::peers::{Peer, text};
use crate::process::{As, command, directory, finish};
use crate::report::{Bound, Section, ratio};
use crate::resp::Resp;
use crate::scenarios::{Figures, in_turn, no_figures};
use crate::statistics::Spread;
use crate::{Result, cpu, interrupt};

/// Connections, requests in flight per connection.
const CELLS: [(usize, usize); 3] = [(1, 1), (64, 1), (16, 16)];
const SUBJECTS: [&str; 3] = ["no record", "--record", "--record --record-requests"];
/// The most that the second and the third may cost.
const BOUNDS: [f64; 2] = [1.03, 1.15];
/// A ratio near 1 wants longer spans and more rounds than one near 2.
const SPAN_FACTOR: u32 = 3;
const ROUNDS_FACTOR: usize = 3;

const HOW: &str = "PEEK against `--store mock:200`, in turn. The load generator: `posthaste bench queue --workload \
    mix:peek=1`, its whole life. The tier: three of them, one without a record, under the benchmark's own load; windows and \
    histograms are always kept there, the scenario `measuring` says what those cost.";

const HEAD: [&str; 5] = ["process", "load", "record", "CPU us/request", "of that without"];

/// Measures both sides.
pub(crate) fn run(options: &Options) -> Result<Section> {
    let mut section = Section::new(Scenario::Recording.title(), HOW, &HEAD);
    let dir = &options.dir;
    let tiers = [
        posthaste::start(dir, Store::Mock)?,
        posthaste::start_recorded(dir, Store::Mock, &[])?,
        posthaste::start_recorded(dir, Store::Mock, &["--record-requests"])?,
    ];
    let scratch = directory(dir)?;
    let mut generator = no_figures(CELLS.len(), SUBJECTS.len());
    let mut tier = no_figures(CELLS.len(), SUBJECTS.len());
    for round in 0..options.rounds() * ROUNDS_FACTOR {
        eprintln!("round {}", round + 1);
        for (cell, &load) in CELLS.iter().enumerate() {
            for subject in in_turn(SUBJECTS.len(), round) {
                interrupt::check()?;
                generator[cell][subject].push(generator_us(
                    options,
                    &tiers[0],
                    scratch.path(),
                    load,
                    subject,
                )?);
                tier[cell][subject].push(tier_us(options, &tiers[subject], load)?);
            }
        }
    }
    tell("load generator", &generator, &mut section);
    tell("tier", &tier, &mut section);
    Ok(section)
}

/// CPU microseconds per request of a load generator.
fn generator_us(
    options: &Options,
    tier: &Peer,
    scratch: &Path,
    (clients, pipeline): (usize, usize),
    subject: usize,
) -> Result<f64> {
    let (json, record) = (scratch.join("bench.json"), scratch.join("record"));
    let mut bench = command(PROGRAM, &As::Me);
    bench.args(["bench", "queue", "--connect", &tier.address.to_string(), "--workload", "mix:peek=1"]);
    bench.args(["--clients", &clients.to_string(), "--pipeline", &pipeline.to_string()]);
    let span = options.span() * SPAN_FACTOR;
    bench.args(["--warmup", "0s", "--cooldown", "0s", "--duration", &format!("{}ms", span.as_millis())]);
    bench.args(["--json", text(&json)?]);
    if subject > 0 {
        bench.args(["--record", text(&record)?]);
    }
    if subject > 1 {
        bench.arg("--record-requests");
    }
    let before = cpu::of_finished_children();
    finish(&mut bench)?;
    let used = cpu::of_finished_children() - before;
    if subject > 0 {
        fs::remove_dir_all(&record)?;
    }
    let report: Value = serde_json::from_reader(File::open(&json)?)?;
    per_request(used, report["ok"].as_u64().unwrap_or(0) + report["nulls"].as_u64().unwrap_or(0))
}

fn per_request(used: Duration, requests: u64) -> Result<f64> {
    if requests == 0 {
        return Err("posthaste bench queue had no answer".into());
    }
    Ok(used.as_secs_f64() * 1e6 / requests as f64)
}

/// The same of a tier.
fn tier_us(options: &Options, tier: &Peer, (connections, depth): (usize, usize)) -> Result<f64> {
    let (warm_up, span) = (options.warm_up(), options.span() * SPAN_FACTOR);
    let load = Load { unit: Unit::Send, connections, depth, warm_up, span };
    Ok(tier.load_with(&load, &|_| Box::new(Resp::only(&[b"PEEK", b"QUEUE", b"q"])))?.server_us)
}

fn tell(process: &str, figures: &Figures<f64>, section: &mut Section) {
    for (&(connections, depth), subjects) in CELLS.iter().zip(figures) {
        let load = format!("{connections} connections, depth {depth}");
        for (subject, figures) in subjects.iter().enumerate() {
            let of_none = Spread::of_ratios(figures, &subjects[0]);
            section.row(vec![
                process.into(),
                load.clone(),
                SUBJECTS[subject].into(),
                Spread::of(figures.iter().copied()).map_or("-".into(), |us| format!("{:.3}", us.median)),
                of_none.map_or("-".into(), ratio),
            ]);
            if let Some(bound) = subject.checked_sub(1).and_then(|place| BOUNDS.get(place)) {
                let what = format!("{process}, {load}, {}", SUBJECTS[subject]);
                section.target(what, Bound::AtMost(*bound), of_none);
            }
        }
    }
}
