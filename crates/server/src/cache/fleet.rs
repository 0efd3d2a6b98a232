//! The servers of a tier, and the table of routes in force; shared by all threads.
//!
//! A server has a slot, its own for as long as the program runs: tables come and go, but requests under way name
//! servers by slot, and so does every thread's list of connections. A server that no table names any more keeps its
//! slot and is sent nothing; named again, it is the same server.
//!
//! A table never changes. A new one takes the place of the old; each thread takes it up between two requests, and
//! requests under way go on by the table that they began with.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use posthaste_measure::{Events, lock};
use posthaste_tls::{Check, Connector, Trust};

use super::backend::Backend;
use super::claims::Claims;
use super::dialect::Dialect;
use super::directory::Directory;
use super::flushes::Flushes;
use super::groups::{Finds, expanded, groups};
use super::handover::Handover;
use super::health::{Health, Watch};
use super::latency::Latency;
use super::layout::Layout;
use super::limits::SERVERS_MAX;
use super::new_members::{flush_new_members, in_parallel, mark_new_replicas, servers_with_old_values};
use super::server_events::ServerEvents;
use super::server_limits::{ServerLimits, SharedServerLimits};
use super::table::{Strays, Table};

/// Counters of one server.
#[derive(Debug, Default)]
pub struct ServerCounts {
    /// Commands sent to the server.
    pub requests: AtomicU64,
    /// Keys asked of the server.
    pub keys: AtomicU64,
    /// Errors that the server answered, and answers that it did not give.
    pub errors: AtomicU64,
    /// How long the server's replies took.
    pub latency: Latency,
}

/// One server.
pub struct Server {
    /// The server's place in [`Table::servers`], for as long as the program runs.
    pub slot: usize,
    /// The server's address.
    pub backend: Backend,
    /// How long the server is waited for.
    pub limits: SharedServerLimits,
    /// Whether the server takes part.
    pub health: Health,
    /// Which meta commands the server understands.
    pub dialect: Dialect,
    /// The server's counters.
    pub counts: ServerCounts,
    /// When the server is to be flushed once more, in Unix seconds; 0: never.
    flush_again_s: AtomicU64,
}

impl Server {
    /// The server's name: `host:port` or `unix:PATH`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.backend.name
    }
}

/// Names and values that `stats` adds to the tier's own.
pub type About = dyn Fn() -> Vec<(&'static str, String)> + Send + Sync;

/// The layout in force, as it was written, and which servers its groups have.
#[derive(Default)]
struct Wanted {
    layout: Layout,
    finds: Finds,
}

impl Wanted {
    /// The names of the layout's groups, also of those for which no server has been found: an earlier answer may have
    /// had servers that were written to.
    fn groups(&self) -> HashSet<String> {
        groups(&self.layout).into_iter().map(|group| group.name).collect()
    }
}

/// Which servers to trust, and whom to ask for names.
#[derive(Clone, Debug)]
pub struct Beliefs {
    /// Whom to trust among servers that speak TLS.
    pub trust: Trust,
    /// Where names are looked up.
    pub directory: Directory,
}

impl Default for Beliefs {
    /// The system's certificates and name servers.
    fn default() -> Self {
        let trust = Trust { check: Check::SignerAndName, roots: None, own: None };
        Self { trust, directory: Directory::default() }
    }
}

/// All servers that any table has named, and the table in force.
pub struct Fleet {
    /// Where the prober waits for news.
    pub watch: Arc<Watch>,
    /// Which thread may write a key now.
    pub claims: Claims,
    /// Flushes under way.
    pub flushes: Flushes,
    /// By which tables threads still write without a claim.
    pub handover: Handover,
    /// Keys that gets found.
    pub hits: AtomicU64,
    /// Keys asked for and not found.
    pub misses: AtomicU64,
    /// What `stats` says of the process around it, once there is one.
    pub about: OnceLock<Box<About>>,
    /// The date when the program's clock began, in Unix seconds.
    pub began_s: u64,
    /// The moment when the program's clock began.
    began: Instant,
    /// How many callers want writes to wait.
    pub pauses: AtomicUsize,
    /// When the `flush_all` that was asked for last is due, in Unix seconds; 0: at once.
    flush_due_s: AtomicU64,
    /// How many of the servers are older than today's meta commands.
    olds: Arc<AtomicUsize>,
    ejects: bool,
    trust: Trust,
    events: Events,
    directory: Directory,
    wanted: Mutex<Wanted>,
    servers: Mutex<Vec<Arc<Server>>>,
    strays: Mutex<Strays>,
    table: Mutex<Arc<Table>>,
    generation: AtomicU64,
}

impl Fleet {
    /// A fleet with the servers of this layout. `ejects`: a server that is lost is left out until it is back.
    ///
    /// # Errors
    /// A sentence that names the server that cannot be found.
    pub fn new(layout: &Layout, ejects: bool) -> Result<Self, String> {
        Self::believing(layout, ejects, Beliefs::default(), Events::default())
    }

    /// Does as [`Fleet::new`], with `beliefs` instead of the system's defaults. Losses, returns and wishes go to `events`.
    ///
    /// # Errors
    /// As [`Fleet::new`]; or there are no certificates to trust.
    pub fn believing(
        layout: &Layout,
        ejects: bool,
        beliefs: Beliefs,
        events: Events,
    ) -> Result<Self, String> {
        let Beliefs { trust, directory } = beliefs;
        let fleet = Self {
            watch: Arc::default(),
            claims: Claims::default(),
            flushes: Flushes::default(),
            handover: Handover::default(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            about: OnceLock::new(),
            // A clock before 1970 makes expiries that are dates look distant, and nothing else.
            began_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            began: Instant::now(),
            pauses: AtomicUsize::new(0),
            flush_due_s: AtomicU64::new(0),
            olds: Arc::default(),
            ejects,
            trust,
            events,
            directory,
            wanted: Mutex::default(),
            servers: Mutex::default(),
            strays: Mutex::default(),
            table: Mutex::default(),
            generation: AtomicU64::new(0),
        };
        fleet.load(layout)?;
        Ok(fleet)
    }

    /// Puts a new table in force, with the files of [`Trust`] read again and groups looked up, or leaves everything
    /// as it is. A server that cannot be found counts as not there, unless none is found; a group that cannot be
    /// found keeps the servers that it had, or counts as one server that is not there.
    ///
    /// # Errors
    /// A sentence that names the server that cannot be found, or the file that cannot be used.
    pub fn load(&self, layout: &Layout) -> Result<(), String> {
        let mut wanted = lock(&self.wanted);
        let (mut finds, mut unknown) = (Finds::new(), Vec::new());
        let groups = groups(layout);
        let found = in_parallel(&groups, |group| group.find(&self.directory));
        for (group, found) in groups.into_iter().zip(found) {
            match (found, wanted.finds.get(&group.name)) {
                (Ok(found), _) => drop(finds.insert(group.name, found)),
                (Err(error), Some(before)) => {
                    tracing::warn!("{error}; it keeps the servers that it had");
                    finds.insert(group.name, before.clone());
                }
                (Err(error), None) => unknown.push(error),
            }
        }
        let done = self.put_in_force(&expanded(layout, &finds), &wanted.groups());
        // The reason may be that no server of a group is found: then the error says why.
        done.map_err(|error| [vec![error], unknown.clone()].concat().join("; "))?;
        unknown.iter().for_each(|error| tracing::warn!("{error}; it is asked again and again"));
        *wanted = Wanted { layout: layout.clone(), finds };
        Ok(())
    }

    /// Returns the layout as it was written, and the servers found for its groups.
    #[must_use]
    pub fn wanted(&self) -> (Layout, Finds) {
        let wanted = lock(&self.wanted);
        (wanted.layout.clone(), wanted.finds.clone())
    }

    /// Returns the layout in force, with servers in the place of groups.
    #[must_use]
    pub fn layout(&self) -> Layout {
        let wanted = lock(&self.wanted);
        expanded(&wanted.layout, &wanted.finds)
    }

    /// Returns the directory that names are looked up in.
    #[must_use]
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Takes the result of looking groups up, and puts a new table in force if groups of the layout have other
    /// servers now. Ignores groups that the layout does not name any more. Returns whether there is a new table.
    ///
    /// # Errors
    /// The table cannot be put in force: as [`Fleet::load`].
    pub fn found(&self, news: Finds) -> Result<bool, String> {
        let mut wanted = lock(&self.wanted);
        let mut finds = wanted.finds.clone();
        let named = groups(&wanted.layout);
        finds.extend(news.into_iter().filter(|(name, _)| named.iter().any(|group| group.name == *name)));
        if finds == wanted.finds {
            return Ok(false);
        }
        self.put_in_force(&expanded(&wanted.layout, &finds), &wanted.groups())?;
        wanted.finds = finds;
        Ok(true)
    }

    /// Puts a new table in force. Servers that may hold old values ([`servers_with_old_values`]) are flushed first; `known` are the
    /// groups of the table before.
    fn put_in_force(&self, layout: &Layout, known: &HashSet<String>) -> Result<(), String> {
        let mut servers = lock(&self.servers);
        let backends = self.backends(layout)?;
        refuse_if_nobody_is_found(&backends, &servers)?;
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
            &servers_with_old_values(&servers, layout, known, &table),
            table.in_use(),
            |server| self.remind_now(server),
        );
        let next = Table::new(layout, servers.clone(), &mut lock(&self.strays)).following(&table);
        *lock(&self.table) = Arc::new(next);
        self.generation.fetch_add(1, Ordering::SeqCst);
        self.watch.wake();
        Ok(())
    }

    /// Parses and looks up the servers of a layout.
    fn backends(&self, layout: &Layout) -> Result<Vec<Backend>, String> {
        let mut backends = Vec::new();
        for pool in &layout.pools {
            let its =
                in_parallel(&pool.members, |member| Backend::parse_by(&member.address, &self.directory));
            let its = its.into_iter().collect::<Result<Vec<_>, _>>()?;
            refuse_second_names(&pool.name, &its)?;
            backends.extend(its);
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
                let health = Health::new(self.ejects, Arc::clone(&self.watch), events);
                let (slot, counts) = (grown.len(), ServerCounts::default());
                let (limits, dialect) = (SharedServerLimits::default(), Dialect::new(Arc::clone(&self.olds)));
                let flush_again_s = AtomicU64::new(0);
                grown.push(Arc::new(Server {
                    slot,
                    backend,
                    limits,
                    health,
                    dialect,
                    counts,
                    flush_again_s,
                }));
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

    /// The table in force.
    #[must_use]
    pub fn table(&self) -> Arc<Table> {
        Arc::clone(&lock(&self.table))
    }

    /// The number of the table in force, which grows with every table. Sequentially consistent with what routers say
    /// of the tables that they go by (`handover`).
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Notes that a `flush_all` was asked for that is due at this Unix second; it takes the place of the one before.
    pub fn note_flush(&self, due_s: u64) {
        self.flush_due_s.store(due_s, Ordering::Release);
    }

    /// In how many seconds the last `flush_all` is due, if it still lies ahead; `now` is on the program's clock in
    /// nanoseconds.
    #[must_use]
    pub fn flush_rest_s(&self, now: u64) -> Option<u64> {
        let due_s = self.flush_due_s.load(Ordering::Acquire);
        due_s.checked_sub(self.began_s + now / 1_000_000_000).filter(|rest| *rest > 0)
    }

    /// Marks a server that was flushed, or perhaps started anew, to be flushed once more when a delayed `flush_all`
    /// is due: it knows nothing of that one. It must not be told ahead: memcached keeps a single time, and setting
    /// one in the future makes visible again what an earlier flush has hidden.
    pub fn remind(&self, server: &Server, now: u64) {
        let due_s = self.flush_due_s.load(Ordering::Acquire);
        let again_s = if self.flush_rest_s(now).is_some() { due_s } else { 0 };
        server.flush_again_s.store(again_s, Ordering::Release);
    }

    /// Does as [`Fleet::remind`] at the present time.
    pub(super) fn remind_now(&self, server: &Server) {
        self.remind(server, u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }

    /// Takes the reminder of [`Fleet::remind`] once its time has come. Returns true if so: the caller must flush the server.
    #[must_use]
    pub fn take_reminder(&self, server: &Server, now: u64) -> bool {
        let again_s = server.flush_again_s.load(Ordering::Acquire);
        // Another flush has taken its place: the server was told of that one, or it is noted for it as missed.
        let is_replaced = again_s != self.flush_due_s.load(Ordering::Acquire);
        if again_s == 0 || !is_replaced && self.flush_rest_s(now).is_some() {
            return false;
        }
        server.flush_again_s.store(0, Ordering::Release);
        !is_replaced
    }

    /// Returns whether writes are to wait.
    #[must_use]
    pub fn are_writes_paused(&self) -> bool {
        self.pauses.load(Ordering::Acquire) > 0
    }

    /// Returns whether some server is older than today's meta commands.
    #[must_use]
    pub fn has_olds(&self) -> bool {
        self.olds.load(Ordering::Acquire) > 0
    }

    /// Returns whether servers that are lost are left out.
    #[must_use]
    pub fn ejects(&self) -> bool {
        self.ejects
    }
}

/// Refuses a layout of which no server can be found: most likely a mistake.
fn refuse_if_nobody_is_found(backends: &[Backend], servers: &[Arc<Server>]) -> Result<(), String> {
    let is_found = |backend: &Backend| {
        backend.address().is_ok() || servers.iter().any(|server| server.name() == backend.name)
    };
    match backends.first().map(Backend::address) {
        Some(Err(error)) if !backends.iter().any(is_found) => Err(error),
        _ => Ok(()),
    }
}

/// Returns how long each server is waited for, by its name.
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
    use super::super::layout::MemberPlan;
    use super::super::rules::Writes;
    use super::*;

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
        let fleet = Fleet::new(&layout(&["127.0.0.1:1", "127.0.0.1:2"]), true).unwrap();
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
        let fleet = Fleet::new(&layout(&["127.0.0.1:1", "127.0.0.1:2"]), true).unwrap();
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
            let fleet = Fleet::new(&plan, true).unwrap();
            plan.pools[0].rules.writes = to;
            fleet.load(&plan).unwrap();
            // No server answers that could be flushed: those to be flushed are away.
            let health = |server: &Arc<Server>| server.health.is_away();
            assert_eq!(fleet.table().servers.iter().any(health), are_away, "{servers}: {from} to {to}");
            assert_eq!(fleet.table().servers.iter().all(health), are_away, "{servers}: {from} to {to}");
        }
    }

    #[test]
    fn a_table_that_cannot_be_had_changes_nothing() {
        let fleet = Fleet::new(&layout(&["127.0.0.1:1"]), true).unwrap();
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
        let error = Fleet::new(&both, true).err().expect("they do not agree");
        assert!(error.contains("127.0.0.1:1") && error.contains("server-timeout"), "{error}");
        let fleet = Fleet::new(&layout(&["127.0.0.1:1"]), true).unwrap();
        assert_eq!(fleet.table().servers[0].limits.get(), ServerLimits::default());
        both.pools[0].server_limits = short;
        fleet.load(&both).unwrap();
        assert_eq!(fleet.table().servers[0].limits.get(), short);
    }

    #[test]
    fn a_server_that_nobody_finds_is_one_of_the_table_if_another_is_found() {
        let fleet = Fleet::new(&layout(&["nosuch.invalid:1", "127.0.0.1:1"]), true).unwrap();
        assert_eq!(slots(&fleet).len(), 2);
        let error = Fleet::new(&layout(&["nosuch.invalid:1"]), true).err().expect("nobody is found");
        assert!(error.contains("nosuch.invalid:1"), "{error}");
    }

    #[test]
    fn a_server_has_one_name_in_a_pool_and_may_have_others_elsewhere() {
        for other in ["127.1:1", "[::ffff:127.0.0.1]:1"] {
            let error = Fleet::new(&layout(&["127.0.0.1:1", other]), true).err().expect(other);
            assert_eq!(
                error,
                format!("pool default: 127.0.0.1:1 and {other} are one server, at 127.0.0.1:1: name it once")
            );
        }
        let mut two = layout(&["127.0.0.1:1", "127.1:2"]);
        two.pools.extend(layout(&["127.1:1"]).pools);
        assert_eq!(Fleet::new(&two, true).unwrap().table().servers.len(), 3);
    }

    #[test]
    fn files_of_those_we_trust_are_read_only_where_tls_is_spoken() {
        let trust = Trust { check: Check::Signer, roots: Some("/no/file".into()), own: None };
        let beliefs = Beliefs { trust, ..Beliefs::default() };
        let fleet = Fleet::believing(&layout(&["127.0.0.1:1"]), true, beliefs, Events::default()).unwrap();
        let error = fleet.load(&layout(&["127.0.0.1:2", "tls:127.0.0.1:1"])).unwrap_err();
        assert!(error.contains("/no/file"), "{error}");
        assert_eq!(slots(&fleet), [("127.0.0.1:1".to_owned(), 0)], "nothing has changed");
    }
}
