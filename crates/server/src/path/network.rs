//! A network thread: one readiness loop over its connections.
//!
//! A turn reads every ready socket once, parses all whole requests, hands them on, collects finished answers, then
//! writes each connection that has some once. It never waits for anything but the kernel's events and its mail.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};
use posthaste_measure::{Noted, Recorder, Stamps};
use posthaste_wire::command::Kind;
use posthaste_wire::decode::{Decoder, Limits};
use posthaste_wire::encode::Protocol;
use posthaste_wire::fault::{Fault, Word};
use posthaste_wire::operation::Operation;
use posthaste_wire::span::Span;
use slab::Slab;

use super::accept::{Listener, Socket};
use super::bundle::{Address, Bundle, Request, ending};
use super::connection::{Connection, Life};
use super::limits;
use super::mailbox::{Mail, Mailbox};
use super::session::Session;
use super::turn::{AtOnce, Bench, Turn, stamp_answered};
use super::watch;
use super::worker::Worker;
use crate::authenticator::Verdict;
use crate::house::House;
use crate::newcomers::{Arrival, LOOK_EVERY, Newcomer};
use crate::queue::answer::Answer;
use crate::queue::rules::Ask;
use crate::trace;

const WAKER: Token = Token(usize::MAX);
const FIRST_LISTENER: usize = usize::MAX / 2;
const TOO_MANY_LOGINS: Fault = Fault::new(Word::Busy, "too many logins at once; try again");

/// One network thread's world.
pub struct Network {
    thread: usize,
    poll: Poll,
    house: Arc<House>,
    mailbox: Arc<Mailbox>,
    listeners: Vec<Listener>,
    next_thread: usize,
    connections: Slab<Connection>,
    ready: Vec<usize>,
    lingering: VecDeque<(Instant, Address)>,
    bench: Bench,
    recorder: Recorder,
    worker: Worker,
    answered: Vec<Box<Bundle>>,
    stalled: Vec<usize>,
    /// When to look after newcomers, if there are any.
    look_at: Option<Instant>,
    stopping: bool,
}

impl Network {
    /// A network thread that deals accepted connections out to all threads, if it has listeners.
    ///
    /// # Errors
    /// The system's.
    pub fn new(
        thread: usize,
        poll: Poll,
        house: Arc<House>,
        mut listeners: Vec<Listener>,
    ) -> std::io::Result<Self> {
        for (i, listener) in listeners.iter_mut().enumerate() {
            listener.register(poll.registry(), Token(FIRST_LISTENER + i))?;
        }
        Ok(Self {
            thread,
            poll,
            mailbox: Arc::clone(&house.mailboxes[thread]),
            recorder: house.meter.recorder(),
            worker: house.worker(),
            house,
            listeners,
            next_thread: 0,
            connections: Slab::new(),
            ready: Vec::new(),
            lingering: VecDeque::new(),
            bench: Bench::new(),
            answered: Vec::new(),
            stalled: Vec::new(),
            look_at: None,
            stopping: false,
        })
    }

    /// A mailbox for a thread that will use this poll.
    ///
    /// # Errors
    /// The system's.
    pub fn mailbox(poll: &Poll) -> std::io::Result<Arc<Mailbox>> {
        Ok(Mailbox::new(mio::Waker::new(poll.registry(), WAKER)?))
    }

    /// Runs until it was told to stop and every answer is written.
    ///
    /// # Errors
    /// The system's, when it gives no more events.
    pub fn run(mut self) -> std::io::Result<()> {
        let mut events = Events::with_capacity(limits::EVENTS_PER_TURN);
        while !(self.stopping && self.connections.is_empty()) {
            match self.poll.poll(&mut events, self.patience()) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => self.turn(&events),
            }
        }
        Ok(())
    }

    /// How long to wait for events.
    fn patience(&self) -> Option<Duration> {
        if !self.ready.is_empty() || !self.mailbox.may_sleep() {
            return Some(Duration::ZERO);
        }
        let lingering = self.lingering.front().map(|(end, _)| end.saturating_duration_since(Instant::now()));
        let stalled = (!self.stalled.is_empty()).then_some(limits::ACCEPT_AGAIN);
        let look = self.look_at.map(|at| at.saturating_duration_since(Instant::now()));
        lingering.into_iter().chain(stalled).chain(look).min()
    }

    fn turn(&mut self, events: &Events) {
        let mut mail = std::mem::take(&mut self.bench.mail);
        self.mailbox.collect(&mut mail);
        for listener in std::mem::take(&mut self.stalled) {
            self.accept(listener);
        }
        for event in events {
            self.note(event);
        }
        for piece in mail.drain(..) {
            self.receive(piece);
        }
        self.bench.mail = mail;
        self.serve_ready();
        self.finish_logins();
        self.line_up();
        self.end_lingering();
        self.write();
        self.count();
        if self.look_at.is_some_and(|at| at <= Instant::now()) {
            self.look_after_newcomers();
        }
    }

    /// Takes note of an event.
    fn note(&mut self, event: &mio::event::Event) {
        match event.token() {
            WAKER => {}
            Token(listener) if listener >= FIRST_LISTENER => self.accept(listener - FIRST_LISTENER),
            Token(slot) => {
                let Some(connection) = self.connections.get_mut(slot) else { return };
                connection.hung_up |= event.is_read_closed();
                connection.can_read |= event.is_readable() || event.is_read_closed();
                if event.is_writable() {
                    connection.now_writable();
                    list(&mut self.bench.dirty, connection);
                }
                if event.is_read_closed() && connection.blocked {
                    self.give_up_waiting(slot);
                }
                self.list_ready(slot);
            }
        }
    }

    /// The client of a waiting pop is leaving: no message may be given to it.
    fn give_up_waiting(&mut self, slot: usize) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let address = connection.client.address;
        connection.blocked = false;
        if let Some(bundle) = self.house.store.leave(address) {
            self.receive(Mail::Answered(bundle));
        }
    }

    fn list_ready(&mut self, slot: usize) {
        if let Some(connection) = self.connections.get_mut(slot)
            && !std::mem::replace(&mut connection.listed, true)
        {
            self.ready.push(slot);
        }
    }

    fn receive(&mut self, mail: Mail) {
        match mail {
            Mail::Answered(bundle) => self.deliver(bundle),
            Mail::Adopt(arrival) => self.adopt(arrival),
            Mail::Verified { address, verdict } => self.verified(address, verdict),
            Mail::Kill(address) => {
                if let Some(connection) = self.at(address) {
                    connection.life = Life::Over;
                    self.list_ready(address.slot);
                }
            }
            Mail::Stop => self.stop(),
        }
    }

    /// The connection at an address, unless it is gone.
    fn at(&mut self, address: Address) -> Option<&mut Connection> {
        self.connections.get_mut(address.slot).filter(|connection| connection.client.address == address)
    }

    fn deliver(&mut self, mut bundle: Box<Bundle>) {
        let (connections, mut turn) = (&mut self.connections, self.bench.turn(&self.house));
        let address = bundle.address;
        if bundle.may_wait() {
            turn.house.store.forget(address);
        }
        let connection =
            connections.get_mut(address.slot).filter(|connection| connection.client.address == address);
        if turn.house.tracer.is_some() {
            bundle.passages = trace::passages(&bundle);
        }
        if let Some(connection) = connection {
            if matches!(bundle.requests.first(), Some(Request { operation: Operation::Login { .. }, .. })) {
                finish_login(connection, &bundle.answers, &mut turn);
            } else {
                connection.take_answers(&mut bundle, &mut turn);
            }
        }
        self.answered.push(bundle);
    }

    fn accept(&mut self, listener: usize) {
        loop {
            let Some(accepted) = self.listeners.get(listener).map(Listener::accept) else { return };
            match accepted {
                Ok(socket) => self.deal(socket),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                // Out of descriptors or memory: edges are told once, so it is on us to look again.
                Err(_) => return self.stalled.push(listener),
            }
        }
    }

    /// Gives the connection to the next thread in turn.
    fn deal(&mut self, mut socket: Socket) {
        if self.house.connections.fetch_add(1, Ordering::Relaxed) >= self.house.connections_max {
            self.house.connections.fetch_sub(1, Ordering::Relaxed);
            let _ = std::io::Write::write(&mut socket, b"-ERR max number of clients reached\r\n");
            return;
        }
        let arrival = match self.house.newcomers.admit(socket) {
            Ok(arrival) => arrival,
            Err(mut socket) => {
                self.house.connections.fetch_sub(1, Ordering::Relaxed);
                let words = b"-ERR too many connections from your address that have not logged in\r\n";
                let _ = std::io::Write::write(&mut socket, words);
                return;
            }
        };
        self.next_thread = (self.next_thread + 1) % self.house.mailboxes.len();
        if self.next_thread == self.thread {
            self.adopt(arrival);
        } else {
            self.house.mailboxes[self.next_thread].post(Mail::Adopt(arrival));
        }
    }

    fn adopt(&mut self, mut arrival: Arrival) {
        let entry = self.connections.vacant_entry();
        let slot = entry.key();
        let interests = Interest::READABLE | Interest::WRITABLE;
        let registry = self.poll.registry();
        if self.stopping || registry.register(&mut arrival.socket, Token(slot), interests).is_err() {
            self.house.connections.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let client = self.house.clients.enter(self.thread, slot, &arrival, self.house.clock);
        let decoder = Decoder::new(Limits {
            bulk_bytes: self.house.message_bytes_max.max(limits::ARGUMENT_BYTES_MIN),
            request_bytes: self.house.message_bytes_max + limits::REQUEST_BYTES_EXTRA,
            args: limits::ARGUMENTS_MAX,
            inline_bytes: limits::INLINE_BYTES_MAX,
        });
        let session = Session::new(self.house.default_account());
        if session.is_admitted() {
            client.about().account = "default".into();
        }
        let Arrival { socket, place, .. } = arrival;
        let newcomer = Newcomer::new(client.connected_ns, place);
        let connection = Connection::new(client, socket, session, decoder).introduced_by(newcomer);
        if connection.is_newcomer() {
            self.look_at.get_or_insert_with(|| Instant::now() + LOOK_EVERY);
        }
        entry.insert(connection);
        self.list_ready(slot);
    }

    fn serve_ready(&mut self) {
        let now = self.house.clock.now();
        for slot in std::mem::take(&mut self.ready) {
            let (connections, mut turn) = (&mut self.connections, self.bench.turn(&self.house));
            let Some(connection) = connections.get_mut(slot) else { continue };
            connection.listed = false;
            connection.touch(now);
            let before = turn.at_once.len();
            connection.serve(&mut turn);
            stamp_answered(&mut turn.at_once[before..], self.house.clock);
            turn.wrote(connection.client.address, &mut connection.dirty);
            if connection.wants_turn() {
                self.list_ready(slot);
            }
        }
    }

    /// Asks the store for the numbers of accounts that log in.
    fn finish_logins(&mut self) {
        for (address, account) in std::mem::take(&mut self.bench.logins) {
            self.log_in(address, &account);
        }
    }

    fn log_in(&mut self, address: Address, account: &[u8]) {
        let (connections, mut turn) = (&mut self.connections, self.bench.turn(&self.house));
        let Some(connection) = connections.get_mut(address.slot).filter(|c| c.client.address == address)
        else {
            return;
        };
        if account.is_empty() {
            return refuse_login(connection, &TOO_MANY_LOGINS, &mut turn);
        }
        let len = u32::try_from(account.len()).unwrap_or(u32::MAX);
        let operation = Operation::Login { account: Span { start: 0, len } };
        let mut answers = turn.buffer();
        let ask = Ask { account: 0, operation: &operation, bytes: account };
        let known = turn.house.store.answer(ask, &mut Answer::new(&mut answers, Protocol::Resp2));
        if known.is_some() {
            finish_login(connection, &answers, &mut turn);
            self.list_ready(address.slot);
            return;
        }
        let mut bundle = turn.bundle(address, 0, Protocol::Resp2);
        bundle.bytes.extend_from_slice(account);
        bundle.requests.push(Request::new(operation, Kind::Login, turn.house.clock.stamp()));
        turn.outgoing.push(bundle);
    }

    fn verified(&mut self, address: Address, verdict: Verdict) {
        let Some(connection) = self.at(address) else { return };
        let fault = match verdict {
            Verdict::Welcome(grants) => {
                connection.session.welcome(grants);
                let account = connection.session.arriving().map(<[u8]>::to_vec).unwrap_or_default();
                return self.log_in(address, &account);
            }
            Verdict::Wrong => Fault::new(Word::NoAccount, "unknown account or wrong secret"),
            Verdict::Busy => TOO_MANY_LOGINS,
        };
        let (connections, mut turn) = (&mut self.connections, self.bench.turn(&self.house));
        if let Some(connection) = connections.get_mut(address.slot) {
            refuse_login(connection, &fault, &mut turn);
            self.list_ready(address.slot);
        }
    }

    /// Lines up this turn's bundles; those that find the line full are told so.
    fn line_up(&mut self) {
        let mut outgoing = std::mem::take(&mut self.bench.outgoing);
        if outgoing.is_empty() {
            self.bench.outgoing = outgoing;
            return;
        }
        let enqueued = self.house.clock.stamp();
        for bundle in &mut outgoing {
            bundle.stamp(|stamps| stamps.enqueued = enqueued);
        }
        if self.connections.len() == 1 {
            // Nobody else waits for this thread, so the way to a worker and back can be saved.
            self.worker.do_here(&mut outgoing, self.thread);
            while let Some(bundle) = self.worker.next_done_here() {
                self.deliver(bundle);
            }
        }
        self.house.line.push_all(&mut outgoing);
        let full = Fault::new(Word::Busy, "the waiting line is full; try again");
        for mut bundle in outgoing.drain(..) {
            bundle.refuse_all(&full);
            self.deliver(bundle);
        }
        self.bench.outgoing = outgoing;
    }

    fn write(&mut self) {
        let mut dirty = std::mem::take(&mut self.bench.dirty);
        for address in dirty.drain(..) {
            let (connections, mut turn) = (&mut self.connections, self.bench.turn(&self.house));
            let Some(connection) = connections.get_mut(address.slot).filter(|c| c.client.address == address)
            else {
                continue;
            };
            if connection.life == Life::Over {
                self.remove(address);
                continue;
            }
            if self.stopping && !connection.may_still_ask(self.house.clock.now()) {
                connection.close_when_idle();
            }
            let lingered = connection.life == Life::Lingering;
            connection.flush(&mut turn);
            let (life, wants_turn) = (connection.life, connection.wants_turn());
            match life {
                Life::Over => self.remove(address),
                Life::Lingering if !lingered => self.linger(address),
                _ if wants_turn => self.list_ready(address.slot),
                _ => {}
            }
        }
        self.bench.dirty = dirty;
    }

    fn linger(&mut self, address: Address) {
        let end = Instant::now() + Duration::from_millis(limits::LINGER_MS);
        self.lingering.push_back((end, address));
        self.list_ready(address.slot);
    }

    fn end_lingering(&mut self) {
        let now = Instant::now();
        while let Some(&(end, address)) = self.lingering.front()
            && end <= now
        {
            self.lingering.pop_front();
            match self.connections.get_mut(address.slot).filter(|c| c.client.address == address) {
                Some(connection) if connection.life == Life::Open => list(&mut self.bench.dirty, connection),
                Some(_) => self.remove(address),
                None => {}
            }
        }
    }

    /// Closes connections whose peers have not shown in time who they are.
    fn look_after_newcomers(&mut self) {
        let now = self.house.clock.now();
        let looks = self.connections.iter_mut().map(|(_, c)| (c.client.address, c.look_after(now)));
        let newcomers: Vec<_> = looks.filter_map(|(address, life)| Some((address, life?))).collect();
        self.look_at = None;
        for (address, life) in newcomers {
            if life == Life::Over {
                self.house.newcomers.late.fetch_add(1, Ordering::Relaxed);
                self.remove(address);
            } else {
                self.look_at.get_or_insert_with(|| Instant::now() + LOOK_EVERY);
            }
        }
    }

    fn remove(&mut self, address: Address) {
        let mut connection = self.connections.remove(address.slot);
        // The descriptor is closed with the socket, which takes it out of the poll in any case.
        let _ = self.poll.registry().deregister(&mut connection.socket);
        if connection.blocked {
            // Nobody reads the answer: the waiting pop must not take a message any more.
            if let Some(bundle) = self.house.store.leave(address) {
                self.answered.push(bundle);
            }
        }
        self.house.clients.leave(address.client);
        self.house.connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts everything whose answer was written in this turn.
    fn count(&mut self) {
        if self.answered.is_empty() && self.bench.at_once.is_empty() {
            return;
        }
        let replied = self.house.clock.stamp();
        for done in self.bench.at_once.drain(..) {
            let AtOnce { kind, outcome, id, request_bytes, answer_bytes, received, answered } = done;
            let stamps = Stamps {
                received,
                enqueued: received,
                dequeued: received,
                sent: received,
                answered,
                replied,
            };
            let noted = Noted::new(kind as u8, ending(outcome), stamps);
            let noted = Noted { client: id.client, request_bytes, answer_bytes, ..noted };
            if let Some(slow) = &self.house.slow {
                watch::tell_slow(slow, &self.house.clients, id, &noted);
            }
            self.recorder.note(noted);
        }
        for mut bundle in self.answered.drain(..) {
            for request in &mut bundle.requests {
                request.stamps.replied = replied;
                self.recorder.note(Noted {
                    client: bundle.address.client,
                    told_ns: bundle.told_ns,
                    request_bytes: request.request_bytes,
                    answer_bytes: request.answer_bytes,
                    ..Noted::new(request.kind as u8, ending(request.outcome), request.stamps)
                });
            }
            watch::tell(&self.house, &mut bundle);
            if self.bench.bundles.len() < limits::SPARE_BUNDLES {
                self.bench.bundles.push(bundle);
            }
        }
        self.recorder.flush();
    }

    /// Accepts nothing more, once all that waits is accepted; waiting pops get nothing; the rest is finished. Who has
    /// just come may still ask what he came for.
    fn stop(&mut self) {
        for listener in 0..self.listeners.len() {
            self.accept(listener);
        }
        self.listeners.clear();
        if self.thread == 0 {
            self.house.mailboxes[1..].iter().for_each(|mailbox| mailbox.post(Mail::Stop));
        }
        self.stopping = true;
        let (now, spared_until) = (self.house.clock.now(), Instant::now() + limits::FIRST_REQUEST);
        let slots: Vec<usize> = self.connections.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            let connection = &mut self.connections[slot];
            if connection.blocked {
                self.give_up_waiting(slot);
            } else if connection.may_still_ask(now) {
                self.lingering.push_back((spared_until, connection.client.address));
            } else {
                list(&mut self.bench.dirty, connection);
            }
        }
    }
}

fn list(dirty: &mut Vec<Address>, connection: &mut Connection) {
    if !std::mem::replace(&mut connection.dirty, true) {
        dirty.push(connection.client.address);
    }
}

/// The store's answer to a login is the account's number.
fn finish_login(connection: &mut Connection, answers: &[u8], turn: &mut Turn<'_>) {
    connection.under_way = false;
    let number = std::str::from_utf8(answers).ok().and_then(|text| text.strip_prefix(':'));
    let account = number.and_then(|text| text.trim_end().parse().ok());
    connection.answer_with(turn, |session, client, output| match account {
        Some(account) => session.logged_in(account, client, output),
        None => {
            session.refused(&Fault::new(Word::Store, "the account could not be stored; try again"), output);
        }
    });
}

fn refuse_login(connection: &mut Connection, fault: &Fault, turn: &mut Turn<'_>) {
    connection.under_way = false;
    connection.answer_with(turn, |session, _, output| session.refused(fault, output));
}
