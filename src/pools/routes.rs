//! The routes of a file: which keys and commands go to which pool.

use std::collections::BTreeMap;

use posthaste_server::cache::layout::{RoutePlan, ShadowPlan, Verbs};

use crate::placed::{Fields, Placed, Wrong};

const ROUTE_FIELDS: [&str; 6] = ["prefix", "strip", "commands", "pool", "shadow", "shadow-share"];

/// The routes of the file, and behind them the one that the flags made, unless the file has one for all keys.
pub(super) fn routes(
    value: &Placed<'_>,
    numbers: &BTreeMap<String, usize>,
    of_flags: Vec<RoutePlan>,
) -> Result<Vec<RoutePlan>, Wrong> {
    let wrong = || Wrong::new(value.span().start, "write [[cache.routes]], once for each route");
    let tables = value.get_ref().as_array().ok_or_else(wrong)?;
    let mut routes: Vec<RoutePlan> = Vec::new();
    for table in tables {
        let fields = Fields::of(table, &ROUTE_FIELDS)?;
        let route = route(&fields, numbers)?;
        let clash = routes.iter().find(|other| {
            let is_all = |route: &RoutePlan| route.verbs == Verbs::ALL;
            let overlap = other.verbs.common(route.verbs).is_some();
            other.prefix == route.prefix && overlap && is_all(other) == is_all(&route)
        });
        if clash.is_some() {
            let prefix = String::from_utf8_lossy(&route.prefix).into_owned();
            let what = format!("there is a route for prefix {prefix:?} and these commands already");
            return Err(Wrong::new(fields.at, what));
        }
        routes.push(route);
    }
    let is_catch_all = |route: &RoutePlan| route.prefix.is_empty() && route.verbs == Verbs::ALL;
    if !routes.iter().any(is_catch_all) {
        routes.extend(of_flags);
    }
    Ok(routes)
}

fn route(fields: &Fields<'_, '_>, numbers: &BTreeMap<String, usize>) -> Result<RoutePlan, Wrong> {
    let pool = |field: &str| match fields.text(field)? {
        None => Ok(None),
        Some(name) => match numbers.get(name) {
            Some(number) => Ok(Some(*number)),
            None => Err(Wrong::new(fields.place(field), format!("{field}: there is no pool {name}"))),
        },
    };
    let prefix = fields.text("prefix")?.unwrap_or_default();
    if prefix.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
        return Err(Wrong::new(fields.place("prefix"), "prefix: keys have no spaces"));
    }
    let strip = fields.flag("strip")?.unwrap_or(false);
    if strip && prefix.is_empty() {
        return Err(Wrong::new(fields.place("strip"), "strip: there is no prefix to take off"));
    }
    let mut verbs: Option<Verbs> = None;
    for (word, at) in fields.texts("commands")? {
        let named = Verbs::named(word).map_err(|error| Wrong::new(at, format!("commands: {error}")))?;
        verbs = Some(verbs.map_or(named, |verbs| verbs.with(named)));
    }
    let share = fields.read("shadow-share", share)?;
    let shadow = match pool("shadow")? {
        Some(pool) => Some(ShadowPlan { pool, share: share.unwrap_or(1.0) }),
        None if share.is_some() => {
            return Err(Wrong::new(
                fields.place("shadow-share"),
                "shadow-share is for a shadow: name the pool",
            ));
        }
        None => None,
    };
    let to = pool("pool")?.ok_or_else(|| Wrong::new(fields.at, "a route needs pool = \"NAME\""))?;
    let verbs = verbs.unwrap_or(Verbs::ALL);
    Ok(RoutePlan { prefix: prefix.as_bytes().to_vec(), strip, verbs, pool: to, shadow })
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if share > 0.0 && share <= 1.0 => Ok(share),
        _ => Err("write a share above 0 and at most 1, 0.01 for example".into()),
    }
}
