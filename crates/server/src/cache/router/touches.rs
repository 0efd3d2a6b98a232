//! Expiries that reads set, by `gat` and by `mg` with `T`: the other servers from which the key may be read get them too.

use posthaste_wire::memcached::request::{Request, Verb};
use posthaste_wire::span::Span;

use super::Router;
use super::exchange::MissedBy;
use super::expiry::capped;
use super::lane::{Purpose, Shape, Words};
use crate::cache::missed_writes::{MissedKey, MissedWrite};

impl Router {
    /// Sends the expiry that a `gat` sets on one server to the others from which the key may be read.
    /// The servers of the first pool are among them if they were away.
    pub(super) fn touch_others(&mut self, id: u32, share: u16, server: usize) {
        let target = self.exchanges[id].get.shares[usize::from(share)];
        let pool = match target.missed_by {
            Some(MissedBy::SilentPool) => self.table_of(id).routes[usize::from(target.route)].pool,
            _ => usize::from(target.pool),
        };
        if !self.table_of(id).has_several(pool) {
            return;
        }
        let places = self.exchanges[id].get.gather.keys(share).to_vec();
        for place in &places {
            let exchange = &self.exchanges[id];
            let Some(expiry) = exchange.new_expiry() else { return };
            let table = self.table_of(id);
            let expiry = capped(expiry, self.max_life(target.expiry_s));
            let key = exchange.get.keys[*place as usize].of(&exchange.bytes);
            let key = table.routes[usize::from(target.route)].renaming.server_key(key);
            let touch = [b"touch ", &key[..], b" ", &expiry, b"\r\n"].concat();
            let missed = MissedKey { key: key.to_vec(), base64: false };
            let mut others = Vec::new();
            table.each_copy(pool, &key, &mut |other| others.push(other.slot));
            table.each_old(pool, &key, &mut |other| others.push(other.slot));
            others.retain(|other| *other != server);
            self.touch(id, &others, &touch, Shape::Line(Words::Touched), &missed);
        }
    }

    /// Sends the time to live that an `mg` sets on one server to the others from which the key may be read. A server
    /// that is away is among these: the key is noted for it. If no server could be asked, nothing is changed anywhere.
    pub(super) fn meta_touch_others(&mut self, id: u32) {
        let exchange = &self.exchanges[id];
        let (Some(request), Some(asked)) = (exchange.request, exchange.meta_get.asked) else { return };
        if !self.table_of(id).has_several(usize::from(exchange.destination.pool)) {
            return;
        }
        let Some(expiry) = new_expiry(&request, &exchange.bytes) else { return };
        let expiry = capped(&expiry.of(&exchange.bytes)[1..], self.max_life(exchange.destination.expiry_s));
        let base64 = request.base64_flag();
        let key = request.key.of(&exchange.bytes);
        let touch = [b"mg ", key, b" T", &expiry, base64, b"\r\n"].concat();
        let missed = MissedKey::of_request(&request, &exchange.bytes);
        let mut others = Vec::new();
        self.each_copy(id, |_, other| others.push(other));
        self.each_old(id, |_, other| others.push(other));
        others.retain(|other| *other != usize::from(asked));
        self.touch(id, &others, &touch, Shape::Meta, &missed);
    }

    /// Sends these servers a command that changes a key's expiry; for those that are away, the key is noted.
    fn touch(&mut self, id: u32, others: &[usize], command: &[u8], shape: Shape, key: &MissedKey) {
        for other in others {
            let health = &self.servers[*other].health;
            if !health.is_away() || !health.note_missed_write(MissedWrite::Key(key.clone())) {
                self.lanes[*other].output.extend_from_slice(command);
                self.expect(id, *other, Purpose::Unused, shape);
            }
        }
    }

    /// Calls `each` with the keys whose expiry an exchange changes on several servers.
    pub(super) fn each_touched(&self, id: u32, each: &mut impl FnMut(MissedKey)) {
        let exchange = &self.exchanges[id];
        let (Some(request), table) = (exchange.request, self.table_of(id)) else { return };
        match request.verb {
            Verb::Gat | Verb::Gats => {
                for (number, share) in exchange.get.shares.iter().enumerate() {
                    let renaming = &table.routes[usize::from(share.route)].renaming;
                    let places = exchange.get.gather.keys(number as u16).iter();
                    let keys = places.map(|place| exchange.get.keys[*place as usize].of(&exchange.bytes));
                    if table.has_several(usize::from(share.pool)) || share.missed_by.is_some() {
                        keys.map(|key| renaming.server_key(key).into_owned())
                            .for_each(|key| each(MissedKey { key, base64: false }));
                    }
                }
            }
            Verb::MetaGet
                if new_expiry(&request, &exchange.bytes).is_some()
                    && table.has_several(usize::from(exchange.destination.pool)) =>
            {
                each(MissedKey::of_request(&request, &exchange.bytes));
            }
            _ => {}
        }
    }
}

/// The flag by which an `mg` sets a new time to live.
pub(super) fn new_expiry(request: &Request, bytes: &[u8]) -> Option<Span> {
    request.words_after_key(bytes).find(|word| word.of(bytes).starts_with(b"T"))
}
