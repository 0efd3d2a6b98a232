//! Pops that wait for the same messages; some of them (NOTOWN) take none that their own account sends.
//!
//! The first pop that takes a message is found with a fixed number of look-ups, however many NOTOWN pops of its sender
//! are before it: of a run of consecutive NOTOWN pops of one account only the first is examined, and then the first of
//! the next run, which belongs to another account.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::waiters::Ticket;
use crate::queue::rules::AccountId;

/// The tickets of pops that wait for the same messages.
#[derive(Default)]
pub(super) struct Tickets {
    /// Pops that take messages of every sender.
    from_all: BTreeSet<Ticket>,
    /// Pops that take messages of every sender but this account.
    from_others: BTreeMap<Ticket, AccountId>,
    /// The first ticket of every run of consecutive tickets in `from_others` with the same account.
    run_starts: BTreeSet<Ticket>,
}

impl Tickets {
    /// Adds a ticket. `not_from` is the account whose messages its pop does not take.
    pub(super) fn insert(&mut self, ticket: Ticket, not_from: Option<AccountId>) {
        let Some(account) = not_from else {
            self.from_all.insert(ticket);
            return;
        };
        self.from_others.insert(ticket, account);
        self.update_run_start(ticket);
        self.update_next_run_start(ticket);
    }

    /// Removes a ticket.
    pub(super) fn remove(&mut self, ticket: Ticket) {
        if self.from_others.remove(&ticket).is_some() {
            self.run_starts.remove(&ticket);
            self.update_next_run_start(ticket);
        } else {
            self.from_all.remove(&ticket);
        }
    }

    /// Returns the first ticket from `from` on whose pop takes a message of `sender` (None: news without a sender).
    pub(super) fn first_for_sender(&self, from: Ticket, sender: Option<AccountId>) -> Option<Ticket> {
        let from_all = self.from_all.range(from..).next().copied();
        from_all.into_iter().chain(self.first_from_others(from, sender)).min()
    }

    /// Returns whether there is no ticket.
    pub(super) fn is_empty(&self) -> bool {
        self.from_all.is_empty() && self.from_others.is_empty()
    }

    fn first_from_others(&self, from: Ticket, sender: Option<AccountId>) -> Option<Ticket> {
        let (&ticket, &account) = self.from_others.range(from..).next()?;
        if sender != Some(account) {
            return Some(ticket);
        }
        self.run_starts.range((Bound::Excluded(ticket), Bound::Unbounded)).next().copied()
    }

    /// Notes whether a run starts with this ticket: the ticket before it, if there is one, is of another account.
    fn update_run_start(&mut self, ticket: Ticket) {
        let before = self.from_others.range(..ticket).next_back().map(|(_, account)| account);
        if before == self.from_others.get(&ticket) {
            self.run_starts.remove(&ticket);
        } else {
            self.run_starts.insert(ticket);
        }
    }

    /// Notes whether a run starts with the ticket after this one.
    fn update_next_run_start(&mut self, ticket: Ticket) {
        let next = self.from_others.range((Bound::Excluded(ticket), Bound::Unbounded)).next();
        if let Some((&next, _)) = next {
            self.update_run_start(next);
        }
    }
}
