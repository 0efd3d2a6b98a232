//! One run from the first connection to the report.

use std::io::IsTerminal;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::aftermath::{RunCourse, RunResults, report};
use crate::arrivals::Arrivals;
use crate::bench::Bench;
use crate::client::{Client, Instruments};
use crate::clock::{Clock, Schedule};
use crate::connection::Connection;
use crate::dialogue::Dialogue;
use crate::error::LoadError;
use crate::halt::{HALT_CHECK_INTERVAL, Halt, unless_interrupted};
use crate::pace::ThreadShare;
use crate::probe::{Counted, Probes};
use crate::progress::Live;
use crate::recording::Recording;
use crate::report::Report;
use crate::run_options::RunOptions;
use crate::stderr::complain;
use crate::summary_file::SummaryFile;
use crate::tally::{Tally, Window};
use crate::timespan::nanos;
use crate::timetable::Timetable;
use crate::worker::{FINISH_MAX, RunContext, ThreadResults, Worker};

/// How long before the first request its time is settled, if it is to be written into the record first.
const ANNOUNCEMENT_LEAD: Duration = Duration::from_millis(20);

/// A client will not catch up once its requests of this many seconds are due and not sent: as long as servers wait for
/// their database.
const BEHIND_S: f64 = 30.0;

/// Number of unsent requests of one client that may always be a matter of chance.
const BEHIND_MIN: usize = 100;

/// Number of unsent requests that all clients together may keep, in equal parts, unless those are smaller than
/// [`BEHIND_MIN`].
const BEHIND_MAX: usize = 1 << 24;

/// Puts the load on, measures and checks. Writes the summary when `--json` asks for it.
///
/// A broken promise, a lost connection or a summary that cannot be written is no error here: it stands in the report.
///
/// # Errors
/// The options contradict each other, or the run could not be made.
pub fn run<B: Bench>(mut bench: B) -> Result<Report<B>, LoadError> {
    bench.validate()?;
    if let Some(connector) = bench.options().tls.connector()? {
        bench.servers_mut().iter_mut().for_each(|server| server.encrypt(&connector));
    }
    let timetable = Timetable::of(bench.options())?;
    let summary = bench.options().json.as_deref().map(SummaryFile::open).transpose()?;
    let clock = Clock::start();
    let recording = Recording::begin(&bench, clock)?;
    raise_descriptor_limit(bench.options().clients);
    let prepared = bench.prepare(run_number())?;
    let connections = connect(&bench, &prepared)?;
    let mut probes = Probes::of(&bench);
    let mut relations = recording.as_ref().map_or(Vec::new(), |_| probes.relate(clock));
    let lead = recording.as_ref().map_or(Duration::ZERO, |_| ANNOUNCEMENT_LEAD);
    let schedule = schedule(bench.options(), origin(bench.options(), clock, lead)?);
    if let Some(recording) = &recording {
        recording.announce(schedule.window);
        recording.relate(&relations);
    }
    wait(schedule.origin, clock)?;
    let halt = Halt::default();
    let setting = RunSetting {
        clock,
        schedule,
        timetable: timetable.as_ref(),
        halt: &halt,
        recording: recording.as_ref(),
    };
    if let Some(recording) = &recording {
        recording.set_up_is_over();
    }
    let start = UNIX_EPOCH + Duration::from_nanos(clock.started_unix_ns() + schedule.origin);
    let Driven { thread_results, counted } = drive(&bench, &prepared, connections, &setting, &mut probes)?;
    let last = clock.now();
    let counted = counted.unwrap_or_else(|error| {
        complain(format_args!("posthaste: what the servers counted is not known: {error}"));
        None
    });
    let (results, finished) = RunResults::of(thread_results);
    let settled = bench.settle(prepared, finished);
    let cut_short = results.cut_short(schedule.window);
    let warmup = cut_short.unwrap_or(schedule.window).start.saturating_sub(schedule.origin);
    let course = RunCourse {
        start,
        warmup_s: warmup as f64 * 1e-9,
        cut_short: cut_short.is_some(),
        overrun: halt.is_overrun(),
        timetable,
        counted,
    };
    let mut report = report(bench, course, results, settled);
    if let Some(recording) = &recording {
        relations.extend(probes.relate(clock));
        recording.relate(&relations);
        recording.end(&as_kept(schedule, cut_short, last), &report.as_json());
    }
    report.write_to(summary);
    Ok(report)
}

/// Returns a number that tells this run's messages from those of others.
fn run_number() -> u32 {
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    (nanos.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32 ^ std::process::id()
}

/// Raises the limit of descriptors to what the clients need. If it cannot be raised, connecting will fail with advice.
fn raise_descriptor_limit(clients: u32) {
    let needed = u64::from(clients) + 256;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < needed) {
        let current = limit.maximum.map_or(needed, |maximum| maximum.min(needed));
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(current), ..limit });
    }
}

/// Connects all clients, spread over the servers.
fn connect<B: Bench>(bench: &B, prepared: &B::Prepared) -> Result<Vec<Connection<B::Dialogue>>, LoadError> {
    let options = bench.options();
    let mut connections = Vec::with_capacity(options.clients as usize);
    for (number, server) in (1..=options.clients).zip(bench.servers().iter().cycle()) {
        unless_interrupted()?;
        let (stream, dialogue) = bench.connect(prepared, number, server)?;
        let stream = stream
            .into_polled()
            .map_err(|source| LoadError::Connect { address: server.to_string(), source })?;
        let client = Client::new(dialogue, options.pipeline as usize).numbered(number);
        let client = if options.is_open() { client.paced() } else { client };
        let client = options.requests.into_iter().fold(client, Client::limited);
        connections.push(Connection::new(stream, client));
    }
    Ok(connections)
}

/// Returns when the first request is sent: after `lead`, or at the time of `--start-at`.
fn origin(bench: &RunOptions, clock: Clock, lead: Duration) -> Result<u64, LoadError> {
    let now = clock.now();
    let Some(start_at) = bench.start_at else { return Ok(now.saturating_add(nanos(lead))) };
    let wait_s = start_at - (clock.started_unix_ns() + now) as f64 / 1e9;
    if wait_s < 0.0 {
        return Err(LoadError::Failed(format!(
            "--start-at was {:.1} s ago when all clients were connected: give the set-up more time",
            -wait_s
        )));
    }
    Ok(now.saturating_add(nanos(Duration::from_secs_f64(wait_s))))
}

/// Waits until the first request is due.
fn wait(origin: u64, clock: Clock) -> Result<(), LoadError> {
    loop {
        unless_interrupted()?;
        let left = Duration::from_nanos(origin.saturating_sub(clock.now()));
        if left.is_zero() {
            return Ok(());
        }
        thread::sleep(left.min(HALT_CHECK_INTERVAL));
    }
}

fn schedule(bench: &RunOptions, origin: u64) -> Schedule {
    if bench.requests.is_some() {
        // The run ends when all is sent and answered, or nothing is answered any more.
        let window = Window { start: origin, end: u64::MAX };
        return Schedule { origin, window, stop: u64::MAX, give_up: u64::MAX };
    }
    let start = origin.saturating_add(nanos(bench.warmup));
    let end = start.saturating_add(nanos(bench.duration));
    let stop = end.saturating_add(nanos(bench.cooldown));
    Schedule { origin, window: Window { start, end }, stop, give_up: stop.saturating_add(nanos(FINISH_MAX)) }
}

/// Returns how many requests may be due to one client and not sent.
fn behind_max(bench: &RunOptions, timetable: Option<&Timetable>) -> usize {
    let clients = bench.clients.max(1);
    let of_each = timetable.map_or(0.0, |timetable| timetable.due_at_most(BEHIND_S)) / f64::from(clients);
    (of_each as usize).min(BEHIND_MAX / clients as usize).max(BEHIND_MIN)
}

/// Returns the schedule as it was kept, by clients that were done at `last`.
fn as_kept(planned: Schedule, cut_short: Option<Window>, last: u64) -> Schedule {
    let stop = planned.stop.min(last);
    match cut_short {
        Some(window) => Schedule { window, stop: window.end, ..planned },
        None => Schedule { stop, ..planned },
    }
}

/// The clock and schedule of a run, its recording, and the call to end it early.
struct RunSetting<'a> {
    clock: Clock,
    schedule: Schedule,
    /// When requests are due in an open loop.
    timetable: Option<&'a Timetable>,
    halt: &'a Halt,
    recording: Option<&'a Recording>,
}

/// What all threads of a run found out.
struct Driven<D: Dialogue> {
    thread_results: Vec<ThreadResults<D>>,
    /// What the servers counted; None if they are of a kind that does not count, or the run ended early.
    counted: Result<Option<Counted>, LoadError>,
}

/// Runs the threads, with a live line if stderr is a terminal.
fn drive<B: Bench>(
    bench: &B,
    prepared: &B::Prepared,
    connections: Vec<Connection<B::Dialogue>>,
    setting: &RunSetting<'_>,
    probes: &mut Probes,
) -> Result<Driven<B::Dialogue>, LoadError> {
    let options = bench.options();
    let live = std::io::stderr().is_terminal().then(|| Live::new(<B::Dialogue as Dialogue>::NULLS));
    let RunSetting { clock, schedule, timetable, halt, recording } = *setting;
    let behind_max = behind_max(options, timetable);
    let (think, seed) = (options.think, options.seed);
    let context = RunContext { clock, schedule, think, seed, behind_max, halt, live: live.as_ref() };
    let mut workers = Vec::new();
    let shares = deal(connections, options.threads as usize);
    let (threads, clients) = (shares.len(), options.clients as usize);
    for (thread, connections) in shares.into_iter().enumerate() {
        let tally = Tally::new(schedule.window, <B::Dialogue as Dialogue>::KINDS.len(), live.is_some());
        let tally = if timetable.is_some() { tally.paced() } else { tally };
        let watch = recording.map(Recording::watch);
        let instruments = Instruments { tally, shared: bench.shared(prepared), watch };
        let share = ThreadShare { thread, threads, clients };
        let arrivals = timetable.map(|timetable| {
            Arrivals::new(timetable.clone(), options.arrivals, share, seed, schedule.origin)
        });
        workers.push(Worker::new(context, share, connections, instruments, arrivals)?);
    }
    let pipeline = options.pipeline as usize;
    thread::scope(|scope| {
        let mut ends = Vec::new();
        let mut ended = || {
            let (end, ended) = channel();
            ends.push(end);
            ended
        };
        let threads: Vec<_> =
            workers.into_iter().map(|worker| scope.spawn(move || worker.run(pipeline))).collect();
        if let Some(live) = &live {
            let ended = ended();
            scope.spawn(move || live.show(&ended));
        }
        if let Some(recording) = recording {
            let ended = ended();
            scope.spawn(move || recording.keep(schedule.origin, &ended));
        }
        let without_clients = ended();
        let counting = scope.spawn(move || probes.throughput(clock, schedule.window, &without_clients));
        let results = threads.into_iter().map(|thread| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        let results: Result<Vec<_>, _> = results.collect();
        drop(ends);
        // Only a panic could end the counting thread without a result, and the run is good without it.
        let counted = counting.join().unwrap_or(Ok(None));
        Ok(Driven { thread_results: results?, counted })
    })
}

/// Deals the clients out like cards; no thread goes without one.
fn deal<D: Dialogue>(connections: Vec<Connection<D>>, threads: usize) -> Vec<Vec<Connection<D>>> {
    let threads = threads.min(connections.len());
    let mut shares: Vec<Vec<_>> = (0..threads).map(|_| Vec::new()).collect();
    for (i, connection) in connections.into_iter().enumerate() {
        shares[i % threads].push(connection);
    }
    shares
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        run: RunOptions,
    }

    #[test]
    fn a_start_that_is_centuries_away_is_not_now() {
        let Line { run } = Line::parse_from(["bench", "--start-at", "90000000000"]);
        assert_eq!(origin(&run, Clock::start(), Duration::ZERO).expect("it is to come"), u64::MAX);
    }
}
