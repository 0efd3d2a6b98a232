//! Pops whose clients have left while they waited for their turn: for a locked queue, or in the waiting line. They are
//! given nothing, because nobody would read what they take.

use super::parked::Called;
use super::store::Postgres;
use crate::path::worker::Batch;

impl Postgres {
    /// Ends pops that may wait and whose clients have left. Requests in front of such a pop are done without it.
    pub(super) fn leave_departed(&self, called: Vec<Called>, batch: &mut Batch) -> Vec<Called> {
        let mut parked = self.shared.parked();
        if !parked.has_departed_clients() {
            return called;
        }
        let mut others = Vec::with_capacity(called.len());
        for (seat, mut bundle) in called {
            if !bundle.may_wait() || bundle.is_done() || !parked.has_left(bundle.address) {
                others.push((seat, bundle));
            } else if bundle.only_waits() {
                // What woke it up wakes the next ones.
                seat.into_iter().for_each(|seat| parked.done(seat));
                bundle.answer_empty();
                batch.finished.push(bundle);
            } else {
                let pop = bundle.requests.len() - 1;
                bundle.held_back = Some(bundle.held_back.map_or(pop, |place| place.min(pop)));
                others.push((seat, bundle));
            }
        }
        others
    }
}
