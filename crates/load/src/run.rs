//! One run from the first connection to the report.

use std::fs::OpenOptions;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::aftermath::{Gathered, report, settle, sweep};
use crate::check::inspector::Inspector;
use crate::check::ledger::Ledger;
use crate::client::{Client, Instruments};
use crate::clock::{Clock, Schedule};
use crate::connection::Connection;
use crate::error::LoadError;
use crate::mix::{Mix, Recipe};
use crate::options::QueueBench;
use crate::pace::Arrivals;
use crate::program::Program;
use crate::progress::Live;
use crate::report::Report;
use crate::session::Session;
use crate::setup::{self, Ground, accounts, shared_queues};
use crate::tally::{Tally, Window};
use crate::timespan::nanos;
use crate::worker::{Floor, Harvest, Worker};
use crate::workload::Workload;

/// How long clients may take to finish after the cool-down.
const GRACE: Duration = Duration::from_secs(10);

/// Puts the load on, measures and checks. Writes the summary when `--json` asks for it.
///
/// A broken promise or a lost connection is no error here: it stands in the report.
///
/// # Errors
/// The options contradict each other, or the run could not be made.
pub fn run(bench: QueueBench) -> Result<Report, LoadError> {
    bench.validate()?;
    bench.json.as_deref().map_or(Ok(()), try_summary)?;
    raise_descriptor_limit(bench.clients);
    let run = run_number();
    let ground = if bench.workload.needs_queues() {
        setup::prepare(&bench, run)?
    } else {
        Ground { sent: vec![0; accounts(&bench) as usize], foreign: 0 }
    };
    let ledger = bench.check.then(|| {
        let mut ledger = Ledger::new(accounts(&bench), ground.foreign);
        setup::enter(&ground, &mut ledger);
        Mutex::new(ledger)
    });
    let connections = connect(&bench, &ground)?;
    let start = SystemTime::now();
    let harvests = drive(&bench, run, connections, ledger.as_ref())?;
    let mut harvest = Gathered::of(harvests);
    let ledger = ledger.map(|ledger| ledger.into_inner().unwrap_or_else(PoisonError::into_inner));
    let check = ledger.map(|ledger| settle(&bench, run, &ground, ledger, &mut harvest));
    sweep(&bench, &harvest);
    let report = report(bench, start, harvest, check);
    if let Some(path) = &report.options.json {
        report.write_json(path)?;
    }
    Ok(report)
}

/// Finds out before the run, not after it, that its summary has no place.
fn try_summary(path: &Path) -> Result<(), LoadError> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.map(drop).map_err(|source| LoadError::Json { path: path.to_owned(), source })
}

/// Tells this run's messages from those of others.
fn run_number() -> u32 {
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    (nanos.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32 ^ std::process::id()
}

/// Each client needs a descriptor. When the limit cannot be raised, connecting says so.
fn raise_descriptor_limit(clients: u32) {
    let needed = u64::from(clients) + 256;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < needed) {
        let current = limit.maximum.map_or(needed, |maximum| maximum.min(needed));
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(current), ..limit });
    }
}

/// Connects and logs in all clients, spread over the addresses.
fn connect(bench: &QueueBench, ground: &Ground) -> Result<Vec<Connection>, LoadError> {
    let recipe = recipe(bench);
    let mut connections = Vec::with_capacity(bench.clients as usize);
    for account in 1..=bench.clients {
        let address = &bench.connect[(account as usize - 1) % bench.connect.len()];
        let mut session = Session::connect(address)?;
        if bench.workload.needs_queues() {
            session.log_in(account)?;
        }
        let stream = session
            .into_stream()
            .into_polled()
            .map_err(|source| LoadError::Connect { address: address.to_string(), source })?;
        let program = match &recipe {
            None => Program::twelve_step(account),
            Some(recipe) => Program::Mix(Mix::new(Arc::clone(recipe), bench.seed, account)),
        };
        let sent = ground.sent[account as usize - 1];
        let client = Client::new(account, program, bench.pipeline as usize, sent);
        let client = if bench.total_rate().is_some() { client.paced() } else { client };
        connections.push(Connection::new(stream, client));
    }
    Ok(connections)
}

fn recipe(bench: &QueueBench) -> Option<Arc<Recipe>> {
    let Workload::Mix(shares) = &bench.workload else { return None };
    Some(Arc::new(Recipe {
        shares: shares.clone(),
        queues: bench.queues.into(),
        clients: bench.clients,
        broadcast_share: bench.broadcast_share,
        remove_share: bench.remove_share,
    }))
}

fn schedule(bench: &QueueBench) -> Schedule {
    let start = nanos(bench.warmup);
    let end = start.saturating_add(nanos(bench.duration));
    let stop = end.saturating_add(nanos(bench.cooldown));
    Schedule { window: Window { start, end }, stop, give_up: stop.saturating_add(nanos(GRACE)) }
}

/// Runs the threads, with a live line when a person looks on.
fn drive(
    bench: &QueueBench,
    run: u32,
    connections: Vec<Connection>,
    ledger: Option<&Mutex<Ledger>>,
) -> Result<Vec<Harvest>, LoadError> {
    let live = std::io::stderr().is_terminal().then(Live::default);
    let allows_foreign =
        ledger.is_some_and(|ledger| ledger.lock().unwrap_or_else(PoisonError::into_inner).allows_foreign());
    let schedule = schedule(bench);
    let floor = Floor { clock: Clock::start(), schedule, think: bench.think, ledger, live: live.as_ref() };
    let mut workers = Vec::new();
    let shares = deal(connections, bench.threads as usize);
    let threads = shares.len();
    for (thread, share) in shares.into_iter().enumerate() {
        let tally = Tally::new(schedule.window, live.is_some());
        let inspector = ledger.map(|_| Inspector::new(run, shared_queues(bench), allows_foreign));
        let instruments = Instruments::new(bench.message_bytes, run, tally, inspector);
        let arrivals =
            bench.total_rate().map(|rate| Arrivals::new(rate, bench.arrivals, thread, threads, bench.seed));
        let seed = bench.seed.wrapping_add(thread as u64);
        workers.push(Worker::new(floor, share, instruments, arrivals, seed)?);
    }
    let pipeline = bench.pipeline as usize;
    thread::scope(|scope| {
        let (end, ended) = channel();
        let threads: Vec<_> =
            workers.into_iter().map(|worker| scope.spawn(move || worker.run(pipeline))).collect();
        if let Some(live) = &live {
            scope.spawn(move || live.show(&ended));
        }
        let results = threads.into_iter().map(|thread| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        let results = results.collect();
        drop(end);
        results
    })
}

/// Deals the clients out like cards; no thread goes without one.
fn deal(connections: Vec<Connection>, threads: usize) -> Vec<Vec<Connection>> {
    let threads = threads.min(connections.len());
    let mut shares: Vec<Vec<_>> = (0..threads).map(|_| Vec::new()).collect();
    for (i, connection) in connections.into_iter().enumerate() {
        shares[i % threads].push(connection);
    }
    shares
}
