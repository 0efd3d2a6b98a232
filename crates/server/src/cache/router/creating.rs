//! What an `mg` with `N` creates on the server that decides is created on the other copies too.
//!
//! A read claims nothing, or many who ask for one hot key would take turns. So the key is claimed only when one of them is told
//! that it has created it (`W`), and others may have written it since on every copy: the decider is asked once more, and only if
//! it holds what was created do the others get it.

use super::exchange::Plan;
use super::lane::{ASIDE, OUTCOME};
use super::writes::hash;
use super::{Router, follow};
use crate::cache::pool::plain_key;

impl Router {
    /// The decider has created the key of an `mg`: it is asked whether it still holds that. Not while somebody writes the key,
    /// for then all copies get what is written.
    pub(super) fn create_elsewhere(&mut self, id: u32, decider: usize) {
        if !self.is_handed_over() {
            return;
        }
        let exchange = &self.exchanges[id as usize];
        let Some(request) = exchange.request else { return };
        let hash = plain_key(&request, &exchange.bytes, hash);
        let Some(claim) = self.fleet.claims.claim_if_free(hash, self.who, self.now) else { return };
        let shape = follow::ask_size(&request, &exchange.bytes, &mut self.lanes[decider].output);
        let exchange = self.exchange(id);
        (exchange.claim, exchange.plan) = (Some(claim), Plan::Create);
        self.note_mark(id, true);
        self.expect(id, decider, OUTCOME, shape);
    }

    /// The decider says what it holds: the other copies create it, whatever they held, if it is what was created.
    pub(super) fn create_if_kept(&mut self, id: u32, decider: usize, said: &[u8]) {
        let exchange = self.exchange(id);
        exchange.plan = Plan::Clean;
        let Some(request) = exchange.request else { return };
        // The first may also be told to replace what is there (R): then it is what the others hold too.
        let may_be_old = follow::has_flag(&request, &exchange.bytes, b'R');
        let is_kept = if may_be_old { has(said, b"HD") } else { is_placeholder(said) };
        if !is_kept {
            return;
        }
        let most = self.most(self.exchanges[id as usize].aim.expiry_s);
        self.each_copy(id, |router, server| {
            if server == decider || !router.receives(id, server) {
                return;
            }
            if !may_be_old {
                router.delete(id, server);
            }
            let bytes = &router.exchanges[id as usize].bytes;
            let shape = follow::create(&request, bytes, most, &mut router.lanes[server].output);
            router.expect(id, server, ASIDE, shape);
        });
    }
}

/// Whether an `mg` that creates what it misses has, by the reply: whoever asked is the first (`W`) and it was not stale (`X`).
pub(super) fn is_new(reply: &[u8]) -> bool {
    has(reply, b"W") && !has(reply, b"X")
}

/// Whether a reply tells of an empty value that one client has been told to fill (`Z`).
fn is_placeholder(reply: &[u8]) -> bool {
    has(reply, b"s0") && has(reply, b"Z")
}

/// Whether a word stands in the line of a reply.
fn has(reply: &[u8], word: &[u8]) -> bool {
    let line = reply.split(|byte| *byte == b'\r').next().unwrap_or_default();
    line.split(|byte| *byte == b' ').any(|other| other == word)
}
