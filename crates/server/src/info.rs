//! INFO: the state of the server, in sections, in the form that Redis clients read.

use std::fmt::Write as _;
use std::process;

use crate::authenticator::LoginEnding;
use crate::house::House;
use crate::path::session::REDIS_VERSION;

/// Version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A section's name and what writes it.
type Section = (&'static str, fn(&House, &mut String));

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
pub fn info(house: &House, chosen: &[String]) -> String {
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
        write(house, &mut text);
        text.push_str("\r\n");
    }
    text
}

fn line(text: &mut String, name: &str, value: impl std::fmt::Display) {
    let _ = write!(text, "{name}:{value}\r\n");
}

fn server(house: &House, text: &mut String) {
    line(text, "posthaste_version", VERSION);
    line(text, "redis_version", REDIS_VERSION);
    line(text, "redis_mode", "standalone");
    line(text, "process_id", process::id());
    line(text, "uptime_in_seconds", house.clock.now() / 1_000_000_000);
    line(text, "network_threads", house.mailboxes.len());
    line(text, "loading", 0);
}

fn clients(house: &House, text: &mut String) {
    line(text, "connected_clients", house.gate.connections_from_outside());
    line(text, "maxclients", house.gate.connections_max());
    line(text, "total_connections_received", house.gate.accepted());
    line(text, "logins_failed", house.logins().map_or(0, |logins| logins.count(LoginEnding::Wrong)));
    for (name, count) in house.gate.newcomers.counts() {
        line(text, name, count);
    }
}

fn replication(_: &House, text: &mut String) {
    line(text, "role", "master");
    line(text, "connected_slaves", 0);
}

fn stats(house: &House, text: &mut String) {
    line(text, "line_requests", house.line.len());
    text.push_str(&house.meter.info());
}

fn store(house: &House, text: &mut String) {
    line(text, "store", &house.store_name);
    for (name, value) in house.store.figures() {
        line(text, name, value);
    }
}
