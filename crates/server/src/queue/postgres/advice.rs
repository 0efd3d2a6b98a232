//! What a report on a PostgreSQL store means, and what to do: one sentence for each finding, the command included.

use serde_json::Value as Json;

use super::report::Report;

/// How long a standby may take to confirm a write; milliseconds are usual.
const STANDBY_S: i64 = 2;
/// Bytes of the ring's current part above which it should have turned: several times what makes the keeper turn it.
const RING_BYTES: i64 = 128 << 20;
/// Dead rows of a table above which vacuum should have run: several times what starts autovacuum.
const DEAD_ROWS: i64 = 50_000;
/// Bytes of a table's indexes, in all and per row, above which they are reported.
const INDEX_BYTES: i64 = 64 << 20;
const INDEX_BYTES_PER_ROW: i64 = 1000;

/// Returns the findings of a report, the gravest first.
pub(super) fn on(report: &Report, long_s: u64) -> Vec<String> {
    let long_s = i64::try_from(long_s).unwrap_or(i64::MAX);
    let mut advice: Vec<String> = on_standbys(&report.state).into_iter().collect();
    advice.extend(safety(&report.state));
    advice.extend(report.holders.iter().filter_map(|holder| on_holder(holder, long_s)));
    advice.extend(on_ring(report));
    advice.extend(report.tables.iter().filter_map(|table| on_table(table, report)));
    if report.state["sees_all_sessions"] == false {
        advice.push(
            "this user sees only its own sessions, so others may hold what is not shown: GRANT pg_monitor TO it"
                .into(),
        );
    }
    advice
}

fn number(row: &Json, name: &str) -> i64 {
    row[name].as_i64().unwrap_or(0)
}

fn text<'a>(row: &'a Json, name: &str) -> &'a str {
    row[name].as_str().unwrap_or_default()
}

/// Reports writes that no standby confirms.
fn on_standbys(state: &Json) -> Option<String> {
    let waited_s = number(state, "standby_wait_s");
    (waited_s >= STANDBY_S).then(|| {
        format!(
            "writes wait for a standby to confirm them, one of them for {}: bring back who is missing of \
             synchronous_standby_names = '{}'; who is there: SELECT application_name, sync_state FROM pg_stat_replication",
            time(waited_s),
            text(state, "synchronous_standby_names")
        )
    })
}

/// Reports settings with which the server may lose what was acknowledged, or gets slow.
fn safety(state: &Json) -> Vec<String> {
    let loses = |name: &str, what: &str| {
        (state[name] == "off")
            .then(|| format!("{name} is off: {what}: ALTER SYSTEM RESET {name}, then reload"))
    };
    let may = [
        loses("fsync", "a crash of the machine may destroy the database"),
        loses("full_page_writes", "a crash of the machine may destroy pages"),
        loses("synchronous_commit", "a crash takes messages that were acknowledged"),
        loses("autovacuum", "dead rows stay and reads get slower"),
    ];
    may.into_iter().flatten().collect()
}

/// Reports a session, prepared transaction, slot or standby that has held up vacuum, the ring or requests for long.
fn on_holder(holder: &Json, long_s: i64) -> Option<String> {
    let (name, state, open_s) =
        (text(holder, "name"), text(holder, "state"), number(holder, "transaction_s"));
    let harm = harm(holder)?;
    match text(holder, "kind") {
        "session" if open_s < long_s && !holder["transaction_s"].is_null() => None,
        "session" => {
            let who = format!("{}, user {}", text(holder, "application"), text(holder, "user"));
            let open = time(open_s);
            Some(match state {
                _ if holder["transaction_s"].is_null() => format!(
                    "session of pid {name} ({who}) {harm}, in no transaction that this user sees: end it with \
                     SELECT pg_terminate_backend({name})"
                ),
                "active" => format!(
                    "transaction of pid {name} ({who}) open for {open} and at work {harm}: if it need not finish, \
                     SELECT pg_cancel_backend({name})"
                ),
                _ => format!(
                    "transaction of pid {name} ({who}) open for {open} and {state} {harm}: end it with \
                     SELECT pg_terminate_backend({name}), and set idle_in_transaction_session_timeout for its user"
                ),
            })
        }
        "prepared" if open_s < long_s => None,
        "prepared" => Some(format!(
            "prepared transaction '{name}' waits for its second half for {} {harm}: COMMIT PREPARED '{name}' or \
             ROLLBACK PREPARED '{name}'",
            time(open_s)
        )),
        "slot" if state == "inactive" => Some(format!(
            "replication slot {name} has no reader and {harm}: bring its standby back, or \
             SELECT pg_drop_replication_slot('{name}')"
        )),
        _ if number(holder, "xid_age") > DEAD_ROWS => Some(format!(
            "a query on standby {name} {harm} (hot_standby_feedback): look for it in pg_stat_activity there, \
             SELECT pg_cancel_backend(its pid)"
        )),
        _ => None,
    }
}

/// Returns what a holder holds up.
fn harm(holder: &Json) -> Option<String> {
    let harms = [
        ("keeps_waiting", "requests waiting"),
        ("keeps_dead_rows", "dead rows in message_aside"),
        ("locks_ring", "the ring from turning"),
    ];
    let harms: Vec<&str> =
        harms.into_iter().filter(|(name, _)| holder[name] == true).map(|(_, harm)| harm).collect();
    match harms[..] {
        [] if text(holder, "kind") == "slot" => Some("keeps WAL on the disk".into()),
        [] => None,
        _ => Some(format!("keeps {}", harms.join(" and "))),
    }
}

/// Reports a ring that should have turned.
fn on_ring(report: &Report) -> Option<String> {
    let part = |part: &str| report.tables.iter().find(|table| table["part"] == part);
    let (current, next) = (part("ring, current")?, part("ring, next")?);
    let name = text(current, "table");
    let bytes = number(current, "table_bytes");
    if bytes < RING_BYTES {
        return None;
    }
    let grown = format!("{name} has {} and the ring has not turned", size(bytes));
    Some(if number(&report.state, "posthaste_sessions") == 0 {
        format!("{grown}, for no middleware is connected: start posthaste queue on this database")
    } else if number(next, "live_rows") > 0 {
        format!(
            "{grown}, for {} still holds {} messages that nobody has read: read them, or QPURGE queues that nobody \
             reads (QLIST shows oldest_ms)",
            text(next, "table"),
            number(next, "live_rows")
        )
    } else {
        format!(
            "{grown}: end the transactions named here that lock it, and sessions called pg_dump that dump nothing; \
             SET log_lock_waits = on shows short locks"
        )
    })
}

/// Reports a table that vacuum does not keep up with, or whose indexes have grown out of proportion.
fn on_table(table: &Json, report: &Report) -> Option<String> {
    let name = text(table, "table");
    // Parts of the ring are truncated, and their dead rows go with that.
    if text(table, "part").starts_with("ring") {
        return None;
    }
    let (live, dead, index) =
        (number(table, "live_rows"), number(table, "dead_rows"), number(table, "index_bytes"));
    let full_name = format!("posthaste.{name}");
    let vacuumed = report.vacuums.iter().any(|vacuum| vacuum["table"] == full_name.as_str());
    if dead > DEAD_ROWS && dead > live && !vacuumed {
        let held = report.holders.iter().any(|holder| holder["keeps_dead_rows"] == true);
        let first = if held { "once the transactions named here have ended, " } else { "" };
        return Some(format!(
            "{name} has {dead} dead rows and no vacuum is at work on it: {first}VACUUM {full_name}"
        ));
    }
    (index > INDEX_BYTES && index > INDEX_BYTES_PER_ROW * live.max(1)).then(|| {
        format!(
            "indexes of {name} take {} for {live} rows: REINDEX TABLE CONCURRENTLY {full_name} gives the space back",
            size(index)
        )
    })
}

/// Formats seconds for people.
fn time(seconds: i64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Formats bytes for people.
fn size(bytes: i64) -> String {
    format!("{} MiB", bytes >> 20)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::{Report, on};

    fn healthy() -> Report {
        let table = |name: &str, part: Option<&str>| json!({ "table": name, "part": part, "live_rows": 10, "dead_rows": 10, "table_bytes": 8192, "index_bytes": 8192 });
        Report {
            state: json!({
                "posthaste_sessions": 9, "autovacuum": "on", "fsync": "on", "full_page_writes": "on",
                "synchronous_commit": "on", "sees_all_sessions": true,
            }),
            tables: vec![
                table("message_0", Some("ring, current")),
                table("message_1", Some("ring, next")),
                table("message_aside", Some("aside")),
                table("queue", None),
            ],
            holders: vec![],
            vacuums: vec![],
            advice: vec![],
        }
    }

    /// The only piece of advice on a healthy report with one change.
    fn only(change: impl FnOnce(&mut Report)) -> String {
        let mut report = healthy();
        change(&mut report);
        let advice = on(&report, 60);
        assert_eq!(advice.len(), 1, "{advice:?}");
        advice.into_iter().next().unwrap_or_default()
    }

    fn holder(kind: &str, name: &str, state: &str, transaction_s: i64) -> Json {
        json!({
            "kind": kind, "name": name, "state": state, "transaction_s": transaction_s, "application": "psql",
            "user": "app", "xid_age": 1_000_000, "keeps_dead_rows": true, "locks_ring": false, "keeps_waiting": false,
        })
    }

    #[test]
    fn all_is_well() {
        assert_eq!(on(&healthy(), 60), Vec::<String>::new());
    }

    #[test]
    fn each_holder_is_told_how_to_let_go() {
        for (holder, words) in [
            (
                holder("session", "123", "idle in transaction", 720),
                ["pid 123 (psql, user app) open for 12 min", "pg_terminate_backend(123)"],
            ),
            (holder("session", "7", "active", 61), ["open for 61 s", "pg_cancel_backend(7)"]),
            (holder("prepared", "two", "prepared", 8000), ["'two'", "ROLLBACK PREPARED 'two'"]),
            (holder("slot", "gone", "inactive", 0), ["slot gone", "pg_drop_replication_slot('gone')"]),
            (holder("standby", "s2", "streaming", 0), ["standby s2", "hot_standby_feedback"]),
        ] {
            let advice = only(|report| report.holders.push(holder.clone()));
            assert!(words.iter().all(|word| advice.contains(word)), "{words:?}: {advice}");
        }
        let mut idle = holder("session", "5", "idle", 0);
        (idle["transaction_s"], idle["keeps_dead_rows"], idle["keeps_waiting"]) =
            (Json::Null, false.into(), true.into());
        let advice = only(|report| report.holders.push(idle));
        assert!(
            advice.contains("keeps requests waiting") && advice.contains("pg_terminate_backend(5)"),
            "{advice}"
        );
        let mut short = healthy();
        short.holders.push(holder("session", "8", "idle in transaction", 59));
        assert_eq!(on(&short, 60), Vec::<String>::new());
    }

    #[test]
    fn what_keeps_the_ring_from_turning_is_said() {
        let large = |report: &mut Report| report.tables[0]["table_bytes"] = json!(200 << 20);
        assert!(only(large).contains("message_1 still holds 10 messages"));
        assert!(
            only(|report| {
                large(report);
                report.state["posthaste_sessions"] = json!(0);
            })
            .contains("start posthaste queue")
        );
        let mut locker = holder("session", "9", "idle in transaction", 100);
        locker["locks_ring"] = json!(true);
        locker["keeps_dead_rows"] = json!(false);
        assert!(only(|report| report.holders.push(locker)).contains("keeps the ring from turning"));
    }

    #[test]
    fn tables_and_settings_have_their_remedies() {
        assert!(
            only(|report| report.tables[2]["dead_rows"] = json!(60_000))
                .contains("VACUUM posthaste.message_aside")
        );
        assert!(
            only(|report| report.tables[2]["index_bytes"] = json!(100 << 20))
                .contains("REINDEX TABLE CONCURRENTLY")
        );
        assert!(
            only(|report| report.state["standby_wait_s"] = json!(2)).contains("writes wait for a standby")
        );
        assert!(only(|report| report.state["synchronous_commit"] = json!("off")).contains("acknowledged"));
        assert!(only(|report| report.state["sees_all_sessions"] = json!(false)).contains("pg_monitor"));
    }
}
