//! Servers that join a pool which had others before: they hold less than those. A replica that was in the pool
//! earlier has missed what was written since. Perhaps so has any server found for a group: an earlier answer for the
//! name may have contained it. And so has a shadow, which is spared when it cannot keep up.

use std::collections::HashSet;
use std::sync::Arc;

use super::in_parallel::in_parallel;
use super::layout::{Layout, PoolPlan, Source};
use super::memcached_server::Server;
use super::missed_writes::MissedWrite;
use super::pool::Pool;
use super::reconfigure::Configured;
use super::recovery;
use super::rules::Writes;
use super::table::Table;

/// Returns the servers that may hold old values for a pool of this layout and must forget what they hold first:
/// * servers found for a group that was named already, by the configuration `before`, and did not have them; one may be
///   in another pool all the time, and has missed what was written in this one;
/// * replicas that an earlier table had, in this pool or in any other, if the table still in force has other servers in
///   the pool: they have missed what was written in it since, and may hold its keys from an earlier time;
/// * replicas that the table still in force has in no pool: an earlier one had them, perhaps in this pool under another
///   name;
/// * those that only got shadow requests, of which they may have missed any, and are to answer clients now;
/// * those that shared keys and are to hold every key now, in this pool or in one that takes the place of theirs: what
///   one holds of the others' keys, from an earlier time, is old.
///
/// A server that shares keys and comes back keeps what it holds: else all of it would be fetched again from behind the
/// cache. So does one whose pool is only renamed, or whose group another pool names too: it has missed nothing.
pub(super) fn servers_with_old_values<'a>(
    servers: &'a [Arc<Server>],
    layout: &Layout,
    before: &Configured,
    table: &Table,
) -> Vec<&'a Arc<Server>> {
    let becomes_replicated = |pool: &&PoolPlan| {
        servers.iter().any(|server| has(pool, server) && stops_sharing(server, pool, layout, table))
    };
    for pool in layout.pools.iter().filter(becomes_replicated) {
        tracing::warn!(pool = %pool.name, "its servers shared keys and are to hold every key now: they forget what they hold");
    }
    let in_force = before.expanded();
    let is_suspect = |server: &&Arc<Server>| {
        was_only_shadow(server, &in_force) && serves(server, layout)
            || layout.pools.iter().any(|pool| may_hold_old_values(server, pool, layout, before, table))
    };
    servers.iter().filter(is_suspect).collect()
}

/// Returns whether a server may hold old values for a pool.
fn may_hold_old_values(
    server: &Server,
    pool: &PoolPlan,
    layout: &Layout,
    before: &Configured,
    table: &Table,
) -> bool {
    let mut members = pool.members.iter();
    let Some(member) = members.find(|member| server.backend.is_named(&member.address)) else { return false };
    if stops_sharing(server, pool, layout, table) {
        return true;
    }
    if is_in(server, &pool.name, table) {
        return false;
    }
    let joins_group = member.group.as_ref().is_some_and(|group| before.names_without(group, server));
    let is_replica = pool.rules.writes == Writes::All;
    let is_in_force = || table.pools.iter().any(|old| old.name == pool.name);
    joins_group || is_replica && was_known(server, table) && (is_in_force() || !is_in_use(server, table))
}

/// Returns whether a member of a pool holds every key by this plan and shared keys with others by the table still in force:
/// in the pool itself, or in another one whose place this one may take. It does not if the server goes on sharing keys,
/// unless it has missed writes since it was a replica.
fn stops_sharing(server: &Server, pool: &PoolPlan, layout: &Layout, table: &Table) -> bool {
    let shared_in = |old: &Pool| is_shared(old.rules.writes, old.members.len()) && old.has(server.slot);
    if pool.rules.writes != Writes::All {
        return false;
    }
    if let Some(old) = table.pools.iter().find(|old| old.name == pool.name && old.has(server.slot)) {
        return shared_in(old);
    }
    let goes_on = || {
        layout.pools.iter().any(|pool| is_shared(pool.rules.writes, pool.members.len()) && has(pool, server))
    };
    table.pools.iter().any(shared_in) && (table.was_replica(server.slot) || !goes_on())
}

/// Returns whether the servers of such a pool share the keys.
fn is_shared(writes: Writes, members: usize) -> bool {
    writes == Writes::Owner && members > 1
}

/// Returns whether a server got shadow requests by the layout in force, and none of a client.
fn was_only_shadow(server: &Server, in_force: &Layout) -> bool {
    let shadows = in_force.routes.iter().filter_map(|route| route.shadow);
    shadows.map(|shadow| &in_force.pools[shadow.pool]).any(|pool| has(pool, server))
        && !serves(server, in_force)
}

/// Returns whether requests of clients lead to a server by this layout: by a route, or from there to a pool that stands
/// in for another one or behind it.
fn serves(server: &Server, layout: &Layout) -> bool {
    let (mut reached, mut left) =
        (HashSet::new(), layout.routes.iter().map(|route| route.pool).collect::<Vec<_>>());
    while let Some(place) = left.pop() {
        if reached.insert(place) {
            let pool = &layout.pools[place];
            left.extend(pool.stand_ins.iter().map(|other| other.pool).chain(pool.source.map(Source::pool)));
        }
    }
    reached.into_iter().any(|place| has(&layout.pools[place], server))
}

/// Returns whether some table has had a server.
fn was_known(server: &Server, table: &Table) -> bool {
    server.slot < table.servers.len()
}

/// Returns whether some pool of the table still in force has a server.
fn is_in_use(server: &Server, table: &Table) -> bool {
    table.in_use().contains(&server.slot)
}

fn has(pool: &PoolPlan, server: &Server) -> bool {
    pool.members.iter().any(|member| server.backend.is_named(&member.address))
}

fn is_in(server: &Server, pool: &str, table: &Table) -> bool {
    table.pools.iter().any(|old| old.name == pool && old.has(server.slot))
}

/// Notes replicas that come into a pool which had others by the table still in force: they decide nothing before
/// those, and what they miss is looked for there.
pub(super) fn mark_new_replicas(servers: &[Arc<Server>], layout: &Layout, table: &Table) {
    let is_new = |server: &&Arc<Server>| {
        layout.pools.iter().filter(|pool| pool.rules.writes == Writes::All).any(|pool| {
            let is_known = table.pools.iter().any(|old| old.name == pool.name);
            is_known && has(pool, server) && !is_in(server, &pool.name, table)
        })
    };
    let new: Vec<&Arc<Server>> = servers.iter().filter(is_new).collect();
    let join = new.first().map_or(0, |server| server.health.next_join());
    for server in new {
        server.health.mark_empty_as(join);
        server.health.suspect_another_run();
    }
}

/// Flushes servers, several at once; those that cannot be flushed are away until they have been, and `flushed` is
/// called with each that was. Requests sent before a server left its pool are answered by then, or their connection was
/// given up and the server is away: that takes at most the server's timeout, which is less than the time between
/// lookups by default.
pub(super) fn flush_new_members(
    servers: &[&Arc<Server>],
    in_use: &[usize],
    flushed: impl Fn(&Server) + Sync,
) {
    let join = servers.first().map_or(0, |server| server.health.next_join());
    let flush = |server: &Server| {
        server.health.mark_empty_as(join);
        server.health.suspect_another_run();
        // Its name has not been looked up since it left. A server that another pool has is moved by the name refresher.
        if !in_use.contains(&server.slot)
            && let Some(address) = server.backend.moved_to().into_iter().next()
        {
            server.backend.move_to(address);
        }
        if server.health.is_away() && server.health.note_missed_write(MissedWrite::AllKeys) {
            return;
        }
        match recovery::flush_server(server) {
            Ok(()) => {
                tracing::info!(server = %server.name(), "server forgot what it held, before it takes part");
                flushed(server);
            }
            Err(error) if server.health.note_unknown_contents() => {
                let meaning = server.health.consequence();
                tracing::warn!(server = %server.name(), "server does not forget what it may hold: {error}; {meaning}");
            }
            Err(_) => {}
        }
    };
    in_parallel(servers, |server| flush(server));
}
