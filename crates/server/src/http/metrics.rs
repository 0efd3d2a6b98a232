//! `GET /metrics`: the figures of the tables in [`crate::metrics`], as a page.

use std::time::Duration;

use axum::http::header;
use axum::response::IntoResponse;
use tokio::time::timeout;

use super::auth::Caller;
use super::internal_client::Answer;
use super::resp_command::RespCommand;
use crate::metrics::{Page, queue_tier, queues};

/// How long to wait for the store to list its queues. All other metrics are known without it, and are answered even if
/// it does not respond.
const QLIST_TIMEOUT: Duration = Duration::from_secs(2);

/// `GET /metrics`.
pub(super) async fn metrics(caller: Caller) -> impl IntoResponse {
    let shared = caller.shared();
    let mut figures = queue_tier::page(shared);
    if shared.metrics_queues > 0 {
        let list = timeout(QLIST_TIMEOUT, caller.ask(RespCommand::of(&["QLIST"]))).await;
        let list = list.ok().and_then(Result::ok);
        queues::write(&mut figures, list.as_ref().map(Answer::value).as_ref(), shared.metrics_queues);
    }
    page(figures)
}

/// Returns figures as an answer.
pub(crate) fn page(figures: Page) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], figures.into_text())
}
