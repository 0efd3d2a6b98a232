//! Requests that remove messages, or redrive them, and are together too much for one transaction. Each of them may be done
//! at once, so they go in several calls. A queue that is too much by itself is swept ([`super::sweeper`]).

use std::cmp::Ordering;

use posthaste_wire::operation::Operation;

use super::attempt::Attempt;
use super::failure::Failure;
use super::parked::Due;
use super::store::Postgres;
use crate::path::bundle::Bundle;
use crate::path::worker::Batch;

/// SQLSTATE with which `count_removal` fails if earlier requests of the transaction have removed messages too.
const TOGETHER: &str = "PHSUM";

/// A request of a batch: the number of its bundle, and its place in that.
type At = (usize, usize);

impl Postgres {
    /// Handles a call that did nothing because its requests remove too much together: those in front of `excess` are
    /// tried again with all that remove nothing, and the others have another turn.
    pub(super) fn retry_with_fewer_removals(
        &self,
        due: Vec<Due>,
        excess: At,
        attempt: Attempt,
        batch: &mut Batch,
    ) {
        let mut others = Vec::with_capacity(due.len());
        let mut later = Vec::new();
        for (number, Due { seat, mut bundle }) in due.into_iter().enumerate() {
            let place = match number.cmp(&excess.0) {
                Ordering::Less => None,
                Ordering::Equal => Some(excess.1),
                Ordering::Greater => removals(&bundle).next(),
            };
            if place == Some(bundle.answered) {
                later.push(bundle); // pops that waited travel alone, so this one has no seat
            } else {
                bundle.progress.held_back = place.or(bundle.progress.held_back);
                others.push(Due { seat, bundle });
            }
        }
        batch.waiting.splice(0..0, later);
        self.attempt(others, attempt, batch);
    }
}

/// Returns the request that was too much for a call which has failed; None: the call has failed for another reason.
pub(super) fn excess(due: &[Due], failure: &Failure) -> Option<At> {
    let queue = failure.detail(TOGETHER);
    if queue.is_empty() { None } else { excess_at(due, queue) }
}

/// Returns the request for `queue`, which the database has named, or else the second of those that remove anything, since
/// steps have an order of their own. The first may always be done.
fn excess_at(due: &[Due], queue: &str) -> Option<At> {
    let all = due.iter().enumerate();
    let all = all.flat_map(|(number, Due { bundle, .. })| removals(bundle).map(move |place| (number, place)));
    let behind_first: Vec<At> = all.skip(1).collect();
    let named = behind_first.iter().find(|(number, place)| names(&due[*number].bundle, *place, queue));
    named.or(behind_first.first()).copied()
}

/// Returns whether the request at this place names this queue.
pub(super) fn names(bundle: &Bundle, place: usize, queue: &str) -> bool {
    let name = bundle.requests[place].operation.queue();
    name.is_some_and(|name| name.of(&bundle.bytes) == queue.as_bytes())
}

/// Returns the places of the requests in a bundle's turn that remove what a queue holds, or move its letters.
pub(super) fn removals(bundle: &Bundle) -> impl Iterator<Item = usize> {
    use Operation::{DeleteQueue, PurgeQueue, Redrive};
    bundle.pending().filter(|&place| {
        matches!(bundle.requests[place].operation, PurgeQueue { .. } | DeleteQueue { .. } | Redrive { .. })
    })
}

#[cfg(test)]
mod tests {
    use posthaste_wire::command::Kind;
    use posthaste_wire::span::Span;

    use super::*;
    use crate::path::bundle::{Address, Request};

    /// A bundle that purges queues, each named by a letter.
    fn purges(queues: &str) -> Due {
        let mut bundle = Bundle::new(Address { thread: 0, slot: 0, client: 0 });
        bundle.bytes = queues.into();
        for start in 0..queues.len() {
            let queue = Span { start: start as u32, len: 1 };
            bundle.requests.push(Request::new(Operation::PurgeQueue { queue }, Kind::Purge, 0));
        }
        Due { seat: None, bundle: Box::new(bundle) }
    }

    #[test]
    fn the_first_removal_stays_whichever_was_too_much() {
        for (bundles, queue, excess) in [
            (&["a", "b", "c"][..], "c", Some((2, 0))),
            (&["abc", "d"], "c", Some((0, 2))),
            (&["aba"], "a", Some((0, 2))),
            (&["a", "b", "c"], "a", Some((1, 0))),
            (&["a"], "a", None),
        ] {
            let due: Vec<Due> = bundles.iter().map(|queues| purges(queues)).collect();
            assert_eq!(excess_at(&due, queue), excess, "{bundles:?}");
        }
    }
}
