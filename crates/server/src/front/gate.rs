//! Which connections are let in: a limited number at once, and a limited number of newcomers per address.
//!
//! Connections are counted before they are given to a thread, so that two threads cannot both let in the last one.
//! Connections from inside this process are counted apart: an operator reaches a full server over HTTP, which has a
//! limit of its own.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use posthaste_tls::Acceptor;

use super::accept::{Socket, give_up_when_gone};
use super::newcomers::{Newcomers, Permit, Reason};
use super::quiet::{QuietCounts, QuietLimits};

/// A connection that was let in, for a network thread to serve. It is counted until [`Gate::leave`].
pub struct Arrival {
    /// The socket.
    pub socket: Socket,
    /// The connection's number, from 1, never used twice.
    pub number: u64,
    /// The peer's address; None: on this machine.
    pub origin: Option<IpAddr>,
    /// The connection's place among the newcomers, if it is one.
    pub permit: Option<Permit>,
    /// Whether the client is inside this process.
    pub is_inside: bool,
}

/// Why a connection is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The number of connections is at its limit.
    Full,
    /// The number of newcomers from its address is at its limit.
    Crowded,
}

/// The gate of a tier.
#[derive(Debug)]
pub struct Gate {
    most: usize,
    now: AtomicUsize,
    now_inside: AtomicUsize,
    /// Connection numbers given out.
    numbers: AtomicU64,
    ever_from_outside: AtomicU64,
    closing: AtomicBool,
    /// Connections that have not logged in or shaken hands yet.
    pub newcomers: Newcomers,
    /// How long clients may be quiet.
    pub quiet_limits: QuietLimits,
    /// Counts of clients that were quiet for longer.
    pub quiet: QuietCounts,
    /// Encrypts connections over TCP; None: they are plain.
    tls: Option<Arc<Acceptor>>,
}

impl Gate {
    /// Returns a gate for at most so many connections, which may be quiet for ever. With `must_log_in`, plain
    /// connections are newcomers too.
    #[must_use]
    pub fn new(most: usize, must_log_in: bool) -> Self {
        Self {
            most,
            now: AtomicUsize::new(0),
            now_inside: AtomicUsize::new(0),
            numbers: AtomicU64::new(0),
            ever_from_outside: AtomicU64::new(0),
            closing: AtomicBool::new(false),
            newcomers: Newcomers::new(most, must_log_in),
            quiet_limits: QuietLimits::default(),
            quiet: QuietCounts::default(),
            tls: None,
        }
    }

    /// Sets limits for how long clients may be quiet.
    #[must_use]
    pub fn limiting_quiet(self, quiet_limits: QuietLimits) -> Self {
        Self { quiet_limits, ..self }
    }

    /// Sets the encryption of connections over TCP.
    #[must_use]
    pub fn encrypting(self, tls: Option<Arc<Acceptor>>) -> Self {
        Self { tls, ..self }
    }

    /// Returns when the certificate expires that clients are shown, in seconds since 1970; None: there is none.
    #[must_use]
    pub fn certificate_ends(&self) -> Option<u64> {
        self.tls.as_ref().and_then(|tls| tls.certificate_ends())
    }

    /// Marks the tier as stopping.
    pub fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    /// Returns whether the tier is stopping: connections that exist are served to the end, and no new ones.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// Lets in a connection from outside.
    ///
    /// # Errors
    /// The socket, and why not.
    pub fn admit(&self, socket: Socket) -> Result<Arrival, (Socket, Refused)> {
        if !self.take() {
            self.newcomers.refuse(Reason::Full);
            return Err((socket, Refused::Full));
        }
        if let Some(stream) = socket.tcp().filter(|_| self.quiet_limits.end_before_gone()) {
            // A socket that refuses this is broken, which the next read reports.
            let _ = give_up_when_gone(stream);
        }
        let origin = socket.ip();
        match self.newcomers.permit(origin, socket.is_handshaking()) {
            Ok(permit) => {
                self.ever_from_outside.fetch_add(1, Ordering::Relaxed);
                Ok(Arrival { socket, number: self.number(), origin, permit, is_inside: false })
            }
            Err(refused) => {
                self.leave(false);
                Err((socket, refused))
            }
        }
    }

    /// Lets in a client inside this process that acts for a peer at `origin`, which took a newcomer's place where HTTP
    /// accepted it.
    #[must_use]
    pub fn admit_inside(&self, socket: Socket, origin: Option<IpAddr>) -> Arrival {
        self.now_inside.fetch_add(1, Ordering::Relaxed);
        Arrival { socket, number: self.number(), origin, permit: None, is_inside: true }
    }

    /// Counts off a connection that was let in and has ended.
    pub fn leave(&self, is_inside: bool) {
        let now = if is_inside { &self.now_inside } else { &self.now };
        now.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns how many connections there are, those from inside included.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.now.load(Ordering::Relaxed) + self.now_inside.load(Ordering::Relaxed)
    }

    /// Returns how many connections from outside there are, at most [`Self::connections_max`].
    #[must_use]
    pub fn connections_from_outside(&self) -> usize {
        self.now.load(Ordering::Relaxed)
    }

    /// Returns how many connections from outside there may be.
    #[must_use]
    pub fn connections_max(&self) -> usize {
        self.most
    }

    /// Returns how many connections from outside were ever accepted.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.ever_from_outside.load(Ordering::Relaxed)
    }

    fn take(&self) -> bool {
        let is_free = self.now.fetch_add(1, Ordering::Relaxed) < self.most;
        if !is_free {
            self.leave(false);
        }
        is_free
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket() -> Socket {
        let (one, _) = mio::net::UnixStream::pair().expect("a pair");
        Socket::Unix(one)
    }

    #[test]
    fn who_leaves_makes_room_and_numbers_are_used_once() {
        let gate = Gate::new(1, false);
        assert_eq!(gate.admit(socket()).ok().map(|arrival| arrival.number), Some(1));
        assert_eq!(gate.admit(socket()).err().map(|(_, why)| why), Some(Refused::Full));
        assert_eq!(gate.connections(), 1, "who was refused is not counted");
        gate.leave(false);
        assert_eq!(gate.admit(socket()).ok().map(|arrival| arrival.number), Some(2));
        assert_eq!(gate.accepted(), 2);
    }

    #[test]
    fn who_comes_from_inside_has_a_place_and_takes_nobody_elses() {
        let gate = Gate::new(1, false);
        let inside = gate.admit_inside(socket(), None);
        assert!(gate.admit(socket()).is_ok(), "the place is free");
        assert!(gate.admit(socket()).is_err());
        assert_eq!((gate.admit_inside(socket(), None).number, gate.connections()), (3, 3));
        assert_eq!((gate.connections_from_outside(), gate.accepted()), (1, 1));
        gate.leave(inside.is_inside);
        assert!(gate.admit(socket()).is_err(), "nobody has left who came from outside");
        gate.leave(false);
        assert!(gate.admit(socket()).is_ok());
    }
}
