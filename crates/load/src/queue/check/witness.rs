//! What a client of a checked run asked and was told, kept for the history checker.
//!
//! The ledger accounts for every message of a run of any length, but cannot say which of two came first when two
//! clients sent them. That takes the times of all requests, so they are kept in memory, as many as the
//! [`JournalBudget`] allows. When it is spent every client stops writing, and the run is judged up to then: a beginning
//! of which everything is known.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use posthaste_history::{Answer, At, Body, Call, Delivery, History, Journal, Name, Outcome, Select, Send};
use posthaste_measure::Clock;
use posthaste_wire::reply::{Item, Value, pairs};

use crate::queue::check::refusal::was_refused;
use crate::queue::request::{Account, Read, Request};

/// Number of requests that are kept; about 200 bytes each.
pub(crate) const REQUESTS_MAX: u64 = 1 << 20;

/// Client numbers in the history. The run's clients have that of their account; from these on lie those of the preload,
/// of the drain, and of the audit.
pub(crate) const PRELOAD: u32 = 1 << 30;
pub(crate) const DRAIN: u32 = 2 << 30;
pub(crate) const AUDIT: u32 = 3 << 30;

/// How many more requests all clients together may keep in their journals, and the clock of these.
#[derive(Debug)]
pub(crate) struct JournalBudget {
    clock: Clock,
    left: AtomicU64,
    /// Time from which requests were not kept; `u64::MAX` while all are.
    spent_since: AtomicU64,
}

impl JournalBudget {
    /// Creates a budget of this many requests.
    pub(crate) fn new(requests: u64) -> Self {
        Self { clock: Clock::start(), left: AtomicU64::new(requests), spent_since: AtomicU64::new(u64::MAX) }
    }

    /// Returns the time of a new request, if it is within the budget.
    fn enter(&self) -> Option<u64> {
        let now = self.clock.now();
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if taken.is_err() {
            self.spent_since.fetch_min(now, Ordering::Relaxed);
        }
        taken.ok().map(|_| now)
    }

    /// Returns the time up to which every request was kept; None if all were.
    pub(crate) fn spent_since(&self) -> Option<u64> {
        Some(self.spent_since.load(Ordering::Relaxed)).filter(|since| *since < u64::MAX)
    }

    /// Returns the nanoseconds since the budget was made.
    pub(crate) fn now(&self) -> u64 {
        self.clock.now()
    }
}

/// One client's journal.
#[derive(Debug)]
pub(crate) struct Witness {
    budget: Arc<JournalBudget>,
    journal: Journal,
    /// Whether it has stopped writing.
    silent: bool,
}

impl Witness {
    /// Creates the journal of client `client` of the history; None if the account's number is no name.
    pub(crate) fn new(budget: &Arc<JournalBudget>, client: u32, account: Account) -> Option<Self> {
        let journal = Journal::numbered(client, Name::number(account.into())?);
        Some(Self { budget: Arc::clone(budget), journal, silent: false })
    }

    /// Records a request that is about to be sent; returns its number, if it is kept.
    pub(crate) fn asks(&mut self, request: Request, body: &[u8]) -> Option<usize> {
        let call = call(request, body)?;
        self.begin(call)
    }

    /// Records any call that is about to be sent; returns its number, if it is kept.
    pub(crate) fn begin(&mut self, call: Call) -> Option<usize> {
        if self.silent {
            return None;
        }
        match self.budget.enter() {
            Some(now) => Some(self.journal.begin(now, call)),
            None => {
                self.silent = true;
                None
            }
        }
    }

    /// Records the answer to request `number`.
    pub(crate) fn told(&mut self, number: usize, request: Request, item: &Item<'_>, bytes: &[u8]) {
        self.end(number, outcome(request, item, bytes));
    }

    /// Records how request `number` ended.
    pub(crate) fn end(&mut self, number: usize, outcome: Outcome) {
        self.journal.end(number, self.budget.now(), outcome);
    }

    /// Returns the place of request `number` in the history.
    pub(crate) fn place(&self, number: usize) -> Option<At> {
        Some(At { client: self.journal.client(), number: u32::try_from(number).ok()? })
    }

    /// Adds the journal to the history.
    pub(crate) fn add_to(&self, history: &mut History) {
        history.add(&self.journal);
    }

    /// Adds the journal to the history as part of the final drain.
    pub(crate) fn add_drain_to(&self, history: &mut History) {
        history.drain(&self.journal);
    }

    /// Ends all requests under way: nobody waits for their answers any longer, and they may have taken effect until
    /// now.
    pub(crate) fn close(&mut self) {
        self.journal.close(self.budget.now());
    }
}

/// Converts a request for the journal; None for those that no rule is about.
fn call(request: Request, body: &[u8]) -> Option<Call> {
    let account = |account: Option<Account>| account.map(|account| Name::number(account.into()));
    Some(match request {
        Request::Send { queue, to } => {
            let queue = Name::number(queue)?;
            Call::Send(Send {
                to: to.and_then(|to| Name::number(to.into())),
                ..Send::new(queue, Body::of(body))
            })
        }
        Request::Read(Read { remove, queue, from, broadcast }) => {
            let queue = queue.and_then(Name::number);
            let select = Select { queue, from: account(from).flatten(), broadcast, ..Select::default() };
            if remove { Call::Pop(select) } else { Call::Peek(select) }
        }
        Request::Create => Call::Create { queue: None },
        Request::Delete { queue } => Call::Delete { queue: Name::number(queue)? },
        Request::Readable | Request::Echo => return None,
    })
}

/// Converts an answer for the journal. The outcome is unknown if the answer is not understood.
fn outcome(request: Request, item: &Item<'_>, bytes: &[u8]) -> Outcome {
    match (request, item) {
        (_, item) if was_refused(item) => Outcome::Fail,
        (Request::Send { .. }, Item::Scalar(Value::Integer(id))) => {
            Outcome::Ok(Answer::Ids([id.cast_unsigned()].into()))
        }
        (Request::Read(_), Item::Scalar(Value::Null)) => Outcome::Ok(Answer::Messages([].into())),
        (Request::Read(read), Item::Compound(..)) => match delivery(bytes, read.remove) {
            Some(delivery) => Outcome::Ok(Answer::Messages([delivery].into())),
            None => Outcome::Info,
        },
        (Request::Create | Request::Delete { .. }, Item::Scalar(Value::Integer(number))) => {
            Outcome::Ok(Answer::Number(number.cast_unsigned()))
        }
        _ => Outcome::Info,
    }
}

/// Reads a message map; None if it is no message of numbered accounts in a numbered queue.
fn delivery(bytes: &[u8], handed_out: bool) -> Option<Delivery> {
    let (mut queue, mut from, mut body) = (None, None, None);
    let (mut id, mut to, mut deliveries) = (0, None, u32::from(handed_out));
    for (name, value) in pairs(bytes) {
        match name {
            b"id" => id = value.as_integer()?.cast_unsigned(),
            b"queue" => queue = self::name(&value),
            b"from" => from = self::name(&value),
            b"to" => to = self::name(&value),
            b"deliveries" => deliveries = u32::try_from(value.as_integer()?).ok()?,
            b"body" => body = value.as_bytes().map(Body::of),
            _ => {}
        }
    }
    Some(Delivery {
        id,
        queue: queue?,
        from: from?,
        to,
        priority: 0,
        deliveries,
        headers: None,
        body: body?,
        receipt: None,
        first_queue: None,
    })
}

fn name(value: &Value<'_>) -> Option<Name> {
    Name::number(std::str::from_utf8(value.as_bytes()?).ok()?.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spent_budget_ends_every_journal_and_says_since_when() {
        let budget = Arc::new(JournalBudget::new(2));
        let mut witnesses = [1, 2].map(|account| Witness::new(&budget, account, account).expect("a number"));
        for witness in &mut witnesses {
            assert_eq!(witness.asks(Request::Readable, &[]), None, "no rule is about it");
            assert_eq!(witness.asks(Request::Create, &[]), Some(0));
        }
        assert_eq!(budget.spent_since(), None);
        let before = budget.now();
        assert_eq!(witnesses[0].asks(Request::Create, &[]), None);
        let since = budget.spent_since().expect("it is spent");
        assert!((before..=budget.now()).contains(&since));
        assert_eq!(witnesses[1].asks(Request::Create, &[]), None);
        assert_eq!(budget.spent_since(), Some(since));
    }

    #[test]
    fn an_answer_nobody_understands_may_mean_anything() {
        let read = Request::Read(Read { remove: true, queue: Some(1), ..Read::default() });
        assert_eq!(outcome(read, &Item::Scalar(Value::Integer(5)), b":5\r\n"), Outcome::Info);
        assert_eq!(outcome(read, &Item::Scalar(Value::Error(b"STORE x")), b"-STORE x\r\n"), Outcome::Info);
        assert_eq!(outcome(read, &Item::Scalar(Value::Error(b"BUSY x")), b"-BUSY x\r\n"), Outcome::Fail);
    }
}
