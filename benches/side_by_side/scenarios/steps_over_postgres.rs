//! The twelve-step workload over PostgreSQL: our tier as it is, our tier the reports' way, two of ours over one database,
//! and PostgreSQL's functions without a middleware and without batches.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::options::{Options, Scenario};
use crate::peers::postgres::{PgBench, Postgres, sql_file};
use crate::peers::{posthaste, text};
use crate::process::{As, Server, command, directory};
use crate::report::{Bound, Section, rate};
use crate::scenarios::{in_turn, no_figures, ratio_cell};
use crate::statistics::Spread;
use crate::{Result, interrupt};

const STEPS: f64 = 12.0;
/// How the reports' middlewares worked: a request, a round trip, a commit.
const REPORTS: [&str; 6] = ["--batch", "1", "--pop-strategy", "delete-retry", "--workers", "8"];

const OURS: usize = 0;
const OURS_REPORTS: usize = 1;
const OURS_TWO: usize = 2;
const MODERN: usize = 3;
const SYSTEMS: [&str; 4] = [
    "posthaste",
    "posthaste, the reports' way",
    "two posthastes, one database",
    "modern functions, no middleware",
];

const HOW: &str = "The twelve requests in a closed loop over PostgreSQL with default settings (synced commits), everything on \
    this machine, unix sockets to the clients. `posthaste queue --store postgres://…` with its defaults, and with `--batch 1 \
    --pop-strategy delete-retry --workers 8`, loaded by `posthaste bench queue`; hand-written functions \
    (`benches/side_by_side/sql/modern.sql`), one call for each request, by `pgbench -M prepared -j 2` with as many \
    connections. Full: 12,000 messages that nobody else removes.";

const HEAD: [&str; 5] = ["load", "system", "requests per second", "posthaste / it", "us of CPU/request"];

/// One load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    clients: usize,
    full: bool,
    body_bytes: usize,
}

impl Cell {
    fn all() -> Vec<Self> {
        let mut cells = Vec::new();
        for body_bytes in [200, 2000] {
            for full in [false, true] {
                cells.extend([1, 16, 64, 128].map(|clients| Self { clients, full, body_bytes }));
            }
        }
        cells
    }

    fn name(self) -> String {
        let dataset = if self.full { "full" } else { "empty" };
        format!("{} clients, {dataset}, {} B", self.clients, self.body_bytes)
    }
}

/// What one run of one system gave.
#[derive(Clone, Copy, Debug)]
struct Figure {
    requests_per_s: f64,
    /// Of PostgreSQL and the middlewares.
    server_us: f64,
}

/// Measures the systems under every load.
pub(crate) fn run(options: &Options) -> Result<Section> {
    let mut section = Section::new(Scenario::StepsOverPostgres.title(), HOW, &HEAD);
    let bench = Bench::start(options)?;
    let cells = Cell::all();
    let mut figures = no_figures(cells.len(), SYSTEMS.len());
    for round in 0..options.rounds() {
        for (number, &cell) in cells.iter().enumerate() {
            eprintln!("round {}: {}", round + 1, cell.name());
            for subject in in_turn(SYSTEMS.len(), round) {
                interrupt::check()?;
                figures[number][subject].push(bench.measure(subject, cell, &mut section)?);
            }
        }
    }
    for (cell, subjects) in cells.iter().zip(&figures) {
        for (name, figures) in SYSTEMS.iter().zip(subjects) {
            section.row(row(*cell, name, figures, &subjects[OURS]));
        }
    }
    tell(&cells, &figures, &mut section);
    Ok(section)
}

fn rates(figures: &[Figure]) -> Vec<f64> {
    figures.iter().map(|figure| figure.requests_per_s).collect()
}

fn row(cell: Cell, name: &str, figures: &[Figure], ours: &[Figure]) -> Vec<String> {
    let cpu = Spread::of(figures.iter().map(|figure| figure.server_us));
    vec![
        cell.name(),
        name.into(),
        Spread::of(rates(figures)).map_or("-".into(), rate),
        ratio_cell(&rates(ours), &rates(figures)),
        cpu.map_or("-".into(), |cpu| format!("{:.0}", cpu.median)),
    ]
}

fn tell(cells: &[Cell], figures: &[Vec<Vec<Figure>>], section: &mut Section) {
    let of = |clients, full| {
        let cell = Cell { clients, full, body_bytes: 200 };
        &figures[cells.iter().position(|known| *known == cell).unwrap_or(0)]
    };
    let ratio = |subjects: &[Vec<Figure>], above: usize, below: usize| {
        Spread::of_ratios(&rates(&subjects[above]), &rates(&subjects[below]))
    };
    let empty = of(64, false);
    let reports = ratio(empty, OURS, OURS_REPORTS);
    section.target("posthaste / the reports' way, 64 clients", Bound::AtLeast(4.0), reports);
    for clients in [16, 64, 128] {
        let modern = ratio(of(clients, false), OURS, MODERN);
        let what = format!("posthaste / modern functions, {clients} clients");
        section.target(what, Bound::AtLeast(1.5), modern);
    }
    section.target("two posthastes / one, 64 clients", Bound::AtLeast(0.9), ratio(empty, OURS_TWO, OURS));
    let cpu = |figures: &[Figure]| figures.iter().map(|figure| figure.server_us).collect::<Vec<_>>();
    let full = Spread::of_ratios(&cpu(&of(64, true)[OURS]), &cpu(&empty[OURS]));
    section.target("CPU per request, full / empty, 64 clients", Bound::AtMost(1.1), full);
}

/// How far the servers are.
#[derive(Clone, Copy)]
struct Look {
    requests: u64,
    peeks: u64,
    cpu: Duration,
}

/// The running servers.
struct Bench<'a> {
    options: &'a Options,
    // Middlewares end before their database does.
    middlewares: Vec<(Server, String)>,
    postgres: Postgres,
    json: PathBuf,
    _dirs: Vec<tempfile::TempDir>,
}

impl<'a> Bench<'a> {
    fn start(options: &'a Options) -> Result<Self> {
        let postgres = Postgres::start(&options.dir)?;
        postgres.create("modern", &sql_file("modern.sql"))?;
        let (mut middlewares, mut dirs) = (Vec::new(), Vec::new());
        for (database, arguments) in [("ours", &[][..]), ("reports", &REPORTS), ("two", &[]), ("two", &[])] {
            if database != "two" || middlewares.len() == OURS_TWO {
                postgres.sql("postgres", &format!("CREATE DATABASE {database}"))?;
            }
            let dir = directory(&options.dir)?;
            let url = postgres.url(database)?;
            middlewares.push(posthaste::start_on_socket_over(dir.path(), &url, arguments)?);
            dirs.push(dir);
        }
        let json = dirs[0].path().join("bench.json");
        Ok(Self { options, middlewares, postgres, json, _dirs: dirs })
    }

    fn measure(&self, subject: usize, cell: Cell, section: &mut Section) -> Result<Figure> {
        match subject {
            MODERN => self.pgbench(cell),
            OURS_TWO => self.our_bench(&self.middlewares[OURS_TWO..], cell, section),
            one => self.our_bench(&self.middlewares[one..=one], cell, section),
        }
    }

    /// pgbench counts whole seconds and has no warm-up.
    fn pgbench(&self, cell: Cell) -> Result<Figure> {
        let messages = if cell.full { 12_000 } else { 0 };
        let letters = format!(
            "TRUNCATE message; INSERT INTO message (sender, recipient, queue, body) \
             SELECT i / 10 % 30 + 1, CASE WHEN i / 300 % 2 = 1 THEN i / 10 % 30 + 1 ELSE 0 END, i % 10 + 1, \
             repeat('x', {}) FROM generate_series(0, {messages} - 1) AS i",
            cell.body_bytes
        );
        self.postgres.sql("modern", &letters)?;
        self.postgres.vacuum("modern")?;
        let run = PgBench {
            database: "modern",
            script: &sql_file("twelve_step.pgbench"),
            define: &format!("body={}", "x".repeat(cell.body_bytes)),
            clients: cell.clients,
            seconds: self.seconds(),
        };
        let before = self.postgres.server.cpu();
        let requests_per_s = self.postgres.pgbench(&run)? * STEPS;
        let cpu = (self.postgres.server.cpu() - before).as_secs_f64();
        Ok(Figure { requests_per_s, server_us: cpu * 1e6 / (requests_per_s * self.seconds() as f64) })
    }

    fn our_bench(
        &self,
        middlewares: &[(Server, String)],
        cell: Cell,
        section: &mut Section,
    ) -> Result<Figure> {
        let mut bench = command(posthaste::PROGRAM, &As::Me);
        bench.args(["bench", "queue", "--dataset", if cell.full { "full" } else { "empty" }]);
        for (_, socket) in middlewares {
            bench.args(["--connect", socket]);
        }
        bench.args(["--clients", &cell.clients.to_string(), "--message-bytes", &cell.body_bytes.to_string()]);
        bench.args(["--duration", &format!("{}s", self.seconds()), "--warmup", "0s", "--cooldown", "0s"]);
        bench.args(["--json", text(&self.json)?]);
        let _ = fs::remove_file(&self.json);
        let mut running = bench.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let used = self.watch(middlewares, &mut running)?;
        let output = running.wait_with_output()?;
        interrupt::check()?;
        let said = || format!("posthaste bench: {}", String::from_utf8_lossy(&output.stderr).trim_end());
        let report: Value = serde_json::from_reader(File::open(&self.json).map_err(|_| said())?)?;
        if !output.status.success() {
            section.note(format!("{}: {}", cell.name(), said()));
        }
        let rate =
            report["throughput_per_s"].as_f64().ok_or("posthaste bench --json lacks throughput_per_s")?;
        Ok(Figure { requests_per_s: rate, server_us: used })
    }

    /// CPU of a request in microseconds while the workload runs: before it the data set is filled, without a PEEK.
    fn watch(&self, middlewares: &[(Server, String)], running: &mut Child) -> Result<f64> {
        let look = || -> Result<Look> {
            let served = middlewares.iter().map(|(_, socket)| posthaste::served(socket));
            let served = served.collect::<Result<Vec<_>>>()?;
            let cpu = middlewares.iter().map(|(server, _)| server.cpu()).sum::<Duration>();
            Ok(Look {
                requests: served.iter().map(|served| served.requests).sum(),
                peeks: served.iter().map(|served| served.peeks).sum(),
                cpu: cpu + self.postgres.server.cpu(),
            })
        };
        let idle = look()?;
        let (mut first, mut last) = (None, idle);
        while running.try_wait()?.is_none() {
            interrupt::check()?;
            std::thread::sleep(Duration::from_millis(100));
            let now = look()?;
            if now.peeks > idle.peeks && now.requests > last.requests {
                first.get_or_insert(now);
                last = now;
            }
        }
        let first = first.ok_or("the workload never began")?;
        let requests = last.requests.saturating_sub(first.requests).max(1);
        Ok((last.cpu - first.cpu).as_secs_f64() * 1e6 / requests as f64)
    }

    const fn seconds(&self) -> usize {
        if self.options.quick { 1 } else { 3 }
    }
}
