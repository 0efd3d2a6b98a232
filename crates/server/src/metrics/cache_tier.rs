//! The metrics of the cache tier: the line, and its servers, each with its name as a label.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Metric, MetricType, Page, SingleValue, admission, process, requests};
use crate::cache::admin;
use crate::cache::memcached_server::Server;
use crate::cache::missed_writes::MISSED_WRITES_MAX;
use crate::cache::pool::Pool;
use crate::cache::shared::CacheShared;
use crate::cache::table::Table;

fn count(value: &AtomicU64) -> f64 {
    value.load(Ordering::Relaxed) as f64
}

static SINGLE_VALUES: [SingleValue<CacheShared>; 10] = [
    SingleValue {
        metric: Metric::unlabeled(
            "posthaste_connections_cut_total",
            MetricType::Counter,
            "Clients cut for the memory they held.",
        ),
        read: |shared| Some(count(&shared.cut)),
    },
    SingleValue {
        metric: Metric::unlabeled(
            "posthaste_line_requests",
            MetricType::Gauge,
            "Requests that wait for a worker; 0 without workers.",
        ),
        read: |shared| Some(shared.line.len() as f64),
    },
    SingleValue {
        metric: Metric::unlabeled(
            "posthaste_line_requests_max",
            MetricType::Gauge,
            "Most requests that may wait for a worker (--line-limit); more are refused.",
        ),
        read: |shared| Some(shared.line.requests_max() as f64),
    },
    SingleValue {
        metric: Metric::unlabeled(
            "posthaste_ready",
            MetricType::Gauge,
            "1 while a server takes part and answers, as /readyz says.",
        ),
        read: |shared| Some(f64::from(u8::from(shared.is_ready() == Some(true)))),
    },
    SingleValue {
        metric: Metric::unlabeled(
            "posthaste_slow_requests_total",
            MetricType::Counter,
            "Requests that took longer than --slow; absent without it.",
        ),
        read: |shared| shared.slow.as_ref().map(|slow| slow.count() as f64),
    },
    SingleValue {
        metric: Metric::unlabeled(
            "posthaste_client_limit_refused_total",
            MetricType::Counter,
            "Requests refused because their address has its limit (--client-limit); absent without it.",
        ),
        read: |shared| shared.client_rate_limiters.refused().map(|count| count as f64),
    },
    SingleValue {
        metric: Metric::unlabeled("posthaste_servers", MetricType::Gauge, "Servers."),
        read: |shared| Some(shared.fleet.table().in_use().len() as f64),
    },
    SingleValue {
        metric: Metric::unlabeled("posthaste_servers_live", MetricType::Gauge, "Servers that take part."),
        read: |shared| Some(shared.fleet.table().live() as f64),
    },
    SingleValue {
        metric: Metric::unlabeled(
            "posthaste_missed_keys_max",
            MetricType::Gauge,
            "Most missed keys that are noted for a server; with one more it is flushed instead.",
        ),
        read: |_| Some(MISSED_WRITES_MAX as f64),
    },
    SingleValue {
        metric: Metric::unlabeled(
            "posthaste_get_misses_total",
            MetricType::Counter,
            "Keys asked for and not found.",
        ),
        read: |shared| Some(count(&shared.fleet.misses)),
    },
];

/// A metric with a value for each server.
struct PerServer {
    metric: Metric,
    read: fn(&Server) -> f64,
}

const SERVER_LABELS: &[&str] = &["server"];

static PER_SERVER: [PerServer; 8] = [
    PerServer {
        metric: Metric {
            name: "posthaste_server_live",
            kind: MetricType::Gauge,
            labels: SERVER_LABELS,
            help: "1 while the server takes part.",
        },
        read: |server| f64::from(u8::from(!server.health.is_away())),
    },
    PerServer {
        metric: Metric {
            name: "posthaste_server_losses_total",
            kind: MetricType::Counter,
            labels: SERVER_LABELS,
            help: "How often the server was lost.",
        },
        read: |server| server.health.losses() as f64,
    },
    PerServer {
        metric: Metric {
            name: "posthaste_server_requests_total",
            kind: MetricType::Counter,
            labels: SERVER_LABELS,
            help: "Commands sent to the server.",
        },
        read: |server| count(&server.counts.requests),
    },
    PerServer {
        metric: Metric {
            name: "posthaste_server_keys_total",
            kind: MetricType::Counter,
            labels: SERVER_LABELS,
            help: "Keys asked of the server.",
        },
        read: |server| count(&server.counts.keys),
    },
    PerServer {
        metric: Metric {
            name: "posthaste_server_errors_total",
            kind: MetricType::Counter,
            labels: SERVER_LABELS,
            help: "Errors the server answered, and answers it did not give.",
        },
        read: |server| count(&server.counts.errors),
    },
    PerServer {
        metric: Metric {
            name: "posthaste_server_missed_writes_total",
            kind: MetricType::Counter,
            labels: SERVER_LABELS,
            help: "Writes answered while the server did not have them: it was away.",
        },
        read: |server| count(&server.counts.missed_writes),
    },
    PerServer {
        metric: Metric {
            name: "posthaste_server_missed_keys",
            kind: MetricType::Gauge,
            labels: SERVER_LABELS,
            help: "Keys the server must delete before it takes part again; 0 if it is to be flushed.",
        },
        read: |server| server.health.missed().0 as f64,
    },
    PerServer {
        metric: Metric {
            name: "posthaste_server_must_flush",
            kind: MetricType::Gauge,
            labels: SERVER_LABELS,
            help: "1 while the server must be flushed before it takes part again.",
        },
        read: |server| f64::from(u8::from(server.health.missed().1)),
    },
];

const SERVER_REPLY: Metric = Metric {
    name: "posthaste_server_reply_seconds",
    kind: MetricType::Histogram,
    labels: SERVER_LABELS,
    help: "How long the server's replies took, from when the command was put into its line; times are known to an eighth.",
};

/// A metric with a value for each pool.
struct PerPool {
    metric: Metric,
    read: fn(&Pool) -> f64,
}

const fn pool_counter(name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: MetricType::Counter, labels: &["pool"], help }
}

static PER_POOL: [PerPool; 4] = [
    PerPool {
        metric: pool_counter("posthaste_pool_failovers_total", "Requests that another pool took."),
        read: |pool| count(&pool.counts.failovers),
    },
    PerPool {
        metric: pool_counter(
            "posthaste_pool_failovers_refused_total",
            "Requests that another pool was not allowed to take (failover-limit).",
        ),
        read: |pool| count(&pool.counts.failovers_refused),
    },
    PerPool {
        metric: pool_counter(
            "posthaste_pool_looked_up_total",
            "Keys looked for in the second pool, or on another replica.",
        ),
        read: |pool| count(&pool.counts.looked_up),
    },
    PerPool {
        metric: pool_counter("posthaste_pool_filled_total", "Keys filled from there."),
        read: |pool| count(&pool.counts.filled),
    },
];

/// Labels that identify a route: its prefix, its commands (empty: all) and its pool.
const ROUTE_LABELS: &[&str] = &["prefix", "commands", "pool"];

const ROUTE_REQUESTS: Metric = Metric {
    name: "posthaste_route_requests_total",
    kind: MetricType::Counter,
    labels: ROUTE_LABELS,
    help: "Requests by the route; of multi-gets each key.",
};

const ROUTE_REFUSED: Metric = Metric {
    name: "posthaste_route_refused_total",
    kind: MetricType::Counter,
    labels: ROUTE_LABELS,
    help: "Requests that were errors because of the route's limit.",
};

const ROUTE_TIMED_OUT: Metric = Metric {
    name: "posthaste_route_timed_out_total",
    kind: MetricType::Counter,
    labels: ROUTE_LABELS,
    help: "Requests whose answer did not come in time (--request-timeout, timeout of the route).",
};

const ROUTE_ANSWER: Metric = Metric {
    name: "posthaste_route_answer_seconds",
    kind: MetricType::Histogram,
    labels: ROUTE_LABELS,
    help: "How long answers took, from when their requests were read until they were whole; times are known to an eighth, and \
           what one to keys of several routes took counts for one of them.",
};

/// Returns all metrics of the page, in its order.
pub fn metrics() -> impl Iterator<Item = &'static Metric> {
    process::metrics()
        .chain(admission::metrics())
        .chain(SINGLE_VALUES.iter().map(|single| &single.metric))
        .chain(requests::METRICS)
        .chain(PER_SERVER.iter().map(|row| &row.metric))
        .chain([&SERVER_REPLY])
        .chain(PER_POOL.iter().map(|row| &row.metric))
        .chain([&ROUTE_REQUESTS, &ROUTE_REFUSED, &ROUTE_TIMED_OUT, &ROUTE_ANSWER])
}

/// Returns the whole page.
#[must_use]
pub fn page(shared: &CacheShared) -> Page {
    let mut page = Page::default();
    process::write(&mut page, &shared.clock);
    page.single_values(&SINGLE_VALUES, shared);
    admission::write(&mut page, &shared.gate, None);
    requests::write(&mut page, &shared.meter);
    let table = shared.fleet.table();
    for PerServer { metric, read } in &PER_SERVER {
        page.header(metric);
        for server in table.in_use().iter().map(|slot| &table.servers[*slot]) {
            page.value(metric, &[server.name()], read(server));
        }
    }
    page.header(&SERVER_REPLY);
    for server in table.in_use().iter().map(|slot| &table.servers[*slot]) {
        page.histogram_of_fine_buckets(&SERVER_REPLY, &[server.name()], &server.counts.latency.counts());
    }
    for PerPool { metric, read } in &PER_POOL {
        page.header(metric);
        table.pools.iter().for_each(|pool| page.value(metric, &[&pool.name], read(pool)));
    }
    write_routes(&mut page, &table);
    page
}

fn write_routes(page: &mut Page, table: &Table) {
    let routes = admin::routes(table);
    let commands: Vec<String> =
        routes.iter().map(|info| info.commands.clone().unwrap_or_default().join(" ")).collect();
    let each =
        || routes.iter().zip(&commands).map(|(info, names)| (info, [&*info.prefix, names, &info.pool]));
    page.header(&ROUTE_REQUESTS);
    each().for_each(|(info, labels)| page.value(&ROUTE_REQUESTS, &labels, info.requests));
    page.header(&ROUTE_REFUSED);
    each().for_each(|(info, labels)| page.value(&ROUTE_REFUSED, &labels, info.refused));
    page.header(&ROUTE_TIMED_OUT);
    each().for_each(|(info, labels)| page.value(&ROUTE_TIMED_OUT, &labels, info.timed_out));
    page.header(&ROUTE_ANSWER);
    each().for_each(|(info, labels)| {
        page.histogram_of_fine_buckets(&ROUTE_ANSWER, &labels, &info.answers_below_us)
    });
}
