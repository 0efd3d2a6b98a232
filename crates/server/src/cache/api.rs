//! What the console asks of the cache tier beside its figures, servers and routes: the page itself, the tier's
//! status, and its clients. Only the network threads know those, so the threads are asked.
//!
//! The tier has no accounts. A browser sends requests wherever a page tells it to, so as for the queue tier with open
//! accounts, clients are not shown to or closed for a foreign web page.

use std::sync::Arc;

use axum::extract::State;
use axum::routing::{delete, get};
use axum::{Json, Router as Routes};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::hall::{Card, Hall, Mail};
use crate::front::mailbox::Mailbox;
use crate::http::{self, Listing, Path, Problem, Query, SameOrigin};
use crate::info::VERSION;

/// Clients shown at once by default, and at most: a network thread looks each of them up.
const PAGE: usize = 100;
const PAGE_MAX: usize = 1000;

/// The paths. `is_local`: only this machine can reach them; where others can, they may look but close no connection.
pub(super) fn routes(hall: &Arc<Hall>, is_local: bool) -> Routes {
    let close = if is_local { delete(close_client) } else { delete(refuse_to_close) };
    Routes::new()
        .route("/", get(http::console_page))
        .route("/console/{file}", get(http::console_file))
        .route("/v1/status", get(status))
        .route("/v1/clients", get(clients))
        .route("/v1/clients/{id}", close)
        .fallback(async || http::no_such_path())
        .with_state(Arc::clone(hall))
}

/// Answers what the tier is, and whether it is well.
async fn status(_: SameOrigin, State(hall): State<Arc<Hall>>) -> Json<Value> {
    let trouble = hall.trouble();
    let table = hall.fleet.table();
    Json(json!({
        "tier": "cache",
        "version": VERSION,
        "uptime_s": hall.clock.now() / 1_000_000_000,
        "ready": trouble.is_none(),
        "trouble": trouble,
        "servers": table.in_use().len(),
        "servers_live": table.live(),
        "threads": hall.mailboxes.len(),
    }))
}

/// Answers the connected clients, by id.
async fn clients(
    _: SameOrigin,
    State(hall): State<Arc<Hall>>,
    Query(listing): Query<Listing>,
) -> Json<Value> {
    let most = listing.limit.unwrap_or(PAGE).min(PAGE_MAX);
    let told = ask_all(&hall, |answer| Mail::List { after: listing.after, most, answer }).await;
    let mut cards: Vec<Card> = told.into_iter().flatten().collect();
    cards.sort_unstable_by_key(|card| card.id);
    cards.truncate(most);
    let now = hall.clock.now();
    let card = |card: &Card| {
        json!({
            "id": card.id,
            "peer": card.peer,
            "age_s": now.saturating_sub(card.connected_ns) / 1_000_000_000,
            "requests": card.requests,
            "held_bytes": card.held_bytes,
        })
    };
    Json(cards.iter().map(card).collect())
}

/// `DELETE /v1/clients/{id}`.
async fn close_client(_: SameOrigin, State(hall): State<Arc<Hall>>, Path(id): Path<u64>) -> Json<Value> {
    let closed = ask_all(&hall, |answer| Mail::Close { id, answer }).await;
    Json(json!({ "closed": closed.into_iter().filter(|closed| *closed).count() }))
}

/// Answers `DELETE /v1/clients/{id}` where other machines could ask.
async fn refuse_to_close() -> Problem {
    Problem::forbidden("connections are closed only where --http is an address of this machine alone")
}

/// Asks every network thread. A thread that has ended gives no answer.
async fn ask_all<T>(hall: &Hall, mail: impl Fn(oneshot::Sender<T>) -> Mail) -> Vec<T> {
    let ask = |mailbox: &Arc<Mailbox<Mail>>| {
        let (answer, told) = oneshot::channel();
        mailbox.post(mail(answer));
        told
    };
    let waiting: Vec<_> = hall.mailboxes.iter().map(ask).collect();
    let mut all = Vec::new();
    for told in waiting {
        all.extend(told.await);
    }
    all
}
