//! After a checked run: pops what is left, so that every acknowledged message is accounted for.
//!
//! Each account of the run asks for what it may read in the run's own queues; other queues are left alone.

use std::collections::HashSet;

use posthaste_wire::reply::{Item, Value};

use super::inspector::{Answered, Inspector};
use super::ledger::Ledger;
use crate::dialogue::Outcome;
use crate::error::LoadError;
use crate::queue::program::{Ask, Expect};
use crate::queue::request::{Account, Queue, Read, Request};
use crate::queue::session::{IN_FLIGHT, Session};

/// The queues a run used.
#[derive(Debug)]
pub(crate) struct Territory {
    /// Queues `1` to this.
    pub(crate) shared: Queue,
    /// Queues that clients made and did not delete.
    pub(crate) own: HashSet<Queue>,
}

impl Territory {
    fn holds(&self, queue: Queue) -> bool {
        (1..=self.shared).contains(&queue) || self.own.contains(&queue)
    }
}

/// Pops everything that accounts 1 to `accounts` may read at one server. Returns how many messages there were.
///
/// # Errors
/// The server refuses, or is gone; what is left is then unknown.
pub(crate) fn drain(
    mut session: Session,
    accounts: Account,
    territory: &Territory,
    inspector: &mut Inspector,
    ledger: &mut Ledger,
) -> Result<u64, LoadError> {
    let mut popped = 0;
    for reader in 1..=accounts {
        session.log_in(reader)?;
        for queue in session.call(&["QREADABLE"], |names| queues(&names))? {
            if territory.holds(queue) {
                popped += drain_queue(&mut session, reader, queue, inspector)?;
                inspector.hand_over(ledger);
            }
        }
    }
    Ok(popped)
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
) -> Result<u64, LoadError> {
    let request = Request::Read(Read { remove: true, queue: Some(queue), ..Read::default() });
    let ask = Ask { request, step: 0, expect: Expect::Any };
    let mut popped = 0;
    loop {
        for _ in 0..IN_FLIGHT {
            session.push_request(request, &[]);
        }
        session.flush()?;
        let mut ended = false;
        for _ in 0..IN_FLIGHT {
            let outcome = session.answer(|item, bytes| {
                let outcome = match item {
                    Item::Scalar(Value::Null) => Outcome::Null,
                    Item::Compound(..) => Outcome::Ok,
                    Item::Scalar(_) => Outcome::Error,
                };
                inspector.inspect(&Answered { reader, ask, sequence: 0, outcome, item, bytes });
                outcome
            })?;
            popped += u64::from(outcome == Outcome::Ok);
            ended |= outcome != Outcome::Ok;
        }
        if ended {
            return Ok(popped);
        }
    }
}
