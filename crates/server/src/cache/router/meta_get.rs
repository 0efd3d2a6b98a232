//! Meta gets: one key, asked of one server.

use std::sync::atomic::Ordering;

use posthaste_wire::memcached::request::{Request, Verb};

use super::exchange::{Destination, Plan};
use super::incoming::Incoming;
use super::lane::Purpose;
use super::touches::new_expiry;
use super::{Admission, Router, follow, writes};
use crate::cache::limits;
use crate::cache::pool::plain_key;
use crate::cache::table::Access;

impl Router {
    /// Takes an `mg` or `me`: one key, asked of one server.
    pub(super) fn meta_get(&mut self, route: usize, incoming: &Incoming<'_>) -> Admission {
        let Incoming { request, input, .. } = *incoming;
        // Checked before the serving pool is found, since that is counted.
        let touches = new_expiry(request, input).is_some();
        let is_held_up =
            self.is_any_crowded() && plain_key(request, input, |key| self.leads_to_crowded(route, key));
        let comes_too_early =
            self.waits_for_earlier_read(incoming) || self.waits_for_earlier_creation(incoming);
        if is_held_up || touches && self.fleet.are_writes_paused() || comes_too_early {
            return Admission::RetryLater;
        }
        let decides = request.verb == Verb::MetaDebug || writes::decides(request, input);
        let table = self.table();
        let pool = table.routes[route].pool;
        let serving =
            plain_key(request, input, |key| table.serving_pool(pool, key, Access::of(decides), self.now));
        if touches {
            table.prolong(pool, serving, self.now);
        }
        let asked_pool = &table.pools[serving.pool];
        let server = if decides {
            plain_key(request, input, |key| table.decider(serving.pool, key).slot)
        } else if asked_pool.reads_owner() {
            plain_key(request, input, |key| asked_pool.owner_to_read(key).slot)
        } else {
            asked_pool.reader(|slot| self.lanes[slot].expected.len()).slot
        };
        let id = self.begin(incoming, incoming.line());
        let creates =
            decides && follow::has_flag(request, input, b'N') && self.table().has_copies(serving.pool);
        let exchange = &mut self.exchanges[id];
        exchange.destination =
            Destination { route: route as u16, pool: serving.pool as u16, expiry_s: serving.expiry_s };
        // What only the decider knows cannot be asked of another replica.
        exchange.is_bound = decides;
        exchange.plan = Plan::Relay;
        if creates {
            self.note_creates(id);
        }
        self.note_fall_through(id, server);
        self.enqueue(id);
        self.send_whole(id, server);
        if touches && request.verb == Verb::MetaGet {
            if is_surely_understood(request, input) {
                self.meta_touch_others(id);
            } else {
                self.exchanges[id].meta_get.touches_later = true;
                // What is sent then must not come behind a later change of the key.
                self.note_asks_later(id);
            }
        }
        self.advance(id);
        Admission::Accepted
    }

    /// Sends the whole request to a server, or fails it there. Returns whether it was sent to this server.
    pub(super) fn send_whole(&mut self, id: u32, server: usize) -> bool {
        let exchange = &self.exchanges[id];
        let Some(request) = exchange.request else { return false };
        if self.is_full(server) || self.note_if_missed(id, server) {
            self.fail_whole(id, server);
            return false;
        }
        let exchange = &self.exchanges[id];
        let max_life = self.max_life(exchange.destination.expiry_s);
        let shape =
            writes::write_command(&request, &exchange.bytes, max_life, &mut self.lanes[server].output);
        if matches!(request.verb, Verb::MetaGet | Verb::MetaDebug) {
            self.servers[server].counts.keys.fetch_add(1, Ordering::Relaxed);
            self.exchanges[id].meta_get.asked = Some(server as u16);
        }
        self.expect(id, server, Purpose::Request, shape);
        true
    }
}

/// Returns whether every memcached that knows meta commands understands this `mg`, so that none of them refuses it:
/// each flag is known, and there once. (It refuses a time to live that is no number in the command to the other servers
/// too.)
fn is_surely_understood(request: &Request, bytes: &[u8]) -> bool {
    let mut seen = 0_u64;
    request.words_after_key(bytes).map(|word| word.of(bytes)).all(|flag| {
        let is_known = match flag[0] {
            b'O' => flag.len() <= limits::OPAQUE_BYTES_MAX,
            letter => b"bcfhklqstvT".contains(&letter),
        };
        let bit = 1 << (flag[0] % 64);
        let is_first = seen & bit == 0;
        seen |= bit;
        is_known && is_first
    })
}
