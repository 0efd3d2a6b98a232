//! Figures that the stores report, by the names that INFO shows.
//!
//! A store reports figures without type or unit, as INFO has none. This table adds both.

use super::{Metric, MetricType, Page};
use crate::queue::counts::event_name;

/// A figure of a store, and the metric it becomes.
struct Row {
    /// The figure's name in INFO.
    figure: &'static str,
    /// How many of the figure's units make one of the metric's.
    per_unit: f64,
    metric: Metric,
}

const fn row(figure: &'static str, name: &'static str, kind: MetricType, help: &'static str) -> Row {
    Row { figure, per_unit: 1.0, metric: Metric::unlabeled(name, kind, help) }
}

static ROWS: [Row; 29] = [
    row("store_failed", "posthaste_store_failed", MetricType::Gauge, "1 while the store refuses changes."),
    row(
        "store_full",
        "posthaste_store_full",
        MetricType::Gauge,
        "1 while the disk has no space for another file of the log: what adds something is refused, messages can be taken.",
    ),
    row(
        "store_stuck",
        "posthaste_store_stuck",
        MetricType::Gauge,
        "1 while the disk has no space even to take messages, so that only QPURGE, QDELETE or more space helps; or while \
         messages are refused because a file of the log cannot be made for another reason: /readyz says which. Embedded.",
    ),
    row("queues", "posthaste_store_queues", MetricType::Gauge, "Queues. Embedded, memory."),
    row(
        "messages",
        "posthaste_store_messages",
        MetricType::Gauge,
        "Messages in all queues, leased and delayed ones included. Embedded, memory.",
    ),
    row(
        "message_bytes",
        "posthaste_store_message_bytes",
        MetricType::Gauge,
        "Bytes of their bodies. Embedded, memory.",
    ),
    row(
        "accounts",
        "posthaste_store_accounts",
        MetricType::Gauge,
        "Accounts that ever logged in or stand in the accounts file. Embedded, memory.",
    ),
    row(
        "blocked_clients",
        "posthaste_store_blocked_clients",
        MetricType::Gauge,
        "Clients whose POP waits for a message.",
    ),
    row(
        "remembered_answers",
        "posthaste_store_remembered_answers",
        MetricType::Gauge,
        "Answers kept for repeated requests (DEDUP, REQID). Embedded.",
    ),
    row(
        "state_bytes",
        "posthaste_store_state_bytes",
        MetricType::Gauge,
        "Memory of the selection state, and of bodies that are kept there, which --memory-limit bounds. Purged messages count \
         until they are freed, soon after. Embedded, memory.",
    ),
    row(
        "state_limit_bytes",
        "posthaste_store_state_limit_bytes",
        MetricType::Gauge,
        "Beyond this many, what adds something gets FULL (--memory-limit); absent without it. Embedded, memory.",
    ),
    row("log_bytes", "posthaste_store_log_bytes", MetricType::Gauge, "Bytes in the log. Embedded."),
    row(
        "log_live_bytes",
        "posthaste_store_log_live_bytes",
        MetricType::Gauge,
        "Bytes of the log that are still needed. Purged messages count until they are freed, soon after, even if their file \
         has gone before. Embedded.",
    ),
    row("log_segments", "posthaste_store_log_segments", MetricType::Gauge, "Files of the log. Embedded."),
    row(
        "unreadable_segments",
        "posthaste_store_unreadable_segments",
        MetricType::Gauge,
        "Those of them that cannot be read, so that no disk space is given back. Embedded.",
    ),
    row(
        "disk_bytes",
        "posthaste_store_disk_bytes",
        MetricType::Gauge,
        "Disk space that the store has claimed. Embedded.",
    ),
    row(
        "store_connections_made",
        "posthaste_store_connections_made_total",
        MetricType::Counter,
        "Connections made to the database; it grows when they break. PostgreSQL.",
    ),
    row(
        "links_used",
        "posthaste_store_links_used",
        MetricType::Gauge,
        "Workers' connections at work. PostgreSQL.",
    ),
    row(
        "links_idle",
        "posthaste_store_links_idle",
        MetricType::Gauge,
        "Workers' connections that wait for work. PostgreSQL.",
    ),
    row(
        "links_waited",
        "posthaste_store_links_waited_total",
        MetricType::Counter,
        "How often a worker waited for a connection because the database admits no more. PostgreSQL.",
    ),
    row(
        "keeper_ticks",
        "posthaste_keeper_ticks_total",
        MetricType::Counter,
        "How often the keeper let time pass. PostgreSQL.",
    ),
    Row {
        figure: "keeper_silent_ms",
        per_unit: 1000.0,
        metric: Metric::unlabeled(
            "posthaste_keeper_silent_seconds",
            MetricType::Gauge,
            "Time since it last did; leases and delays end late by as much. PostgreSQL.",
        ),
    },
    row(
        "keeper_ring_turns",
        "posthaste_keeper_ring_turns_total",
        MetricType::Counter,
        "How often this middleware's keeper turned the ring of messages. PostgreSQL.",
    ),
    row(
        "keeper_turn_failures",
        "posthaste_keeper_turn_failures_total",
        MetricType::Counter,
        "How often looking at the ring failed. PostgreSQL.",
    ),
    Row {
        figure: "keeper_ring_locked_ms",
        per_unit: 1000.0,
        metric: Metric::unlabeled(
            "posthaste_keeper_ring_locked_seconds",
            MetricType::Gauge,
            "For how long readers, as a dump, have kept the ring of messages from turning; 0 if they do not. PostgreSQL.",
        ),
    },
    Row {
        figure: "oldest_transaction_ms",
        per_unit: 1000.0,
        metric: Metric::unlabeled(
            "posthaste_store_oldest_transaction_seconds",
            MetricType::Gauge,
            "How long the oldest transaction in the database has been open that keeps dead rows from being removed; of \
             those of other roles only a member of pg_read_all_stats knows. PostgreSQL.",
        ),
    },
    row(
        "keeper_news_told",
        "posthaste_keeper_news_told_total",
        MetricType::Counter,
        "Notifications sent to other middlewares. PostgreSQL.",
    ),
    row(
        "keeper_news_heard",
        "posthaste_keeper_news_heard_total",
        MetricType::Counter,
        "Notifications heard from others. PostgreSQL.",
    ),
    row(
        "keeper_listens",
        "posthaste_keeper_listens",
        MetricType::Gauge,
        "1 while notifications arrive; behind a transaction pooler they do not, and blocked pops wake within 1 s. PostgreSQL.",
    ),
];

/// What happened to messages. A figure of a store counts each event.
static MESSAGES: Metric = Metric {
    name: "posthaste_messages_total",
    kind: MetricType::Counter,
    labels: &["event"],
    help: "Messages by what happened to them: sent; taken (by POP, also on a lease); acknowledged; returned (a lease ran \
           out, or NACK); dead_lettered (instead of that); expired; purged (QPURGE, QDELETE); deduplicated (a SEND whose \
           DEDUP key was known, so that nothing was sent). Embedded: what is durable; what expired while no server ran \
           is not counted. PostgreSQL: what this middleware did, so the sum over all of them, without SQL clients.",
};

/// Returns the metrics of this file.
pub fn metrics() -> impl Iterator<Item = &'static Metric> {
    ROWS.iter().map(|row| &row.metric).chain([&MESSAGES])
}

/// Writes the figures that a store reported.
pub fn write(page: &mut Page, figures: &[(&'static str, u64)]) {
    for (figure, value) in figures {
        if let Some(Row { per_unit, metric, .. }) = ROWS.iter().find(|row| row.figure == *figure) {
            page.header(metric);
            page.value(metric, &[], *value as f64 / per_unit);
        }
    }
    let events = figures.iter().filter_map(|(figure, count)| event_name(figure).zip(Some(count)));
    for (place, (event, count)) in events.enumerate() {
        if place == 0 {
            page.header(&MESSAGES);
        }
        page.value(&MESSAGES, &[event], count);
    }
}

/// Returns whether a store's figure has a row in the table.
#[must_use]
pub fn has_row(figure: &str) -> bool {
    ROWS.iter().any(|row| row.figure == figure) || event_name(figure).is_some()
}
