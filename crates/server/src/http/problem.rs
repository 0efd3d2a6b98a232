//! Errors over HTTP: a status for programs, and the sentence that a client of RESP would get.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use posthaste_wire::reply::Value;
use serde_json::json;

/// A refusal. Its answer is `{"error": WORD, "message": SENTENCE}`.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    word: String,
    message: String,
    /// Whether this is the reply to a RESP command: the internal connection then stays in step.
    is_reply: bool,
}

impl Problem {
    /// Returns the problem that the request makes no sense.
    pub(crate) fn bad_request(message: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "ERR", message)
    }

    /// Returns the problem that the request is not allowed from there.
    pub(crate) fn forbidden(message: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, "DENIED", message)
    }

    /// Returns the problem that the client must log in.
    pub(super) fn unauthorized(message: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "NOAUTH", message)
    }

    /// Returns the problem that nothing has that name.
    pub(crate) fn not_found(message: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "ERR", message)
    }

    /// Returns the problem that the path does not take this method.
    pub(super) fn method_not_allowed(message: &str) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "ERR", message)
    }

    /// Returns the problem that the request has not arrived in time.
    pub(super) fn request_timeout(message: &str) -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "ERR", message)
    }

    /// Returns the problem that the request is too long.
    pub(super) fn too_large(message: &str) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "TOOBIG", message)
    }

    /// Returns the problem that the request cannot be done now.
    pub(super) fn busy(message: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "BUSY", message)
    }

    /// Returns the problem that a request was sent and its outcome is unknown.
    pub(super) fn outcome_unknown(message: &str) -> Self {
        let message = format!("{message}; the request may or may not have happened");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "STORE", &message)
    }

    /// Returns whether the store failed.
    pub(super) fn is_store_failure(&self) -> bool {
        self.word == "STORE"
    }

    fn new(status: StatusCode, word: &str, message: &str) -> Self {
        Self { status, word: word.into(), message: message.into(), is_reply: false }
    }

    /// Returns the error of a reply; None: the reply is no error.
    pub(super) fn from_reply(value: &Value<'_>) -> Option<Self> {
        let Value::Error(text) = value else { return None };
        let text = String::from_utf8_lossy(text);
        let (word, message) = text.split_once(' ').unwrap_or((&text, ""));
        let status = match word {
            "NOAUTH" | "NOACCOUNT" => StatusCode::UNAUTHORIZED,
            "NOQUEUE" => StatusCode::NOT_FOUND,
            "TOOBIG" => StatusCode::PAYLOAD_TOO_LARGE,
            "FULL" => StatusCode::INSUFFICIENT_STORAGE,
            "BUSY" | "STORE" => StatusCode::SERVICE_UNAVAILABLE,
            "DENIED" => StatusCode::FORBIDDEN,
            _ => StatusCode::BAD_REQUEST,
        };
        Some(Self { status, word: word.into(), message: message.into(), is_reply: true })
    }

    /// Converts the error of a request after a login: an unknown account is then the recipient's, and a status 401
    /// would make a browser ask for the caller's own account.
    pub(super) fn after_login(mut self) -> Self {
        if self.word == "NOACCOUNT" {
            self.status = StatusCode::NOT_FOUND;
        }
        self
    }

    /// Converts the error of a login: an impossible account name is a failed login, not a malformed request.
    pub(super) fn of_login(self) -> Self {
        if self.status == StatusCode::BAD_REQUEST {
            return Self { status: StatusCode::UNAUTHORIZED, word: "NOACCOUNT".into(), ..self };
        }
        self
    }

    /// Returns whether the server or its store cannot serve anybody now.
    pub(super) fn is_unavailable(&self) -> bool {
        self.status == StatusCode::SERVICE_UNAVAILABLE
    }

    /// Returns whether the internal connection can be used for another request: it is in step, and logged in.
    pub(super) fn keeps_connection(&self) -> bool {
        self.is_reply && self.status != StatusCode::UNAUTHORIZED
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = Json(json!({ "error": self.word, "message": self.message }));
        let mut response = (self.status, body).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            let basic = HeaderValue::from_static("Basic realm=\"posthaste\", charset=\"UTF-8\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, basic);
        }
        response
    }
}
