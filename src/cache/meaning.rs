//! `posthaste cache --check`: describes in sentences what pools and routes mean, and what they leave out.

use std::time::Duration;

use posthaste_measure::Events;
use posthaste_server::cache::admin::{self, PoolInfo, RouteInfo, StandInInfo};
use posthaste_server::cache::backend::Backend;
use posthaste_server::cache::explain::explain;
use posthaste_server::cache::fleet::Fleet;
use posthaste_server::cache::health::Ejection;
use posthaste_server::cache::layout::{MemberPlan, PoolPlan, Source};
use posthaste_server::cache::placement::Hash;
use posthaste_server::cache::resolver::Resolver;
use posthaste_server::cache::rules::{GetErrors, ReadRepair, Rules, Writes};
use posthaste_server::cache::server::Options;
use posthaste_server::cache::server_limits::ServerLimits;
use posthaste_server::cache::table::{Route, Table};
use posthaste_server::cache::verbs::Verbs;

use super::unknown_names;
use crate::config::Misuse;

/// Mean weight, in thousandths, at which mcrouter's 32 attempts find no server for one of five keys.
const LOW_WEIGHT: u32 = 50;

/// Returns the whole text.
pub(super) fn meaning(options: &Options) -> Result<String, Misuse> {
    unknown_names::refuse(&options.layout, &options.fleet_options.resolver).map_err(Misuse)?;
    let fleet = Fleet::with_options(
        &options.layout,
        options.ejection,
        options.fleet_options.clone(),
        Events::default(),
    );
    let fleet = fleet.map_err(Misuse)?;
    let table = fleet.table();
    let mut text = String::from("the file is good\n");
    for (pool, info) in fleet.layout().pools.iter().zip(admin::pools(&table)) {
        text += &self::pool(pool, fleet.resolver())?;
        text += &relations(&info, options.ejection);
    }
    text += &routes(&table)?;
    text += &left_out(&table);
    text += &match options.workers {
        None => format!("{} network threads, each with a connection to each server\n", options.front.threads),
        Some(workers) => {
            format!("{workers} workers, each with a connection to each server, one request at a time\n")
        }
    };
    text += match options.ejection {
        Ejection::OnLoss => "a server that is lost is left out until it is well again\n",
        Ejection::Never => "a server that is lost stays in every answer\n",
    };
    Ok(text)
}

/// Describes where the keys of a pool are, on which servers, and how long these are waited for.
fn pool(pool: &PoolPlan, resolver: &Resolver) -> Result<String, Misuse> {
    let mut text = format!("pool {}: {}\n", pool.name, placing(&pool.rules, pool.members.len()));
    if pool.rules.get_errors == GetErrors::Miss {
        text += "  a get whose server does not answer is a miss\n";
    }
    for member in &pool.members {
        text += &self::member(member, resolver).map_err(Misuse)?;
    }
    if pool.server_limits != ServerLimits::default() {
        let ServerLimits { connect_timeout, answer_timeout, depth } = pool.server_limits;
        text += &format!(
            "  a server may take {connect_timeout:?} to take a connection and {answer_timeout:?} to answer\n"
        );
        if depth < usize::MAX {
            text += &format!("  at most {depth} requests are under way over one connection to it\n");
        }
    }
    Ok(text)
}

/// Describes which servers of a pool have a key, and how they are asked.
fn placing(rules: &Rules, servers: usize) -> String {
    match rules.writes {
        Writes::Owner => format!("every key is on its owner by {}", rules.hash),
        Writes::All if servers == 1 => "every key is on its server".into(),
        Writes::All => {
            let Rules { reads, multiget, answer, .. } = rules;
            let repair = match rules.read_repair {
                ReadRepair::AfterLoss => String::new(),
                other => format!(", read-repair: {other}"),
            };
            format!(
                "every key is on every server; reads: {reads}, multi-gets: {multiget}, answer: {answer}{repair}"
            )
        }
    }
}

/// Describes a server of a pool.
fn member(member: &MemberPlan, resolver: &Resolver) -> Result<String, String> {
    let backend = Backend::parse_by(&member.address, resolver)?;
    let mut text = format!("  server {}", backend.name);
    // The address, if it differs from what was written.
    let address = backend.address()?.to_string();
    if backend.name != address {
        text += &format!(" at {address}");
    }
    if backend.speaks_tls {
        text += ", over TLS";
    }
    if let Some(name) = &member.name {
        text += &format!(", its keys placed by the name {name}");
    }
    if let Some(weight) = member.weight {
        text += &format!(", weight {weight}");
    }
    if let Some(group) = &member.group {
        text += &format!(", of {group}");
    }
    if let Some(zone) = &member.zone {
        text += &format!(", zone {zone}");
    }
    Ok(text + "\n")
}

/// Describes which part of a key places it, and how a pool is related to others.
fn relations(pool: &PoolInfo, ejection: Ejection) -> String {
    let mut lines = Vec::new();
    lines.extend(
        pool.key_part.as_ref().map(|part| format!("a key is placed by {part}, where there is such a part")),
    );
    lines
        .extend(pool.hash_salt.as_ref().map(|salt| format!("{salt} is put behind that before it is hashed")));
    lines.extend(low_weights(pool));
    for StandInInfo { pool, expiry_s } in &pool.failover {
        let expiry = expiry_s.map(|seconds| format!(", where what is stored lives at most {seconds} s"));
        // Without ejection, a lost server stays in every answer.
        let whom = match ejection {
            Ejection::OnLoss => "away",
            Ejection::Never => "taken out (down), not for those that are lost",
        };
        lines
            .push(format!("pool {pool} stands in for servers that are {whom}{}", expiry.unwrap_or_default()));
    }
    lines.extend(
        pool.failover_limit.map(|limit| format!("others stand in for at most {limit} requests a second")),
    );
    lines.extend(pool.below.as_ref().map(|below| {
        format!("pool {below} is below it: it gets every write too, and what is missed is looked up there")
    }));
    if !pool.deletes_to.is_empty() {
        lines.push(format!("what is deleted here is deleted in {} too", pool.deletes_to.join(", ")));
    }
    lines.extend(pool.warm_from.as_ref().map(|old| {
        format!("it takes the place of pool {old}: what is missed is looked up there, what is written is deleted there")
    }));
    lines.iter().map(|line| format!("  {line}\n")).collect()
}

/// Warns if the weights are so low that mcrouter's rule disregards them: each attempt takes a server with a
/// probability that is its weight, and the last attempt takes any.
fn low_weights(pool: &PoolInfo) -> Option<String> {
    let weights: u32 = pool.servers.iter().map(|server| server.weight).sum();
    let is_low = weights / (pool.servers.len() as u32).max(1) < LOW_WEIGHT;
    let is_so = pool.hash == Hash::McrouterWeighted.to_string() && is_low;
    is_so.then(|| {
        format!(
            "its weights are so low that {} hardly heeds them: the full one is 1000, give it to most",
            pool.hash
        )
    })
}

/// Describes where the keys of each route go, by the example of the shortest one.
fn routes(table: &Table) -> Result<String, Misuse> {
    let mut text = String::new();
    for route in &table.routes {
        let commands = route.verbs.names();
        let (first, all) = (commands.first().copied().unwrap_or("get"), commands.len());
        let example = format!("{}…", String::from_utf8_lossy(&route.prefix));
        let who = if route.verbs == Verbs::ALL {
            "all commands".to_owned()
        } else {
            format!("{all} commands ({})", commands.join(" "))
        };
        let explained = explain(table, first, &example).map_err(Misuse)?;
        text +=
            &format!("keys {example}, {who}: {}\n", explained.sentences.first().map_or("", String::as_str));
        if !route.renaming.removed_prefix.is_empty() {
            let prefix = String::from_utf8_lossy(&route.renaming.removed_prefix);
            text += &format!("  the key {prefix} alone is refused, for nothing would be left of it\n");
        }
        let info: RouteInfo = admin::route_info(table, route);
        if let (Some(limit), Some(burst)) = (info.limit, info.burst) {
            text += &format!("  at most {limit} requests a second, {burst} at once\n");
        }
        if route.timeout_ns != table.timeout_ns {
            text += &format!("  a request may take {:?}\n", Duration::from_nanos(route.timeout_ns));
        }
        if let (Some(shadow), Some(share)) = (info.shadow, info.shadow_share) {
            text += &format!("  repeated in pool {shadow}, for {share} of the keys\n");
        }
        if let Some(server) = route.shadow.and_then(|shadow| common_server(table, route.pool, shadow.pool)) {
            text += &format!("  server {server} is in both pools: there incr and append may be done twice\n");
        }
    }
    Ok(text)
}

/// Describes keys and commands that no route takes, and pools that no route leads to.
fn left_out(table: &Table) -> String {
    let mut text = String::new();
    let of_all_keys = table.routes.iter().filter(|route| route.prefix.is_empty());
    let taken = of_all_keys.fold(Verbs::NONE, |taken, route| taken.union(route.verbs));
    let (missing, all) = (taken.complement().names(), Verbs::ALL.names());
    if missing.len() == all.len() {
        text += "other keys: no route takes them, and the answer is an error\n";
    } else if !missing.is_empty() {
        let missing = missing.join(" ");
        text += &format!("other keys, {missing}: no route takes them, and the answer is an error\n");
    }
    let reached = reached(table);
    for (pool, _) in table.pools.iter().zip(reached).filter(|(_, is_reached)| !is_reached) {
        text += &format!("no route leads to pool {}, and no pool that one leads to names it\n", pool.name);
    }
    text
}

/// Returns for each pool whether a request may reach it: by a route, or by a pool that a route leads to.
fn reached(table: &Table) -> Vec<bool> {
    let mut reached = vec![false; table.pools.len()];
    let shadows = |route: &Route| route.shadow.map(|shadow| shadow.pool);
    let mut next: Vec<usize> =
        table.routes.iter().flat_map(|route| [Some(route.pool), shadows(route)]).flatten().collect();
    while let Some(place) = next.pop() {
        if !std::mem::replace(&mut reached[place], true) {
            let pool = &table.pools[place];
            next.extend(pool.stand_ins.iter().map(|other| other.pool));
            next.extend(pool.source.map(Source::pool));
            next.extend(&pool.deletes_to);
        }
    }
    reached
}

/// Returns a server that both pools have, in themselves or in a pool below.
fn common_server(table: &Table, one: usize, other: usize) -> Option<&str> {
    let members = |pool: usize| {
        let below = match table.pools[pool].source {
            Some(Source::Below(below)) => Some(below),
            _ => None,
        };
        [Some(pool), below].into_iter().flatten().flat_map(move |pool| &table.pools[pool].members)
    };
    let slots: Vec<usize> = members(other).map(|member| member.server.slot).collect();
    let common = members(one).find(|member| slots.contains(&member.server.slot));
    common.map(|member| member.server.name())
}
