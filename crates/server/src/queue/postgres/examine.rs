//! For `posthaste admin doctor`: what lies between this program and the database, and how much room that has.
//!
//! A pooler answers in PostgreSQL's name and says nothing of itself, so its mode is found out by watching which session
//! of the server serves us: a transaction pooler gives us the one that was released last, be it another client's.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::timeout;
use tokio_postgres::{Client, SimpleQueryMessage};

use super::address::PostgresAddress;
use super::connect::{Connected, connect, with_connection};
use super::link::OWN_SESSION;
use super::report::{ReportError, rows};

/// Time limit for finding out a pooler's mode: one with a single session keeps the second connection waiting.
const PATIENCE: Duration = Duration::from_secs(3);

/// The last connections are the superuser's. Other users' sessions may be shown without their type; of the server's own
/// processes no user is shown then.
const ROOM: &str = "
    SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
            AS connections_max,
        (SELECT count(*) FROM pg_stat_activity
            WHERE backend_type = 'client backend' OR backend_type IS NULL AND usesysid IS NOT NULL) AS connections";

/// What lies between this program and the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooler {
    /// Nothing.
    None,
    /// A pooler that gives each client a session.
    Session,
    /// A pooler that gives each transaction a session.
    Transaction,
    /// A pooler whose mode could not be found out.
    Unknown,
}

/// What was found out about a database.
#[derive(Clone, Debug)]
pub struct Examined {
    /// What lies between this program and the server.
    pub pooler: Pooler,
    /// How far the server's clock is ahead of ours, in milliseconds.
    pub clock_ahead_ms: i64,
    /// By how much `clock_ahead_ms` may be wrong, in milliseconds.
    pub clock_error_ms: i64,
    /// Clients that are connected to the server.
    pub connections: i64,
    /// Most clients that may be connected to the server, but for its superusers.
    pub connections_max: i64,
}

/// Examines a database.
///
/// # Errors
/// What stands in the way and what to do.
pub fn examine(address: &PostgresAddress) -> Result<Examined, ReportError> {
    with_connection(address, async |first| look(first, address).await)
}

async fn look(first: &Client, address: &PostgresAddress) -> Result<Examined, ReportError> {
    let pooler = match value(first, OWN_SESSION).await?.as_str() {
        "t" => Pooler::None,
        _ => match connect(address).await {
            Ok(Connected { client: second, connection, .. }) => {
                let two = tokio::spawn(connection);
                let mode = timeout(PATIENCE, mode(first, &second)).await;
                drop(second);
                let _ = timeout(PATIENCE, two).await; // a pooler may keep it until its server is free
                mode.unwrap_or(Ok(Pooler::Unknown))?
            }
            Err(_) => Pooler::Unknown,
        },
    };
    let before = now_ms();
    let theirs = value(first, "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint").await?;
    let after = now_ms();
    let room = rows(first, ROOM).await?.pop().unwrap_or_default();
    let number = |name: &str| room[name].as_i64().unwrap_or(0);
    Ok(Examined {
        pooler,
        clock_ahead_ms: theirs.parse::<i64>().unwrap_or(before) - i64::midpoint(before, after),
        clock_error_ms: (after - before) / 2 + 1,
        connections: number("connections"),
        connections_max: number("connections_max"),
    })
}

/// Returns a pooler's mode. The first client's session is released last, so in transaction mode the second one gets it.
async fn mode(first: &Client, second: &Client) -> Result<Pooler, ReportError> {
    first.simple_query("BEGIN").await?;
    second.simple_query("BEGIN").await?;
    let own = value(second, "SELECT pg_backend_pid()").await?;
    second.simple_query("COMMIT").await?;
    first.simple_query("COMMIT").await?;
    let next = value(second, "SELECT pg_backend_pid()").await?;
    Ok(if own == next { Pooler::Session } else { Pooler::Transaction })
}

/// Returns the only value of a query, as text.
async fn value(client: &Client, query: &str) -> Result<String, ReportError> {
    let answers = client.simple_query(query).await?;
    let value = answers.iter().find_map(|answer| match answer {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    Ok(value.unwrap_or_default().to_owned())
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}
