//! `posthaste admin store`: reports the condition of a PostgreSQL store, and what to do about it.

use std::error::Error;
use std::fmt::Write as _;
use std::time::Duration;

use posthaste_server::queue::choice::StoreChoice;
use posthaste_server::queue::postgres::address::PostgresAddress;
use posthaste_server::queue::postgres::report::{Report, report_on};
use serde_json::{Value as Json, json};

use crate::admin::table::{cell, table};
use crate::config::Misuse;
use crate::placed::one_line;
use crate::stdout::say;

/// Prints the report.
pub(crate) fn run(store: &str, older_than: Duration, as_json: bool) -> Result<(), Box<dyn Error>> {
    let report = report_on(&address(store)?, older_than.as_secs())?;
    say(&if as_json { format!("{:#}\n", to_json(&report)) } else { to_text(&report) })
}

fn address(store: &str) -> Result<PostgresAddress, Misuse> {
    match store.parse() {
        Ok(StoreChoice::Postgres(address)) => Ok(*address),
        Ok(other) => Err(Misuse(format!(
            "admin store reports on PostgreSQL (--store postgres://…); for {other} ask its server: redis-cli -p 7411 INFO store"
        ))),
        Err(error) => Err(Misuse(format!("--store: {error}"))),
    }
}

fn to_json(report: &Report) -> Json {
    json!({
        "state": report.state,
        "tables": report.tables,
        "holders": report.holders,
        "vacuums": report.vacuums,
        "advice": report.advice,
    })
}

fn to_text(report: &Report) -> String {
    let mut text = String::new();
    for (name, value) in report.state.as_object().into_iter().flatten() {
        let _ = writeln!(text, "{name:<20} {}", cell(name, value)); // writing to a String does not fail
    }
    for (title, rows) in [
        ("tables (rows as the statistics have them)", &report.tables),
        ("who keeps dead rows or the ring", &report.holders),
        ("vacuums at work", &report.vacuums),
    ] {
        let rows = if rows.is_empty() { "none\n".into() } else { table(rows) };
        let _ = write!(text, "\n{title}\n{rows}");
    }
    text.push_str("\nwhat to do\n");
    if report.advice.is_empty() {
        text.push_str("nothing\n");
    }
    for advice in &report.advice {
        let _ = writeln!(text, "- {}", one_line(advice));
    }
    text
}
