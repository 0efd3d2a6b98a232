//! Decisions that failed: what happens to the other copies when the decider did not do what it was asked.
//!
//! - If it has nothing under the key (it may have evicted it), the client is told so. The other copies delete what they
//!   have, which is older than what the client expects.
//! - They also delete it if the decider failed to store a value and may have dropped the one before.
//! - If the decider has a value, the others have the same or lack it.

use posthaste_wire::memcached::request::{Request, Verb};

use super::exchange::{Reply, Verdict};
use super::replies::lacks;
use super::{Router, follow};

impl Router {
    /// Puts the other copies right after the decider did not do what it was asked; `decided` is its reply.
    pub(super) fn note_undone(&mut self, id: u32, request: &Request, decided: Reply) {
        let exchange = &self.exchanges[id];
        let reply = exchange.write.bytes_of(&decided);
        if has_nothing(request, &exchange.bytes, reply) {
            self.delete_copies_where(id, |server| server != usize::from(decided.server));
        } else if may_have_dropped(request, reply) {
            self.delete_copies_where(id, |_| true);
        } else if decided.verdict == Verdict::NoEffect {
            self.note_cold_copy(id, usize::from(decided.server));
        }
    }

    /// Deletes the key of an exchange on those copies that `selects` accepts, and wherever else it may be.
    fn delete_copies_where(&mut self, id: u32, selects: impl Fn(usize) -> bool) {
        self.each_copy(id, |router, server| {
            if selects(server) {
                router.delete(id, server);
            }
        });
        self.delete_strays(id);
    }

    /// Chooses a copy that came back and may lack what the decider has, to be filled with it.
    fn note_cold_copy(&mut self, id: u32, decider: usize) {
        let mut cold = Vec::new();
        self.each_copy(id, |router, server| {
            let health = &router.servers[server].health;
            if server != decider && health.is_cold() && !health.is_away() {
                cold.push(server);
            }
        });
        // It is unknown which of several have it by now.
        if let Some(server) = fastrand::choice(cold) {
            self.exchanges[id].write.note_reply(server, Verdict::NoEffect, b"");
        }
    }
}

/// Returns whether a server did not do this because it has nothing under the key. Its reply is the same if an `append`
/// would make the value too large: these cannot be distinguished.
fn has_nothing(request: &Request, bytes: &[u8], reply: &[u8]) -> bool {
    let adds = request.verb == Verb::Add || request.verb == Verb::MetaSet && follow::adds(request, bytes);
    !adds && lacks(reply)
}

/// Returns whether a server may have dropped what it had when it failed. memcached does so if an `ms`, whatever its
/// mode, is too large or finds no memory, but not if a classic command that needs a decision does.
fn may_have_dropped(request: &Request, reply: &[u8]) -> bool {
    request.verb == Verb::MetaSet && reply.starts_with(b"SERVER_ERROR")
}
