//! Authentication: which account calls over HTTP, and whether a foreign page made a browser call.
//!
//! The accounts are those of RESP, by `Authorization: Basic` or, for programs, `Bearer ACCOUNT:SECRET`. A browser sends
//! its credentials to any address that a page names, so a request that changes something must come from a page of this
//! server. Without accounts that is not enough: a page can have a name of its own lead here (DNS rebinding), and to the
//! browser the server is then a part of its site. [`Hosts`] says what is done about that.

use std::future::pending;
use std::net::IpAddr;
use std::sync::Arc;

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::internal_client::Answer;
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
    /// The account and secret; None: accounts are open, and the request names none.
    credentials: Option<Credentials>,
    origin: Option<IpAddr>,
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
        self.state.pool.ask(self.credentials.as_ref(), self.origin, &command.as_slices(), hang_up).await
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
        if !state.is_open() {
            let no_credentials =
                || Problem::unauthorized("log in with Authorization: Basic, or Bearer ACCOUNT:SECRET");
            state.pool.log_in(credentials.as_ref().ok_or_else(no_credentials)?, origin).await?;
        }
        let permit: Option<HeldPermit> = parts.extensions.get().cloned();
        permit.iter().for_each(HeldPermit::begin_answer);
        let hang_up = parts.extensions.get().cloned();
        Ok(Self { state: Arc::clone(state), credentials, origin, hang_up, permit })
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

/// By which hosts, in the header of that name, clients may call the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hosts {
    /// Only those that always mean the client's own machine: nobody needs a secret, and all clients are here.
    ThisMachine,
    /// Any, but a page that changes something must have been opened by an address, which is no name that somebody else
    /// can have lead here: nobody needs a secret, and clients are elsewhere. A page is known by what its browser adds to
    /// such a request. Programs, which add nothing, could name any host anyway.
    AddressesForPages,
    /// Any: a page of another site has no secret.
    Any,
}

/// Refuses requests that a foreign page makes a browser send.
///
/// # Errors
/// Why it is refused.
pub(crate) fn refuse_foreign_pages(
    method: &Method,
    headers: &HeaderMap,
    hosts: Hosts,
) -> Result<(), Problem> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    // A proxy in front of the server may have checked another one of them.
    if headers.get_all(header::HOST).iter().nth(1).is_some() {
        return Err(Problem::bad_request("the header Host is there more than once"));
    }
    let host = text(header::HOST).unwrap_or_default();
    if hosts == Hosts::ThisMachine && !is_this_machine(host) {
        return Err(Problem::forbidden(
            "without accounts the server answers only to localhost, 127.0.0.1 or [::1] as its name: ask it by one of them",
        ));
    }
    if matches!(*method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    let other_origin = text(header::ORIGIN)
        .is_some_and(|origin| origin.split_once("://").is_none_or(|(_, origin_host)| origin_host != host));
    let site = headers.get("sec-fetch-site");
    let cross_site = site.is_some_and(|site| !matches!(site.as_bytes(), b"same-origin" | b"none"));
    if other_origin || cross_site {
        return Err(Problem::forbidden("a page of another site may not change anything here"));
    }
    let is_of_page = headers.contains_key(header::ORIGIN) || site.is_some();
    let may_be_rebound = !is_this_machine(host) && without_port(host).parse::<IpAddr>().is_err();
    if hosts == Hosts::AddressesForPages && is_of_page && may_be_rebound {
        return Err(Problem::forbidden(
            "a page may change something here only if it was opened by the server's address, and not by a name: open it \
             so, or use posthaste admin",
        ));
    }
    Ok(())
}

/// Returns whether a Host header is a name that always means the client's own machine.
fn is_this_machine(host: &str) -> bool {
    let name = without_port(host);
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

/// Returns the name or address in a Host header.
fn without_port(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")))
            .collect()
    }

    #[test]
    fn credentials_come_in_two_forms() {
        let pair = |account: &str, secret: &str| {
            Some(Credentials { account: account.into(), secret: secret.into() })
        };
        for (given, wanted) in [
            ("Basic YTpiOmM=", pair("a", "b:c")),
            ("basic YTo=", pair("a", "")),
            ("Bearer a:b", pair("a", "b")),
        ] {
            let found = Credentials::of(&headers(&[("authorization", given)]));
            assert!(found.is_ok_and(|found| found == wanted), "{given}");
        }
        assert!(Credentials::of(&headers(&[])).is_ok_and(|found| found.is_none()));
        for wrong in ["Basic", "Basic !!", "Basic YQ==", "Digest a:b", "Bearer token"] {
            assert!(Credentials::of(&headers(&[("authorization", wrong)])).is_err(), "{wrong}");
        }
    }

    #[test]
    fn pages_of_others_may_not_ask() {
        use Hosts::{Any, ThisMachine};
        let allowed =
            |method, hosts, pairs: &[_]| refuse_foreign_pages(&method, &headers(pairs), hosts).is_ok();
        let here = ("host", "127.0.0.1:7480");
        assert!(allowed(Method::POST, ThisMachine, &[here]), "a program");
        assert!(allowed(Method::POST, ThisMachine, &[here, ("origin", "http://127.0.0.1:7480")]), "our page");
        assert!(allowed(Method::GET, ThisMachine, &[("host", "[::1]:7480")]));
        assert!(allowed(Method::GET, ThisMachine, &[("host", "LocalHost")]));
        assert!(!allowed(Method::POST, ThisMachine, &[here, ("origin", "http://evil.example")]));
        assert!(!allowed(Method::POST, ThisMachine, &[here, ("origin", "null")]));
        assert!(!allowed(Method::DELETE, ThisMachine, &[here, ("sec-fetch-site", "cross-site")]));
        assert!(!allowed(Method::GET, ThisMachine, &[("host", "evil.example:7480")]), "rebinding");
        assert!(!allowed(Method::GET, ThisMachine, &[]), "no name at all");
        assert!(!allowed(Method::GET, ThisMachine, &[here, ("host", "evil.example")]), "two names");
        assert!(!allowed(Method::GET, Any, &[here, here]), "twice the same");
        assert!(allowed(Method::GET, Any, &[("host", "queue.example")]), "accounts guard it");
        assert!(!allowed(
            Method::POST,
            Any,
            &[("host", "queue.example"), ("origin", "https://evil.example")]
        ));
    }

    #[test]
    fn a_page_that_is_here_under_a_name_of_its_own_may_read_at_most() {
        let allowed = |method, host, pairs: &[_]| {
            let headers = headers(&[&[("host", host)], pairs].concat());
            refuse_foreign_pages(&method, &headers, Hosts::AddressesForPages).is_ok()
        };
        let (name, page) = ("cache.example:7481", ("origin", "http://cache.example:7481"));
        assert!(allowed(Method::GET, name, &[]), "anybody may read");
        assert!(allowed(Method::POST, name, &[]), "a program");
        assert!(!allowed(Method::POST, name, &[page]), "rebinding");
        assert!(!allowed(Method::POST, name, &[("sec-fetch-site", "same-origin")]), "rebinding");
        assert!(!allowed(Method::POST, name, &[("origin", "null")]));
        for (host, origin) in [
            ("10.0.0.7:7481", "http://10.0.0.7:7481"),
            ("10.0.0.7", "http://10.0.0.7"),
            ("[2001:db8::7]:7481", "http://[2001:db8::7]:7481"),
            ("localhost:7481", "http://localhost:7481"),
        ] {
            assert!(allowed(Method::POST, host, &[("origin", origin)]), "{host}");
            assert!(!allowed(Method::POST, host, &[page]), "{host}: another site");
        }
    }
}
