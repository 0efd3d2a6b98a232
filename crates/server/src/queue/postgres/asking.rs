//! One call for a batch: by the function that fits it, again where that is safe, and what is learned from the answer.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::alone::Alone;
use super::call::{Call, Knowledge};
use super::link::{Failure, Link};
use super::parked::{Called, Seat};
use super::replies::Replies;
use super::single::Single;
use super::steps::{Place, Step};
use super::store::Postgres;
use crate::path::bundle::Bundle;
use crate::queue::rules::Ask;

impl Postgres {
    /// Asks for all requests of the bundles that have no answer yet.
    pub(super) fn call(
        &self,
        link: &mut Link,
        called: &mut [Called],
    ) -> Result<(Replies, Vec<Place>), Failure> {
        let mut again = true;
        loop {
            link.ready()?;
            let server = self.shared.reach.connections_made();
            if let Some(answered) = self.call_singly(link, called) {
                return answered;
            }
            self.shared.floors().belong_to(server);
            let outcome = match self.call_alone(link, called, server) {
                Some(outcome) => outcome,
                None => self.call_together(link, called, server),
            };
            match outcome {
                Ok((replies, places)) => {
                    self.learn(link, &replies)?;
                    return Ok((replies, places));
                }
                Err(Failure::Refused(error)) if again && is_transient(&error) => again = false,
                Err(Failure::Broken(_)) if again && only_reads(called) => again = false,
                // It ended before anything was asked.
                Err(Failure::Unreachable(_)) if again => again = false,
                Err(failure) => return Err(failure),
            }
        }
    }

    fn call_together(
        &self,
        link: &mut Link,
        called: &[Called],
        server: u64,
    ) -> Result<(Replies, Vec<Place>), Failure> {
        let bundles: Vec<&Bundle> = called.iter().map(|(_, bundle)| &**bundle).collect();
        let waiting: Vec<Seat> = called.iter().map_while(|(seat, _)| *seat).collect();
        let call = self.knowing(|known| Call::new(&bundles, &waiting, known, self.shared.now_ms()));
        let rows = link.ask_on(&self.apply, &call.columns.arguments())?;
        let replies = Replies::new(rows, &call.columns.sends.op, &call.columns.reads.op);
        self.raise_floors(&call, &replies, server);
        Ok((replies, call.places))
    }

    /// The same for a batch of one plain request.
    fn call_alone(
        &self,
        link: &mut Link,
        called: &[Called],
        server: u64,
    ) -> Option<Result<(Replies, Vec<Place>), Failure>> {
        let (ask, awaited, place) = only_request(called).filter(|_| self.singly.is_none())?;
        let alone = self.knowing(|known| Alone::of(ask, awaited, known))?;
        let answered = alone.ask(link, self.shared.now_ms()).map(|rows| {
            let replies = Replies::new(rows, &[0], &[]);
            if let Some(mut floors) = self.shared.floors_of(server) {
                floors.meet(replies.newest);
            }
            (replies, vec![place])
        });
        Some(answered)
    }

    /// The same for a single request that has a statement of its own.
    fn call_singly(
        &self,
        link: &mut Link,
        called: &[Called],
    ) -> Option<Result<(Replies, Vec<Place>), Failure>> {
        let popping = self.singly?;
        let (ask, awaited, place) = only_request(called)?;
        let single = {
            let accounts = self.accounts.read().unwrap_or_else(PoisonError::into_inner);
            Single::of(ask, awaited, &accounts)?
        };
        let answered = single.ask(link, popping, self.shared.now_ms()).and_then(|rows| {
            let replies = Replies::new(rows, &[], &[]);
            self.learn(link, &replies)?;
            Ok((replies, vec![place]))
        });
        Some(answered)
    }

    /// Does something with what this middleware knows.
    fn knowing<T>(&self, act: impl FnOnce(&Knowledge<'_>) -> T) -> T {
        let accounts = self.accounts.read().unwrap_or_else(PoisonError::into_inner);
        let floors = self.shared.floors();
        act(&Knowledge { accounts: &accounts, floors: &floors })
    }

    fn raise_floors(&self, call: &Call<'_>, replies: &Replies, server: u64) {
        let Some(mut floors) = self.shared.floors_of(server) else { return };
        floors.meet(replies.newest);
        for (lane, floor) in &replies.floors {
            if let Some(lane) = call.lanes.get(lane - 1) {
                floors.raise(call.queue_of(lane), lane.sender, lane.recipient, *floor);
            }
        }
    }

    /// Takes note of the names of accounts met for the first time. What was asked before is done by now, whatever fails
    /// here.
    fn learn(&self, link: &mut Link, replies: &Replies) -> Result<(), Failure> {
        let strangers = {
            let accounts = self.accounts.read().unwrap_or_else(PoisonError::into_inner);
            replies.strangers(&accounts)
        };
        if strangers.is_empty() {
            return Ok(());
        }
        let rows = self.names(link, &strangers).map_err(|failure| Failure::Broken(failure.to_string()))?;
        let mut accounts = self.accounts.write().unwrap_or_else(PoisonError::into_inner);
        for row in rows {
            accounts.learn(row.get::<_, i32>(0).cast_unsigned(), row.get::<_, &str>(1).as_bytes());
        }
        Ok(())
    }

    /// Asked again for a while if the connection breaks: the messages of the answer are taken already.
    fn names(&self, link: &mut Link, ids: &[i32]) -> Result<Vec<Row>, Failure> {
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            let sql = "SELECT id, name FROM posthaste.account WHERE id = ANY($1)";
            match link.ask(sql, &[(&ids, Type::INT4_ARRAY)], false) {
                Err(Failure::Broken(_) | Failure::Unreachable(_)) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(50));
                }
                answered => return answered,
            }
        }
    }
}

/// The request of a batch that has no other, the queue that it has waited for, and where it stands.
fn only_request(called: &[Called]) -> Option<(Ask<'_>, Option<i64>, Place)> {
    let [(seat, bundle)] = called else { return None };
    let [request] = &bundle.requests[bundle.open()] else { return None };
    let ask = Ask { account: bundle.account, operation: &request.operation, bytes: &bundle.bytes };
    let awaited = seat.as_ref().and_then(Seat::queue);
    Some((ask, awaited, Place { bundle: 0, request: bundle.answered, step: Step::Other }))
}

/// Whether the same call may well succeed at once.
fn is_transient(error: &tokio_postgres::Error) -> bool {
    matches!(error.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE | &SqlState::T_R_DEADLOCK_DETECTED))
}

fn only_reads(called: &[Called]) -> bool {
    called.iter().all(|(_, bundle)| bundle.requests[bundle.open()].iter().all(|r| r.operation.is_read()))
}
