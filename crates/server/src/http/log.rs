//! The log level, read and set over HTTP, on both tiers.

use axum::Json;
use serde::{Deserialize, Serialize};

use super::auth::Caller;
use super::extract::Body;
use super::problem::Problem;
use crate::log_level::{LogLevel, log_level, set_log_level};

/// The body of request and answer.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Level {
    log_level: LogLevel,
}

/// `GET /v1/log-level`.
pub(crate) async fn tell() -> Result<Json<Level>, Problem> {
    log_level().map(|log_level| Json(Level { log_level })).ok_or_else(no_log)
}

/// `POST /v1/log-level`.
pub(crate) async fn set(Body(level): Body<Level>) -> Result<Json<Level>, Problem> {
    let before = log_level().ok_or_else(no_log)?;
    set_log_level(level.log_level);
    tracing::info!(level = %level.log_level, %before, "the log level was set");
    Ok(Json(level))
}

/// `GET /v1/log-level` of a tier with accounts, for administrators.
pub(super) async fn tell_administrator(caller: Caller) -> Result<Json<Level>, Problem> {
    caller.require_administrator().await?;
    tell().await
}

/// `POST /v1/log-level` of a tier with accounts, for administrators.
pub(super) async fn set_as_administrator(caller: Caller, body: Body<Level>) -> Result<Json<Level>, Problem> {
    caller.require_administrator().await?;
    set(body).await
}

fn no_log() -> Problem {
    Problem::not_found("this process keeps no log, so there is no level to set")
}
