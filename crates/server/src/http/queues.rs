//! Queues over HTTP: the list, a page at a time, so that a console need not hold 100,000 of them; creating, describing,
//! purging and deleting one queue; redriving dead letters.

use axum::Json;
use axum::http::StatusCode;
use serde::{Deserialize, Deserializer};
use serde_json::{Value as JsonValue, json};

use super::auth::Caller;
use super::extract::{Body, NoOptions, Path, Query, yes_or_no};
use super::json::json as to_json;
use super::problem::Problem;
use super::queue_list::{ListQuery, QueuePage, select_page};
use super::resp_command::RespCommand;

/// `GET /v1/queues`.
pub(super) async fn list(caller: Caller, Query(query): Query<ListQuery>) -> Result<Json<JsonValue>, Problem> {
    let all = caller.queue_list().get(&caller).await?;
    let QueuePage { total, queues } = select_page(&all, &query);
    Ok(Json(json!({ "total": total, "queues": queues })))
}

/// A queue to be made. The options have the names that the description of a queue uses.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewQueue {
    name: Option<String>,
    #[serde(default, deserialize_with = "said")]
    maxmsgs: Option<Option<u64>>,
    #[serde(default, deserialize_with = "said")]
    maxbytes: Option<Option<u64>>,
    #[serde(default, deserialize_with = "said")]
    ttl_ms: Option<Option<u64>>,
    #[serde(default, deserialize_with = "said")]
    deadletter: Option<Option<DeadLetter>>,
    #[serde(default, deserialize_with = "said_yes_or_no")]
    forbidself: Option<bool>,
    #[serde(default, deserialize_with = "said_yes_or_no")]
    strict: Option<bool>,
}

/// Reads a field that is present, null or not: a given option replaces the earlier one, and null removes it.
fn said<'de, D: Deserializer<'de>, T: Deserialize<'de>>(field: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(field).map(Some)
}

fn said_yes_or_no<'de, D: Deserializer<'de>>(field: D) -> Result<Option<bool>, D::Error> {
    yes_or_no(field).map(Some)
}

impl NewQueue {
    /// Returns whether any option is given, null included.
    fn says_options(&self) -> bool {
        let limits = [self.maxmsgs, self.maxbytes, self.ttl_ms];
        let flags = [self.forbidself, self.strict];
        limits.iter().any(Option::is_some) || flags.iter().any(Option::is_some) || self.deadletter.is_some()
    }

    /// Returns whether any option is given that is not null.
    fn has_options(&self) -> bool {
        let limits = [self.maxmsgs, self.maxbytes, self.ttl_ms];
        limits.into_iter().flatten().any(|limit| limit.is_some())
            || [self.forbidself, self.strict].contains(&Some(true))
            || self.deadletter.as_ref().is_some_and(Option::is_some)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with queue and after")]
struct DeadLetter {
    queue: String,
    after: u32,
}

/// `POST /v1/queues`.
pub(super) async fn create(
    caller: Caller,
    Body(queue): Body<NewQueue>,
) -> Result<(StatusCode, Json<JsonValue>), Problem> {
    let takes_back = queue.says_options() && !queue.has_options();
    // In RESP `-` means that there is no name.
    let name = queue.name.filter(|name| name != "-");
    let mut command = RespCommand::of(&["QCREATE", name.as_deref().unwrap_or("-")])
        .option("MAXMSGS", queue.maxmsgs.flatten())
        .option("MAXBYTES", queue.maxbytes.flatten())
        .option("TTL", queue.ttl_ms.flatten())
        .flag("FORBIDSELF", queue.forbidself == Some(true))
        .flag("STRICT", queue.strict == Some(true))
        .flag("NOOPTIONS", takes_back);
    if let Some(DeadLetter { queue, after }) = queue.deadletter.flatten() {
        command = command.option("DEADLETTER", Some(queue)).option("AFTER", Some(after));
    }
    let answer = caller.ask(command).await?;
    caller.queue_list().invalidate();
    let id = answer.value().as_integer().unwrap_or_default();
    let name = name.unwrap_or_else(|| id.to_string());
    Ok((StatusCode::CREATED, Json(json!({ "id": id, "name": name }))))
}

/// `GET /v1/queues/{name}`.
pub(super) async fn describe(caller: Caller, Path(name): Path<String>) -> Result<Json<JsonValue>, Problem> {
    let answer = caller.ask(RespCommand::of(&["QINFO", &name])).await?;
    Ok(Json(to_json(&answer.value())))
}

/// `DELETE /v1/queues/{name}`.
pub(super) async fn delete(caller: Caller, Path(name): Path<String>) -> Result<Json<JsonValue>, Problem> {
    changed(&caller, RespCommand::of(&["QDELETE", &name]), "removed").await
}

/// `POST /v1/queues/{name}/purge`.
pub(super) async fn purge(
    caller: Caller,
    Path(name): Path<String>,
    Body(NoOptions {}): Body<NoOptions>,
) -> Result<Json<JsonValue>, Problem> {
    changed(&caller, RespCommand::of(&["QPURGE", &name]), "removed").await
}

/// The body of `redrive`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Redrive {
    to: Option<String>,
}

/// `POST /v1/queues/{name}/redrive`.
pub(super) async fn redrive(
    caller: Caller,
    Path(name): Path<String>,
    Body(redrive): Body<Redrive>,
) -> Result<Json<JsonValue>, Problem> {
    let command = RespCommand::of(&["QREDRIVE", &name]);
    let command = match redrive.to {
        Some(to) => command.push(to),
        None => command,
    };
    changed(&caller, command, "moved").await
}

/// `GET /v1/readable`.
pub(super) async fn readable(caller: Caller) -> Result<Json<JsonValue>, Problem> {
    let answer = caller.ask(RespCommand::of(&["QREADABLE"])).await?;
    Ok(Json(json!({ "queues": to_json(&answer.value()) })))
}

/// `GET /v1/accounts`.
pub(super) async fn accounts(caller: Caller) -> Result<Json<JsonValue>, Problem> {
    let answer = caller.ask(RespCommand::of(&["ACCOUNTS"])).await?;
    Ok(Json(json!({ "accounts": to_json(&answer.value()) })))
}

/// Executes a request that answers a number and changes the list of queues.
async fn changed(caller: &Caller, command: RespCommand, what: &str) -> Result<Json<JsonValue>, Problem> {
    let answer = counted(caller, command, what).await;
    caller.queue_list().invalidate();
    answer
}

/// Executes a request that answers a number, returned under the name `what`.
pub(super) async fn counted(
    caller: &Caller,
    command: RespCommand,
    what: &str,
) -> Result<Json<JsonValue>, Problem> {
    let answer = caller.ask(command).await?;
    Ok(Json(json!({ what: answer.value().as_integer() })))
}
