//! Finds out whether servers are there, and brings back those that were lost: one prober for the process, so that a
//! server that recovers is asked once and not by every thread.
//!
//! A new server is connected to, so that the log and readiness can say at once whether it is there. So is a server that
//! was asked nothing for a while, or closed an idle connection: it may be gone unnoticed. It is asked for its version
//! too, and which run of it answers (see `identity.rs`), but need not reply: a server that is slow while nobody needs
//! it is not lost. One that has not told its version is asked again, however busy it is.
//!
//! A server that is away is asked again and again, less and less often, at random moments. When it answers, it comes
//! back as `recovery` says.

use std::io::{self, BufReader, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::backend::Dialed;
use super::control_connection::{LIMITS, ask, ask_run, note_version};
use super::identity;
use super::memcached_server::Server;
use super::recovery::{Recovered, bring_back, flush_again};
use super::shared::CacheShared;
use super::table::Table;

/// The first wait after a loss; each further one is half as long again.
const FIRST_WAIT: Duration = Duration::from_millis(20);

/// The longest wait between two attempts.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// How long a server may be asked nothing before it is checked, and the time between questions for a version that it has
/// not told.
const IDLE_BEFORE_CHECK: Duration = Duration::from_secs(5);

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
        let probing = Probing::new(Arc::clone(&shared), Arc::clone(&stop));
        let thread = Builder::new().name("prober".into()).spawn(move || probing.run())?;
        Ok(Self { stop, shared, thread })
    }

    /// Stops the prober's thread and waits for its end.
    pub fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.shared.fleet.watch.wake();
        // Fails only after a panic, which ends the shipped program.
        let _ = self.thread.join();
    }
}

/// What is to be done about a server.
#[derive(Clone, Copy)]
enum ProbeTask {
    /// Find out whether a new server is there.
    Introduce,
    /// Find out whether a server that was asked nothing for a while is still there.
    CheckIdle,
    /// Ask a server for its version, which it has not told yet.
    AskVersion,
    /// Flush a server since a delayed `flush_all` is due that it does not know of.
    FlushAgain,
    /// Bring a lost server back.
    BringBack,
}

/// What came of a task.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ProbeOutcome {
    /// The task was done, or has to be done later.
    Settled,
    /// A server to be brought back could not be asked: the next attempt comes later than this one did.
    RetryWithBackoff,
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
    /// When the server is checked if that number is still the same then, or its version is not known.
    check_at: Instant,
}

impl ProbeState {
    fn new() -> Self {
        let check_at = Instant::now() + IDLE_BEFORE_CHECK;
        Self { is_busy: false, next_attempt: None, wait: FIRST_WAIT, requests: 0, check_at }
    }

    /// Returns what is to be done about a server now. The caller must do it: what asked for it is forgotten.
    fn take_due_task(&mut self, server: &Server, shared: &CacheShared) -> Option<ProbeTask> {
        if server.health.is_untried() {
            return Some(ProbeTask::Introduce);
        }
        if server.health.is_answering() && shared.fleet.take_due_reminder(server, shared.clock.now()) {
            return Some(ProbeTask::FlushAgain);
        }
        if server.health.is_answering() || server.health.is_taken_out() {
            self.next_attempt = None;
            return if server.health.is_answering() { self.take_due_check(server) } else { None };
        }
        if server.health.is_away() && server.health.has_users() {
            // It could not come back yet. The last user tells (`Health::remove_user`).
            self.next_attempt = None;
            return None;
        }
        let next_attempt = *self.next_attempt.get_or_insert_with(|| {
            self.wait = FIRST_WAIT;
            Instant::now() + jittered(FIRST_WAIT)
        });
        (next_attempt <= Instant::now()).then_some(ProbeTask::BringBack)
    }

    /// Returns how a server that takes part is to be checked, if it is time for that.
    fn take_due_check(&mut self, server: &Server) -> Option<ProbeTask> {
        let requests = server.counts.requests.load(Ordering::Relaxed);
        let (is_idle, is_known) = (requests == self.requests, server.dialect.is_known());
        let is_time = self.check_at <= Instant::now();
        let task = if server.health.take_probe_request() || (is_idle && is_time) {
            Some(ProbeTask::CheckIdle)
        } else if !is_known && is_time {
            // It answers requests, so it is not lost if it does not answer this.
            Some(ProbeTask::AskVersion)
        } else {
            None
        };
        if task.is_some() || (!is_idle && is_known) {
            (self.requests, self.check_at) = (requests, Instant::now() + IDLE_BEFORE_CHECK);
        }
        task
    }

    /// Notes that a task has ended.
    fn end_task(&mut self, outcome: ProbeOutcome) {
        self.is_busy = false;
        let wait = match outcome {
            ProbeOutcome::Settled => FIRST_WAIT,
            ProbeOutcome::RetryWithBackoff => {
                self.wait = (self.wait + self.wait / 2).min(LONGEST_WAIT);
                self.wait
            }
        };
        self.next_attempt = self.next_attempt.map(|_| Instant::now() + jittered(wait));
    }
}

/// The prober at work: what it remembers, and the tasks under way.
struct Probing {
    shared: Arc<CacheShared>,
    stop: Arc<AtomicBool>,
    /// By the servers' slots.
    states: Vec<ProbeState>,
    /// The slot whose turn is next: behind the last one that got a task, so that servers which always have something due
    /// keep none behind them waiting.
    next_turn: usize,
    under_way: usize,
    /// How tasks tell that they have ended: with the slot of their server.
    done: Sender<(usize, ProbeOutcome)>,
    ended: Receiver<(usize, ProbeOutcome)>,
}

impl Probing {
    fn new(shared: Arc<CacheShared>, stop: Arc<AtomicBool>) -> Self {
        let (done, ended) = mpsc::channel();
        Self { shared, stop, states: Vec::new(), next_turn: 0, under_way: 0, done, ended }
    }

    fn run(mut self) {
        while !self.stop.load(Ordering::Relaxed) {
            self.collect_outcomes();
            let table = self.shared.fleet.table();
            self.start_due_tasks(&table);
            self.shared.fleet.watch.wait(self.time_to_next(&table));
        }
        // Waits for the tasks under way, which end soon.
        drop(self.done);
        self.ended.iter().for_each(drop);
    }

    fn collect_outcomes(&mut self) {
        for (slot, outcome) in self.ended.try_iter() {
            self.states[slot].end_task(outcome);
            self.under_way -= 1;
        }
    }

    fn start_due_tasks(&mut self, table: &Table) {
        self.states.resize_with(table.servers.len(), ProbeState::new);
        let (before, behind) =
            table.in_use().split_at(table.in_use().partition_point(|slot| *slot < self.next_turn));
        for slot in behind.iter().chain(before) {
            // What is done here, without a thread, takes its time.
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let (server, state) = (&table.servers[*slot], &mut self.states[*slot]);
            if state.is_busy || self.under_way == TASKS_MAX {
                continue;
            }
            let Some(task) = state.take_due_task(server, &self.shared) else { continue };
            (state.is_busy, self.under_way, self.next_turn) = (true, self.under_way + 1, slot + 1);
            let (server, shared) = (Arc::clone(server), Arc::clone(&self.shared));
            let (stop, done) = (Arc::clone(&self.stop), self.done.clone());
            run_beside(Builder::new().name("probe".into()), move || {
                let outcome = run_task(task, &server, &shared, &stop);
                // Fails only after a panic of the prober's thread, which ends the shipped program.
                let _ = done.send((server.slot, outcome));
                shared.fleet.watch.wake();
            });
        }
    }

    /// Returns how long it takes until something is due, if nothing happens before.
    fn time_to_next(&self, table: &Table) -> Duration {
        let fleet = &self.shared.fleet;
        let idle = table.in_use().iter().map(|slot| &self.states[*slot]).filter(|state| !state.is_busy);
        let next = idle.filter_map(|state| state.next_attempt).min().filter(|_| self.under_way < TASKS_MAX);
        let wait = next.map_or(LONGEST_WAIT, |next| next.saturating_duration_since(Instant::now()));
        let until_flush = fleet.seconds_until_flush(self.shared.clock.now()).map(Duration::from_secs);
        until_flush.map_or(wait, |until| until.min(wait))
    }
}

/// Does `work` in a thread of its own, or here if there is none: then it takes longer until other servers have their
/// turn.
fn run_beside(thread: Builder, work: impl FnOnce() + Clone + Send + 'static) {
    if let Err(error) = thread.spawn(work.clone()) {
        tracing::warn!("no thread to look after servers, so that is done for one after the other: {error}");
        work();
    }
}

fn run_task(task: ProbeTask, server: &Server, shared: &CacheShared, stop: &AtomicBool) -> ProbeOutcome {
    match task {
        ProbeTask::Introduce => introduce(server, shared),
        ProbeTask::CheckIdle => check_idle(server, shared),
        ProbeTask::AskVersion => match server.backend.dial(LIMITS) {
            Ok(link) => identify(server, shared, link),
            Err(error) => {
                tracing::debug!(server = %server.name(), "it cannot be asked for its version: {error}")
            }
        },
        ProbeTask::FlushAgain => flush_again(server, shared),
        ProbeTask::BringBack => match bring_back(server, shared, stop) {
            Ok(Recovered::TakesPart) => tracing::info!(server = %server.name(), "server takes part again"),
            Ok(Recovered::Waits) => {}
            Err(error) => {
                tracing::debug!(server = %server.name(), "still away: {error}");
                server.health.note_failed_return();
                server.backend.resolve_again();
                return ProbeOutcome::RetryWithBackoff;
            }
        },
    }
    ProbeOutcome::Settled
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
            identify(server, shared, link);
            // From here on a new start is noticed.
            tracing::info!(server = %server.name(), "server takes connections");
        }
        Err(error) => {
            if server.health.note_absent() {
                tracing::warn!(server = %server.name(), "not there: {error}; {}", server.health.consequence());
            }
        }
    }
}

/// Connects to a server that may be gone unnoticed.
fn check_idle(server: &Server, shared: &CacheShared) {
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
/// again later.
fn identify(server: &Server, shared: &CacheShared, link: Dialed) {
    let mut link = BufReader::new(link);
    if let Err(error) = ask(&mut link, b"version\r\n", 1, |said| note_version(server, said)) {
        tracing::debug!(server = %server.name(), "it does not tell its version: {error}");
    } else if let Some(run) = ask_run(server, link.get_mut()) {
        identity::note_run(&shared.fleet, server, run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_thread_can_be_had_for_is_done_nevertheless() {
        let (done, ended) = mpsc::channel();
        // There is not so much memory.
        let no_thread = Builder::new().stack_size(1 << 50);
        let here = std::thread::current().id();
        run_beside(no_thread, move || done.send(std::thread::current().id() == here).unwrap());
        assert_eq!(ended.recv(), Ok(true));
    }

    #[test]
    fn attempts_that_fail_come_less_and_less_often_and_at_random_moments() {
        let mut state = ProbeState::new();
        let mut attempt = |outcome| {
            state.next_attempt = Some(Instant::now());
            let before = Instant::now();
            state.end_task(outcome);
            let after = Instant::now();
            let next = state.next_attempt.unwrap();
            // A machine may stand still for a moment between the two.
            (next.saturating_duration_since(after), next - before)
        };
        let mut wait = FIRST_WAIT;
        while wait < LONGEST_WAIT {
            wait = (wait + wait / 2).min(LONGEST_WAIT);
            let (least, most) = attempt(ProbeOutcome::RetryWithBackoff);
            assert!(
                most >= wait.mul_f64(1.05) && least <= wait.mul_f64(1.5),
                "{least:?} to {most:?} for {wait:?}"
            );
        }
        let waits: Vec<_> = (0..200).map(|_| attempt(ProbeOutcome::RetryWithBackoff)).collect();
        assert!(waits.iter().all(|(least, most)| *most >= wait.mul_f64(1.05) && *least <= wait.mul_f64(1.5)));
        assert!(waits.iter().any(|(_, most)| *most < wait.mul_f64(1.15)), "some come early");
        assert!(waits.iter().any(|(least, _)| *least > wait.mul_f64(1.4)), "some come late");
        let (least, _) = attempt(ProbeOutcome::Settled);
        assert!(least <= FIRST_WAIT.mul_f64(1.5), "what was done is soon looked at again");
    }
}
