//! Servers that join a pool which had others before: they hold less than those. A replica that was in the pool
//! earlier has missed what was written since. Perhaps so has any server found for a group: an earlier answer for the
//! name may have contained it.

use std::sync::Arc;

use super::in_parallel::in_parallel;
use super::layout::{Layout, PoolPlan};
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
/// * replicas that were in the pool by an earlier table, or that the table still in force has in no pool: an earlier one
///   had them, perhaps in this pool under another name;
/// * those of a pool whose servers shared keys and are all to hold every key now: what one holds of the others' keys,
///   from an earlier time, is old.
///
/// A server that shares keys and comes back keeps what it holds: else all of it would be fetched again from behind the
/// cache. So does one whose pool is only renamed, or whose group another pool names too: it has missed nothing.
pub(super) fn servers_with_old_values<'a>(
    servers: &'a [Arc<Server>],
    layout: &Layout,
    before: &Configured,
    table: &Table,
) -> Vec<&'a Arc<Server>> {
    for pool in layout.pools.iter().filter(|pool| becomes_replicated(pool, table)) {
        tracing::warn!(pool = %pool.name, "its servers shared keys and are to hold every key now: they forget what they hold");
    }
    let is_suspect = |server: &&Arc<Server>| {
        layout.pools.iter().any(|pool| may_hold_old_values(server, pool, before, table))
    };
    servers.iter().filter(is_suspect).collect()
}

/// Returns whether a server may hold old values for a pool.
fn may_hold_old_values(server: &Server, pool: &PoolPlan, before: &Configured, table: &Table) -> bool {
    let mut members = pool.members.iter();
    let Some(member) = members.find(|member| server.backend.is_named(&member.address)) else { return false };
    if is_in(server, &pool.name, table) {
        return becomes_replicated(pool, table);
    }
    let joins_group = member.group.as_ref().is_some_and(|group| before.names_without(group, server));
    let is_replica = pool.rules.writes == Writes::All;
    joins_group
        || is_replica && (was_member_earlier(server, pool, table) || was_in_use_earlier(server, table))
}

/// Returns whether a pool's servers are replicas by this plan and share keys by the table still in force.
fn becomes_replicated(pool: &PoolPlan, table: &Table) -> bool {
    let shared_keys =
        |old: &Pool| old.name == pool.name && old.rules.writes == Writes::Owner && old.members.len() > 1;
    pool.rules.writes == Writes::All && table.pools.iter().any(shared_keys)
}

/// Returns whether a server was in a pool by a table before the one still in force, by which it is not.
fn was_member_earlier(server: &Server, pool: &PoolPlan, table: &Table) -> bool {
    table.pools.iter().any(|old| old.name == pool.name && old.former_members.contains(&server.slot))
}

/// Returns whether the table still in force has a server in no pool, and one before it had.
fn was_in_use_earlier(server: &Server, table: &Table) -> bool {
    server.slot < table.servers.len() && !table.in_use().contains(&server.slot)
}

fn is_in(server: &Server, pool: &str, table: &Table) -> bool {
    table.pools.iter().any(|old| old.name == pool && old.has(server.slot))
}

/// Notes replicas that come into a pool which had others by the table still in force: they decide nothing before
/// those, and what they miss is looked for there. What they hold they keep.
pub(super) fn mark_new_replicas(servers: &[Arc<Server>], layout: &Layout, table: &Table) {
    let is_new = |server: &&Arc<Server>| {
        layout.pools.iter().filter(|pool| pool.rules.writes == Writes::All).any(|pool| {
            let is_known = table.pools.iter().any(|old| old.name == pool.name);
            let has_server = pool.members.iter().any(|member| server.backend.is_named(&member.address));
            is_known && has_server && !is_in(server, &pool.name, table)
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
