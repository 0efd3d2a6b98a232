//! What a network thread of the cache tier does between reading and writing: requests are given to the engine, and in
//! pipelined mode servers are talked to in the same loop.
//!
//! Once a turn, what is for the servers is sent in one write each, and what they have sent is read. So a single
//! request costs two reads and two writes, and many at once share them.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mio::event::Event;
use posthaste_measure::{Noted, Recorder};
use posthaste_wire::memcached::decode::Decoded;
use posthaste_wire::memcached::request::{Request, Verb};

use super::client::Client;
use super::client_rate_limiters::TOO_MANY;
use super::cork::{Cork, WAITING_BYTES_MAX};
use super::engine::{ClientId, Engine};
use super::limits::{FINISHED_KEPT, REQUESTS_AT_ONCE_MAX, RETRY_EVERY, output_bytes_max};
use super::moderation::Moderation;
use super::request_kind;
use super::router::{Admission, Finished};
use super::shared::{CacheShared, ClientInfo, Mail};
use crate::front::connections::Connections;
use crate::front::gate::Refused;
use crate::front::peer::{Peer, PeerState};
use crate::front::slots::Slots;
use crate::front::tier::Tier;
use crate::slow::{SlowLog, SlowRequest};

/// First byte of the binary protocol, which has no line ends to wait for.
const BINARY: u8 = 0x80;

/// The cache tier's part of a network thread.
pub struct CacheTier<E> {
    /// The thread's number.
    thread: usize,
    shared: Arc<CacheShared>,
    engine: E,
    recorder: Recorder,
    /// Clients whose next request could not be taken yet.
    put_off: Vec<usize>,
    cork: Cork,
    moderation: Moderation,
}

impl<E: Engine> Tier for CacheTier<E> {
    type Connection = Client;
    type Mail = Mail;

    fn refusal(_: Refused) -> &'static [u8] {
        b"ERROR Too many open connections\r\n"
    }

    fn new_connection(&mut self, slot: usize, peer: Peer, origin: Option<IpAddr>) -> Client {
        self.engine.add_client(ClientId { slot, number: peer.number });
        let rate_limiter = self.shared.client_rate_limiters.for_address(origin, peer.connected_ns);
        Client::new(peer, rate_limiter)
    }

    fn connection_ended(&mut self, slot: usize, client: &Client) {
        self.engine.remove_client(slot);
        let held = client.held.iter().map(|done| Finished { slot: None, ..*done });
        self.engine.finished().extend(held);
    }

    fn begin_turn(&mut self, now_ns: u64) {
        self.cork.begin(now_ns);
        self.engine.begin_turn(now_ns);
    }

    fn handle_event(&mut self, number: usize, event: &Event) {
        self.engine.note_server_event(number, event);
    }

    fn receive_mail(&mut self, mail: Mail, connections: &mut Connections<Self>) {
        match mail {
            Mail::Answered(parcel) => {
                let ClientId { slot, number } = parcel.client;
                let (is_there, is_cut) = (connections.find(slot, number).is_some(), parcel.is_cut);
                self.engine.complete(parcel, is_there.then_some(slot));
                if is_there && is_cut {
                    self.cut_one(slot, connections);
                }
            }
            // Nothing to do: clients in `put_off` are tried again in every turn.
            Mail::Retry => {}
            Mail::List { after, most, answer } => {
                // Fails if the one that asked has gone.
                let _ = answer.send(self.clients(after, most, connections));
            }
            Mail::Close { id, answer } => {
                let _ = answer.send(self.close(id, connections));
            }
        }
    }

    fn may_ask(&self, slot: usize, client: &Client) -> bool {
        !client.is_put_off && self.engine.answers().may_ask(slot)
    }

    fn take_requests(&mut self, slot: usize, client: &mut Client, input: &[u8]) -> usize {
        let mut at = 0;
        let requests_max = client.peer.requests + REQUESTS_AT_ONCE_MAX as u64;
        let now = self.shared.clock.now();
        self.engine.begin_turn(now);
        while at < input.len() && client.peer.requests < requests_max && self.asks_on(slot, client) {
            let swallowed = client.swallow.min(input.len() - at);
            client.swallow -= swallowed;
            at += swallowed;
            if at == input.len() {
                break;
            }
            match self.take_one(slot, client, &input[at..], now) {
                Some(used) => at += used,
                None => break,
            }
            client.peer.requests += 1;
        }
        self.engine.answers_mut().close_burst(slot);
        at
    }

    fn work(&mut self, connections: &mut Connections<Self>) {
        let (registry, buffer) = connections.registry_and_buffer();
        self.engine.send(registry);
        self.engine.receive(registry, buffer);
        self.ask_again(connections);
        self.engine.send(connections.registry_and_buffer().0);
        for slot in self.cork.due(connections) {
            self.engine.answers_mut().touch(slot);
        }
    }

    fn touched(&mut self) -> &mut Slots {
        self.engine.answers_mut().touched()
    }

    fn write(&mut self, slot: usize, client: &mut Client) {
        if self.may_wait(slot, client) && self.cork.hold(slot, client) {
            return;
        }
        self.cork.release(client, self.engine.finished());
        let answers = self.engine.answers_mut();
        answers.close_burst(slot);
        let written = client.peer.write(answers.unwritten(slot));
        answers.written(slot, written);
        if answers.held_for(slot) > output_bytes_max(self.shared.limits.value_bytes) {
            client.peer.state = PeerState::Closed;
            self.shared.cut.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn is_settled(&self, slot: usize, _: &Client) -> bool {
        self.engine.answers().is_idle(slot)
    }

    fn finish_turn(&mut self, connections: &mut Connections<Self>) {
        self.cut(connections);
        self.count(connections);
    }

    fn poll_timeout(&self) -> Option<Duration> {
        let put_off = (!self.put_off.is_empty()).then_some(RETRY_EVERY);
        self.engine.poll_timeout().into_iter().chain(self.cork.poll_timeout()).chain(put_off).min()
    }

    fn pause(&mut self) -> Option<Duration> {
        self.moderation.end_turn(self.engine.waiting_on_several())
    }

    fn is_idle(&self) -> bool {
        self.engine.is_idle()
    }
}

impl<E: Engine> CacheTier<E> {
    /// The tier of the network thread of this number, with its engine.
    #[must_use]
    pub fn new(thread: usize, shared: Arc<CacheShared>, engine: E) -> Self {
        Self {
            thread,
            recorder: shared.meter.recorder(),
            shared,
            engine,
            put_off: Vec::new(),
            cork: Cork::default(),
            moderation: Moderation::default(),
        }
    }

    /// Returns whether a client may ask and its connection is not being closed.
    fn asks_on(&self, slot: usize, client: &Client) -> bool {
        client.peer.state == PeerState::Open && self.may_ask(slot, client)
    }

    /// Returns whether answers are ready for a client that may wait for more of them.
    fn may_wait(&self, slot: usize, client: &Client) -> bool {
        let answers = self.engine.answers();
        let bytes = answers.unwritten(slot).len();
        let is_new = !answers.is_amid_write(slot) && client.peer.state == PeerState::Open;
        answers.is_amid_burst(slot) && is_new && bytes > 0 && bytes < WAITING_BYTES_MAX
    }

    /// Passes on the request at the beginning of `input`, and returns how many bytes it took. None: it has to wait.
    fn take_one(&mut self, slot: usize, client: &mut Client, input: &[u8], now: u64) -> Option<usize> {
        let client_id = ClientId { slot, number: client.peer.number };
        let received = client.put_off_since_ns.take().unwrap_or(now);
        if client.peer.requests == 0 && input.first() == Some(&BINARY) {
            return Some(self.hang_up(client_id, client, b"", input.len()));
        }
        match client.decode(input, &self.shared.limits) {
            Decoded::Request(request, end) if !self.admit_or_count_refusal(client, &request) => {
                Some(self.refuse(client_id, &request, end))
            }
            Decoded::Request(request, end) => {
                match self.engine.ask(client_id, &request, &input[..end], received) {
                    Admission::Accepted => {
                        self.count_against_limit(client, &request);
                        Some(end)
                    }
                    Admission::Quit => {
                        client.peer.close();
                        Some(input.len())
                    }
                    Admission::RetryLater => self.put_off(slot, client, received),
                }
            }
            Decoded::NeedLineEnd | Decoded::NeedBytes(_) => {
                client.peer.holds_requests = false;
                None
            }
            Decoded::Refused { answer, end, swallow } => {
                client.swallow = swallow;
                self.engine.answer_locally(client_id, answer.unwrap_or_default(), end);
                Some(end)
            }
            Decoded::TooLarge { request, end, swallow } if !self.admit_or_count_refusal(client, &request) => {
                client.swallow = swallow;
                Some(self.refuse(client_id, &request, end))
            }
            Decoded::TooLarge { request, end, swallow } => {
                let admission = self.engine.refuse_too_large(client_id, &request, input, received);
                if admission == Admission::RetryLater {
                    return self.put_off(slot, client, received);
                }
                self.count_against_limit(client, &request);
                client.swallow = swallow;
                Some(end)
            }
            Decoded::Close { answer } => {
                Some(self.hang_up(client_id, client, answer.unwrap_or_default(), input.len()))
            }
        }
    }

    /// Returns whether a request is within the limit of its client's address. One that is not counts as refused.
    fn admit_or_count_refusal(&self, client: &Client, request: &Request) -> bool {
        let Some(limiter) = client.rate_limiter.as_ref().filter(|_| request.verb != Verb::Quit) else {
            return true;
        };
        let is_exhausted = limiter.is_exhausted(self.shared.clock.now());
        if is_exhausted {
            self.shared.client_rate_limiters.note_refused();
        }
        !is_exhausted
    }

    /// Answers a request beyond the limit. Returns how many bytes it took.
    fn refuse(&mut self, client_id: ClientId, request: &Request, end: usize) -> usize {
        let words: &[u8] = if request.noreply.is_some() { b"" } else { TOO_MANY };
        self.engine.answer_locally(client_id, words, end);
        end
    }

    /// Counts an accepted request against the limit of its client's address; one that is not accepted yet is tried
    /// repeatedly. Each key of a get counts.
    fn count_against_limit(&self, client: &Client, request: &Request) {
        if let Some(limiter) = &client.rate_limiter {
            limiter.count(u64::from(request.keys).max(1), self.shared.clock.now());
        }
    }

    /// Closes a client's connection after `words`, since what it sends is no request. Returns how many bytes it sent.
    fn hang_up(&mut self, client_id: ClientId, client: &mut Client, words: &[u8], sent: usize) -> usize {
        client.peer.close();
        self.engine.answer_locally(client_id, words, sent);
        sent
    }

    /// Has the client's next request, which was received then, tried again later.
    fn put_off(&mut self, slot: usize, client: &mut Client, received: u64) -> Option<usize> {
        client.is_put_off = true;
        client.put_off_since_ns = Some(received);
        self.put_off.push(slot);
        None
    }

    /// Tries requests again that could not be taken.
    fn ask_again(&mut self, connections: &mut Connections<Self>) {
        for slot in std::mem::take(&mut self.put_off) {
            if let Some(client) = connections.get_mut(slot) {
                client.is_put_off = false;
                connections.serve_one(self, slot);
            }
        }
    }

    /// The next clients by number. At most as many as were asked for, since for each the system is asked for its peer.
    fn clients(&self, after: u64, most: usize, connections: &Connections<Self>) -> Vec<ClientInfo> {
        let mut found: Vec<_> = connections.iter().filter(|(_, client)| client.peer.number > after).collect();
        found.sort_unstable_by_key(|(_, client)| client.peer.number);
        found.truncate(most);
        let answers = self.engine.answers();
        let info = |(slot, client): (usize, &Client)| ClientInfo {
            id: client.peer.number,
            peer: client.peer.name(),
            connected_ns: client.peer.connected_ns,
            requests: client.peer.requests,
            held_bytes: client.peer.input_bytes() + answers.all_held_for(slot),
        };
        found.into_iter().map(info).collect()
    }

    /// Closes a client's connection. Returns false if the client is not on this thread.
    fn close(&mut self, number: u64, connections: &mut Connections<Self>) -> bool {
        let found = connections.iter().find(|(_, client)| client.peer.number == number);
        let Some(slot) = found.map(|(slot, _)| slot) else { return false };
        connections.remove(self, slot);
        true
    }

    /// Cuts the thread's clients that hold most, until those of all threads hold no more memory than they may.
    fn cut(&mut self, connections: &mut Connections<Self>) {
        loop {
            let answers = self.engine.answers();
            let all_held = answers.held() + connections.input_bytes();
            if !self.shared.held_memory.must_free(self.thread, all_held) {
                return;
            }
            let held =
                |(slot, client): &(usize, &Client)| client.peer.input_bytes() + answers.all_held_for(*slot);
            let Some(slot) = connections.iter().max_by_key(held).map(|(slot, _)| slot) else { return };
            self.cut_one(slot, connections);
        }
    }

    fn cut_one(&mut self, slot: usize, connections: &mut Connections<Self>) {
        self.shared.cut.fetch_add(1, Ordering::Relaxed);
        connections.remove(self, slot);
    }

    /// Counts every request whose answer was passed to the network in this turn.
    fn count(&mut self, connections: &mut Connections<Self>) {
        if self.engine.finished().is_empty() {
            return;
        }
        let replied = self.shared.clock.stamp();
        for mut done in self.engine.finished().drain(..) {
            let mut client = done.slot.and_then(|slot| connections.get_mut(slot));
            if let Some(client) = client.as_mut().filter(|client| client.held_since_ns.is_some()) {
                self.cork.hold_count(client, done);
                continue;
            }
            done.stamps.replied = replied;
            self.moderation.note_answer(done.slot, replied.saturating_sub(done.stamps.received));
            let noted = Noted {
                client: done.client,
                request_bytes: done.request_bytes,
                answer_bytes: done.answer_bytes,
                counted: done.server_reads,
                ..Noted::new(done.kind, done.ending, done.stamps)
            };
            if let Some(slow) = &self.shared.slow {
                tell_slow(slow, client.as_deref(), &noted);
            }
            self.recorder.note(noted);
        }
        self.engine.finished().shrink_to(FINISHED_KEPT);
        self.recorder.flush();
    }
}

/// Reports a request if it took too long.
fn tell_slow(log: &SlowLog, client: Option<&Client>, noted: &Noted) {
    if log.is_slow(noted.trail.response()) {
        log.log(SlowRequest {
            peer: client.map(|client| client.peer.name()),
            kind: request_kind::NAMES.get(usize::from(noted.kind)).copied().unwrap_or_default(),
            ending: noted.ending,
            trail: noted.trail,
            ..SlowRequest::of(client.map(|client| client.peer.number.to_string()).unwrap_or_default())
        });
    }
}
