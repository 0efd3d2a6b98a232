//! What a request's path, query and body say, understood; what cannot be is a [`Problem`], as every error over HTTP is.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Path as AxumPath, Query as AxumQuery, Request};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Deserializer, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, de};
use tokio::time::timeout;

use super::problem::Problem;

/// How long a body may take to come.
const BODY: Duration = Duration::from_secs(60);

/// A part of the path.
pub(crate) struct Path<T>(pub(crate) T);

/// What stands behind the question mark.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let part = AxumPath::from_request_parts(parts, state).await;
        part.map(|AxumPath(part)| Self(part))
            .map_err(|rejection: PathRejection| Problem::bad(&rejection.body_text()))
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let query = AxumQuery::from_request_parts(parts, state).await;
        query
            .map(|AxumQuery(query)| Self(query))
            .map_err(|rejection: QueryRejection| Problem::bad(&rejection.body_text()))
    }
}

/// A body in JSON, an object; no body at all is an empty one.
pub(crate) struct Body<T>(pub(crate) T);

/// The body of what has no options: whoever gives some is told that nobody looks at them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// What is read from an object only. From an array fields would be taken in their order, which nobody is promised.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(body: D) -> Result<Self, D::Error> {
        body.deserialize_map(Fields(PhantomData)).map(Self)
    }
}

struct Fields<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(fields))
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        Self::within(BODY, request, state).await
    }
}

impl<T: DeserializeOwned> Body<T> {
    async fn within<S: Send + Sync>(limit: Duration, request: Request, state: &S) -> Result<Self, Problem> {
        let length = request.headers().get("content-length").map(|length| length.as_bytes() == b"0");
        if length.unwrap_or(!request.headers().contains_key("transfer-encoding")) {
            return serde_json::from_str("{}").map(Self).map_err(|error| Problem::bad(&error.to_string()));
        }
        let Ok(body) = timeout(limit, Json::from_request(request, state)).await else {
            return Err(Problem::late(&format!(
                "the body did not arrive within {} s; send it faster or in a smaller request",
                limit.as_secs_f64()
            )));
        };
        body.map(|Json(Object(body))| Self(body)).map_err(|rejection: JsonRejection| {
            match rejection.status() {
                StatusCode::PAYLOAD_TOO_LARGE => {
                    Problem::too_big("the request has more bytes than any message needs")
                }
                _ => Problem::bad(&rejection.body_text()),
            }
        })
    }
}

/// What changes something takes its options from the body. One behind the question mark would be passed over, and a pop that
/// should lend would take for good.
pub(crate) async fn refuse_queries(request: Request, next: Next) -> Result<Response, Problem> {
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD);
    if changes && request.uri().query().is_some_and(|query| !query.is_empty()) {
        return Err(Problem::bad(
            "this request takes its options from its body, as JSON, and none behind a question mark",
        ));
    }
    Ok(next.run(request).await)
}

/// A field that is true or false; 1 or 0 mean the same, for that is how a queue shows its options, and null is no.
pub(super) fn yes_or_no<'de, D: Deserializer<'de>>(field: D) -> Result<bool, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Said {
        Word(bool),
        Number(i64),
    }
    match Option::deserialize(field) {
        Ok(None) => Ok(false),
        Ok(Some(Said::Word(yes))) => Ok(yes),
        Ok(Some(Said::Number(number @ (0 | 1)))) => Ok(number == 1),
        Ok(Some(Said::Number(other))) => Err(de::Error::invalid_value(Unexpected::Signed(other), &EXPECTED)),
        Err(_) => Err(de::Error::custom(format_args!("expected {EXPECTED}"))),
    }
}

const EXPECTED: &str = "true, false, 1, 0 or null";

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use axum::Router;
    use axum::routing::post;
    use serde_json::Value;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::sync::watch;

    use super::*;
    use crate::http::serve::converse;

    #[tokio::test]
    async fn who_sends_no_body_is_told_for_how_long_it_was_waited_for() {
        const HEAD: &[u8] =
            b"POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 9\r\nConnection: close\r\n\r\n";
        let take = async |request: Request| {
            let body: Result<Body<Value>, _> = Body::within(Duration::from_millis(10), request, &()).await;
            body.map(|Body(body)| Json(body))
        };
        let (mut client, stream) = duplex(4096);
        let (_stop, stopped) = watch::channel(());
        let talking = async {
            let from = IpAddr::V4(Ipv4Addr::LOCALHOST);
            drop(converse(stream, from, Router::new().route("/", post(take)), stopped).await);
        };
        let asking = async {
            client.write_all(HEAD).await.expect("there is room");
            let mut heard = String::new();
            client.read_to_string(&mut heard).await.expect("an answer");
            heard
        };
        let ((), heard) = tokio::join!(talking, asking);
        assert!(heard.starts_with("HTTP/1.1 408 "), "{heard}");
        assert!(heard.contains("within 0.01 s; send it faster"), "{heard}");
    }
}
