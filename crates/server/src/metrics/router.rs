//! The metrics of the cache tier: clients, the line, and its servers, each with its name as a label.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Head, Kind, Page, Single, entrance, process, requests};
use crate::cache::admin;
use crate::cache::memcached_server::Server;
use crate::cache::pool::Pool;
use crate::cache::shared::CacheShared;
use crate::cache::table::Table;

fn count(value: &AtomicU64) -> f64 {
    value.load(Ordering::Relaxed) as f64
}

static SINGLES: [Single<CacheShared>; 12] = [
    Single {
        head: Head::plain(
            "posthaste_connections",
            Kind::Gauge,
            "Clients that are connected, but for those of HTTP.",
        ),
        read: |shared| Some(shared.gate.connections_from_outside() as f64),
    },
    Single {
        head: Head::plain(
            "posthaste_connections_max",
            Kind::Gauge,
            "Most clients (--max-clients); more are refused.",
        ),
        read: |shared| Some(shared.gate.connections_max() as f64),
    },
    Single {
        head: Head::plain("posthaste_connections_total", Kind::Counter, "Clients that ever connected."),
        read: |shared| Some(shared.gate.accepted() as f64),
    },
    Single {
        head: Head::plain(
            "posthaste_connections_cut_total",
            Kind::Counter,
            "Clients cut for the memory they held.",
        ),
        read: |shared| Some(count(&shared.cut)),
    },
    Single {
        head: Head::plain(
            "posthaste_line_requests",
            Kind::Gauge,
            "Requests that wait for a worker; 0 without workers.",
        ),
        read: |shared| Some(shared.line.len() as f64),
    },
    Single {
        head: Head::plain(
            "posthaste_line_requests_max",
            Kind::Gauge,
            "Most requests that may wait for a worker (--line-limit); more are refused.",
        ),
        read: |shared| Some(shared.line.requests_max() as f64),
    },
    Single {
        head: Head::plain(
            "posthaste_ready",
            Kind::Gauge,
            "1 while a server takes part and answers, as /readyz says.",
        ),
        read: |shared| Some(f64::from(u8::from(shared.is_ready() == Some(true)))),
    },
    Single {
        head: Head::plain(
            "posthaste_slow_requests_total",
            Kind::Counter,
            "Requests that took longer than --slow; absent without it.",
        ),
        read: |shared| shared.slow.as_ref().map(|slow| slow.count() as f64),
    },
    Single {
        head: Head::plain(
            "posthaste_client_limit_refused_total",
            Kind::Counter,
            "Requests refused because their address has its limit (--client-limit); absent without it.",
        ),
        read: |shared| shared.client_limits.refused().map(|count| count as f64),
    },
    Single {
        head: Head::plain("posthaste_servers", Kind::Gauge, "Servers."),
        read: |shared| Some(shared.fleet.table().in_use().len() as f64),
    },
    Single {
        head: Head::plain("posthaste_servers_live", Kind::Gauge, "Servers that take part."),
        read: |shared| Some(shared.fleet.table().live() as f64),
    },
    Single {
        head: Head::plain("posthaste_get_misses_total", Kind::Counter, "Keys asked for and not found."),
        read: |shared| Some(count(&shared.fleet.misses)),
    },
];

/// A figure of each server: its head, and how it is read.
struct PerServer {
    head: Head,
    read: fn(&Server) -> f64,
}

const LABELS: &[&str] = &["server"];

static PER_SERVER: [PerServer; 5] = [
    PerServer {
        head: Head {
            name: "posthaste_server_live",
            kind: Kind::Gauge,
            labels: LABELS,
            help: "1 while the server takes part.",
        },
        read: |server| f64::from(u8::from(!server.health.is_away())),
    },
    PerServer {
        head: Head {
            name: "posthaste_server_losses_total",
            kind: Kind::Counter,
            labels: LABELS,
            help: "How often the server was lost.",
        },
        read: |server| server.health.losses() as f64,
    },
    PerServer {
        head: Head {
            name: "posthaste_server_requests_total",
            kind: Kind::Counter,
            labels: LABELS,
            help: "Commands sent to the server.",
        },
        read: |server| count(&server.counts.requests),
    },
    PerServer {
        head: Head {
            name: "posthaste_server_keys_total",
            kind: Kind::Counter,
            labels: LABELS,
            help: "Keys asked of the server.",
        },
        read: |server| count(&server.counts.keys),
    },
    PerServer {
        head: Head {
            name: "posthaste_server_errors_total",
            kind: Kind::Counter,
            labels: LABELS,
            help: "Errors the server answered, and answers it did not give.",
        },
        read: |server| count(&server.counts.errors),
    },
];

const REPLY: Head = Head {
    name: "posthaste_server_reply_seconds",
    kind: Kind::Histogram,
    labels: LABELS,
    help: "How long the server's replies took, from when the command was put into its line; times are known to an eighth.",
};

/// A figure of each pool, by its name.
struct PerPool {
    head: Head,
    read: fn(&Pool) -> f64,
}

const fn of_pool(name: &'static str, help: &'static str) -> Head {
    Head { name, kind: Kind::Counter, labels: &["pool"], help }
}

static PER_POOL: [PerPool; 4] = [
    PerPool {
        head: of_pool("posthaste_pool_failovers_total", "Requests that another pool took."),
        read: |pool| count(&pool.counts.failovers),
    },
    PerPool {
        head: of_pool(
            "posthaste_pool_failovers_refused_total",
            "Requests that another pool was not allowed to take (failover-limit).",
        ),
        read: |pool| count(&pool.counts.failovers_refused),
    },
    PerPool {
        head: of_pool(
            "posthaste_pool_looked_up_total",
            "Keys looked for in the second pool, or on another replica.",
        ),
        read: |pool| count(&pool.counts.looked_up),
    },
    PerPool {
        head: of_pool("posthaste_pool_filled_total", "Keys filled from there."),
        read: |pool| count(&pool.counts.filled),
    },
];

/// Labels that identify a route: its prefix, its commands (empty: all) and its pool.
const OF_ROUTE: &[&str] = &["prefix", "commands", "pool"];

const ROUTE_REQUESTS: Head = Head {
    name: "posthaste_route_requests_total",
    kind: Kind::Counter,
    labels: OF_ROUTE,
    help: "Requests by the route; of multi-gets each key.",
};

const ROUTE_REFUSED: Head = Head {
    name: "posthaste_route_refused_total",
    kind: Kind::Counter,
    labels: OF_ROUTE,
    help: "Requests that were errors because of the route's limit.",
};

const ROUTE_TIMED_OUT: Head = Head {
    name: "posthaste_route_timed_out_total",
    kind: Kind::Counter,
    labels: OF_ROUTE,
    help: "Requests whose answer did not come in time (--request-timeout, timeout of the route).",
};

const ROUTE_ANSWER: Head = Head {
    name: "posthaste_route_answer_seconds",
    kind: Kind::Histogram,
    labels: OF_ROUTE,
    help: "How long answers took, from when their requests were read until they were whole; times are known to an eighth, and \
           what one to keys of several routes took counts for one of them.",
};

/// Returns the heads of all these tables, in the order of the page.
pub fn heads() -> impl Iterator<Item = &'static Head> {
    process::heads()
        .chain(entrance::HEADS)
        .chain(SINGLES.iter().map(|single| &single.head))
        .chain(requests::HEADS)
        .chain(PER_SERVER.iter().map(|row| &row.head))
        .chain([&REPLY])
        .chain(PER_POOL.iter().map(|row| &row.head))
        .chain([&ROUTE_REQUESTS, &ROUTE_REFUSED, &ROUTE_TIMED_OUT, &ROUTE_ANSWER])
}

/// Returns the whole page.
#[must_use]
pub fn page(shared: &CacheShared) -> Page {
    let mut page = Page::default();
    process::write(&mut page, &shared.clock);
    page.singles(&SINGLES, shared);
    entrance::write(&mut page, &shared.gate, None);
    requests::write(&mut page, &shared.meter);
    let table = shared.fleet.table();
    for PerServer { head, read } in &PER_SERVER {
        page.head(head);
        for server in table.in_use().iter().map(|slot| &table.servers[*slot]) {
            page.value(head, &[server.name()], read(server));
        }
    }
    page.head(&REPLY);
    for server in table.in_use().iter().map(|slot| &table.servers[*slot]) {
        page.counts(&REPLY, &[server.name()], &server.counts.latency.counts());
    }
    for PerPool { head, read } in &PER_POOL {
        page.head(head);
        table.pools.iter().for_each(|pool| page.value(head, &[&pool.name], read(pool)));
    }
    write_routes(&mut page, &table);
    page
}

fn write_routes(page: &mut Page, table: &Table) {
    let routes = admin::routes(table);
    let commands: Vec<String> =
        routes.iter().map(|info| info.commands.clone().unwrap_or_default().join(" ")).collect();
    let each =
        || routes.iter().zip(&commands).map(|(info, words)| (info, [&*info.prefix, words, &info.pool]));
    page.head(&ROUTE_REQUESTS);
    each().for_each(|(info, labels)| page.value(&ROUTE_REQUESTS, &labels, info.requests));
    page.head(&ROUTE_REFUSED);
    each().for_each(|(info, labels)| page.value(&ROUTE_REFUSED, &labels, info.refused));
    page.head(&ROUTE_TIMED_OUT);
    each().for_each(|(info, labels)| page.value(&ROUTE_TIMED_OUT, &labels, info.timed_out));
    page.head(&ROUTE_ANSWER);
    each().for_each(|(info, labels)| page.counts(&ROUTE_ANSWER, &labels, &info.answers_below_us));
}
