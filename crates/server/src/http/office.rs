//! What every handler needs: the house, a way to ask the server, and who is asking.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::inside::{Answer, Pool};
use super::problem::Problem;
use super::visitor::{Credentials, refuse_foreign_pages};
use super::words::Words;
use crate::house::{Entrance, House};

/// What handlers share.
pub(super) struct Office {
    /// The server.
    pub(super) house: Arc<House>,
    pool: Pool,
}

impl Office {
    /// For a server.
    pub(super) fn new(house: Arc<House>) -> Arc<Self> {
        Arc::new(Self { pool: Pool::new(Arc::clone(&house)), house })
    }

    fn is_open(&self) -> bool {
        matches!(self.house.entrance, Entrance::Open(_))
    }
}

/// Who asks. What he may do is decided where every client's request is.
pub(super) struct Visitor {
    office: Arc<Office>,
    who: Option<Credentials>,
}

impl Visitor {
    /// Asks the server as this visitor.
    ///
    /// # Errors
    /// What the server refused.
    pub(super) async fn ask(&self, words: Words) -> Result<Answer, Problem> {
        self.office.pool.ask(self.who.as_ref(), &words.as_slices()).await
    }

    /// Refuses whoever has no account here, for what is answered without asking the server.
    ///
    /// # Errors
    /// A secret is missing or wrong.
    pub(super) async fn must_be_known(&self) -> Result<&House, Problem> {
        if !self.office.is_open() && self.who.is_none() {
            return Err(Problem::unknown("log in with Authorization: Basic, or Bearer ACCOUNT:SECRET"));
        }
        self.ask(Words::of(&["PING"])).await?;
        Ok(&self.office.house)
    }
}

impl FromRequestParts<Arc<Office>> for Visitor {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, office: &Arc<Office>) -> Result<Self, Problem> {
        refuse_foreign_pages(&parts.method, &parts.headers, office.is_open())?;
        Ok(Self { office: Arc::clone(office), who: Credentials::of(&parts.headers)? })
    }
}

/// A body in JSON; no body at all is an empty object.
pub(super) struct Body<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let length = request.headers().get("content-length").map(|length| length.as_bytes() == b"0");
        if length.unwrap_or(!request.headers().contains_key("transfer-encoding")) {
            return serde_json::from_str("{}").map(Self).map_err(|error| Problem::bad(&error.to_string()));
        }
        let body = Json::from_request(request, state).await;
        body.map(|Json(body)| Self(body))
            .map_err(|rejection: JsonRejection| Problem::bad(&rejection.body_text()))
    }
}
