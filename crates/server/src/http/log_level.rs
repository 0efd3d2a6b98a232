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
pub(crate) struct LogLevelBody {
    log_level: LogLevel,
}

/// `GET /v1/log-level`.
pub(crate) async fn get() -> Result<Json<LogLevelBody>, Problem> {
    log_level().map(|log_level| Json(LogLevelBody { log_level })).ok_or_else(no_log)
}

/// `POST /v1/log-level`.
pub(crate) async fn set(Body(body): Body<LogLevelBody>) -> Result<Json<LogLevelBody>, Problem> {
    let before = log_level().ok_or_else(no_log)?;
    set_log_level(body.log_level);
    tracing::info!(level = %body.log_level, %before, "the log level was set");
    Ok(Json(body))
}

/// `GET /v1/log-level` of a tier with accounts, for administrators.
pub(super) async fn get_as_administrator(caller: Caller) -> Result<Json<LogLevelBody>, Problem> {
    caller.require_administrator().await?;
    get().await
}

/// `POST /v1/log-level` of a tier with accounts, for administrators.
pub(super) async fn set_as_administrator(
    caller: Caller,
    body: Body<LogLevelBody>,
) -> Result<Json<LogLevelBody>, Problem> {
    caller.require_administrator().await?;
    set(body).await
}

fn no_log() -> Problem {
    Problem::not_found("this process keeps no log, so there is no level to set")
}
