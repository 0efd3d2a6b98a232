//! The store in a PostgreSQL database, as workers see it: a batch in, one call, the answers out.

use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::time::Instant;

use posthaste_measure::{Clock, Events, lock};
use posthaste_wire::fault::Fault;
use posthaste_wire::operation::{Operation, Recipient};
use tokio_postgres::types::Type;

use super::address::PostgresAddress;
use super::attempt::{Attempt, Parts, was_too_much};
use super::columns::ARGUMENTS;
use super::era::CurrentEra;
use super::failure::Failure;
use super::fitting::{CALL_BUNDLES_MAX, fitting};
use super::keeper::{self, Keeper};
use super::link::Link;
use super::links::Links;
use super::locked_accounts::{self, LockedAccounts};
use super::locked_leases::{self, LockedLeases};
use super::locked_queues::{self, LockedQueues};
use super::names::Sessions;
use super::parked::{self, Due, Parked};
use super::reach::Reach;
use super::removals;
use super::replies::Replies;
use super::shared::Shared;
use super::strategy::Popping;
use super::sweeper::{self, Sweeper};
use super::under_way::Mode;
use super::undone::{Changed, failed};
use crate::path::bundle::{Address, Bundle};
use crate::path::limits;
use crate::path::waiting_line::WaitingLine;
use crate::path::worker::{Batch, Store};
use crate::queue::answer::Answer;
use crate::queue::rules::{Ask, Outcome};
use crate::time::Time;

/// A store in a database.
pub struct Postgres {
    pub(super) shared: Arc<Shared>,
    pub(super) links: Arc<Links>,
    sessions: Mutex<Sessions>,
    pub(super) clock: Clock,
    pub(super) keeper: Option<Keeper>,
    pub(super) sweeper: Sweeper,
    /// Queues whose rows other transactions lock, and the requests that wait for these.
    pub(super) locked_queues: LockedQueues,
    pub(super) locked_leases: LockedLeases,
    pub(super) locked_accounts: LockedAccounts,
    /// The statement that executes a batch.
    pub(super) apply: String,
    /// How pops are done where every request is executed on its own; None: requests are batched.
    pub(super) unbatched: Option<Popping>,
}

/// Why a store could not be opened: one sentence that says what to do.
#[derive(Debug)]
pub struct OpenError(String);

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OpenError {}

impl Postgres {
    /// Connects, and checks that the schema is the one this program knows. With `unbatched` every request is a
    /// statement and a commit of its own. What happens to the connections is recorded in `events`.
    ///
    /// # Errors
    /// Returns what stands in the way and what to do.
    pub fn open(
        address: &PostgresAddress,
        unbatched: Option<Popping>,
        time: Time,
        clock: Clock,
        events: Events,
    ) -> Result<Arc<Self>, OpenError> {
        let mut store = Self::connect(address, time, clock, events, None)?;
        store.unbatched = unbatched;
        store.keeper =
            Some(Keeper::start(&store.shared, &store.links).map_err(|error| OpenError(error.to_string()))?);
        Ok(Arc::new(store))
    }

    /// For tests: the time is what `hand` shows, and nothing happens by itself.
    ///
    /// # Errors
    /// As `open`.
    pub fn open_by_hand(
        address: &PostgresAddress,
        hand: Arc<AtomicI64>,
        clock: Clock,
    ) -> Result<Self, OpenError> {
        Self::connect(address, Time::start(), clock, Events::default(), Some(hand))
    }

    fn connect(
        address: &PostgresAddress,
        time: Time,
        clock: Clock,
        events: Events,
        hand: Option<Arc<AtomicI64>>,
    ) -> Result<Self, OpenError> {
        let reach = Reach::new(address.clone(), events);
        let mut link = Link::new(Arc::clone(&reach), None).map_err(|error| OpenError(error.to_string()))?;
        link.ready().map_err(|failure| OpenError(failure.to_string()))?;
        let places: Vec<String> = (1..=ARGUMENTS).map(|number| format!("${number}")).collect();
        Ok(Self {
            links: Arc::new(Links::new(Arc::clone(&reach), link)),
            shared: Arc::new(Shared {
                reach,
                parked: Mutex::default(),
                ended: Condvar::new(),
                era: CurrentEra::default(),
                floors: Mutex::default(),
                keeper_counts: keeper::Counts::default(),
                counts: Mutex::default(),
                line: OnceLock::new(),
                time,
                hand,
            }),
            sessions: Mutex::default(),
            clock,
            keeper: None,
            sweeper: Sweeper::default(),
            locked_queues: LockedQueues::default(),
            locked_leases: LockedLeases::default(),
            locked_accounts: LockedAccounts::default(),
            unbatched: None,
            apply: format!("SELECT * FROM posthaste.apply({})", places.join(", ")),
        })
    }

    /// Returns whether the database holds any queue. The table is asked, and not the functions, whose answers may be
    /// fixed.
    ///
    /// # Errors
    /// Why that cannot be asked.
    pub fn has_queues(&self) -> Result<bool, OpenError> {
        let rows = self.links.with(|link| link.ask("SELECT EXISTS (SELECT FROM posthaste.queue)", &[]));
        let rows = rows.map_err(|failure| OpenError(failure.to_string()))?;
        Ok(rows.first().is_some_and(|row| row.get(0)))
    }

    /// For tests: lets time pass.
    pub fn tick(&self) {
        let now = self.shared.now_ms();
        let upkeep = "SELECT * FROM posthaste.upkeep($1, 0, 1000)";
        let rows = self.links.with(|link| link.ask(upkeep, &[(&now, Type::INT8)]));
        if let Ok(rows) = rows {
            let replies = Replies::new(rows, &[], &[]);
            self.shared.count_all(&replies.counts);
            let mut parked = self.shared.parked();
            replies.news.iter().for_each(|news| parked.tell(*news));
        }
    }

    /// Gives an account a session, which creates it if its name is new, and may log it in; returns its session number.
    fn admit(&self, name: &[u8], logs_in: bool) -> Result<u32, Failure> {
        self.links.with(|link| self.remembering(link, |link, era| self.admit_at(link, era, name, logs_in)))
    }

    /// As `admit`, trying again each second while the database fails. An account that an open transaction keeps is
    /// refused, so that others need not wait for it.
    fn admit_patiently(&self, name: &[u8], logs_in: bool) -> Result<u32, Fault> {
        loop {
            let failure = match self.admit(name, logs_in) {
                Ok(session) => return Ok(session),
                Err(failure) => failure,
            };
            if let Some(fault) = self.refusal_of_login(&failure) {
                return Err(fault);
            }
            tracing::warn!("{failure}; an account cannot be made, trying again");
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
    }

    /// Locks and returns the session numbers.
    pub(super) fn sessions(&self) -> MutexGuard<'_, Sessions> {
        lock(&self.sessions)
    }

    /// Takes out the waiting pops that are woken, and ends those whose deadline has passed.
    fn take_pops(&self, due: &mut Vec<Due>, finished: &mut Vec<Box<Bundle>>) {
        let mut parked = self.shared.parked();
        let now = self.shared.time.millis();
        while let Some((seat, mut bundle)) = parked.take_expired(now) {
            if parked.has_long_rounds() || self.may_overlook() {
                // The pop looks once more.
                due.push(Due { seat: Some(seat), bundle });
                continue;
            }
            bundle.answer_empty();
            match bundle.is_done() {
                true => finished.push(bundle),
                false => due.push(Due { seat: None, bundle }),
            }
        }
        due.extend(parked.take_woken(CALL_BUNDLES_MAX));
    }

    /// Returns whether a message may be there that a waiting pop has not found: nobody tells of it, or who was told could
    /// not look.
    fn may_overlook(&self) -> bool {
        let reach = &self.shared.reach;
        !reach.keeps_sessions() || reach.is_down() || self.locked_queues.are_any()
    }

    /// Executes as many bundles as fit into one call: each is then finished, parked or left for another turn, as are those
    /// that do not fit, so that no answer waits for theirs and few are held in memory at once. Pops woken by this batch
    /// run in the next turn too.
    fn execute(&self, mut due: Vec<Due>, batch: &mut Batch) {
        due = self.set_aside_locked_queues(due);
        due = self.set_aside_leases(due, batch);
        due = self.refuse_locked_accounts(due, batch);
        // Pops that waited go before new requests.
        due.sort_by_key(parked::arrival);
        let copies = self.shared.era.get().map_or(usize::MAX, |era| era.copies());
        let has_waited = due.iter().any(|one| one.seat.is_some());
        let is_catching_up = has_waited && self.shared.reach.is_catching_up();
        let fit = fitting(&mut due, copies, is_catching_up);
        let mut others = due.split_off(fit);
        let newcomers = others.extract_if(.., |one| one.seat.is_none()).map(|one| one.bundle);
        batch.waiting.splice(0..0, newcomers);
        if !due.is_empty() {
            self.execute_together(due, batch);
        }
        // Only now, or another worker might execute them first.
        if !others.is_empty() {
            self.shared.wake(|parked| parked.take_back(others));
        }
    }

    /// Executes bundles that fit into one call, with the waiting pops that their SENDs would satisfy.
    fn execute_together(&self, mut due: Vec<Due>, batch: &mut Batch) {
        let has_waited = due.iter().any(|one| one.seat.is_some());
        let since = self.shared.begin(if has_waited { Mode::Exclusive } else { Mode::Shared });
        self.take_along_waiters(&mut due);
        due.sort_by_key(parked::arrival);
        match self.unbatched {
            None => self.attempt(due, Attempt::first(since), batch),
            Some(_) => due.into_iter().for_each(|one| self.attempt(vec![one], Attempt::first(since), batch)),
        }
        self.shared.end(since);
    }

    /// Takes along the waiting pops that the batch's SENDs would satisfy.
    fn take_along_waiters(&self, due: &mut Vec<Due>) {
        let mut parked = self.shared.parked();
        if parked.len() == 0 {
            return;
        }
        let Some(era) = self.shared.era.get() else { return };
        let accounts = era.accounts();
        let requests = due.iter().flat_map(|Due { bundle, .. }| {
            bundle.requests[bundle.pending()].iter().map(move |one| (bundle, one))
        });
        let sent = requests.filter_map(|(bundle, request)| {
            let (queue, recipient, messages) = match &request.operation {
                Operation::Send(send) if send.delay_ms == 0 => match send.to {
                    Recipient::Account(name) => (send.queue, accounts.id(name.of(&bundle.bytes)), 1),
                    Recipient::Anyone | Recipient::Everyone => (send.queue, None, 1),
                },
                Operation::SendMany { queue, bodies } => (*queue, None, bodies.len()),
                _ => return None,
            };
            Some(std::iter::repeat_n((queue.of(&bundle.bytes), accounts.number(bundle), recipient), messages))
        });
        let along = parked.wake_for_sends(sent.flatten());
        due.extend(along);
    }

    /// Makes one call for all bundles. If the database refuses it or takes too long, it is tried again in halves, down
    /// to the bundle or request that is to blame.
    pub(super) fn attempt(&self, due: Vec<Due>, attempt: Attempt, batch: &mut Batch) {
        let due = self.end_departed(due, batch);
        if due.is_empty() {
            return;
        }
        let asked =
            attempt.within().ok_or_else(Failure::told_to_stop).and_then(|within| self.call(&due, within));
        match asked {
            Ok(asked) => {
                batch.shift = None;
                batch.reported_ns += asked.replies.statement_ns;
                self.answer(due, &asked, attempt.since, &mut batch.finished);
            }
            Err(failure) if sweeper::is_cause(&due, &failure) => {
                self.retry_without_large_queue(due, sweeper::large_queue(&failure), attempt, batch);
            }
            Err(failure) if let Some(excess) = removals::excess(&due, &failure) => {
                self.retry_with_fewer_removals(due, excess, attempt, batch);
            }
            Err(failure) if locked_queues::is_cause(&due, &failure) => {
                self.retry_without_locked_queues(due, locked_queues::locked_queues(&failure), attempt, batch);
            }
            Err(failure) if locked_leases::may_be_cause(&due, &failure) => {
                self.retry_without_locked_leases(due, &failure, attempt, batch);
            }
            Err(failure) if locked_accounts::is_cause(&failure) => {
                self.retry_without_locked_accounts(due, &failure, attempt, batch);
            }
            Err(failure) => self.attempt_in_parts_or_give_up(due, &failure, attempt, batch),
        }
    }

    /// Tries a failed batch again in parts if that may help, and otherwise answers with the error.
    pub(super) fn attempt_in_parts_or_give_up(
        &self,
        due: Vec<Due>,
        failure: &Failure,
        attempt: Attempt,
        batch: &mut Batch,
    ) {
        match attempt.within().is_some() && is_worth_parts(&due, failure) {
            true => self.attempt_in_parts(due, failure, attempt, batch),
            false => self.give_up(due, failure, batch),
        }
    }

    /// Tries half of the bundles and then the others, or half of a single bundle's requests; the rest has another turn.
    fn attempt_in_parts(&self, mut due: Vec<Due>, failure: &Failure, attempt: Attempt, batch: &mut Batch) {
        tracing::warn!(requests = names(&due), "a batch is tried in parts: {failure}");
        let Parts { first, rest } = attempt.in_parts(failure);
        if let [Due { bundle, .. }] = &mut due[..] {
            bundle.progress.held_back = Some(bundle.answered + bundle.pending().len() / 2);
            return self.attempt(due, rest, batch);
        }
        let others = due.split_off(due.len() / 2);
        self.attempt(due, first, batch);
        self.attempt(others, rest, batch);
    }

    /// Answers with an error the requests that cannot be executed or whose outcome is unknown; pops of which nothing
    /// happened are parked again.
    pub(super) fn give_up(&self, due: Vec<Due>, failure: &Failure, batch: &mut Batch) {
        if !matches!(failure, Failure::Unreachable(_)) {
            tracing::warn!(requests = names(&due), "{failure}");
        }
        self.shared.floors().forget();
        let undone = match failure {
            Failure::Unreachable(_) | Failure::Elsewhere | Failure::Stopped(_) => true,
            Failure::Refused(error) => !may_be_one_request(error),
            Failure::Broken(_) => false,
        };
        for Due { seat, mut bundle } in due {
            if let Some(seat) = seat.filter(|_| undone) {
                // Its client need not know: the pop goes on waiting.
                let put_back = match failure {
                    // It refuses all for now, and says so; the pop looks by itself now and then.
                    Failure::Refused(_) => Parked::put_back,
                    _ => Parked::put_back_undone,
                };
                // One whose time is over has not looked a last time, and cannot say that there is nothing.
                let Some(left) = put_back(&mut self.shared.parked(), seat, bundle) else { continue };
                bundle = left;
            } else if let Some(seat) = seat {
                self.shared.parked().done(seat);
            }
            // Requests held back have their own turn.
            while !bundle.pending().is_empty() {
                bundle.refuse_one(&failed(failure, Changed::Removed(bundle.progress.removal.messages)));
            }
            batch.finished.push(bundle);
        }
    }
}

/// Returns whether all open requests of a bundle are figures and lists, whose cost grows with what the queues hold.
pub(super) fn only_counts(bundle: &Bundle) -> bool {
    use Operation::{Browse, ListQueues, QueueInfo};
    let open = &bundle.requests[bundle.pending()];
    open.iter().all(|one| matches!(one.operation, ListQueues { .. } | QueueInfo { .. } | Browse { .. }))
}

/// Returns the ids of the requests for the log: the first one of each bundle, of at most `NAMES_MAX` bundles.
fn names(due: &[Due]) -> String {
    const NAMES_MAX: usize = 8;
    let names =
        due.iter().take(NAMES_MAX).map(|Due { bundle, .. }| bundle.request_name(bundle.answered).to_string());
    let mut text = names.collect::<Vec<_>>().join(" ");
    if due.len() > NAMES_MAX {
        text.push_str(" …");
    }
    text
}

/// Returns whether an error may be the fault of one request, so that the others are worth another attempt.
fn may_be_one_request(error: &tokio_postgres::Error) -> bool {
    let class = error.code().map_or("", |code| &code.code()[..2]);
    !matches!(class, "25" | "53" | "57" | "58")
}

/// Returns whether some of the requests may succeed without the rest. A single bundle is split only if it was too much.
fn is_worth_parts(due: &[Due], failure: &Failure) -> bool {
    let may_be_one = matches!(failure, Failure::Refused(error) if may_be_one_request(error));
    match due {
        [Due { bundle, .. }] => bundle.pending().len() > 1 && was_too_much(failure),
        _ => was_too_much(failure) || may_be_one,
    }
}

impl Store for Postgres {
    fn run(&self, batch: &mut Batch) {
        if !self.answer_logins(batch) {
            // These answers do not wait for the rest of the batch, which has a turn of its own.
            batch.answered_at = self.clock.stamp();
            return;
        }
        let mut due: Vec<Due> = Vec::new();
        if self.go_apart(&batch.waiting) {
            // Another worker executes the pops.
            self.shared.nudge();
        } else {
            self.take_pops(&mut due, &mut batch.finished);
        }
        // Counting messages may take long: all other requests are answered first.
        let mut later: Vec<_> = batch.waiting.extract_if(.., |bundle| only_counts(bundle)).collect();
        if due.is_empty() && batch.waiting.is_empty() {
            std::mem::swap(&mut batch.waiting, &mut later);
        }
        due.extend(batch.waiting.drain(..).map(|bundle| Due { seat: None, bundle }));
        batch.waiting = later;
        if !due.is_empty() {
            self.execute(due, batch);
        }
        batch.answered_at = self.clock.stamp();
    }

    fn reported_time(&self) -> Option<&'static str> {
        Some("statement")
    }

    /// Returns false without trying: a network thread must not wait for a database.
    fn try_run(&self, _batch: &mut Batch) -> bool {
        false
    }

    fn may_answer_at_once(&self, operation: &Operation) -> bool {
        matches!(operation, Operation::Login { .. })
    }

    fn answer(&self, ask: Ask<'_>, answer: &mut Answer<'_>) -> Option<Outcome> {
        let Operation::Login { account } = ask.operation else { return None };
        let session = self.sessions().of_login(account.of(ask.bytes))?;
        self.shared.era.get()?.accounts().of_session(session)?;
        Some(answer.integer(session.into()))
    }

    fn deadline(&self) -> Option<Instant> {
        let parked = self.shared.parked();
        if parked.has_woken() {
            return Some(Instant::now());
        }
        parked.deadline().map(|at| self.shared.time.instant(at))
    }

    fn record_departure(&self, address: Address) -> Option<Box<Bundle>> {
        if let Some(mut bundle) = self.locked_queues.leave(address) {
            bundle.refuse_departed();
            return Some(bundle);
        }
        let mut parked = self.shared.parked();
        let mut bundle = parked.leave(address)?;
        let has_woken = parked.has_woken();
        drop(parked);
        if has_woken {
            self.shared.nudge();
        }
        bundle.answer_empty();
        Some(bundle)
    }

    fn forget_departure(&self, address: Address) {
        self.shared.parked().forget(address);
    }

    fn end_waits(&self) {
        self.locked_queues.end_waits();
        self.shared.parked().end_all_waits();
    }

    fn account(&self, name: &[u8]) -> Result<u32, Fault> {
        self.admit_patiently(name, true)
    }

    fn meet_account(&self, name: &[u8]) -> Result<u32, Fault> {
        self.admit_patiently(name, false)
    }

    fn attach(&self, line: &Arc<WaitingLine>) {
        let _ = self.shared.line.set(Arc::clone(line)); // once
        line.gather(limits::GATHER_MAX);
    }

    fn is_far(&self) -> bool {
        true
    }

    fn trouble(&self) -> Option<String> {
        self.shared.reach.trouble()
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        let reach = &self.shared.reach;
        let mut figures = vec![
            ("blocked_clients", self.shared.parked().len() as u64),
            ("store_failed", u64::from(reach.trouble().is_some())),
            ("store_connections_made", reach.connections_made()),
            ("keeper_listens", u64::from(reach.keeps_sessions())),
        ];
        figures.extend(lock(&self.shared.counts).figures());
        figures.extend(self.links.figures());
        figures.extend(self.shared.keeper_counts.figures(self.shared.time.millis()));
        figures
    }
}
