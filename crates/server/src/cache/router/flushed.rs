//! What is flushed while a key is written: see `flushes.rs`.

use posthaste_wire::memcached::request::Verb;

use super::Router;

impl Router {
    /// The key of an exchange was claimed just now, and nothing is sent yet; `decides`: nor will everything be at once.
    pub(super) fn note_mark(&mut self, id: u32, decides: bool) {
        self.exchange(id).mark = Some(self.fleet.flushes.mark(&self.flushes, decides));
    }

    /// An exchange that has a claim is at its end. If something was flushed meanwhile its key is deleted wherever it is held. True: it is
    /// to be.
    pub(super) fn forget_if_flushed(&mut self, id: u32) -> bool {
        let exchange = self.exchange(id);
        let Some(mark) = exchange.mark.take().filter(|_| exchange.claim.is_some()) else { return false };
        let was_any = self.fleet.flushes.was_any(&self.flushes, &mark);
        if was_any {
            self.each_copy(id, |router, server| router.delete(id, server));
        }
        was_any
    }

    /// Nothing more is to be done for an exchange: if it is a flush, that is over.
    pub(super) fn end_flush(&mut self, id: u32) {
        if self.exchanges[id as usize].request.is_some_and(|request| request.verb == Verb::FlushAll) {
            self.fleet.flushes.end(&mut self.flushes);
        }
    }
}
