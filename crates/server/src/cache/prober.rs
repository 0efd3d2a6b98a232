//! Tells whether servers are there, and brings those back that were lost: one for the process, so that a server that
//! recovers is asked once and not by everybody.
//!
//! A server that is new is connected to, so that the log and readiness can say at once whether it is there. So is one that was asked
//! nothing for a while, or closed an idle connection: it may have gone unnoticed. It is asked for its version too, and which run of
//! it that is (see `identity.rs`), but need not answer: one that is slow while nobody needs it is not lost.
//!
//! It asks each server that is away again and again, less and less often, at random moments. When the server answers,
//! what was given up to it is read to its end, what it missed is deleted on it, and then it takes part again.

use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use posthaste_wire::memcached::reply::is_error;
use socket2::{SockRef, Socket};

use super::backend::Dialed;
use super::deletion::Deletion;
use super::dialect;
use super::fleet::Server;
use super::flushes::OwnFlushes;
use super::hall::Hall;
use super::identity::{self, Run};
use super::missed::{Before, Missed};
use super::patience::Patience;
use crate::front::accept::ListenAddress;

/// The first wait after a loss; the next ones are each half as long again.
const FIRST_WAIT: Duration = Duration::from_millis(20);

/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// How long a server may take for each answer to the prober.
const PATIENCE: Duration = Duration::from_secs(2);

/// The same, for a connection of its own.
const OWN: Patience = Patience { connect: PATIENCE, answer: PATIENCE, depth: usize::MAX };

/// A server that was asked nothing for so long is looked after.
const QUIET: Duration = Duration::from_secs(5);

/// Deletions sent at once: their answers fit any socket's buffers.
const DELETIONS: usize = 64;

/// Errands at once, each with a thread while it lasts: a server that says nothing keeps no other waiting.
const ERRANDS_MAX: usize = 32;

/// How long it may take for each answer while writes wait.
const PAUSED: Duration = Duration::from_millis(200);

/// Rounds of deletions after which writes wait for the last one: keys may be written faster than they are deleted.
const ROUNDS_UNPAUSED: usize = 8;

/// After so long a pause many deletions that are left are done by a flush: clients wait, and a cold server is the smaller harm.
const PAUSED_MAX: Duration = Duration::from_secs(1);

/// So many are not many: at worst each [`DELETIONS`] of them take [`PAUSED`].
const FEW_DELETIONS: usize = 8 * DELETIONS;

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

/// Asks a server which run of it answers, if it tells that.
fn ask_run(server: &Server, link: &mut Dialed) -> Option<Run> {
    let told = identity::ask(link);
    told.inspect_err(|error| tracing::debug!(server = %server.name(), "it does not tell who it is: {error}"))
        .unwrap_or_default()
}

/// Whether this is a version, which is taken note of.
fn tells_version(server: &Server, said: &[u8]) -> bool {
    if server.dialect.note(said) {
        tracing::warn!(
            server = %server.name(),
            "it tells {}, which is before {}: meta commands for its keys are refused, and values are brought neither \
             there nor from there",
            String::from_utf8_lossy(said).trim(),
            dialect::FIRST
        );
    }
    said.starts_with(b"VERSION")
}

/// Asks a server, makes it forget what it missed, and lets it take part. False: threads still use it.
fn bring_back(server: &Server, hall: &Hall, stop: &AtomicBool) -> io::Result<bool> {
    let (address, table) = (server.backend.address().map_err(io::Error::other)?, hall.fleet.table());
    if let Some(other) = table.neighbour(server, &address).filter(|other| !other.health.is_away()) {
        return Err(io::Error::other(why_taken(other)));
    }
    // Over a connection of its own: who does not know this question may end it.
    let run = ask_run(server, &mut server.backend.dial_at(address.clone(), OWN)?);
    let mut link = BufReader::new(server.backend.dial_at(address, OWN)?);
    ask(&mut link, b"version\r\n", 1, |said| tells_version(server, said))?;
    server.health.comes_as(run);
    if !server.health.is_away() {
        server.health.found();
        return Ok(true);
    }
    if server.backend.is_elsewhere() && server.health.miss(None) {
        tracing::debug!(server = %server.name(), "it is at another address, and forgets what it holds");
    }
    // While it was away the time may have come.
    if hall.fleet.take_reminder(server, hall.clock.now()) && server.health.miss(None) {
        tracing::debug!(server = %server.name(), "it forgets what it holds: a flush was due meanwhile");
    }
    // A server that was started anew does not know of it.
    hall.fleet.remind(server, hall.clock.now());
    let mut paused = None;
    for round in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        if round >= ROUNDS_UNPAUSED && paused.is_none() {
            link.get_ref().wait_at_most(PAUSED)?;
            paused = Some((hall.pause_writes(), Instant::now() + PAUSED_MAX));
        }
        let mut before = server.health.before();
        let done = match &mut before {
            Before::Nothing => {
                server.backend.serves();
                return Ok(true);
            }
            Before::Wait => return Ok(false),
            Before::Drain(sockets) => {
                paused = None;
                // What is still read at an address that is not its own any more reaches it no more.
                let has_left = |socket: &OwnedFd| {
                    let peer = SockRef::from(socket).peer_addr().ok().and_then(|peer| peer.as_socket());
                    peer.is_some_and(|place| server.backend.has_left(place))
                };
                sockets.retain(|socket| !has_left(socket));
                drain(sockets)
            }
            Before::Flush => flush(&mut link, server, hall),
            Before::Delete(keys) => {
                let until = paused.as_ref().map(|(_, until)| *until);
                delete_all(&mut link, server, hall, keys, until)
            }
        };
        if let Err(error) = done {
            server.health.put_back(before);
            if error.kind() == ErrorKind::InvalidData && server.health.is_first_refusal() {
                tracing::warn!(server = %server.name(), "server does not forget what it missed, and stays away: {error}");
            }
            return Err(error);
        }
    }
    Ok(false)
}

/// Why a server does not go to an address.
pub(super) fn why_taken(other: &Server) -> String {
    format!("{} of the same pool is there; have the names lead to two servers, or name one", other.name())
}

/// A server that no pool has will be in one again: it forgets everything, since it missed what was written meanwhile. One that is
/// away is brought back for that, if it can be; else it is later, when it is in its pool.
pub(super) fn welcome(server: &Server, hall: &Hall) {
    let is_away = server.health.miss(None);
    for _ in 0..=server.backend.addresses() {
        if !is_away || bring_back(server, hall, &AtomicBool::new(false)).is_ok() {
            return;
        }
        server.backend.resolve_again();
    }
}

/// Makes a server forget everything that may be asked as soon as this is done, at this address (None: its own).
///
/// # Errors
/// It cannot be asked, or refuses.
pub(super) fn empty(server: &Server, address: Option<ListenAddress>) -> io::Result<()> {
    let dialed = match address {
        Some(address) => server.backend.dial_at(address, OWN),
        None => server.backend.dial(OWN),
    };
    let mut link = BufReader::new(dialed?);
    ask(&mut link, b"flush_all\r\n", 1, |said| said.starts_with(b"OK"))?;
    ask(&mut link, b"version\r\n", 1, |said| tells_version(server, said))
}

/// Has a server forget everything that was asked to do so later, when another flush took the place of that.
fn flush_again(server: &Server, hall: &Hall) {
    // A write beside it may come before it here, and other replicas are not flushed now.
    let (flushes, mut own) = (&hall.fleet.flushes, OwnFlushes::default());
    flushes.begin(&mut own);
    let emptied = empty(server, None);
    flushes.end(&mut own);
    match emptied {
        // One that refuses has refused it to clients before.
        Err(error) if error.kind() == ErrorKind::InvalidData => {
            tracing::debug!(server = %server.name(), "it does not forget what it holds: {error}");
        }
        Err(error) if server.health.strange() => {
            tracing::warn!(server = %server.name(), "server lost: {error}; {}", server.health.meaning());
            hall.tell_retry();
        }
        _ => {}
    }
}

/// Makes a server that comes back forget everything, now and when clients wanted it.
fn flush(link: &mut BufReader<Dialed>, server: &Server, hall: &Hall) -> io::Result<()> {
    ask(link, b"flush_all\r\n", 1, |said| said.starts_with(b"OK"))?;
    hall.fleet.remind(server, hall.clock.now());
    Ok(())
}

/// Deletes these keys. Those that are left are not done, should it fail. If many are left when writes have waited `until` then, it is
/// by a flush.
fn delete_all(
    link: &mut BufReader<Dialed>,
    server: &Server,
    hall: &Hall,
    keys: &mut Vec<Missed>,
    until: Option<Instant>,
) -> io::Result<()> {
    while !keys.is_empty() {
        let is_late = until.is_some_and(|until| until <= Instant::now());
        if is_late && keys.len() > FEW_DELETIONS {
            return flush(link, server, hall);
        }
        let rest = keys.len().saturating_sub(DELETIONS);
        delete(link, server, &keys[rest..])?;
        keys.truncate(rest);
    }
    Ok(())
}

/// Deletes these keys, as far as a server that has told its version may hold them.
fn delete(link: &mut BufReader<Dialed>, server: &Server, keys: &[Missed]) -> io::Result<()> {
    let (mut commands, mut lines) = (Vec::new(), 0);
    for Missed { key, base64 } in keys {
        let deletion = Deletion::of(key, *base64);
        if deletion.concerns(&server.dialect) {
            deletion.write(&mut commands);
            lines += 1;
        }
    }
    // Clients choose keys. Where the server says that this is none, it holds nothing under it either.
    ask(link, &commands, lines, |said| said.starts_with(b"CLIENT_ERROR") || !is_error(said))
}

/// Sends commands and reads so many lines, each of which must be a good one.
fn ask(
    link: &mut BufReader<Dialed>,
    commands: &[u8],
    lines: usize,
    is_good: impl Fn(&[u8]) -> bool,
) -> io::Result<()> {
    link.get_mut().write_all(commands)?;
    link.get_mut().flush()?;
    for _ in 0..lines {
        let mut line = Vec::new();
        link.read_until(b'\n', &mut line)?;
        if !line.ends_with(b"\n") || !is_good(&line) {
            let said = String::from_utf8_lossy(&line).trim().to_owned();
            return Err(io::Error::new(ErrorKind::InvalidData, format!("it said {said:?}")));
        }
    }
    Ok(())
}

/// Reads connections to their ends, and leaves those that have none yet.
fn drain(sockets: &mut Vec<OwnedFd>) -> io::Result<()> {
    let mut done = Ok(());
    while let Some(socket) = sockets.pop() {
        match read_to_end(&socket) {
            Ok(()) => {}
            // Nothing more of it reaches the server. What has may still be read there, but hardly so long as until it is asked
            // again.
            Err(error) if error.kind() == ErrorKind::TimedOut => done = Err(error),
            Err(error) => {
                sockets.push(socket);
                return Err(error);
            }
        }
    }
    done
}

/// Reads until the server has closed a connection that was given up: then it has done all it was sent.
///
/// # Errors
/// `TimedOut`: it was away for so long that the system gave the connection up. Others: it is not at its end.
fn read_to_end(socket: &OwnedFd) -> io::Result<()> {
    let mut socket = Socket::from(socket.try_clone()?);
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut buffer = [0; 4096];
    let until = Instant::now() + PATIENCE;
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(_) if Instant::now() < until => {}
            Ok(_) => return Err(ErrorKind::WouldBlock.into()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Err(error);
            }
            // Reset: nothing that was sent can reach it any more.
            Err(_) => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// Both ends of a connection.
    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (ours, listener.accept().unwrap().0)
    }

    /// Both ends of a connection that the system gives up: the peer has no room for what it was sent.
    fn hopeless() -> (TcpStream, TcpStream) {
        let (mut ours, theirs) = pair();
        SockRef::from(&ours).set_tcp_user_timeout(Some(Duration::from_millis(50))).unwrap();
        ours.set_nonblocking(true).unwrap();
        while ours.write(&[0; 65536]).is_ok() {}
        (ours, theirs)
    }

    #[test]
    fn connections_that_the_system_gave_up_cost_one_round_however_many_they_are() {
        let (talks, others_end) = pair();
        let (ours, theirs): (Vec<_>, Vec<_>) = (0..3).map(|_| hopeless()).unzip();
        let mut sockets: Vec<OwnedFd> = [talks].into_iter().chain(ours).map(OwnedFd::from).collect();
        assert_eq!(drain(&mut sockets).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(sockets.len(), 1, "only who may still be heard is left");
        drop((others_end, theirs));
        assert!(drain(&mut sockets).is_ok() && sockets.is_empty());
    }
}
