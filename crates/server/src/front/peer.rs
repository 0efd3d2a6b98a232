//! The socket's side of one client: what was read and is not yet understood, whether more can be read or written, and
//! how it ends.
//!
//! An idle peer holds no buffer: bytes are read into the thread's and only an unfinished rest is kept. A short read
//! needs no second one, for an event tells when there is more; of the end of a stream it tells only once, which is why
//! that is remembered.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::time::Duration;

use super::accept::Socket;
use super::limits::{FIRST_REQUEST, LINGER};
use super::newcomers::Newcomer;
use super::quiet::{Quiet, QuietLimits, Taking, is_over};
use super::readiness::Readiness;

/// Where a connection is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Served.
    Open,
    /// Nothing more is read; it ends when its answers are written.
    Closing,
    /// Everything is written and said; what still comes is dropped, so that no reset destroys the last answers.
    Lingering,
    /// To be forgotten.
    Over,
}

/// One client, as its socket shows it.
pub struct Peer {
    /// Its number, which is never used twice.
    pub number: u64,
    /// When it came, on the clock of the stamps.
    pub connected_ns: u64,
    /// When it was last read from.
    pub heard_ns: u64,
    /// Since when it has asked nothing and waited for nothing, as far as it was seen.
    pub(super) quiet_since_ns: u64,
    /// Requests read from it.
    pub requests: u64,
    /// Where it is in its life.
    pub life: Life,
    /// What was read and is not understood may hold whole requests.
    pub holds_requests: bool,
    pub(super) socket: Socket,
    pub(super) input: Vec<u8>,
    /// The kernel may have bytes for us.
    pub(super) can_read: bool,
    can_write: bool,
    /// An event told that the peer sends no more; what it sent before may still have to be read.
    hung_up: bool,
    /// All that the peer sent was read.
    pub(super) is_done: bool,
    /// The tier stops, and of what had arrived by then so much at most was not read yet.
    pub(super) owed_bytes: usize,
    /// Until it has shown who it is, if it must.
    pub(super) newcomer: Option<Newcomer>,
    /// How it takes what is written to it.
    taking: Taking,
    /// It is a client inside of this process.
    pub is_inside: bool,
}

impl Peer {
    /// One that has just come.
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
            taking: Taking::default(),
            is_inside: false,
        }
    }

    /// Its address for people.
    #[must_use]
    pub fn name(&self) -> String {
        self.socket.peer()
    }

    /// Bytes that were read and are not understood yet.
    #[must_use]
    pub fn input_bytes(&self) -> usize {
        self.input.len()
    }

    /// Whether it sends no more, and may have stopped listening too. Of this an event tells only once.
    #[must_use]
    pub fn has_hung_up(&self) -> bool {
        self.hung_up || self.is_done || self.socket.has_ended()
    }

    /// It was read from.
    pub(super) fn note_heard(&mut self, now_ns: u64) {
        (self.heard_ns, self.quiet_since_ns) = (now_ns, now_ns);
    }

    /// Bytes that were written to it ever.
    pub(super) fn taken_bytes(&self) -> u64 {
        self.taking.taken()
    }

    /// Writes as much of `output` as the peer takes; how many bytes that was.
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
        self.taking.note(written, written < output.len());
        written
    }

    /// Why it is to be closed, if it has been quiet for too long. `is_settled`: everything is answered and written. Whoever waits
    /// for an answer is not idle, and may take their time once they have it.
    pub(super) fn quiet_reason(
        &mut self,
        limits: QuietLimits,
        is_settled: bool,
        now_ns: u64,
    ) -> Option<Quiet> {
        if limits.send.is_some_and(|limit| self.taking.stands(limit, now_ns)) {
            return Some(Quiet::Send);
        }
        if !is_settled || self.holds_requests {
            self.quiet_since_ns = now_ns;
        }
        let may_be_idle = self.life == Life::Open && !self.is_inside;
        let is_idle = limits.idle.is_some_and(|limit| is_over(self.quiet_since_ns, limit, now_ns));
        (may_be_idle && is_idle).then_some(Quiet::Idle)
    }

    /// Nothing more is read of it; it ends when its answers are written.
    pub fn close(&mut self) {
        if self.life == Life::Open {
            self.life = Life::Closing;
        }
    }

    /// Takes note of what was told of its socket.
    pub(super) fn note(&mut self, told: Readiness) {
        self.hung_up |= told.is_read_closed;
        self.can_read |= told.is_readable || self.hung_up;
        if told.is_writable {
            self.can_write = true;
            self.socket.now_writable();
        }
    }

    /// Reads once; 0: nothing for now, or nothing any more.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.socket.read(buffer) {
                Ok(n) => {
                    // The end may have come with the last bytes, and then no event tells of it again.
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

    /// While it is not read: looks whether its end lies behind what came; whether that is news.
    pub(super) fn look_for_end(&mut self) -> io::Result<bool> {
        if !self.can_read || self.socket.has_ended() {
            return Ok(false);
        }
        self.socket.look_ahead().inspect_err(|_| self.life = Life::Over)?;
        Ok(self.socket.has_ended())
    }

    /// Everything is written. Whoever may still be sending is read a while longer, to no avail; so is what came in since it was
    /// read last, for bytes that nobody reads make the kernel reset a connection, and its last answers are gone. Whoever was
    /// written to just now is one of them, however long ago they were heard: the machine may have stood still between.
    pub(super) fn end(&mut self, now_ns: u64) {
        let quiet = Duration::from_nanos(now_ns.saturating_sub(self.quiet_since_ns));
        let has_nothing_unread = self.is_done || quiet >= LINGER && !self.can_read;
        self.life = if has_nothing_unread { Life::Over } else { Life::Lingering };
        self.socket.shut_write();
    }

    /// Whether there is something to do for it without a new event.
    pub(super) fn wants_turn(&self, may_ask: bool) -> bool {
        match self.life {
            Life::Open => may_ask && (self.can_read || self.holds_requests || self.is_done),
            Life::Lingering => self.can_read,
            Life::Closing | Life::Over => false,
        }
    }

    /// While the tier stops: whether it has come so recently that its first request may be on the way.
    pub(super) fn may_still_ask(&self, now_ns: u64) -> bool {
        let age = Duration::from_nanos(now_ns.saturating_sub(self.connected_ns));
        self.requests == 0 && !self.is_done && age < FIRST_REQUEST
    }

    /// A newcomer that has shown who it is leaves its place to the next.
    pub(super) fn welcome(&mut self, is_admitted: bool) {
        if is_admitted && self.newcomer.is_some() && !self.socket.is_handshaking() {
            self.newcomer = None;
        }
    }

    /// One that is admitted no more, since it has logged out, is a newcomer again and has as long as one; whether it was not before.
    /// It takes no place of one, for it has shown that it has an account.
    pub(super) fn dismiss(&mut self, is_admitted: bool, now_ns: u64) -> bool {
        let has_logged_out = !is_admitted && self.newcomer.is_none();
        if has_logged_out {
            self.newcomer = Some(Newcomer::new(now_ns, None));
        }
        has_logged_out
    }

    /// Of a newcomer: whether it has taken too long to show who it is. None: it is none, or has shown it.
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
