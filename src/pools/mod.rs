//! Pools and routes of the cache tier's file: read into a layout, every mistake with its line.
//!
//! What a pool does not say holds as `[cache]` or the flags say it. Pools are named in the file before or after they are
//! mentioned; what mentions them is understood when all are known.

mod members;
mod names;
mod plan;
mod routes;
mod rules;
#[cfg(test)]
mod tests;

use posthaste_server::cache::layout::{DEFAULT_POOL, Layout, MemberPlan, PoolPlan, RoutePlan};
use posthaste_server::cache::resolver::Resolver;
use posthaste_server::cache::rules::Rules;
use posthaste_server::cache::server_limits::ServerLimits;

use self::names::PoolNames;
use self::plan::{POOL_FIELDS, plan};
use self::routes::routes;
pub(crate) use self::rules::SALT_BYTES_MAX;
use self::rules::check_answer;
use crate::placed::{Fields, FileError, Placed, parse};

/// The tables of `[cache]` that are no options.
pub(crate) const POOLS: &str = "pools";
pub(crate) const ROUTES: &str = "routes";

/// Whether servers must be there by name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Names {
    /// Somebody must know where they are.
    Known,
    /// The file is for another machine: their names are believed.
    Believed,
}

/// What holds for pools that do not say otherwise.
#[derive(Debug, Default)]
pub(crate) struct Defaults {
    pub(crate) rules: Rules,
    pub(crate) server_limits: ServerLimits,
    /// Who is asked where names are.
    pub(crate) resolver: Resolver,
}

/// Reads the pools and routes of a file's text. `members` are the servers of the flags.
pub(crate) fn layout(
    text: &str,
    members: Vec<MemberPlan>,
    defaults: &Defaults,
    names: Names,
) -> Result<Layout, FileError> {
    let file = parse(text)?;
    let cache = file.get_ref().get("cache").and_then(|cache| cache.get_ref().as_table());
    let written_pools = cache.and_then(|cache| cache.get(POOLS));
    let written_routes = cache.and_then(|cache| cache.get(ROUTES));
    let mut layout = if members.is_empty() {
        Layout::default()
    } else {
        Layout::of_one_pool(members, defaults.rules.clone()).with_server_limits(defaults.server_limits)
    };
    let tables = match written_pools {
        Some(pools) => named_tables(pools)?,
        None => Vec::new(),
    };
    for (name, at, _) in &tables {
        if layout.pools.iter().any(|pool| pool.name == *name) {
            return Err(FileError::new(
                *at,
                format!("pool {name} is there already: the options `server` make it"),
            ));
        }
        layout.pools.push(PoolPlan { name: (*name).to_owned(), ..PoolPlan::default() });
    }
    // Tables name each other: they are read when all names are known. Those of the file come last.
    let pools = PoolNames::of(&layout);
    let first = layout.pools.len() - tables.len();
    for (pool, (name, _, table)) in layout.pools[first..].iter_mut().zip(&tables) {
        let fields = Fields::of(table, &POOL_FIELDS)?;
        *pool = plan(name, &fields, &pools, defaults, names)?;
    }
    check_sources(&layout, &tables)?;
    for (pool, (_, _, table)) in layout.pools[first..].iter().zip(&tables) {
        check_answer(&layout, pool, &Fields::of(table, &POOL_FIELDS)?)?;
    }
    if let Some(routes) = written_routes {
        layout.routes = self::routes(routes, &pools)?;
    }
    if layout.routes.is_empty() && !layout.pools.is_empty() {
        let at = written_pools.map_or(0, |pools| pools.span().start);
        layout.routes = vec![catch_all(only_pool(&layout, at)?)];
    }
    Ok(layout)
}

/// Returns the place of the first timeout of a route in a file's text.
pub(crate) fn place_of_timeout(text: &str) -> Option<usize> {
    let file = parse(text).ok()?;
    let routes = file.get_ref().get("cache")?.get_ref().get(ROUTES)?.get_ref().as_array()?.iter();
    let tables = routes.filter_map(|route| route.get_ref().as_table());
    tables
        .flat_map(|table| table.keys())
        .find(|field| field.get_ref() == "timeout")
        .map(|field| field.span().start)
}

fn catch_all(pool: usize) -> RoutePlan {
    RoutePlan { pool, ..RoutePlan::default() }
}

/// Without routes all keys go to the only pool, or to the one that is named so.
fn only_pool(layout: &Layout, at: usize) -> Result<usize, FileError> {
    match layout.pools.iter().position(|pool| pool.name == DEFAULT_POOL) {
        Some(pool) => Ok(pool),
        None if layout.pools.len() == 1 => Ok(0),
        None => {
            let what =
                "there are several pools and no routes: write [[cache.routes]] with pool = \"NAME\" for each";
            Err(FileError::new(at, what))
        }
    }
}

/// The tables in a table, in the order in which they stand in the file: name, place, table.
fn named_tables<'t, 'i>(tables: &'t Placed<'i>) -> Result<Vec<(&'t str, usize, &'t Placed<'i>)>, FileError> {
    let wrong = || FileError::new(tables.span().start, "write [cache.pools.NAME]");
    let table = tables.get_ref().as_table().ok_or_else(wrong)?;
    let mut found: Vec<_> =
        table.iter().map(|(name, table)| (name.get_ref().as_ref(), name.span().start, table)).collect();
    found.sort_by_key(|(_, at, _)| *at);
    for (name, at, _) in &found {
        if name.is_empty() || name.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
            return Err(FileError::new(*at, "the name of a pool is a word"));
        }
    }
    Ok(found)
}

/// A pool below has none below it, so that the way down ends; and no pool is its own source.
fn check_sources(layout: &Layout, tables: &[(&str, usize, &Placed<'_>)]) -> Result<(), FileError> {
    for (name, at, _) in tables {
        let Some(number) = layout.pools.iter().position(|pool| pool.name == *name) else { continue };
        let Some(source) = layout.pools[number].source else { continue };
        let other = &layout.pools[source.pool()];
        if source.pool() == number {
            return Err(FileError::new(*at, format!("pool {name} cannot be its own source")));
        }
        if other.source.is_some() {
            return Err(FileError::new(
                *at,
                format!("pool {name}: its source {} has a source itself", other.name),
            ));
        }
    }
    Ok(())
}

fn at_least_one(text: &str, most: u32) -> Result<u32, String> {
    between(1, text, most)
}

fn between(least: u32, text: &str, most: u32) -> Result<u32, String> {
    match text.replace('_', "").parse() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(format!("write a number from {least} to {most}")),
    }
}
