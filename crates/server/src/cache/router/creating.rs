//! Copies what an `mg` with `N` has created on the deciding server to the other replicas.
//!
//! A read claims no key, or the many readers of a hot key would take turns. The key is claimed only when a reader is
//! told that it has created it (`W`). By then other requests may have written the key on every copy: so the decider is
//! asked once more, and the other copies get the key only if the decider still holds what was created.

use super::exchange::Plan;
use super::lane::Purpose;
use super::writes::hash;
use super::{Router, follow};
use crate::cache::claims::ClaimMode;
use crate::cache::pool::plain_key;

impl Router {
    /// Asks the decider whether it still holds what an `mg` has created there. Does nothing while another request has
    /// claimed the key, since all copies get what that one writes.
    pub(super) fn create_elsewhere(&mut self, id: u32, decider: usize) {
        // Who goes by a newer table may rely on it that no more keys are claimed by an earlier one.
        if self.exchanges[id].table != self.current || !self.is_handed_over() {
            return;
        }
        let exchange = &self.exchanges[id];
        let Some(request) = exchange.request else { return };
        let hash = plain_key(&request, &exchange.bytes, hash);
        let Some(claim) = self.fleet.claims.claim_if_free(hash, self.number, self.now) else { return };
        let shape = follow::ask_size(&request, &exchange.bytes, &mut self.lanes[decider].output);
        self.exchanges[id].plan = Plan::ConfirmCreated;
        self.hold_claim(id, claim);
        self.note_mark(id, ClaimMode::Exclusive);
        self.expect(id, decider, Purpose::Outcome, shape);
    }

    /// Has the other copies create what was created, whatever they held, if the decider's `reply` tells that it still
    /// holds it.
    pub(super) fn create_if_kept(&mut self, id: u32, decider: usize, reply: &[u8]) {
        let exchange = &mut self.exchanges[id];
        exchange.plan = Plan::Drain;
        let Some(request) = exchange.request else { return };
        // With `R`, `W` may also mean that the client is to replace an old value, which the other copies hold too.
        let may_be_old = follow::has_flag(&request, &exchange.bytes, b'R');
        let is_kept = if may_be_old { has_word(reply, b"HD") } else { is_placeholder(reply) };
        if !is_kept {
            return;
        }
        let max_life = self.max_life(self.exchanges[id].destination.expiry_s);
        self.each_copy(id, |router, server| {
            if server == decider || router.note_if_missed(id, server) {
                return;
            }
            if !may_be_old {
                router.delete(id, server);
            }
            let bytes = &router.exchanges[id].bytes;
            let shape = follow::create(&request, bytes, max_life, &mut router.lanes[server].output);
            router.expect(id, server, Purpose::Unused, shape);
        });
    }
}

/// Returns whether an `mg` has created its key, by the reply: its client is to fill it (`W`), and it is not stale (`X`).
pub(super) fn is_new(reply: &[u8]) -> bool {
    has_word(reply, b"W") && !has_word(reply, b"X")
}

/// Returns whether a reply describes an empty value that one client is to fill (`Z`).
fn is_placeholder(reply: &[u8]) -> bool {
    has_word(reply, b"s0") && has_word(reply, b"Z")
}

/// Returns whether a word stands in the line of a reply.
fn has_word(reply: &[u8], word: &[u8]) -> bool {
    let line = reply.split(|byte| *byte == b'\r').next().unwrap_or_default();
    line.split(|byte| *byte == b' ').any(|other| other == word)
}
