//! HTTP beside the path: health, live figures, queues and messages as JSON, the web console.
//!
//! An ordinary HTTP library on a thread of its own. Figures are read from what the collector has stored; everything
//! about queues and messages is asked as a client of the path (see `internal_client`).

mod auth;
mod console;
mod extract;
mod foreign_pages;
mod internal_client;
pub mod json;
pub(crate) mod log_level;
mod messages;
pub(crate) mod metrics;
mod permits;
mod problem;
mod queue_list;
mod queues;
mod resp_command;
mod response_progress;
mod serve;
mod state;

use std::fmt::Display;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::middleware::from_fn;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{delete, get, post};
use axum::{Extension, Json, Router};
use posthaste_measure::{Clock, Meter, Window};
use posthaste_tls::Acceptor;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};

use self::auth::Caller;
pub(crate) use self::console::{file as console_file, page as console_page};
pub(crate) use self::extract::{Body, Path, Query, refuse_queries};
use self::extract::{BodyBytesMax, NoOptions};
pub(crate) use self::foreign_pages::{Hosts, refuse_foreign_pages};
pub(crate) use self::problem::Problem;
use self::resp_command::RespCommand;
pub use self::serve::serve_connection;
use self::state::QueueState;
use crate::front::gate::Gate;
use crate::front::lifecycle::{CUT_TIMEOUT, wait_for};
use crate::queue_shared::QueueShared;

/// Most bytes that one byte of a message may take in JSON, escaped as `\u00xx`.
const ESCAPED_BYTE_MAX: usize = 6;

/// Most bytes of a body beside its message: names of fields, other options.
const OTHER_FIELDS_BYTES_MAX: usize = 64 << 10;

/// The HTTP thread and the way to stop it.
pub struct Http {
    address: SocketAddr,
    stop: watch::Sender<()>,
    cut: oneshot::Sender<()>,
    thread: JoinHandle<io::Result<()>>,
}

impl Http {
    /// Serves these paths to the connections that `listener` accepts, encrypted if `tls` is given; the gate counts
    /// refused connections, by the stamps of this clock.
    ///
    /// # Errors
    /// The system's, when the listener cannot be used or there is no thread.
    pub fn start(
        listener: TcpListener,
        tls: Option<Arc<Acceptor>>,
        routes: Router,
        gate: Arc<Gate>,
        clock: Clock,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let (stop, stopped) = watch::channel(());
        let (cut, is_cut) = oneshot::channel();
        let thread = Builder::new().name("http".into()).spawn(move || {
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener)?;
                tokio::select! {
                    ended = serve::serve(listener, tls, routes, &gate, clock, stopped) => ended,
                    _ = is_cut => Ok(()),
                }
            })
        })?;
        Ok(Self { address, stop, cut, thread })
    }

    /// Returns the address that is listened on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops HTTP, and waits at most until `deadline` for clients that still read an answer; others are cut.
    pub fn stop(self, deadline: Instant) {
        drop(self.stop);
        wait_for(deadline, || self.thread.is_finished());
        drop(self.cut);
        wait_for(Instant::now() + CUT_TIMEOUT, || self.thread.is_finished());
        if self.thread.is_finished()
            && let Ok(Err(error)) = self.thread.join()
        {
            tracing::warn!("HTTP ended early: {error}");
        }
    }
}

/// Returns the paths of the queue tier.
pub fn queue_routes(shared: Arc<QueueShared>) -> Router {
    let message_max = shared.message_bytes_max.saturating_mul(ESCAPED_BYTE_MAX);
    let body_max = message_max.saturating_add(OTHER_FIELDS_BYTES_MAX);
    Router::new()
        .route("/", get(console::page))
        .route("/console/{file}", get(console::file))
        .route("/healthz", get(alive))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics::metrics))
        .route("/v1/status", get(status))
        .route("/v1/windows", get(windows))
        .route("/v1/clients", get(clients))
        .route("/v1/clients/{id}", delete(close_client))
        .route("/v1/log-level", get(log_level::get_as_administrator).post(log_level::set_as_administrator))
        .route("/v1/accounts", get(queues::accounts))
        .route("/v1/readable", get(queues::readable))
        .route("/v1/queues", get(queues::list).post(queues::create))
        .route("/v1/queues/{name}", get(queues::describe).delete(queues::delete))
        .route("/v1/queues/{name}/purge", post(queues::purge))
        .route("/v1/queues/{name}/redrive", post(queues::redrive))
        .route("/v1/queues/{name}/messages", get(messages::list).post(messages::send))
        .route("/v1/queues/{name}/pop", post(messages::pop))
        .route("/v1/queues/{name}/ack", post(messages::ack))
        .route("/v1/queues/{name}/nack", post(messages::nack))
        .route("/v1/queues/{name}/extend", post(messages::extend))
        .fallback(async || no_such_path())
        .method_not_allowed_fallback(async || no_such_method())
        .layer(from_fn(refuse_queries))
        .layer(DefaultBodyLimit::max(body_max))
        .layer(Extension(BodyBytesMax(body_max)))
        .with_state(QueueState::new(shared))
}

/// Returns the answer to an unknown path.
pub(crate) fn no_such_path() -> Problem {
    Problem::not_found(
        "there is nothing at this path; requests are below /v1/, figures at /metrics, the console for browsers at /",
    )
}

/// Returns the answer to a method that a path does not have.
pub(crate) fn no_such_method() -> Problem {
    Problem::method_not_allowed("this path takes other methods, which the header Allow names")
}

/// Answers that the process lives.
pub async fn alive() -> &'static str {
    "ok\n"
}

/// Answers whether the store accepts changes; if not, the store says why.
async fn ready(State(state): State<Arc<QueueState>>) -> (StatusCode, String) {
    readiness(state.shared.trouble())
}

/// Returns the answer for a tier that is ready (no trouble) or not.
pub(crate) fn readiness(trouble: Option<impl Display>) -> (StatusCode, String) {
    match trouble {
        None => (StatusCode::OK, "ready\n".into()),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}

/// Answers what the server is and the state of its store.
async fn status(caller: Caller, _: Query<NoOptions>) -> Json<Value> {
    let shared = caller.shared();
    let trouble = shared.trouble();
    let figures: serde_json::Map<String, Value> =
        shared.store.figures().into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    Json(json!({
        "tier": "queue",
        "version": crate::info::VERSION,
        "uptime_s": shared.clock.now() / 1_000_000_000,
        "store": shared.store_name,
        "ready": trouble.is_none(),
        "trouble": trouble,
        "figures": figures,
    }))
}

/// The query for windows.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WindowsQuery {
    /// How many windows, counted from the last; None: all.
    last: Option<usize>,
}

/// Answers the windows of the last 15 minutes, or only the last few of them.
async fn windows(caller: Caller, Query(query): Query<WindowsQuery>) -> Response {
    windows_of(&caller.shared().meter, &query)
}

/// Returns the windows of any tier. They are serialized directly: as JSON values in memory, 9,000 of them would take
/// half a gigabyte.
pub(crate) fn windows_of(meter: &Meter, query: &WindowsQuery) -> Response {
    let windows = meter.windows();
    let first = windows.len().saturating_sub(query.last.unwrap_or(usize::MAX));
    let windows: Vec<&Window> = windows[first..].iter().map(|window| &**window).collect();
    Json(windows).into_response()
}

/// The query for clients.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClientsQuery {
    /// Only clients whose id is above this.
    #[serde(default)]
    pub(crate) after: u64,
    /// Most clients of the answer; None: all.
    pub(crate) limit: Option<usize>,
}

/// Answers the connected clients, by id.
async fn clients(caller: Caller, Query(query): Query<ClientsQuery>) -> Result<Json<Value>, Problem> {
    let shared = caller.require_administrator().await?;
    let now = shared.clock.now();
    let entry = |client: Arc<crate::clients::Client>| {
        let details = client.details().clone();
        json!({
            "id": client.address.client,
            "peer": client.peer,
            "name": details.name,
            "account": details.account,
            "library": details.library,
            "protocol": details.protocol,
            "requests": client.requests.load(Ordering::Relaxed),
            "age_s": now.saturating_sub(client.connected_ns) / 1_000_000_000,
            "idle_s": now.saturating_sub(client.active_ns.load(Ordering::Relaxed)) / 1_000_000_000,
        })
    };
    let mut found = shared.clients.find(|client| client.address.client > query.after);
    found.truncate(query.limit.unwrap_or(usize::MAX));
    Ok(Json(found.into_iter().map(entry).collect()))
}

/// `DELETE /v1/clients/{id}`.
async fn close_client(
    caller: Caller,
    Path(id): Path<u64>,
    Body(NoOptions {}): Body<NoOptions>,
) -> Result<Json<Value>, Problem> {
    let command = RespCommand::of(&["CLIENT", "KILL", "ID", &id.to_string()]);
    caller.ask_for_number(command, "closed").await
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;
    use std::time::Duration;

    use axum::body::Bytes;

    use super::*;

    #[test]
    fn a_stop_waits_for_a_client_that_reads_an_answer() {
        // More than sockets hold.
        let body: Arc<[u8]> = vec![b'x'; 64 << 20].into();
        let answer = Arc::clone(&body);
        let routes = Router::new().route("/", get(async move || Bytes::from_owner(Arc::clone(&answer))));
        let listener = TcpListener::bind("127.0.0.1:0").expect("an address");
        let http = Http::start(listener, None, routes, Arc::new(Gate::new(8, false)), Clock::start());
        let http = http.expect("it starts");
        let mut client = TcpStream::connect(http.address()).expect("connected");
        client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("asked");
        client.read_exact(&mut [0]).expect("the answer is on its way");
        let reader = std::thread::spawn(move || client.read_to_end(&mut Vec::new()).expect("read"));
        http.stop(Instant::now() + Duration::from_mins(10));
        assert_eq!(Arc::strong_count(&body), 1, "nothing is left to be sent");
        assert!(reader.join().expect("it has ended") > body.len(), "and nothing was cut");
    }
}
