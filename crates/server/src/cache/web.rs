//! What the cache tier serves over HTTP: health, windows, figures for Prometheus.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router as Routes;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::routing::get;

use super::hall::Hall;
use super::pool::ServerCounts;
use crate::http::metrics::{head, page, requests, single};
use crate::http::{self, Back};
use crate::info::VERSION;

/// The paths of the cache tier.
pub(super) fn routes(hall: &Arc<Hall>) -> Routes {
    let (for_ready, for_figures, meter) = (Arc::clone(hall), Arc::clone(hall), Arc::clone(&hall.meter));
    Routes::new()
        .route("/healthz", get(http::alive))
        .route("/readyz", get(async move || ready(&for_ready)))
        .route("/metrics", get(async move || page(figures(&for_figures))))
        .route("/v1/windows", get(async move |back: Query<Back>| http::windows_of(&meter, &back)))
}

/// Ready means that there is a server to ask.
fn ready(hall: &Hall) -> (StatusCode, &'static str) {
    if hall.pool.is_empty() || hall.pool.health.live() > 0 {
        (StatusCode::OK, "ready\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "no server answers: see the log, and whether they run\n")
    }
}

fn figures(hall: &Hall) -> String {
    let mut text = String::new();
    head(&mut text, "posthaste_build_info", "gauge", "The version of the program, as a label.");
    let _ = writeln!(text, "posthaste_build_info{{version=\"{VERSION}\"}} 1");
    let count = |value: &AtomicU64| value.load(Ordering::Relaxed) as f64;
    let connections = hall.connections.load(Ordering::Relaxed) as f64;
    for (name, kind, help, value) in [
        ("uptime_seconds", "gauge", "Time since the start.", hall.clock.now() as f64 / 1e9),
        ("connections", "gauge", "Clients that are connected.", connections),
        ("connections_total", "counter", "Clients that ever connected.", count(&hall.accepted)),
        ("connections_cut_total", "counter", "Clients cut for the memory they held.", count(&hall.cut)),
        ("line_requests", "gauge", "Requests that wait for a worker.", hall.line.len() as f64),
        ("get_misses_total", "counter", "Keys asked for and not found.", count(&hall.pool.misses)),
    ] {
        single(&mut text, &format!("posthaste_{name}"), kind, help, value);
    }
    requests(&mut text, &hall.meter);
    servers(&mut text, hall);
    text
}

/// A figure of a server: its name, what it is, where it is counted.
type Figure = (&'static str, &'static str, fn(&ServerCounts) -> &AtomicU64);

/// The figures of each server, with its name as a label.
fn servers(text: &mut String, hall: &Hall) {
    let health = &hall.pool.health;
    head(text, "posthaste_server_live", "gauge", "1 while the server takes part.");
    for (server, name) in hall.pool.names.iter().enumerate() {
        let _ =
            writeln!(text, "posthaste_server_live{{server={name:?}}} {}", u8::from(health.is_live(server)));
    }
    head(text, "posthaste_server_losses_total", "counter", "How often the server was lost.");
    for (server, name) in hall.pool.names.iter().enumerate() {
        let _ = writeln!(text, "posthaste_server_losses_total{{server={name:?}}} {}", health.losses(server));
    }
    let figures: [Figure; 3] = [
        ("requests", "Commands sent to the server.", |counts| &counts.requests),
        ("keys", "Keys asked of the server.", |counts| &counts.keys),
        ("errors", "Errors the server answered, and answers it did not give.", |counts| &counts.errors),
    ];
    for (figure, help, of) in figures {
        head(text, &format!("posthaste_server_{figure}_total"), "counter", help);
        for (name, counts) in hall.pool.names.iter().zip(&hall.pool.counts) {
            let value = of(counts).load(Ordering::Relaxed);
            let _ = writeln!(text, "posthaste_server_{figure}_total{{server={name:?}}} {value}");
        }
    }
}
