//! A network thread: one readiness loop over its clients, and in pipelined mode over its servers too.
//!
//! A turn reads every ready client once and hands on all whole requests, sends what is for the servers in one write
//! each, reads what servers have said, then writes each client that has answers once. Sockets are written before the
//! thread asks whether they can be, and a short read needs no second one: a request alone costs two reads and two
//! writes, many at once share them.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::{Events, Interest, Poll, Token};
use posthaste_measure::{Noted, Recorder};
use posthaste_wire::memcached::decode::{Decoded, decode};
use slab::Slab;

use super::client::{Client, Life};
use super::engine::{Asker, Engine};
use super::hall::{Card, Hall, Mail};
use super::kind;
use super::limits;
use super::router::Asked;
use crate::newcomers::{Arrival, LOOK_EVERY};
use crate::path::accept::{Listener, Socket};
use crate::path::mailbox::Mailbox;
use crate::slow::{Slow, SlowLog};

const WAKER: Token = Token(usize::MAX);
const FIRST_LISTENER: usize = usize::MAX / 2;
/// Tokens of servers begin here; clients have those below.
pub(super) const FIRST_SERVER: usize = usize::MAX / 4;

/// One network thread's world.
pub struct Network<E> {
    thread: usize,
    poll: Poll,
    hall: Arc<Hall>,
    engine: E,
    mailbox: Arc<Mailbox<Mail>>,
    listeners: Vec<Listener>,
    next_thread: usize,
    clients: Slab<Client>,
    ready: Vec<usize>,
    /// Clients whose request could not be taken.
    later: Vec<usize>,
    lingering: VecDeque<(Instant, usize, u64)>,
    stalled: Vec<usize>,
    /// When to look after newcomers, if there are any.
    look_at: Option<Instant>,
    mail: Vec<Mail>,
    read_buffer: Vec<u8>,
    buffers: Vec<Vec<u8>>,
    /// Bytes in the inputs of clients.
    input_bytes: usize,
    recorder: Recorder,
    stopping: bool,
}

impl<E: Engine> Network<E> {
    /// A network thread that deals accepted connections out to all threads, if it has listeners.
    ///
    /// # Errors
    /// The system's.
    pub fn new(
        thread: usize,
        poll: Poll,
        hall: Arc<Hall>,
        engine: E,
        mut listeners: Vec<Listener>,
    ) -> io::Result<Self> {
        for (i, listener) in listeners.iter_mut().enumerate() {
            listener.register(poll.registry(), Token(FIRST_LISTENER + i))?;
        }
        Ok(Self {
            thread,
            poll,
            mailbox: Arc::clone(&hall.mailboxes[thread]),
            recorder: hall.meter.recorder(),
            hall,
            engine,
            listeners,
            next_thread: 0,
            clients: Slab::new(),
            ready: Vec::new(),
            later: Vec::new(),
            lingering: VecDeque::new(),
            stalled: Vec::new(),
            look_at: None,
            mail: Vec::new(),
            read_buffer: vec![0; limits::READ_BYTES],
            buffers: Vec::new(),
            input_bytes: 0,
            stopping: false,
        })
    }

    /// Runs until it was told to stop and every answer is written.
    ///
    /// # Errors
    /// The system's, when it gives no more events.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(limits::EVENTS_PER_TURN);
        while !(self.stopping && self.clients.is_empty() && self.engine.is_idle()) {
            match self.poll.poll(&mut events, self.patience()) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => self.turn(&events),
            }
        }
        Ok(())
    }

    fn patience(&self) -> Option<Duration> {
        if !self.ready.is_empty() || !self.mailbox.may_sleep() {
            return Some(Duration::ZERO);
        }
        let now = Instant::now();
        let lingering = self.lingering.front().map(|(end, ..)| end.saturating_duration_since(now));
        let stalled = (!self.stalled.is_empty()).then_some(limits::ACCEPT_AGAIN);
        let look = self.look_at.map(|at| at.saturating_duration_since(now));
        lingering.into_iter().chain(stalled).chain(look).chain(self.engine.patience()).min()
    }

    fn turn(&mut self, events: &Events) {
        let mut mail = std::mem::take(&mut self.mail);
        self.mailbox.collect(&mut mail);
        for listener in std::mem::take(&mut self.stalled) {
            self.accept(listener);
        }
        events.iter().for_each(|event| self.note(event));
        self.engine.begin(self.hall.clock.now());
        mail.drain(..).for_each(|piece| self.take_mail(piece));
        self.mail = mail;
        self.serve();
        self.engine.send(self.poll.registry());
        self.engine.receive(self.poll.registry(), &mut self.read_buffer);
        self.ask_again();
        self.engine.send(self.poll.registry());
        self.end_lingering();
        self.write();
        self.count();
        if self.look_at.is_some_and(|at| at <= Instant::now()) {
            self.look_after_newcomers();
        }
    }

    fn note(&mut self, event: &Event) {
        match event.token() {
            WAKER => {}
            Token(listener) if listener >= FIRST_LISTENER => self.accept(listener - FIRST_LISTENER),
            Token(server) if server >= FIRST_SERVER => self.engine.note(server - FIRST_SERVER, event),
            Token(slot) => {
                let Some(client) = self.clients.get_mut(slot) else { return };
                client.hung_up |= event.is_read_closed();
                client.can_read |= event.is_readable() || client.hung_up;
                if event.is_writable() {
                    client.can_write = true;
                    client.socket.now_writable();
                    self.engine.answers().touch(slot);
                }
                self.list_ready(slot);
            }
        }
    }

    fn list_ready(&mut self, slot: usize) {
        if let Some(client) = self.clients.get_mut(slot)
            && !std::mem::replace(&mut client.listed, true)
        {
            self.ready.push(slot);
        }
    }

    fn take_mail(&mut self, mail: Mail) {
        match mail {
            Mail::Adopt(arrival) => self.adopt(arrival),
            Mail::Answered(task) => {
                let (slot, number) = task.client;
                let is_there = self.clients.get(slot).is_some_and(|client| client.number == number);
                self.engine.take_back(task, is_there);
            }
            // Whoever waits is asked again in every turn.
            Mail::Retry => {}
            Mail::List { after, most, answer } => {
                // Who asked may have gone.
                let _ = answer.send(self.cards(after, most));
            }
            Mail::Close { id, answer } => {
                let _ = answer.send(self.close(id));
            }
            Mail::Stop => self.stop(),
        }
    }

    /// The next clients by number, as few as were asked for: for each the system is asked who it is.
    fn cards(&mut self, after: u64, most: usize) -> Vec<Card> {
        let mut found: Vec<_> = self.clients.iter().filter(|(_, client)| client.number > after).collect();
        found.sort_unstable_by_key(|(_, client)| client.number);
        found.truncate(most);
        let answers = self.engine.answers();
        let card = |(slot, client): (usize, &Client)| Card {
            id: client.number,
            peer: client.socket.peer(),
            connected_ns: client.connected_ns,
            requests: client.requests,
            held_bytes: client.input.len() + answers.held_for(slot),
        };
        found.into_iter().map(card).collect()
    }

    /// Closes a client's connection; false: it is not here.
    fn close(&mut self, number: u64) -> bool {
        let found = self.clients.iter().find(|(_, client)| client.number == number).map(|(slot, _)| slot);
        if let Some(slot) = found {
            self.remove(slot);
        }
        found.is_some()
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
        if self.hall.connections.fetch_add(1, Ordering::Relaxed) >= self.hall.connections_max {
            self.hall.connections.fetch_sub(1, Ordering::Relaxed);
            let _ = io::Write::write(&mut socket, b"SERVER_ERROR too many connections\r\n");
            return;
        }
        // One that must shake hands is told nothing before it has.
        let Ok(arrival) = self.hall.newcomers.admit(socket) else {
            self.hall.connections.fetch_sub(1, Ordering::Relaxed);
            return;
        };
        self.next_thread = (self.next_thread + 1) % self.hall.mailboxes.len();
        if self.next_thread == self.thread {
            self.adopt(arrival);
        } else {
            self.hall.mailboxes[self.next_thread].post(Mail::Adopt(arrival));
        }
    }

    fn adopt(&mut self, mut arrival: Arrival) {
        let entry = self.clients.vacant_entry();
        let slot = entry.key();
        let interests = Interest::READABLE | Interest::WRITABLE;
        let registry = self.poll.registry();
        if self.stopping || registry.register(&mut arrival.socket, Token(slot), interests).is_err() {
            self.hall.connections.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let number = self.hall.accepted.fetch_add(1, Ordering::Relaxed) + 1;
        let client = Client::new(number, arrival, self.hall.clock.now());
        if client.is_newcomer() {
            self.look_at.get_or_insert_with(|| Instant::now() + LOOK_EVERY);
        }
        entry.insert(client);
        self.engine.enter(Asker { slot, number });
        self.list_ready(slot);
    }

    fn serve(&mut self) {
        for slot in std::mem::take(&mut self.ready) {
            let Some(client) = self.clients.get_mut(slot) else { continue };
            client.listed = false;
            if client.life == Life::Lingering {
                self.drop_input(slot);
            } else {
                self.serve_one(slot);
            }
        }
    }

    /// Reads once and hands on every whole request, as far as the client may ask.
    fn serve_one(&mut self, slot: usize) {
        if self.clients[slot].later {
            return;
        }
        let before = self.clients[slot].input.len();
        if self.clients[slot].holds_requests {
            self.parse_kept(slot);
        }
        let client = &mut self.clients[slot];
        if client.can_read
            && client.life == Life::Open
            && !client.later
            && self.engine.answers().may_ask(slot)
        {
            let mut buffer = std::mem::take(&mut self.read_buffer);
            let n = client.read(&mut buffer, &self.hall);
            if n > 0 && client.input.is_empty() {
                let used = self.parse(slot, &buffer[..n]);
                if used < n {
                    let mut rest = self.buffers.pop().unwrap_or_default();
                    rest.extend_from_slice(&buffer[used..n]);
                    self.clients[slot].input = rest;
                }
            } else if n > 0 {
                client.input.extend_from_slice(&buffer[..n]);
                self.parse_kept(slot);
            }
            self.read_buffer = buffer;
        }
        let client = &mut self.clients[slot];
        self.input_bytes = self.input_bytes + client.input.len() - before;
        if client.peer_done || client.life == Life::Over {
            self.engine.answers().touch(slot);
        } else if !client.later && client.wants_turn() && self.engine.answers().may_ask(slot) {
            self.list_ready(slot);
        }
        if self.input_bytes > self.hall.memory_per_thread {
            self.cut(slot);
        }
    }

    fn parse_kept(&mut self, slot: usize) {
        let mut input = std::mem::take(&mut self.clients[slot].input);
        let used = self.parse(slot, &input);
        if used == input.len() {
            keep(&mut self.buffers, input);
        } else {
            input.drain(..used);
            self.clients[slot].input = input;
        }
    }

    /// Hands on the whole requests in `input`; how many bytes are done with.
    fn parse(&mut self, slot: usize, input: &[u8]) -> usize {
        let mut at = 0;
        let asker = Asker { slot, number: self.clients[slot].number };
        self.clients[slot].holds_requests = true;
        self.clients[slot].has_asked = true;
        self.engine.begin(self.hall.clock.now());
        while at < input.len() && self.clients[slot].life == Life::Open && self.engine.answers().may_ask(slot)
        {
            let client = &mut self.clients[slot];
            let swallowed = client.swallow.min(input.len() - at);
            client.swallow -= swallowed;
            at += swallowed;
            if at == input.len() {
                break;
            }
            match self.parse_one(asker, &input[at..]) {
                Some(used) => {
                    at += used;
                    if let Some(client) = self.clients.get_mut(slot) {
                        client.requests += 1;
                    }
                }
                None => break,
            }
        }
        self.clients[slot].holds_requests &= at < input.len();
        at
    }

    /// Hands on the request at the beginning of `input`; how many bytes it took. None: it has to wait.
    fn parse_one(&mut self, asker: Asker, input: &[u8]) -> Option<usize> {
        let client = &mut self.clients[asker.slot];
        match decode(input, &self.hall.limits) {
            Decoded::Request(request, end) => match self.engine.ask(asker, &request, input, end) {
                Asked::Taken => Some(end),
                Asked::Quit => {
                    client.life = Life::Closing;
                    self.engine.answers().touch(asker.slot);
                    Some(input.len())
                }
                Asked::Later => self.wait(asker.slot),
            },
            Decoded::NeedBytes(_) => {
                client.holds_requests = false;
                None
            }
            Decoded::Refused { answer, end, swallow } => {
                client.swallow = swallow;
                self.engine.say(asker, answer.unwrap_or_default(), end);
                Some(end)
            }
            Decoded::TooLarge { request, end, swallow } => {
                if self.engine.refuse_too_large(asker, &request, input) == Asked::Later {
                    return self.wait(asker.slot);
                }
                client.swallow = swallow;
                Some(end)
            }
            Decoded::Close { answer } => {
                client.life = Life::Closing;
                self.engine.say(asker, answer.unwrap_or_default(), input.len());
                self.engine.answers().touch(asker.slot);
                Some(input.len())
            }
        }
    }

    fn wait(&mut self, slot: usize) -> Option<usize> {
        self.clients[slot].later = true;
        self.later.push(slot);
        None
    }

    /// Requests that could not be taken may be now.
    fn ask_again(&mut self) {
        for slot in std::mem::take(&mut self.later) {
            if let Some(client) = self.clients.get_mut(slot) {
                client.later = false;
                self.serve_one(slot);
            }
        }
    }

    fn write(&mut self) {
        let dirty = self.engine.answers().take_dirty();
        for slot in &dirty {
            self.write_one(*slot);
        }
        self.engine.answers().give_dirty(dirty);
        while self.engine.answers().held() > self.hall.memory_per_thread {
            let answers = self.engine.answers();
            let Some(slot) =
                self.clients.iter().map(|(slot, _)| slot).max_by_key(|slot| answers.held_for(*slot))
            else {
                break;
            };
            self.cut(slot);
        }
    }

    fn write_one(&mut self, slot: usize) {
        let Some(client) = self.clients.get_mut(slot) else { return };
        let answers = self.engine.answers();
        let output = answers.unwritten(slot);
        let written = client.write(&output[client.written..]);
        client.written += written;
        if client.written == output.len() {
            client.written = 0;
            answers.keep_output(slot);
        }
        answers.written(slot, written);
        if answers.held_for(slot) > limits::OUTPUT_BYTES_MAX {
            return self.cut(slot);
        }
        let ends = client.peer_done || self.stopping && !client.may_still_ask(self.hall.clock.now());
        if ends && !client.holds_requests && client.life == Life::Open {
            client.life = Life::Closing;
        }
        if client.life == Life::Closing && answers.is_idle(slot) {
            let is_quiet = client.peer_done || self.stopping && !client.can_read;
            let end = Instant::now() + limits::LINGER;
            client.life = if is_quiet { Life::Over } else { Life::Lingering };
            client.socket.shut_write();
            self.lingering.push_back((end, slot, client.number));
        }
        match client.life {
            Life::Over => self.remove(slot),
            _ if client.wants_turn()
                && !client.later
                && (answers.may_ask(slot) || client.life == Life::Lingering) =>
            {
                self.list_ready(slot);
            }
            _ => {}
        }
    }

    /// A client holds more memory than it may.
    fn cut(&mut self, slot: usize) {
        self.hall.cut.fetch_add(1, Ordering::Relaxed);
        self.remove(slot);
    }

    fn drop_input(&mut self, slot: usize) {
        let client = &mut self.clients[slot];
        if client.can_read {
            client.read(&mut self.read_buffer, &self.hall);
        }
        if client.peer_done || client.life == Life::Over {
            self.remove(slot);
        } else if client.can_read {
            self.list_ready(slot);
        }
    }

    fn end_lingering(&mut self) {
        let now = Instant::now();
        while let Some(&(end, slot, number)) = self.lingering.front()
            && end <= now
        {
            self.lingering.pop_front();
            match self.clients.get(slot).filter(|client| client.number == number) {
                Some(client) if client.life == Life::Open => self.engine.answers().touch(slot),
                Some(_) => self.remove(slot),
                None => {}
            }
        }
    }

    /// Closes connections whose peers have not shaken hands in time.
    fn look_after_newcomers(&mut self) {
        let now = self.hall.clock.now();
        let looks = self.clients.iter_mut().map(|(slot, client)| (slot, client.look_after(now)));
        let newcomers: Vec<_> = looks.filter_map(|(slot, life)| Some((slot, life?))).collect();
        self.look_at = None;
        for (slot, life) in newcomers {
            if life == Life::Over {
                self.hall.newcomers.late.fetch_add(1, Ordering::Relaxed);
                self.remove(slot);
            } else {
                self.look_at.get_or_insert_with(|| Instant::now() + LOOK_EVERY);
            }
        }
    }

    fn remove(&mut self, slot: usize) {
        let mut client = self.clients.remove(slot);
        self.input_bytes -= client.input.len();
        // The descriptor is closed with the socket, which takes it out of the poll in any case.
        let _ = self.poll.registry().deregister(&mut client.socket);
        keep(&mut self.buffers, client.input);
        self.engine.leave(slot);
        self.hall.connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts everything whose answer was handed to the network in this turn.
    fn count(&mut self) {
        if self.engine.finished().is_empty() {
            return;
        }
        let replied = self.hall.clock.stamp();
        for mut done in self.engine.finished().drain(..) {
            done.stamps.replied = replied;
            let noted = Noted {
                client: done.client,
                request_bytes: done.request_bytes,
                answer_bytes: done.answer_bytes,
                counted: done.server_reads,
                ..Noted::new(done.kind, done.ending, done.stamps)
            };
            if let Some(slow) = &self.hall.slow {
                tell_slow(slow, done.slot.and_then(|slot| self.clients.get(slot)), &noted);
            }
            self.recorder.note(noted);
        }
        self.recorder.flush();
    }

    /// Accepts nothing more, once all that waits is accepted, and reads only what is there already; what was asked is
    /// answered. Who has just come may still ask what he came for.
    fn stop(&mut self) {
        for listener in 0..self.listeners.len() {
            self.accept(listener);
        }
        self.listeners.clear();
        if self.thread == 0 {
            self.hall.mailboxes[1..].iter().for_each(|mailbox| mailbox.post(Mail::Stop));
        }
        let (now, spared_until) = (self.hall.clock.now(), Instant::now() + limits::FIRST_REQUEST);
        let slots: Vec<usize> = self.clients.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            self.clients[slot].can_read = true;
            self.serve_one(slot);
            let Some(client) = self.clients.get(slot) else { continue };
            if client.may_still_ask(now) {
                self.lingering.push_back((spared_until, slot, client.number));
            } else {
                self.engine.answers().touch(slot);
            }
        }
        self.stopping = true;
    }
}

/// Tells of a request that took too long.
fn tell_slow(log: &SlowLog, client: Option<&Client>, noted: &Noted) {
    if log.is_slow(noted.trail.response(), 0) {
        log.tell(Slow {
            peer: client.map(|client| client.socket.peer()),
            kind: kind::NAMES.get(usize::from(noted.kind)).copied().unwrap_or_default(),
            ending: noted.ending,
            trail: noted.trail,
            ..Slow::of(client.map(|client| client.number.to_string()).unwrap_or_default())
        });
    }
}

/// A mailbox for a thread that will use this poll.
///
/// # Errors
/// The system's.
pub fn mailbox(poll: &Poll) -> io::Result<Arc<Mailbox<Mail>>> {
    Ok(Mailbox::new(mio::Waker::new(poll.registry(), WAKER)?))
}

/// Keeps a buffer for reuse.
fn keep(buffers: &mut Vec<Vec<u8>>, mut buffer: Vec<u8>) {
    if buffer.capacity() > 0 && buffers.len() < limits::SPARE_MAX {
        buffer.clear();
        buffer.shrink_to(limits::BUFFER_BYTES_KEPT);
        buffers.push(buffer);
    }
}
