//! Reads: whom they ask.

use std::sync::atomic::Ordering;

use posthaste_wire::memcached::request::{Request, Verb};
use posthaste_wire::span::Span;

use super::exchange::Plan;
use super::{ASIDE, Asked, Router, Shape, writes};
use crate::cache::costs::Way;
use crate::cache::limits;
use crate::cache::pool::{Multiget, Reads, Writes, plain_key};

impl Router {
    /// A get of any number of keys.
    pub(super) fn get(&mut self, client: usize, request: &Request, input: &[u8], received: u64) -> Asked {
        if (0..self.lanes.len()).any(|server| self.is_crowded(server)) {
            return Asked::Later;
        }
        let id = self.begin(client, request, &input[..request.line.len as usize], received);
        self.exchange(id).keys.extend(request.key_spans(input));
        self.line_up(id);
        self.ask_step(id);
        self.step_on(id);
        Asked::Taken
    }

    /// Asks for the next keys of a get.
    pub(super) fn ask_step(&mut self, id: u32) {
        let exchange = &self.exchanges[id as usize];
        let Some(request) = exchange.request else { return };
        let from = exchange.gather.assigned();
        let keys = (exchange.keys.len() - from).min(limits::KEYS_PER_STEP);
        let first_share = exchange.servers.len();
        if self.goes_to_owner(&request) {
            self.assign_to_owners(id, from, keys);
        } else if keys > 1 && self.splits(id, keys) {
            self.assign_evenly(id, keys);
        } else {
            let server = self.reader();
            self.assign_to(id, server, keys);
        }
        for share in first_share..self.exchanges[id as usize].servers.len() {
            self.send_share(id, share as u16);
        }
    }

    /// Whether it matters which replica is asked, or only one has the key.
    fn goes_to_owner(&self, request: &Request) -> bool {
        let rules = &self.pool.rules;
        // Tokens of gets are good only on the server that decides cas.
        let needs_decider = matches!(request.verb, Verb::Gets | Verb::Gats);
        self.lanes.len() > 1
            && (rules.writes == Writes::Owner || rules.reads == Reads::Owner || needs_decider)
    }

    fn assign_to_owners(&mut self, id: u32, from: usize, keys: usize) {
        self.share_of_server.fill(ASIDE);
        let exchange = &mut self.exchanges[id as usize];
        for place in from..from + keys {
            let server = self.pool.owner(exchange.keys[place].of(&exchange.bytes));
            let share = &mut self.share_of_server[server];
            if *share == ASIDE {
                *share = exchange.gather.share();
                exchange.servers.push(server as u16);
            }
            exchange.gather.assign(*share);
        }
    }

    /// Cuts keys into equal parts, the remainder one each to the first: 5 keys on 3 servers are 2, 2 and 1.
    fn assign_evenly(&mut self, id: u32, keys: usize) {
        let pool = &self.pool;
        let exchange = &mut self.exchanges[id as usize];
        let parts = pool.health.live().min(keys).max(1);
        let servers = (0..pool.len()).filter(|server| pool.health.is_live(*server)).chain([0]);
        for (part, server) in servers.take(parts).enumerate() {
            let share = exchange.gather.share();
            exchange.servers.push(server as u16);
            let size = keys / parts + usize::from(part < keys % parts);
            (0..size).for_each(|_| exchange.gather.assign(share));
        }
    }

    fn assign_to(&mut self, id: u32, server: usize, keys: usize) {
        let exchange = &mut self.exchanges[id as usize];
        let share = exchange.gather.share();
        exchange.servers.push(server as u16);
        (0..keys).for_each(|_| exchange.gather.assign(share));
    }

    fn splits(&mut self, id: u32, keys: usize) -> bool {
        match self.pool.rules.multiget {
            _ if self.lanes.len() == 1 => false,
            Multiget::Whole => false,
            Multiget::Split => true,
            Multiget::Auto => {
                let way = self.pool.costs.choose(keys);
                self.exchange(id).way = Some(way);
                way == Way::Split
            }
        }
    }

    /// The replica that reads next.
    fn reader(&self) -> usize {
        let count = self.lanes.len();
        if count == 1 {
            return 0;
        }
        let turn = self.pool.next_turn() % count;
        let servers = (0..count).map(|step| (turn + step) % count);
        let mut live = servers.filter(|server| self.pool.health.is_live(*server));
        match self.pool.rules.reads {
            // Turns settle which of several with equally little to do is taken.
            Reads::Nearest => live.min_by_key(|server| self.lanes[*server].expected.len()),
            _ => live.next(),
        }
        .unwrap_or(turn)
    }

    /// Sends a share of a get to its server.
    pub(super) fn send_share(&mut self, id: u32, share: u16) {
        let exchange = &mut self.exchanges[id as usize];
        let Some(request) = exchange.request else { return };
        let server = usize::from(exchange.servers[usize::from(share)]);
        if !self.pool.health.is_live(server) {
            return self.fail_share(id, share, server);
        }
        let places = exchange.gather.keys(share);
        let output = &mut self.lanes[server].output;
        if places.len() == exchange.keys.len() {
            output.extend_from_slice(request.line.of(&exchange.bytes));
        } else {
            output.extend_from_slice(&exchange.bytes[..request.key.start as usize]);
            for place in places {
                output.extend_from_slice(exchange.keys[*place as usize].of(&exchange.bytes));
                output.push(b' ');
            }
        }
        output.extend_from_slice(b"\r\n");
        self.pool.counts[server].keys.fetch_add(places.len() as u64, Ordering::Relaxed);
        self.expect(id, server, share, Shape::Values);
        if matches!(request.verb, Verb::Gat | Verb::Gats) && self.pool.is_replicated() {
            self.touch_others(id, share, server);
        }
    }

    /// A gat moves the expiry on the server that answers; the other replicas must hear of it.
    fn touch_others(&mut self, id: u32, share: u16, server: usize) {
        let exchange = &self.exchanges[id as usize];
        let places = exchange.gather.keys(share).to_vec();
        for other in (0..self.lanes.len()).filter(|other| *other != server) {
            if !self.pool.health.is_live(other) {
                continue;
            }
            for place in &places {
                let exchange = &self.exchanges[id as usize];
                let Some(request) = exchange.request else { return };
                let words = &exchange.bytes[..request.key.start as usize];
                let expiry = words.trim_ascii_end().rsplit(|byte| *byte == b' ').next().unwrap_or_default();
                let key = exchange.keys[*place as usize].of(&exchange.bytes);
                let output = &mut self.lanes[other].output;
                [&b"touch "[..], key, b" ", expiry, b"\r\n"]
                    .iter()
                    .for_each(|part| output.extend_from_slice(part));
                self.expect(id, other, ASIDE, Shape::Line);
            }
        }
    }

    /// `mg` and `me`: one key, one server.
    pub(super) fn meta_get(
        &mut self,
        client: usize,
        request: &Request,
        input: &[u8],
        received: u64,
    ) -> Asked {
        let decides = request.verb == Verb::MetaDebug || writes::decides(request, input);
        let server = if decides || self.goes_to_owner(request) {
            plain_key(request, input, |key| self.pool.owner(key))
        } else {
            self.reader()
        };
        if self.is_crowded(server) {
            return Asked::Later;
        }
        let id = self.begin(client, request, &input[..request.line.len as usize], received);
        // A read that may be asked of any replica may be asked again.
        self.exchange(id).tries = if decides { usize::MAX } else { 0 };
        self.exchange(id).plan = Plan::Relay;
        self.line_up(id);
        self.send_whole(id, server, 0);
        if self.pool.is_replicated() && request.verb == Verb::MetaGet {
            self.meta_touch_others(id, server);
        }
        self.step_on(id);
        Asked::Taken
    }

    /// The same for `mg` with a new time to live.
    fn meta_touch_others(&mut self, id: u32, server: usize) {
        let exchange = &self.exchanges[id as usize];
        let Some(request) = exchange.request else { return };
        let is_expiry = |word: &Span| word.of(&exchange.bytes).starts_with(b"T");
        let Some(expiry) = request.words_after_key(&exchange.bytes).find(is_expiry) else { return };
        let expiry = expiry.of(&exchange.bytes).to_vec();
        let key = request.key.of(&exchange.bytes).to_vec();
        for other in (0..self.lanes.len()).filter(|other| *other != server) {
            if self.pool.health.is_live(other) {
                let output = &mut self.lanes[other].output;
                let base64: &[u8] = if request.base64 { b" b" } else { b"" };
                let parts = [&b"mg "[..], &key, b" ", &expiry, base64, b"\r\n"];
                parts.iter().for_each(|part| output.extend_from_slice(part));
                self.expect(id, other, ASIDE, Shape::Meta);
            }
        }
    }

    /// Sends the whole request to a server, or notes that the server is not there.
    pub(super) fn send_whole(&mut self, id: u32, server: usize, part: u16) {
        let exchange = &self.exchanges[id as usize];
        let Some(request) = exchange.request else { return };
        if !self.pool.health.is_live(server) && !self.must_send(id, server) {
            return self.fail_part(id, part, server);
        }
        let exchange = &self.exchanges[id as usize];
        let shape = writes::command(&request, &exchange.bytes, &mut self.lanes[server].output);
        self.expect(id, server, part, shape);
    }
}
