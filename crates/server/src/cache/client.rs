//! One client: its socket and what was read of it and is not yet understood.
//!
//! An idle client holds no buffer: bytes are read into the thread's, only an unfinished rest is kept, and answers stand
//! in buffers that go back to the thread when they are written.

use std::io::{ErrorKind, Read as _, Write as _};

use super::hall::Hall;
use super::limits::FIRST_REQUEST;
use crate::newcomers::{Arrival, Newcomer};
use crate::path::accept::Socket;

/// Where a client is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// Served.
    Open,
    /// Nothing more is read; it ends when its answers are written.
    Closing,
    /// Everything is written and said; what still comes is dropped, so that no reset destroys the last answers.
    Lingering,
    /// To be forgotten.
    Over,
}

/// One client.
pub(super) struct Client {
    /// Its number, which is never used twice.
    pub(super) number: u64,
    /// When it came.
    pub(super) connected_ns: u64,
    /// Requests read from it.
    pub(super) requests: u64,
    pub(super) socket: Socket,
    pub(super) life: Life,
    /// The kernel may have bytes for us.
    pub(super) can_read: bool,
    pub(super) can_write: bool,
    /// An event told that the peer sends no more; what it sent before may still have to be read.
    pub(super) hung_up: bool,
    /// All that the peer sent was read.
    pub(super) peer_done: bool,
    /// It stands in the turn's list of those to serve.
    pub(super) listed: bool,
    /// It stands in the list of those whose request could not be taken yet.
    pub(super) later: bool,
    /// What was read and not understood.
    pub(super) input: Vec<u8>,
    /// That may hold whole requests.
    pub(super) holds_requests: bool,
    /// Bytes that are still to come and mean nothing.
    pub(super) swallow: usize,
    /// Bytes of the output that are written.
    pub(super) written: usize,
    /// Something of a request was read.
    pub(super) has_asked: bool,
    /// Until it has shaken hands, if it must.
    newcomer: Option<Newcomer>,
}

impl Client {
    pub(super) fn new(number: u64, arrival: Arrival, connected_ns: u64) -> Self {
        let Arrival { socket, place, .. } = arrival;
        Self {
            number,
            connected_ns,
            requests: 0,
            newcomer: socket.is_handshaking().then(|| Newcomer::new(connected_ns, place)),
            socket,
            life: Life::Open,
            can_read: true,
            can_write: true,
            hung_up: false,
            peer_done: false,
            listed: false,
            later: false,
            input: Vec::new(),
            holds_requests: false,
            swallow: 0,
            written: 0,
            has_asked: false,
        }
    }

    /// While the tier stops: whether it has come so recently that its first request may be on the way.
    pub(super) fn may_still_ask(&self, now_ns: u64) -> bool {
        let age = now_ns.saturating_sub(self.connected_ns);
        !self.has_asked && !self.peer_done && u128::from(age) < FIRST_REQUEST.as_nanos()
    }

    /// Whether it has yet to shake hands.
    pub(super) const fn is_newcomer(&self) -> bool {
        self.newcomer.is_some()
    }

    /// Of a newcomer: whether it goes on, or is over because it took too long.
    pub(super) fn look_after(&mut self, now_ns: u64) -> Option<Life> {
        if !self.socket.is_handshaking() {
            self.newcomer = None;
        }
        let is_late = self.newcomer.as_ref()?.is_late(true, now_ns);
        Some(if is_late { Life::Over } else { Life::Open })
    }

    /// Reads once; a short read means that the kernel has no more, and an event will tell when it has.
    pub(super) fn read(&mut self, buffer: &mut [u8], hall: &Hall) -> usize {
        loop {
            match self.socket.read(buffer) {
                Ok(n) => {
                    // The end may have come with the last bytes, and then no event tells of it again.
                    self.can_read = n == buffer.len() || n > 0 && (self.hung_up || self.socket.has_ended());
                    self.peer_done |= n == 0;
                    return n;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.can_read = false;
                    if error.kind() != ErrorKind::WouldBlock {
                        self.life = Life::Over;
                        if self.socket.is_handshaking() {
                            hall.newcomers.handshake_failed(&self.socket.peer(), &error, hall.clock.now());
                        }
                    }
                    return 0;
                }
            }
        }
    }

    /// Writes as much of `output` as the peer takes; how many bytes that was.
    pub(super) fn write(&mut self, output: &[u8]) -> usize {
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
        written
    }

    /// Whether there is something to do for it without a new event, if it may ask.
    pub(super) fn wants_turn(&self) -> bool {
        match self.life {
            Life::Open => self.can_read || self.holds_requests || self.peer_done,
            Life::Lingering => self.can_read,
            Life::Closing | Life::Over => false,
        }
    }
}
