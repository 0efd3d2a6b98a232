//! The order of a client's requests for one key: a read never sees what its client asked to be changed later.
//!
//! Usually that is so because requests are sent as they come, over connections that keep their order. But some reads
//! are asked of a server later: the next step of a get of many keys, a key that another server has missed, a key whose
//! server was lost. So a change of a key waits for its client's earlier reads that are known to ask later. Where it was
//! sent before that was known, the read is not asked again, as if nobody had the key.

use posthaste_wire::memcached::request::{Request, Verb};

use super::exchange::{NO_CLIENT, Plan};
use super::incoming::Incoming;
use super::reads::new_expiry;
use super::{Router, follow};
use crate::cache::pool::plain_key;
use crate::cache::table::Table;

impl Router {
    /// Notes that a read may be asked of a server after later requests of its client were sent.
    pub(super) fn note_asks_later(&mut self, id: u32) {
        let exchange = &mut self.exchanges[id];
        if !exchange.asks_later && !exchange.is_answered {
            exchange.asks_later = true;
            self.reads_that_ask_later += 1;
        }
    }

    /// Notes that a read is answered, and so is not asked of any server any more.
    pub(super) fn note_asks_no_more(&mut self, id: u32) {
        let asked_later = std::mem::take(&mut self.exchanges[id].asks_later);
        self.reads_that_ask_later -= usize::from(asked_later);
    }

    /// Returns whether a request changes a key that an earlier request of its client may still read.
    pub(super) fn waits_for_earlier_read(&self, incoming: &Incoming<'_>) -> bool {
        self.reads_that_ask_later > 0 && {
            let Incoming { origin, request, input } = *incoming;
            let mut earlier = self.answers.line(origin.client).filter(|id| self.exchanges[*id].asks_later);
            earlier.any(|id| is_any_key(self.table(), request, input, &mut |key| self.is_for(id, key)))
        }
    }

    /// Returns whether a later request of the client of a read changes a key on a server other than `asked`, from which
    /// the read has no answer.
    pub(super) fn is_overtaken(&self, id: u32, key: &[u8], asked: Option<usize>) -> bool {
        let client = self.exchanges[id].client;
        let may_reach_others = |later: u32| {
            let exchange = &self.exchanges[later];
            let pool = usize::from(exchange.destination.pool);
            !exchange.is_unclaimed || asked != Some(self.table_of(later).decider(pool, key).slot)
        };
        let mut behind = (client != NO_CLIENT).then(|| self.answers.line(client)).into_iter().flatten();
        behind.by_ref().find(|earlier| *earlier == id);
        behind.any(|later| self.changes_key(later, key) && may_reach_others(later))
    }

    /// Returns whether a later request changes one of these keys of a get: see [`Router::is_overtaken`].
    pub(super) fn is_place_overtaken(&self, id: u32, route: u16, place: u32, asked: usize) -> bool {
        let exchange = &self.exchanges[id];
        let renaming = &self.table_of(id).routes[usize::from(route)].renaming;
        let key = renaming.server_key(exchange.get.keys[place as usize].of(&exchange.bytes));
        self.is_overtaken(id, &key, Some(asked))
    }

    fn changes_key(&self, id: u32, key: &[u8]) -> bool {
        let exchange = &self.exchanges[id];
        exchange.request.is_some_and(|request| {
            request.verb == Verb::FlushAll || changes(&request, &exchange.bytes) && self.is_for(id, key)
        })
    }

    /// Returns whether a request under way is for this key, as servers know it.
    fn is_for(&self, id: u32, key: &[u8]) -> bool {
        let exchange = &self.exchanges[id];
        exchange.request.is_some_and(|request| match exchange.plan {
            Plan::Gather => {
                let table = self.table_of(id);
                let own = exchange.get.keys.iter().map(|own| own.of(&exchange.bytes));
                own.into_iter().any(|own| is_renamed(table, request.verb, own, key))
            }
            _ => plain_key(&request, &exchange.bytes, |own| own == key),
        })
    }
}

/// Returns whether a request may change what is stored, or for how long, under some key for which `is_it` is true. A
/// request to all keys changes any.
fn is_any_key(table: &Table, request: &Request, input: &[u8], is_it: &mut dyn FnMut(&[u8]) -> bool) -> bool {
    match request.verb {
        Verb::FlushAll => true,
        Verb::Gat | Verb::Gats => request.key_spans(input).any(|span| {
            let key = span.of(input);
            let route = table.route(request.verb, key);
            route.is_some_and(|route| is_it(&table.routes[route].renaming.server_key(key)))
        }),
        _ => changes(request, input) && plain_key(request, input, is_it),
    }
}

/// Returns whether a request changes what is stored under its keys, or for how long.
fn changes(request: &Request, input: &[u8]) -> bool {
    match request.verb {
        Verb::Get | Verb::Gets | Verb::MetaDebug => false,
        Verb::MetaGet => new_expiry(request, input).is_some() || follow::has_flag(request, input, b'N'),
        _ => true,
    }
}

/// Returns whether servers know a client's key by this name.
fn is_renamed(table: &Table, verb: Verb, own: &[u8], name: &[u8]) -> bool {
    let route = table.route(verb, own);
    route.is_some_and(|route| *table.routes[route].renaming.server_key(own) == *name)
}
