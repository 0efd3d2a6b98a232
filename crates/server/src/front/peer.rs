//! The socket's side of one client: what was read and not yet parsed, whether more can be read or written, and how the
//! connection ends.
//!
//! An idle peer holds no buffer: bytes are read into the thread's buffer, and only an unfinished rest is kept. After a
//! short read there is no second one, as an event reports more bytes; the end of a stream is reported only once, so it
//! is remembered.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::time::Duration;

use super::accept::Socket;
use super::gate::ClientKind;
use super::limits::{FIRST_REQUEST, LINGER};
use super::newcomers::Newcomer;
use super::quiet::{QuietLimits, QuietReason, WriteProgress, has_passed};
use super::readiness::Readiness;

/// Where a connection is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Served.
    Open,
    /// Nothing more is read; it ends when its answers are written.
    Closing,
    /// Everything is written and the write side is shut; what still arrives is dropped, so that no reset destroys the
    /// last answers.
    Lingering,
    /// To be forgotten.
    Over,
}

/// One client, as its socket shows it.
pub struct Peer {
    /// The connection's number, which is never used twice.
    pub number: u64,
    /// When the connection was accepted, as a stamp.
    pub connected_ns: u64,
    /// When bytes were last read from it, as a stamp.
    pub heard_ns: u64,
    /// Since when it has sent no request and waited for no answer, as far as it was observed.
    pub(super) quiet_since_ns: u64,
    /// How many requests were read from it.
    pub requests: u64,
    /// The connection's state.
    pub life: Life,
    /// Whether what was read and not yet parsed may contain whole requests.
    pub holds_requests: bool,
    pub(super) socket: Socket,
    pub(super) input: Vec<u8>,
    /// Whether the kernel may have bytes to read.
    pub(super) can_read: bool,
    can_write: bool,
    /// Whether an event reported that the peer sends no more; what it sent before may still have to be read.
    hung_up: bool,
    /// Whether all that the peer sent was read.
    pub(super) is_done: bool,
    /// While the tier stops: the most bytes still to be read of what had arrived before the stop.
    pub(super) owed_bytes: usize,
    /// Newcomer state, until the peer has logged in or shaken hands; None: it need not, or has.
    pub(super) newcomer: Option<Newcomer>,
    /// How far the peer takes what is written to it.
    write_progress: WriteProgress,
    /// Where the client runs.
    pub client_kind: ClientKind,
}

impl Peer {
    /// Returns the state of a connection just accepted.
    #[must_use]
    pub fn new(number: u64, socket: Socket, now_ns: u64) -> Self {
        Self {
            number,
            connected_ns: now_ns,
            heard_ns: now_ns,
            quiet_since_ns: now_ns,
            requests: 0,
            life: Life::Open,
            holds_requests: false,
            socket,
            input: Vec::new(),
            can_read: true,
            can_write: true,
            hung_up: false,
            is_done: false,
            owed_bytes: 0,
            newcomer: None,
            write_progress: WriteProgress::default(),
            client_kind: ClientKind::Outside,
        }
    }

    /// Returns the peer's address in readable form.
    #[must_use]
    pub fn name(&self) -> String {
        self.socket.peer()
    }

    /// Returns how many bytes were read and not yet parsed.
    #[must_use]
    pub fn input_bytes(&self) -> usize {
        self.input.len()
    }

    /// Returns whether the peer sends no more, and may have stopped listening too. An event reports this only once.
    #[must_use]
    pub fn has_hung_up(&self) -> bool {
        self.hung_up || self.is_done || self.socket.has_ended()
    }

    /// Notes that bytes were read from the peer.
    pub(super) fn note_heard(&mut self, now_ns: u64) {
        (self.heard_ns, self.quiet_since_ns) = (now_ns, now_ns);
    }

    /// Returns how many bytes were ever written to the peer.
    pub(super) fn written_bytes(&self) -> u64 {
        self.write_progress.written()
    }

    /// Writes as much of `output` as the peer takes, and returns how many bytes.
    pub fn write(&mut self, output: &[u8]) -> usize {
        let mut written = 0;
        while self.can_write && written < output.len() {
            match self.socket.write(&output[written..]) {
                Ok(n) if n > 0 => written += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.can_write = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => {
                    self.life = Life::Over;
                    self.can_write = false;
                }
            }
        }
        self.write_progress.note(written, written < output.len());
        written
    }

    /// Returns why the connection must be closed, if it has been quiet for too long. `is_settled`: everything is
    /// answered and written. A client that waits for an answer is not idle, and its idle time starts when it has the
    /// answer.
    pub(super) fn quiet_reason(
        &mut self,
        limits: QuietLimits,
        is_settled: bool,
        now_ns: u64,
    ) -> Option<QuietReason> {
        if limits.send.is_some_and(|limit| self.write_progress.has_stalled_for(limit, now_ns)) {
            return Some(QuietReason::Send);
        }
        if !is_settled || self.holds_requests {
            self.quiet_since_ns = now_ns;
        }
        let may_be_idle = self.life == Life::Open && self.client_kind == ClientKind::Outside;
        let is_idle = limits.idle.is_some_and(|limit| has_passed(self.quiet_since_ns, limit, now_ns));
        (may_be_idle && is_idle).then_some(QuietReason::Idle)
    }

    /// Begins to close the connection: nothing more is read, and it ends when its answers are written.
    pub fn close(&mut self) {
        if self.life == Life::Open {
            self.life = Life::Closing;
        }
    }

    /// Notes what was reported of the socket.
    pub(super) fn note(&mut self, told: Readiness) {
        self.hung_up |= told.is_read_closed;
        self.can_read |= told.is_readable || self.hung_up;
        if told.is_writable {
            self.can_write = true;
            self.socket.now_writable();
        }
    }

    /// Reads once. Returns 0 if there is nothing for now, or the stream has ended.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.socket.read(buffer) {
                Ok(n) => {
                    // The end may have arrived with the last bytes, and then no event reports it again.
                    self.can_read = n == buffer.len() || n > 0 && (self.hung_up || self.socket.has_ended());
                    self.is_done |= n == 0;
                    return Ok(n);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.can_read = false;
                    if error.kind() == ErrorKind::WouldBlock {
                        return Ok(0);
                    }
                    self.life = Life::Over;
                    return Err(error);
                }
            }
        }
    }

    /// Looks whether the end follows the bytes that arrived, while the connection is not read; returns whether that is
    /// news.
    pub(super) fn look_for_end(&mut self) -> io::Result<bool> {
        if !self.can_read || self.socket.has_ended() {
            return Ok(false);
        }
        self.socket.look_ahead().inspect_err(|_| self.life = Life::Over)?;
        Ok(self.socket.has_ended())
    }

    /// Ends a connection to which everything is written. If the peer may still be sending, or bytes arrived that were
    /// not read, it lingers: closing with unread bytes would make the kernel send a reset, which destroys the last
    /// answers. A peer that was written to just now lingers too, however long ago it was heard: the machine may have
    /// stood still in between.
    pub(super) fn end(&mut self, now_ns: u64) {
        let quiet = Duration::from_nanos(now_ns.saturating_sub(self.quiet_since_ns));
        let has_nothing_unread = self.is_done || quiet >= LINGER && !self.can_read;
        self.life = if has_nothing_unread { Life::Over } else { Life::Lingering };
        self.socket.shut_write();
    }

    /// Returns whether there is something to do for the connection without a new event.
    pub(super) fn wants_turn(&self, may_ask: bool) -> bool {
        match self.life {
            Life::Open => may_ask && (self.can_read || self.holds_requests || self.is_done),
            Life::Lingering => self.can_read,
            Life::Closing | Life::Over => false,
        }
    }

    /// Returns whether the connection is so young that its first request may still be on the way, when the tier stops.
    pub(super) fn may_still_ask(&self, now_ns: u64) -> bool {
        let age = Duration::from_nanos(now_ns.saturating_sub(self.connected_ns));
        self.requests == 0 && !self.is_done && age < FIRST_REQUEST
    }

    /// Frees the newcomer's place of a peer that has logged in and shaken hands.
    pub(super) fn welcome(&mut self, is_admitted: bool) {
        if is_admitted && self.newcomer.is_some() && !self.socket.is_handshaking() {
            self.newcomer = None;
        }
    }

    /// Makes a peer that has logged out a newcomer again, with a newcomer's time limit; returns whether it has become
    /// one just now. It takes no newcomer's place, as it has shown that it has an account.
    pub(super) fn dismiss(&mut self, is_admitted: bool, now_ns: u64) -> bool {
        let has_logged_out = !is_admitted && self.newcomer.is_none();
        if has_logged_out {
            self.newcomer = Some(Newcomer::new(now_ns, None));
        }
        has_logged_out
    }

    /// Returns whether a newcomer has taken too long; None: the peer is no newcomer.
    pub(super) fn is_late(&self, now_ns: u64) -> Option<bool> {
        Some(self.newcomer.as_ref()?.is_late(self.socket.is_handshaking(), now_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer() -> (Peer, std::os::unix::net::UnixStream) {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut peer = Peer::new(1, Socket::Unix(mio::net::UnixStream::from_std(ours)), 0);
        peer.can_read = false; // all that has come was read
        (peer, theirs)
    }

    #[test]
    fn whoever_was_answered_just_now_is_read_a_while_longer_and_whoever_was_quiet_is_not() {
        let hour = 3_600_000_000_000;
        let (mut quiet, _theirs) = peer();
        quiet.end(hour);
        assert_eq!(quiet.life, Life::Over);
        // Heard before the machine stood still for an hour, answered after it.
        let (mut answered, _theirs) = peer();
        answered.quiet_since_ns = hour;
        answered.end(hour);
        assert_eq!(answered.life, Life::Lingering);
    }
}
