//! The twelve-step workload: our tier beside PostgreSQL that does the same work in stored functions.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::options::{Options, Scenario};
use crate::peers::postgres::{PgBench, Postgres, sql_file};
use crate::peers::{BODY, posthaste, text};
use crate::process::{As, Server, command, directory};
use crate::report::{Section, rate};
use crate::scenarios::{in_turn, no_figures, ratio_cell};
use crate::statistics::Spread;
use crate::{Result, interrupt};

const CLIENTS: [usize; 4] = [1, 16, 64, 256];
const STEPS: f64 = 12.0;
const OURS: usize = 0;
const SYSTEMS: [&str; 3] =
    ["posthaste embedded", "PostgreSQL, the reports' design", "PostgreSQL, modern functions"];
/// Of the second and third system; also the names of their SQL files.
const DATABASES: [&str; 2] = ["reports", "modern"];

const HOW: &str = "The twelve requests in a closed loop, 30 queues and no messages at first, all over unix sockets. Ours: \
    `posthaste bench queue --dataset empty`. PostgreSQL with default settings (synced commits): `pgbench -M prepared -j 2` \
    calls one stored function for each request (`benches/side_by_side/sql/`), index scans only, after a VACUUM. Both sides \
    keep what they answered on disk. A request of PostgreSQL is a twelfth of a pgbench transaction.";

const HEAD: [&str; 5] = ["clients", "system", "requests per second", "posthaste / it", "server us/request"];

/// What one run of one system gave.
#[derive(Clone, Copy, Debug)]
struct Figure {
    requests_per_s: f64,
    server_us: f64,
}

/// Measures the three systems at every number of clients.
pub(crate) fn run(options: &Options) -> Result<Section> {
    let mut section = Section::new(Scenario::TwelveStep.title(), HOW, &HEAD);
    let dir = directory(&options.dir)?;
    let (server, socket) = posthaste::start_on_socket(dir.path())?;
    let postgres = match start_postgres(options) {
        Ok(postgres) => Some(postgres),
        Err(error) => {
            section.note(format!("left out: {error}"));
            None
        }
    };
    let bench = Bench { options, server, socket, postgres, json: dir.path().join("bench.json") };
    let subjects = if bench.postgres.is_some() { SYSTEMS.len() } else { 1 };
    let mut figures = no_figures(CLIENTS.len(), subjects);
    for round in 0..options.rounds() {
        for (cell, &clients) in CLIENTS.iter().enumerate() {
            eprintln!("round {}: {clients} clients", round + 1);
            for subject in in_turn(subjects, round) {
                interrupt::check()?;
                figures[cell][subject].push(bench.measure(subject, clients, &mut section)?);
            }
        }
    }
    for (clients, subjects) in CLIENTS.iter().zip(&figures) {
        for (name, figures) in SYSTEMS.iter().zip(subjects) {
            section.row(row(*clients, name, figures, &subjects[OURS]));
        }
    }
    Ok(section)
}

fn start_postgres(options: &Options) -> Result<Postgres> {
    let postgres = Postgres::start(&options.dir)?;
    for database in DATABASES {
        postgres.create(database, &sql_file(&format!("{database}.sql")))?;
    }
    Ok(postgres)
}

fn row(clients: usize, name: &str, figures: &[Figure], ours: &[Figure]) -> Vec<String> {
    let rates = |figures: &[Figure]| figures.iter().map(|figure| figure.requests_per_s).collect::<Vec<_>>();
    let cpu = Spread::of(figures.iter().map(|figure| figure.server_us));
    vec![
        clients.to_string(),
        name.into(),
        Spread::of(rates(figures)).map_or("-".into(), rate),
        ratio_cell(&rates(ours), &rates(figures)),
        cpu.map_or("-".into(), |cpu| format!("{:.1}", cpu.median)),
    ]
}

/// The running servers.
struct Bench<'a> {
    options: &'a Options,
    server: Server,
    socket: String,
    postgres: Option<Postgres>,
    json: PathBuf,
}

impl Bench<'_> {
    fn measure(&self, subject: usize, clients: usize, section: &mut Section) -> Result<Figure> {
        match &self.postgres {
            Some(postgres) if subject != OURS => self.pgbench(postgres, DATABASES[subject - 1], clients),
            _ => self.our_bench(clients, section),
        }
    }

    /// pgbench counts whole seconds and has no warm-up: its figure starts with cold backends.
    fn pgbench(&self, postgres: &Postgres, database: &str, clients: usize) -> Result<Figure> {
        postgres.vacuum(database)?;
        let body = String::from_utf8_lossy(&BODY);
        let seconds = self.seconds(clients);
        let run = PgBench {
            database,
            script: &sql_file("twelve_step.pgbench"),
            define: &format!("body={body}"),
            clients,
            seconds,
        };
        let (start, before) = (Instant::now(), postgres.server.cpu());
        let requests_per_s = postgres.pgbench(&run)? * STEPS;
        Ok(figure(requests_per_s, postgres.server.cpu() - before, start.elapsed()))
    }

    fn our_bench(&self, clients: usize, section: &mut Section) -> Result<Figure> {
        let mut bench = command(posthaste::PROGRAM, &As::Me);
        bench.args(["bench", "queue", "--connect", &self.socket, "--clients", &clients.to_string()]);
        bench.args(["--dataset", "empty", "--duration", &format!("{}s", self.seconds(clients))]);
        bench.args(["--warmup", "0s", "--cooldown", "0s", "--json", text(&self.json)?]);
        let _ = fs::remove_file(&self.json);
        let (start, before) = (Instant::now(), self.server.cpu());
        let output = bench.output()?;
        let cpu = self.server.cpu() - before;
        let elapsed = start.elapsed();
        interrupt::check()?;
        let said = || format!("posthaste bench: {}", String::from_utf8_lossy(&output.stderr).trim_end());
        let report: Value = serde_json::from_reader(File::open(&self.json).map_err(|_| said())?)?;
        // It fails when its figure is doubtful, for one thing because the client was the limit: said, not hidden.
        if !output.status.success() {
            section.note(format!("{clients} clients, {}", said()));
        }
        let rate =
            report["throughput_per_s"].as_f64().ok_or("posthaste bench --json lacks throughput_per_s")?;
        Ok(figure(rate, cpu, elapsed))
    }

    /// pgbench needs a while only to connect many clients.
    const fn seconds(&self, clients: usize) -> usize {
        let least = if self.options.quick { 1 } else { 3 };
        least + clients / 128
    }
}

/// CPU is taken over the whole run of the load program, as long as its figure is: connecting counts as serving.
fn figure(requests_per_s: f64, cpu: Duration, elapsed: Duration) -> Figure {
    Figure { requests_per_s, server_us: cpu.as_secs_f64() * 1e6 / (requests_per_s * elapsed.as_secs_f64()) }
}
