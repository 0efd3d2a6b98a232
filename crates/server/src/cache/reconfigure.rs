//! Puts a configuration in force, whole or not at all: its groups and names are looked up, it is checked, new servers get
//! slots, and a new table takes the place of the old one.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use posthaste_measure::lock;
use posthaste_tls::Connector;

use super::backend::Backend;
use super::dialect::Dialect;
use super::fleet::Fleet;
use super::groups::{ResolvedGroups, expanded, groups};
use super::health::Health;
use super::in_parallel::in_parallel;
use super::layout::Layout;
use super::limits::SERVERS_MAX;
use super::memcached_server::Server;
use super::new_members::{flush_new_members, mark_new_replicas, servers_with_old_values};
use super::server_events::ServerEvents;
use super::server_limits::ServerLimits;
use super::table::Table;

/// The configuration in force: the layout as it was written, and the servers that were found for its groups.
#[derive(Clone, Default)]
pub(super) struct Configured {
    /// The layout, with groups.
    pub(super) layout: Layout,
    /// The servers of its groups.
    pub(super) groups: ResolvedGroups,
}

impl Configured {
    /// The layout with servers in the place of groups.
    pub(super) fn expanded(&self) -> Layout {
        expanded(&self.layout, &self.groups)
    }

    /// Returns whether the layout names a group and this server was not found for it. If none was, an earlier answer may
    /// have had servers that were written to.
    pub(super) fn names_without(&self, group: &str, server: &Server) -> bool {
        let is_named = groups(&self.layout).iter().any(|known| known.name == group);
        let found = self.groups.get(group).map(Vec::as_slice).unwrap_or_default();
        is_named && !found.iter().any(|found| server.backend.is_named(&found.address))
    }
}

impl Fleet {
    /// Puts a new table in force, with the files of [`Trust`](posthaste_tls::Trust) read again and groups looked up, or
    /// leaves everything as it is. A server that cannot be found counts as not there, unless none is found; a group
    /// that cannot be found keeps the servers that it had, or counts as one server that is not there.
    ///
    /// # Errors
    /// A sentence that names the server that cannot be found, or the file that cannot be used.
    pub fn load(&self, layout: &Layout) -> Result<(), String> {
        let mut configured = lock(&self.configured);
        let mut next = Configured { layout: layout.clone(), groups: ResolvedGroups::new() };
        let mut unknown = Vec::new();
        let groups = groups(layout);
        let resolved = in_parallel(&groups, |group| group.resolve(&self.resolver));
        for (group, resolved) in groups.into_iter().zip(resolved) {
            match (resolved, configured.groups.get(&group.name)) {
                (Ok(servers), _) => drop(next.groups.insert(group.name, servers)),
                (Err(error), Some(before)) => {
                    tracing::warn!("{error}; it keeps the servers that it had");
                    next.groups.insert(group.name, before.clone());
                }
                (Err(error), None) => unknown.push(error),
            }
        }
        let done = self.put_in_force(&next.expanded(), &configured);
        // The reason may be that no server of a group is found: then the error says why.
        done.map_err(|error| [vec![error], unknown.clone()].concat().join("; "))?;
        unknown.iter().for_each(|error| tracing::warn!("{error}; it is asked again and again"));
        *configured = next;
        Ok(())
    }

    /// Returns the configuration in force.
    pub(super) fn configured(&self) -> Configured {
        lock(&self.configured).clone()
    }

    /// Returns the layout in force, with servers in the place of groups.
    #[must_use]
    pub fn layout(&self) -> Layout {
        lock(&self.configured).expanded()
    }

    /// Takes the servers that were found for groups, and puts a new table in force if groups of the layout have other
    /// servers now. Ignores groups that the layout does not name any more. Returns whether there is a new table.
    ///
    /// # Errors
    /// The table cannot be put in force: as [`Fleet::load`].
    pub fn update_groups(&self, mut resolved: ResolvedGroups) -> Result<bool, String> {
        let mut configured = lock(&self.configured);
        let named = groups(&configured.layout);
        resolved.retain(|name, _| named.iter().any(|group| group.name == *name));
        let mut next = configured.clone();
        next.groups.extend(resolved);
        if next.groups == configured.groups {
            return Ok(false);
        }
        self.put_in_force(&next.expanded(), &configured)?;
        *configured = next;
        Ok(true)
    }

    /// Puts a new table in force in place of that of the configuration `before`. Servers that may hold old values
    /// ([`servers_with_old_values`]) are flushed first.
    fn put_in_force(&self, layout: &Layout, before: &Configured) -> Result<(), String> {
        let mut servers = lock(&self.servers);
        let backends = self.backends(layout)?;
        refuse_if_no_server_is_found(&backends, &servers)?;
        let encryption = self.encryption(&backends)?;
        let limits = server_limits(layout)?;
        let grown = self.with_new_servers(&servers, backends)?;
        for server in &grown {
            if let Some(connector) = encryption.get(server.name()) {
                server.backend.encrypt(connector.clone());
            }
            if let Some(limits) = limits.get(server.name()) {
                server.limits.set(*limits);
            }
        }
        *servers = grown;
        let table = self.table();
        mark_new_replicas(&servers, layout, &table);
        flush_new_members(
            &servers_with_old_values(&servers, layout, before, &table),
            table.in_use(),
            |server| self.set_flush_reminder_now(server),
        );
        let next = Table::new(layout, servers.clone(), &mut lock(&self.strays)).carrying_over(&table);
        let joined: Vec<usize> =
            next.in_use().iter().copied().filter(|slot| !table.in_use().contains(slot)).collect();
        *lock(&self.table) = Arc::new(next);
        self.generation.fetch_add(1, Ordering::SeqCst);
        // Not earlier: until now a flush went only to the servers of the table before.
        joined.into_iter().for_each(|slot| self.remind_of_pending_flush(&servers[slot]));
        self.watch.wake();
        Ok(())
    }

    /// Parses and looks up the servers of a layout.
    fn backends(&self, layout: &Layout) -> Result<Vec<Backend>, String> {
        let mut backends = Vec::new();
        for pool in &layout.pools {
            let parsed =
                in_parallel(&pool.members, |member| Backend::parse_by(&member.address, &self.resolver));
            let members = parsed.into_iter().collect::<Result<Vec<_>, _>>()?;
            refuse_second_names(&pool.name, &members)?;
            backends.extend(members);
        }
        Ok(backends)
    }

    /// Returns these servers, and behind them new ones for backends that are not among them.
    fn with_new_servers(
        &self,
        servers: &[Arc<Server>],
        backends: Vec<Backend>,
    ) -> Result<Vec<Arc<Server>>, String> {
        let mut grown = servers.to_vec();
        for backend in backends {
            if !grown.iter().any(|server| server.backend.name == backend.name) {
                let events = ServerEvents::new(&backend.name, self.events.clone());
                let health = Health::new(self.ejection, Arc::clone(&self.watch), events);
                let dialect = Dialect::new(Arc::clone(&self.old_servers));
                grown.push(Arc::new(Server::new(grown.len(), backend, health, dialect)));
            }
        }
        if grown.len() > SERVERS_MAX {
            return Err(format!(
                "at most {SERVERS_MAX} servers are served, those of earlier files and lookups included: restart it"
            ));
        }
        Ok(grown)
    }

    /// Returns what encrypts connections to each server, by its name; None: nothing does. Files are read only if some
    /// server speaks TLS.
    fn encryption(&self, backends: &[Backend]) -> Result<HashMap<String, Option<Connector>>, String> {
        let opened = backends.iter().any(|backend| backend.speaks_tls).then(|| Connector::open(&self.trust));
        let connector =
            opened.transpose().map_err(|error| format!("TLS to servers (--server-tls-*): {error}"))?;
        let mut encryption = HashMap::new();
        for Backend { name, speaks_tls, .. } in backends {
            let own = connector.clone().filter(|_| *speaks_tls);
            if encryption.insert(name.clone(), own.clone()).is_some_and(|other| other != own) {
                return Err(format!("server {name}: write it with tls: everywhere, or nowhere"));
            }
        }
        Ok(encryption)
    }
}

/// Refuses a layout of which no server can be found: most likely a mistake.
fn refuse_if_no_server_is_found(backends: &[Backend], servers: &[Arc<Server>]) -> Result<(), String> {
    let is_found = |backend: &Backend| {
        backend.address().is_ok() || servers.iter().any(|server| server.name() == backend.name)
    };
    match backends.first().map(Backend::address) {
        Some(Err(error)) if !backends.iter().any(is_found) => Err(error),
        _ => Ok(()),
    }
}

/// Returns the limits of each server, by its name.
fn server_limits(layout: &Layout) -> Result<HashMap<String, ServerLimits>, String> {
    let mut of_servers = HashMap::new();
    for pool in &layout.pools {
        for member in &pool.members {
            let name = Backend::named(&member.address)?;
            if of_servers
                .insert(name.clone(), pool.server_limits)
                .is_some_and(|other| other != pool.server_limits)
            {
                return Err(format!(
                    "server {name}: its pools say different limits (server-timeout, connect-timeout, depth-limit); its \
                     connections are shared, so write the same in each of them"
                ));
            }
        }
    }
    Ok(of_servers)
}

/// Refuses a server that stands in a pool by two names: it would have its keys twice, or be two owners.
fn refuse_second_names(pool: &str, backends: &[Backend]) -> Result<(), String> {
    let mut names = HashMap::new();
    for backend in backends {
        for place in backend.places() {
            let name = &backend.name;
            if let Some(other) = names.insert(place, name).filter(|other| *other != name) {
                return Err(format!(
                    "pool {pool}: {other} and {name} are one server, at {place}: name it once"
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use posthaste_measure::Events;
    use posthaste_tls::{Check, Trust};

    use super::super::fleet::FleetOptions;
    use super::super::layout::{MemberPlan, RoutePlan, ShadowPlan, Source, StandInPlan};
    use super::super::rules::Writes;
    use super::*;
    use crate::cache::health::Ejection;

    fn layout(names: &[&str]) -> Layout {
        let members = names.iter().map(|name| MemberPlan::of(name)).collect();
        Layout::of_one_pool(members, super::super::rules::Rules::default())
    }

    fn slots(fleet: &Fleet) -> Vec<(String, usize)> {
        let table = fleet.table();
        let members = table.pools[0].members.iter();
        members.map(|member| (member.server.name().to_owned(), member.server.slot)).collect()
    }

    #[test]
    fn a_server_keeps_its_slot_through_all_tables() {
        let fleet = Fleet::new(&layout(&["127.0.0.1:1", "127.0.0.1:2"]), Ejection::OnLoss).unwrap();
        fleet.table().servers[1].health.set_admin_state(super::super::admin_state::AdminState::Down);
        fleet.load(&layout(&["127.0.0.1:3", "127.0.0.1:1"])).unwrap();
        assert_eq!(slots(&fleet), [("127.0.0.1:3".to_owned(), 2), ("127.0.0.1:1".to_owned(), 0)]);
        fleet.load(&layout(&["127.0.0.1:2"])).unwrap();
        assert_eq!(slots(&fleet), [("127.0.0.1:2".to_owned(), 1)]);
        assert!(!fleet.table().servers[1].health.is_in_rotation(), "what the operator wanted of it holds");
        assert_eq!(fleet.generation(), 3);
    }

    #[test]
    fn who_comes_into_a_pool_has_less_than_those_who_are_there_and_in_a_new_pool_all_have_as_much() {
        let fleet = Fleet::new(&layout(&["127.0.0.1:1", "127.0.0.1:2"]), Ejection::OnLoss).unwrap();
        let mut grown = layout(&["127.0.0.1:3", "127.0.0.1:1", "127.0.0.1:2"]);
        grown.pools.extend(layout(&["127.0.0.1:4"]).pools);
        grown.pools[1].name = "new".into();
        fleet.load(&grown).unwrap();
        let table = fleet.table();
        let have_less = || table.servers.iter().map(|server| server.health.is_cold()).collect::<Vec<_>>();
        assert_eq!(have_less(), [false, false, true, false]);
        assert!((0..100).all(|key| table.pools[0].owner(format!("k{key}").as_bytes()).slot != 2));
        // The server stays in the pool, and so does what was found out about it.
        fleet.load(&grown).unwrap();
        table.servers[2].health.count_cache_misses(u32::MAX);
        fleet.load(&grown).unwrap();
        assert_eq!(have_less(), [false; 4]);
    }

    #[test]
    fn servers_that_shared_keys_and_are_to_hold_all_forget_what_they_hold_first() {
        for (servers, from, to, are_away) in [
            (2, Writes::Owner, Writes::All, true),
            (2, Writes::All, Writes::Owner, false),
            (2, Writes::Owner, Writes::Owner, false),
            (1, Writes::Owner, Writes::All, false),
        ] {
            let mut plan = layout(&["127.0.0.1:1", "127.0.0.1:2"][..servers]);
            plan.pools[0].rules.writes = from;
            let fleet = Fleet::new(&plan, Ejection::OnLoss).unwrap();
            plan.pools[0].rules.writes = to;
            fleet.load(&plan).unwrap();
            // No server answers that could be flushed: those to be flushed are away.
            let health = |server: &Arc<Server>| server.health.is_away();
            assert_eq!(fleet.table().servers.iter().any(health), are_away, "{servers}: {from} to {to}");
            assert_eq!(fleet.table().servers.iter().all(health), are_away, "{servers}: {from} to {to}");
        }
    }

    /// Pools of these names, rules and servers, by their ports, and routes to these pools: a prefix, a pool, and a
    /// shadow.
    fn pools(pools: &[(&str, Writes, &[u16])], routes: &[(&str, usize, Option<usize>)]) -> Layout {
        let mut plan = layout(&[]);
        plan.pools = pools
            .iter()
            .map(|(name, writes, ports)| {
                let names: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
                let mut pool = layout(&names.iter().map(String::as_str).collect::<Vec<_>>()).pools.remove(0);
                (pool.name, pool.rules.writes) = ((*name).to_owned(), *writes);
                pool
            })
            .collect();
        plan.routes = routes
            .iter()
            .map(|(prefix, pool, shadow)| RoutePlan {
                prefix: prefix.as_bytes().to_vec(),
                pool: *pool,
                shadow: shadow.map(|pool| ShadowPlan { pool, share: 1.0 }),
                ..RoutePlan::default()
            })
            .collect();
        plan
    }

    /// The ports of the servers that forget what they hold when the second of two files is read: no server answers
    /// here that could be flushed, so these are away.
    fn flushed(before: &Layout, after: &Layout) -> Vec<String> {
        let fleet = Fleet::new(before, Ejection::OnLoss).unwrap();
        fleet.load(after).unwrap();
        let table = fleet.table();
        let away = table.servers.iter().filter(|server| server.health.is_away());
        away.map(|server| server.name().strip_prefix("127.0.0.1:").unwrap().to_owned()).collect()
    }

    #[test]
    fn a_server_of_another_pool_that_joins_replicas_forgets_what_it_holds_first() {
        use Writes::{All, Owner};
        let routes = &[("", 0, None), ("x:", 1, None)];
        for (rules, joined, is_flushed) in
            [(All, &[2, 1][..], true), (Owner, &[2, 1], false), (All, &[2], false), (All, &[2, 9], false)]
        {
            let before = pools(&[("p", All, &[1, 3]), ("q", rules, &[2])], routes);
            let after = pools(&[("p", All, &[1, 3]), ("q", rules, joined)], routes);
            let expected: &[&str] = if is_flushed { &["1"] } else { &[] };
            assert_eq!(flushed(&before, &after), expected, "{rules}: {joined:?}");
        }
        // A pool that is new, or has another name, has nobody who holds more.
        let before = pools(&[("p", All, &[1, 3])], &[("", 0, None)]);
        for after in [
            pools(&[("p", All, &[1, 3]), ("q", All, &[1, 2])], routes),
            pools(&[("r", All, &[1, 3])], &[("", 0, None)]),
        ] {
            assert!(flushed(&before, &after).is_empty());
        }
    }

    #[test]
    fn a_pool_that_was_only_a_shadow_forgets_what_it_holds_before_clients_see_it() {
        use Writes::{All, Owner};
        let shadowed = pools(&[("p", Owner, &[1, 2]), ("s", Owner, &[3, 4])], &[("", 0, Some(1))]);
        let routed = |shadow| {
            pools(&[("p", Owner, &[1, 2]), ("s", Owner, &[3, 4])], &[("x:", 1, shadow), ("", 0, None)])
        };
        assert_eq!(flushed(&shadowed, &routed(None)), ["3", "4"]);
        // By another name, and beside others.
        let renamed = pools(&[("p", Owner, &[1, 2]), ("t", Owner, &[3, 9])], &[("", 1, None)]);
        assert_eq!(flushed(&shadowed, &renamed), ["3"]);
        // It stands behind or in for another pool.
        let mut behind = pools(&[("p", All, &[1]), ("s", Owner, &[3, 4])], &[("", 0, None)]);
        let before = pools(&[("p", All, &[1]), ("s", Owner, &[3, 4])], &[("", 0, Some(1))]);
        behind.pools[0].source = Some(Source::Below(1));
        assert_eq!(flushed(&before, &behind), ["3", "4"]);
        (behind.pools[0].source, behind.pools[0].stand_ins) =
            (None, vec![StandInPlan { pool: 1, expiry: None }]);
        assert_eq!(flushed(&before, &behind), ["3", "4"]);
        // What was more than a shadow, or stays one, keeps what it holds; and so does what nothing was sent to.
        for (before, after) in [
            (routed(Some(1)), routed(None)),
            (routed(Some(0)), routed(None)),
            (shadowed.clone(), shadowed.clone()),
            (pools(&[("p", Owner, &[1]), ("s", Owner, &[3])], &[("", 0, None)]), routed(None)),
            (shadowed.clone(), pools(&[("p", Owner, &[1, 2]), ("s", Owner, &[3, 4])], &[("", 0, None)])),
        ] {
            assert_eq!(flushed(&before, &after), [""; 0]);
        }
    }

    #[test]
    fn a_table_that_cannot_be_had_changes_nothing() {
        let fleet = Fleet::new(&layout(&["127.0.0.1:1"]), Ejection::OnLoss).unwrap();
        let error = fleet.load(&layout(&["127.0.0.1:2", "127.0.0.1:port"])).unwrap_err();
        assert!(error.contains("127.0.0.1:port"), "{error}");
        assert_eq!((slots(&fleet), fleet.generation()), (vec![("127.0.0.1:1".to_owned(), 0)], 1));
        assert_eq!(fleet.table().servers.len(), 1);
    }

    #[test]
    fn the_pools_of_a_server_agree_how_long_it_is_waited_for() {
        let mut both = layout(&["127.0.0.1:1"]);
        both.pools.push(both.pools[0].clone());
        let short =
            ServerLimits { answer_timeout: std::time::Duration::from_millis(5), ..ServerLimits::default() };
        both.pools[1].server_limits = short;
        let error = Fleet::new(&both, Ejection::OnLoss).err().expect("they do not agree");
        assert!(error.contains("127.0.0.1:1") && error.contains("server-timeout"), "{error}");
        let fleet = Fleet::new(&layout(&["127.0.0.1:1"]), Ejection::OnLoss).unwrap();
        assert_eq!(fleet.table().servers[0].limits.get(), ServerLimits::default());
        both.pools[0].server_limits = short;
        fleet.load(&both).unwrap();
        assert_eq!(fleet.table().servers[0].limits.get(), short);
    }

    #[test]
    fn a_server_that_nobody_finds_is_one_of_the_table_if_another_is_found() {
        let fleet = Fleet::new(&layout(&["nosuch.invalid:1", "127.0.0.1:1"]), Ejection::OnLoss).unwrap();
        assert_eq!(slots(&fleet).len(), 2);
        let error =
            Fleet::new(&layout(&["nosuch.invalid:1"]), Ejection::OnLoss).err().expect("nobody is found");
        assert!(error.contains("nosuch.invalid:1"), "{error}");
    }

    #[test]
    fn a_server_has_one_name_in_a_pool_and_may_have_others_elsewhere() {
        for other in ["127.1:1", "[::ffff:127.0.0.1]:1"] {
            let error = Fleet::new(&layout(&["127.0.0.1:1", other]), Ejection::OnLoss).err().expect(other);
            assert_eq!(
                error,
                format!("pool default: 127.0.0.1:1 and {other} are one server, at 127.0.0.1:1: name it once")
            );
        }
        let mut two = layout(&["127.0.0.1:1", "127.1:2"]);
        two.pools.extend(layout(&["127.1:1"]).pools);
        assert_eq!(Fleet::new(&two, Ejection::OnLoss).unwrap().table().servers.len(), 3);
    }

    #[test]
    fn files_of_those_we_trust_are_read_only_where_tls_is_spoken() {
        let trust = Trust { check: Check::Signer, roots: Some("/no/file".into()), own: None };
        let options = FleetOptions { trust, ..FleetOptions::default() };
        let fleet =
            Fleet::with_options(&layout(&["127.0.0.1:1"]), Ejection::OnLoss, options, Events::default())
                .unwrap();
        let error = fleet.load(&layout(&["127.0.0.1:2", "tls:127.0.0.1:1"])).unwrap_err();
        assert!(error.contains("/no/file"), "{error}");
        assert_eq!(slots(&fleet), [("127.0.0.1:1".to_owned(), 0)], "nothing has changed");
    }
}
