//! The queues that hold most messages: as many as `--metrics-queues` says, because Prometheus keeps several time series
//! for every queue.

use std::cmp::Reverse;
use std::iter;

use posthaste_wire::reply::Value;

use super::{Metric, MetricType, Page};

/// A metric with a value for each queue that is shown.
struct Row {
    metric: Metric,
    /// The figure's name in QLIST.
    field: &'static str,
    /// How many of the figure's units make one of the metric's.
    per_unit: f64,
}

const LABELS: &[&str] = &["queue"];

static ROWS: [Row; 3] = [
    Row {
        metric: Metric {
            name: "posthaste_queue_messages",
            kind: MetricType::Gauge,
            labels: LABELS,
            help: "Messages in a queue; only the queues that hold most are shown (--metrics-queues).",
        },
        field: "messages",
        per_unit: 1.0,
    },
    Row {
        metric: Metric {
            name: "posthaste_queue_bytes",
            kind: MetricType::Gauge,
            labels: LABELS,
            help: "Bytes of the bodies in a queue; of the same queues.",
        },
        field: "bytes",
        per_unit: 1.0,
    },
    Row {
        metric: Metric {
            name: "posthaste_queue_oldest_age_seconds",
            kind: MetricType::Gauge,
            labels: LABELS,
            help: "Age of the oldest message in a queue, 0 where there is none; of the same queues.",
        },
        field: "oldest_ms",
        per_unit: 1000.0,
    },
];

const LISTED: Metric = Metric::unlabeled(
    "posthaste_queues_listed",
    MetricType::Gauge,
    "1 where the figures of queues are here, 0 where the store did not list queues within 2 s, or not for this account.",
);

/// Returns the metrics of this file.
pub fn metrics() -> impl Iterator<Item = &'static Metric> {
    iter::once(&LISTED).chain(ROWS.iter().map(|row| &row.metric))
}

/// Writes the `max` queues that hold most messages, from the answer to QLIST, and whether there is one.
pub fn write(page: &mut Page, list: Option<&Value<'_>>, max: usize) {
    page.header(&LISTED);
    page.value(&LISTED, &[], u8::from(list.is_some()));
    let Some(list) = list else { return };
    let number = |queue: &Value<'_>, field: &str| queue.get(field.as_bytes()).and_then(Value::as_integer);
    let mut queues: Vec<&Value<'_>> = list.parts().iter().collect();
    queues.sort_by_cached_key(|queue| (Reverse(number(queue, "messages")), number(queue, "id")));
    queues.truncate(max);
    for Row { metric, field, per_unit } in &ROWS {
        page.header(metric);
        for queue in &queues {
            let name = queue.get(b"name").and_then(Value::as_bytes).unwrap_or_default();
            if let Some(value) = number(queue, field) {
                page.value(metric, &[&String::from_utf8_lossy(name)], value as f64 / per_unit);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_fullest_queues_are_shown() {
        let text = |text: &'static str| Value::Bulk(text.as_bytes());
        let queue = |name, messages| {
            let fields = [("messages", messages), ("bytes", 2 * messages), ("oldest_ms", 1500)];
            let numbers = fields.map(|(field, number)| (text(field), Value::Integer(number)));
            Value::Map([(text("name"), text(name))].into_iter().chain(numbers).collect())
        };
        let mut page = Page::default();
        write(&mut page, Some(&Value::Array(vec![queue("a", 3), queue("b", 7), queue("c", 5)])), 2);
        let text = page.into_text();
        let values: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            values,
            [
                "posthaste_queues_listed 1",
                "posthaste_queue_messages{queue=\"b\"} 7",
                "posthaste_queue_messages{queue=\"c\"} 5",
                "posthaste_queue_bytes{queue=\"b\"} 14",
                "posthaste_queue_bytes{queue=\"c\"} 10",
                "posthaste_queue_oldest_age_seconds{queue=\"b\"} 1.5",
                "posthaste_queue_oldest_age_seconds{queue=\"c\"} 1.5",
            ]
        );
    }

    #[test]
    fn a_missing_list_of_queues_is_shown() {
        let mut page = Page::default();
        write(&mut page, None, 2);
        assert!(page.into_text().ends_with("\nposthaste_queues_listed 0\n"));
    }
}
