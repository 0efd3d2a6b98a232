//! What goes wrong over HTTP: a status for programs, and the sentence that any client would get.

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
    inside: bool,
}

impl Problem {
    /// The request makes no sense.
    pub(crate) fn bad_request(message: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "ERR", message)
    }

    /// It may not be asked from there.
    pub(crate) fn forbidden(message: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, "DENIED", message)
    }

    /// Whoever asks must say who they are.
    pub(super) fn unauthorized(message: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "NOAUTH", message)
    }

    /// There is nothing of that name.
    pub(crate) fn not_found(message: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "ERR", message)
    }

    /// There is something, but it does not take such requests.
    pub(super) fn method_not_allowed(message: &str) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "ERR", message)
    }

    /// It has not come in time.
    pub(super) fn request_timeout(message: &str) -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "ERR", message)
    }

    /// It has more bytes than are taken.
    pub(super) fn too_large(message: &str) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "TOOBIG", message)
    }

    /// It cannot be done now.
    pub(super) fn busy(message: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "BUSY", message)
    }

    /// It was asked, and nobody knows what became of it.
    pub(super) fn lost(message: &str) -> Self {
        let message = format!("{message}; the request may or may not have happened");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "STORE", &message)
    }

    /// Returns whether the store could not do it.
    pub(super) fn is_of_the_store(&self) -> bool {
        self.word == "STORE"
    }

    fn new(status: StatusCode, word: &str, message: &str) -> Self {
        Self { status, word: word.into(), message: message.into(), inside: false }
    }

    /// An error that the server answered; None: it is an answer.
    pub(super) fn of(value: &Value<'_>) -> Option<Self> {
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
        Some(Self { status, word: word.into(), message: message.into(), inside: true })
    }

    /// The same where somebody has logged in before: the account that is unknown is another one, which is written to. A
    /// browser that is told 401 would ask for the visitor's own.
    pub(super) fn once_inside(mut self) -> Self {
        if self.word == "NOACCOUNT" {
            self.status = StatusCode::NOT_FOUND;
        }
        self
    }

    /// The same for somebody who said who they are: that there can be no such account is no fault of what they ask.
    pub(super) fn of_credentials(self) -> Self {
        if self.status == StatusCode::BAD_REQUEST {
            return Self { status: StatusCode::UNAUTHORIZED, word: "NOACCOUNT".into(), ..self };
        }
        self
    }

    /// Whether it says that the store cannot be asked now, which is so for everybody.
    pub(super) fn is_of_all(&self) -> bool {
        self.status == StatusCode::SERVICE_UNAVAILABLE
    }

    /// Whether the connection it came over goes on.
    pub(super) fn leaves_the_connection(&self) -> bool {
        self.inside && self.status != StatusCode::UNAUTHORIZED
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
