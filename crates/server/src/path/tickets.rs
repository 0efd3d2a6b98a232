//! Places of pops that wait for the same, of which some (NOTOWN) take nothing that their own account sends.
//!
//! The first that takes a message is found in a fixed number of looks, however many of its sender's own stand before it: of
//! places with NOTOWN that belong to one account and follow each other only the first is ever looked at, and then the
//! one behind them, which is another's.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::waiters::Ticket;
use crate::queue::rules::AccountId;

/// One list of them.
#[derive(Default)]
pub(super) struct Tickets {
    /// These take what anybody sends.
    from_all: BTreeSet<Ticket>,
    /// These take what others than this account send.
    from_others: BTreeMap<Ticket, AccountId>,
    /// Those of them that have another account's before them, or none.
    turns: BTreeSet<Ticket>,
}

impl Tickets {
    /// Adds a place. `not_from`: whose messages it does not take.
    pub(super) fn insert(&mut self, ticket: Ticket, not_from: Option<AccountId>) {
        let Some(account) = not_from else {
            self.from_all.insert(ticket);
            return;
        };
        self.from_others.insert(ticket, account);
        self.mark(ticket);
        self.mark_behind(ticket);
    }

    /// Takes a place out.
    pub(super) fn remove(&mut self, ticket: Ticket) {
        if self.from_others.remove(&ticket).is_some() {
            self.turns.remove(&ticket);
            self.mark_behind(ticket);
        } else {
            self.from_all.remove(&ticket);
        }
    }

    /// The first from this place on that takes what `sender` sends; None: what nobody has sent.
    pub(super) fn first(&self, from: Ticket, sender: Option<AccountId>) -> Option<Ticket> {
        let from_all = self.from_all.range(from..).next().copied();
        from_all.into_iter().chain(self.first_from_others(from, sender)).min()
    }

    /// Whether there is no place.
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

    /// Notes whether a place has another account's before it.
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
