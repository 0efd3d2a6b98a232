//! `stats` and `stats servers`, in the words of the protocol: `STAT name value` lines and END.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use posthaste_wire::memcached::request::Request;

use super::pool::Pool;

/// The answer to a `stats` command.
#[must_use]
pub fn answer(request: &Request, input: &[u8], pool: &Pool) -> String {
    let line = request.line.of(input);
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).skip(1);
    let mut text = String::new();
    match words.next() {
        None => general(pool, &mut text),
        Some(b"servers") => servers(pool, &mut text),
        Some(b"routes") => routes(pool, &mut text),
        // What servers count differs from server to server and cannot be one answer.
        Some(_) => return "ERROR\r\n".into(),
    }
    text.push_str("END\r\n");
    text
}

fn stat(text: &mut String, name: impl std::fmt::Display, value: impl std::fmt::Display) {
    let _ = write!(text, "STAT {name} {value}\r\n");
}

fn general(pool: &Pool, text: &mut String) {
    stat(text, "pid", std::process::id());
    stat(text, "version", concat!(env!("CARGO_PKG_VERSION"), "-posthaste"));
    for (name, value) in pool.about.get().map(|about| about()).unwrap_or_default() {
        stat(text, name, value);
    }
    stat(text, "servers", pool.len());
    stat(text, "servers_live", pool.health.live());
    stat(text, "get_misses", pool.misses.load(Ordering::Relaxed));
}

fn servers(pool: &Pool, text: &mut String) {
    for (server, (name, counts)) in pool.names.iter().zip(&pool.counts).enumerate() {
        let state = if pool.health.is_live(server) { "live" } else { "away" };
        stat(text, format_args!("{name}:state"), state);
        stat(text, format_args!("{name}:requests"), counts.requests.load(Ordering::Relaxed));
        stat(text, format_args!("{name}:keys"), counts.keys.load(Ordering::Relaxed));
        stat(text, format_args!("{name}:errors"), counts.errors.load(Ordering::Relaxed));
        stat(text, format_args!("{name}:losses"), pool.health.losses(server));
    }
}

/// The rules in force, and what multi-gets cost either way.
fn routes(pool: &Pool, text: &mut String) {
    let rules = &pool.rules;
    stat(text, "writes", rules.writes);
    stat(text, "reads", rules.reads);
    stat(text, "hash", rules.hash);
    stat(text, "eject", if rules.eject { "on" } else { "off" });
    stat(text, "multiget", rules.multiget);
    pool.costs.describe(text);
}
