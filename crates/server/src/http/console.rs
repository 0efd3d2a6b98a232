//! The web console: static files in the program. What they show and do goes through the same JSON as everybody's.

use axum::extract::Path;
use axum::http::{HeaderName, header};
use axum::response::{IntoResponse, Response};

use super::problem::Problem;

/// A page may run what comes from here and ask only here; nobody may frame it, and nothing in it is taken for another type.
const HEADERS: [(HeaderName, &str); 4] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
         frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-cache"),
];

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The files beside the page, with their types.
const FILES: [(&str, &str, &str); 9] = [
    ("style.css", "text/css; charset=utf-8", include_str!("../../../../console/style.css")),
    ("api.js", SCRIPT, include_str!("../../../../console/api.js")),
    ("app.js", SCRIPT, include_str!("../../../../console/app.js")),
    ("dom.js", SCRIPT, include_str!("../../../../console/dom.js")),
    ("overview.js", SCRIPT, include_str!("../../../../console/overview.js")),
    ("people.js", SCRIPT, include_str!("../../../../console/people.js")),
    ("queue.js", SCRIPT, include_str!("../../../../console/queue.js")),
    ("queues.js", SCRIPT, include_str!("../../../../console/queues.js")),
    ("store.js", SCRIPT, include_str!("../../../../console/store.js")),
];

/// `GET /`.
pub(super) async fn page() -> Response {
    answer("text/html; charset=utf-8", include_str!("../../../../console/index.html"))
}

/// `GET /console/{file}`.
pub(super) async fn file(Path(wanted): Path<String>) -> Result<Response, Problem> {
    let found = FILES.iter().find(|(name, ..)| *name == wanted);
    found
        .map(|(_, kind, text)| answer(kind, text))
        .ok_or_else(|| Problem::nothing("the console has no such file"))
}

fn answer(kind: &'static str, text: &'static str) -> Response {
    (HEADERS, [(header::CONTENT_TYPE, kind)], text).into_response()
}
