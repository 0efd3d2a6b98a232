//! Two PostgreSQL servers, the second of which has everything that the first one acknowledged.

#![allow(dead_code, reason = "each test program uses its own part of this")]

use crate::postgres::Postgres;
use crate::support::patience::wait_for;

/// A primary that may get a standby.
pub(crate) fn primary() -> Postgres {
    Postgres::start(&["wal_level=replica", "synchronous_commit=on"])
}

/// A standby that the primary's commits wait for from now on.
pub(crate) fn standby_of(primary: &Postgres) -> Postgres {
    let standby = Postgres::standby_of(primary, &["hot_standby=on"]);
    primary.psql("postgres", "ALTER SYSTEM SET synchronous_standby_names = '*'");
    primary.psql("postgres", "SELECT pg_reload_conf()");
    let state = "SELECT sync_state FROM pg_stat_replication";
    wait_for("the standby follows", || {
        if primary.psql("postgres", state) == "sync" { Ok(()) } else { Err(standby.log()) }
    });
    standby
}

/// The URL of a database on both.
pub(crate) fn url(servers: [&Postgres; 2], database: &str) -> String {
    let [first, second] = servers.map(Postgres::port);
    format!("postgres://postgres@127.0.0.1:{first},127.0.0.1:{second}/{database}")
}
