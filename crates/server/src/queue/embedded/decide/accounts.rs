//! LOGIN and ACCOUNTS.

use posthaste_wire::fault::Fault;

use crate::queue::answer::Answer;
use crate::queue::embedded::effect::Effect;
use crate::queue::embedded::log::Purpose;
use crate::queue::embedded::{Embedded, REQUEST_BYTES};
use crate::queue::rules::{AccountId, Outcome};

impl Embedded {
    pub(super) fn login(&mut self, name: &[u8], answer: &mut Answer<'_>) -> Result<Outcome, Fault> {
        if self.stock.accounts.find(name).is_none() {
            self.has_memory()?;
        }
        if self.stock.accounts.known(name).is_none() {
            self.ensure(REQUEST_BYTES, Purpose::Add)?;
        }
        Ok(answer.integer(self.log_in(name).into()))
    }

    /// The name's number, if a crash cannot make it unknown.
    pub(super) fn durably_known(&self, name: &[u8]) -> Option<AccountId> {
        let known = self.stock.accounts.known(name);
        known.filter(|id| self.stock.lanes.changes.spare_account(*id))
    }

    pub(super) fn list_accounts(&mut self, answer: &mut Answer<'_>) -> Result<Outcome, Fault> {
        let accounts = &self.stock.accounts;
        answer.array(accounts.all_known().count());
        accounts.all_known().for_each(|(id, account)| answer.account(&account.name, id));
        Ok(Outcome::Ok)
    }

    /// The name's number; from now on it is known. Space was reserved.
    pub(in crate::queue::embedded) fn log_in(&mut self, name: &[u8]) -> AccountId {
        self.stock.accounts.known(name).unwrap_or_else(|| self.set_account(name, true))
    }

    /// The name's number, given now when it is new. Space was reserved.
    pub(super) fn meet(&mut self, name: &[u8]) -> AccountId {
        self.stock.accounts.find(name).unwrap_or_else(|| self.set_account(name, false))
    }

    fn set_account(&mut self, name: &[u8], known: bool) -> AccountId {
        let accounts = &self.stock.accounts;
        let id = accounts.find(name).unwrap_or_else(|| accounts.next_id());
        self.record(&Effect::Account { id, known, name });
        id
    }
}
