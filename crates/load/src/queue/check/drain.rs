//! After a checked run: pops what is left, so that every acknowledged message is accounted for.
//!
//! Each account of the run asks for what it may read in the run's own queues; other queues are left alone.

use std::collections::HashSet;
use std::sync::Arc;
use std::thread::sleep;

use posthaste_wire::reply::{Item, Value};

use super::again::{PAUSE, TRIES_MAX, call_again, log_in_again, stays_busy};
use super::inspector::{Answered, Inspector};
use super::ledger::Ledger;
use super::refusal::{self, may_pass};
use super::witness::{DRAIN, JournalBudget, Witness};
use crate::dialogue::Outcome;
use crate::error::LoadError;
use crate::queue::program::{Ask, Expect};
use crate::queue::request::{Account, Queue, Read, Request};
use crate::queue::session::{IN_FLIGHT, Session};

/// The queues that a run used.
#[derive(Debug)]
pub(crate) struct RunQueues {
    /// Number of shared queues, which are `1` to this.
    pub(crate) shared: Queue,
    /// Queues that clients made and did not delete.
    pub(crate) own: HashSet<Queue>,
}

impl RunQueues {
    fn holds(&self, queue: Queue) -> bool {
        (1..=self.shared).contains(&queue) || self.own.contains(&queue)
    }
}

/// The checks that are shown what is popped.
#[derive(Debug)]
pub(crate) struct DrainChecks<'a> {
    pub(crate) inspector: &'a mut Inspector,
    pub(crate) ledger: &'a mut Ledger,
    /// Budget of the journals; None if no journals are kept.
    pub(crate) budget: Option<&'a Arc<JournalBudget>>,
    /// The journals of the drain.
    pub(crate) witnesses: &'a mut Vec<Witness>,
}

/// Pops everything that accounts 1 to `accounts` may read at one server, while `may_go_on` says so. Returns how many
/// messages there were.
///
/// # Errors
/// The server refuses, or is gone; what is left is then unknown.
pub(crate) fn drain(
    mut session: Session,
    accounts: Account,
    queues: &RunQueues,
    checks: &mut DrainChecks<'_>,
    may_go_on: &dyn Fn() -> bool,
) -> Result<u64, LoadError> {
    let mut popped = 0;
    for reader in (1..=accounts).take_while(|_| may_go_on()) {
        log_in_again(&mut session, reader)?;
        let client = DRAIN + checks.witnesses.len() as u32;
        let mut witness = checks.budget.and_then(|budget| Witness::new(budget, client, reader));
        for queue in readable(&mut session)? {
            if queues.holds(queue) {
                let inspector = &mut *checks.inspector;
                popped += drain_queue(&mut session, reader, queue, inspector, witness.as_mut(), may_go_on)?;
                checks.inspector.hand_over(checks.ledger);
            }
        }
        checks.witnesses.extend(witness);
    }
    Ok(popped)
}

/// Returns the numbered queues that hold something for the account.
fn readable(session: &mut Session) -> Result<Vec<Queue>, LoadError> {
    call_again(session, &["QREADABLE"], |names| queues(&names))
}

fn queues(names: &Value<'_>) -> Vec<Queue> {
    let number = |name: &Value<'_>| std::str::from_utf8(name.as_bytes()?).ok()?.parse().ok();
    names.parts().iter().filter_map(number).collect()
}

fn drain_queue(
    session: &mut Session,
    reader: Account,
    queue: Queue,
    inspector: &mut Inspector,
    mut witness: Option<&mut Witness>,
    may_go_on: &dyn Fn() -> bool,
) -> Result<u64, LoadError> {
    let request = Request::Read(Read { remove: true, queue: Some(queue), ..Read::default() });
    let ask = Ask { request, step: 0, expect: Expect::Any };
    let (mut popped, mut tries) = (0, 0);
    while may_go_on() {
        let mut numbers = [None; IN_FLIGHT];
        for number in &mut numbers {
            *number = witness.as_mut().and_then(|witness| witness.asks(request, &[]));
            session.push_request(request, &[]);
        }
        session.flush()?;
        let (mut got, mut ended, mut refused) = (0, false, false);
        for number in numbers {
            let (outcome, later) = session.answer(|item, bytes| {
                let outcome = match item {
                    Item::Scalar(Value::Null) => Outcome::Null,
                    Item::Compound(..) => Outcome::Ok,
                    Item::Scalar(_) => Outcome::Error,
                };
                let at = number.zip(witness.as_ref()).and_then(|(number, witness)| witness.place(number));
                inspector.inspect(&Answered { reader, ask, at, sequence: 0, outcome, item, bytes });
                if let (Some(witness), Some(number)) = (&mut witness, number) {
                    witness.told(number, request, item, bytes);
                }
                (outcome, refusal::word(item).is_some_and(may_pass))
            })?;
            got += u64::from(outcome == Outcome::Ok);
            ended |= outcome != Outcome::Ok && !later;
            refused |= later;
        }
        popped += got;
        if ended {
            break;
        }
        tries = if got > 0 || !refused { 0 } else { tries + 1 };
        if tries == TRIES_MAX {
            return Err(stays_busy(&format!("POP QUEUE {queue}")));
        }
        if refused {
            sleep(PAUSE);
        }
    }
    Ok(popped)
}
