//! Tells whether servers are there, and has those brought back that were lost: one for the process, so that a server that
//! recovers is asked once and not by everybody.
//!
//! A server that is new is connected to, so that the log and readiness can say at once whether it is there. So is one that was asked
//! nothing for a while, or closed an idle connection: it may have gone unnoticed. It is asked for its version too, and which run of
//! it that is (see `identity.rs`), but need not answer: one that is slow while nobody needs it is not lost.
//!
//! It asks each server that is away again and again, less and less often, at random moments. When the server answers, it comes
//! back as `homecoming` says.

use std::io::{self, BufReader, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::backend::Dialed;
use super::fleet::Server;
use super::hall::Hall;
use super::homecoming::{bring_back, flush_again};
use super::identity;
use super::inquiry::{OWN, ask, ask_run, tells_version};

/// The first wait after a loss; the next ones are each half as long again.
const FIRST_WAIT: Duration = Duration::from_millis(20);

/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// A server that was asked nothing for so long is looked after.
const QUIET: Duration = Duration::from_secs(5);

/// Errands at once, each with a thread while it lasts: a server that says nothing keeps no other waiting.
const ERRANDS_MAX: usize = 32;

/// The thread and the way to stop it.
pub struct Prober {
    stop: Arc<AtomicBool>,
    hall: Arc<Hall>,
    thread: JoinHandle<()>,
}

impl Prober {
    /// Starts it.
    ///
    /// # Errors
    /// The system's, when it gives no thread.
    pub fn start(hall: Arc<Hall>) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (its_hall, its_stop) = (Arc::clone(&hall), Arc::clone(&stop));
        let thread = Builder::new().name("prober".into()).spawn(move || run(&its_hall, &its_stop))?;
        Ok(Self { stop, hall, thread })
    }

    /// Ends it.
    pub fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.hall.fleet.watch.wake();
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

/// What is known of one server's care.
struct Care {
    /// An errand for it is under way.
    is_busy: bool,
    /// When it is asked next if it is away, and how long that is from one time to the next.
    next: Option<Instant>,
    wait: Duration,
    /// What it had been asked when that was last looked at, and until when it may be quiet.
    requests: u64,
    until: Instant,
}

impl Care {
    fn new() -> Self {
        Self { is_busy: false, next: None, wait: FIRST_WAIT, requests: 0, until: Instant::now() + QUIET }
    }

    /// What is to be done about a server now.
    fn due(&mut self, server: &Server, hall: &Hall) -> Option<Errand> {
        if server.health.is_untried() {
            return Some(Errand::Introduce);
        }
        if server.health.answers() && hall.fleet.take_reminder(server, hall.clock.now()) {
            return Some(Errand::FlushAgain);
        }
        if server.health.answers() || server.health.is_out() {
            self.next = None;
            let is_due = server.health.answers() && self.is_quiet(server);
            return is_due.then_some(Errand::LookAfter);
        }
        let next = *self.next.get_or_insert_with(|| {
            self.wait = FIRST_WAIT;
            Instant::now() + jittered(FIRST_WAIT)
        });
        (next <= Instant::now()).then_some(Errand::BringBack)
    }

    /// Whether a server may have gone unnoticed.
    fn is_quiet(&mut self, server: &Server) -> bool {
        let requests = server.counts.requests.load(Ordering::Relaxed);
        let is_quiet = requests == self.requests;
        let is_due = server.health.take_doubt() || (is_quiet && self.until <= Instant::now());
        if is_due || !is_quiet {
            (self.requests, self.until) = (requests, Instant::now() + QUIET);
        }
        is_due
    }

    /// An errand is done; `can_be_asked` false: it was to bring back a server that does not answer, or could not be run.
    fn done(&mut self, can_be_asked: bool) {
        self.is_busy = false;
        if !can_be_asked {
            self.wait = (self.wait + self.wait / 2).min(LONGEST_WAIT);
        }
        let wait = if can_be_asked { FIRST_WAIT } else { self.wait };
        self.next = self.next.map(|_| Instant::now() + jittered(wait));
    }
}

fn run(hall: &Arc<Hall>, stop: &Arc<AtomicBool>) {
    let fleet = &hall.fleet;
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
            let Some(errand) = care.due(server, hall) else { continue };
            (care.is_busy, under_way) = (true, under_way + 1);
            let (server, hall, stop, done) =
                (Arc::clone(server), Arc::clone(hall), Arc::clone(stop), done.clone());
            let go = move || {
                let can_be_asked = run_errand(errand, &server, &hall, &stop);
                // Who waits for it may have been stopped.
                let _ = done.send((server.slot, can_be_asked));
                hall.fleet.watch.wake();
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
        let until_flush = fleet.flush_rest_s(hall.clock.now()).map(Duration::from_secs);
        fleet.watch.wait(until_flush.map_or(wait, |until| until.min(wait)));
    }
    // Those under way have not long to go.
    drop(done);
    ended.iter().for_each(drop);
}

/// Does it. False: the server that is to be brought back cannot be asked.
fn run_errand(errand: Errand, server: &Server, hall: &Hall, stop: &AtomicBool) -> bool {
    match errand {
        Errand::Introduce => introduce(server, hall),
        Errand::LookAfter => look_after(server, hall),
        Errand::FlushAgain => flush_again(server, hall),
        Errand::BringBack => match bring_back(server, hall, stop) {
            Ok(true) => tracing::info!(server = %server.name(), "server takes part again"),
            // Threads still use it.
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

/// Up to half more, so that many routers do not ask at the same moment.
fn jittered(wait: Duration) -> Duration {
    wait + wait.mul_f64(0.05 + 0.45 * fastrand::f64())
}

/// Looks whether a new server takes connections, and asks it who it is.
fn introduce(server: &Server, hall: &Hall) {
    let mut dialed = server.backend.dial(OWN);
    for _ in 1..server.backend.addresses() {
        if dialed.is_err() {
            server.backend.resolve_again();
            dialed = server.backend.dial(OWN);
        }
    }
    match dialed {
        Ok(link) => {
            server.health.found();
            server.backend.serves();
            tracing::info!(server = %server.name(), "server takes connections");
            ask_who(server, hall, link);
        }
        Err(error) => {
            if server.health.absent() {
                tracing::warn!(server = %server.name(), "not there: {error}; {}", server.health.meaning());
            }
        }
    }
}

/// Looks whether a server is there that may have gone unnoticed.
fn look_after(server: &Server, hall: &Hall) {
    let error = match server.backend.dial(OWN) {
        // Another one may have taken its place while nothing was asked.
        Ok(link) => return ask_who(server, hall, link),
        Err(error) => error,
    };
    // What we lack ourselves (descriptors, ports) says nothing of it.
    let is_gone = matches!(
        error.kind(),
        ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::NotFound
            | ErrorKind::TimedOut
    );
    if is_gone && server.health.lose(Vec::new(), None) {
        tracing::warn!(server = %server.name(), "server lost: {error}; {}", server.health.meaning());
        // Threads may sleep with connections to it on which nothing is under way.
        hall.tell_retry();
    }
}

/// Asks a server which memcached it is, and which run of it. It is not lost if it does not say, and is asked again when it is looked
/// after.
fn ask_who(server: &Server, hall: &Hall, link: Dialed) {
    let mut link = BufReader::new(link);
    if let Err(error) = ask(&mut link, b"version\r\n", 1, |said| tells_version(server, said)) {
        tracing::debug!(server = %server.name(), "it does not tell its version: {error}");
    } else if let Some(run) = ask_run(server, link.get_mut()) {
        identity::meet(&hall.fleet, server, run);
    }
}
