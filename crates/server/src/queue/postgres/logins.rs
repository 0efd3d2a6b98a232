//! LOGINs of accounts that this middleware has not met, which is how most connections begin: those of a batch are one
//! call, before the rest of the batch, which then finds the accounts known.

use posthaste_wire::operation::Operation;
use tokio_postgres::types::Type;

use super::era::Era;
use super::failure::Failure;
use super::link::{Argument, Link};
use super::locked_accounts::refusal_of_locked_account;
use super::names::text;
use super::store::Postgres;
use super::undone::{Changed, failed};
use crate::path::bundle::Bundle;
use crate::path::worker::Batch;
use crate::queue::rules::AccountId;

impl Postgres {
    /// Answers the LOGINs of a batch; one whose account another transaction keeps is refused. Returns whether the call
    /// for them was done: if it failed, that may have taken long.
    pub(super) fn answer_logins(&self, batch: &mut Batch) -> bool {
        let is_login = |bundle: &mut Box<Bundle>| login_name(bundle).is_some();
        let mut logins: Vec<Box<Bundle>> = batch.waiting.extract_if(.., is_login).collect();
        if logins.is_empty() {
            return true;
        }
        let names: Vec<&[u8]> = logins.iter().filter_map(|bundle| login_name(bundle)).collect();
        let asked = self.log_in_together(&names);
        let is_done = asked.is_ok();
        match asked {
            Ok(sessions) => logins.iter_mut().zip(sessions).for_each(|(bundle, session)| match session {
                Some(session) => bundle.answer_integer(session.into()),
                None => bundle.refuse_one(&refusal_of_locked_account()),
            }),
            Err(failure) => {
                let refusal = failed(&failure, Changed::NOTHING);
                logins.iter_mut().for_each(|bundle| bundle.refuse_one(&refusal));
            }
        }
        batch.finished.append(&mut logins);
        is_done
    }

    /// Logs accounts in, which creates those whose names are new; returns their session numbers, none for an account
    /// that another transaction keeps.
    fn log_in_together(&self, names: &[&[u8]]) -> Result<Vec<Option<AccountId>>, Failure> {
        self.links.with(|link| {
            self.remembering(link, |link, era| {
                let ids = self.meet_all_at(link, era, names, true)?;
                let sessions = names.iter().zip(ids).map(|(name, id)| {
                    if id.is_none() {
                        self.locked_accounts.note(text(name));
                    }
                    id.map(|id| self.note_session(era, id, name, true))
                });
                Ok(sessions.collect())
            })
        })
    }

    /// Makes sure that accounts exist at a server, and returns their numbers there, none for an account that another
    /// transaction keeps.
    pub(super) fn meet_all_at(
        &self,
        link: &mut Link,
        era: &Era,
        names: &[&[u8]],
        logs_in: bool,
    ) -> Result<Vec<Option<AccountId>>, Failure> {
        let texts: Vec<&str> = names.iter().map(|name| text(name)).collect();
        let patience_ms = self.locked_accounts.patience_ms();
        let arguments: &[Argument<'_>] =
            &[(&texts, Type::TEXT_ARRAY), (&logs_in, Type::BOOL), (&patience_ms, Type::INT4)];
        let rows = link.ask_of(era.server, "SELECT posthaste.meet_all($1, $2, $3)", arguments)?;
        let ids: Vec<Option<i32>> = rows.first().map(|row| row.get(0)).unwrap_or_default();
        Ok(ids.into_iter().map(|id| id.map(i32::cast_unsigned)).collect())
    }
}

/// Returns the account that the next request of a bundle logs in; None: it is no LOGIN.
fn login_name(bundle: &Bundle) -> Option<&[u8]> {
    match bundle.next_operation() {
        Some(Operation::Login { account }) => Some(account.of(&bundle.bytes)),
        _ => None,
    }
}
