//! The connections of one network thread, and what is due on each: to be read, to be written to, to be let go.
//!
//! Whoever is due stands in a list, so a turn costs what happened in it and not what is connected.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Interest, Poll, Registry, Token};
use posthaste_measure::Clock;
use slab::Slab;

use super::buffers::Buffers;
use super::gate::{Arrival, Gate};
use super::limits::{FIRST_REQUEST, LINGER, OVERSLEPT, OWED_BYTES_MAX, READ_BYTES};
use super::newcomers::{LOOK_EVERY, Newcomer, Reason};
use super::peer::{Life, Peer};
use super::readiness::Readiness;
use super::slots::Slots;
use super::tier::Tier;

/// All of a thread.
pub struct Connections<T: Tier> {
    pub(super) poll: Poll,
    gate: Arc<Gate>,
    clock: Clock,
    /// When this turn began.
    now_ns: u64,
    slab: Slab<T::Connection>,
    ready: Slots,
    /// Those to look at again at some time.
    later: VecDeque<Later>,
    /// When to look after newcomers, if there are any.
    look_at: Option<Instant>,
    /// When to look whether somebody is quiet, if anybody is there.
    look_for_quiet_at: Option<Instant>,
    read_buffer: Vec<u8>,
    buffers: Buffers,
    /// Bytes that were read and are not understood yet, of all.
    input_bytes: usize,
    is_stopping: bool,
}

/// A connection to look at again.
struct Later {
    at: Instant,
    slot: usize,
    number: u64,
    /// It has lingered until then. Else it was spared by a stop until then, and may be anywhere in its life.
    has_lingered: bool,
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
            later: VecDeque::new(),
            look_at: None,
            look_for_quiet_at: None,
            read_buffer: vec![0; READ_BYTES],
            buffers: Buffers::default(),
            input_bytes: 0,
            is_stopping: false,
        }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }

    /// Bytes that were read and are not understood yet, of all.
    #[must_use]
    pub fn input_bytes(&self) -> usize {
        self.input_bytes
    }

    /// Whether the tier stops.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.is_stopping
    }

    /// All, by slot.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T::Connection)> {
        self.slab.iter()
    }

    /// The one in a slot.
    pub fn get(&self, slot: usize) -> Option<&T::Connection> {
        self.slab.get(slot)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, slot: usize) -> Option<&mut T::Connection> {
        self.slab.get_mut(slot)
    }

    /// The one of this number, if it is still in its slot.
    pub fn find(&mut self, slot: usize, number: u64) -> Option<&mut T::Connection> {
        self.slab.get_mut(slot).filter(|connection| (*connection).as_ref().number == number)
    }

    /// For sockets of the tier's own: where they are registered, and a buffer to read into.
    pub fn lend(&mut self) -> (&Registry, &mut [u8]) {
        (self.poll.registry(), &mut self.read_buffer)
    }

    pub(super) fn begin(&mut self) -> u64 {
        self.now_ns = self.clock.now();
        self.now_ns
    }

    pub(super) fn adopt(&mut self, tier: &mut T, arrival: Arrival) {
        let Arrival { mut socket, number, origin, place, is_inside } = arrival;
        let entry = self.slab.vacant_entry();
        let slot = entry.key();
        let interests = Interest::READABLE | Interest::WRITABLE;
        if self.is_stopping || self.poll.registry().register(&mut socket, Token(slot), interests).is_err() {
            return self.gate.leave(is_inside);
        }
        let is_handshaking = socket.is_handshaking();
        let mut peer = Peer::new(number, socket, self.now_ns);
        peer.is_inside = is_inside;
        let mut connection = tier.enter(slot, peer, origin);
        if is_handshaking || !tier.is_admitted(&connection) {
            connection.as_mut().newcomer = Some(Newcomer::new(self.now_ns, place));
            self.look_at.get_or_insert(self.clock.instant() + LOOK_EVERY);
        }
        entry.insert(connection);
        if let Some(every) = self.gate.quiet_limits.look_every() {
            self.look_for_quiet_at.get_or_insert(self.clock.instant() + every);
        }
        self.ready.add(slot);
    }

    /// Takes note of what was told of the connection in this slot.
    pub(super) fn note(&mut self, tier: &mut T, slot: usize, told: Readiness) {
        let Some(connection) = self.slab.get_mut(slot) else { return };
        connection.as_mut().note(told);
        if told.is_writable {
            tier.touched().add(slot);
        }
        if told.is_read_closed {
            tier.hung_up(slot, self);
        }
        self.ready.add(slot);
    }

    pub(super) fn serve(&mut self, tier: &mut T) {
        let ready = self.ready.take();
        for slot in &ready {
            self.serve_one(tier, *slot);
        }
        self.ready.give_back(ready);
    }

    /// Reads once and has the tier take every whole request, as far as the client may ask.
    pub fn serve_one(&mut self, tier: &mut T, slot: usize) {
        let Some(connection) = self.slab.get_mut(slot) else { return };
        let before = connection.as_ref().input.len();
        match connection.as_ref().life {
            Life::Open => {
                self.take_requests(tier, slot);
                self.look_for_end(tier, slot);
            }
            Life::Lingering => self.drop_input(slot),
            Life::Closing | Life::Over => {}
        }
        let Some(connection) = self.slab.get_mut(slot) else { return };
        let (may_ask, is_admitted) = (tier.may_ask(slot, connection), tier.is_admitted(connection));
        let peer = connection.as_mut();
        peer.welcome(is_admitted);
        if peer.dismiss(is_admitted, self.now_ns) {
            self.look_at.get_or_insert(self.clock.instant() + LOOK_EVERY);
        }
        self.input_bytes = self.input_bytes + peer.input.len() - before;
        if peer.is_done || peer.life != Life::Open || self.is_stopping {
            tier.touched().add(slot);
        } else if peer.wants_turn(may_ask) {
            self.ready.add(slot);
        }
    }

    fn take_requests(&mut self, tier: &mut T, slot: usize) {
        let Some(connection) = self.slab.get_mut(slot) else { return };
        if connection.as_ref().holds_requests && tier.may_ask(slot, connection) {
            take_kept(tier, slot, connection, &mut self.buffers);
        }
        let peer = connection.as_ref();
        // Whoever has more to say than is one turn's says that first.
        let is_readable = peer.can_read && !peer.holds_requests && peer.life == Life::Open;
        if !is_readable || ends(peer, self.is_stopping, self.now_ns) || !tier.may_ask(slot, connection) {
            return;
        }
        let peer = connection.as_mut();
        let n = read(peer, &mut self.read_buffer, &self.gate, self.now_ns);
        if n > 0 && peer.input.is_empty() {
            let used = take(tier, slot, connection, &self.read_buffer[..n]);
            if used < n {
                let mut rest = self.buffers.take();
                rest.extend_from_slice(&self.read_buffer[used..n]);
                connection.as_mut().input = rest;
            }
        } else if n > 0 {
            peer.input.extend_from_slice(&self.read_buffer[..n]);
            take_kept(tier, slot, connection, &mut self.buffers);
        }
    }

    /// Who may not ask now is not read. Of a plain end an event tells all the same; an encrypted one is a word among others,
    /// and a pop must not wait for somebody who has said it.
    fn look_for_end(&mut self, tier: &mut T, slot: usize) {
        let Some(connection) = self.slab.get_mut(slot) else { return };
        if connection.as_ref().life != Life::Open || tier.may_ask(slot, connection) {
            return;
        }
        match connection.as_mut().look_for_end() {
            Ok(true) => tier.hung_up(slot, self),
            Ok(false) => {}
            Err(error) => tell(connection.as_ref(), &error, &self.gate, self.now_ns),
        }
    }

    /// What comes from somebody who is let go is of no use any more.
    fn drop_input(&mut self, slot: usize) {
        let Some(connection) = self.slab.get_mut(slot) else { return };
        let peer = connection.as_mut();
        if peer.can_read {
            read(peer, &mut self.read_buffer, &self.gate, self.now_ns);
        }
        if peer.is_done {
            peer.life = Life::Over;
        }
    }

    pub(super) fn write(&mut self, tier: &mut T) {
        let touched = tier.touched().take();
        for slot in &touched {
            self.write_one(tier, *slot);
        }
        tier.touched().give_back(touched);
    }

    /// Writes to a connection what there is for it; one that has everything and asks no more is let go.
    fn write_one(&mut self, tier: &mut T, slot: usize) {
        let Some(connection) = self.slab.get_mut(slot) else { return };
        // A client that reads that it is in may send the next at once.
        let is_admitted = tier.is_admitted(connection);
        connection.as_mut().welcome(is_admitted);
        let taken_bytes = connection.as_ref().taken_bytes();
        if connection.as_ref().life != Life::Over {
            tier.write(slot, connection);
        }
        let (may_ask, is_settled) = (tier.may_ask(slot, connection), tier.is_settled(slot, connection));
        let peer = connection.as_mut();
        if peer.taken_bytes() != taken_bytes {
            peer.quiet_since_ns = self.now_ns;
        }
        if ends(peer, self.is_stopping, self.now_ns) && !peer.holds_requests {
            peer.close();
        }
        if peer.life == Life::Closing && is_settled {
            peer.end(self.now_ns);
            if peer.life == Life::Lingering {
                let (at, number) = (self.clock.instant() + LINGER, peer.number);
                self.later.push_back(Later { at, slot, number, has_lingered: true });
            }
        }
        if peer.life == Life::Over {
            self.remove(tier, slot);
        } else if peer.wants_turn(may_ask) {
            self.ready.add(slot);
        }
    }

    /// Looks again at those whose time has come.
    pub(super) fn look_again(&mut self, tier: &mut T) {
        if self.later.is_empty() {
            return;
        }
        let now = self.clock.instant();
        while let Some(Later { at, slot, number, has_lingered }) =
            self.later.pop_front_if(|later| later.at <= now)
        {
            match self.find(slot, number).map(|connection| connection.as_ref().life) {
                Some(Life::Open) => tier.touched().add(slot),
                // This thread, or the machine, stood still meanwhile: what was sent to it has yet to be read.
                Some(Life::Lingering) if has_lingered && now > at + OVERSLEPT => {
                    self.later.push_back(Later { at: now + LINGER, slot, number, has_lingered });
                }
                Some(Life::Lingering) if has_lingered => self.remove(tier, slot),
                // Its last answers are still to be written, or it lingers since and has a time of its own.
                _ => {}
            }
        }
    }

    /// Closes connections whose peers have not shown in time who they are.
    pub(super) fn look_after_newcomers(&mut self, tier: &mut T) {
        if self.look_at.is_none_or(|at| at > self.clock.instant()) {
            return;
        }
        let mut late = Vec::new();
        let mut are_there = false;
        for (slot, connection) in &self.slab {
            match connection.as_ref().is_late(self.now_ns) {
                Some(true) => late.push(slot),
                Some(false) => are_there = true,
                None => {}
            }
        }
        self.look_at = are_there.then(|| self.clock.instant() + LOOK_EVERY);
        for slot in late {
            self.gate.newcomers.refuse(Reason::Late);
            self.remove(tier, slot);
        }
    }

    /// Closes connections whose clients have been quiet for too long.
    pub(super) fn look_after_quiet(&mut self, tier: &mut T) {
        let limits = self.gate.quiet_limits;
        let now = self.clock.instant();
        let Some(every) = limits.look_every().filter(|_| self.look_for_quiet_at.is_some_and(|at| at <= now))
        else {
            return;
        };
        let mut quiet = Vec::new();
        for (slot, connection) in &mut self.slab {
            let is_settled = tier.is_settled(slot, connection);
            let why = connection.as_mut().quiet_reason(limits, is_settled, self.now_ns);
            quiet.extend(why.map(|why| (slot, why)));
        }
        for (slot, why) in quiet {
            self.gate.quiet.note(why);
            self.remove(tier, slot);
        }
        self.look_for_quiet_at = (!self.slab.is_empty()).then(|| now + every);
    }

    /// Forgets a connection.
    pub fn remove(&mut self, tier: &mut T, slot: usize) {
        let mut connection = self.slab.remove(slot);
        let peer = connection.as_mut();
        // The descriptor is closed with the socket, which takes it out of the poll in any case.
        let _ = self.poll.registry().deregister(&mut peer.socket);
        self.input_bytes -= peer.input.len();
        self.buffers.keep(std::mem::take(&mut peer.input));
        let is_inside = peer.is_inside;
        tier.leave(slot, &connection);
        self.gate.leave(is_inside);
    }

    /// Reads what is there already and nothing more, as soon as each may ask; what was asked is answered. Who has just come
    /// may still ask what they came for.
    pub(super) fn stop(&mut self, tier: &mut T) {
        let spared_until = self.clock.instant() + FIRST_REQUEST;
        let slots: Vec<usize> = self.slab.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            let peer = self.slab[slot].as_mut();
            (peer.can_read, peer.owed_bytes) = (true, OWED_BYTES_MAX);
            self.serve_one(tier, slot);
            let Some(connection) = self.slab.get(slot) else { continue };
            if connection.as_ref().may_still_ask(self.now_ns) {
                let (at, number) = (spared_until, connection.as_ref().number);
                self.later.push_back(Later { at, slot, number, has_lingered: false });
            } else {
                tier.touched().add(slot);
            }
        }
        self.is_stopping = true;
    }

    /// How long the thread may sleep at most.
    pub(super) fn patience(&self) -> Option<Duration> {
        if !self.ready.is_empty() {
            return Some(Duration::ZERO);
        }
        let later = self.later.front().map(|later| later.at);
        let looks = self.look_at.into_iter().chain(self.look_for_quiet_at);
        let next = later.into_iter().chain(looks).min()?;
        Some(next.saturating_duration_since(self.clock.instant()))
    }
}

/// Whether nothing more is read of a peer.
fn ends(peer: &Peer, is_stopping: bool, now_ns: u64) -> bool {
    peer.is_done || is_stopping && peer.owed_bytes == 0 && !peer.may_still_ask(now_ns)
}

/// Reads once; how many bytes.
fn read(peer: &mut Peer, buffer: &mut [u8], gate: &Gate, now_ns: u64) -> usize {
    let n = peer.read(buffer).unwrap_or_else(|error| {
        tell(peer, &error, gate, now_ns);
        0
    });
    if n > 0 {
        peer.note_heard(now_ns);
    }
    let is_all = n < buffer.len();
    peer.owed_bytes = if is_all { 0 } else { peer.owed_bytes.saturating_sub(n) };
    n
}

/// Of broken connections only those are told of that never were one.
fn tell(peer: &Peer, error: &io::Error, gate: &Gate, now_ns: u64) {
    if peer.socket.is_handshaking() {
        gate.newcomers.handshake_failed(&peer.name(), error, now_ns);
    }
}

/// Has the tier take the whole requests in `input`; how many bytes are done with.
fn take<T: Tier>(tier: &mut T, slot: usize, connection: &mut T::Connection, input: &[u8]) -> usize {
    connection.as_mut().holds_requests = true;
    let used = tier.take(slot, connection, input);
    connection.as_mut().holds_requests &= used < input.len();
    used
}

/// The same of what was kept.
fn take_kept<T: Tier>(tier: &mut T, slot: usize, connection: &mut T::Connection, buffers: &mut Buffers) {
    let mut input = std::mem::take(&mut connection.as_mut().input);
    let used = take(tier, slot, connection, &input);
    if used == input.len() {
        buffers.keep(input);
    } else {
        input.drain(..used);
        connection.as_mut().input = input;
    }
}
