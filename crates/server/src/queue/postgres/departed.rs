//! Pops whose clients have left while they waited for their turn: for a locked queue, or in the waiting line. They are
//! given nothing, because what they took would be lost.

use super::parked::Due;
use super::store::Postgres;
use crate::path::worker::Batch;

impl Postgres {
    /// Ends pops that may wait and whose clients have left. Requests in front of such a pop are done without it.
    pub(super) fn end_departed(&self, due: Vec<Due>, batch: &mut Batch) -> Vec<Due> {
        let mut parked = self.shared.parked();
        if !parked.has_departed_clients() {
            return due;
        }
        let mut others = Vec::with_capacity(due.len());
        for Due { seat, mut bundle } in due {
            if !bundle.may_wait() || bundle.is_done() || !parked.has_left(bundle.address) {
                others.push(Due { seat, bundle });
            } else if bundle.has_only_wait_pending() {
                // What woke it up wakes the next ones.
                seat.into_iter().for_each(|seat| parked.done(seat));
                bundle.answer_empty();
                batch.finished.push(bundle);
            } else {
                let pop = bundle.requests.len() - 1;
                bundle.held_back = Some(bundle.held_back.map_or(pop, |place| place.min(pop)));
                others.push(Due { seat, bundle });
            }
        }
        others
    }
}
