//! Queues over HTTP: the list, searched, sorted and cut into pages here, so that a console need not hold 100,000 of them;
//! one queue, made, described, emptied, deleted; dead letters sent back.

use std::cmp::Reverse;

use axum::Json;
use axum::extract::{Path, Query};
use axum::http::StatusCode;
use posthaste_wire::reply::Value;
use serde::Deserialize;
use serde_json::{Value as JsonValue, json};

use super::json::json as to_json;
use super::office::{Body, Visitor};
use super::problem::Problem;
use super::words::Words;

/// Queues on a page, unless asked otherwise, and at most.
const PAGE: usize = 100;
const PAGE_MAX: usize = 1000;

/// Which queues to list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Listing {
    /// Part of the name, in capitals or not.
    #[serde(default)]
    search: String,
    #[serde(default)]
    sort: Sort,
    #[serde(default)]
    descending: bool,
    #[serde(default)]
    offset: usize,
    limit: Option<usize>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Sort {
    #[default]
    Id,
    Name,
    Messages,
    Bytes,
    OldestMs,
}

/// `GET /v1/queues`.
pub(super) async fn list(
    visitor: Visitor,
    Query(listing): Query<Listing>,
) -> Result<Json<JsonValue>, Problem> {
    let answer = visitor.ask(Words::of(&["QLIST"])).await?;
    let value = answer.value();
    let name = |queue: &Value<'_>| {
        let name = queue.get(b"name").and_then(Value::as_bytes).unwrap_or_default();
        String::from_utf8_lossy(name).to_lowercase()
    };
    let search = listing.search.to_lowercase();
    let mut queues: Vec<&Value<'_>> =
        value.parts().iter().filter(|queue| search.is_empty() || name(queue).contains(&search)).collect();
    let number = |queue: &Value<'_>, of: &[u8]| queue.get(of).and_then(Value::as_integer).unwrap_or_default();
    match listing.sort {
        Sort::Id => queues.sort_by_key(|queue| number(queue, b"id")),
        Sort::Name => queues.sort_by_cached_key(|queue| name(queue)),
        Sort::Messages => {
            queues.sort_by_key(|queue| (number(queue, b"messages"), Reverse(number(queue, b"id"))))
        }
        Sort::Bytes => queues.sort_by_key(|queue| (number(queue, b"bytes"), Reverse(number(queue, b"id")))),
        Sort::OldestMs => {
            queues.sort_by_key(|queue| (number(queue, b"oldest_ms"), Reverse(number(queue, b"id"))))
        }
    }
    if listing.descending {
        queues.reverse();
    }
    let limit = listing.limit.unwrap_or(PAGE).min(PAGE_MAX);
    let page: Vec<JsonValue> =
        queues.iter().skip(listing.offset).take(limit).map(|queue| to_json(queue)).collect();
    Ok(Json(json!({ "total": queues.len(), "queues": page })))
}

/// A queue to be made. The options have the names under which a queue shows them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewQueue {
    name: Option<String>,
    maxmsgs: Option<u64>,
    maxbytes: Option<u64>,
    ttl_ms: Option<u64>,
    deadletter: Option<DeadLetter>,
    #[serde(default)]
    forbidself: bool,
    #[serde(default)]
    strict: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeadLetter {
    queue: String,
    after: u32,
}

/// `POST /v1/queues`.
pub(super) async fn create(
    visitor: Visitor,
    Body(queue): Body<NewQueue>,
) -> Result<(StatusCode, Json<JsonValue>), Problem> {
    let mut words = Words::of(&["QCREATE", queue.name.as_deref().unwrap_or("-")])
        .option("MAXMSGS", queue.maxmsgs)
        .option("MAXBYTES", queue.maxbytes)
        .option("TTL", queue.ttl_ms);
    if let Some(DeadLetter { queue, after }) = queue.deadletter {
        words = words.option("DEADLETTER", Some(queue)).option("AFTER", Some(after));
    }
    let answer = visitor.ask(words.flag("FORBIDSELF", queue.forbidself).flag("STRICT", queue.strict)).await?;
    let id = answer.value().as_integer().unwrap_or_default();
    let name = queue.name.unwrap_or_else(|| id.to_string());
    Ok((StatusCode::CREATED, Json(json!({ "id": id, "name": name }))))
}

/// `GET /v1/queues/{name}`.
pub(super) async fn describe(visitor: Visitor, Path(name): Path<String>) -> Result<Json<JsonValue>, Problem> {
    let answer = visitor.ask(Words::of(&["QINFO", &name])).await?;
    Ok(Json(to_json(&answer.value())))
}

/// `DELETE /v1/queues/{name}`.
pub(super) async fn delete(visitor: Visitor, Path(name): Path<String>) -> Result<Json<JsonValue>, Problem> {
    counted(&visitor, Words::of(&["QDELETE", &name]), "removed").await
}

/// `POST /v1/queues/{name}/purge`.
pub(super) async fn purge(visitor: Visitor, Path(name): Path<String>) -> Result<Json<JsonValue>, Problem> {
    counted(&visitor, Words::of(&["QPURGE", &name]), "removed").await
}

/// Where dead letters go.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Redrive {
    to: Option<String>,
}

/// `POST /v1/queues/{name}/redrive`.
pub(super) async fn redrive(
    visitor: Visitor,
    Path(name): Path<String>,
    Body(redrive): Body<Redrive>,
) -> Result<Json<JsonValue>, Problem> {
    let words = Words::of(&["QREDRIVE", &name]);
    let words = match redrive.to {
        Some(to) => words.push(to),
        None => words,
    };
    counted(&visitor, words, "moved").await
}

/// `GET /v1/readable`.
pub(super) async fn readable(visitor: Visitor) -> Result<Json<JsonValue>, Problem> {
    let answer = visitor.ask(Words::of(&["QREADABLE"])).await?;
    Ok(Json(json!({ "queues": to_json(&answer.value()) })))
}

/// `GET /v1/accounts`.
pub(super) async fn accounts(visitor: Visitor) -> Result<Json<JsonValue>, Problem> {
    let answer = visitor.ask(Words::of(&["ACCOUNTS"])).await?;
    Ok(Json(json!({ "accounts": to_json(&answer.value()) })))
}

/// A request that answers how many.
pub(super) async fn counted(visitor: &Visitor, words: Words, what: &str) -> Result<Json<JsonValue>, Problem> {
    let answer = visitor.ask(words).await?;
    Ok(Json(json!({ what: answer.value().as_integer() })))
}
