//! The steps of a batch: which request goes with which, and in what order.
//!
//! Requests of different connections are concurrent, so they are ordered by kind; those of one connection keep their
//! order, which may take several rounds of steps. See sql/0006_steps.sql.

use posthaste_wire::operation::{Operation, Recipient, Selection, Send};
use posthaste_wire::span::Span;

use super::kinds::StepKind;
use super::names::Accounts;
use crate::path::bundle::Bundle;

/// Largest COUNT with which a POP goes with the others of its step.
const COUNT_IN_STEP: u32 = 64;

/// Kinds of steps, in the order in which a round does them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    Create,
    Send,
    /// POP without a lease, for one kind of lane. A message stands in a lane of each kind (by queue, by both, by
    /// sender), so no two kinds may be assigned in one step; nor may what is given for good and what is leased.
    Pop(Named),
    /// POP with a lease.
    Lease(Named),
    Ack,
    Peek(Named),
    Readable,
    Delete,
    Other,
}

/// The kind of lane that a read names: of a queue, of a queue and a sender, or of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Named {
    Queue,
    Both,
    Sender,
}

impl Step {
    /// Returns what SQL does in this step.
    pub(super) fn kind(self) -> StepKind {
        match self {
            Self::Create => StepKind::Create,
            Self::Send => StepKind::Send,
            Self::Pop(Named::Queue) => StepKind::PopByQueue,
            Self::Pop(Named::Both) => StepKind::PopByBoth,
            Self::Pop(Named::Sender) => StepKind::PopBySender,
            Self::Lease(Named::Queue) => StepKind::LeaseByQueue,
            Self::Lease(Named::Both) => StepKind::LeaseByBoth,
            Self::Lease(Named::Sender) => StepKind::LeaseBySender,
            Self::Ack => StepKind::Ack,
            Self::Peek(Named::Queue) => StepKind::PeekByQueue,
            Self::Peek(Named::Both) => StepKind::PeekByBoth,
            Self::Peek(Named::Sender) => StepKind::PeekBySender,
            Self::Readable => StepKind::Readable,
            Self::Delete => StepKind::Delete,
            Self::Other => StepKind::ByTheRules,
        }
    }

    /// Returns what SQL does in this step if it consists of one POP or PEEK of one message.
    pub(super) fn kind_alone(self) -> StepKind {
        if matches!(self, Self::Peek(_)) { StepKind::PeekAlone } else { StepKind::PopAlone }
    }
}

/// Position of a request: its bundle, its number in that, and its step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    pub(super) bundle: usize,
    pub(super) request: usize,
    pub(super) step: Step,
}

/// A request in the order in which steps take them: its round, and its position.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ordered {
    pub(super) round: usize,
    pub(super) position: Position,
}

/// Returns every open request, in the order in which steps take them. The first `waiting` bundles are
/// pops that waited, the longest first: each takes before the next one, and before new pops.
pub(super) fn in_order(bundles: &[&Bundle], waiting: usize, accounts: &Accounts) -> Vec<Ordered> {
    let mut ordered = Vec::new();
    // The round and step of the last pop that waited.
    let mut last = (0, Step::Create);
    for (number, bundle) in bundles.iter().enumerate() {
        let (mut round, mut before) = (0, Step::Create);
        for request in bundle.pending() {
            let asked = &bundle.requests[request];
            let step = step_of(&asked.operation, &bundle.bytes, accounts);
            round += usize::from(step < before);
            if matches!(asked.operation, Operation::Pop(_)) && (round, step) < last {
                round = last.0 + usize::from(step < last.1);
            }
            before = step;
            if number < waiting {
                last = (round, step);
            }
            ordered.push(Ordered { round, position: Position { bundle: number, request, step } });
        }
    }
    ordered.sort_by_key(|one| (one.round, one.position.step)); // stable: the rest stays in its order
    ordered
}

/// Returns the step that takes a request.
fn step_of(operation: &Operation, bytes: &[u8], accounts: &Accounts) -> Step {
    let known = |name: Span| accounts.id(name.of(bytes)).is_some();
    let plain = |select: &Selection, count_max: u32| {
        !select.not_own
            && !select.broadcast
            && select.count.is_none_or(|count| count <= count_max)
            && select.sender.is_none_or(known)
    };
    match operation {
        Operation::CreateQueue { options: None, .. } => Step::Create,
        Operation::Send(Send { dedup: None, to: Recipient::Anyone, .. }) | Operation::SendMany { .. } => {
            Step::Send
        }
        Operation::Send(Send { dedup: None, to: Recipient::Account(name), .. }) if known(*name) => Step::Send,
        Operation::Pop(pop) if pop.request_id.is_none() && plain(&pop.select, COUNT_IN_STEP) => {
            match pop.lease_ms {
                None => Step::Pop(lanes(&pop.select)),
                Some(_) => Step::Lease(lanes(&pop.select)),
            }
        }
        Operation::Peek(select) if plain(select, 1) => Step::Peek(lanes(select)),
        Operation::Ack { .. } => Step::Ack,
        Operation::Readable { not_own: false } => Step::Readable,
        Operation::DeleteQueue { .. } => Step::Delete,
        _ => Step::Other,
    }
}

fn lanes(select: &Selection) -> Named {
    match (select.queue, select.sender) {
        (Some(_), None) => Named::Queue,
        (Some(_), Some(_)) => Named::Both,
        (None, _) => Named::Sender,
    }
}

#[cfg(test)]
mod tests {
    use posthaste_wire::command::Kind;
    use posthaste_wire::operation::Pop;

    use super::*;
    use crate::path::bundle::{Address, Request};

    fn bundle(operations: &[Operation]) -> Bundle {
        let mut bundle = Bundle::new(Address { thread: 0, slot: 0, client: 0 });
        bundle.bytes = b"q".to_vec();
        bundle.requests =
            operations.iter().map(|operation| Request::new(operation.clone(), Kind::Pop, 0)).collect();
        bundle
    }

    const QUEUE: Span = Span { start: 0, len: 1 };

    fn pop(lease_ms: Option<u64>, not_own: bool) -> Operation {
        let select = Selection { queue: Some(QUEUE), not_own, ..Selection::default() };
        Operation::Pop(Pop { select, lease_ms, ..Pop::default() })
    }

    /// Returns the order of requests, each by its bundle and its number in that.
    fn order(bundles: &[Bundle], waiting: usize) -> Vec<(usize, usize)> {
        let bundles: Vec<&Bundle> = bundles.iter().collect();
        let placed = in_order(&bundles, waiting, &Accounts::default());
        placed.into_iter().map(|one| (one.position.bundle, one.position.request)).collect()
    }

    #[test]
    fn the_pop_that_has_waited_longer_takes_first_whatever_its_kind() {
        let (lease, plain, other) = (pop(Some(1000), false), pop(None, false), pop(None, true));
        for kinds in [[&lease, &plain, &other], [&other, &lease, &plain], [&plain, &other, &lease]] {
            let bundles = kinds.map(|kind| bundle(std::slice::from_ref(kind)));
            assert_eq!(order(&bundles, 3), [(0, 0), (1, 0), (2, 0)]);
        }
    }

    #[test]
    fn new_requests_send_before_and_pop_after_the_pops_that_have_waited() {
        let send = Operation::SendMany { queue: QUEUE, bodies: Vec::new() };
        let bundles = [bundle(&[pop(Some(1000), false)]), bundle(&[send, pop(None, false)])];
        assert_eq!(order(&bundles, 1), [(1, 0), (0, 0), (1, 1)]);
        assert_eq!(order(&bundles, 0), [(1, 0), (1, 1), (0, 0)], "none has waited: fewer rounds");
    }
}
