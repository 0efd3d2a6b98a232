//! INFO: the state of the server, in sections, in the form that Redis clients read.

use std::fmt::Write as _;
use std::process;

use crate::authenticator::LoginEnding;
use crate::path::session::REDIS_VERSION;
use crate::queue_shared::QueueShared;

/// Version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A section's name and what writes it.
type Section = (&'static str, fn(&QueueShared, &mut String));

/// The sections in their order.
const SECTIONS: [Section; 5] = [
    ("Server", server),
    ("Clients", clients),
    ("Replication", replication),
    ("Stats", stats),
    ("Store", store),
];

/// Returns the chosen sections; all if none is chosen.
#[must_use]
pub fn info(shared: &QueueShared, chosen: &[String]) -> String {
    let everything = ["all", "everything", "default"];
    let wanted = |name: &str| {
        chosen.is_empty()
            || chosen.iter().any(|section| {
                section.eq_ignore_ascii_case(name)
                    || everything.iter().any(|word| section.eq_ignore_ascii_case(word))
            })
    };
    let mut text = String::new();
    for (name, write) in SECTIONS.iter().filter(|(name, _)| wanted(name)) {
        let _ = write!(text, "# {name}\r\n");
        write(shared, &mut text);
        text.push_str("\r\n");
    }
    text
}

fn line(text: &mut String, name: &str, value: impl std::fmt::Display) {
    let _ = write!(text, "{name}:{value}\r\n");
}

fn server(shared: &QueueShared, text: &mut String) {
    line(text, "posthaste_version", VERSION);
    line(text, "redis_version", REDIS_VERSION);
    line(text, "redis_mode", "standalone");
    line(text, "process_id", process::id());
    line(text, "uptime_in_seconds", shared.clock.now() / 1_000_000_000);
    line(text, "network_threads", shared.mailboxes.len());
    line(text, "loading", 0);
}

fn clients(shared: &QueueShared, text: &mut String) {
    line(text, "connected_clients", shared.gate.connections_from_outside());
    line(text, "maxclients", shared.gate.connections_max());
    line(text, "total_connections_received", shared.gate.accepted());
    line(text, "logins_failed", shared.logins().map_or(0, |logins| logins.count(LoginEnding::Wrong)));
    for (name, count) in shared.gate.newcomers.counts() {
        line(text, name, count);
    }
}

fn replication(_: &QueueShared, text: &mut String) {
    line(text, "role", "master");
    line(text, "connected_slaves", 0);
}

fn stats(shared: &QueueShared, text: &mut String) {
    line(text, "line_requests", shared.line.len());
    text.push_str(&shared.meter.info());
}

fn store(shared: &QueueShared, text: &mut String) {
    line(text, "store", &shared.store_name);
    for (name, value) in shared.store.figures() {
        line(text, name, value);
    }
}
