//! The table of routes: which pool a key goes to by its prefix and the command, and which servers that means.
//!
//! The longest prefix that has a route for the command decides. Routes are kept sorted by prefix; each knows the next
//! to try when it does not fit (the same prefix for other commands, else the longest prefix of its prefix). The
//! prefix of the last route that does not sort behind the key begins with the key's longest prefix, so a search and a
//! few steps up find the route.
//!
//! The servers that may hold a key of a pool, for `each_…`:
//!
//! | function | servers of | what happens to the key there |
//! | --- | --- | --- |
//! | `each_copy` | this pool and the one `below` it | writes are carried out |
//! | `each_old` | the pool that this one takes the place of (`warm-from`) | it is read, and given a new expiry |
//! | `each_stray` | that pool, and pools that may hold the key from standing in | other writes delete it |
//! | `each_deletion_target` | pools of `deletes-to`, and wherever those look for the key | deletions delete it |

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use posthaste_wire::memcached::request::Verb;

use super::health::Health;
use super::latency::Latency;
use super::layout::{Layout, PoolPlan, RoutePlan, Settings, ShadowPlan, Source};
use super::memcached_server::Server;
use super::pool::{Member, Pool, StandIn};
use super::rate_limiter::RateLimiter;
use super::renaming::Renaming;
use super::verbs::Verbs;
use crate::front::accept::Endpoint;

/// Counters of one route.
#[derive(Default)]
pub struct RouteCounts {
    /// Requests; a multi-get counts once for each key.
    pub requests: AtomicU64,
    /// Requests refused because of the route's limit.
    pub refused: AtomicU64,
    /// Requests that took longer than the route's timeout.
    pub timed_out: AtomicU64,
    /// How long answers took. An answer to keys of several routes counts for the route of its first key.
    pub latency: Latency,
}

/// One route.
pub struct Route {
    /// What a key must begin with.
    pub prefix: Vec<u8>,
    /// How keys are renamed for the pool's servers.
    pub renaming: Renaming,
    /// The commands that the route takes.
    pub verbs: Verbs,
    /// The pool, as its place in [`Table::pools`].
    pub pool: usize,
    /// Which pool gets a copy of the requests for a share of the keys.
    pub shadow: Option<ShadowPlan>,
    /// Limits the rate of requests, if the route has a limit.
    pub rate_limiter: Option<RateLimiter>,
    /// How long a request may take.
    pub timeout_ns: u64,
    /// The route's counters, shared by all tables that have this route.
    pub counts: Arc<RouteCounts>,
    /// The route to try next when this one does not fit.
    next: Option<usize>,
}

impl Route {
    /// Returns whether every key may take this route unchanged, as often as it likes.
    #[must_use]
    pub fn takes_all(&self) -> bool {
        self.renaming.is_identity() && self.rate_limiter.is_none()
    }

    /// Returns whether the route's limit is reached now.
    #[must_use]
    pub fn is_exhausted(&self, now: u64) -> bool {
        self.rate_limiter.as_ref().is_some_and(|limiter| limiter.is_exhausted(now))
    }

    /// Counts requests that took this route.
    pub fn count(&self, requests: u64, now: u64) {
        self.counts.requests.fetch_add(requests, Ordering::Relaxed);
        if let Some(limiter) = &self.rate_limiter {
            limiter.count(requests, now);
        }
    }
}

/// Whether a request may leave a value in the pool that serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It only reads.
    Read,
    /// It may store a value.
    MayStore,
}

impl Access {
    /// Returns the access of a read: one that only the decider can answer may also create its key.
    #[must_use]
    pub fn of(needs_decider: bool) -> Self {
        if needs_decider { Self::MayStore } else { Self::Read }
    }
}

/// The pool that serves a key now, and its terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServingPool {
    /// The pool.
    pub pool: usize,
    /// Most seconds that a value stored there lives; None: as long as the client says.
    pub expiry_s: Option<u32>,
}

/// Until when pools may hold values that they stored for others, by the names of both (first that of the home pool).
/// Shared by all tables: what is held does not go away with the configuration that led there.
pub type Strays = HashMap<(String, String), Arc<AtomicU64>>;

/// Pools, routes, and all servers that any table has named.
#[derive(Default)]
pub struct Table {
    /// The servers by slot.
    pub servers: Vec<Arc<Server>>,
    /// The pools.
    pub pools: Vec<Pool>,
    /// The routes, by prefix.
    pub routes: Vec<Route>,
    /// Settings for the whole table.
    pub settings: Settings,
    /// How long a request may take that is on no route.
    pub timeout_ns: u64,
    in_use: Vec<usize>,
    /// Slots of servers that were replicas by an earlier table and are not by this one.
    former_replicas: HashSet<usize>,
}

impl Table {
    /// Builds the table of a layout over these servers, which include all that it names. Pairs of pools that stand in
    /// for the first time are added to `strays`.
    #[must_use]
    pub fn new(layout: &Layout, servers: Vec<Arc<Server>>, strays: &mut Strays) -> Self {
        let find = |address: &str| {
            let is_it = |server: &&Arc<Server>| server.backend.is_named(address);
            servers.iter().find(is_it).cloned()
        };
        let mut pool = |plan: &PoolPlan| {
            Pool::new(plan, layout.zone.as_deref(), find, |other| {
                let names = (plan.name.clone(), layout.pools[other].name.clone());
                Arc::clone(strays.entry(names).or_default())
            })
        };
        let mut pools: Vec<Pool> = layout.pools.iter().map(&mut pool).collect();
        let place = |name: &String| layout.pools.iter().position(|plan| plan.name == *name);
        for ((home, other), holds_until) in strays.iter() {
            if let (Some(home), Some(other)) = (place(home), place(other)) {
                pools[home].add_former_stand_in(other, Arc::clone(holds_until));
            }
        }
        let mut in_use: Vec<usize> =
            pools.iter().flat_map(|pool| &pool.members).map(|member| member.server.slot).collect();
        in_use.sort_unstable();
        in_use.dedup();
        let timeout_ns = ns(layout.settings.request_timeout);
        let routes = sorted(&layout.routes, timeout_ns);
        Self {
            routes,
            settings: layout.settings,
            timeout_ns,
            servers,
            pools,
            in_use,
            former_replicas: HashSet::new(),
        }
    }

    /// Carries over what outlives the table before this one: counters, for pools of the same name and for routes of
    /// the same prefix and commands to such a pool, and which servers were replicas.
    #[must_use]
    pub fn carrying_over(mut self, former: &Self) -> Self {
        for pool in &mut self.pools {
            if let Some(known) = former.pools.iter().find(|known| known.name == pool.name) {
                pool.carry_over(known);
            }
        }
        for route in &mut self.routes {
            let pool = &self.pools[route.pool].name;
            let is_known = |known: &&Route| {
                known.prefix == route.prefix
                    && known.verbs == route.verbs
                    && former.pools[known.pool].name == *pool
            };
            if let Some(known) = former.routes.iter().find(is_known) {
                route.counts = Arc::clone(&known.counts);
            }
        }
        let replicas = self.replicas();
        self.former_replicas = &(&former.replicas() | &former.former_replicas) - &replicas;
        self
    }

    /// The slots of the servers that are replicas in some pool.
    fn replicas(&self) -> HashSet<usize> {
        let pools = self.pools.iter().filter(|pool| pool.is_replicated());
        pools.flat_map(|pool| &pool.members).map(|member| member.server.slot).collect()
    }

    /// Returns whether a server (by slot) was a replica by an earlier table and is none by this one.
    #[must_use]
    pub fn was_replica(&self, slot: usize) -> bool {
        self.former_replicas.contains(&slot)
    }

    /// The shortest and the longest time that a request may take, in nanoseconds.
    #[must_use]
    pub fn timeouts_ns(&self) -> (u64, u64) {
        let all = || self.routes.iter().map(|route| route.timeout_ns).chain([self.timeout_ns]);
        (all().min().unwrap_or_default(), all().max().unwrap_or_default())
    }

    /// The slots of the servers that some pool names, ascending.
    #[must_use]
    pub fn in_use(&self) -> &[usize] {
        &self.in_use
    }

    /// How many of the servers in use take part.
    #[must_use]
    pub fn live(&self) -> usize {
        self.in_use.iter().filter(|slot| !self.servers[**slot].health.is_away()).count()
    }

    /// Returns whether a server in use takes part and answered when it was last asked; None: not all have been asked yet.
    #[must_use]
    pub fn answers(&self) -> Option<bool> {
        let mut health = self.in_use.iter().map(|slot| &self.servers[*slot].health);
        if health.clone().any(Health::is_answering) {
            return Some(true);
        }
        (!health.any(Health::is_untried)).then_some(false)
    }

    /// The only route, if it takes every key with every command.
    #[must_use]
    pub fn only_route(&self) -> Option<usize> {
        let is_all = |route: &Route| route.prefix.is_empty() && route.verbs == Verbs::ALL;
        (self.routes.len() == 1 && is_all(&self.routes[0])).then_some(0)
    }

    /// The route of a key for this command.
    #[must_use]
    pub fn route(&self, verb: Verb, key: &[u8]) -> Option<usize> {
        if let Some(only) = self.only_route() {
            return Some(only);
        }
        let after = self.routes.partition_point(|route| *route.prefix <= *key);
        let mut next = after.checked_sub(1);
        while let Some(place) = next {
            let route = &self.routes[place];
            if route.verbs.contains(verb) && key.starts_with(&route.prefix) {
                return next;
            }
            next = route.next;
        }
        None
    }

    /// Returns the pool that serves a key of this pool now: this one, or another one that stands in for it.
    #[must_use]
    pub fn serving_pool(&self, pool: usize, key: &[u8], access: Access, now: u64) -> ServingPool {
        match self.stand_in(pool, key) {
            Some(other) if self.pools[pool].may_fail_over(now) => {
                if access == Access::MayStore {
                    other.note_stored(now, self.timeouts_ns().1);
                }
                ServingPool { pool: other.pool, expiry_s: other.expiry_s }
            }
            _ => ServingPool { pool, expiry_s: None },
        }
    }

    /// Notes that a request for this pool prolongs the life of what it reads in the serving pool: if that is a
    /// stand-in, it may hold the value for longer.
    pub fn prolong(&self, pool: usize, serving: ServingPool, now: u64) {
        let other = self.pools[pool].stand_ins.iter().find(|other| other.pool == serving.pool);
        if let Some(other) = other {
            other.note_stored(now, self.timeouts_ns().1);
        }
    }

    /// The pool that stands in for this one now, if one does for this key.
    #[must_use]
    pub fn stand_in(&self, pool: usize, key: &[u8]) -> Option<&StandIn> {
        let own = &self.pools[pool];
        if own.stand_ins.is_empty() || own.can_serve(key) {
            return None;
        }
        own.stand_ins.iter().find(|other| self.pools[other.pool].can_serve(key))
    }

    /// Calls `each` once with every server that is to hold a key of this pool, those of the pool below it included.
    pub fn each_copy(&self, pool: usize, key: &[u8], each: &mut impl FnMut(&Server)) {
        let own = self.pools[pool].holders(key);
        own.clone().for_each(&mut *each);
        if let Some(Source::Below(below)) = self.pools[pool].source {
            let is_other = |server: &&Server| own.clone().all(|known| known.slot != server.slot);
            self.pools[below].holders(key).filter(is_other).for_each(each);
        }
    }

    /// Calls `each` with every further server that a key of this pool is read from: those of the pool whose place
    /// this one takes, except the servers that are to hold the key anyway.
    pub fn each_old(&self, pool: usize, key: &[u8], each: &mut impl FnMut(&Server)) {
        if let Some(Source::Old(old)) = self.pools[pool].source {
            let mut own = Vec::new();
            self.each_copy(pool, key, &mut |server| own.push(server.slot));
            self.each_copy(old, key, &mut |server| {
                if !own.contains(&server.slot) {
                    each(server);
                }
            });
        }
    }

    /// Calls `each` with every server on which a key of this pool is deleted when it is written: those of the pool whose
    /// place this one takes, and those of pools where the key may have been stored while they stood in for this pool
    /// or the one behind it, since another configuration may read it there again.
    pub fn each_stray(&self, pool: usize, key: &[u8], now: u64, each: &mut impl FnMut(&Server)) {
        let own = &self.pools[pool];
        if let Some(Source::Old(old)) = own.source {
            self.each_copy(old, key, each);
        }
        let behind = own.source.map(|source| &self.pools[source.pool()]);
        for other in [own].into_iter().chain(behind).flat_map(|pool| pool.strays(now)) {
            self.each_copy(other.pool, key, each);
        }
    }

    /// Calls `each` with every server of other pools where a key deleted in this pool is deleted too: of the pools
    /// that deletions go to, and of where else those look for the key.
    pub fn each_deletion_target(&self, pool: usize, key: &[u8], now: u64, each: &mut impl FnMut(&Server)) {
        for other in &self.pools[pool].deletes_to {
            self.each_copy(*other, key, each);
            self.each_stray(*other, key, now, each);
        }
    }

    /// Returns whether a request for a key of this pool may reach a server (by slot) that `matches`: in the
    /// pool itself, the one behind it, or one that stands in.
    #[must_use]
    pub fn leads_to(&self, pool: usize, key: &[u8], matches: impl Fn(usize) -> bool) -> bool {
        let own = &self.pools[pool];
        let behind = own.source.map(Source::pool);
        let standing_in = own.stand_ins.iter().map(|other| other.pool).filter(|_| !own.can_serve(key));
        let mut pools = [pool].into_iter().chain(behind).chain(standing_in).map(|pool| &self.pools[pool]);
        pools.any(|pool| match pool.is_replicated() {
            true => pool.members.iter().any(|member| matches(member.server.slot)),
            false => matches(pool.owner(key).slot),
        })
    }

    /// Returns whether a value stored for this pool may end up in a stand-in that limits how long it lives.
    #[must_use]
    pub fn limits_lives(&self, pool: usize) -> bool {
        self.pools[pool].stand_ins.iter().any(|other| other.expiry_s.is_some())
    }

    /// Finds another server at this address in one of the pools of `server`. With two names for one server, keys
    /// would be stored twice, or be of two owners.
    #[must_use]
    pub fn other_server_at(&self, server: &Server, address: &Endpoint) -> Option<&Arc<Server>> {
        let is_this = |member: &Member| member.server.slot == server.slot;
        let pools = self.pools.iter().filter(|pool| pool.members.iter().any(is_this));
        let mut others = pools.flat_map(|pool| &pool.members).filter(|member| !is_this(member));
        others.find(|other| other.server.backend.is_at(address)).map(|other| &other.server)
    }

    /// Returns whether a write of a key concerns a single server.
    #[must_use]
    pub fn is_simple(&self, pool: usize, now: u64) -> bool {
        let own = &self.pools[pool];
        !own.is_replicated() && !own.may_grow() && own.source.is_none() && own.strays(now).next().is_none()
    }

    /// Returns whether a key may be read from several servers: its copies, and where it is looked for when they miss it.
    #[must_use]
    pub fn has_several(&self, pool: usize) -> bool {
        self.pools[pool].is_replicated() || self.pools[pool].source.is_some()
    }

    /// Returns whether several servers hold a key.
    #[must_use]
    pub fn has_copies(&self, pool: usize) -> bool {
        self.pools[pool].is_replicated() || matches!(self.pools[pool].source, Some(Source::Below(_)))
    }

    /// The server that decides about a key.
    #[must_use]
    pub fn decider(&self, pool: usize, key: &[u8]) -> &Server {
        self.deciding_pool(pool).owner(key)
    }

    /// The pool one of whose servers decides about the keys of this pool: the one below it, where there is one.
    #[must_use]
    pub fn deciding_pool(&self, pool: usize) -> &Pool {
        match self.pools[pool].source {
            Some(Source::Below(below)) => self.deciding_pool(below),
            _ => &self.pools[pool],
        }
    }
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Sorts routes by prefix; of one prefix those for all commands first, since a search begins at the end.
fn sorted(plans: &[RoutePlan], timeout_ns: u64) -> Vec<Route> {
    let mut plans: Vec<&RoutePlan> = plans.iter().collect();
    plans.sort_by(|a, b| a.prefix.cmp(&b.prefix).then((b.verbs == Verbs::ALL).cmp(&(a.verbs == Verbs::ALL))));
    let next = |place: usize| {
        let prefix = &plans[place].prefix;
        (0..place).rev().find(|before| prefix.starts_with(&plans[*before].prefix))
    };
    let route = |(place, plan): (usize, &&RoutePlan)| Route {
        prefix: plan.prefix.clone(),
        renaming: Renaming {
            removed_prefix: if plan.strip { plan.prefix.clone() } else { Vec::new() },
            added_prefix: plan.add_prefix.clone(),
        },
        verbs: plan.verbs,
        pool: plan.pool,
        shadow: plan.shadow,
        rate_limiter: plan.limit.map(RateLimiter::new),
        timeout_ns: plan.timeout.map_or(timeout_ns, ns),
        counts: Arc::default(),
        next: next(place),
    };
    plans.iter().enumerate().map(route).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::admin_state::AdminState;
    use super::super::fleet::Fleet;
    use super::super::layout::{MemberPlan, StandInPlan};
    use super::super::rules::{Rules, Writes};
    use super::*;
    use crate::cache::health::Ejection;

    fn plan(prefix: &str, verbs: Verbs, pool: usize) -> RoutePlan {
        RoutePlan { prefix: prefix.into(), verbs, pool, ..RoutePlan::default() }
    }

    fn table(routes: Vec<RoutePlan>) -> Table {
        Table { routes: sorted(&routes, 1), ..Table::default() }
    }

    #[test]
    fn the_longest_prefix_with_the_command_decides() {
        let deletes = Verbs::named("deletes").unwrap();
        let table = table(vec![
            plan("", Verbs::ALL, 0),
            plan("user:", Verbs::ALL, 1),
            plan("user:", deletes, 2),
            plan("user:vip:", deletes, 3),
        ]);
        let pool = |verb, key: &str| table.route(verb, key.as_bytes()).map(|route| table.routes[route].pool);
        assert_eq!(pool(Verb::Get, "else"), Some(0));
        assert_eq!(pool(Verb::Get, "user:1"), Some(1));
        assert_eq!(pool(Verb::Delete, "user:1"), Some(2));
        assert_eq!(pool(Verb::Delete, "user:vip:1"), Some(3));
        assert_eq!(pool(Verb::Get, "user:vip:1"), Some(1), "the longer prefix has nothing for get");
        assert_eq!(pool(Verb::Get, "user"), Some(0));
    }

    #[test]
    fn a_key_without_a_route_has_none() {
        let table = table(vec![plan("a", Verbs::ALL, 0)]);
        assert!(table.route(Verb::Get, b"b").is_none() && table.route(Verb::Get, b"").is_none());
        assert_eq!(table.only_route(), None);
    }

    proptest! {
        #[test]
        fn the_search_finds_what_comparing_with_every_route_finds(
            prefixes in prop::collection::btree_set("[ab]{0,4}", 0..12),
            key in "[abc]{0,6}",
        ) {
            let routes = prefixes.iter().enumerate().map(|(pool, prefix)| plan(prefix, Verbs::ALL, pool)).collect();
            let table = table(routes);
            let found = table.route(Verb::Get, key.as_bytes()).map(|place| table.routes[place].prefix.clone());
            let longest = prefixes.iter().filter(|prefix| key.starts_with(prefix.as_str())).max_by_key(|prefix| prefix.len());
            prop_assert_eq!(found, longest.map(|prefix| prefix.clone().into_bytes()));
        }
    }

    /// A pool of shards with another one that stands in for it.
    fn with_stand_in(expiry: Option<u64>) -> Arc<Table> {
        let rules = Rules { writes: Writes::Owner, ..Rules::default() };
        let members = vec![MemberPlan::of("127.0.0.1:1"), MemberPlan::of("127.0.0.1:2")];
        let mut layout = Layout::of_one_pool(members, rules.clone());
        let expiry = expiry.map(std::time::Duration::from_secs);
        layout.pools[0].stand_ins = vec![StandInPlan { pool: 1, expiry }];
        layout.pools.push(PoolPlan {
            name: "spare".into(),
            members: vec![MemberPlan::of("127.0.0.1:3")],
            rules,
            ..PoolPlan::default()
        });
        Fleet::new(&layout, Ejection::OnLoss).unwrap().table()
    }

    fn strays(table: &Table, now: u64) -> Vec<usize> {
        let mut slots = Vec::new();
        table.each_stray(0, b"key", now, &mut |server| slots.push(server.slot));
        slots
    }

    #[test]
    fn another_pool_stands_in_and_is_made_to_forget() {
        let table = with_stand_in(Some(10));
        let own = ServingPool { pool: 0, expiry_s: None };
        assert_eq!(table.serving_pool(0, b"key", Access::Read, 0), own);
        assert!(table.is_simple(0, 0));
        table.pools[0].owner(b"key").health.set_admin_state(AdminState::Down);
        assert_eq!(
            table.serving_pool(0, b"key", Access::MayStore, 1),
            ServingPool { pool: 1, expiry_s: Some(10) }
        );
        assert!(!table.is_simple(0, 2));
        assert_eq!(strays(&table, 2), [2]);
        // Ten seconds from the second in which the value is stored, which may be late.
        let last = 1 + table.timeouts_ns().1 + 11_000_000_000;
        assert_eq!(strays(&table, last - 1), [2]);
        assert_eq!(strays(&table, last), [0; 0], "it has expired there");
        table.servers[2].health.set_admin_state(AdminState::Down);
        assert_eq!(
            table.serving_pool(0, b"key", Access::Read, 3),
            own,
            "nobody is there: the error is its own"
        );
    }

    #[test]
    fn who_is_spared_keeps_its_keys() {
        let table = with_stand_in(None);
        table.pools[0].owner(b"key").health.set_admin_state(AdminState::Drain);
        for access in [Access::Read, Access::MayStore] {
            assert_eq!(table.serving_pool(0, b"key", access, 0), ServingPool { pool: 0, expiry_s: None });
        }
        table.servers[2].health.set_admin_state(AdminState::Drain);
        table.pools[0].owner(b"key").health.set_admin_state(AdminState::Down);
        assert_eq!(
            table.serving_pool(0, b"key", Access::Read, 0),
            table.serving_pool(0, b"key", Access::MayStore, 0)
        );
    }

    #[test]
    fn what_never_expires_there_is_forgotten_there_for_ever() {
        let table = with_stand_in(None);
        table.pools[0].owner(b"key").health.set_admin_state(AdminState::Down);
        assert_eq!(table.serving_pool(0, b"key", Access::MayStore, 1).expiry_s, None);
        assert_eq!(strays(&table, u64::MAX - 1), [2]);
    }
}
