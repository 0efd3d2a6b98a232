//! The servers of a tier, and the table of routes in force; shared by all threads.
//!
//! A server has a slot, which is its for as long as the program runs: tables come and go, but requests under way name
//! servers by slot, and so does every thread's list of connections. A server that no table names any more keeps its slot
//! and is not asked; named again, it is the same server, and serves what it holds.
//!
//! A table never changes. A new one takes the place of the old; each thread takes it up between two requests, and
//! what is under way goes on by the table it began with.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use posthaste_measure::Events;
use posthaste_tls::{Check, Connector, Trust};

use super::backend::Backend;
use super::chronicle::Chronicle;
use super::claims::Claims;
use super::health::{Health, Watch};
use super::latency::Latency;
use super::layout::Layout;
use super::limits::SERVERS_MAX;
use super::patience::{Patience, SharedPatience};
use super::table::{Strays, Table};

/// What was done with one server.
#[derive(Debug, Default)]
pub struct ServerCounts {
    /// Commands sent to it.
    pub requests: AtomicU64,
    /// Keys asked of it.
    pub keys: AtomicU64,
    /// Errors it answered, and answers it did not give.
    pub errors: AtomicU64,
    /// How long its replies took.
    pub latency: Latency,
}

/// One server.
pub struct Server {
    /// Its number.
    pub slot: usize,
    /// Where it is.
    pub backend: Backend,
    /// How long it is waited for.
    pub patience: SharedPatience,
    /// Whether it takes part.
    pub health: Health,
    /// What was done with it.
    pub counts: ServerCounts,
}

impl Server {
    /// `host:port` or `unix:PATH`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.backend.name
    }
}

/// Names and values that stand in `stats`.
pub type About = dyn Fn() -> Vec<(&'static str, String)> + Send + Sync;

/// All servers of all times, and the table in force.
pub struct Fleet {
    /// Where who brings servers back waits.
    pub watch: Arc<Watch>,
    /// Who writes which key.
    pub claims: Claims,
    /// Keys that gets found.
    pub hits: AtomicU64,
    /// Keys asked for and not found.
    pub misses: AtomicU64,
    /// What `stats` says of the process around it, once there is one.
    pub about: OnceLock<Box<About>>,
    /// The date when the program's clock began, in seconds of Unix.
    pub began_s: u64,
    /// How many want writes to wait.
    pub pauses: AtomicUsize,
    ejects: bool,
    trust: Trust,
    events: Events,
    servers: Mutex<Vec<Arc<Server>>>,
    strays: Mutex<Strays>,
    table: Mutex<Arc<Table>>,
    generation: AtomicU64,
}

impl Fleet {
    /// The servers of this layout. `ejects`: those that are lost leave until they are well again.
    ///
    /// # Errors
    /// A sentence that names the server that cannot be found.
    pub fn new(layout: &Layout, ejects: bool) -> Result<Self, String> {
        let trust = Trust { check: Check::SignerAndName, roots: None, own: None };
        Self::trusting(layout, ejects, trust, Events::default())
    }

    /// The same, and whom to trust among servers that speak TLS. What servers go through is left at `events`.
    ///
    /// # Errors
    /// As [`Fleet::new`]; or there are no certificates to trust.
    pub fn trusting(layout: &Layout, ejects: bool, trust: Trust, events: Events) -> Result<Self, String> {
        let fleet = Self {
            watch: Arc::default(),
            claims: Claims::default(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            about: OnceLock::new(),
            // A clock before 1970 makes expiries that are dates look distant, and nothing else.
            began_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            pauses: AtomicUsize::new(0),
            ejects,
            trust,
            events,
            servers: Mutex::default(),
            strays: Mutex::default(),
            table: Mutex::default(),
            generation: AtomicU64::new(0),
        };
        fleet.load(layout)?;
        Ok(fleet)
    }

    /// Puts a new table in force, with the files of [`Trust`] read again, or leaves everything as it is. A server that nobody
    /// finds is one that is not there, unless none is found.
    ///
    /// # Errors
    /// A sentence that names the server that cannot be found, or the file that cannot be used.
    pub fn load(&self, layout: &Layout) -> Result<(), String> {
        let mut servers = lock(&self.servers);
        let mut grown = servers.clone();
        let mut backends = Vec::new();
        for pool in &layout.pools {
            let its = pool.seats.iter().map(|seat| Backend::parse(&seat.address));
            let its = its.collect::<Result<Vec<_>, _>>()?;
            refuse_second_names(&pool.name, &its)?;
            backends.extend(its);
        }
        let is_found = |backend: &Backend| {
            backend.address().is_ok() || grown.iter().any(|server| server.name() == backend.name)
        };
        if let Some(Err(error)) = backends.first().map(Backend::address)
            && !backends.iter().any(is_found)
        {
            return Err(error);
        }
        let encryption = self.encryption(&backends)?;
        let patience = patience(layout)?;
        for backend in backends {
            if !grown.iter().any(|server| server.backend.name == backend.name) {
                let chronicle = Chronicle::new(&backend.name, self.events.clone());
                let health = Health::new(self.ejects, Arc::clone(&self.watch), chronicle);
                let (slot, counts) = (grown.len(), ServerCounts::default());
                let patience = SharedPatience::default();
                grown.push(Arc::new(Server { slot, backend, patience, health, counts }));
            }
        }
        if grown.len() >= SERVERS_MAX {
            return Err(format!(
                "at most {} servers are served, those of earlier files included",
                SERVERS_MAX - 1
            ));
        }
        for server in &grown {
            if let Some(connector) = encryption.get(server.name()) {
                server.backend.encrypt(connector.clone());
            }
            if let Some(patience) = patience.get(server.name()) {
                server.patience.set(*patience);
            }
        }
        *servers = grown;
        *lock(&self.table) = Arc::new(Table::new(layout, servers.clone(), &mut lock(&self.strays)));
        self.generation.fetch_add(1, Ordering::Release);
        self.watch.wake();
        Ok(())
    }

    /// What encrypts connections to each server, by its name; None: nothing does. Files are read only if somebody speaks
    /// TLS.
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

    /// Grows with every table.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Whether writes are to wait.
    #[must_use]
    pub fn are_writes_paused(&self) -> bool {
        self.pauses.load(Ordering::Acquire) > 0
    }

    /// Whether servers that are lost leave.
    #[must_use]
    pub fn ejects(&self) -> bool {
        self.ejects
    }
}

/// How long each server is waited for, by its name.
fn patience(layout: &Layout) -> Result<HashMap<String, Patience>, String> {
    let mut of_servers = HashMap::new();
    for pool in &layout.pools {
        for seat in &pool.seats {
            let name = Backend::named(&seat.address)?;
            if of_servers.insert(name.clone(), pool.patience).is_some_and(|other| other != pool.patience) {
                return Err(format!(
                    "server {name}: its pools say different limits (server-timeout, connect-timeout, depth-limit); its \
                     connections are shared, so write the same in each of them"
                ));
            }
        }
    }
    Ok(of_servers)
}

/// A server that stands in a pool by two names would have its keys twice, or be two owners.
fn refuse_second_names(pool: &str, backends: &[Backend]) -> Result<(), String> {
    let mut names = HashMap::new();
    for backend in backends {
        for place in backend.places() {
            let name = &backend.name;
            if let Some(other) = names.insert(place.clone(), name).filter(|other| *other != name) {
                return Err(format!(
                    "pool {pool}: {other} and {name} are one server, at {place}: name it once"
                ));
            }
        }
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::super::layout::Seat;
    use super::*;

    fn layout(names: &[&str]) -> Layout {
        let seats = names.iter().map(|name| Seat::of(name)).collect();
        Layout::of_one_pool(seats, super::super::rules::Rules::default())
    }

    fn slots(fleet: &Fleet) -> Vec<(String, usize)> {
        let table = fleet.table();
        let members = table.pools[0].members.iter();
        members.map(|member| (member.server.name().to_owned(), member.server.slot)).collect()
    }

    #[test]
    fn a_server_keeps_its_slot_through_all_tables() {
        let fleet = Fleet::new(&layout(&["127.0.0.1:1", "127.0.0.1:2"]), true).unwrap();
        fleet.table().servers[1].health.wish(super::super::health::Wish::Down);
        fleet.load(&layout(&["127.0.0.1:3", "127.0.0.1:1"])).unwrap();
        assert_eq!(slots(&fleet), [("127.0.0.1:3".to_owned(), 2), ("127.0.0.1:1".to_owned(), 0)]);
        fleet.load(&layout(&["127.0.0.1:2"])).unwrap();
        assert_eq!(slots(&fleet), [("127.0.0.1:2".to_owned(), 1)]);
        assert!(!fleet.table().servers[1].health.is_live(), "what was wished of it holds");
        assert_eq!(fleet.generation(), 3);
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
        let short = Patience { answer: std::time::Duration::from_millis(5), ..Patience::default() };
        both.pools[1].patience = short;
        let error = Fleet::new(&both, true).err().expect("they do not agree");
        assert!(error.contains("127.0.0.1:1") && error.contains("server-timeout"), "{error}");
        let fleet = Fleet::new(&layout(&["127.0.0.1:1"]), true).unwrap();
        assert_eq!(fleet.table().servers[0].patience.get(), Patience::default());
        both.pools[0].patience = short;
        fleet.load(&both).unwrap();
        assert_eq!(fleet.table().servers[0].patience.get(), short);
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
        let fleet = Fleet::trusting(&layout(&["127.0.0.1:1"]), true, trust, Events::default()).unwrap();
        let error = fleet.load(&layout(&["127.0.0.1:2", "tls:127.0.0.1:1"])).unwrap_err();
        assert!(error.contains("/no/file"), "{error}");
        assert_eq!(slots(&fleet), [("127.0.0.1:1".to_owned(), 0)], "nothing has changed");
    }
}
