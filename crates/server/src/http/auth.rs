//! Authentication: which account calls over HTTP. The accounts are those of RESP, by `Authorization: Basic` or, for
//! programs, `Bearer ACCOUNT:SECRET`.

use std::future::pending;
use std::sync::Arc;

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::foreign_pages::{Hosts, refuse_foreign_pages};
use super::internal_client::{Answer, Login};
use super::permits::WaitingPop;
use super::problem::Problem;
use super::queue_list::QueueListCache;
use super::resp_command::RespCommand;
use super::serve::{HangUp, HeldPermit, Origin};
use super::state::QueueState;
use crate::queue_shared::QueueShared;

/// A client number that is never given out.
const NO_CLIENT: &str = "9223372036854775807";

/// The client behind an HTTP request. What it may do is decided by the path, as for every client.
pub(super) struct Caller {
    state: Arc<QueueState>,
    /// Names no account if accounts are open and the request has none.
    login: Login,
    /// Detects that the client hangs up; None: it cannot be detected.
    hang_up: Option<HangUp>,
    permit: Option<HeldPermit>,
}

impl Caller {
    /// Executes a request as this caller.
    ///
    /// # Errors
    /// What the server refused.
    pub(super) async fn ask(&self, command: RespCommand) -> Result<Answer, Problem> {
        self.ask_until(command, pending()).await
    }

    /// Executes a request that may wait for long; the wait ends when the caller hangs up.
    ///
    /// # Errors
    /// What the server refused.
    pub(super) async fn ask_while_connected(&self, command: RespCommand) -> Result<Answer, Problem> {
        let hang_up = async {
            // A caller that cannot be watched counts as connected.
            match &self.hang_up {
                Some(hang_up) if hang_up.wait().await.is_ok() => {}
                _ => pending().await,
            }
        };
        self.ask_until(command, hang_up).await
    }

    /// Executes a request that answers a number, and returns that as the only field of a JSON object.
    ///
    /// # Errors
    /// What the server refused.
    pub(super) async fn ask_for_number(
        &self,
        command: RespCommand,
        field: &str,
    ) -> Result<Json<Value>, Problem> {
        let answer = self.ask(command).await?;
        Ok(Json(json!({ field: answer.value().as_integer() })))
    }

    /// Counts a pop as waiting until the result is dropped; a caller without a permit is not counted.
    ///
    /// # Errors
    /// As many pops wait as may.
    pub(super) fn begin_wait(&self) -> Result<Option<WaitingPop>, Problem> {
        let Some(permit) = &self.permit else { return Ok(None) };
        let too_many = "as many pops wait over HTTP as may; nothing was taken: ask again, without block_ms, or over RESP";
        permit.begin_wait().map(Some).ok_or_else(|| Problem::busy(too_many))
    }

    /// Executes a request; waiting for its answer ends with `hang_up`.
    async fn ask_until(
        &self,
        command: RespCommand,
        hang_up: impl Future<Output = ()>,
    ) -> Result<Answer, Problem> {
        self.state.pool.ask(&self.login, &command.as_slices(), hang_up).await
    }

    /// Returns what the threads of the tier share, for answers that need no request to it.
    pub(super) fn shared(&self) -> &QueueShared {
        &self.state.shared
    }

    /// Returns the list of queues, cached for all callers.
    pub(super) fn queue_list(&self) -> &QueueListCache {
        &self.state.queue_list
    }

    /// Refuses a caller that may not see all queues and clients.
    ///
    /// # Errors
    /// A role is missing.
    pub(super) async fn require_administrator(&self) -> Result<&QueueShared, Problem> {
        // This closes no client; it only checks the role.
        self.ask(RespCommand::of(&["CLIENT", "KILL", "ID", NO_CLIENT])).await?;
        Ok(self.shared())
    }
}

/// Refuses a caller without an account before anything is read of the body.
impl FromRequestParts<Arc<QueueState>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<QueueState>) -> Result<Self, Problem> {
        let hosts = if state.is_open() { Hosts::ThisMachine } else { Hosts::Any };
        refuse_foreign_pages(&parts.method, &parts.headers, hosts)?;
        let origin = parts.extensions.get().map(|Origin(ip)| *ip);
        let credentials = Credentials::of(&parts.headers)?;
        if credentials.is_none() && !state.is_open() {
            let how = "log in with Authorization: Basic, or Bearer ACCOUNT:SECRET";
            return Err(Problem::unauthorized(how));
        }
        let login = Login::new(credentials, origin);
        if !state.is_open() {
            state.pool.log_in(&login).await?;
        }
        let permit: Option<HeldPermit> = parts.extensions.get().cloned();
        permit.iter().for_each(HeldPermit::begin_answer);
        let hang_up = parts.extensions.get().cloned();
        Ok(Self { state: Arc::clone(state), login, hang_up, permit })
    }
}

/// An account and its secret.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Credentials {
    /// The account's name.
    pub(super) account: String,
    /// Its secret.
    pub(super) secret: String,
}

impl Credentials {
    /// Returns the credentials of a request; None: it has none.
    ///
    /// # Errors
    /// A header that is not understood.
    pub(super) fn of(headers: &HeaderMap) -> Result<Option<Self>, Problem> {
        let Some(value) = headers.get(header::AUTHORIZATION) else { return Ok(None) };
        let understood = value.to_str().ok().and_then(|text| {
            let (scheme, rest) = text.split_once(' ')?;
            let pair = match scheme.to_ascii_lowercase().as_str() {
                "basic" => String::from_utf8(STANDARD.decode(rest.trim()).ok()?).ok()?,
                "bearer" => rest.trim().to_owned(),
                _ => return None,
            };
            let (account, secret) = pair.split_once(':')?;
            Some(Self { account: account.to_owned(), secret: secret.to_owned() })
        });
        let wrong = "Authorization must be Basic, or Bearer with ACCOUNT:SECRET";
        understood.map(Some).ok_or_else(|| Problem::unauthorized(wrong))
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn credentials_come_in_two_forms() {
        let pair = |account: &str, secret: &str| {
            Some(Credentials { account: account.into(), secret: secret.into() })
        };
        let of = |given: &'static str| {
            Credentials::of(&HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::from_static(given))]))
        };
        for (given, wanted) in [
            ("Basic YTpiOmM=", pair("a", "b:c")),
            ("basic YTo=", pair("a", "")),
            ("Bearer a:b", pair("a", "b")),
        ] {
            assert!(of(given).is_ok_and(|found| found == wanted), "{given}");
        }
        assert!(Credentials::of(&HeaderMap::new()).is_ok_and(|found| found.is_none()));
        for wrong in ["Basic", "Basic !!", "Basic YQ==", "Digest a:b", "Bearer token"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
