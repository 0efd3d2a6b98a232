//! Extracts the path, query and body of a request; what cannot be parsed is a [`Problem`], as every error over HTTP is.

use std::error::Error;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use axum::Json;
use axum::body::{Body as AxumBody, Bytes};
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Path as AxumPath, Query as AxumQuery, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Deserializer, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, de};
use tokio::time::timeout;

use super::problem::Problem;

/// How long a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// The variable parts of the path.
pub(crate) struct Path<T>(pub(crate) T);

/// The query, behind the question mark.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = AxumPath::from_request_parts(parts, state).await;
        path.map(|AxumPath(path)| Self(path)).map_err(|rejection: PathRejection| {
            Problem::bad_request(&without_rust_types(&rejection.body_text()))
        })
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let query = AxumQuery::from_request_parts(parts, state).await;
        query.map(|AxumQuery(query)| Self(query)).map_err(|rejection: QueryRejection| {
            Problem::bad_request(&without_rust_types(&cause(&rejection)))
        })
    }
}

/// Extension of a request: how many bytes its body may have. If its Content-Length is more, the request is refused
/// before the body is read.
#[derive(Clone, Copy)]
pub(super) struct BodyBytesMax(pub(super) usize);

/// A body in JSON, an object; no body at all counts as an empty object.
pub(crate) struct Body<T>(pub(crate) T);

/// The body of a request without options: a client that gives some is told that they are unknown.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NoOptions {}

/// A value deserialized from nothing but a JSON object: serde would also accept an array of the fields, in an order
/// that is not promised.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(body: D) -> Result<Self, D::Error> {
        body.deserialize_map(ObjectVisitor(PhantomData)).map(Self)
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
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
        Self::read_within(BODY_TIMEOUT, request, state).await
    }
}

impl<T: DeserializeOwned> Body<T> {
    async fn read_within<S: Send + Sync>(
        limit: Duration,
        request: Request,
        state: &S,
    ) -> Result<Self, Problem> {
        let length = content_length(&request);
        let max = request.extensions().get().map_or(u64::MAX, |BodyBytesMax(max)| *max as u64);
        if length.is_some_and(|length| length > max) {
            return Err(too_large());
        }
        let Ok(body) = timeout(limit, Self::read(length, request, state)).await else {
            return Err(Problem::request_timeout(&format!(
                "the body did not arrive within {} s; send it faster or in a smaller request",
                limit.as_secs_f64()
            )));
        };
        body
    }

    /// Reads a body. One without a length may turn out to be empty, so it is read in full before it is parsed.
    async fn read<S: Send + Sync>(length: Option<u64>, request: Request, state: &S) -> Result<Self, Problem> {
        let request = match length {
            Some(0) => return empty_object(),
            Some(_) => request,
            None => {
                let (parts, body) = request.into_parts();
                let chunks = Request::from_parts(parts.clone(), body);
                let read = Bytes::from_request(chunks, state).await;
                let read =
                    read.map_err(|rejection| body_problem(rejection.status(), &rejection.body_text()))?;
                if read.is_empty() {
                    return empty_object();
                }
                Request::from_parts(parts, AxumBody::from(read))
            }
        };
        let body = if may_omit_the_type(request.headers()) {
            let read = Bytes::from_request(request, state).await;
            Json::from_bytes(
                &read.map_err(|rejection| body_problem(rejection.status(), &rejection.body_text()))?,
            )
        } else {
            Json::from_request(request, state).await
        };
        body.map(|Json(Object(body))| Self(body)).map_err(|rejection| match &rejection {
            JsonRejection::JsonDataError(error) => Problem::bad_request(&without_rust_types(&cause(error))),
            JsonRejection::MissingJsonContentType(_) => {
                Problem::bad_request("a body is JSON: add the header Content-Type: application/json")
            }
            _ => body_problem(rejection.status(), &rejection.body_text()),
        })
    }
}

/// Returns whether a body is JSON without the headers saying so: a program sent it, with no type or with the one that
/// curl and others give to whatever they send. A browser sends such a request for any page that asks it to.
fn may_omit_the_type(headers: &HeaderMap) -> bool {
    let is_from_page = headers.contains_key("origin") || headers.contains_key("sec-fetch-site");
    let names_none =
        headers.get("content-type").is_none_or(|given| given == "application/x-www-form-urlencoded");
    names_none && !is_from_page
}

/// Returns the length of a body as the headers say it, 0 without a body; None: it is sent in chunks.
fn content_length(request: &Request) -> Option<u64> {
    let headers = request.headers();
    let length = headers.get("content-length").and_then(|length| length.to_str().ok()?.parse().ok());
    length.or_else(|| (!headers.contains_key("transfer-encoding")).then_some(0))
}

/// Returns what an absent body means: an object without fields.
fn empty_object<T: DeserializeOwned>() -> Result<Body<T>, Problem> {
    serde_json::from_str("{}").map(Body).map_err(|error| Problem::bad_request(&error.to_string()))
}

fn body_problem(status: StatusCode, text: &str) -> Problem {
    if status == StatusCode::PAYLOAD_TOO_LARGE {
        too_large()
    } else {
        Problem::bad_request(&without_rust_types(text))
    }
}

fn too_large() -> Problem {
    Problem::too_large("the request has more bytes than any message needs")
}

const NUMBER: &str = "expected a whole number from 0 on";

/// Returns the cause of a rejection, without axum's own sentence, which names a type of this program.
fn cause(rejection: &dyn Error) -> String {
    rejection.source().map_or_else(|| rejection.to_string(), ToString::to_string)
}

/// Rewords an error of the libraries without the names of Rust types.
fn without_rust_types(text: &str) -> String {
    let replacements = [
        ("expected u64", NUMBER),
        ("expected u8", NUMBER),
        ("expected usize", NUMBER),
        ("invalid digit found in string", NUMBER),
        ("to a `u64`", "to a whole number"),
    ];
    replacements.iter().fold(text.to_owned(), |text, (theirs, ours)| text.replace(theirs, ours))
}

/// Refuses a query on requests that change something: they take their options from the body. An option in the query
/// would be ignored, and a pop that should lease would take for good.
pub(crate) async fn refuse_queries(request: Request, next: Next) -> Result<Response, Problem> {
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD);
    if changes && request.uri().query().is_some_and(|query| !query.is_empty()) {
        return Err(Problem::bad_request(
            "this request takes its options from its body, as JSON, and none behind a question mark",
        ));
    }
    Ok(next.run(request).await)
}

/// Reads a boolean field. 1 and 0 are allowed too, because the description of a queue shows its options so; null is
/// false.
pub(super) fn boolean<'de, D: Deserializer<'de>>(field: D) -> Result<bool, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum BooleanOrNumber {
        Boolean(bool),
        Number(i64),
    }
    match Option::deserialize(field) {
        Ok(None) => Ok(false),
        Ok(Some(BooleanOrNumber::Boolean(value))) => Ok(value),
        Ok(Some(BooleanOrNumber::Number(number @ (0 | 1)))) => Ok(number == 1),
        Ok(Some(BooleanOrNumber::Number(other))) => {
            Err(de::Error::invalid_value(Unexpected::Signed(other), &BOOLEAN))
        }
        Err(_) => Err(de::Error::custom(format_args!("expected {BOOLEAN}"))),
    }
}

const BOOLEAN: &str = "true, false, 1, 0 or null";

/// Reads a boolean field of a query, where every value is a text.
pub(super) fn boolean_text<'de, D: Deserializer<'de>>(field: D) -> Result<bool, D::Error> {
    match String::deserialize(field)?.as_str() {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(de::Error::custom("expected true, false, 1 or 0")),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use axum::Router;
    use axum::routing::post;
    use serde_json::Value;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::sync::watch;

    use super::*;
    use crate::http::serve::serve_connection;

    #[derive(Debug, Deserialize)]
    struct Wanted {
        #[expect(dead_code, reason = "it is never read")]
        count: u64,
    }

    #[tokio::test]
    async fn an_error_of_a_query_or_body_omits_the_sentence_of_the_library() {
        let request = Request::post("/?count=many")
            .header("content-type", "application/json")
            .header("content-length", "16")
            .body(AxumBody::from(r#"{"count":"many"}"#))
            .expect("a request");
        let (mut parts, body) = request.into_parts();
        let query = Query::<Wanted>::from_request_parts(&mut parts, &()).await.err();
        let body = Body::<Wanted>::from_request(Request::from_parts(parts, body), &()).await.err();
        for (problem, begins) in [(query, "\"count: expected"), (body, "\"count: invalid type: string")] {
            let problem = format!("{problem:?}");
            assert!(problem.contains(begins) && problem.contains(NUMBER), "{problem}");
        }
    }

    #[tokio::test]
    async fn a_program_need_not_say_that_its_body_is_json_and_a_page_must() {
        const FORM: &str = "application/x-www-form-urlencoded";
        for (headers, is_taken) in [
            (&[][..], true),
            (&[("content-type", FORM)], true),
            (&[("content-type", "application/json"), ("origin", "http://localhost")], true),
            (&[("content-type", "text/plain")], false),
            (&[("origin", "http://localhost")], false),
            (&[("content-type", FORM), ("sec-fetch-site", "same-site")], false),
        ] {
            let request = Request::post("/").header("content-length", "11");
            let request =
                headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
            let request = request.body(AxumBody::from(r#"{"count":1}"#)).expect("a request");
            let body = Body::<Wanted>::from_request(request, &()).await;
            assert_eq!(body.is_ok(), is_taken, "{headers:?}");
            if let Err(problem) = body {
                assert!(format!("{problem:?}").contains("add the header Content-Type"), "{problem:?}");
            }
        }
    }

    #[tokio::test]
    async fn a_missing_body_is_an_error_that_says_how_long_the_server_waited() {
        const HEAD: &[u8] =
            b"POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 9\r\nConnection: close\r\n\r\n";
        let take = async |request: Request| {
            let body: Result<Body<Value>, _> =
                Body::read_within(Duration::from_millis(10), request, &()).await;
            body.map(|Body(body)| Json(body))
        };
        let (mut client, stream) = duplex(4096);
        let (_stop, stopped) = watch::channel(());
        let talking = async {
            let from = IpAddr::V4(Ipv4Addr::LOCALHOST);
            drop(serve_connection(stream, from, Router::new().route("/", post(take)), stopped).await);
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
