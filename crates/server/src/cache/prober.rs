//! ResolvedGroups out whether servers are there, and brings back those that were lost: one prober for the process, so that a
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
use super::recovery::{bring_back, flush_again};
use super::shared::CacheShared;

/// The first wait after a loss; each further one is half as long again.
const FIRST_WAIT: Duration = Duration::from_millis(20);

/// The longest wait between two attempts.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// How long a server may be asked nothing before it is looked after.
const QUIET: Duration = Duration::from_secs(5);

/// Most errands at once, each with a thread while it lasts, so that a server that does not answer keeps no other waiting.
const ERRANDS_MAX: usize = 32;

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
        let (its_shared, its_stop) = (Arc::clone(&shared), Arc::clone(&stop));
        let thread = Builder::new().name("prober".into()).spawn(move || run(&its_shared, &its_stop))?;
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
enum Errand {
    Introduce,
    LookAfter,
    FlushAgain,
    BringBack,
}

/// What the prober remembers of one server.
struct Care {
    /// An errand for the server is under way.
    is_busy: bool,
    /// When the server is asked next if it is away, and the wait from one attempt to the next.
    next: Option<Instant>,
    wait: Duration,
    /// The number of requests when it was last looked at, and until when it may stay the same.
    requests: u64,
    until: Instant,
}

impl Care {
    fn new() -> Self {
        Self { is_busy: false, next: None, wait: FIRST_WAIT, requests: 0, until: Instant::now() + QUIET }
    }

    /// Returns what is to be done about a server now.
    fn due(&mut self, server: &Server, shared: &CacheShared) -> Option<Errand> {
        if server.health.is_untried() {
            return Some(Errand::Introduce);
        }
        if server.health.is_answering() && shared.fleet.take_due_reminder(server, shared.clock.now()) {
            return Some(Errand::FlushAgain);
        }
        if server.health.is_answering() || server.health.is_taken_out() {
            self.next = None;
            let is_due = server.health.is_answering() && self.is_quiet(server);
            return is_due.then_some(Errand::LookAfter);
        }
        let next = *self.next.get_or_insert_with(|| {
            self.wait = FIRST_WAIT;
            Instant::now() + jittered(FIRST_WAIT)
        });
        (next <= Instant::now()).then_some(Errand::BringBack)
    }

    /// Returns whether a server may be gone unnoticed.
    fn is_quiet(&mut self, server: &Server) -> bool {
        let requests = server.counts.requests.load(Ordering::Relaxed);
        let is_quiet = requests == self.requests;
        let is_due = server.health.take_doubt() || (is_quiet && self.until <= Instant::now());
        if is_due || !is_quiet {
            (self.requests, self.until) = (requests, Instant::now() + QUIET);
        }
        is_due
    }

    /// Notes that an errand ended. `can_be_asked` false: a server to be brought back did not answer, or there was no thread.
    fn done(&mut self, can_be_asked: bool) {
        self.is_busy = false;
        if !can_be_asked {
            self.wait = (self.wait + self.wait / 2).min(LONGEST_WAIT);
        }
        let wait = if can_be_asked { FIRST_WAIT } else { self.wait };
        self.next = self.next.map(|_| Instant::now() + jittered(wait));
    }
}

fn run(shared: &Arc<CacheShared>, stop: &Arc<AtomicBool>) {
    let fleet = &shared.fleet;
    let (done, ended) = mpsc::channel::<(usize, bool)>();
    let mut cares: Vec<Care> = Vec::new();
    let mut under_way = 0;
    while !stop.load(Ordering::Relaxed) {
        for (slot, can_be_asked) in ended.try_iter() {
            cares[slot].done(can_be_asked);
            under_way -= 1;
        }
        let table = fleet.table();
        cares.resize_with(table.servers.len(), Care::new);
        for slot in table.in_use() {
            let (server, care) = (&table.servers[*slot], &mut cares[*slot]);
            if care.is_busy || under_way == ERRANDS_MAX {
                continue;
            }
            let Some(errand) = care.due(server, shared) else { continue };
            (care.is_busy, under_way) = (true, under_way + 1);
            let (server, shared, stop, done) =
                (Arc::clone(server), Arc::clone(shared), Arc::clone(stop), done.clone());
            let go = move || {
                let can_be_asked = run_errand(errand, &server, &shared, &stop);
                // Fails only if the thread of the prober has panicked.
                let _ = done.send((server.slot, can_be_asked));
                shared.fleet.watch.wake();
            };
            if let Err(error) = Builder::new().name("errand".into()).spawn(go) {
                tracing::warn!("no thread to look after servers: {error}");
                (care.is_busy, under_way) = (false, under_way - 1);
                care.done(false);
            }
        }
        let idle = table.in_use().iter().map(|slot| &cares[*slot]).filter(|care| !care.is_busy);
        let next = idle.filter_map(|care| care.next).min().filter(|_| under_way < ERRANDS_MAX);
        let wait = next.map_or(LONGEST_WAIT, |next| next.saturating_duration_since(Instant::now()));
        let until_flush = fleet.seconds_until_flush(shared.clock.now()).map(Duration::from_secs);
        fleet.watch.wait(until_flush.map_or(wait, |until| until.min(wait)));
    }
    // Waits for the errands under way, which end soon.
    drop(done);
    ended.iter().for_each(drop);
}

/// Runs an errand. Returns false if the server that is to be brought back cannot be asked.
fn run_errand(errand: Errand, server: &Server, shared: &CacheShared, stop: &AtomicBool) -> bool {
    match errand {
        Errand::Introduce => introduce(server, shared),
        Errand::LookAfter => look_after(server, shared),
        Errand::FlushAgain => flush_again(server, shared),
        Errand::BringBack => match bring_back(server, shared, stop) {
            Ok(true) => tracing::info!(server = %server.name(), "server takes part again"),
            // It has to wait: threads still use it, or it was taken out.
            Ok(false) => {}
            Err(error) => {
                tracing::debug!(server = %server.name(), "still away: {error}");
                server.backend.resolve_again();
                return false;
            }
        },
    }
    true
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
            ask_who(server, shared, link);
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
        Ok(link) => return ask_who(server, shared, link),
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
fn ask_who(server: &Server, shared: &CacheShared, link: Dialed) {
    let mut link = BufReader::new(link);
    if let Err(error) = ask(&mut link, b"version\r\n", 1, |said| note_version(server, said)) {
        tracing::debug!(server = %server.name(), "it does not tell its version: {error}");
    } else if let Some(run) = ask_run(server, link.get_mut()) {
        identity::meet(&shared.fleet, server, run);
    }
}
