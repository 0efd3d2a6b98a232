//! `posthaste bench store` on PostgreSQL: several connections, each driven as a worker drives it, and nothing else.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use posthaste_load::SummaryFile;
use posthaste_measure::{Clock, Distribution, Events};
use posthaste_server::queue::postgres::address::PostgresAddress;
use posthaste_server::queue::postgres::store::Postgres;
use posthaste_server::queue::postgres::strategy::Popping;
use posthaste_server::time::Time;
use serde::Serialize;

use super::driver::{CallTimes, Driver, Failed, Slice};
use super::store::{heading, median};
use crate::flags::BenchStoreFlags;
use crate::stdout::say;

/// Numbers of connections that are measured by default.
const CONNECTIONS: [usize; 3] = [1, 4, 16];

/// One measured number of connections and batch size.
#[derive(Debug, Serialize)]
struct Row {
    connections: usize,
    batch: usize,
    operations_per_s: f64,
    call_mean_ms: f64,
    call_p99_ms: f64,
    /// By the kind's name.
    kinds: BTreeMap<&'static str, KindRow>,
}

/// The requests of one kind; a request takes as long as the call that it is in.
#[derive(Debug, Serialize)]
struct KindRow {
    operations: u64,
    operations_per_s: f64,
    mean_ms: f64,
    p99_ms: f64,
}

/// What `--json` writes.
#[derive(Debug, Serialize)]
struct Report {
    store: String,
    pop_strategy: Option<String>,
    message_bytes: usize,
    preload: u64,
    preload_s: f64,
    duration_s: f64,
    repetitions: usize,
    rows: Vec<Row>,
}

/// Runs every number of connections with every batch size and prints a table.
pub(crate) fn run(
    flags: &BenchStoreFlags,
    address: &PostgresAddress,
    unbatched: Option<Popping>,
    json: Option<SummaryFile>,
) -> Result<(), Failed> {
    let store = Postgres::open(address, unbatched, Time::start(), Clock::start(), Events::default())?;
    let mut first = Driver::new(&store, 0, 1, flags)?;
    if store.has_queues()? {
        return Err(format!("{address} holds queues already: name a new database").into());
    }
    first.create_queue()?;
    let start = Instant::now();
    first.preload(flags.preload)?;
    let preload_s = start.elapsed().as_secs_f64();
    let connections = if flags.connections.is_empty() { &CONNECTIONS[..] } else { &flags.connections };
    let mut rows = Vec::new();
    for &connections in connections {
        for &batch in &flags.batch {
            rows.push(measure(flags, &store, connections, batch)?);
        }
    }
    let report = Report {
        store: address.to_string(),
        pop_strategy: unbatched.map(|popping| popping.strategy.to_string()),
        message_bytes: flags.message_bytes,
        preload: flags.preload,
        preload_s,
        duration_s: flags.duration.as_secs_f64(),
        repetitions: flags.repetitions,
        rows,
    };
    let mut text = shown(&report);
    let _ = writeln!(
        text,
        "queues, messages and accounts stay in {address}: name another database for another run"
    );
    say(&text).map_err(|error| error.to_string())?;
    if let Some(json) = json {
        json.write(&serde_json::to_string_pretty(&report)?)?;
    }
    Ok(())
}

fn shown(report: &Report) -> String {
    let mut text = heading(&report.store, report.message_bytes, report.preload);
    let _ = writeln!(
        text,
        "{:>11} {:>6} {:>16} {:>13} {:>13}",
        "connections", "batch", "operations/s", "call mean/ms", "call p99/ms"
    );
    for row in &report.rows {
        let _ = writeln!(
            text,
            "{:>11} {:>6} {:>16.0} {:>13.3} {:>13.3}",
            row.connections, row.batch, row.operations_per_s, row.call_mean_ms, row.call_p99_ms
        );
    }
    if report.rows.iter().any(|row| row.kinds.len() > 1) {
        show_kinds(&report.rows, &mut text);
    }
    text
}

/// Adds a table of the kinds of requests.
fn show_kinds(rows: &[Row], text: &mut String) {
    let _ = writeln!(
        text,
        "\n{:>11} {:>6} {:<8} {:>12} {:>13} {:>13}",
        "connections", "batch", "request", "per second", "mean/ms", "p99/ms"
    );
    for row in rows {
        for (kind, figures) in &row.kinds {
            let _ = writeln!(
                text,
                "{:>11} {:>6} {kind:<8} {:>12.0} {:>13.3} {:>13.3}",
                row.connections, row.batch, figures.operations_per_s, figures.mean_ms, figures.p99_ms
            );
        }
    }
}

fn measure(
    flags: &BenchStoreFlags,
    store: &Arc<Postgres>,
    connections: usize,
    batch: usize,
) -> Result<Row, Failed> {
    let span = flags.duration / u32::try_from(flags.repetitions)?;
    let (mut rates, mut times) = (Vec::new(), CallTimes::default());
    for _ in 0..flags.repetitions {
        let slice = measure_slice(flags, store, connections, batch, span)?;
        rates.push(slice.operations_per_s);
        times.add(&slice.times);
    }
    let operations_per_s = median(&mut rates);
    let operations: u64 = times.kinds.values().map(Distribution::count).sum();
    let kind = |times: &Distribution| KindRow {
        operations: times.count(),
        operations_per_s: operations_per_s * times.count() as f64 / operations as f64,
        mean_ms: mean_ms(times),
        p99_ms: p99_ms(times),
    };
    Ok(Row {
        connections,
        batch,
        operations_per_s,
        call_mean_ms: mean_ms(&times.calls),
        call_p99_ms: p99_ms(&times.calls),
        kinds: times.kinds.iter().map(|(name, times)| (name.name(), kind(times))).collect(),
    })
}

fn mean_ms(times: &Distribution) -> f64 {
    times.mean_ns() / 1e6
}

fn p99_ms(times: &Distribution) -> f64 {
    times.quantile_ns(0.99) as f64 / 1e6
}

/// Runs all connections for one slice of time.
fn measure_slice(
    flags: &BenchStoreFlags,
    store: &Arc<Postgres>,
    connections: usize,
    batch: usize,
    span: Duration,
) -> Result<Slice, Failed> {
    // All are measured at the same time, and what is done before and after is in nobody's figures.
    let edge = Barrier::new(connections);
    let run = |thread: usize| -> Result<Slice, Failed> {
        let ready = Driver::new(store, thread, batch, flags).and_then(|mut driver| {
            driver.warm_up()?;
            Ok(driver)
        });
        edge.wait();
        let measured = ready.and_then(|mut driver| Ok((driver.run(span)?, driver)));
        edge.wait();
        let (slice, mut driver) = measured?;
        driver.finish()?;
        Ok(slice)
    };
    let slices: Vec<Result<Slice, Failed>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..connections).map(|n| scope.spawn(move || run(n))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a driver does not panic")).collect()
    });
    let mut all = Slice { operations_per_s: 0.0, times: CallTimes::default() };
    for slice in slices {
        let slice = slice?;
        all.operations_per_s += slice.operations_per_s;
        all.times.add(&slice.times);
    }
    Ok(all)
}
