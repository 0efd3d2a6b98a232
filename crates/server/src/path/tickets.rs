//! Pops that wait for the same messages; some of them (NOTOWN) take none that their own account sends.
//!
//! The first pop that takes a message is found with a fixed number of look-ups, however many NOTOWN pops of its sender
//! stand before it: of consecutive NOTOWN pops of one account only the first is looked at, and then the pop behind
//! them, which belongs to another account.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::waiters::Ticket;
use crate::queue::rules::AccountId;

/// The tickets of such pops.
#[derive(Default)]
pub(super) struct Tickets {
    /// Pops that take messages of every sender.
    from_all: BTreeSet<Ticket>,
    /// Pops that take messages of every sender but this account.
    from_others: BTreeMap<Ticket, AccountId>,
    /// The tickets in `from_others` whose predecessor there is of another account, or that have none.
    turns: BTreeSet<Ticket>,
}

impl Tickets {
    /// Adds a ticket. `not_from` is the account whose messages its pop does not take.
    pub(super) fn insert(&mut self, ticket: Ticket, not_from: Option<AccountId>) {
        let Some(account) = not_from else {
            self.from_all.insert(ticket);
            return;
        };
        self.from_others.insert(ticket, account);
        self.mark(ticket);
        self.mark_behind(ticket);
    }

    /// Removes a ticket.
    pub(super) fn remove(&mut self, ticket: Ticket) {
        if self.from_others.remove(&ticket).is_some() {
            self.turns.remove(&ticket);
            self.mark_behind(ticket);
        } else {
            self.from_all.remove(&ticket);
        }
    }

    /// Returns the first ticket from `from` on whose pop takes a message of `sender` (None: news without a sender).
    pub(super) fn first(&self, from: Ticket, sender: Option<AccountId>) -> Option<Ticket> {
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
        self.turns.range((Bound::Excluded(ticket), Bound::Unbounded)).next().copied()
    }

    /// Notes whether the predecessor of a ticket is of another account.
    fn mark(&mut self, ticket: Ticket) {
        let before = self.from_others.range(..ticket).next_back().map(|(_, account)| account);
        if before == self.from_others.get(&ticket) {
            self.turns.remove(&ticket);
        } else {
            self.turns.insert(ticket);
        }
    }

    fn mark_behind(&mut self, ticket: Ticket) {
        let behind = self.from_others.range((Bound::Excluded(ticket), Bound::Unbounded)).next();
        if let Some((&behind, _)) = behind {
            self.mark(behind);
        }
    }
}
