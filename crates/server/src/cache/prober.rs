//! Finds out whether servers are there, and brings back those that were lost: one prober for the process, so that a
//! server that recovers is asked once and not by every thread.
//!
//! A new server is connected to, so that the log and readiness can say at once whether it is there. So is a server that was
//! asked nothing for a while, or closed an idle connection: it may be gone unnoticed. It is asked for its version too, and
//! which run of it answers (see `identity.rs`), but need not reply: a server that is slow while nobody needs it is not lost.
//!
//! A server that is away is asked again and again, less and less often, at random moments. When it answers, it comes
//! back as `recovery` says.

use std::io::{self, BufReader, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::backend::Dialed;
use super::control_connection::{LIMITS, ask, ask_run, note_version};
use super::identity;
use super::memcached_server::Server;
use super::recovery::{Recovered, bring_back, flush_again};
use super::shared::CacheShared;

/// The first wait after a loss; each further one is half as long again.
const FIRST_WAIT: Duration = Duration::from_millis(20);

/// The longest wait between two attempts.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// How long a server may be asked nothing before it is looked after.
const QUIET: Duration = Duration::from_secs(5);

/// Most tasks at once, each with a thread while it lasts, so that a server that does not answer keeps no other waiting.
const TASKS_MAX: usize = 32;

/// The prober's thread and the way to stop it.
pub struct Prober {
    stop: Arc<AtomicBool>,
    shared: Arc<CacheShared>,
    thread: JoinHandle<()>,
}

impl Prober {
    /// Starts the prober's thread.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(shared: Arc<CacheShared>) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (thread_shared, thread_stop) = (Arc::clone(&shared), Arc::clone(&stop));
        let thread = Builder::new().name("prober".into()).spawn(move || run(&thread_shared, &thread_stop))?;
        Ok(Self { stop, shared, thread })
    }

    /// Stops the prober's thread and waits for its end.
    pub fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.shared.fleet.watch.wake();
        // A panic there was reported when it happened.
        let _ = self.thread.join();
    }
}

/// What is to be done about a server.
#[derive(Clone, Copy)]
enum ProbeTask {
    /// Find out whether a new server is there.
    Introduce,
    /// Find out whether a server that was asked nothing for a while is still there.
    LookAfter,
    /// Flush a server since a delayed `flush_all` is due that it does not know of.
    FlushAgain,
    /// Bring a lost server back.
    BringBack,
}

/// What came of a task.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ProbeResult {
    /// The task was done, or has to be done later.
    Done,
    /// A server to be brought back could not be asked, or there was no thread to do it.
    NotAsked,
}

/// What the prober remembers of one server.
struct ProbeState {
    /// A task for the server is under way.
    is_busy: bool,
    /// When a server that is away is asked next.
    next_attempt: Option<Instant>,
    /// The wait from one attempt to the next.
    wait: Duration,
    /// The number of the server's requests when it was last looked at.
    requests: u64,
    /// Until when that number may stay the same.
    quiet_until: Instant,
}

impl ProbeState {
    fn new() -> Self {
        let quiet_until = Instant::now() + QUIET;
        Self { is_busy: false, next_attempt: None, wait: FIRST_WAIT, requests: 0, quiet_until }
    }

    /// Returns what is to be done about a server now.
    fn due_task(&mut self, server: &Server, shared: &CacheShared) -> Option<ProbeTask> {
        if server.health.is_untried() {
            return Some(ProbeTask::Introduce);
        }
        if server.health.is_answering() && shared.fleet.take_due_reminder(server, shared.clock.now()) {
            return Some(ProbeTask::FlushAgain);
        }
        if server.health.is_answering() || server.health.is_taken_out() {
            self.next_attempt = None;
            let may_be_gone = server.health.is_answering() && self.may_be_gone(server);
            return may_be_gone.then_some(ProbeTask::LookAfter);
        }
        let next_attempt = *self.next_attempt.get_or_insert_with(|| {
            self.wait = FIRST_WAIT;
            Instant::now() + jittered(FIRST_WAIT)
        });
        (next_attempt <= Instant::now()).then_some(ProbeTask::BringBack)
    }

    /// Returns whether a server may be gone unnoticed.
    fn may_be_gone(&mut self, server: &Server) -> bool {
        let requests = server.counts.requests.load(Ordering::Relaxed);
        let is_quiet = requests == self.requests;
        let is_due = server.health.take_probe_request() || (is_quiet && self.quiet_until <= Instant::now());
        if is_due || !is_quiet {
            (self.requests, self.quiet_until) = (requests, Instant::now() + QUIET);
        }
        is_due
    }

    /// Notes that a task has ended.
    fn end_task(&mut self, result: ProbeResult) {
        self.is_busy = false;
        let wait = match result {
            ProbeResult::Done => FIRST_WAIT,
            ProbeResult::NotAsked => {
                self.wait = (self.wait + self.wait / 2).min(LONGEST_WAIT);
                self.wait
            }
        };
        self.next_attempt = self.next_attempt.map(|_| Instant::now() + jittered(wait));
    }
}

fn run(shared: &Arc<CacheShared>, stop: &Arc<AtomicBool>) {
    let fleet = &shared.fleet;
    let (done, ended) = mpsc::channel::<(usize, ProbeResult)>();
    let mut states: Vec<ProbeState> = Vec::new();
    let mut under_way = 0;
    while !stop.load(Ordering::Relaxed) {
        for (slot, result) in ended.try_iter() {
            states[slot].end_task(result);
            under_way -= 1;
        }
        let table = fleet.table();
        states.resize_with(table.servers.len(), ProbeState::new);
        for slot in table.in_use() {
            let (server, state) = (&table.servers[*slot], &mut states[*slot]);
            if state.is_busy || under_way == TASKS_MAX {
                continue;
            }
            let Some(task) = state.due_task(server, shared) else { continue };
            (state.is_busy, under_way) = (true, under_way + 1);
            let (server, shared, stop, done) =
                (Arc::clone(server), Arc::clone(shared), Arc::clone(stop), done.clone());
            let go = move || {
                let result = run_task(task, &server, &shared, &stop);
                // Fails only if the thread of the prober has panicked.
                let _ = done.send((server.slot, result));
                shared.fleet.watch.wake();
            };
            if let Err(error) = Builder::new().name("probe".into()).spawn(go) {
                tracing::warn!("no thread to look after servers: {error}");
                (state.is_busy, under_way) = (false, under_way - 1);
                state.end_task(ProbeResult::NotAsked);
            }
        }
        let idle = table.in_use().iter().map(|slot| &states[*slot]).filter(|state| !state.is_busy);
        let next = idle.filter_map(|state| state.next_attempt).min().filter(|_| under_way < TASKS_MAX);
        let wait = next.map_or(LONGEST_WAIT, |next| next.saturating_duration_since(Instant::now()));
        let until_flush = fleet.seconds_until_flush(shared.clock.now()).map(Duration::from_secs);
        fleet.watch.wait(until_flush.map_or(wait, |until| until.min(wait)));
    }
    // Waits for the tasks under way, which end soon.
    drop(done);
    ended.iter().for_each(drop);
}

fn run_task(task: ProbeTask, server: &Server, shared: &CacheShared, stop: &AtomicBool) -> ProbeResult {
    match task {
        ProbeTask::Introduce => introduce(server, shared),
        ProbeTask::LookAfter => look_after(server, shared),
        ProbeTask::FlushAgain => flush_again(server, shared),
        ProbeTask::BringBack => match bring_back(server, shared, stop) {
            Ok(Recovered::TakesPart) => tracing::info!(server = %server.name(), "server takes part again"),
            Ok(Recovered::Waits) => {}
            Err(error) => {
                tracing::debug!(server = %server.name(), "still away: {error}");
                server.backend.resolve_again();
                return ProbeResult::NotAsked;
            }
        },
    }
    ProbeResult::Done
}

/// Returns the wait, longer by 5 to 50 %, so that many routers do not ask at the same moment.
fn jittered(wait: Duration) -> Duration {
    wait + wait.mul_f64(0.05 + 0.45 * fastrand::f64())
}

/// Connects to a new server, and asks which run it is.
fn introduce(server: &Server, shared: &CacheShared) {
    let mut dialed = server.backend.dial(LIMITS);
    for _ in 1..server.backend.addresses() {
        if dialed.is_err() {
            server.backend.resolve_again();
            dialed = server.backend.dial(LIMITS);
        }
    }
    match dialed {
        Ok(link) => {
            server.health.note_answer();
            server.backend.serves();
            tracing::info!(server = %server.name(), "server takes connections");
            identify(server, shared, link);
        }
        Err(error) => {
            if server.health.note_absent() {
                tracing::warn!(server = %server.name(), "not there: {error}; {}", server.health.consequence());
            }
        }
    }
}

/// Connects to a server that may be gone unnoticed.
fn look_after(server: &Server, shared: &CacheShared) {
    let error = match server.backend.dial(LIMITS) {
        // Another server may have taken its place while nothing was asked.
        Ok(link) => return identify(server, shared, link),
        Err(error) => error,
    };
    // What we lack ourselves (descriptors, ports) says nothing of the server.
    let is_gone = matches!(
        error.kind(),
        ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::NotFound
            | ErrorKind::TimedOut
    );
    if is_gone && server.health.note_lost_connection(Vec::new(), None) {
        tracing::warn!(server = %server.name(), "server lost: {error}; {}", server.health.consequence());
        // Threads may sleep with idle connections to the server.
        shared.tell_retry();
    }
}

/// Asks a server for its version, and which run of it answers. A server that does not tell is not lost; it is asked
/// again when it is looked after.
fn identify(server: &Server, shared: &CacheShared, link: Dialed) {
    let mut link = BufReader::new(link);
    if let Err(error) = ask(&mut link, b"version\r\n", 1, |said| note_version(server, said)) {
        tracing::debug!(server = %server.name(), "it does not tell its version: {error}");
    } else if let Some(run) = ask_run(server, link.get_mut()) {
        identity::note_run(&shared.fleet, server, run);
    }
}
