//! Flushes that run beside a write: the written key is deleted afterwards, see `flushes.rs`.

use posthaste_wire::memcached::request::Verb;

use super::Router;
use crate::cache::claims::ClaimMode;

impl Router {
    /// Notes which flushes there were when an exchange claimed its key in this mode.
    pub(super) fn note_mark(&mut self, id: u32, mode: ClaimMode) {
        self.exchanges[id].mark = Some(self.fleet.flushes.mark(&self.flushes, mode));
    }

    /// Deletes the key of an exchange on all copies, if the exchange has a claim and a flush was under way since then.
    /// Called before the claim is given back. Returns whether a flush was.
    pub(super) fn delete_if_flushed(&mut self, id: u32) -> bool {
        let exchange = &mut self.exchanges[id];
        let Some(mark) = exchange.mark.take().filter(|_| exchange.claim.is_some()) else { return false };
        let was_any = self.fleet.flushes.was_any_under_way(&self.flushes, &mark);
        if was_any {
            self.each_copy(id, |router, server| router.delete(id, server));
        }
        was_any
    }

    /// Marks a flush as over, if the exchange that ends is one.
    pub(super) fn end_flush(&mut self, id: u32) {
        if self.exchanges[id].request.is_some_and(|request| request.verb == Verb::FlushAll) {
            self.fleet.flushes.end(&mut self.flushes);
        }
    }
}
