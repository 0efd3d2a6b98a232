//! Looks names up again, in one thread for the process, so that no other has to wait for name servers.
//!
//! A server whose name leads elsewhere while it is well is moved: it is connected to at the new address and flushed
//! there, and then new connections are made there, while those to the old address end when nothing is under way on
//! them. As far as can be known it is another server, but no request fails for it. A server that is away is looked up
//! by the prober.
//!
//! Groups that have other servers get a new table. A lookup that fails changes nothing, and is logged once.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::Builder;
use std::time::{Duration, Instant};

use super::groups::{Group, ResolvedGroups, ResolvedServer, groups};
use super::memcached_server::Server;
use super::recovery;
use super::shared::CacheShared;
use crate::front::accept::Endpoint;

/// How long to wait before a group that is still unknown is looked up again.
const UNKNOWN_WAIT: Duration = Duration::from_secs(2);

/// The way to stop the refresher's thread.
pub(super) struct NameRefresher {
    stop: Sender<()>,
}

impl NameRefresher {
    /// Starts the refresher's thread. `every`: the time between lookups; None: only unknown groups are looked up.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(super) fn start(shared: Arc<CacheShared>, every: Option<Duration>) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let (last, warned) = (Instant::now(), HashSet::new());
        let mut rounds = Rounds { shared, every, last, warned, table_problem: None };
        Builder::new().name("name-refresher".into()).spawn(move || {
            while stopped.recv_timeout(rounds.wait()) == Err(RecvTimeoutError::Timeout) {
                rounds.run();
            }
        })?;
        Ok(Self { stop })
    }

    /// Has the refresher stop after the round under way, which is not waited for: name servers may be silent. It may
    /// still move and flush servers, as it would have a moment earlier.
    pub(super) fn stop(self) {
        drop(self.stop);
    }
}

/// What the refresher remembers from one round of lookups to the next.
struct Rounds {
    shared: Arc<CacheShared>,
    /// The time between lookups of all names; None: only unknown groups are looked up.
    every: Option<Duration>,
    /// When all names were last looked up.
    last: Instant,
    /// The groups and servers that could not be looked up or moved, by name: that is logged.
    warned: HashSet<String>,
    /// What was last logged of a table that could not be put in force.
    table_problem: Option<String>,
}

impl Rounds {
    /// How long to wait for the next round. Never longer than [`UNKNOWN_WAIT`]: a configuration read meanwhile may
    /// have unknown groups.
    fn wait(&self) -> Duration {
        let left = self.every.map(|every| every.saturating_sub(self.last.elapsed()));
        left.unwrap_or(UNKNOWN_WAIT).min(UNKNOWN_WAIT)
    }

    fn run(&mut self) {
        let is_due = self.every.is_some_and(|every| self.last.elapsed() >= every);
        let configured = self.shared.fleet.configured();
        let is_looked_up = |group: &Group| is_due || !configured.groups.contains_key(&group.name);
        let asked = groups(&configured.layout).into_iter().filter(is_looked_up);
        self.refresh_groups(asked.collect(), &configured.groups);
        if is_due {
            self.refresh_servers();
            self.last = Instant::now();
        }
    }

    fn refresh_groups(&mut self, asked: Vec<Group>, known: &ResolvedGroups) {
        let mut resolved = ResolvedGroups::new();
        for group in asked {
            match group.resolve(self.shared.fleet.resolver()) {
                Ok(found) => {
                    self.warned.remove(&group.name);
                    resolved.insert(group.name, found);
                }
                Err(error) => self.warn_once(group.name, &format!("{error}; nothing is changed")),
            }
        }
        let news: Vec<String> = resolved
            .iter()
            .filter_map(|(name, found)| {
                let before = known.get(name).map(Vec::as_slice).unwrap_or_default();
                (before != found).then(|| difference(name, before, found))
            })
            .collect();
        if news.is_empty() {
            return;
        }
        self.bring_back_returning(&resolved);
        match self.shared.fleet.update_groups(resolved) {
            Ok(true) => {
                self.table_problem = None;
                news.iter().for_each(|news| tracing::info!("{news}"));
                self.shared.tell_retry();
            }
            Ok(false) => {}
            Err(error) => self.warn_of_table(format!("{}; but {error}: nothing is changed", news.join("; "))),
        }
    }

    /// Brings servers back that are to be in a pool again and were away when they left.
    fn bring_back_returning(&self, resolved: &ResolvedGroups) {
        let table = self.shared.fleet.table();
        let returns = |server: &&Arc<Server>| {
            let is_named = |found: &ResolvedServer| server.backend.is_named(&found.address);
            !table.in_use().contains(&server.slot) && resolved.values().flatten().any(is_named)
        };
        table
            .servers
            .iter()
            .filter(returns)
            .for_each(|server| recovery::bring_back_before_return(server, &self.shared));
    }

    fn refresh_servers(&mut self) {
        let table = self.shared.fleet.table();
        for slot in table.in_use() {
            let server = &table.servers[*slot];
            // A problem of its own: just before, its name may have led elsewhere.
            let away = format!("{} while away", server.name());
            if server.health.is_answering() {
                self.warned.remove(&away);
                self.refresh_server(server);
            } else if let Ok(address) = server.backend.address()
                && let Some(other) = table.other_server_at(server, &address)
            {
                // The prober tries again and again, and does not log why it fails.
                let problem = format!("{} stays away: {}", server.name(), recovery::address_taken(other));
                self.warn_once(away, &problem);
            }
        }
    }

    fn refresh_server(&mut self, server: &Server) {
        let addresses = server.backend.moved_to();
        if addresses.is_empty() {
            self.warned.remove(server.name());
            return;
        }
        let mut failed = Vec::new();
        for address in addresses {
            match self.move_to(server, &address) {
                Ok(()) => {
                    self.warned.remove(server.name());
                    return;
                }
                Err(error) => failed.push(format!("{address}, where it cannot be moved to: {error}")),
            }
        }
        let what = format!("{}: its name leads to {}", server.name(), failed.join("; and to "));
        self.warn_once(server.name().to_owned(), &what);
    }

    fn move_to(&self, server: &Server, address: &Endpoint) -> Result<(), String> {
        if let Some(other) = self.shared.fleet.table().other_server_at(server, address) {
            return Err(recovery::address_taken(other));
        }
        recovery::flush_server_at(server, address.clone()).map_err(|error| error.to_string())?;
        server.health.mark_empty();
        self.shared.fleet.set_flush_reminder(server, self.shared.clock.now());
        // Before the move: the run of the server at the old address says nothing of the server at the new one.
        server.health.set_run(None);
        server.backend.move_to(address.clone());
        server.health.request_probe();
        tracing::info!(server = %server.name(), "server is at {address} now; connections move there");
        self.shared.tell_retry();
        Ok(())
    }

    /// Logs the problem of a group or server once, until it is gone.
    fn warn_once(&mut self, subject: String, problem: &str) {
        if self.warned.insert(subject) {
            tracing::warn!("{problem}");
        }
    }

    /// Logs why a table cannot be put in force: once for each reason, which may be another one each time.
    fn warn_of_table(&mut self, problem: String) {
        if self.table_problem.as_ref() != Some(&problem) {
            tracing::warn!("{problem}");
            self.table_problem = Some(problem);
        }
    }
}

/// Describes which servers a group has gained and lost.
fn difference(name: &str, before: &[ResolvedServer], found: &[ResolvedServer]) -> String {
    let addresses = |found: &[ResolvedServer], others: &[ResolvedServer]| {
        let is_missing = |one: &&ResolvedServer| !others.iter().any(|other| other.address == one.address);
        found.iter().filter(is_missing).map(|one| one.address.as_str()).collect::<Vec<_>>().join(", ")
    };
    let (came, went) = (addresses(found, before), addresses(before, found));
    let mut parts = Vec::new();
    if !came.is_empty() {
        parts.push(format!("{came} came"));
    }
    if !went.is_empty() {
        parts.push(format!("{went} went"));
    }
    if parts.is_empty() {
        parts.push("weights changed".into());
    }
    format!("{name}: {}", parts.join(", "))
}
