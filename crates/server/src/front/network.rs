//! A network thread: one readiness loop over its connections.
//!
//! A turn takes the mail, reads every ready socket once and has the tier take all whole requests, lets the tier work,
//! then writes each connection with pending answers once. Sockets are written without asking first whether they can be,
//! and after a short read there is no second one. The thread never waits for anything but the kernel's events and its
//! mail.
//!
//! A simulation runs its turns by hand instead ([`Network::turn_by_hand`]): the same turn, without the wait before it.

use std::io::{self, ErrorKind, Write as _};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use mio::event::Event;
use mio::{Events, Poll, Token};
use posthaste_measure::Clock;

use super::accept::Listener;
use super::connections::Connections;
use super::gate::Gate;
use super::limits::{ACCEPT_AGAIN, ACCEPTS_AT_A_STOP, ACCEPTS_PER_TURN, EVENTS_PER_TURN};
use super::mailbox::{Letter, Mailbox};
use super::readiness::Readiness;
use super::slots::Slots;
use super::socket::Socket;
use super::tier::Tier;

/// Token of the waker, by which the mailbox ends a wait for events.
const WAKER: Token = Token(usize::MAX);
/// Tokens of listeners begin here.
const FIRST_LISTENER: usize = usize::MAX / 2;
/// Tokens of the tier's own sockets begin here; a connection's token is its slot, far below.
pub const FIRST_OF_TIER: usize = usize::MAX / 4;

/// Everything that a network thread is made from.
pub struct ThreadSetup<M> {
    /// The thread's number, from 0.
    pub thread: usize,
    /// The poll that reports events.
    pub poll: Poll,
    /// The thread's listeners; a thread with listeners distributes connections over all threads.
    pub listeners: Vec<Listener>,
    /// The mailboxes of all threads.
    pub mailboxes: Vec<Arc<Mailbox<M>>>,
    /// Decides which connections are let in.
    pub gate: Arc<Gate>,
    /// The clock of the stamps.
    pub clock: Clock,
}

/// The state of one network thread.
pub struct Network<T: Tier> {
    tier: T,
    connections: Connections<T>,
    thread: usize,
    mailboxes: Vec<Arc<Mailbox<T::Mail>>>,
    mail: Vec<Letter<T::Mail>>,
    gate: Arc<Gate>,
    listeners: Vec<Listener>,
    /// Listeners that could not accept for want of descriptors or memory. An event reports one again only when another
    /// client arrives.
    starved_listeners: Slots,
    /// Listeners at which more connections may wait than one turn accepts.
    crowded_listeners: Slots,
    /// Connections distributed over the threads so far.
    distributed: usize,
    /// Whether the thread was told to end now.
    is_cut: bool,
}

/// Returns a mailbox for the thread that will use this poll.
///
/// # Errors
/// The system's.
pub fn mailbox<M>(poll: &Poll) -> io::Result<Arc<Mailbox<M>>> {
    Ok(Mailbox::new(mio::Waker::new(poll.registry(), WAKER)?))
}

impl<T: Tier> Network<T> {
    /// Returns the network thread made from this setup.
    ///
    /// # Errors
    /// The system's.
    pub fn new(setup: ThreadSetup<T::Mail>, tier: T) -> io::Result<Self> {
        let ThreadSetup { thread, poll, mut listeners, mailboxes, gate, clock } = setup;
        for (i, listener) in listeners.iter_mut().enumerate() {
            listener.register(poll.registry(), Token(FIRST_LISTENER + i))?;
        }
        Ok(Self {
            tier,
            connections: Connections::new(poll, Arc::clone(&gate), clock),
            thread,
            mailboxes,
            mail: Vec::new(),
            gate,
            listeners,
            starved_listeners: Slots::default(),
            crowded_listeners: Slots::default(),
            distributed: 0,
            is_cut: false,
        })
    }

    /// Runs until the thread was told to stop and every answer is written, or until it is cut.
    ///
    /// # Errors
    /// The system's, when it gives no more events.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_PER_TURN);
        // With the default slack the system may add 50 µs to each pause.
        let may_pause = rustix::thread::set_current_timer_slack(NonZeroU64::new(1)).is_ok();
        let mut ended = Ok(());
        while ended.is_ok() && !self.is_over() {
            ended = self.step(&mut events, None);
            if let Some(pause) = self.tier.pause().filter(|_| may_pause) {
                thread::sleep(pause);
            }
        }
        self.close();
        ended
    }

    /// Closes the mailbox: connections that arrived after the last turn are dropped, and later ones are returned to their
    /// sender.
    fn close(&mut self) {
        for letter in self.mailboxes[self.thread].close() {
            if let Letter::Adopt(arrival) = letter {
                self.gate.release(arrival.client_kind);
            }
        }
    }

    /// Waits for events, at most for `timeout_max`, and runs one turn.
    ///
    /// # Errors
    /// The system's, when it gives no more events.
    pub fn step(&mut self, events: &mut Events, timeout_max: Option<Duration>) -> io::Result<()> {
        let timeout = self.poll_timeout().into_iter().chain(timeout_max).min();
        match self.connections.poll.poll(events, timeout) {
            Err(error) if error.kind() != ErrorKind::Interrupted => Err(error),
            _ => {
                self.turn(events);
                Ok(())
            }
        }
    }

    /// Returns whether the thread was told to stop and has nothing left to do, or is cut.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_cut || self.connections.is_stopping() && self.connections.is_empty() && self.tier.is_idle()
    }

    /// Returns the thread's connections.
    #[must_use]
    pub fn connections(&self) -> &Connections<T> {
        &self.connections
    }

    /// Returns how long to wait for events; None: until there is one. Unless it is zero, mail ends the wait.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        let timeout = self.connections.poll_timeout();
        let is_due = timeout == Some(Duration::ZERO) || !self.crowded_listeners.is_empty();
        if is_due || !self.mailboxes[self.thread].sleep_unless_mail() {
            return Some(Duration::ZERO);
        }
        let accept_again = (!self.starved_listeners.is_empty()).then_some(ACCEPT_AGAIN);
        timeout.into_iter().chain(accept_again).chain(self.tier.poll_timeout()).min()
    }

    /// Runs one turn by hand, given what is reported of the connections in these slots.
    pub fn turn_by_hand(&mut self, reported: &[(usize, Readiness)]) {
        let now_ns = self.begin();
        for (slot, readiness) in reported {
            self.connections.note(&mut self.tier, *slot, *readiness);
        }
        self.serve(now_ns);
    }

    fn turn(&mut self, events: &Events) {
        let now_ns = self.begin();
        for event in events {
            self.note(event);
        }
        self.serve(now_ns);
    }

    /// Begins a turn: collects the mail, and accepts what earlier turns left waiting. Returns the turn's stamp.
    fn begin(&mut self) -> u64 {
        self.mailboxes[self.thread].collect(&mut self.mail);
        let now_ns = self.connections.begin_turn();
        for listener in [self.starved_listeners.take(), self.crowded_listeners.take()].concat() {
            self.accept(listener, ACCEPTS_PER_TURN);
        }
        now_ns
    }

    /// Runs the turn itself, once all events are noted.
    fn serve(&mut self, now_ns: u64) {
        self.tier.begin_turn(now_ns);
        let mut mail = std::mem::take(&mut self.mail);
        for letter in mail.drain(..) {
            self.receive(letter);
        }
        self.mail = mail;
        self.connections.serve(&mut self.tier);
        self.tier.work(&mut self.connections);
        self.connections.handle_deadlines(&mut self.tier);
        self.connections.write(&mut self.tier);
        self.tier.finish_turn(&mut self.connections);
        self.connections.close_late_newcomers(&mut self.tier);
        self.connections.close_quiet_clients(&mut self.tier);
    }

    /// Passes an event on to what it concerns.
    fn note(&mut self, event: &Event) {
        match event.token() {
            WAKER => {}
            Token(listener) if listener >= FIRST_LISTENER => {
                self.accept(listener - FIRST_LISTENER, ACCEPTS_PER_TURN)
            }
            Token(own) if own >= FIRST_OF_TIER => self.tier.handle_event(own - FIRST_OF_TIER, event),
            Token(slot) => self.connections.note(&mut self.tier, slot, event.into()),
        }
    }

    fn receive(&mut self, letter: Letter<T::Mail>) {
        match letter {
            Letter::Tier(mail) => self.tier.receive_mail(mail, &mut self.connections),
            Letter::Adopt(arrival) => self.connections.adopt(&mut self.tier, arrival),
            Letter::Stop => self.stop(),
            Letter::Cut => self.is_cut = true,
        }
    }

    /// Accepts at most so many connections; the rest is for the next turn.
    fn accept(&mut self, listener: usize, accepts_max: usize) {
        for _ in 0..accepts_max {
            let Some(accepted) = self.listeners.get(listener).map(Listener::accept) else { return };
            match accepted {
                Ok(socket) => self.distribute(socket),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                // Out of descriptors or memory: the event is edge-triggered and not repeated, so the thread itself must
                // try again.
                Err(_) => return self.starved_listeners.add(listener),
            }
        }
        self.crowded_listeners.add(listener);
    }

    /// Lets a connection in, and gives it to the next network thread in turn.
    fn distribute(&mut self, socket: Socket) {
        let arrival = match self.gate.admit(socket) {
            Ok(arrival) => arrival,
            Err((mut socket, refused)) => {
                // If this fails, the peer is gone already.
                let _ = socket.write(T::refusal(refused));
                return;
            }
        };
        let thread =
            (self.distributed / self.tier.consecutive_connections_per_thread() + 1) % self.mailboxes.len();
        self.distributed = self.distributed.wrapping_add(1);
        // A thread that has ended returns the connection.
        let kept = if thread == self.thread { Some(arrival) } else { self.mailboxes[thread].adopt(arrival) };
        if let Some(arrival) = kept {
            self.connections.adopt(&mut self.tier, arrival);
        }
    }

    /// Begins a stop: accepts all connections that wait, then no more, and passes the stop on to the other threads.
    fn stop(&mut self) {
        for listener in 0..self.listeners.len() {
            self.accept(listener, ACCEPTS_AT_A_STOP);
        }
        self.listeners.clear();
        if self.thread == 0 {
            self.mailboxes[1..].iter().for_each(|mailbox| mailbox.stop());
        }
        self.connections.stop(&mut self.tier);
    }
}
