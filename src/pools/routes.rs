//! The routes of a file: which keys and commands go to which pool.

use posthaste_server::cache::layout::{DEFAULT_POOL, RateLimit, RoutePlan, ShadowPlan};
use posthaste_server::cache::rate_limiter::PER_SECOND_MAX;
use posthaste_server::cache::verbs::Verbs;

use super::names::PoolNames;
use super::{at_least_one, catch_all};
use crate::flags::some_time;
use crate::placed::{Fields, FileError, Placed};

const ROUTE_FIELDS: [&str; 10] = [
    "prefix",
    "strip",
    "add-prefix",
    "commands",
    "pool",
    "shadow",
    "shadow-share",
    "limit",
    "burst",
    "timeout",
];

/// Longest name that is put before keys: servers take keys of 250 bytes, and something is to be left for clients.
const ADDED_BYTES_MAX: usize = 200;

/// The routes of the file, and behind them one to the pool that is named [`DEFAULT_POOL`], unless the file has one for
/// all keys.
pub(super) fn routes(value: &Placed<'_>, pools: &PoolNames) -> Result<Vec<RoutePlan>, FileError> {
    let wrong = || FileError::new(value.span().start, "write [[cache.routes]], once for each route");
    let tables = value.get_ref().as_array().ok_or_else(wrong)?;
    let mut routes: Vec<RoutePlan> = Vec::new();
    for table in tables {
        let fields = Fields::of(table, &ROUTE_FIELDS)?;
        let route = route(&fields, pools)?;
        let clash = routes.iter().find(|other| {
            let is_all = |route: &RoutePlan| route.verbs == Verbs::ALL;
            let overlap = !other.verbs.intersection(route.verbs).is_empty();
            other.prefix == route.prefix && overlap && is_all(other) == is_all(&route)
        });
        if clash.is_some() {
            let prefix = String::from_utf8_lossy(&route.prefix).into_owned();
            let what = format!("there is a route for prefix {prefix:?} and these commands already");
            return Err(FileError::new(fields.at, what));
        }
        routes.push(route);
    }
    let is_catch_all = |route: &RoutePlan| route.prefix.is_empty() && route.verbs == Verbs::ALL;
    if !routes.iter().any(is_catch_all) {
        routes.extend(pools.get(DEFAULT_POOL).map(catch_all));
    }
    Ok(routes)
}

fn route(fields: &Fields<'_, '_>, pools: &PoolNames) -> Result<RoutePlan, FileError> {
    let prefix = of_a_key(fields, "prefix")?;
    let add_prefix = of_a_key(fields, "add-prefix")?;
    if add_prefix.len() > ADDED_BYTES_MAX {
        let what = format!("add-prefix: at most {ADDED_BYTES_MAX} bytes, since keys have 250 in all");
        return Err(FileError::new(fields.place("add-prefix"), what));
    }
    let strip = fields.flag("strip")?.unwrap_or(false);
    if strip && prefix.is_empty() {
        return Err(FileError::new(fields.place("strip"), "strip: there is no prefix to take off"));
    }
    let mut verbs: Option<Verbs> = None;
    let words = fields.texts("commands")?;
    if fields.get("commands").is_some() && words.is_empty() {
        // Which would be a route for all of them.
        return Err(FileError::new(fields.place("commands"), "commands: name one, or leave it out for all"));
    }
    for (word, at) in words {
        let named = Verbs::named(word).map_err(|error| FileError::new(at, format!("commands: {error}")))?;
        verbs = Some(verbs.map_or(named, |verbs| verbs.union(named)));
    }
    let share = fields.read("shadow-share", share)?;
    let shadow = match pools.field(fields, "shadow")? {
        Some(pool) => Some(ShadowPlan { pool, share: share.unwrap_or(1.0) }),
        None if share.is_some() => {
            return Err(FileError::new(
                fields.place("shadow-share"),
                "shadow-share is for a shadow: name the pool",
            ));
        }
        None => None,
    };
    let to = pools
        .field(fields, "pool")?
        .ok_or_else(|| FileError::new(fields.at, "a route needs pool = \"NAME\""))?;
    if shadow.is_some_and(|shadow| shadow.pool == to) {
        let what = "shadow: this is the route's own pool, where incr and append would be done twice";
        return Err(FileError::new(fields.place("shadow"), what));
    }
    let verbs = verbs.unwrap_or(Verbs::ALL);
    let (prefix, add_prefix) = (prefix.as_bytes().to_vec(), add_prefix.as_bytes().to_vec());
    let (limit, timeout) = (limit(fields)?, fields.read("timeout", some_time)?);
    Ok(RoutePlan { prefix, strip, add_prefix, verbs, pool: to, shadow, limit, timeout })
}

/// A text that keys begin with, or are to begin with.
fn of_a_key<'t>(fields: &Fields<'t, '_>, field: &str) -> Result<&'t str, FileError> {
    let text = fields.text(field)?.unwrap_or_default();
    if text.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
        return Err(FileError::new(fields.place(field), format!("{field}: keys have no spaces")));
    }
    Ok(text)
}

fn limit(fields: &Fields<'_, '_>) -> Result<Option<RateLimit>, FileError> {
    let per_second = fields.read("limit", |text| at_least_one(text, PER_SECOND_MAX))?;
    let burst = fields.read("burst", |text| at_least_one(text, PER_SECOND_MAX))?;
    match (per_second, burst) {
        (Some(per_second), burst) => Ok(Some(RateLimit { per_second, burst: burst.unwrap_or(per_second) })),
        (None, Some(_)) => Err(FileError::new(
            fields.place("burst"),
            "burst is for a limit: write limit = N, the most requests in a second",
        )),
        (None, None) => Ok(None),
    }
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if share > 0.0 && share <= 1.0 => Ok(share),
        _ => Err("write a share above 0 and at most 1, 0.01 for example".into()),
    }
}
