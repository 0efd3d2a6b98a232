//! LOGIN and ACCOUNTS.

use posthaste_wire::fault::Fault;
use posthaste_wire::operation::ACCOUNTS_PIECE;

use crate::queue::answer::Answer;
use crate::queue::embedded::Embedded;
use crate::queue::embedded::effect::Effect;
use crate::queue::embedded::log::Purpose;
use crate::queue::embedded::record::bounds::REQUEST_BYTES;
use crate::queue::rules::{AccountId, Outcome};

impl Embedded {
    pub(super) fn login(&mut self, name: &[u8], answer: &mut Answer<'_>) -> Result<Outcome, Fault> {
        if self.stock.accounts.find(name).is_none() {
            self.has_memory()?;
        }
        if self.stock.accounts.known(name).is_none() {
            self.reserve(REQUEST_BYTES, Purpose::Add)?;
        }
        Ok(answer.integer(self.log_in(name).into()))
    }

    /// Returns the name's number if it is known and no crash can make it unknown.
    pub(super) fn durably_known(&self, name: &[u8]) -> Option<AccountId> {
        let known = self.stock.accounts.known(name);
        known.filter(|id| self.stock.changes.is_account_durable(*id))
    }

    /// Answers a piece of ACCOUNTS, among which may be accounts that are not listed: they have never logged in.
    pub(super) fn list_accounts(&self, after: u64, answer: &mut Answer<'_>) -> Outcome {
        let accounts = &self.stock.accounts;
        let last = after + ACCOUNTS_PIECE as u64;
        let goes_on = last < accounts.len() as u64;
        let piece = || accounts.known_among(after, ACCOUNTS_PIECE);
        answer.array(piece().count() + usize::from(goes_on));
        piece().for_each(|(id, account)| answer.account(&account.name, id));
        if goes_on { answer.integer(last) } else { Outcome::Ok }
    }

    /// Makes the name known and returns its number. Space must have been reserved.
    pub(in crate::queue::embedded) fn log_in(&mut self, name: &[u8]) -> AccountId {
        self.stock.accounts.known(name).unwrap_or_else(|| self.set_account(name, true))
    }

    /// Returns the name's number, and gives it one if it has none. Space must have been reserved.
    pub(in crate::queue::embedded) fn meet(&mut self, name: &[u8]) -> AccountId {
        self.stock.accounts.find(name).unwrap_or_else(|| self.set_account(name, false))
    }

    fn set_account(&mut self, name: &[u8], known: bool) -> AccountId {
        let accounts = &self.stock.accounts;
        let id = accounts.find(name).unwrap_or_else(|| accounts.next_id());
        self.record(&Effect::Account { id, known, name });
        id
    }
}
