//! A request as it comes: what needs no server is answered here, anything else is put on its route.
//!
//! A route may give a key another name. Then everything that follows sees the renamed request, and the answer has the
//! client's key.

use std::sync::atomic::Ordering;

use posthaste_measure::{Ending, Stamps};
use posthaste_wire::memcached::decode::TOO_LARGE;
use posthaste_wire::memcached::request::{Request, Verb};

use super::{Asked, Finished, Router, expiry, follow};
use crate::cache::dialect::OURS;
use crate::cache::pool::plain_key;
use crate::cache::{kind, mock, stats};

/// What is answered for a key that no route takes.
pub(super) const NO_ROUTE: &[u8] = b"SERVER_ERROR no route for this key and command\r\n";

/// What is answered where nobody may flush.
const NO_FLUSH: &[u8] = b"CLIENT_ERROR flush_all not allowed\r\n";

/// What is answered where a key's other name is none.
pub(super) const BAD_FORMAT: &[u8] = b"CLIENT_ERROR bad command line format\r\n";

/// What is answered beyond a route's limit.
pub(super) const TOO_MANY: &[u8] = b"SERVER_ERROR too many requests: the limit of this route is reached\r\n";

/// What is answered to a meta command for whose key there is a server that would not understand it.
const TOO_OLD: &[u8] =
    b"SERVER_ERROR meta commands need memcached 1.6.10 or later, and a server of this key is older\r\n";

/// What is answered to a meta command of as many words as there may be, where one more is needed.
const NO_ROOM: &[u8] = b"CLIENT_ERROR options flags too long\r\n";

/// What is answered where an opaque is longer than servers repeat.
const LONG_OPAQUE: &[u8] = b"CLIENT_ERROR opaque token too long\r\n";

/// Longest one, its letter included.
const OPAQUE_BYTES_MAX: u32 = 32;

/// Puts a request of a client on a route.
type Put = fn(&mut Router, usize, usize, &Request, &[u8], u64) -> Asked;

impl Router {
    /// Takes a request of a client: all of `input`.
    pub fn ask(&mut self, client: usize, request: &Request, input: &[u8], received: u64) -> Asked {
        self.asked_bytes = input.len() as u32;
        if request.respell && !request.verb.is_get() {
            let mut line = Vec::new();
            let request = request.respelled(input, &mut line);
            return self.take(client, &request, &line, received);
        }
        self.take(client, request, input, received)
    }

    fn take(&mut self, client: usize, request: &Request, input: &[u8], received: u64) -> Asked {
        let settings = self.table().settings;
        let answer: &[u8] = match request.verb {
            Verb::Quit => return Asked::Quit,
            Verb::MetaNoop => b"MN\r\n",
            Verb::Version => {
                self.say(client, format!("VERSION {OURS}\r\n").as_bytes(), received);
                return Asked::Taken;
            }
            Verb::Verbosity if request.noreply.is_some() => b"",
            Verb::Verbosity => b"OK\r\n",
            Verb::Stats => {
                let text = stats::answer(request, input, &self.fleet);
                self.say(client, text.as_bytes(), received);
                return Asked::Taken;
            }
            Verb::FlushAll if !settings.flush_all => {
                return self.refuse(client, request, NO_FLUSH, received);
            }
            _ if settings.mock.is_some() => {
                self.mock(client, request, input, settings.mock.unwrap_or_default(), received);
                return Asked::Taken;
            }
            Verb::FlushAll => return self.flush_all(client, request, input, received),
            Verb::Get | Verb::Gets | Verb::Gat | Verb::Gats => {
                return self.get(client, request, input, received);
            }
            _ => return self.ask_one_key(client, request, input, received, Self::ask_on_route),
        };
        self.say(client, answer, received);
        Asked::Taken
    }

    /// A request with one key, which is `put` on its route: that is found, and the key renamed as the route says.
    fn ask_one_key(
        &mut self,
        client: usize,
        request: &Request,
        input: &[u8],
        received: u64,
        put: Put,
    ) -> Asked {
        let table = self.table();
        let found = plain_key(request, input, |key| table.route(request.verb, key));
        let Some(route) = found else { return self.refuse(client, request, NO_ROUTE, received) };
        let way = &table.routes[route];
        if way.is_exhausted(self.now) {
            way.counts.refused.fetch_add(1, Ordering::Relaxed);
            return self.refuse(client, request, TOO_MANY, received);
        }
        if way.renaming.is_none() {
            return put(self, client, route, request, input, received);
        }
        let mut changed = std::mem::take(&mut self.changed);
        let renamed = self.table().routes[route].renaming.request(request, input, &mut changed);
        let asked = match renamed {
            Some(renamed) => put(self, client, route, &renamed, &changed, received),
            None => self.refuse(client, request, BAD_FORMAT, received),
        };
        self.changed = changed;
        asked
    }

    /// A request that is refused is an error, though its client may not want to hear of it.
    fn refuse(&mut self, client: usize, request: &Request, words: &'static [u8], received: u64) -> Asked {
        let words: &[u8] = if request.noreply.is_some() { b"" } else { words };
        self.answer_here(client, kind::OTHER, Ending::Error, received, |out| out.extend_from_slice(words));
        Asked::Taken
    }

    fn ask_on_route(
        &mut self,
        client: usize,
        route: usize,
        request: &Request,
        input: &[u8],
        received: u64,
    ) -> Asked {
        if self.is_foreign(route, request, input) {
            return self.refuse(client, request, TOO_OLD, received);
        }
        if self.table().limits_lives(self.table().routes[route].pool) && expiry::is_full(request, input) {
            return self.refuse(client, request, NO_ROOM, received);
        }
        if is_refused_when_done(request, input) {
            return self.refuse(client, request, LONG_OPAQUE, received);
        }
        let asked = match request.verb {
            Verb::MetaGet | Verb::MetaDebug => self.meta_get(client, route, request, input, received),
            _ => self.write(client, route, request, input, received),
        };
        if asked == Asked::Taken {
            self.table().routes[route].count(1, self.now);
            self.shadow(route, request, input);
        }
        asked
    }

    /// Whether a request may lead to a server that would not understand it.
    pub(super) fn is_foreign(&self, route: usize, request: &Request, input: &[u8]) -> bool {
        if !request.verb.is_meta() || !self.fleet.has_olds() {
            return false;
        }
        let (table, is_old) = (self.table(), |server: usize| self.servers[server].dialect.is_old());
        plain_key(request, input, |key| table.leads_to(table.routes[route].pool, key, is_old))
    }

    /// Answers what of so many bytes is no request in its turn with these words, or none.
    pub fn say_to(&mut self, client: usize, answer: &[u8], request_bytes: usize, received: u64) {
        self.asked_bytes = request_bytes as u32;
        self.answer_here(client, kind::OTHER, Ending::Error, received, |out| out.extend_from_slice(answer));
    }

    /// Answers the request that is being taken with words that need no server.
    pub(super) fn say(&mut self, client: usize, answer: &[u8], received: u64) {
        let is_error = posthaste_wire::memcached::reply::is_error(answer);
        let ending = if is_error { Ending::Error } else { Ending::Ok };
        self.answer_here(client, kind::OTHER, ending, received, |out| out.extend_from_slice(answer));
    }

    /// A value too large was announced, which does not come; what is stored under the key is no longer what the client wants there.
    pub fn refuse_too_large(
        &mut self,
        client: usize,
        request: &Request,
        input: &[u8],
        received: u64,
    ) -> Asked {
        self.asked_bytes = request.line.len;
        let line = &input[..request.line.len as usize];
        if matches!(request.verb, Verb::Set | Verb::MetaSet) && self.table().settings.mock.is_none() {
            return self.ask_one_key(client, request, line, received, Self::forget);
        }
        self.refuse(client, request, TOO_LARGE, received)
    }

    fn mock(&mut self, client: usize, request: &Request, input: &[u8], bytes: usize, received: u64) {
        self.answer_here(client, kind::kind(request), Ending::Ok, received, |out| {
            mock::answer(request, input, bytes, out);
        });
    }

    fn answer_here(
        &mut self,
        client: usize,
        kind: u8,
        ending: Ending,
        received: u64,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let bytes = if self.answers.is_waiting(client) {
            let id = self.new_exchange();
            let exchange = self.exchange(id);
            (exchange.client, exchange.done, exchange.over) = (client, true, true);
            write(&mut exchange.answer);
            let bytes = exchange.answer.len();
            self.stand_in_line(id);
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
            stamps: Stamps { received, ..Stamps::default() },
            slot: Some(client),
            client: self.answers.number(client),
            request_bytes: self.asked_bytes,
            answer_bytes: bytes as u32,
            server_reads: 0,
        });
    }
}

/// Whether a server would change something and only then find that it cannot repeat the opaque: nobody would learn what the other
/// copies are to hold.
fn is_refused_when_done(request: &Request, input: &[u8]) -> bool {
    let is_long = || {
        let mut words = request.words_after_key(input);
        words.any(|word| word.len > OPAQUE_BYTES_MAX && word.of(input).starts_with(b"O"))
    };
    match request.verb {
        Verb::MetaArithmetic => is_long(),
        Verb::MetaGet => is_long() && follow::has_flag(request, input, b'N'),
        _ => false,
    }
}
