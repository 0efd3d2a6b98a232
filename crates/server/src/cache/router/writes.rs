//! Writes: to the owner, or to all replicas so that they stay alike.
//!
//! What every replica must do alike whatever it holds (`set`, `delete`, `touch`) is sent to all at once. What depends on
//! what a server holds (`add`, `cas`, `incr` and their like) is decided by one, the key's owner, and the others are then
//! told what came of it. Either way the key is claimed, so that all replicas see all its writes in one order.

use posthaste_wire::memcached::request::{Request, Verb};

use super::exchange::Plan;
use super::{Asked, Router, Shape};
use crate::cache::health::Missed;
use crate::cache::pool::plain_key;

impl Router {
    /// A command that changes one key.
    pub(super) fn write(&mut self, client: usize, request: &Request, input: &[u8], received: u64) -> Asked {
        let (owner, hash) = plain_key(request, input, |key| (self.pool.owner(key), hash(key)));
        if !self.pool.is_replicated() {
            return self.write_to_owner(client, request, input, received, owner);
        }
        if (0..self.lanes.len()).any(|server| self.is_crowded(server)) {
            return Asked::Later;
        }
        let decides = decides(request, input);
        let Some(claim) = self.pool.claims.claim(hash, self.who, decides) else { return Asked::Later };
        // What follows a decision repeats the data.
        let kept = if decides {
            (request.data.start + request.data.len).max(request.line.len)
        } else {
            request.line.len
        };
        let id = self.begin(client, request, &input[..kept as usize], received);
        self.exchange(id).claim = Some(claim);
        self.line_up(id);
        if decides {
            self.exchange(id).plan = Plan::Decide;
            // What comes next may read another replica, which has not heard of this yet.
            self.answers.fence(client, true);
            self.note_missed(id);
            self.send_whole(id, owner, owner as u16);
        } else {
            self.exchange(id).plan = Plan::Fan;
            for server in self.targets(id) {
                let shape = command(request, input, &mut self.lanes[server].output);
                self.expect(id, server, server as u16, shape);
            }
        }
        self.step_on(id);
        Asked::Taken
    }

    fn write_to_owner(
        &mut self,
        client: usize,
        request: &Request,
        input: &[u8],
        received: u64,
        owner: usize,
    ) -> Asked {
        if self.is_crowded(owner) {
            return Asked::Later;
        }
        let id = self.begin(client, request, &input[..request.line.len as usize], received);
        let exchange = self.exchange(id);
        (exchange.plan, exchange.tries) = (Plan::Relay, usize::MAX);
        self.line_up(id);
        if self.pool.health.is_live(owner) || self.must_send(id, owner) {
            let shape = command(request, input, &mut self.lanes[owner].output);
            self.expect(id, owner, 0, shape);
        } else {
            self.fail_part(id, 0, owner);
        }
        self.step_on(id);
        Asked::Taken
    }

    /// `flush_all`: to every server, whatever the rules for keys.
    pub(super) fn flush_all(
        &mut self,
        client: usize,
        request: &Request,
        input: &[u8],
        received: u64,
    ) -> Asked {
        let id = self.begin(client, request, &input[..request.line.len as usize], received);
        self.exchange(id).plan = Plan::Fan;
        self.line_up(id);
        for server in self.targets(id) {
            let shape = command(request, input, &mut self.lanes[server].output);
            self.expect(id, server, server as u16, shape);
        }
        self.step_on(id);
        Asked::Taken
    }

    /// The servers that a write goes to; those that are away and would get it too have it noted.
    pub(super) fn targets(&self, id: u32) -> Vec<usize> {
        let exchange = &self.exchanges[id as usize];
        let Some(request) = exchange.request else { return Vec::new() };
        let is_live = |server: &usize| self.pool.health.is_live(*server) || self.must_send(id, *server);
        if self.pool.is_replicated() || request.verb == Verb::FlushAll {
            return (0..self.lanes.len()).filter(is_live).collect();
        }
        let owner = plain_key(&request, &exchange.bytes, |key| self.pool.owner(key));
        Some(owner).filter(is_live).into_iter().collect()
    }

    /// Notes a write for the replicas that are away.
    fn note_missed(&self, id: u32) {
        for server in (0..self.lanes.len()).filter(|server| !self.pool.health.is_live(*server)) {
            // If it is there again, it gets the decision with the others.
            let _ = self.must_send(id, server);
        }
    }

    /// Notes the key of a write for a server that is away, unless it is there again.
    pub(super) fn must_send(&self, id: u32, server: usize) -> bool {
        let exchange = &self.exchanges[id as usize];
        exchange.changes() && !self.pool.health.miss(server, self.missed(id))
    }

    /// What a server misses that does not get this write.
    pub(super) fn missed(&self, id: u32) -> Option<Missed> {
        let exchange = &self.exchanges[id as usize];
        let request = exchange.request.filter(|request| request.verb != Verb::FlushAll)?;
        Some(Missed { key: request.key.of(&exchange.bytes).to_vec(), base64: request.base64 })
    }
}

/// Whether a request changes what is stored under its key.
pub(super) fn is_write(request: &Request) -> bool {
    !request.verb.is_get() && !matches!(request.verb, Verb::MetaGet | Verb::MetaDebug)
}

/// Whether the outcome depends on what a server holds, so that one must decide for all.
pub(super) fn decides(request: &Request, input: &[u8]) -> bool {
    let has = |flags: &[u8]| {
        let mut words = request.words_after_key(input).map(|word| word.of(input));
        words.any(|word| word.first().is_some_and(|flag| flags.contains(flag)) && word != b"MS")
    };
    match request.verb {
        Verb::Set | Verb::Delete | Verb::Touch => false,
        // Leases and tokens live on one server.
        Verb::MetaGet => has(b"cNR"),
        Verb::MetaSet => has(b"CIM"),
        Verb::MetaDelete => has(b"CI"),
        _ => true,
    }
}

/// Writes a request as it is sent to a server: always to be answered, and a quiet one with a marker after it, so that
/// the server itself decides what it says.
pub(super) fn command(request: &Request, bytes: &[u8], output: &mut Vec<u8>) -> Shape {
    let line = request.line.of(bytes);
    let end = request.noreply.map_or(line.len(), |word| word.start as usize);
    output.extend_from_slice(&line[..end]);
    output.extend_from_slice(b"\r\n");
    output.extend_from_slice(request.data.of(bytes));
    match request.verb {
        verb if !verb.is_meta() => Shape::Line,
        _ if request.quiet => {
            output.extend_from_slice(b"mn\r\n");
            Shape::Quiet
        }
        _ => Shape::Meta,
    }
}

/// A hash for claims: FNV-1a, cut down with its high bits mixed in.
fn hash(key: &[u8]) -> u64 {
    let hash = key.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash ^ (hash >> 32)
}
