//! What the server that decides did not do, and what that means for the copies that were to follow.
//!
//! Where it has nothing under the key (it may have needed the room), the client is told so, and the others must not go on with
//! what they have: that is from before what the client wanted to change. Nor where it failed to store something and has dropped what
//! was there before. Where it has something, they have the same, or lack it.

use posthaste_wire::memcached::request::{Request, Verb};

use super::exchange::{Reply, Verdict};
use super::replies::lacks;
use super::{Router, follow};

impl Router {
    /// The server that decides did not do it, and said why.
    pub(super) fn note_undone(&mut self, id: u32, request: &Request, decided: Reply) {
        let exchange = &self.exchanges[id as usize];
        let said = exchange.reply(&decided);
        if has_nothing(request, &exchange.bytes, said) {
            self.forget_where(id, |server| server != usize::from(decided.server));
        } else if may_have_dropped(request, said) {
            self.forget_where(id, |_| true);
        } else if decided.verdict == Verdict::Not {
            self.note_cold_copy(id, usize::from(decided.server));
        }
    }

    /// Deletes the key of an exchange on these of its copies, and wherever else it may be.
    fn forget_where(&mut self, id: u32, is_it: impl Fn(usize) -> bool) {
        self.each_copy(id, |router, server| {
            if is_it(server) {
                router.delete(id, server);
            }
        });
        self.forget_elsewhere(id);
    }

    /// The server that decides has something. A copy that came back may lack it, and is filled with it.
    fn note_cold_copy(&mut self, id: u32, decider: usize) {
        let mut cold = Vec::new();
        self.each_copy(id, |router, server| {
            let health = &router.servers[server].health;
            if server != decider && health.is_cold() && !health.is_away() {
                cold.push(server as u16);
            }
        });
        // Nobody knows which of several has it by now.
        if let Some(server) = fastrand::choice(cold) {
            self.exchange(id).replies.push(Reply { server, verdict: Verdict::Not, start: 0, end: 0 });
        }
    }
}

/// Whether a server did not do this because it has nothing under the key. It says the same of something that would become too large
/// by an `append`, and nobody can tell.
fn has_nothing(request: &Request, bytes: &[u8], said: &[u8]) -> bool {
    let adds = request.verb == Verb::Add || request.verb == Verb::MetaSet && follow::adds(request, bytes);
    !adds && lacks(said)
}

/// Whether a server may have dropped what it had as it failed: memcached does where an `ms` is too large or finds no memory,
/// whatever its mode, and not where what the classic commands decide does.
fn may_have_dropped(request: &Request, said: &[u8]) -> bool {
    request.verb == Verb::MetaSet && said.starts_with(b"SERVER_ERROR")
}
