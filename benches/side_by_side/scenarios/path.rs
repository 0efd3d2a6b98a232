//! The path alone: fixed answers behind it, so that sockets, parsing and writing are all that costs.

use crate::load::{Load, Sample, Unit};
use crate::options::{Options, Scenario};
use crate::peers::posthaste::Store;
use crate::peers::{BODY, Peer, posthaste, redis};
use crate::report::{Bound, Section, rate};
use crate::resp::Resp;
use crate::scenarios::{Figures, cpu_cells, in_turn, no_figures, per_cpu_second, rates, ratio_cell};
use crate::statistics::Spread;
use crate::{Result, interrupt};

/// Connections, requests in flight per connection.
const CELLS: [(usize, usize); 6] = [(1, 1), (16, 1), (64, 1), (1, 16), (16, 16), (64, 16)];

/// What is asked of whom: name, whether of us, whether there is a target, and the request. redis-server's PING comes
/// first: the others are read against it.
const SUBJECTS: [(&str, bool, bool, &[&[u8]]); 4] = [
    ("redis-server PING", false, false, &[b"PING"]),
    ("posthaste PING", true, true, &[b"PING"]),
    ("posthaste PEEK", true, false, &[b"PEEK", b"QUEUE", b"q"]),
    ("posthaste SEND", true, true, &[b"SEND", b"q", &BODY]),
];

const HOW: &str = "`posthaste queue --store mock:200 --threads 1` (one network thread, as redis-server has) answers every PEEK with the same message of 200 bytes and every SEND \
    with an id. A PING is the least a server can do: no arguments, seven bytes of answer. Compared are requests for each \
    CPU second of the server, because on a small machine client and server share the processors. PEEK stands here for scale and without a target: \
    its answer is forty times as long, and copying it through the kernel is part of the figure.";

const HEAD: [&str; 8] = [
    "load",
    "request",
    "per second",
    "per CPU second",
    "/ redis PING",
    "server us/request",
    "client us/request",
    "client busy %",
];

/// Measures the four requests in all cells.
pub(crate) fn run(options: &Options) -> Result<Section> {
    let mut section = Section::new(Scenario::Path.title(), HOW, &HEAD);
    let redis = redis::start(&options.dir)?;
    let ours = posthaste::start(&options.dir, Store::Mock)?;
    let mut figures = no_figures(CELLS.len(), SUBJECTS.len());
    for round in 0..options.rounds() {
        eprintln!("round {}", round + 1);
        measure(options, round, &redis, &ours, &mut figures)?;
    }
    tell(&figures, &mut section);
    Ok(section)
}

fn measure(
    options: &Options,
    round: usize,
    redis: &Peer,
    ours: &Peer,
    figures: &mut Figures<Sample>,
) -> Result<()> {
    for (&(connections, depth), figures) in CELLS.iter().zip(figures) {
        for subject in in_turn(SUBJECTS.len(), round) {
            interrupt::check()?;
            let (_, is_ours, _, words) = SUBJECTS[subject];
            let peer = if is_ours { ours } else { redis };
            let load = Load {
                unit: Unit::Send,
                connections,
                depth,
                warm_up: options.warm_up(),
                span: options.span(),
            };
            let sample = peer.load_with(&load, &|_| Box::new(Resp::only(words)))?;
            figures[subject].push(sample);
        }
    }
    Ok(())
}

fn tell(figures: &Figures<Sample>, section: &mut Section) {
    for ((connections, depth), subjects) in CELLS.iter().zip(figures) {
        let redis = per_cpu_second(&subjects[0]);
        for (&(request, ..), samples) in SUBJECTS.iter().zip(subjects) {
            let figure = per_cpu_second(samples);
            let mut row = vec![format!("connections {connections}, depth {depth}"), request.into()];
            row.push(Spread::of(rates(samples)).map_or("-".into(), rate));
            row.push(Spread::of(figure.iter().copied()).map_or("-".into(), rate));
            row.push(ratio_cell(&figure, &redis));
            row.extend(cpu_cells(samples));
            section.row(row);
        }
    }
    for (subject, (request, _, has_target, _)) in SUBJECTS.iter().enumerate() {
        if *has_target {
            let what = format!("{request} / redis-server PING per CPU second, lowest of all loads");
            section.target(what, Bound::AtLeast(0.9), lowest_ratio(subject, figures));
        }
    }
}

/// Of a request to Redis's, where it is worst.
fn lowest_ratio(subject: usize, figures: &Figures<Sample>) -> Option<Spread> {
    let ratios = figures.iter().filter_map(|subjects| {
        Spread::of_ratios(&per_cpu_second(&subjects[subject]), &per_cpu_second(&subjects[0]))
    });
    ratios.min_by(|one, other| one.median.total_cmp(&other.median))
}
