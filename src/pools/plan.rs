//! One pool: its table in the file, read into a plan.

use std::time::Duration;

use posthaste_server::cache::layout::{PoolPlan, Source, StandInPlan};
use posthaste_server::cache::pool::LONGEST_EXPIRY_S;
use posthaste_server::cache::server_limits::ServerLimits;

use super::members::members;
use super::names::PoolNames;
use super::rules::rules;
use super::{Defaults, Names, at_least_one};
use crate::flags::some_time;
use crate::placed::{Fields, FileError};

/// What a pool's table may say.
pub(super) const POOL_FIELDS: [&str; 21] = [
    "servers",
    "writes",
    "reads",
    "multiget",
    "hash",
    "hash-tag",
    "hash-stop",
    "hash-salt",
    "answer",
    "read-repair",
    "get-errors",
    "failover",
    "failover-limit",
    "gutter",
    "gutter-expiry",
    "below",
    "warm-from",
    "server-timeout",
    "connect-timeout",
    "depth-limit",
    "deletes-to",
];

/// How long what is stored in a gutter lives, unless the file says it.
const GUTTER_EXPIRY: Duration = Duration::from_secs(10);

/// Reads the pool of this name from the fields of its table.
pub(super) fn plan(
    name: &str,
    fields: &Fields<'_, '_>,
    pools: &PoolNames,
    defaults: &Defaults,
    names: Names,
) -> Result<PoolPlan, FileError> {
    let rules = rules(fields, &defaults.rules)?;
    let resolver = (names == Names::Known).then_some(&defaults.resolver);
    let members = members(fields, &rules, resolver)?;
    let stand_ins = stand_ins(fields, pools)?;
    let is_own = |pool: usize| pools.get(name) == Some(pool);
    if stand_ins.iter().any(|other| is_own(other.pool)) {
        let at = fields.place(if fields.get("gutter").is_some() { "gutter" } else { "failover" });
        return Err(FileError::new(at, format!("pool {name} cannot stand in for itself")));
    }
    let source = source(fields, pools)?;
    if source.is_some() && !stand_ins.is_empty() {
        let at = fields.place(if fields.get("below").is_some() { "below" } else { "warm-from" });
        let what = "a pool has either a second one for what it misses (below, warm-from) or others that stand in (failover, gutter)";
        return Err(FileError::new(at, what));
    }
    let failover_limit = failover_limit(fields, &stand_ins)?;
    let server_limits = server_limits(fields, defaults.server_limits)?;
    let deletes_to = pools.list(fields, "deletes-to")?;
    if let Some((_, at)) = deletes_to.iter().find(|(pool, _)| is_own(*pool)) {
        return Err(FileError::new(*at, format!("deletes-to: this is pool {name} itself")));
    }
    let deletes_to = deletes_to.into_iter().map(|(pool, _)| pool).collect();
    let name = name.to_owned();
    Ok(PoolPlan { name, members, rules, stand_ins, failover_limit, source, deletes_to, server_limits })
}

/// The pools that stand in for this one, the gutter last.
fn stand_ins(fields: &Fields<'_, '_>, pools: &PoolNames) -> Result<Vec<StandInPlan>, FileError> {
    let others = pools.list(fields, "failover")?.into_iter();
    let mut stand_ins: Vec<_> = others.map(|(pool, _)| StandInPlan { pool, expiry: None }).collect();
    let expiry = fields.read("gutter-expiry", gutter_expiry)?;
    match pools.field(fields, "gutter")? {
        Some(pool) => stand_ins.push(StandInPlan { pool, expiry: Some(expiry.unwrap_or(GUTTER_EXPIRY)) }),
        None if expiry.is_some() => {
            let what = "gutter-expiry is for a gutter: name the pool";
            return Err(FileError::new(fields.place("gutter-expiry"), what));
        }
        None => {}
    }
    Ok(stand_ins)
}

fn gutter_expiry(text: &str) -> Result<Duration, String> {
    let expiry = some_time(text)?;
    if expiry.as_secs() == 0 || expiry.subsec_nanos() != 0 || expiry.as_secs() > LONGEST_EXPIRY_S {
        return Err("servers count expiries in whole seconds, at most 30 days: write 10s, for example".into());
    }
    Ok(expiry)
}

/// The pool that may hold what this one misses.
fn source(fields: &Fields<'_, '_>, pools: &PoolNames) -> Result<Option<Source>, FileError> {
    match (pools.field(fields, "below")?, pools.field(fields, "warm-from")?) {
        (None, None) => Ok(None),
        (Some(below), None) => Ok(Some(Source::Below(below))),
        (None, Some(old)) => Ok(Some(Source::Old(old))),
        (Some(_), Some(_)) => {
            Err(FileError::new(fields.place("warm-from"), "write either below or warm-from, not both"))
        }
    }
}

fn failover_limit(fields: &Fields<'_, '_>, stand_ins: &[StandInPlan]) -> Result<Option<u32>, FileError> {
    let limit = fields.read("failover-limit", |text| at_least_one(text, u32::MAX))?;
    if limit.is_some() && stand_ins.is_empty() {
        let what = "failover-limit: it limits failover or gutter, and this pool has neither";
        return Err(FileError::new(fields.place("failover-limit"), what));
    }
    Ok(limit)
}

/// How long servers are waited for, and for how much at once. A pool that says how long they may take to answer says so
/// of connections too, unless it has another time for them.
fn server_limits(fields: &Fields<'_, '_>, defaults: ServerLimits) -> Result<ServerLimits, FileError> {
    let answer_timeout = fields.read("server-timeout", some_time)?;
    let connect_timeout = fields.read("connect-timeout", some_time)?;
    let depth = fields.read("depth-limit", |text| at_least_one(text, u32::MAX))?;
    let depth = depth.map_or(defaults.depth, |depth| depth as usize);
    Ok(ServerLimits {
        connect_timeout: connect_timeout.or(answer_timeout).unwrap_or(defaults.connect_timeout),
        answer_timeout: answer_timeout.unwrap_or(defaults.answer_timeout),
        depth,
    })
}
