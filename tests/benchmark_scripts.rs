//! What the benchmarks have pgbench run against our own functions does what they say it does.

#[path = "support/postgres.rs"]
mod postgres;
#[path = "support/mod.rs"]
mod support;

use std::path::Path;

use postgres::shared;

/// Messages in one call.
const FULL_BATCH: usize = 64;

#[test]
fn full_batches_send_and_pop_all_they_count() {
    const CLIENTS: usize = 2;
    const TIMES: usize = 5;
    let (server, database) = (shared(), shared().create_database());
    server.psql(
        &database,
        "INSERT INTO posthaste.queue (id, name) SELECT 1000000 + n, 'full ' || n FROM generate_series(0, 9) n",
    );
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/side_by_side/sql/full_batches.pgbench");
    server.pgbench(&database, &script, CLIENTS, TIMES);
    let sent = server.psql(&database, "SELECT last_value FROM posthaste.message_id");
    assert_eq!(sent, (CLIENTS * TIMES * FULL_BATCH).to_string());
    assert_eq!(server.psql(&database, "SELECT count(*) FROM posthaste.message"), "0", "a pop left something");
}
