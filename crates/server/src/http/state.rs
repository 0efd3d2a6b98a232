//! What every handler needs: the house, a way to ask the server, and who is asking.

use std::future::pending;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::inside::{Answer, Pool};
use super::list::Lists;
use super::problem::Problem;
use super::serve::{Line, Origin};
use super::visitor::{Credentials, refuse_foreign_pages};
use super::words::Words;
use crate::house::{Entrance, House};

/// A number that no client has.
const NOBODY: &str = "9223372036854775807";

/// How long a body may take to come.
const BODY: Duration = Duration::from_secs(60);

/// What handlers share.
pub(super) struct Office {
    /// The server.
    pub(super) house: Arc<House>,
    pool: Pool,
    lists: Lists,
}

impl Office {
    /// For a server.
    pub(super) fn new(house: Arc<House>) -> Arc<Self> {
        Arc::new(Self { pool: Pool::new(Arc::clone(&house)), lists: Lists::default(), house })
    }

    fn is_open(&self) -> bool {
        matches!(self.house.entrance, Entrance::Open(_))
    }
}

/// Who asks. What he may do is decided where every client's request is.
pub(super) struct Visitor {
    office: Arc<Office>,
    who: Option<Credentials>,
    origin: Option<IpAddr>,
    line: Option<Line>,
}

impl Visitor {
    /// Asks the server as this visitor.
    ///
    /// # Errors
    /// What the server refused.
    pub(super) async fn ask(&self, words: Words) -> Result<Answer, Problem> {
        self.ask_unless(words, pending()).await
    }

    /// The same of a request that may wait for long: it waits no more when the visitor has hung up.
    ///
    /// # Errors
    /// What the server refused.
    pub(super) async fn ask_while_there(&self, words: Words) -> Result<Answer, Problem> {
        let gone = async {
            // Who cannot be watched counts as there.
            match &self.line {
                Some(line) if line.hung_up().await.is_ok() => {}
                _ => pending().await,
            }
        };
        self.ask_unless(words, gone).await
    }

    async fn ask_unless(&self, words: Words, gone: impl Future<Output = ()>) -> Result<Answer, Problem> {
        self.office.pool.ask(self.who.as_ref(), self.origin, &words.as_slices(), gone).await
    }

    /// The server, for what is answered without asking it.
    pub(super) fn house(&self) -> &House {
        &self.office.house
    }

    /// Lists of queues, kept for whoever asks.
    pub(super) fn lists(&self) -> &Lists {
        &self.office.lists
    }

    /// Refuses whoever may not look at all queues and clients.
    ///
    /// # Errors
    /// A role is missing.
    pub(super) async fn must_administer(&self) -> Result<&House, Problem> {
        // It is only asked whether this visitor may.
        self.ask(Words::of(&["CLIENT", "KILL", "ID", NOBODY])).await?;
        Ok(self.house())
    }
}

/// Whoever has no account here is refused at once: nothing is read of a stranger's body.
impl FromRequestParts<Arc<Office>> for Visitor {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, office: &Arc<Office>) -> Result<Self, Problem> {
        refuse_foreign_pages(&parts.method, &parts.headers, office.is_open())?;
        let origin = parts.extensions.get().map(|Origin(ip)| *ip);
        let who = Credentials::of(&parts.headers)?;
        if !office.is_open() {
            let nobody = || Problem::unknown("log in with Authorization: Basic, or Bearer ACCOUNT:SECRET");
            office.pool.admit(who.as_ref().ok_or_else(nobody)?, origin).await?;
        }
        let line = parts.extensions.get().cloned();
        Ok(Self { office: Arc::clone(office), who, origin, line })
    }
}

/// A body in JSON; no body at all is an empty object.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let length = request.headers().get("content-length").map(|length| length.as_bytes() == b"0");
        if length.unwrap_or(!request.headers().contains_key("transfer-encoding")) {
            return serde_json::from_str("{}").map(Self).map_err(|error| Problem::bad(&error.to_string()));
        }
        let Ok(body) = timeout(BODY, Json::from_request(request, state)).await else {
            return Err(Problem::bad("the body takes too long"));
        };
        body.map(|Json(body)| Self(body)).map_err(|rejection: JsonRejection| match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => {
                Problem::too_big("the request has more bytes than any message needs")
            }
            _ => Problem::bad(&rejection.body_text()),
        })
    }
}
