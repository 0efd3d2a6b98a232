//! After a checked run: a queue whose deletion was acknowledged is gone.
//!
//! Its id was its name, which no other queue gets, and its client never asks for it again. So nothing else in a run
//! would show a deletion that was acknowledged and forgotten.

use std::collections::HashSet;

use posthaste_wire::reply::Value;

use super::again::{call_again, log_in_again};
use super::created::CreatedQueues;
use crate::error::LoadError;
use crate::queue::request::{Account, Queue};
use crate::queue::session::Session;
use crate::violations::Violations;

/// Largest number of deleted queues that one server is asked about by name. All are looked for in the list of queues.
const ASKED_MAX: usize = 1000;

/// Looks for queues of one store that were deleted and are still there.
///
/// # Errors
/// The server refuses, or is gone.
pub(crate) fn find_survivors(
    session: &mut Session,
    first: Account,
    created: &CreatedQueues,
    store: usize,
) -> Result<Violations, LoadError> {
    let mut survivors = Violations::default();
    log_in_again(session, first)?;
    let listed: HashSet<Queue> = call_again(session, &["QLIST"], |queues| {
        queues.parts().iter().filter_map(id).filter(|queue| created.is_gone(store, *queue)).collect()
    })?;
    for queue in &listed {
        survivors.add(|| format!("queue {queue} was deleted, and QLIST still has it"));
    }
    for queue in created.gone(store).filter(|queue| !listed.contains(queue)).take(ASKED_MAX) {
        if call_again(session, &["QINFO", &queue.to_string()], |info| info.get(b"id").is_some())? {
            survivors.add(|| format!("queue {queue} was deleted, and QINFO still describes it"));
        }
    }
    Ok(survivors)
}

/// Returns the id of a queue in a list of queues.
fn id(queue: &Value<'_>) -> Option<Queue> {
    queue.get(b"id").and_then(Value::as_integer).and_then(|id| Queue::try_from(id).ok())
}
