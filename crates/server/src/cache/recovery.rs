//! How a lost server comes back: it is asked whether it is there, connections given up to it are read to their ends,
//! what it missed is deleted on it, and then it takes part again.

use std::io::{self, BufReader, ErrorKind, Read as _};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use posthaste_wire::memcached::reply::is_error;
use socket2::{SockRef, Socket};

use super::backend::Dialed;
use super::control_connection::{LIMITS, TIMEOUT, ask, ask_run, ask_until, is_refusal, note_version};
use super::deletion::Deletion;
use super::flushes::OwnFlushes;
use super::memcached_server::Server;
use super::missed_writes::{MissedKey, MissedWrite, RecoveryStep};
use super::shared::{CacheShared, WritePause};
use crate::front::accept::Endpoint;

/// Deletions sent at once: few enough that their answers fit any socket's buffers.
const DELETIONS_PER_BATCH: usize = 64;

/// How long a server may take, while writes are paused, for what it is sent at once.
const REPLY_TIMEOUT_PAUSED: Duration = Duration::from_millis(200);

/// Rounds of deletions after which writes are paused for the last one, since keys may be written faster than they are
/// deleted.
const ROUNDS_UNPAUSED: usize = 8;

/// Length of a pause after which deletions left over are replaced by a flush, if they are many: clients wait, and a
/// cold server is the smaller harm.
const PAUSED_MAX: Duration = Duration::from_secs(1);

/// Most deletions that are still sent after [`PAUSED_MAX`]: at worst each [`DELETIONS_PER_BATCH`] of them take
/// [`REPLY_TIMEOUT_PAUSED`].
const DELETIONS_AFTER_PAUSED_MAX: usize = 8 * DELETIONS_PER_BATCH;

/// Length of a pause that is not exceeded, whatever is left to be done: then the server stays away for now.
const PAUSE_ENDS: Duration = Duration::from_secs(3);

/// Whether a server that answers was brought back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Recovered {
    /// The server takes part.
    TakesPart,
    /// The server has to wait: threads still use it, or it was taken out, or the program stops.
    Waits,
}

/// Asks a server, makes it forget what it missed, and lets it take part.
///
/// # Errors
/// The server cannot be asked, another server of its pool is at its address, or it refuses to forget.
pub(super) fn bring_back(server: &Server, shared: &CacheShared, stop: &AtomicBool) -> io::Result<Recovered> {
    let link = connect(server, shared)?;
    if !server.health.is_away() {
        server.health.note_answer();
        return Ok(Recovered::TakesPart);
    }
    if server.backend.is_elsewhere() && server.health.note_missed_write(MissedWrite::AllKeys) {
        tracing::debug!(server = %server.name(), "it is at another address, and forgets what it holds");
    }
    // The time of a delayed flush may have come while the server was away.
    if shared.fleet.take_due_reminder(server, shared.clock.now())
        && server.health.note_missed_write(MissedWrite::AllKeys)
    {
        tracing::debug!(server = %server.name(), "it forgets what it holds: a flush was due meanwhile");
    }
    // A server that was started anew does not know of a delayed flush.
    shared.fleet.set_flush_reminder(server, shared.clock.now());
    CatchUp { link, server, shared, pause: None }.run(stop)
}

/// Connects to a server at the address that its name has now, unless another server of its pool is there. Asks which
/// run it is, and its version.
fn connect(server: &Server, shared: &CacheShared) -> io::Result<BufReader<Dialed>> {
    let (address, table) = (server.backend.address().map_err(io::Error::other)?, shared.fleet.table());
    if let Some(other) = table.other_server_at(server, &address).filter(|other| !other.health.is_away()) {
        return Err(io::Error::other(address_taken(other)));
    }
    // Over a connection of its own: a server that does not know this question may close it.
    let run = ask_run(server, &mut server.backend.dial_at(address.clone(), LIMITS)?);
    let mut link = BufReader::new(server.backend.dial_at(address, LIMITS)?);
    ask(&mut link, b"version\r\n", 1, |reply| note_version(server, reply))?;
    server.health.set_next_run(run);
    Ok(link)
}

/// A server that catches up: it forgets what it missed, until nothing is left, and then takes part.
struct CatchUp<'a> {
    link: BufReader<Dialed>,
    server: &'a Server,
    shared: &'a CacheShared,
    /// The pause of writes, while there is one.
    pause: Option<Pause<'a>>,
}

/// A time for which writes wait.
struct Pause<'a> {
    _writes: WritePause<'a>,
    began: Instant,
}

impl Pause<'_> {
    /// Until when the server must have answered what it is sent now.
    fn reply_until(&self) -> Instant {
        (Instant::now() + REPLY_TIMEOUT_PAUSED).min(self.began + PAUSE_ENDS)
    }
}

impl CatchUp<'_> {
    /// Does what must be done before the server takes part, until nothing is left. Clients go on writing meanwhile, so
    /// each round may bring more; after [`ROUNDS_UNPAUSED`] writes are paused.
    fn run(mut self, stop: &AtomicBool) -> io::Result<Recovered> {
        for round in 0.. {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            if round >= ROUNDS_UNPAUSED && self.pause.is_none() {
                self.pause = Some(Pause { _writes: self.shared.pause_writes(), began: Instant::now() });
            }
            let mut step = self.server.health.next_recovery_step();
            match self.take_step(&mut step) {
                Ok(None) => {}
                Ok(Some(recovered)) => return Ok(recovered),
                Err(error) => {
                    self.put_off(step, &error);
                    return Err(error);
                }
            }
        }
        Ok(Recovered::Waits)
    }

    /// Leaves a step that has failed to the next attempt.
    fn put_off(self, step: RecoveryStep, error: &io::Error) {
        let health = &self.server.health;
        if matches!(step, RecoveryStep::Flush | RecoveryStep::Delete(_)) {
            // What the server has not read yet must not undo anything once the server takes part.
            health.put_back_step(RecoveryStep::DrainConnections(vec![self.link.into_inner().shut()]));
        }
        health.put_back_step(step);
        if is_refusal(error) && health.note_refusal() {
            tracing::warn!(
                server = %self.server.name(),
                "server does not forget what it missed, and stays away: {error}"
            );
        }
    }

    /// Does a step. Returns what came of the attempt if that was the last one. If the step fails, what is left of it
    /// stays in it.
    fn take_step(&mut self, step: &mut RecoveryStep) -> io::Result<Option<Recovered>> {
        match step {
            RecoveryStep::Done => {
                self.server.backend.serves();
                return Ok(Some(Recovered::TakesPart));
            }
            RecoveryStep::Wait => return Ok(Some(Recovered::Waits)),
            RecoveryStep::DrainConnections(sockets) => {
                self.pause = None;
                // What is read at an address that the server has left does not reach it any more.
                let has_left = self.server.backend.has_left();
                sockets.retain(|socket| !peer(socket).is_some_and(&has_left));
                drain(sockets)?;
            }
            RecoveryStep::Flush => self.flush()?,
            RecoveryStep::Delete(keys) => self.delete_all(keys)?,
        }
        Ok(None)
    }

    /// Flushes the server, now and, if a delayed `flush_all` is due later, once more then.
    fn flush(&mut self) -> io::Result<()> {
        self.ask(b"flush_all\r\n", 1, |reply| reply.starts_with(b"OK"))?;
        self.shared.fleet.set_flush_reminder(self.server, self.shared.clock.now());
        Ok(())
    }

    /// Deletes keys from the end of `keys`; if that fails, the rest stays in it. If many are left when writes have waited
    /// long enough, flushes the server instead.
    fn delete_all(&mut self, keys: &mut Vec<MissedKey>) -> io::Result<()> {
        while !keys.is_empty() {
            let is_late = self.pause.as_ref().is_some_and(|pause| pause.began.elapsed() >= PAUSED_MAX);
            if is_late && keys.len() > DELETIONS_AFTER_PAUSED_MAX {
                return self.flush();
            }
            let rest = keys.len().saturating_sub(DELETIONS_PER_BATCH);
            self.delete(&keys[rest..])?;
            keys.truncate(rest);
        }
        Ok(())
    }

    /// Deletes those of these keys that a server of the version told may hold.
    fn delete(&mut self, keys: &[MissedKey]) -> io::Result<()> {
        let (mut commands, mut lines) = (Vec::new(), 0);
        for MissedKey { key, base64 } in keys {
            let deletion = Deletion::of(key, *base64);
            if deletion.concerns(&self.server.dialect) {
                deletion.write(&mut commands);
                lines += 1;
            }
        }
        // Clients choose keys: if the server says that one is none, it holds nothing under it either.
        self.ask(&commands, lines, |reply| reply.starts_with(b"CLIENT_ERROR") || !is_error(reply))
    }

    fn ask(&mut self, commands: &[u8], lines: usize, is_good: impl Fn(&[u8]) -> bool) -> io::Result<()> {
        let until = self.pause.as_ref().map(Pause::reply_until);
        ask_until(&mut self.link, commands, lines, is_good, until)
    }
}

/// The place that a connection leads to, if it is one over TCP.
fn peer(socket: &OwnedFd) -> Option<SocketAddr> {
    SockRef::from(socket).peer_addr().ok().and_then(|peer| peer.as_socket())
}

/// Returns why a server does not move to an address, where `other` is.
pub(super) fn address_taken(other: &Server) -> String {
    format!("{} of the same pool is there; have the names lead to two servers, or name one", other.name())
}

/// Brings back a server that no pool has and one will have again, if it is away. It is flushed then, since it missed
/// what was written meanwhile; one that is not away is flushed when the new table comes (`flush_new_members`). Where this
/// fails, the prober does it later, when the server is in its pool.
pub(super) fn bring_back_before_return(server: &Server, shared: &CacheShared) {
    let is_away = server.health.note_missed_write(MissedWrite::AllKeys);
    for _ in 0..=server.backend.addresses() {
        if !is_away || bring_back(server, shared, &AtomicBool::new(false)).is_ok() {
            return;
        }
        server.backend.resolve_again();
    }
}

/// Flushes a server. When this returns, the server serves nothing that it held before.
///
/// # Errors
/// The server cannot be asked, or refuses.
pub(super) fn flush_server(server: &Server) -> io::Result<()> {
    flush_over(server.backend.dial(LIMITS)?, server)
}

/// Does as [`flush_server`] at another address.
///
/// # Errors
/// As [`flush_server`].
pub(super) fn flush_server_at(server: &Server, address: Endpoint) -> io::Result<()> {
    flush_over(server.backend.dial_at(address, LIMITS)?, server)
}

fn flush_over(dialed: Dialed, server: &Server) -> io::Result<()> {
    let mut link = BufReader::new(dialed);
    ask(&mut link, b"flush_all\r\n", 1, |reply| reply.starts_with(b"OK"))?;
    ask(&mut link, b"version\r\n", 1, |reply| note_version(server, reply))
}

/// Flushes a server for a delayed `flush_all`, which it was not sent
/// ([`Fleet::set_flush_reminder`](super::fleet::Fleet::set_flush_reminder)).
pub(super) fn flush_again(server: &Server, shared: &CacheShared) {
    // Counted as a flush: a write beside it may come before it here, and other replicas are not flushed now.
    let (flushes, mut own) = (&shared.fleet.flushes, OwnFlushes::default());
    flushes.begin(&mut own);
    let flushed = flush_server(server);
    flushes.end(&mut own);
    match flushed {
        // A server that refuses has refused it to clients before.
        Err(error) if is_refusal(&error) => {
            tracing::debug!(server = %server.name(), "it does not forget what it holds: {error}");
        }
        Err(error) if server.health.note_unknown_contents() => {
            tracing::warn!(server = %server.name(), "server lost: {error}; {}", server.health.consequence());
            shared.tell_retry();
        }
        _ => {}
    }
}

/// Reads connections to their ends; those whose end has not come yet stay in `sockets`.
fn drain(sockets: &mut Vec<OwnedFd>) -> io::Result<()> {
    let mut done = Ok(());
    while let Some(socket) = sockets.pop() {
        match read_to_end(&socket) {
            Ok(()) => {}
            // Nothing more of the connection reaches the server. What has may still be read there, but hardly for so
            // long as until the server is asked again.
            Err(error) if error.kind() == ErrorKind::TimedOut => done = Err(error),
            Err(error) => {
                sockets.push(socket);
                return Err(error);
            }
        }
    }
    done
}

/// Reads until the server has closed a connection that was given up: then it has executed all that it was sent.
///
/// # Errors
/// `TimedOut`: the server was away for so long that the system gave the connection up. Others: the end has not come.
fn read_to_end(socket: &OwnedFd) -> io::Result<()> {
    let mut socket = Socket::from(socket.try_clone()?);
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    let mut buffer = [0; 4096];
    let until = Instant::now() + TIMEOUT;
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
    use std::io::Write as _;
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
        assert_eq!(sockets.len(), 1, "only the connection that may still be read is left");
        drop((others_end, theirs));
        assert!(drain(&mut sockets).is_ok() && sockets.is_empty());
    }
}
