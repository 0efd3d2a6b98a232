//! The order of a client's requests for one key: a read never sees what its client asked to be changed later, and sees
//! what its client asked to be created earlier.
//!
//! Usually that is so because requests are sent as they come, over connections that keep their order. But some reads
//! are asked of a server later: the next step of a get of many keys, a key that another server has missed, a key whose
//! server was lost. So a change of a key waits for its client's earlier reads that are known to ask later. Where it was
//! sent before that was known, the read is not asked again, as if nobody had the key.
//!
//! An `mg` with `N` is both: what it creates on one replica comes to the others later (`creating.rs`). So everything that
//! its client asks of the key waits for it.

use std::borrow::Cow;

use posthaste_wire::memcached::request::{Request, Verb};

use super::exchange::{Exchange, NO_CLIENT, Plan};
use super::incoming::Incoming;
use super::touches::new_expiry;
use super::{Router, follow};
use crate::cache::limits;
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

    /// Returns whether a client has a read under way that may be asked of a server later.
    pub(super) fn has_read_that_asks_later(&self, client: usize) -> bool {
        self.reads_that_ask_later > 0
            && self.answers.line(client).any(|earlier| self.exchanges[earlier].asks_later)
    }

    /// Notes that a meta get may create its key on the deciding server, and later on others.
    pub(super) fn note_creates(&mut self, id: u32) {
        self.exchanges[id].meta_get.creates = true;
        self.creating += 1;
        self.note_asks_later(id);
    }

    /// Notes that a read is answered: what it was to create is everywhere, or is not to be there.
    pub(super) fn note_creates_no_more(&mut self, id: u32) {
        self.creating -= usize::from(self.exchanges[id].meta_get.creates);
    }

    /// Returns whether a read is for a key that an earlier request of its client may still create on some servers. Where
    /// that would take many comparisons, it waits without them.
    pub(super) fn waits_for_earlier_creation(&self, incoming: &Incoming<'_>) -> bool {
        self.creating > 0 && self.waits_for(incoming, |earlier| earlier.meta_get.creates)
    }

    /// Returns whether a request changes a key that an earlier request of its client may still read. Where that would take
    /// many comparisons, it waits without them.
    pub(super) fn waits_for_earlier_read(&self, incoming: &Incoming<'_>) -> bool {
        self.reads_that_ask_later > 0
            && changes(incoming.request, incoming.input)
            && self.waits_for(incoming, |earlier| earlier.asks_later)
    }

    /// Returns whether a request has a key in common with an earlier one of its client that is one of these and is not
    /// answered, or has too many to compare.
    fn waits_for(&self, incoming: &Incoming<'_>, is_one: impl Fn(&Exchange) -> bool) -> bool {
        let Incoming { origin, request, input } = *incoming;
        let is_open = |earlier: &Exchange| !earlier.is_answered && is_one(earlier);
        let line = self.answers.line(origin.client);
        let mut earlier = line.filter(|earlier| is_open(&self.exchanges[*earlier]));
        let mut comparisons = 0;
        earlier.any(|earlier| {
            comparisons += request.keys as usize * self.keys_of_request(earlier);
            comparisons > limits::COMPARISONS_PER_CHANGE_MAX
                || any_key(self.table(), request, input, &mut |key| self.concerns(earlier, key))
        })
    }

    /// Returns whether a later request of the client of a read changes a key on a server other than `asked`, from which
    /// the read has no answer.
    pub(super) fn is_overtaken(&self, id: u32, key: &[u8], asked: Option<usize>) -> bool {
        self.later_changes(id).any(|later| self.overtakes(later, key, asked))
    }

    /// Divides places of a get that a server has not answered: those whose keys are overtaken ([`Router::is_overtaken`]), and
    /// the others. If there are very many keys to compare them with, all count as overtaken.
    pub(super) fn split_overtaken(
        &self,
        id: u32,
        route: u16,
        places: Vec<u32>,
        asked: usize,
    ) -> (Vec<u32>, Vec<u32>) {
        let later: Vec<u32> = self.later_changes(id).collect();
        let keys: usize = later.iter().map(|later| self.keys_of_request(*later)).sum();
        if later.is_empty() {
            return (Vec::new(), places);
        }
        if places.len() * keys > limits::COMPARISONS_PER_LOSS_MAX {
            return (places, Vec::new());
        }
        let exchange = &self.exchanges[id];
        let renaming = &self.table_of(id).routes[usize::from(route)].renaming;
        places.into_iter().partition(|place| {
            let key = renaming.server_key(exchange.get.keys[*place as usize].of(&exchange.bytes));
            later.iter().any(|later| self.overtakes(*later, &key, Some(asked)))
        })
    }

    /// Returns the later requests of the client of a read that change something.
    fn later_changes(&self, id: u32) -> impl Iterator<Item = u32> {
        let client = self.exchanges[id].client;
        let line = (client != NO_CLIENT).then(|| self.answers.line(client)).into_iter().flatten();
        let later = line.skip_while(move |earlier| *earlier != id).skip(1);
        later.filter(|later| {
            let exchange = &self.exchanges[*later];
            exchange.request.is_some_and(|request| changes(&request, &exchange.bytes))
        })
    }

    /// Returns whether a request under way that changes something changes this key on a server other than `asked`.
    fn overtakes(&self, later: u32, key: &[u8], asked: Option<usize>) -> bool {
        let exchange = &self.exchanges[later];
        let is_flush = exchange.request.is_some_and(|request| request.verb == Verb::FlushAll);
        let may_reach_others = || {
            let pool = usize::from(exchange.destination.pool);
            !exchange.is_unclaimed || asked != Some(self.table_of(later).decider(pool, key).slot)
        };
        (is_flush || self.concerns(later, key)) && may_reach_others()
    }

    /// Returns how many keys a request under way has.
    fn keys_of_request(&self, id: u32) -> usize {
        self.exchanges[id].request.map_or(0, |request| request.keys as usize)
    }

    /// Returns whether a request under way has this key, as servers know it.
    fn concerns(&self, id: u32, key: &[u8]) -> bool {
        let exchange = &self.exchanges[id];
        exchange.request.is_some_and(|request| match exchange.plan {
            Plan::Gather => exchange.get.keys.iter().any(|asked| {
                let asked = asked.of(&exchange.bytes);
                server_key(self.table_of(id), request.verb, asked).is_some_and(|asked| *asked == *key)
            }),
            _ => plain_key(&request, &exchange.bytes, |asked| asked == key),
        })
    }
}

/// Returns whether `is_it` is true for some key of a request, as servers know it. A request for all keys has any.
fn any_key(table: &Table, request: &Request, input: &[u8], is_it: &mut dyn FnMut(&[u8]) -> bool) -> bool {
    match request.verb {
        Verb::FlushAll => true,
        Verb::Get | Verb::Gets | Verb::Gat | Verb::Gats => request
            .key_spans(input)
            .any(|asked| server_key(table, request.verb, asked.of(input)).is_some_and(|asked| is_it(&asked))),
        // Its route has renamed it already.
        _ => plain_key(request, input, is_it),
    }
}

/// Returns whether a request may change what is stored under its keys, or for how long.
fn changes(request: &Request, input: &[u8]) -> bool {
    match request.verb {
        Verb::Get | Verb::Gets | Verb::MetaDebug => false,
        Verb::MetaGet => new_expiry(request, input).is_some() || follow::has_flag(request, input, b'N'),
        _ => true,
    }
}

/// Returns the name by which servers know a client's key; `None`: no route takes it.
fn server_key<'a>(table: &'a Table, verb: Verb, asked: &'a [u8]) -> Option<Cow<'a, [u8]>> {
    table.route(verb, asked).map(|route| table.routes[route].renaming.server_key(asked))
}
