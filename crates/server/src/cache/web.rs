//! What the cache tier serves over HTTP: health, windows, figures for Prometheus; its servers, pools and routes, the way
//! of a key, and the states of servers, which can be set.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::routing::{get, post};
use axum::{Json, Router as Routes};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::admin;
use super::admin_state::AdminState;
use super::api;
use super::explain::{Explanation, explain};
use super::shared::CacheShared;
use crate::http::metrics::page;
use crate::http::{self, Body, Hosts, Problem, Query, WindowsQuery};
use crate::metrics::cache_tier;

/// Time between two checks of whether the tier is ready.
const READINESS_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Returns the paths of the cache tier.
///
/// `is_local`: only this machine can ask, so a request for another host name was sent by a foreign web page. Otherwise
/// clients may use any name: to read, and programs to change something. Health and figures for Prometheus are answered
/// for any name in either case: they are the same for everybody, and monitoring uses names of its own.
pub fn routes(shared: &Arc<CacheShared>, is_local: bool) -> Routes {
    let hosts = if is_local { Hosts::ThisMachine } else { Hosts::AddressesForPages };
    let (readiness, figures, meter) = (Arc::clone(shared), Arc::clone(shared), Arc::clone(&shared.meter));
    Routes::new()
        .route("/healthz", get(http::alive))
        .route("/readyz", get(async move || ready(&readiness).await))
        .route("/metrics", get(async move || page(cache_tier::page(&figures))))
        .route("/", get(http::console_page))
        .route("/console/{file}", get(http::console_file))
        .merge(
            json_routes(shared)
                .merge(api::routes(shared, is_local))
                .route(
                    "/v1/windows",
                    get(async move |Query(query): Query<WindowsQuery>| http::windows_of(&meter, &query)),
                )
                .route_layer(from_fn(move |request: Request, next: Next| async move {
                    http::refuse_foreign_pages(request.method(), request.headers(), hosts)?;
                    Ok::<_, Problem>(next.run(request).await)
                })),
        )
        .fallback(async || http::no_such_path())
        .method_not_allowed_fallback(async || http::no_such_method())
        .layer(from_fn(http::refuse_queries))
}

/// Servers, pools and routes.
fn json_routes(shared: &Arc<CacheShared>) -> Routes {
    Routes::new()
        .route("/v1/servers", get(async |State(shared): Shared| servers(&shared)))
        .route("/v1/servers/state", post(set_state))
        .route(
            "/v1/pools",
            get(async |State(shared): Shared| named("pools", admin::pools(&shared.fleet.table()))),
        )
        .route(
            "/v1/routes",
            get(async |State(shared): Shared| named("routes", admin::routes(&shared.fleet.table()))),
        )
        .route("/v1/routes/explain", get(explain_key))
        .route("/v1/log-level", get(http::log_level::get).post(http::log_level::set))
        .with_state(Arc::clone(shared))
}

fn servers(shared: &CacheShared) -> Json<Value> {
    named("servers", admin::servers(&shared.fleet.table()))
}

/// A list under its name.
fn named(name: &str, list: impl Serialize) -> Json<Value> {
    Json(json!({ name: list }))
}

/// The state of every handler.
type Shared = State<Arc<CacheShared>>;

/// The key to explain, and the command for it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExplainQuery {
    key: String,
    #[serde(default = "get_command")]
    command: String,
}

fn get_command() -> String {
    "get".to_owned()
}

/// `GET /v1/routes/explain?key=…&command=…`.
async fn explain_key(
    State(shared): Shared,
    Query(query): Query<ExplainQuery>,
) -> Result<Json<Explanation>, Problem> {
    let explained = explain(&shared.fleet.table(), &query.command, &query.key);
    explained.map(Json).map_err(|error| Problem::bad_request(&error))
}

/// The state that an operator wants a server to have.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WantedState {
    server: String,
    state: String,
}

/// Answers `POST /v1/servers/state`. The body is JSON, which a page of another site cannot send unasked.
async fn set_state(State(shared): Shared, Body(wanted): Body<WantedState>) -> Result<Json<Value>, Problem> {
    let state: AdminState =
        wanted.state.parse().map_err(|error: String| Problem::bad_request(&format!("state: {error}")))?;
    shared.set_server_state(&wanted.server, state).map_err(|error| Problem::not_found(&error))?;
    tracing::info!(server = wanted.server, state = wanted.state, "server's state was set");
    Ok(servers(&shared))
}

/// Answers whether there is a server to ask. A tier that has just started waits until that is known.
async fn ready(shared: &CacheShared) -> (StatusCode, String) {
    while shared.is_ready().is_none() {
        tokio::time::sleep(READINESS_POLL_INTERVAL).await;
    }
    http::readiness(shared.trouble())
}
