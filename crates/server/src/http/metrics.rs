//! `GET /metrics`: what the tables of [`crate::metrics`] say, as a page.

use std::time::Duration;

use axum::http::header;
use axum::response::IntoResponse;
use tokio::time::timeout;

use super::inside::Answer;
use super::visitor::Visitor;
use super::words::Words;
use crate::metrics::{Page, queues, tier};

/// The metrics of queues are asked of the store; the others must be answered even if it does not respond in this time.
const QUEUES_WITHIN: Duration = Duration::from_secs(2);

/// `GET /metrics`.
pub(super) async fn metrics(visitor: Visitor) -> impl IntoResponse {
    let shared = visitor.shared();
    let mut figures = tier::page(shared);
    if shared.metrics_queues > 0 {
        let list = timeout(QUEUES_WITHIN, visitor.ask(Words::of(&["QLIST"]))).await;
        let list = list.ok().and_then(Result::ok);
        queues::write(&mut figures, list.as_ref().map(Answer::value).as_ref(), shared.metrics_queues);
    }
    page(figures)
}

/// Returns figures as an answer.
pub(crate) fn page(figures: Page) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], figures.text())
}
