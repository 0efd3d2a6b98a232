//! The connections of one network thread, and what is due on each: reading, writing, closing.
//!
//! Connections with something due are kept in a list, so the cost of a turn depends on what happened, not on how many
//! clients are connected.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Interest, Poll, Registry, Token};
use posthaste_measure::Clock;
use slab::Slab;

use super::buffers::Buffers;
use super::gate::{Arrival, Gate};
use super::limits::{DRAIN_BYTES_MAX, FIRST_REQUEST, LINGER, OVERSLEPT, READ_BYTES};
use super::newcomers::{self, Newcomer, RefusalReason};
use super::peer::{Peer, PeerState};
use super::readiness::Readiness;
use super::slots::Slots;
use super::tier::Tier;

/// All connections of a thread.
pub struct Connections<T: Tier> {
    pub(super) poll: Poll,
    gate: Arc<Gate>,
    clock: Clock,
    /// When this turn began.
    now_ns: u64,
    slab: Slab<T::Connection>,
    ready: Slots,
    /// Times at which single connections are due, in the order in which they were set.
    deadlines: VecDeque<Deadline>,
    /// When to check newcomers for lateness, if there are any.
    newcomer_check_at: Option<Instant>,
    /// When to check for quiet clients, if there are limits and clients.
    quiet_check_at: Option<Instant>,
    read_buffer: Vec<u8>,
    buffers: Buffers,
    /// Bytes that were read and not yet parsed, over all connections.
    input_bytes: usize,
    is_stopping: bool,
}

/// A time at which one connection is due.
struct Deadline {
    at: Instant,
    slot: usize,
    /// The connection's number, as its slot may belong to another connection by then.
    number: u64,
    kind: DeadlineKind,
}

/// What ends at a deadline.
#[derive(Clone, Copy)]
enum DeadlineKind {
    /// The time for which the connection lingers.
    Linger,
    /// The time for which a stop waits for the connection's first request. The connection may be in any state by then.
    FirstRequest,
}

impl<T: Tier> Connections<T> {
    pub(super) fn new(poll: Poll, gate: Arc<Gate>, clock: Clock) -> Self {
        Self {
            poll,
            gate,
            clock,
            now_ns: 0,
            slab: Slab::new(),
            ready: Slots::default(),
            deadlines: VecDeque::new(),
            newcomer_check_at: None,
            quiet_check_at: None,
            read_buffer: vec![0; READ_BYTES],
            buffers: Buffers::default(),
            input_bytes: 0,
            is_stopping: false,
        }
    }

    /// Returns how many connections there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// Returns whether there are no connections.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }

    /// Returns how many bytes were read and not yet parsed, over all connections.
    #[must_use]
    pub fn input_bytes(&self) -> usize {
        self.input_bytes
    }

    /// Returns whether the tier is stopping.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.is_stopping
    }

    /// Returns all connections, by slot.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T::Connection)> {
        self.slab.iter()
    }

    /// Returns the connection in a slot.
    pub fn get(&self, slot: usize) -> Option<&T::Connection> {
        self.slab.get(slot)
    }

    /// Returns the connection in a slot, to be changed.
    pub fn get_mut(&mut self, slot: usize) -> Option<&mut T::Connection> {
        self.slab.get_mut(slot)
    }

    /// Returns the connection of this number, if it is still in its slot.
    pub fn find(&mut self, slot: usize, number: u64) -> Option<&mut T::Connection> {
        self.slab.get_mut(slot).filter(|connection| (*connection).as_ref().number == number)
    }

    /// Returns the registry and the read buffer, for the tier's own sockets.
    pub fn registry_and_buffer(&mut self) -> (&Registry, &mut [u8]) {
        (self.poll.registry(), &mut self.read_buffer)
    }

    /// Begins a turn, and returns its stamp.
    pub(super) fn begin_turn(&mut self) -> u64 {
        self.now_ns = self.clock.now();
        self.now_ns
    }

    /// Adds a connection to those of the thread, or ends it if the tier is stopping.
    pub(super) fn adopt(&mut self, tier: &mut T, arrival: Arrival) {
        let Arrival { mut socket, number, origin, permit, client_kind } = arrival;
        let entry = self.slab.vacant_entry();
        let slot = entry.key();
        let interests = Interest::READABLE | Interest::WRITABLE;
        if self.is_stopping || self.poll.registry().register(&mut socket, Token(slot), interests).is_err() {
            return self.gate.release(client_kind);
        }
        let is_handshaking = socket.is_handshaking();
        let mut peer = Peer::new(number, socket, self.now_ns);
        peer.client_kind = client_kind;
        let mut connection = tier.new_connection(slot, peer, origin);
        if is_handshaking || !tier.is_admitted(&connection) {
            connection.as_mut().newcomer = Some(Newcomer::new(self.now_ns, permit));
            self.newcomer_check_at.get_or_insert(self.clock.instant() + newcomers::CHECK_INTERVAL);
        }
        entry.insert(connection);
        if let Some(interval) = self.gate.quiet_limits.check_interval() {
            self.quiet_check_at.get_or_insert(self.clock.instant() + interval);
        }
        self.ready.add(slot);
    }

    /// Notes what was reported of the connection in this slot.
    pub(super) fn note(&mut self, tier: &mut T, slot: usize, readiness: Readiness) {
        let Some(connection) = self.slab.get_mut(slot) else { return };
        connection.as_mut().note(readiness);
        if readiness.is_writable {
            tier.touched().add(slot);
        }
        if readiness.is_read_closed {
            tier.client_hung_up(slot, self);
        }
        self.ready.add(slot);
    }

    /// Serves all connections that are ready.
    pub(super) fn serve(&mut self, tier: &mut T) {
        let ready = self.ready.take();
        for slot in &ready {
            self.serve_one(tier, *slot);
        }
        self.ready.give_back(ready);
    }

    /// Reads a connection once, and has the tier take its whole requests, as far as the client may ask.
    pub fn serve_one(&mut self, tier: &mut T, slot: usize) {
        let Some(connection) = self.slab.get_mut(slot) else { return };
        let input_bytes_before = connection.as_ref().input.len();
        match connection.as_ref().state {
            PeerState::Open => {
                self.read_requests(tier, slot);
                self.check_for_end(tier, slot);
            }
            PeerState::Lingering => self.drop_input(slot),
            PeerState::Closing | PeerState::Closed => {}
        }
        let Some(connection) = self.slab.get_mut(slot) else { return };
        let (may_ask, is_admitted) = (tier.may_ask(slot, connection), tier.is_admitted(connection));
        let peer = connection.as_mut();
        if is_admitted {
            peer.note_admitted();
        } else if peer.note_not_admitted(self.now_ns) {
            self.newcomer_check_at.get_or_insert(self.clock.instant() + newcomers::CHECK_INTERVAL);
        }
        self.input_bytes = self.input_bytes + peer.input.len() - input_bytes_before;
        if peer.is_at_eof || peer.state != PeerState::Open || self.is_stopping {
            tier.touched().add(slot);
        } else if peer.wants_turn(may_ask) {
            self.ready.add(slot);
        }
    }

    /// Has the tier take the requests kept from earlier reads, and then, if the client may ask more, those of one read.
    fn read_requests(&mut self, tier: &mut T, slot: usize) {
        let Some(connection) = self.slab.get_mut(slot) else { return };
        if connection.as_ref().holds_requests && tier.may_ask(slot, connection) {
            take_kept_requests(tier, slot, connection, &mut self.buffers);
        }
        let peer = connection.as_ref();
        // A client that sent more requests than one turn takes is not read again before they are taken.
        let is_readable = peer.can_read && !peer.holds_requests && peer.state == PeerState::Open;
        if !is_readable
            || is_input_over(peer, self.is_stopping, self.now_ns)
            || !tier.may_ask(slot, connection)
        {
            return;
        }
        let peer = connection.as_mut();
        let n = read(peer, &mut self.read_buffer, &self.gate, self.now_ns);
        if n > 0 && peer.input.is_empty() {
            let used = take_requests(tier, slot, connection, &self.read_buffer[..n]);
            if used < n {
                let mut rest = self.buffers.take();
                rest.extend_from_slice(&self.read_buffer[used..n]);
                connection.as_mut().input = rest;
            }
        } else if n > 0 {
            peer.input.extend_from_slice(&self.read_buffer[..n]);
            take_kept_requests(tier, slot, connection, &mut self.buffers);
        }
    }

    /// Checks whether a connection has ended that is not read now because its client may not ask. An event reports the
    /// end of a plain connection anyway; the end of an encrypted one is hidden in its bytes, and a pop must not wait
    /// for a client that has closed.
    fn check_for_end(&mut self, tier: &mut T, slot: usize) {
        let Some(connection) = self.slab.get_mut(slot) else { return };
        if connection.as_ref().state != PeerState::Open || tier.may_ask(slot, connection) {
            return;
        }
        match connection.as_mut().discovers_end() {
            Ok(true) => tier.client_hung_up(slot, self),
            Ok(false) => {}
            Err(error) => note_error(connection.as_ref(), &error, &self.gate, self.now_ns),
        }
    }

    /// Reads and drops what arrives on a lingering connection.
    fn drop_input(&mut self, slot: usize) {
        let Some(connection) = self.slab.get_mut(slot) else { return };
        let peer = connection.as_mut();
        if peer.can_read {
            read(peer, &mut self.read_buffer, &self.gate, self.now_ns);
        }
        if peer.is_at_eof {
            peer.state = PeerState::Closed;
        }
    }

    /// Writes to all connections on which something has changed.
    pub(super) fn write(&mut self, tier: &mut T) {
        let touched = tier.touched().take();
        for slot in &touched {
            self.write_one(tier, *slot);
        }
        tier.touched().give_back(touched);
    }

    /// Writes a connection's answers, and closes it once all are written and no more requests follow.
    fn write_one(&mut self, tier: &mut T, slot: usize) {
        let Some(connection) = self.slab.get_mut(slot) else { return };
        // The permit is freed before the write: a client that reads that it is logged in may open its next connection at
        // once.
        if tier.is_admitted(connection) {
            connection.as_mut().note_admitted();
        }
        let written_bytes = connection.as_ref().written_bytes();
        if connection.as_ref().state != PeerState::Closed {
            tier.write(slot, connection);
        }
        let (may_ask, is_settled) = (tier.may_ask(slot, connection), tier.is_settled(slot, connection));
        let peer = connection.as_mut();
        if peer.written_bytes() != written_bytes {
            peer.quiet_since_ns = self.now_ns;
        }
        if is_input_over(peer, self.is_stopping, self.now_ns) && !peer.holds_requests {
            peer.close();
        }
        if peer.state == PeerState::Closing && is_settled {
            peer.finish_closing(self.now_ns);
            if peer.state == PeerState::Lingering {
                let (at, number) = (self.clock.instant() + LINGER, peer.number);
                self.deadlines.push_back(Deadline { at, slot, number, kind: DeadlineKind::Linger });
            }
        }
        if peer.state == PeerState::Closed {
            self.remove(tier, slot);
        } else if peer.wants_turn(may_ask) {
            self.ready.add(slot);
        }
    }

    /// Handles the deadlines that have passed.
    pub(super) fn handle_deadlines(&mut self, tier: &mut T) {
        if self.deadlines.is_empty() {
            return;
        }
        let now = self.clock.instant();
        while let Some(Deadline { at, slot, number, kind }) =
            self.deadlines.pop_front_if(|deadline| deadline.at <= now)
        {
            let Some(connection) = self.find(slot, number) else { continue };
            match (connection.as_ref().state, kind) {
                (PeerState::Open, _) => tier.touched().add(slot),
                // The thread or the machine stood still meanwhile: what the client sent has yet to be read.
                (PeerState::Lingering, DeadlineKind::Linger) if now > at + OVERSLEPT => {
                    self.deadlines.push_back(Deadline { at: now + LINGER, slot, number, kind });
                }
                (PeerState::Lingering, DeadlineKind::Linger) => self.remove(tier, slot),
                // A lingering connection has a deadline of its own.
                (PeerState::Lingering, DeadlineKind::FirstRequest) => {}
                // The last answers are still to be written, or the connection is removed in this turn anyway.
                (PeerState::Closing | PeerState::Closed, _) => {}
            }
        }
    }

    /// Closes connections of newcomers that have not logged in or shaken hands in time.
    pub(super) fn close_late_newcomers(&mut self, tier: &mut T) {
        if self.newcomer_check_at.is_none_or(|at| at > self.clock.instant()) {
            return;
        }
        let mut late = Vec::new();
        let mut has_others = false;
        for (slot, connection) in &self.slab {
            let peer = connection.as_ref();
            if peer.is_late_newcomer(self.now_ns) {
                late.push(slot);
            } else {
                has_others |= peer.newcomer.is_some();
            }
        }
        self.newcomer_check_at = has_others.then(|| self.clock.instant() + newcomers::CHECK_INTERVAL);
        for slot in late {
            self.gate.newcomers.count_refusal(RefusalReason::Late);
            self.remove(tier, slot);
        }
    }

    /// Closes connections whose clients have been quiet for too long.
    pub(super) fn close_quiet_clients(&mut self, tier: &mut T) {
        let limits = self.gate.quiet_limits;
        let now = self.clock.instant();
        let Some(interval) =
            limits.check_interval().filter(|_| self.quiet_check_at.is_some_and(|at| at <= now))
        else {
            return;
        };
        let mut quiet = Vec::new();
        for (slot, connection) in &mut self.slab {
            let is_settled = tier.is_settled(slot, connection);
            let reason = connection.as_mut().quiet_reason(limits, is_settled, self.now_ns);
            quiet.extend(reason.map(|reason| (slot, reason)));
        }
        for (slot, reason) in quiet {
            self.gate.quiet.add(reason);
            self.remove(tier, slot);
        }
        self.quiet_check_at = (!self.slab.is_empty()).then(|| now + interval);
    }

    /// Closes and forgets a connection.
    pub fn remove(&mut self, tier: &mut T, slot: usize) {
        let mut connection = self.slab.remove(slot);
        let peer = connection.as_mut();
        // The descriptor is closed with the socket, which takes it out of the poll in any case.
        let _ = self.poll.registry().deregister(&mut peer.socket);
        self.input_bytes -= peer.input.len();
        self.buffers.keep(std::mem::take(&mut peer.input));
        let client_kind = peer.client_kind;
        tier.connection_ended(slot, &connection);
        self.gate.release(client_kind);
    }

    /// Begins a stop: of each connection only requests that have arrived already are read, as soon as its client may ask,
    /// and answered. A connection that was just accepted may still send its first request.
    pub(super) fn stop(&mut self, tier: &mut T) {
        let first_request_until = self.clock.instant() + FIRST_REQUEST;
        let slots: Vec<usize> = self.slab.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            let peer = self.slab[slot].as_mut();
            (peer.can_read, peer.drain_bytes_left) = (true, DRAIN_BYTES_MAX);
            self.serve_one(tier, slot);
            let Some(connection) = self.slab.get(slot) else { continue };
            if connection.as_ref().awaits_first_request(self.now_ns) {
                let (at, number) = (first_request_until, connection.as_ref().number);
                self.deadlines.push_back(Deadline { at, slot, number, kind: DeadlineKind::FirstRequest });
            } else {
                tier.touched().add(slot);
            }
        }
        self.is_stopping = true;
    }

    /// Returns how long the thread may wait for events at most; None: until there is one.
    pub(super) fn poll_timeout(&self) -> Option<Duration> {
        if !self.ready.is_empty() {
            return Some(Duration::ZERO);
        }
        let deadline = self.deadlines.front().map(|deadline| deadline.at);
        let checks = self.newcomer_check_at.into_iter().chain(self.quiet_check_at);
        let next = deadline.into_iter().chain(checks).min()?;
        Some(next.saturating_duration_since(self.clock.instant()))
    }
}

/// Returns whether nothing more is read from a peer.
fn is_input_over(peer: &Peer, is_stopping: bool, now_ns: u64) -> bool {
    peer.is_at_eof || is_stopping && peer.drain_bytes_left == 0 && !peer.awaits_first_request(now_ns)
}

/// Reads a peer once, and returns how many bytes; 0 if it has none or breaks.
fn read(peer: &mut Peer, buffer: &mut [u8], gate: &Gate, now_ns: u64) -> usize {
    let n = peer.read(buffer).unwrap_or_else(|error| {
        note_error(peer, &error, gate, now_ns);
        0
    });
    if n > 0 {
        peer.note_read(now_ns);
    }
    let is_all_read = n < buffer.len();
    peer.drain_bytes_left = if is_all_read { 0 } else { peer.drain_bytes_left.saturating_sub(n) };
    n
}

/// Counts and logs an error of a socket if its handshake failed: connections that break later are normal.
fn note_error(peer: &Peer, error: &io::Error, gate: &Gate, now_ns: u64) {
    if peer.socket.is_handshaking() {
        gate.newcomers.note_failed_handshake(&peer.name(), error, now_ns);
    }
}

/// Has the tier take the whole requests in `input`, and returns how many bytes are done with.
fn take_requests<T: Tier>(tier: &mut T, slot: usize, connection: &mut T::Connection, input: &[u8]) -> usize {
    connection.as_mut().holds_requests = true;
    let used = tier.take_requests(slot, connection, input);
    connection.as_mut().holds_requests &= used < input.len();
    used
}

/// Has the tier take the whole requests among the bytes that an earlier read left over.
fn take_kept_requests<T: Tier>(
    tier: &mut T,
    slot: usize,
    connection: &mut T::Connection,
    buffers: &mut Buffers,
) {
    let mut input = std::mem::take(&mut connection.as_mut().input);
    let used = take_requests(tier, slot, connection, &input);
    if used == input.len() {
        buffers.keep(input);
    } else {
        input.drain(..used);
        connection.as_mut().input = input;
    }
}
