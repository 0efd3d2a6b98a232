//! `stats` and what may stand behind it, in the words of the protocol: `STAT name value` lines and END.

use std::fmt::Write as _;

use posthaste_wire::memcached::request::Request;

use super::admin;
use super::dialect::OURS;
use super::fleet::{Fleet, Topic};
use super::layout::DEFAULT_POOL;

/// The answer to a `stats` command.
#[must_use]
pub fn answer(request: &Request, input: &[u8], fleet: &Fleet) -> String {
    let line = request.line.of(input);
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).skip(1);
    let mut text = String::new();
    match words.next() {
        // Under `proxy` memcached's own proxy tells what it did.
        None | Some(b"proxy") => general(fleet, &mut text),
        Some(b"servers") => servers(fleet, &mut text),
        Some(b"routes") => routes(fleet, &mut text),
        Some(b"settings") => settings(fleet, &mut text),
        // What they tell of servers differs from server to server and cannot be one answer. The router has no items.
        Some(b"items" | b"slabs" | b"sizes") => {}
        // Metrics are made of the same counters, and who collects them takes one that falls for a restart.
        Some(b"reset") => return "CLIENT_ERROR counters are not reset: compare two readings\r\n".into(),
        Some(_) => return "ERROR\r\n".into(),
    }
    text.push_str("END\r\n");
    text
}

fn stat(text: &mut String, name: impl std::fmt::Display, value: impl std::fmt::Display) {
    let _ = write!(text, "STAT {name} {value}\r\n");
}

fn general(fleet: &Fleet, text: &mut String) {
    stat(text, "pid", std::process::id());
    stat(text, "version", OURS);
    for (name, value) in fleet.about.get().map(|about| about(Topic::Figures)).unwrap_or_default() {
        stat(text, name, value);
    }
    let table = fleet.table();
    stat(text, "servers", table.in_use().len());
    stat(text, "servers_live", table.live());
    stat(text, "routes_loaded", fleet.generation());
}

fn settings(fleet: &Fleet, text: &mut String) {
    for (name, value) in fleet.about.get().map(|about| about(Topic::Settings)).unwrap_or_default() {
        stat(text, name, value);
    }
    stat(text, "flush_enabled", if fleet.table().settings.flush_all { "yes" } else { "no" });
}

fn servers(fleet: &Fleet, text: &mut String) {
    for info in admin::servers(&fleet.table()) {
        let name = &info.name;
        stat(text, format_args!("{name}:state"), &info.state);
        if !info.version.is_empty() {
            stat(text, format_args!("{name}:version"), &info.version);
        }
        stat(text, format_args!("{name}:requests"), info.requests);
        stat(text, format_args!("{name}:keys"), info.keys);
        stat(text, format_args!("{name}:errors"), info.errors);
        stat(text, format_args!("{name}:losses"), info.losses);
        stat(text, format_args!("{name}:missed_writes"), info.missed_writes);
        stat(text, format_args!("{name}:missed_keys"), info.missed_keys);
        stat(text, format_args!("{name}:missed_keys_max"), info.missed_keys_max);
        stat(text, format_args!("{name}:must_flush"), u8::from(info.must_flush));
    }
}

/// The rules in force, and what multi-gets cost either way. Names of the pool of `--server` have no prefix.
fn routes(fleet: &Fleet, text: &mut String) {
    let table = fleet.table();
    stat(text, "eject", if fleet.ejects() { "on" } else { "off" });
    for (pool, info) in table.pools.iter().zip(admin::pools(&table)) {
        let named = if info.name == DEFAULT_POOL { String::new() } else { format!("pool_{}:", info.name) };
        for (name, value) in [
            ("writes", &info.writes),
            ("reads", &info.reads),
            ("hash", &info.hash),
            ("multiget", &info.multiget),
            ("answer", &info.answer),
            ("read_repair", &info.read_repair),
            ("get_errors", &info.get_errors),
        ] {
            stat(text, format_args!("{named}{name}"), value);
        }
        for (name, value) in [
            ("failovers", info.failovers),
            ("failovers_refused", info.failovers_refused),
            ("looked_up", info.looked_up),
            ("filled", info.filled),
        ] {
            stat(text, format_args!("{named}{name}"), value);
        }
        pool.costs.describe(&named, text);
    }
    for (number, route) in (1..).zip(admin::routes(&table)) {
        let prefix = if route.prefix.is_empty() { "*" } else { &route.prefix };
        stat(text, format_args!("route_{number}:prefix"), prefix);
        stat(text, format_args!("route_{number}:pool"), &route.pool);
        stat(text, format_args!("route_{number}:requests"), route.requests);
        stat(text, format_args!("route_{number}:timed_out"), route.timed_out);
        if let Some(limit) = route.limit {
            stat(text, format_args!("route_{number}:limit"), limit);
            stat(text, format_args!("route_{number}:refused"), route.refused);
        }
    }
}
