//! What the cache tier has: clients, the line, and its servers, each with its name as a label.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Head, Kind, Page, Single, entrance, process, requests};
use crate::cache::fleet::Server;
use crate::cache::hall::Hall;

fn count(value: &AtomicU64) -> f64 {
    value.load(Ordering::Relaxed) as f64
}

static SINGLES: [Single<Hall>; 10] = [
    Single {
        head: Head::plain("posthaste_connections", Kind::Gauge, "Clients that are connected."),
        read: |hall| Some(hall.gate.connections() as f64),
    },
    Single {
        head: Head::plain(
            "posthaste_connections_max",
            Kind::Gauge,
            "Most clients (--max-clients); more are refused.",
        ),
        read: |hall| Some(hall.gate.connections_max() as f64),
    },
    Single {
        head: Head::plain("posthaste_connections_total", Kind::Counter, "Clients that ever connected."),
        read: |hall| Some(hall.gate.accepted() as f64),
    },
    Single {
        head: Head::plain(
            "posthaste_connections_cut_total",
            Kind::Counter,
            "Clients cut for the memory they held.",
        ),
        read: |hall| Some(count(&hall.cut)),
    },
    Single {
        head: Head::plain(
            "posthaste_line_requests",
            Kind::Gauge,
            "Requests that wait for a worker; 0 without workers.",
        ),
        read: |hall| Some(hall.line.len() as f64),
    },
    Single {
        head: Head::plain(
            "posthaste_ready",
            Kind::Gauge,
            "1 while a server takes part and answers, as /readyz says.",
        ),
        read: |hall| Some(f64::from(u8::from(hall.is_ready() == Some(true)))),
    },
    Single {
        head: Head::plain(
            "posthaste_slow_requests_total",
            Kind::Counter,
            "Requests that took longer than --slow; absent without it.",
        ),
        read: |hall| hall.slow.as_ref().map(|slow| slow.count() as f64),
    },
    Single {
        head: Head::plain("posthaste_servers", Kind::Gauge, "Servers."),
        read: |hall| Some(hall.fleet.table().in_use().len() as f64),
    },
    Single {
        head: Head::plain("posthaste_servers_live", Kind::Gauge, "Servers that take part."),
        read: |hall| Some(hall.fleet.table().live() as f64),
    },
    Single {
        head: Head::plain("posthaste_get_misses_total", Kind::Counter, "Keys asked for and not found."),
        read: |hall| Some(count(&hall.fleet.misses)),
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

/// The table's rows, in the order of the page.
pub fn heads() -> impl Iterator<Item = &'static Head> {
    process::heads()
        .chain([&entrance::REFUSED])
        .chain(SINGLES.iter().map(|single| &single.head))
        .chain(requests::HEADS)
        .chain(PER_SERVER.iter().map(|row| &row.head))
}

/// Writes them all.
#[must_use]
pub fn page(hall: &Hall) -> Page {
    let mut page = Page::default();
    process::write(&mut page, &hall.clock);
    page.singles(&SINGLES, hall);
    entrance::write(&mut page, &hall.gate.newcomers, None);
    requests::write(&mut page, &hall.meter);
    let table = hall.fleet.table();
    for PerServer { head, read } in &PER_SERVER {
        page.head(head);
        for server in table.in_use().iter().map(|slot| &table.servers[*slot]) {
            page.value(head, &[server.name()], read(server));
        }
    }
    page
}
