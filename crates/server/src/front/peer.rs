//! The socket's side of one client: what was read and not yet parsed, whether more can be read or written, and how the
//! connection ends.
//!
//! An idle peer holds no buffer: bytes are read into the thread's buffer, and only an unfinished rest is kept. After a
//! short read there is no second one, as an event reports more bytes; the end of a stream is reported only once, so it
//! is remembered.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::time::Duration;

use super::gate::ClientKind;
use super::limits::{FIRST_REQUEST, LINGER};
use super::newcomers::Newcomer;
use super::quiet::{QuietLimits, QuietReason, WriteProgress, has_passed};
use super::readiness::Readiness;
use super::socket::Socket;

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// Served.
    Open,
    /// Nothing more is read; the connection ends when its answers are written.
    Closing,
    /// Everything is written and the write side is shut; what still arrives is dropped, so that no reset destroys the
    /// last answers.
    Lingering,
    /// Ended, and to be removed.
    Closed,
}

/// One client, as its socket shows it.
pub struct Peer {
    /// The connection's number, which is never used twice.
    pub number: u64,
    /// When the connection was accepted, as a stamp.
    pub connected_ns: u64,
    /// When bytes were last read from the peer, as a stamp.
    pub last_read_ns: u64,
    /// Since when the peer has sent no request and waited for no answer, as far as it was observed, as a stamp.
    pub(super) quiet_since_ns: u64,
    /// How many requests were read from the peer.
    pub requests: u64,
    /// The connection's state.
    pub state: PeerState,
    /// Whether what was read and not yet parsed may contain whole requests.
    pub holds_requests: bool,
    pub(super) socket: Socket,
    pub(super) input: Vec<u8>,
    /// Whether the kernel may have bytes to read.
    pub(super) can_read: bool,
    can_write: bool,
    /// Whether an event reported that the peer sends no more; earlier bytes may still have to be read.
    is_read_closed: bool,
    /// Whether all that the peer sent was read.
    pub(super) is_at_eof: bool,
    /// While the tier stops: the most bytes that are still read, as they may have arrived before the stop.
    pub(super) drain_bytes_left: usize,
    /// Newcomer state, until the peer has logged in and shaken hands; None: it need not, or has.
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
            last_read_ns: now_ns,
            quiet_since_ns: now_ns,
            requests: 0,
            state: PeerState::Open,
            holds_requests: false,
            socket,
            input: Vec::new(),
            can_read: true,
            can_write: true,
            is_read_closed: false,
            is_at_eof: false,
            drain_bytes_left: 0,
            newcomer: None,
            write_progress: WriteProgress::default(),
            client_kind: ClientKind::Outside,
        }
    }

    /// Returns the peer's address in readable form.
    #[must_use]
    pub fn name(&self) -> String {
        self.socket.peer_name()
    }

    /// Returns how many bytes were read and not yet parsed.
    #[must_use]
    pub fn input_bytes(&self) -> usize {
        self.input.len()
    }

    /// Returns whether the peer sends no more, and may have stopped listening too. An event reports this only once.
    #[must_use]
    pub fn has_hung_up(&self) -> bool {
        self.is_read_closed || self.is_at_eof || self.socket.has_ended()
    }

    /// Notes that bytes were read from the peer.
    pub(super) fn note_read(&mut self, now_ns: u64) {
        (self.last_read_ns, self.quiet_since_ns) = (now_ns, now_ns);
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
                    self.state = PeerState::Closed;
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
        let may_be_idle = self.state == PeerState::Open && self.client_kind == ClientKind::Outside;
        let is_idle = limits.idle.is_some_and(|limit| has_passed(self.quiet_since_ns, limit, now_ns));
        (may_be_idle && is_idle).then_some(QuietReason::Idle)
    }

    /// Begins to close the connection: nothing more is read, and it ends when its answers are written.
    pub fn close(&mut self) {
        if self.state == PeerState::Open {
            self.state = PeerState::Closing;
        }
    }

    /// Notes what was reported of the socket.
    pub(super) fn note(&mut self, readiness: Readiness) {
        self.is_read_closed |= readiness.is_read_closed;
        self.can_read |= readiness.is_readable || self.is_read_closed;
        if readiness.is_writable {
            self.can_write = true;
            self.socket.flush_tls();
        }
    }

    /// Reads once. Returns 0 if there is nothing for now, or the stream has ended.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.socket.read(buffer) {
                Ok(n) => {
                    // The end may have arrived with the last bytes, and then no event reports it again.
                    self.can_read =
                        n == buffer.len() || n > 0 && (self.is_read_closed || self.socket.has_ended());
                    self.is_at_eof |= n == 0;
                    return Ok(n);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.can_read = false;
                    if error.kind() == ErrorKind::WouldBlock {
                        return Ok(0);
                    }
                    self.state = PeerState::Closed;
                    return Err(error);
                }
            }
        }
    }

    /// Returns whether the end is now known to follow the bytes that arrived, which was not known before, while the
    /// connection is not read.
    pub(super) fn discovers_end(&mut self) -> io::Result<bool> {
        if !self.can_read || self.socket.has_ended() {
            return Ok(false);
        }
        self.socket.look_ahead().inspect_err(|_| self.state = PeerState::Closed)?;
        Ok(self.socket.has_ended())
    }

    /// Shuts the write side of a connection to which everything is written. If the peer may still be sending, or bytes
    /// arrived that were not read, the connection lingers: closing with unread bytes would make the kernel send a reset,
    /// which destroys the last answers. It lingers too if it was written to just now, however long ago it was last read:
    /// the machine may have stood still in between.
    pub(super) fn finish_closing(&mut self, now_ns: u64) {
        let quiet = Duration::from_nanos(now_ns.saturating_sub(self.quiet_since_ns));
        let has_nothing_unread = self.is_at_eof || quiet >= LINGER && !self.can_read;
        self.state = if has_nothing_unread { PeerState::Closed } else { PeerState::Lingering };
        self.socket.shut_write();
    }

    /// Returns whether there is something to do for the connection without a new event.
    pub(super) fn wants_turn(&self, may_ask: bool) -> bool {
        match self.state {
            PeerState::Open => may_ask && (self.can_read || self.holds_requests || self.is_at_eof),
            PeerState::Lingering => self.can_read,
            PeerState::Closing | PeerState::Closed => false,
        }
    }

    /// Returns whether the connection is so young that its first request may still be on the way, when the tier stops.
    pub(super) fn awaits_first_request(&self, now_ns: u64) -> bool {
        let age = Duration::from_nanos(now_ns.saturating_sub(self.connected_ns));
        self.requests == 0 && !self.is_at_eof && age < FIRST_REQUEST
    }

    /// Ends the newcomer state of a peer that the tier admits, unless it is still shaking hands, and frees its permit.
    pub(super) fn note_admitted(&mut self) {
        if self.newcomer.is_some() && !self.socket.is_handshaking() {
            self.newcomer = None;
        }
    }

    /// Makes a peer that the tier does not admit a newcomer, with a newcomer's time limit. Returns whether it was none
    /// before: then it has logged out, and needs no permit, as it has shown that it has an account.
    pub(super) fn note_not_admitted(&mut self, now_ns: u64) -> bool {
        let has_logged_out = self.newcomer.is_none();
        if has_logged_out {
            self.newcomer = Some(Newcomer::new(now_ns, None));
        }
        has_logged_out
    }

    /// Returns whether the peer is a newcomer that has taken too long.
    pub(super) fn is_late_newcomer(&self, now_ns: u64) -> bool {
        let is_handshaking = self.socket.is_handshaking();
        self.newcomer.as_ref().is_some_and(|newcomer| newcomer.is_late(is_handshaking, now_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer() -> (Peer, std::os::unix::net::UnixStream) {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut peer = Peer::new(1, Socket::Unix(mio::net::UnixStream::from_std(ours)), 0);
        peer.can_read = false; // everything that arrived was read
        (peer, theirs)
    }

    #[test]
    fn a_peer_answered_just_now_lingers_and_a_quiet_one_is_closed_at_once() {
        let hour = 3_600_000_000_000;
        let (mut quiet, _theirs) = peer();
        quiet.finish_closing(hour);
        assert_eq!(quiet.state, PeerState::Closed);
        // Heard before the machine stood still for an hour, answered after it.
        let (mut answered, _theirs) = peer();
        answered.quiet_since_ns = hour;
        answered.finish_closing(hour);
        assert_eq!(answered.state, PeerState::Lingering);
    }
}
