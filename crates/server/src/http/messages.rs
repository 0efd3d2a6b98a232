//! Messages over HTTP: sending, browsing, popping, and ACK, NACK and EXTEND of leased ones.

use std::{fmt, iter};

use axum::Json;
use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use posthaste_wire::reply::Value;
use serde::{Deserialize, Deserializer, de};
use serde_json::{Value as JsonValue, json};

use super::auth::Caller;
use super::extract::{Body, Path, Query, boolean, boolean_text};
use super::internal_client::Answer;
use super::json::json as to_json;
use super::problem::Problem;
use super::resp_command::RespCommand;
use crate::queue::bounds::ANSWER_BYTES;

/// The body of `POST …/messages`: a message to be sent, or with `bodies` several without a recipient, all or none.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewMessage {
    body: Option<String>,
    body_base64: Option<String>,
    bodies: Option<Vec<String>>,
    to: Option<String>,
    delay_ms: Option<u64>,
    ttl_ms: Option<u64>,
    priority: Option<u64>,
    dedup: Option<String>,
    #[serde(default)]
    headers: Headers,
    #[serde(default)]
    headers_base64: Headers,
}

/// Headers in their order, and so not a map: an object may contain a name twice, as a message may.
#[derive(Default)]
struct Headers(Vec<(String, OneOrMany)>);

impl<'de> Deserialize<'de> for Headers {
    fn deserialize<D: Deserializer<'de>>(object: D) -> Result<Self, D::Error> {
        object.deserialize_any(HeadersVisitor).map(Self)
    }
}

struct HeadersVisitor;

impl<'de> de::Visitor<'de> for HeadersVisitor {
    type Value = Vec<(String, OneOrMany)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of texts, or lists of texts")
    }

    /// `null` is as good as no field, as with other fields.
    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        iter::from_fn(|| object.next_entry().transpose()).collect()
    }
}

/// The value of a header, or its values if the name occurs several times.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a header has a text, or a list of texts")]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    fn into_all(self) -> Vec<String> {
        match self {
            Self::One(value) => vec![value],
            Self::Many(values) => values,
        }
    }
}

impl NewMessage {
    fn has_options(&self) -> bool {
        let numbers = [self.delay_ms, self.ttl_ms, self.priority];
        numbers.iter().any(Option::is_some)
            || self.to.is_some()
            || self.dedup.is_some()
            || !self.headers.0.is_empty()
            || !self.headers_base64.0.is_empty()
    }

    fn body_bytes(&self) -> Result<Vec<u8>, Problem> {
        match (&self.body, &self.body_base64) {
            (Some(body), None) => Ok(body.clone().into_bytes()),
            (None, Some(body)) => decode_base64("body_base64", body),
            _ => Err(Problem::bad_request("a message has either body, body_base64, or bodies")),
        }
    }
}

/// Returns the names and values of all headers: those given as texts, then those given in base64.
fn decode_headers(texts: Headers, base64s: Headers) -> Result<Vec<(String, Vec<u8>)>, Problem> {
    let mut headers = Vec::new();
    for (name, values) in texts.0 {
        headers.extend(values.into_all().into_iter().map(|value| (name.clone(), value.into_bytes())));
    }
    for (name, values) in base64s.0 {
        for value in values.into_all() {
            headers.push((name.clone(), decode_base64("headers_base64", &value)?));
        }
    }
    Ok(headers)
}

fn decode_base64(field: &str, base64: &str) -> Result<Vec<u8>, Problem> {
    STANDARD.decode(base64).map_err(|error| Problem::bad_request(&format!("{field}: {error}")))
}

/// `POST /v1/queues/{name}/messages`.
pub(super) async fn send(
    caller: Caller,
    Path(queue): Path<String>,
    Body(message): Body<NewMessage>,
) -> Result<(StatusCode, Json<JsonValue>), Problem> {
    if let Some(bodies) = &message.bodies {
        if message.body.is_some() || message.body_base64.is_some() || message.has_options() {
            return Err(Problem::bad_request(
                "bodies go to anyone, without options: send messages with options one by one",
            ));
        }
        let command = RespCommand::of(&["SENDMANY", &queue]).extend(bodies.iter().map(String::as_str))?;
        let answer = caller.ask(command).await?;
        return Ok((StatusCode::CREATED, Json(json!({ "ids": to_json(&answer.value()) }))));
    }
    let command = RespCommand::of(&["SEND", &queue])
        .push(message.body_bytes()?)
        .option("TO", message.to.as_ref())
        .option("DELAY", message.delay_ms)
        .option("TTL", message.ttl_ms)
        .option("PRIORITY", message.priority)
        .option("DEDUP", message.dedup);
    let command = command.headers(decode_headers(message.headers, message.headers_base64)?)?;
    let number = caller.ask(command).await?.value().as_integer();
    let answer = match message.to.as_deref() {
        Some("*") => json!({ "copies": number }),
        _ => json!({ "id": number }),
    };
    Ok((StatusCode::CREATED, Json(answer)))
}

/// The query of `GET …/messages`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    /// 1: the messages that POP would give the caller. Otherwise all messages, of every recipient and state, by id.
    #[serde(default)]
    peek: u8,
    count: Option<u64>,
    from: Option<String>,
    after: Option<u64>,
    /// Account of the recipient, `-` for anyone.
    to: Option<String>,
    #[serde(default, deserialize_with = "boolean_text")]
    not_own: bool,
    #[serde(default, deserialize_with = "boolean_text")]
    broadcast: bool,
    #[serde(default, deserialize_with = "boolean_text")]
    any_order: bool,
}

/// `GET /v1/queues/{name}/messages`.
pub(super) async fn list(
    caller: Caller,
    Path(queue): Path<String>,
    Query(query): Query<ListQuery>,
) -> Result<Json<JsonValue>, Problem> {
    match query {
        ListQuery { count: Some(0), .. } => {
            Err(Problem::bad_request("count: expected a whole number from 1 on, not 0"))
        }
        ListQuery { peek: 0, not_own: false, broadcast: false, any_order: false, .. } => {
            browse(&caller, &queue, &query).await
        }
        ListQuery { peek: 1, count, from, after: None, to: None, not_own, broadcast, any_order } => {
            let command = RespCommand::of(&["PEEK", "QUEUE", &queue])
                .option("FROM", from)
                .option("COUNT", Some(count.unwrap_or(1)))
                .flag("NOTOWN", not_own)
                .flag("BROADCAST", broadcast)
                .flag("ANYORDER", any_order);
            Ok(messages_of(&caller.ask(command).await?))
        }
        _ => Err(Problem::bad_request(
            "peek is 1 or left out: count and from go with peek=1 or without it, not_own, broadcast and any_order only \
             with it, after and to only without it",
        )),
    }
}

/// Default and largest number of messages on a page.
const PAGE_DEFAULT: usize = 100;
const PAGE_MAX: usize = 1000;

/// After this many messages a search for those that match ends, and the next page continues it.
const SCANNED_MAX: usize = 20_000;

/// Returns the next messages that match, and the id after which to go on, if there are more. A page holds no more bytes
/// than an answer of QBROWSE, as a thousand large messages must not be in memory at once.
async fn browse(caller: &Caller, queue: &str, query: &ListQuery) -> Result<Json<JsonValue>, Problem> {
    let wanted =
        query.count.map_or(PAGE_DEFAULT, |count| usize::try_from(count).unwrap_or(PAGE_MAX)).min(PAGE_MAX);
    let is_filtered = query.from.is_some() || query.to.is_some();
    let batch = if is_filtered { PAGE_MAX } else { wanted };
    let mut found = Vec::new();
    let mut after = query.after.unwrap_or(0);
    let (mut scanned, mut bytes) = (0, 0);
    let next = 'page: loop {
        let command =
            RespCommand::of(&["QBROWSE", queue]).option("AFTER", Some(after)).option("COUNT", Some(batch));
        let answer = match caller.ask(command).await {
            // What was found is returned; the next page, which then finds nothing, returns the error.
            Err(problem) if problem.is_store_failure() && !found.is_empty() => break Some(after),
            answer => answer?,
        };
        let value = answer.value();
        if value.parts().is_empty() {
            break None;
        }
        for message in value.parts() {
            if query.matches(message) {
                bytes += payload_bytes(message);
                if found.len() == wanted || (bytes > ANSWER_BYTES && !found.is_empty()) {
                    break 'page Some(after);
                }
                found.push(to_json(message));
            }
            after = message.get(b"id").and_then(Value::as_integer).map_or(after, i64::cast_unsigned);
        }
        scanned += value.parts().len();
        if found.len() == wanted || scanned >= SCANNED_MAX {
            break Some(after);
        }
    };
    Ok(Json(json!({ "messages": found, "next": next })))
}

/// Returns the length of a message's body and headers in bytes.
fn payload_bytes(message: &Value<'_>) -> usize {
    let length = |value: &Value<'_>| value.as_bytes().map_or(0, <[u8]>::len);
    let headers = match message.get(b"headers") {
        Some(Value::Map(pairs)) => pairs.iter().map(|(name, value)| length(name) + length(value)).sum(),
        _ => 0,
    };
    message.get(b"body").map_or(0, length) + headers
}

impl ListQuery {
    fn matches(&self, message: &Value<'_>) -> bool {
        let equals = |field: &[u8], wanted: &str| {
            message.get(field).and_then(Value::as_bytes) == Some(wanted.as_bytes())
        };
        let matches_to = self.to.as_deref().is_none_or(|to| match to {
            "-" => message.get(b"to").is_some_and(Value::is_null),
            to => equals(b"to", to),
        });
        matches_to && self.from.as_deref().is_none_or(|from| equals(b"from", from))
    }
}

/// The body of `POST …/pop`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PopBody {
    from: Option<String>,
    lease_ms: Option<u64>,
    block_ms: Option<u64>,
    count: Option<u64>,
    request_id: Option<String>,
    #[serde(default, deserialize_with = "boolean")]
    not_own: bool,
    #[serde(default, deserialize_with = "boolean")]
    broadcast: bool,
    #[serde(default, deserialize_with = "boolean")]
    any_order: bool,
}

/// `POST /v1/queues/{name}/pop`.
pub(super) async fn pop(
    caller: Caller,
    Path(queue): Path<String>,
    Body(body): Body<PopBody>,
) -> Result<Json<JsonValue>, Problem> {
    let _wait = match body.block_ms {
        None | Some(0) => None,
        Some(_) => caller.begin_wait()?,
    };
    let command = RespCommand::of(&["POP", "QUEUE", &queue])
        .option("FROM", body.from)
        .option("LEASE", body.lease_ms)
        .option("BLOCK", body.block_ms)
        .option("COUNT", Some(body.count.unwrap_or(1)))
        .option("REQID", body.request_id)
        .flag("NOTOWN", body.not_own)
        .flag("BROADCAST", body.broadcast)
        .flag("ANYORDER", body.any_order);
    Ok(messages_of(&caller.ask_while_connected(command).await?))
}

/// Returns the messages of an answer. It is null for a pop that waited in vain, and a single message for one that
/// repeats an earlier pop over RESP without COUNT.
fn messages_of(answer: &Answer) -> Json<JsonValue> {
    let value = answer.value();
    let found: Vec<JsonValue> = match &value {
        Value::Map(_) => vec![to_json(&value)],
        list => list.parts().iter().filter(|part| !Value::is_null(part)).map(to_json).collect(),
    };
    Json(json!({ "messages": found }))
}

/// The name of a leased message: its id, for the account that holds the lease, or a receipt, for any client that has
/// it.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a leased message is named by its id, a whole number, or by its receipt, a text"
)]
enum Handle {
    Id(u64),
    Receipt(String),
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Receipt(receipt) => receipt.fmt(f),
        }
    }
}

/// The body of `POST …/ack`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AckBody {
    ids: Option<Vec<Handle>>,
    /// One message, named as in `nack` and `extend`.
    id: Option<Handle>,
}

/// `POST /v1/queues/{name}/ack`.
pub(super) async fn ack(caller: Caller, Body(body): Body<AckBody>) -> Result<Json<JsonValue>, Problem> {
    let ids: Vec<Handle> = body.id.into_iter().chain(body.ids.unwrap_or_default()).collect();
    if ids.is_empty() {
        return Err(Problem::bad_request(
            "there is nothing to acknowledge: give ids, a list of ids or receipts, or id, one of them",
        ));
    }
    let command = RespCommand::of(&["ACK"]).extend(ids.iter().map(Handle::to_string))?;
    caller.ask_for_number(command, "acknowledged").await
}

/// The body of `POST …/nack`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NackBody {
    id: Handle,
    delay_ms: Option<u64>,
}

/// `POST /v1/queues/{name}/nack`.
pub(super) async fn nack(caller: Caller, Body(body): Body<NackBody>) -> Result<Json<JsonValue>, Problem> {
    let command = RespCommand::of(&["NACK"]).push(body.id.to_string()).option("DELAY", body.delay_ms);
    caller.ask_for_number(command, "returned").await
}

/// The body of `POST …/extend`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExtendBody {
    id: Handle,
    lease_ms: u64,
}

/// `POST /v1/queues/{name}/extend`.
pub(super) async fn extend(caller: Caller, Body(body): Body<ExtendBody>) -> Result<Json<JsonValue>, Problem> {
    let command = RespCommand::of(&["EXTEND"]).push(body.id.to_string()).push(body.lease_ms.to_string());
    caller.ask_for_number(command, "extended").await
}
