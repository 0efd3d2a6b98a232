//! What the cache tier serves over HTTP: health, windows, figures for Prometheus.

use std::sync::Arc;

use axum::Router as Routes;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::routing::get;

use super::hall::Hall;
use crate::http::metrics::page;
use crate::http::{self, Back};
use crate::metrics::router;

/// The paths of the cache tier.
pub(super) fn routes(hall: &Arc<Hall>) -> Routes {
    let (for_ready, for_figures, meter) = (Arc::clone(hall), Arc::clone(hall), Arc::clone(&hall.meter));
    Routes::new()
        .route("/healthz", get(http::alive))
        .route("/readyz", get(async move || ready(&for_ready)))
        .route("/metrics", get(async move || page(router::page(&for_figures))))
        .route("/v1/windows", get(async move |back: Query<Back>| http::windows_of(&meter, &back)))
}

/// Ready means that there is a server to ask.
fn ready(hall: &Hall) -> (StatusCode, &'static str) {
    if hall.is_ready() {
        (StatusCode::OK, "ready\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "no server answers: see the log, and whether they run\n")
    }
}
