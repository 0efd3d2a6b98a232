//! Pops whose clients have left while they waited for their turn: for a locked queue, or in the waiting line. They are
//! given nothing, because what they took would be lost.

use super::parked::Due;
use super::store::Postgres;
use crate::path::worker::Batch;

impl Postgres {
    /// Ends pops that may wait and whose clients have left.
    pub(super) fn end_departed(&self, due: Vec<Due>, batch: &mut Batch) -> Vec<Due> {
        let mut parked = self.shared.parked();
        if !parked.has_departed_clients() {
            return due;
        }
        let mut others = Vec::with_capacity(due.len());
        for Due { seat, mut bundle } in due {
            if !bundle.may_wait() || bundle.is_done() || !parked.has_left(bundle.address) {
                others.push(Due { seat, bundle });
                continue;
            }
            // What woke it up wakes the next ones.
            seat.into_iter().for_each(|seat| parked.done(seat));
            bundle.refuse_departed();
            batch.finished.push(bundle);
        }
        others
    }
}
