//! What one client does next: a workload unrolled for one client.

use posthaste_wire::reply::Item;

use crate::dialogue::Outcome;
use crate::queue::check::refusal;
use crate::queue::loops::Loops;
use crate::queue::mix::Mix;
use crate::queue::request::{Account, Queue, Request};

/// One request of a workload, and what its answer has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The request.
    pub request: Request,
    /// Which of the twelve steps it is; 0 in other workloads.
    pub step: u8,
    /// What `--check` demands of the answer beyond the rules for every answer.
    pub expect: Expect,
}

/// What only this client can know about an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Nothing in particular.
    Any,
    /// A message, for nobody else could have taken it.
    Found,
    /// A list of queues with this one in it.
    Lists(Queue),
}

/// The state of a workload for one client: requests out, answers in.
#[derive(Clone, Debug)]
pub enum Program {
    /// The fixed loop, once or several times side by side.
    TwelveStep(Loops),
    /// Drawn by shares.
    Mix(Mix),
}

impl Program {
    /// The fixed loop for one client that keeps up to `pipeline` requests in flight.
    #[must_use]
    pub fn twelve_step(client: Account, pipeline: usize) -> Self {
        Self::TwelveStep(Loops::new(client, pipeline))
    }

    /// The next request; None while it depends on an answer that is under way.
    pub fn next_ask(&mut self) -> Option<Ask> {
        match self {
            Self::TwelveStep(loops) => loops.next_ask(),
            Self::Mix(mix) => Some(mix.next_ask()),
        }
    }

    /// Takes the answer to the oldest request without one.
    pub fn answered(&mut self, ask: &Ask, outcome: Outcome, answer: &Item<'_>) {
        let number = match answer {
            Item::Scalar(value) => value.as_integer(),
            Item::Compound(..) => None,
        };
        match self {
            Self::TwelveStep(loops) => loops.answered(outcome, number),
            Self::Mix(mix) => mix.answered(ask, outcome, number, refusal::word(answer)),
        }
    }

    /// Lets the client only complete what it has begun.
    pub const fn finish(&mut self) {
        match self {
            Self::TwelveStep(loops) => loops.finish(),
            Self::Mix(_) => {} // one that is at rest is not asked any more
        }
    }

    /// Whether the client may stop here without leaving something half done.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        match self {
            Self::TwelveStep(loops) => loops.is_at_rest(),
            Self::Mix(mix) => mix.is_at_rest(),
        }
    }

    /// Returns the queues that the client made and has not deleted.
    #[must_use]
    pub fn leftovers(&self) -> Vec<Queue> {
        match self {
            Self::TwelveStep(loops) => loops.leftovers(),
            Self::Mix(mix) => mix.leftovers(),
        }
    }
}
