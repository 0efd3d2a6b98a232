//! The state of a PostgreSQL store: sizes, dead rows, what keeps them from being removed, and what to do about it.
//!
//! Everything comes from statistics that the server keeps anyway: no rows are counted, so the report costs next to
//! nothing, however large the queues are. It is read in one transaction, which ends before the report is shown.

use std::fmt;
use std::io;

use serde_json::Value as Json;
use tokio_postgres::{Client, SimpleQueryMessage};

use super::address::PostgresAddress;
use super::advice;
use super::connect::{ConnectError, with_connection};
use super::migrations::{self, MigrateError};
use super::refusal::chain;

/// Time limits: a statement that hangs, behind a lock for instance, must not keep the report from its reader.
const BEGIN: &str = "BEGIN READ ONLY; SET LOCAL statement_timeout = '15s'; SET LOCAL lock_timeout = '5s'";

/// The server and the ring.
const STATE: &str = "
    SELECT current_setting('server_version') AS server, current_database() AS database,
        (SELECT sum(n_live_tup)::bigint FROM pg_stat_user_tables
            WHERE schemaname = 'posthaste' AND relname IN ('message_0', 'message_1', 'message_aside')) AS messages,
        'message_' || turn.last_value % 2 AS ring_current,
        CASE WHEN r.since_ms > 0 THEN to_timestamp(r.since_ms / 1000) END AS ring_since,
        (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
            AND application_name IN ('posthaste', current_setting('application_name')) AND pid <> pg_backend_pid()) AS posthaste_sessions,
        current_setting('autovacuum') AS autovacuum, current_setting('fsync') AS fsync,
        current_setting('full_page_writes') AS full_page_writes,
        current_setting('synchronous_commit') AS synchronous_commit,
        current_setting('synchronous_standby_names') AS synchronous_standby_names,
        (SELECT extract(epoch FROM clock_timestamp() - min(query_start))::bigint FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event = 'SyncRep') AS standby_wait_s,
        pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS sees_all_sessions
    FROM posthaste.ring r, posthaste.ring_turn turn";

/// Every table of the schema, the largest first.
const TABLES: &str = "
    SELECT c.relname AS table,
        CASE c.relname WHEN 'message_' || turn.last_value % 2 THEN 'ring, current'
            WHEN 'message_' || (turn.last_value + 1) % 2 THEN 'ring, next' WHEN 'message_aside' THEN 'aside' END AS part,
        s.n_live_tup AS live_rows, s.n_dead_tup AS dead_rows, pg_table_size(c.oid) AS table_bytes,
        pg_indexes_size(c.oid) AS index_bytes, greatest(s.last_vacuum, s.last_autovacuum) AS vacuumed
    FROM pg_class c JOIN pg_stat_user_tables s ON s.relid = c.oid, posthaste.ring_turn turn
    WHERE c.relnamespace = 'posthaste'::regnamespace AND c.relkind = 'r'
    ORDER BY pg_total_relation_size(c.oid) DESC, c.relname";

/// What may keep dead rows, the ring from turning, or middlewares waiting; what reaches back furthest comes first.
const HOLDERS: &str = "
    WITH ring AS (
        SELECT pid FROM pg_locks WHERE granted
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND relation IN ('posthaste.message_0'::regclass, 'posthaste.message_1'::regclass)),
    -- A pg_dump that has locked no table yet might be going to read messages: the ring does not turn then.
    dumping AS (
        SELECT pid FROM pg_locks WHERE pid IS NOT NULL GROUP BY pid HAVING bool_and(granted) AND bool_or(relation >= 16384)),
    ours AS (
        SELECT pid, wait_event_type FROM pg_stat_activity
        WHERE datname = current_database() AND application_name IN ('posthaste', current_setting('application_name'))),
    -- Batches take turns, so they wait for each other as well.
    blocker AS (
        SELECT unnest(pg_blocking_pids(pid)) AS pid FROM ours WHERE wait_event_type = 'Lock'
        EXCEPT SELECT pid FROM ours),
    holder AS (
        SELECT 'session' AS kind, pid::text AS name, usename::text AS \"user\", application_name AS application, state,
            extract(epoch FROM clock_timestamp() - xact_start)::bigint AS transaction_s, query_start,
            greatest(age(backend_xmin), age(backend_xid)) AS xid_age,
            backend_xmin IS NOT NULL OR backend_xid IS NOT NULL AS keeps_dead_rows,
            pid IN (SELECT pid FROM ring) OR application_name = 'pg_dump' AND pid NOT IN (SELECT pid FROM dumping) AS locks_ring,
            pid IN (SELECT pid FROM blocker) AS keeps_waiting
        FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()
            AND (xact_start IS NOT NULL OR pid IN (SELECT pid FROM blocker))
            AND (backend_type = 'client backend' OR backend_type IS NULL AND usesysid IS NOT NULL) -- not shown of others' sessions
            AND wait_event IS DISTINCT FROM 'SyncRep' -- which has committed
        UNION ALL
        SELECT 'prepared', gid, owner, null, 'prepared', extract(epoch FROM clock_timestamp() - prepared)::bigint, null,
            age(transaction), true, EXISTS (SELECT FROM ring WHERE pid IS NULL), EXISTS (SELECT FROM blocker WHERE pid = 0)
        FROM pg_prepared_xacts WHERE database = current_database()
        UNION ALL
        SELECT 'slot', slot_name, null, slot_type, CASE WHEN active THEN 'active' ELSE 'inactive' END, null, null,
            age(xmin), xmin IS NOT NULL, false, false
        FROM pg_replication_slots WHERE xmin IS NOT NULL OR NOT active
        UNION ALL
        SELECT 'standby', coalesce(nullif(application_name, ''), pid::text), usename, null, state, null, null,
            age(backend_xmin), true, false, false
        FROM pg_stat_replication WHERE backend_xmin IS NOT NULL)
    SELECT * FROM holder ORDER BY xid_age DESC NULLS LAST, transaction_s DESC NULLS LAST";

/// Vacuums that run now.
const VACUUMS: &str = "
    SELECT p.pid, p.relid::regclass::text AS table, p.phase,
        extract(epoch FROM clock_timestamp() - a.xact_start)::bigint AS running_s,
        a.backend_type = 'autovacuum worker' AS automatic, p.heap_blks_scanned AS pages_scanned,
        p.heap_blks_total AS pages
    FROM pg_stat_progress_vacuum p JOIN pg_stat_activity a USING (pid) WHERE p.datname = current_database()";

/// What was found, in parts that are JSON objects or lists of them, and what to do, a sentence for each finding.
#[derive(Clone, Debug)]
pub struct Report {
    /// The server and the ring.
    pub state: Json,
    /// The tables with their sizes in bytes.
    pub tables: Vec<Json>,
    /// What keeps dead rows from being removed, the ring from turning, or middlewares waiting.
    pub holders: Vec<Json>,
    /// Vacuums under way.
    pub vacuums: Vec<Json>,
    /// What to do; empty: all is well.
    pub advice: Vec<String>,
}

/// Why there is no report, in one line.
#[derive(Debug)]
pub enum ReportError {
    /// The database was not reached.
    Connect(ConnectError),
    /// Its schema is not this program's.
    Schema(MigrateError),
    /// A query failed.
    Failed(String),
    /// The machine gave no event loop.
    Runtime(io::Error),
}

impl std::error::Error for ReportError {}

impl fmt::Display for ReportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(error) => error.fmt(f),
            Self::Schema(error) => error.fmt(f),
            Self::Failed(why) => write!(f, "the database gave no report: {why}"),
            Self::Runtime(error) => write!(f, "cannot start an event loop: {error}"),
        }
    }
}

impl From<tokio_postgres::Error> for ReportError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Failed(chain(&error))
    }
}

impl From<ConnectError> for ReportError {
    fn from(error: ConnectError) -> Self {
        Self::Connect(error)
    }
}

/// The only thing asked of the system is an event loop.
impl From<io::Error> for ReportError {
    fn from(error: io::Error) -> Self {
        Self::Runtime(error)
    }
}

/// Reports on a database; transactions count as long when they are open for `long_s` seconds.
///
/// # Errors
/// What stands in the way and what to do.
pub fn report_on(address: &PostgresAddress, long_s: u64) -> Result<Report, ReportError> {
    with_connection(address, async |client| read(client, long_s).await)
}

async fn read(client: &Client, long_s: u64) -> Result<Report, ReportError> {
    migrations::check(client).await.map_err(ReportError::Schema)?;
    client.batch_execute(BEGIN).await?;
    let mut report = Report {
        state: rows(client, STATE).await?.pop().unwrap_or_default(),
        tables: rows(client, TABLES).await?,
        holders: rows(client, HOLDERS).await?,
        vacuums: rows(client, VACUUMS).await?,
        advice: Vec::new(),
    };
    client.batch_execute("COMMIT").await?;
    report.advice = advice::on(&report, long_s);
    Ok(report)
}

/// Returns the rows of a query as objects; the simple protocol leaves no statement in a pooler's session.
pub(super) async fn rows(client: &Client, query: &str) -> Result<Vec<Json>, ReportError> {
    let asked = format!("SELECT coalesce(json_agg(r), '[]')::text FROM ({query}) AS r");
    let answers = client.simple_query(&asked).await?;
    let text = answers.iter().find_map(|answer| match answer {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    serde_json::from_str(text.unwrap_or("[]")).map_err(|error| ReportError::Failed(error.to_string()))
}
