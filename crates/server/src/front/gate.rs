//! Which connections are let in: a limited number at once, and a limited number of newcomers per address.
//!
//! Connections are counted before they are given to a thread, so that two threads cannot both let in the last one.
//! Connections from inside this process are counted apart: an operator reaches a full server over HTTP, which has a
//! limit of its own.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use posthaste_tls::Acceptor;

use super::newcomers::{NewcomerPermit, Newcomers, RefusalReason};
use super::quiet::{QuietCounts, QuietLimits};
use super::socket::{Socket, set_user_timeout};

/// A connection that was let in, for a network thread to serve. It is counted until [`Gate::release`].
pub struct Arrival {
    /// The socket.
    pub socket: Socket,
    /// The connection's number, from 1, never used twice.
    pub number: u64,
    /// The peer's address; None: on this machine.
    pub origin: Option<IpAddr>,
    /// The connection's permit, if it is a newcomer that needs one.
    pub permit: Option<NewcomerPermit>,
    /// Where the client runs.
    pub client_kind: ClientKind,
}

/// Where a client runs, which decides how its connection is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientKind {
    /// In another process: its connection counts towards the limit.
    Outside,
    /// In this process, where it acts for a peer of HTTP.
    Inside,
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
    /// The most connections from outside at once.
    connections_max: usize,
    /// Connections from outside now.
    from_outside: AtomicUsize,
    /// Connections from inside now.
    from_inside: AtomicUsize,
    /// Number of the newest connection; 0: there was none.
    last_number: AtomicU64,
    /// Connections from outside that were ever let in.
    accepted: AtomicU64,
    is_closing: AtomicBool,
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
    pub fn new(connections_max: usize, must_log_in: bool) -> Self {
        Self {
            connections_max,
            from_outside: AtomicUsize::new(0),
            from_inside: AtomicUsize::new(0),
            last_number: AtomicU64::new(0),
            accepted: AtomicU64::new(0),
            is_closing: AtomicBool::new(false),
            newcomers: Newcomers::new(connections_max, must_log_in),
            quiet_limits: QuietLimits::default(),
            quiet: QuietCounts::default(),
            tls: None,
        }
    }

    /// Sets limits for how long clients may be quiet.
    #[must_use]
    pub fn with_quiet_limits(self, quiet_limits: QuietLimits) -> Self {
        Self { quiet_limits, ..self }
    }

    /// Sets the encryption of connections over TCP.
    #[must_use]
    pub fn with_tls(self, tls: Option<Arc<Acceptor>>) -> Self {
        Self { tls, ..self }
    }

    /// Returns when the certificate expires that clients are shown, in seconds since 1970; None: there is none.
    #[must_use]
    pub fn certificate_not_after_s(&self) -> Option<u64> {
        self.tls.as_ref().and_then(|tls| tls.certificate_not_after_s())
    }

    /// Marks the tier as stopping.
    pub fn close(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
    }

    /// Returns whether the tier is stopping: it serves the connections it has to their end, and no new ones.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Relaxed)
    }

    /// Lets in a connection from outside.
    ///
    /// # Errors
    /// The socket, and why not.
    pub fn admit(&self, socket: Socket) -> Result<Arrival, (Socket, Refused)> {
        if !self.reserve() {
            self.newcomers.count_refusal(RefusalReason::Full);
            return Err((socket, Refused::Full));
        }
        if let Some(stream) = socket.tcp().filter(|_| self.quiet_limits.end_before_user_timeout()) {
            // A socket that refuses this is broken, which the next read reports.
            let _ = set_user_timeout(stream);
        }
        let origin = socket.peer_ip();
        match self.newcomers.take_permit(origin, socket.is_handshaking()) {
            Ok(permit) => {
                self.accepted.fetch_add(1, Ordering::Relaxed);
                let number = self.next_number();
                Ok(Arrival { socket, number, origin, permit, client_kind: ClientKind::Outside })
            }
            Err(refused) => {
                self.release(ClientKind::Outside);
                Err((socket, refused))
            }
        }
    }

    /// Lets in a client inside this process that acts for a peer at `origin`. It needs no permit, as HTTP limits its
    /// own peers.
    #[must_use]
    pub fn admit_inside(&self, socket: Socket, origin: Option<IpAddr>) -> Arrival {
        self.from_inside.fetch_add(1, Ordering::Relaxed);
        let number = self.next_number();
        Arrival { socket, number, origin, permit: None, client_kind: ClientKind::Inside }
    }

    /// Counts a connection that was let in as ended.
    pub fn release(&self, client_kind: ClientKind) {
        let connections = match client_kind {
            ClientKind::Outside => &self.from_outside,
            ClientKind::Inside => &self.from_inside,
        };
        connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns how many connections there are, those from inside included.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections_from_outside() + self.from_inside.load(Ordering::Relaxed)
    }

    /// Returns how many connections from outside there are, at most [`Self::connections_max()`].
    #[must_use]
    pub fn connections_from_outside(&self) -> usize {
        self.from_outside.load(Ordering::Relaxed)
    }

    /// Returns how many connections from outside there may be.
    #[must_use]
    pub fn connections_max(&self) -> usize {
        self.connections_max
    }

    /// Returns how many connections from outside were ever accepted.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Counts one more connection from outside; returns false, and counts none, if there are as many as there may be.
    fn reserve(&self) -> bool {
        let has_room = self.from_outside.fetch_add(1, Ordering::Relaxed) < self.connections_max;
        if !has_room {
            self.release(ClientKind::Outside);
        }
        has_room
    }

    fn next_number(&self) -> u64 {
        self.last_number.fetch_add(1, Ordering::Relaxed) + 1
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
    fn a_connection_that_ends_makes_room_and_numbers_are_used_once() {
        let gate = Gate::new(1, false);
        assert_eq!(gate.admit(socket()).ok().map(|arrival| arrival.number), Some(1));
        assert_eq!(gate.admit(socket()).err().map(|(_, why)| why), Some(Refused::Full));
        assert_eq!(gate.connections(), 1, "a refused connection is not counted");
        gate.release(ClientKind::Outside);
        assert_eq!(gate.admit(socket()).ok().map(|arrival| arrival.number), Some(2));
        assert_eq!(gate.accepted(), 2);
    }

    #[test]
    fn connections_from_inside_are_always_let_in_and_take_no_room_from_those_outside() {
        let gate = Gate::new(1, false);
        let inside = gate.admit_inside(socket(), None);
        assert!(gate.admit(socket()).is_ok(), "there is room");
        assert!(gate.admit(socket()).is_err());
        assert_eq!((gate.admit_inside(socket(), None).number, gate.connections()), (3, 3));
        assert_eq!((gate.connections_from_outside(), gate.accepted()), (1, 1));
        gate.release(inside.client_kind);
        assert!(gate.admit(socket()).is_err(), "no connection from outside has ended");
        gate.release(ClientKind::Outside);
        assert!(gate.admit(socket()).is_ok());
    }
}
