//! The web console: static files in the program. They use the same JSON paths as any client.

use axum::http::{HeaderName, header};
use axum::response::{IntoResponse, Response};

use super::extract::Path;
use super::problem::Problem;

/// A page may only run scripts from here and send requests to here; no other page may frame it, and no file is taken
/// for another type.
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

const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// A file's name, type and content; a macro because `include_str` wants a literal.
macro_rules! file {
    ($name:literal, $content_type:expr) => {
        ($name, $content_type, include_str!(concat!("../../../../console/", $name)))
    };
}

/// The files that the page uses.
const FILES: [(&str, &str, &str); 17] = [
    file!("style.css", STYLE),
    file!("api.js", SCRIPT),
    file!("app.js", SCRIPT),
    file!("charts.js", SCRIPT),
    file!("dom.js", SCRIPT),
    file!("figures.js", SCRIPT),
    file!("headers.js", SCRIPT),
    file!("model.js", SCRIPT),
    file!("overview.js", SCRIPT),
    file!("people.js", SCRIPT),
    file!("queue.js", SCRIPT),
    file!("queues.js", SCRIPT),
    file!("routes.js", SCRIPT),
    file!("servers.js", SCRIPT),
    file!("store.js", SCRIPT),
    file!("tiers.js", SCRIPT),
    file!("whatif.js", SCRIPT),
];

/// `GET /`.
pub(crate) async fn page() -> Response {
    answer("text/html; charset=utf-8", include_str!("../../../../console/index.html"))
}

/// `GET /console/{file}`.
pub(crate) async fn file(Path(requested): Path<String>) -> Result<Response, Problem> {
    let found = FILES.iter().find(|(name, ..)| *name == requested);
    found
        .map(|(_, content_type, text)| answer(content_type, text))
        .ok_or_else(|| Problem::not_found("the console has no such file"))
}

fn answer(content_type: &'static str, text: &'static str) -> Response {
    (HEADERS, [(header::CONTENT_TYPE, content_type)], text).into_response()
}
