//! HTTP beside the path: health, and the live figures as JSON.
//!
//! An ordinary HTTP library on a thread of its own: it reads what the collector has left and never touches the path.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::house::House;

/// The HTTP thread and the way to stop it.
pub struct Http {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<io::Result<()>>,
}

impl Http {
    /// Listens and serves.
    ///
    /// # Errors
    /// The system's, when the address cannot be listened on.
    pub fn start(listener: TcpListener, house: Arc<House>) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = Builder::new().name("http".into()).spawn(move || {
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener)?;
                let until = async { drop(stopped.await) };
                axum::serve(listener, routes(house)).with_graceful_shutdown(until).await
            })
        })?;
        Ok(Self { address, stop, thread })
    }

    /// The address really bound.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Asks it to stop; a client that holds its connection open is not waited for.
    pub fn stop(self) {
        drop(self.stop);
        if self.thread.is_finished()
            && let Ok(Err(error)) = self.thread.join()
        {
            tracing::warn!("HTTP ended early: {error}");
        }
    }
}

fn routes(house: Arc<House>) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/v1/windows", get(windows))
        .route("/v1/clients", get(clients))
        .with_state(house)
}

/// Ready means that the store accepts changes; if not, the store says why.
async fn ready(State(house): State<Arc<House>>) -> (StatusCode, String) {
    match house.store.trouble() {
        None => (StatusCode::OK, "ready\n".into()),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}

/// The windows of the last 15 minutes.
async fn windows(State(house): State<Arc<House>>) -> Json<Value> {
    let windows: Vec<Value> = house.meter.windows().iter().map(|window| json!(**window)).collect();
    Json(Value::Array(windows))
}

/// Who is connected.
async fn clients(State(house): State<Arc<House>>) -> Json<Value> {
    let card = |client: Arc<crate::clients::Client>| {
        let about = client.about().clone();
        json!({
            "id": client.address.client,
            "peer": client.peer,
            "name": about.name,
            "account": about.account,
            "library": about.library,
            "protocol": about.protocol,
            "requests": client.requests.load(std::sync::atomic::Ordering::Relaxed),
        })
    };
    Json(house.clients.find(|_| true).into_iter().map(card).collect())
}
