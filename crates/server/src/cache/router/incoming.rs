//! New requests: those that need no server are answered here, all others are put on their routes.
//!
//! A route may rename a key. Then all that follows sees the renamed request, and the answer has the client's key.

use std::sync::atomic::Ordering;

use posthaste_measure::{Ending, Stamps};
use posthaste_wire::memcached::decode::TOO_LARGE;
use posthaste_wire::memcached::request::{Request, Verb};

use super::{Admission, Finished, Router, expiry, follow, recorded_length};
use crate::cache::dialect::OURS;
use crate::cache::pool::plain_key;
use crate::cache::{limits, mock, request_kind, stats};

/// What is answered for a key that no route takes.
pub(super) const NO_ROUTE: &[u8] = b"SERVER_ERROR no route for this key and command\r\n";

/// What is answered to a `flush_all` that is not allowed.
const NO_FLUSH: &[u8] = b"CLIENT_ERROR flush_all not allowed\r\n";

/// What is answered where renaming a key leaves no valid key.
pub(super) const BAD_FORMAT: &[u8] = b"CLIENT_ERROR bad command line format\r\n";

/// What is answered beyond a route's limit.
pub(super) const TOO_MANY: &[u8] = b"SERVER_ERROR too many requests: the limit of this route is reached\r\n";

/// What is answered to a meta command whose key may lead to a server that would not understand it.
const TOO_OLD: &[u8] =
    b"SERVER_ERROR meta commands need memcached 1.6.10 or later, and a server of this key is older\r\n";

/// What is answered to a meta command that has as many words as servers take, and to which one must be added.
const NO_ROOM: &[u8] = b"CLIENT_ERROR options flags too long\r\n";

/// What is answered where an opaque is longer than servers repeat.
const LONG_OPAQUE: &[u8] = b"CLIENT_ERROR opaque token too long\r\n";

/// The client of a request, and what the record needs of the request.
#[derive(Clone, Copy)]
pub(super) struct Origin {
    /// The client's slot.
    pub(super) client: usize,
    /// When the request was received.
    pub(super) received: u64,
    /// The length of the request, as the client sent it.
    pub(super) bytes: u32,
}

/// A new request.
#[derive(Clone, Copy)]
pub(super) struct Incoming<'a> {
    pub(super) origin: Origin,
    pub(super) request: &'a Request,
    /// The bytes that the request's spans are of: all of it, or its line.
    pub(super) input: &'a [u8],
}

impl Incoming<'_> {
    /// The request's line, without a value.
    pub(super) fn line(&self) -> &[u8] {
        self.request.line.of(self.input)
    }
}

/// Puts a request on a route.
type Put = fn(&mut Router, usize, &Incoming<'_>) -> Admission;

impl Router {
    /// Takes a request of a client: all of `input`.
    pub fn ask(&mut self, client: usize, request: &Request, input: &[u8], received: u64) -> Admission {
        let origin = Origin { client, received, bytes: recorded_length(input.len()) };
        if request.respell && !request.verb.is_get() {
            let mut line = Vec::new();
            let request = request.respelled(input, &mut line);
            return self.accept(&Incoming { origin, request: &request, input: &line });
        }
        self.accept(&Incoming { origin, request, input })
    }

    fn accept(&mut self, incoming: &Incoming<'_>) -> Admission {
        let Incoming { origin, request, input } = *incoming;
        let settings = self.table().settings;
        let answer: &[u8] = match request.verb {
            Verb::Quit => return Admission::Quit,
            Verb::MetaNoop => b"MN\r\n",
            Verb::Version => {
                self.answer_locally(origin, format!("VERSION {OURS}\r\n").as_bytes());
                return Admission::Accepted;
            }
            Verb::Verbosity if request.noreply.is_some() => b"",
            Verb::Verbosity => b"OK\r\n",
            Verb::Stats => {
                let text = stats::answer(request, input, &self.fleet);
                self.answer_locally(origin, text.as_bytes());
                return Admission::Accepted;
            }
            Verb::FlushAll if !settings.flush_all => {
                return self.refuse(incoming, NO_FLUSH);
            }
            _ if settings.mock.is_some() => {
                self.mock(incoming, settings.mock.unwrap_or_default());
                return Admission::Accepted;
            }
            Verb::FlushAll => return self.flush_all(incoming),
            Verb::Get | Verb::Gets | Verb::Gat | Verb::Gats => return self.get(incoming),
            _ => return self.ask_one_key(incoming, Self::ask_on_route),
        };
        self.answer_locally(origin, answer);
        Admission::Accepted
    }

    /// Finds the route of a request with one key, renames the key as the route says, and calls `put` with them.
    fn ask_one_key(&mut self, incoming: &Incoming<'_>, put: Put) -> Admission {
        let Incoming { origin, request, input } = *incoming;
        let table = self.table();
        let found = plain_key(request, input, |key| table.route(request.verb, key));
        let Some(route) = found else { return self.refuse(incoming, NO_ROUTE) };
        let way = &table.routes[route];
        if way.is_exhausted(self.now) {
            way.counts.refused.fetch_add(1, Ordering::Relaxed);
            return self.refuse(incoming, TOO_MANY);
        }
        if way.renaming.is_identity() {
            return put(self, route, incoming);
        }
        let mut changed = std::mem::take(&mut self.scratch.renamed);
        let renamed = self.table().routes[route].renaming.request(request, input, &mut changed);
        let admission = match renamed {
            Some(renamed) => put(self, route, &Incoming { origin, request: &renamed, input: &changed }),
            None => self.refuse(incoming, BAD_FORMAT),
        };
        self.scratch.renamed = changed;
        admission
    }

    /// Refuses a request: it counts as an error, also if its client is not answered (`noreply`).
    fn refuse(&mut self, incoming: &Incoming<'_>, words: &'static [u8]) -> Admission {
        let words: &[u8] = if incoming.request.noreply.is_some() { b"" } else { words };
        self.write_local_answer(incoming.origin, request_kind::OTHER, Ending::Error, |out| {
            out.extend_from_slice(words)
        });
        Admission::Accepted
    }

    fn ask_on_route(&mut self, route: usize, incoming: &Incoming<'_>) -> Admission {
        let Incoming { request, input, .. } = *incoming;
        if self.is_foreign(route, request, input) {
            return self.refuse(incoming, TOO_OLD);
        }
        if self.table().limits_lives(self.table().routes[route].pool)
            && expiry::has_no_room_for_life(request, input)
        {
            return self.refuse(incoming, NO_ROOM);
        }
        if is_refused_when_done(request, input) {
            return self.refuse(incoming, LONG_OPAQUE);
        }
        let admission = match request.verb {
            Verb::MetaGet | Verb::MetaDebug => self.meta_get(route, incoming),
            _ => self.write(route, incoming),
        };
        if admission == Admission::Accepted {
            self.table().routes[route].count(1, self.now);
            self.shadow(route, request, input);
        }
        admission
    }

    /// Returns whether a request may lead to a server that would not understand it.
    pub(super) fn is_foreign(&self, route: usize, request: &Request, input: &[u8]) -> bool {
        if !request.verb.is_meta() || !self.fleet.has_old_servers() {
            return false;
        }
        let (table, is_old) = (self.table(), |server: usize| self.servers[server].dialect.is_old());
        plain_key(request, input, |key| table.leads_to(table.routes[route].pool, key, is_old))
    }

    /// Answers `request_bytes` bytes that are no request, in their turn. The answer may be empty.
    pub fn answer_unparsed(&mut self, client: usize, answer: &[u8], request_bytes: usize, received: u64) {
        let origin = Origin { client, received, bytes: recorded_length(request_bytes) };
        self.write_local_answer(origin, request_kind::OTHER, Ending::Error, |out| {
            out.extend_from_slice(answer)
        });
    }

    /// Answers the incoming request without a server.
    pub(super) fn answer_locally(&mut self, origin: Origin, answer: &[u8]) {
        let is_error = posthaste_wire::memcached::reply::is_error(answer);
        let ending = if is_error { Ending::Error } else { Ending::Ok };
        self.write_local_answer(origin, request_kind::OTHER, ending, |out| out.extend_from_slice(answer));
    }

    /// Refuses a value that is too large, which the router does not get. A `set` or `ms` deletes its key, since the
    /// client no longer wants what is stored there.
    pub fn refuse_too_large(
        &mut self,
        client: usize,
        request: &Request,
        input: &[u8],
        received: u64,
    ) -> Admission {
        let origin = Origin { client, received, bytes: request.line.len };
        let incoming = Incoming { origin, request, input: request.line.of(input) };
        if matches!(request.verb, Verb::Set | Verb::MetaSet) && self.table().settings.mock.is_none() {
            return self.ask_one_key(&incoming, Self::refuse_and_delete);
        }
        self.refuse(&incoming, TOO_LARGE)
    }

    fn mock(&mut self, incoming: &Incoming<'_>, value_bytes: usize) {
        let Incoming { origin, request, input } = *incoming;
        self.write_local_answer(origin, request_kind::number(request), Ending::Ok, |out| {
            mock::answer(request, input, value_bytes, out);
        });
    }

    pub(super) fn write_local_answer(
        &mut self,
        origin: Origin,
        kind: u8,
        ending: Ending,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let client = origin.client;
        let bytes = if self.answers.is_waiting(client) {
            let id = self.new_exchange();
            let exchange = &mut self.exchanges[id];
            (exchange.client, exchange.is_answered, exchange.is_over) = (client, true, true);
            write(&mut exchange.answer);
            let bytes = exchange.answer.len();
            self.enqueue_stamped(id);
            bytes
        } else {
            let out = self.answers.output(client);
            let before = out.len();
            write(out);
            out.len() - before
        };
        self.answers.hold(client, bytes);
        self.finished.push(Finished {
            kind,
            ending,
            stamps: Stamps { received: origin.received, ..Stamps::default() },
            slot: Some(client),
            client: self.answers.number(client),
            request_bytes: origin.bytes,
            answer_bytes: recorded_length(bytes),
            server_reads: 0,
        });
    }
}

/// Returns whether a server would change something and only then find that it cannot repeat the opaque: what the other
/// copies are to hold would stay unknown.
fn is_refused_when_done(request: &Request, input: &[u8]) -> bool {
    let is_long = || {
        let mut words = request.words_after_key(input);
        words.any(|word| word.len as usize > limits::OPAQUE_BYTES_MAX && word.of(input).starts_with(b"O"))
    };
    match request.verb {
        Verb::MetaArithmetic => is_long(),
        Verb::MetaGet => is_long() && follow::has_flag(request, input, b'N'),
        _ => false,
    }
}
