//! Figures for Prometheus, in its text format, version 0.0.4. Names follow its conventions: base units, `_total` for what
//! only grows. Times are sums and counts of whole lives, so any rate and any mean over any time can be had from them.

use std::fmt::Write as _;

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use posthaste_measure::Meter;
use std::sync::Arc;

use super::office::{Office, Visitor};
use super::problem::Problem;
use crate::house::House;
use crate::info::VERSION;

/// `GET /metrics`.
pub(super) async fn metrics(
    visitor: Visitor,
    State(office): State<Arc<Office>>,
) -> Result<impl IntoResponse, Problem> {
    visitor.must_be_known().await?;
    Ok(page(text(&office.house)))
}

/// A text of figures as an answer.
pub(crate) fn page(text: String) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
}

fn text(house: &House) -> String {
    let mut text = String::new();
    head(&mut text, "posthaste_build_info", "gauge", "The version of the program, as a label.");
    let _ = writeln!(text, "posthaste_build_info{{version=\"{VERSION}\"}} 1");
    single(
        &mut text,
        "posthaste_uptime_seconds",
        "gauge",
        "Time since the start.",
        house.clock.now() as f64 / 1e9,
    );
    single(
        &mut text,
        "posthaste_connections",
        "gauge",
        "Clients that are connected.",
        house.clients.len() as f64,
    );
    let total = house.clients.total() as f64;
    single(&mut text, "posthaste_connections_total", "counter", "Clients that ever connected.", total);
    single(
        &mut text,
        "posthaste_line_requests",
        "gauge",
        "Requests that wait for a worker.",
        house.line.len() as f64,
    );
    single(
        &mut text,
        "posthaste_ready",
        "gauge",
        "1 while the store accepts changes.",
        f64::from(u8::from(house.store.trouble().is_none())),
    );
    requests(&mut text, &house.meter);
    for (name, value) in house.store.figures() {
        let about = format!("Figure {name} of the store, as INFO shows it.");
        let name = format!("posthaste_store_{}", name.trim_start_matches("store_"));
        single(&mut text, &name, "gauge", &about, value as f64);
    }
    text
}

/// What was answered and how long it took, of any tier.
pub(crate) fn requests(text: &mut String, meter: &Meter) {
    let totals = meter.totals();
    head(text, "posthaste_requests_total", "counter", "Requests answered, by kind and ending.");
    for kind in &totals.kinds {
        for (ending, count) in [("ok", kind.ok), ("null", kind.null), ("error", kind.errors)] {
            let _ = writeln!(
                text,
                "posthaste_requests_total{{kind=\"{}\",ending=\"{ending}\"}} {count}",
                kind.kind
            );
        }
    }
    head(
        text,
        "posthaste_stage_seconds_total",
        "counter",
        "Time that requests spent in each stage of the path; divide its rate by that of posthaste_requests_total.",
    );
    for kind in &totals.kinds {
        for (stage, mean_us) in kind.stage_means_us.iter() {
            let stage = stage.trim_end_matches("_mean_us");
            let seconds = mean_us / 1e6 * kind.requests as f64;
            let _ = writeln!(
                text,
                "posthaste_stage_seconds_total{{kind=\"{}\",stage=\"{stage}\"}} {seconds}",
                kind.kind
            );
        }
    }
}

/// A figure without labels.
pub(crate) fn single(text: &mut String, name: &str, kind: &str, help: &str, value: f64) {
    head(text, name, kind, help);
    let _ = writeln!(text, "{name} {value}");
}

/// What stands before the values of a figure.
pub(crate) fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
}
