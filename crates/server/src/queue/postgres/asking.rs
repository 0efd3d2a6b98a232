//! One call of the database for a batch: it chooses the SQL function that fits, repeats the call where that is safe,
//! and learns from the reply.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::alone::Alone;
use super::call::{Call, Knowledge};
use super::era::Era;
use super::failure::Failure;
use super::floors::Source;
use super::link::{ANSWER_WITHIN, Argument, Link};
use super::parked::{Due, Seat};
use super::replies::Replies;
use super::steps::{Position, Step};
use super::store::Postgres;
use super::unbatched::Unbatched;
use crate::path::bundle::Bundle;
use crate::queue::rules::{AccountId, Ask};

/// How often one call is tried when other servers answer than the one it was meant for.
const ERAS_MAX: usize = 3;

/// The replies to a call, where each request stands in it, and the era in which it was made.
pub(super) struct Asked {
    pub(super) replies: Replies,
    pub(super) positions: Vec<Position>,
    pub(super) era: Arc<Era>,
}

impl Postgres {
    /// Makes a call for all open requests of the bundles; the database is told to stop after `within`.
    pub(super) fn call(&self, due: &[Due], within: Duration) -> Result<Asked, Failure> {
        let call = |link: &mut Link| {
            link.wait_for(within);
            let asked = self.remembering(link, |link, era| self.call_in(era, link, due));
            link.wait_for(ANSWER_WITHIN);
            asked
        };
        let mut again = true;
        loop {
            // The next attempt may get another connection than the one that broke.
            match self.links.with(call) {
                Err(Failure::Refused(error)) if again && is_transient(&error) => again = false,
                Err(Failure::Broken(_)) if again && only_reads(due) => again = false,
                // The connection ended before anything was sent.
                Err(Failure::Unreachable(_)) if again => again = false,
                asked => return asked,
            }
        }
    }

    /// Runs `act`, which relies on what is remembered of a server; again in a new era if another server answers.
    pub(super) fn remembering<T>(
        &self,
        link: &mut Link,
        act: impl Fn(&mut Link, &Arc<Era>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        for _ in 0..ERAS_MAX {
            let era = self.shared.era.or_begin(link)?;
            match self.log_in_all_again(link, &era).and_then(|()| act(link, &era)) {
                Err(Failure::Elsewhere) => self.shared.end_era(&era),
                done => return done,
            }
        }
        Err(Failure::Elsewhere)
    }

    fn call_in(&self, era: &Arc<Era>, link: &mut Link, due: &[Due]) -> Result<Asked, Failure> {
        let server = Source { server: era.server, made: self.shared.reach.connections_made() };
        self.admit_again(link, era, due)?;
        let asked = match self.call_unbatched(link, due, era)? {
            Some(asked) => asked,
            None => {
                self.shared.floors().belong_to(server);
                match self.call_alone(link, due, era, server)? {
                    Some(asked) => asked,
                    None => self.call_together(link, due, era, server)?,
                }
            }
        };
        self.learn(link, era, &asked.replies)?;
        Ok(asked)
    }

    /// Logs every known account in at this server, even without a request of theirs: SEND TO * must reach them. Known
    /// are those that logged in at an earlier server or stand in the accounts file.
    fn log_in_all_again(&self, link: &mut Link, era: &Era) -> Result<(), Failure> {
        if era.has_all_accounts() {
            return Ok(());
        }
        let names: Vec<String> =
            self.sessions().all().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        if !names.is_empty() {
            let log_in = "SELECT posthaste.log_in_all($1)";
            link.ask_of(era.server, log_in, &[(&names, Type::TEXT_ARRAY)])?;
        }
        era.note_all_accounts();
        Ok(())
    }

    /// Gives those of the bundles' accounts that so far have only had sessions at an earlier server one at this.
    fn admit_again(&self, link: &mut Link, era: &Era, due: &[Due]) -> Result<(), Failure> {
        for Due { bundle, .. } in due {
            if era.accounts().of_session(bundle.account).is_some() {
                continue;
            }
            let sessions = self.sessions();
            let Some(name) = sessions.name(bundle.account) else { continue };
            let logs_in = sessions.has_logged_in(bundle.account);
            drop(sessions);
            self.admit_at(link, era, &name, logs_in)?;
        }
        Ok(())
    }

    /// Gives an account a session at a server, which creates it if its name is new there, and may log it in; returns its
    /// session number.
    pub(super) fn admit_at(
        &self,
        link: &mut Link,
        era: &Era,
        name: &[u8],
        logs_in: bool,
    ) -> Result<AccountId, Failure> {
        let id = self.meet(link, era, name, logs_in)?;
        Ok(self.note_session(era, id, name, logs_in))
    }

    /// Remembers an account that has sessions, and whether it has logged in; returns its session number.
    pub(super) fn note_session(&self, era: &Era, id: AccountId, name: &[u8], logs_in: bool) -> AccountId {
        let mut sessions = self.sessions();
        let session = sessions.admit(id, name);
        if logs_in {
            sessions.log_in(session);
        }
        drop(sessions);
        era.accounts_mut().admit(session, id, name);
        session
    }

    /// Returns the number that an account has at a server, as the SQL function `meet_as` does.
    fn meet(&self, link: &mut Link, era: &Era, name: &[u8], logs_in: bool) -> Result<AccountId, Failure> {
        let text = String::from_utf8_lossy(name);
        let patience_ms = self.locked_accounts.patience_ms();
        let meet = "SELECT posthaste.meet_as($1, $2, $3)";
        let arguments: &[Argument<'_>] =
            &[(&text, Type::TEXT), (&logs_in, Type::BOOL), (&patience_ms, Type::INT4)];
        let rows = link.ask_of(era.server, meet, arguments)?;
        Ok(rows.first().map_or(0, |row| row.get::<_, i32>(0)).cast_unsigned())
    }

    fn call_together(
        &self,
        link: &mut Link,
        due: &[Due],
        era: &Arc<Era>,
        server: Source,
    ) -> Result<Asked, Failure> {
        let bundles: Vec<&Bundle> = due.iter().map(|one| &*one.bundle).collect();
        let waiting: Vec<Seat> = due.iter().map_while(|one| one.seat).collect();
        let call = self.knowing(era, |known| Call::new(&bundles, &waiting, known, self.shared.now_ms()));
        let rows = link.ask_of(era.server, &self.apply, &call.columns.arguments())?;
        let replies = Replies::new(rows, &call.columns.sends.op, &call.columns.reads.op);
        self.raise_floors(&call, &replies, server);
        Ok(Asked { replies, positions: call.positions, era: Arc::clone(era) })
    }

    /// Makes the call for a batch of one plain request; None: it is no such batch.
    fn call_alone(
        &self,
        link: &mut Link,
        due: &[Due],
        era: &Arc<Era>,
        server: Source,
    ) -> Result<Option<Asked>, Failure> {
        let Some(only) = only_request(due, era).filter(|_| self.unbatched.is_none()) else { return Ok(None) };
        let alone = self.knowing(era, |known| Alone::of(only.ask, only.awaited, known));
        let Some(alone) = alone else { return Ok(None) };
        let rows = alone.ask(link, era.server, self.shared.now_ms())?;
        let replies = Replies::new(rows, &[0], &[]);
        if let Some(mut floors) = self.shared.floors_of(server) {
            floors.meet(replies.newest);
        }
        Ok(Some(Asked { replies, positions: vec![only.position], era: Arc::clone(era) }))
    }

    /// Makes the call where batching is off, for a request that has a statement of its own; None: it has none.
    fn call_unbatched(&self, link: &mut Link, due: &[Due], era: &Arc<Era>) -> Result<Option<Asked>, Failure> {
        let Some(popping) = self.unbatched else { return Ok(None) };
        let Some(only) = only_request(due, era) else { return Ok(None) };
        let request = Unbatched::of(only.ask, only.awaited, &era.accounts());
        let Some(request) = request else { return Ok(None) };
        let rows = request.ask(link, era.server, popping, self.shared.now_ms())?;
        let replies = Replies::new(rows, &[], &[]);
        Ok(Some(Asked { replies, positions: vec![only.position], era: Arc::clone(era) }))
    }

    /// Runs `act` with the accounts and floors that this middleware knows.
    fn knowing<T>(&self, era: &Era, act: impl FnOnce(&Knowledge<'_>) -> T) -> T {
        let accounts = era.accounts();
        let floors = self.shared.floors();
        act(&Knowledge { accounts: &accounts, floors: &floors })
    }

    fn raise_floors(&self, call: &Call<'_>, replies: &Replies, server: Source) {
        let Some(mut floors) = self.shared.floors_of(server) else { return };
        floors.meet(replies.newest);
        for (lane, floor) in &replies.floors {
            if let Some(lane) = call.lanes.get(lane - 1) {
                floors.raise(call.queue_of(lane), lane.sender, lane.recipient, *floor);
            }
        }
    }

    /// Learns the names of accounts that are new here. The call's requests are done by now, so a failure is `Broken`.
    fn learn(&self, link: &mut Link, era: &Era, replies: &Replies) -> Result<(), Failure> {
        let strangers = replies.strangers(&era.accounts());
        if strangers.is_empty() {
            return Ok(());
        }
        let rows = names(link, era, &strangers).map_err(|failure| Failure::Broken(failure.to_string()))?;
        let mut accounts = era.accounts_mut();
        for row in rows {
            if let Some(name) = row.get::<_, Option<&str>>(0) {
                accounts.learn(row.get::<_, i32>(1).cast_unsigned(), name.as_bytes());
            }
        }
        Ok(())
    }
}

/// Fetches names of accounts, again for 10 s if the connection breaks: the messages of the reply are already taken.
fn names(link: &mut Link, era: &Era, ids: &[i32]) -> Result<Vec<Row>, Failure> {
    const SQL: &str = "SELECT name, id FROM (SELECT) AS always LEFT JOIN posthaste.account ON id = ANY($1)";
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let asked = link.ready().and_then(|()| link.ask_of(era.server, SQL, &[(&ids, Type::INT4_ARRAY)]));
        match asked {
            Err(Failure::Broken(_) | Failure::Unreachable(_)) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(50));
            }
            answered => return answered,
        }
    }
}

/// The request of a batch that has no other.
struct OnlyRequest<'a> {
    ask: Ask<'a>,
    /// Id of the queue that it has waited for.
    awaited: Option<i64>,
    position: Position,
}

fn only_request<'a>(due: &'a [Due], era: &Era) -> Option<OnlyRequest<'a>> {
    let [Due { seat, bundle }] = due else { return None };
    let [request] = &bundle.requests[bundle.pending()] else { return None };
    let account = era.accounts().number(bundle);
    let ask = Ask { account, operation: &request.operation, bytes: &bundle.bytes };
    let awaited = seat.as_ref().and_then(Seat::queue);
    let position = Position { bundle: 0, request: bundle.answered, step: Step::Other };
    Some(OnlyRequest { ask, awaited, position })
}

/// Returns whether the same call may well succeed at once.
fn is_transient(error: &tokio_postgres::Error) -> bool {
    matches!(error.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE | &SqlState::T_R_DEADLOCK_DETECTED))
}

fn only_reads(due: &[Due]) -> bool {
    due.iter()
        .all(|Due { bundle, .. }| bundle.requests[bundle.pending()].iter().all(|r| r.operation.is_read()))
}
