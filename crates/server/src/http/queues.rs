//! Queues over HTTP: the list, a page at a time, so that a console need not hold 100,000 of them; creating, describing,
//! purging and deleting one queue; redriving dead letters.

use axum::Json;
use axum::http::StatusCode;
use serde::{Deserialize, Deserializer};
use serde_json::{Value as JsonValue, json};

use super::auth::Caller;
use super::extract::{Body, NoOptions, Path, Query, boolean, boolean_text};
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

/// The body of `POST /v1/queues`. The options have the names that the description of a queue uses.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewQueue {
    name: Option<String>,
    #[serde(default, deserialize_with = "present")]
    maxmsgs: Option<Option<u64>>,
    #[serde(default, deserialize_with = "present")]
    maxbytes: Option<Option<u64>>,
    #[serde(default, deserialize_with = "present")]
    ttl_ms: Option<Option<u64>>,
    #[serde(default, deserialize_with = "present")]
    deadletter: Option<Option<DeadLetter>>,
    #[serde(default, deserialize_with = "present_boolean")]
    forbidself: Option<bool>,
    #[serde(default, deserialize_with = "present_boolean")]
    strict: Option<bool>,
}

/// Reads a field that is present as `Some`, null as `Some(None)`: an option that is given, even as null, replaces all
/// options of an existing queue.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(field: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(field).map(Some)
}

/// Reads a boolean that is present as `Some`; null is false.
fn present_boolean<'de, D: Deserializer<'de>>(field: D) -> Result<Option<bool>, D::Error> {
    boolean(field).map(Some)
}

impl NewQueue {
    /// Returns whether options are given and all are null or false: a queue without options is wanted. QCREATE must say
    /// so by NOOPTIONS, as a queue that exists otherwise keeps its options.
    fn clears_options(&self) -> bool {
        let limits = [self.maxmsgs, self.maxbytes, self.ttl_ms];
        let flags = [self.forbidself, self.strict];
        let gives_options = limits.iter().any(Option::is_some)
            || flags.iter().any(Option::is_some)
            || self.deadletter.is_some();
        let sets_options = limits.iter().flatten().any(Option::is_some)
            || flags.contains(&Some(true))
            || self.deadletter.iter().any(Option::is_some);
        gives_options && !sets_options
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
    let clears_options = queue.clears_options();
    // In RESP `-` means that there is no name.
    let name = queue.name.filter(|name| name != "-");
    let mut command = RespCommand::of(&["QCREATE", name.as_deref().unwrap_or("-")])
        .option("MAXMSGS", queue.maxmsgs.flatten())
        .option("MAXBYTES", queue.maxbytes.flatten())
        .option("TTL", queue.ttl_ms.flatten())
        .flag("FORBIDSELF", queue.forbidself == Some(true))
        .flag("STRICT", queue.strict == Some(true))
        .flag("NOOPTIONS", clears_options);
    if let Some(DeadLetter { queue, after }) = queue.deadletter.flatten() {
        command = command.option("DEADLETTER", Some(queue)).option("AFTER", Some(after));
    }
    let answer = caller.ask(command).await;
    // Even after an error: the queue may have been created.
    caller.queue_list().invalidate();
    let id = answer?.value().as_integer().unwrap_or_default();
    let name = name.unwrap_or_else(|| id.to_string());
    Ok((StatusCode::CREATED, Json(json!({ "id": id, "name": name }))))
}

/// `GET /v1/queues/{name}`.
pub(super) async fn describe(
    caller: Caller,
    Path(name): Path<String>,
    _: Query<NoOptions>,
) -> Result<Json<JsonValue>, Problem> {
    let answer = caller.ask(RespCommand::of(&["QINFO", &name])).await?;
    Ok(Json(to_json(&answer.value())))
}

/// `DELETE /v1/queues/{name}`.
pub(super) async fn delete(
    caller: Caller,
    Path(name): Path<String>,
    Body(NoOptions {}): Body<NoOptions>,
) -> Result<Json<JsonValue>, Problem> {
    change(&caller, RespCommand::of(&["QDELETE", &name]), "removed").await
}

/// `POST /v1/queues/{name}/purge`.
pub(super) async fn purge(
    caller: Caller,
    Path(name): Path<String>,
    Body(NoOptions {}): Body<NoOptions>,
) -> Result<Json<JsonValue>, Problem> {
    change(&caller, RespCommand::of(&["QPURGE", &name]), "removed").await
}

/// The body of `POST /v1/queues/{name}/redrive`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RedriveBody {
    to: Option<String>,
}

/// `POST /v1/queues/{name}/redrive`.
pub(super) async fn redrive(
    caller: Caller,
    Path(name): Path<String>,
    Body(body): Body<RedriveBody>,
) -> Result<Json<JsonValue>, Problem> {
    let command = RespCommand::of(&["QREDRIVE", &name]);
    let command = match body.to {
        Some(to) => command.push(to),
        None => command,
    };
    change(&caller, command, "moved").await
}

/// The query of `GET /v1/readable`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadableQuery {
    #[serde(default, deserialize_with = "boolean_text")]
    not_own: bool,
}

/// `GET /v1/readable`.
pub(super) async fn readable(
    caller: Caller,
    Query(query): Query<ReadableQuery>,
) -> Result<Json<JsonValue>, Problem> {
    let answer = caller.ask(RespCommand::of(&["QREADABLE"]).flag("NOTOWN", query.not_own)).await?;
    Ok(Json(json!({ "queues": to_json(&answer.value()) })))
}

/// `GET /v1/accounts`.
pub(super) async fn accounts(caller: Caller, _: Query<NoOptions>) -> Result<Json<JsonValue>, Problem> {
    let answer = caller.ask(RespCommand::of(&["ACCOUNTS"])).await?;
    Ok(Json(json!({ "accounts": to_json(&answer.value()) })))
}

/// Executes a command that changes queues, and returns the number it answers as the field `field`.
async fn change(caller: &Caller, command: RespCommand, field: &str) -> Result<Json<JsonValue>, Problem> {
    let answer = caller.ask_for_number(command, field).await;
    // Even after an error: the change may have been made.
    caller.queue_list().invalidate();
    answer
}
