//! Requests after a run, which are sent again while the server is busy or its store fails: both may pass.

use std::thread::sleep;
use std::time::Duration;

use posthaste_wire::reply::Value;

use super::refusal::may_pass;
use crate::error::LoadError;
use crate::queue::request::Account;
use crate::queue::session::Session;

/// How often, and after which pause, a server is asked again.
pub(super) const TRIES_MAX: u32 = 100;
pub(super) const PAUSE: Duration = Duration::from_millis(50);

/// Sends one request, again and again if need be, and shows the answer to `look`.
///
/// # Errors
/// The connection failed, or the server stays busy.
pub(super) fn call_again<T>(
    session: &mut Session,
    words: &[&str],
    look: impl Fn(Value<'_>) -> T,
) -> Result<T, LoadError> {
    for _ in 0..TRIES_MAX {
        let told = |answer: Value<'_>| (!answer.error_word().is_some_and(may_pass)).then(|| look(answer));
        if let Some(told) = session.call(words, told)? {
            return Ok(told);
        }
        sleep(PAUSE);
    }
    Err(stays_busy(&words.join(" ")))
}

/// Logs in as an account of the run, after some tries if need be.
///
/// # Errors
/// The connection failed, or the server refuses the account or stays busy.
pub(crate) fn log_in_again(session: &mut Session, account: Account) -> Result<(), LoadError> {
    for _ in 0..TRIES_MAX {
        match session.log_in(account) {
            Err(LoadError::SetUp { answer, .. }) if may_pass(first_word(&answer)) => sleep(PAUSE),
            done => return done,
        }
    }
    Err(stays_busy(&format!("LOGIN {account}")))
}

/// Returns the error of a server that stays busy.
pub(super) fn stays_busy(request: &str) -> LoadError {
    LoadError::Failed(format!("{request} gives BUSY or STORE again and again"))
}

fn first_word(text: &str) -> &[u8] {
    text.split(' ').next().unwrap_or_default().as_bytes()
}
