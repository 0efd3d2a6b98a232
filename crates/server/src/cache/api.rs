//! What the console asks of the cache tier beside its figures, servers and routes: the tier's status, and its clients.
//! Only the network threads know those, so the threads are asked.

use std::sync::Arc;

use axum::extract::State;
use axum::routing::{delete, get};
use axum::{Json, Router as Routes};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::shared::{CacheShared, ClientInfo, Mail};
use crate::front::mailbox::Mailbox;
use crate::http::{ClientsQuery, Path, Problem, Query};
use crate::info::VERSION;

/// Clients listed at once by default, and at most, since network threads spend time on each.
const CLIENTS_LISTED: usize = 100;
const CLIENTS_LISTED_MAX: usize = 1000;

/// Returns the paths. `is_local`: only this machine can reach them; other machines may read but close no connection.
pub(super) fn routes(shared: &Arc<CacheShared>, is_local: bool) -> Routes {
    let close = if is_local { delete(close_client) } else { delete(refuse_to_close) };
    Routes::new()
        .route("/v1/status", get(status))
        .route("/v1/clients", get(clients))
        .route("/v1/clients/{id}", close)
        .with_state(Arc::clone(shared))
}

/// Answers what the tier is, and whether it is well.
async fn status(State(shared): State<Arc<CacheShared>>) -> Json<Value> {
    let trouble = shared.trouble();
    let table = shared.fleet.table();
    Json(json!({
        "tier": "cache",
        "version": VERSION,
        "uptime_s": shared.clock.now() / 1_000_000_000,
        "ready": shared.is_ready() == Some(true),
        "trouble": trouble,
        "servers": table.in_use().len(),
        "servers_live": table.live(),
        "threads": shared.mailboxes.len(),
    }))
}

/// Answers the connected clients, by id.
async fn clients(State(shared): State<Arc<CacheShared>>, Query(query): Query<ClientsQuery>) -> Json<Value> {
    let most = query.limit.unwrap_or(CLIENTS_LISTED).min(CLIENTS_LISTED_MAX);
    let lists = ask_all(&shared, |answer| Mail::List { after: query.after, most, answer }).await;
    let mut infos: Vec<ClientInfo> = lists.into_iter().flatten().collect();
    infos.sort_unstable_by_key(|info| info.id);
    infos.truncate(most);
    let now = shared.clock.now();
    let row = |info: &ClientInfo| {
        json!({
            "id": info.id,
            "peer": info.peer,
            "age_s": now.saturating_sub(info.connected_ns) / 1_000_000_000,
            "requests": info.requests,
            "held_bytes": info.held_bytes,
        })
    };
    Json(infos.iter().map(row).collect())
}

/// `DELETE /v1/clients/{id}`.
async fn close_client(State(shared): State<Arc<CacheShared>>, Path(id): Path<u64>) -> Json<Value> {
    let closed = ask_all(&shared, |answer| Mail::Close { id, answer }).await;
    Json(json!({ "closed": closed.into_iter().filter(|closed| *closed).count() }))
}

/// Answers `DELETE /v1/clients/{id}` where other machines could ask.
async fn refuse_to_close() -> Problem {
    Problem::forbidden("connections are closed only where --http is an address of this machine alone")
}

/// Asks every network thread, and returns their answers. A thread that has ended gives none.
async fn ask_all<T>(shared: &CacheShared, mail: impl Fn(oneshot::Sender<T>) -> Mail) -> Vec<T> {
    let ask = |mailbox: &Arc<Mailbox<Mail>>| {
        let (sender, receiver) = oneshot::channel();
        mailbox.post(mail(sender));
        receiver
    };
    let receivers: Vec<_> = shared.mailboxes.iter().map(ask).collect();
    let mut answers = Vec::new();
    for receiver in receivers {
        answers.extend(receiver.await);
    }
    answers
}
