//! Shadow requests: those for a share of the keys, always the same ones, are repeated in another pool to try it. Their
//! replies are dropped, and a pool that cannot keep up is spared.

use posthaste_wire::memcached::request::Request;

use super::Router;
use super::exchange::Plan;
use super::lane::{Purpose, Shape};
use super::writes::{self, hash};
use crate::cache::limits;
use crate::cache::pool::plain_key;

/// Returns whether a key is in this share of all keys.
#[must_use]
pub fn shadows_key(share: f64, key: &[u8]) -> bool {
    // Other bits than those that claims go by.
    let place = (hash(key) >> 16) as u32;
    f64::from(place) / (f64::from(u32::MAX) + 1.0) < share
}

impl Router {
    /// Repeats a request with one key, if its route says so.
    pub(super) fn shadow(&mut self, route: usize, request: &Request, input: &[u8]) {
        let is_write = writes::is_write(request);
        let mut servers = plain_key(request, input, |key| self.shadows(route, key, is_write));
        // A server that has not reported its version may take the data for commands, at the cost of others' replies.
        servers.retain(|server| !request.verb.is_meta() || self.servers[*server].dialect.is_current());
        for server in servers {
            let shape = writes::write_command(request, input, None, &mut self.lanes[server].output);
            self.expect_unused(server, shape);
        }
    }

    /// Repeats a get of one key, if its route says so.
    pub(super) fn shadow_key(&mut self, route: usize, key: &[u8]) {
        for server in self.shadows(route, key, false) {
            let output = &mut self.lanes[server].output;
            [b"get ", key, b"\r\n"].iter().for_each(|part| output.extend_from_slice(part));
            self.expect_unused(server, Shape::Values);
        }
    }

    fn expect_unused(&mut self, server: usize, shape: Shape) {
        let id = self.begin_own(Plan::Drain);
        self.expect(id, server, Purpose::Unused, shape);
    }

    /// The servers that a request is repeated on.
    fn shadows(&self, route: usize, key: &[u8], is_write: bool) -> Vec<usize> {
        let table = self.table();
        let Some(shadow) = table.routes[route].shadow else { return Vec::new() };
        if !shadows_key(shadow.share, key) {
            return Vec::new();
        }
        let mut servers = Vec::new();
        if is_write {
            table.each_copy(shadow.pool, key, &mut |server| servers.push(server.slot));
        } else {
            servers.push(table.pools[shadow.pool].owner_to_read(key).slot);
        }
        servers.retain(|server| {
            let lane = &self.lanes[*server];
            let is_free = lane.expected.len() < limits::SHADOWS_MAX
                && lane.output.len() + lane.gets.len() <= limits::SHADOW_BYTES_MAX;
            is_free && !self.servers[*server].health.is_away()
        });
        servers
    }
}
