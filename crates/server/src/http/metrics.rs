//! `GET /metrics`: what the tables of [`crate::metrics`] say, as a page.

use std::time::Duration;

use axum::http::header;
use axum::response::IntoResponse;
use tokio::time::timeout;

use super::auth::Caller;
use super::internal_client::Answer;
use super::resp_command::RespCommand;
use crate::metrics::{Page, queues, tier};

/// The metrics of queues are asked of the store; the others must be answered even if it does not respond in this time.
const QUEUES_WITHIN: Duration = Duration::from_secs(2);

/// `GET /metrics`.
pub(super) async fn metrics(caller: Caller) -> impl IntoResponse {
    let shared = caller.shared();
    let mut figures = tier::page(shared);
    if shared.metrics_queues > 0 {
        let list = timeout(QUEUES_WITHIN, caller.ask(RespCommand::of(&["QLIST"]))).await;
        let list = list.ok().and_then(Result::ok);
        queues::write(&mut figures, list.as_ref().map(Answer::value).as_ref(), shared.metrics_queues);
    }
    page(figures)
}

/// Returns figures as an answer.
pub(crate) fn page(figures: Page) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], figures.text())
}
