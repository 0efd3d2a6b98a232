//! The servers of a tier, and the table of routes in force; shared by all threads.
//!
//! A server has a slot, its own for as long as the program runs: tables come and go, but requests under way name
//! servers by slot, and so does every thread's list of connections. A server that no table names any more keeps its
//! slot and is sent nothing; named again, it is the same server.
//!
//! A table never changes. A new one takes the place of the old; each thread takes it up between two requests, and
//! requests under way go on by the table that they began with.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use posthaste_measure::{Events, lock};
use posthaste_tls::{Check, Trust};

use super::claims::Claims;
use super::flushes::Flushes;
use super::handover::Handover;
use super::health::{Ejection, Watch};
use super::late_writes::LateWrites;
use super::layout::Layout;
use super::memcached_server::Server;
use super::reconfigure::Configured;
use super::resolver::Resolver;
use super::table::{Strays, Table};

/// Names and values that `stats` says of the process around the fleet.
pub type About = dyn Fn(Topic) -> Vec<(&'static str, String)> + Send + Sync;

/// What `stats` is asked of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// What it did so far.
    Figures,
    /// How it is set.
    Settings,
}

/// Which servers a fleet trusts, and where it looks names up.
#[derive(Clone, Debug)]
pub struct FleetOptions {
    /// Which of the servers that speak TLS to trust.
    pub trust: Trust,
    /// Where names are looked up.
    pub resolver: Resolver,
}

impl Default for FleetOptions {
    /// The system's certificates and name servers.
    fn default() -> Self {
        let trust = Trust { check: Check::SignerAndName, roots: None, own: None };
        Self { trust, resolver: Resolver::default() }
    }
}

/// All servers that any table has named, and the table in force.
pub struct Fleet {
    /// Where the prober waits for news.
    pub watch: Arc<Watch>,
    /// Which thread may write a key now.
    pub claims: Claims,
    /// Writes without a claim that may still be carried out though their clients were told of no answer.
    pub late_writes: LateWrites,
    /// Flushes under way.
    pub flushes: Flushes,
    /// By which tables threads still write without a claim.
    pub handover: Handover,
    /// Keys that gets found.
    pub hits: AtomicU64,
    /// Keys asked for and not found.
    pub misses: AtomicU64,
    /// What `stats` says of the process around the fleet, once there is one.
    pub about: OnceLock<Box<About>>,
    /// The date when the program's clock began, in Unix seconds. It is read once: if the machine's clock is set later on,
    /// expiries that are dates are off by as much.
    pub began_s: u64,
    /// The moment when the program's clock began.
    pub(super) began: Instant,
    /// How many callers want writes to wait.
    pub pauses: AtomicUsize,
    /// When the delayed `flush_all` that was asked for last is due, in Unix seconds; 0: none was, or one without a
    /// delay since.
    pub(super) flush_due_s: AtomicU64,
    /// How many of the servers are older than today's meta commands.
    pub(super) old_servers: Arc<AtomicUsize>,
    pub(super) ejection: Ejection,
    pub(super) trust: Trust,
    pub(super) events: Events,
    pub(super) resolver: Resolver,
    pub(super) configured: Mutex<Configured>,
    pub(super) servers: Mutex<Vec<Arc<Server>>>,
    pub(super) strays: Mutex<Strays>,
    pub(super) table: Mutex<Arc<Table>>,
    pub(super) generation: AtomicU64,
}

impl Fleet {
    /// Creates a fleet with the servers of this layout.
    ///
    /// # Errors
    /// A sentence that names the server that cannot be found.
    pub fn new(layout: &Layout, ejection: Ejection) -> Result<Self, String> {
        Self::with_options(layout, ejection, FleetOptions::default(), Events::default())
    }

    /// Does as [`Fleet::new`], with `options` instead of the system's defaults. Losses and returns of servers and
    /// what operators set go to `events`.
    ///
    /// # Errors
    /// As [`Fleet::new`]; or there are no certificates to trust.
    pub fn with_options(
        layout: &Layout,
        ejection: Ejection,
        options: FleetOptions,
        events: Events,
    ) -> Result<Self, String> {
        let FleetOptions { trust, resolver } = options;
        let fleet = Self {
            watch: Arc::default(),
            claims: Claims::default(),
            late_writes: LateWrites::default(),
            flushes: Flushes::default(),
            handover: Handover::default(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            about: OnceLock::new(),
            began_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            began: Instant::now(),
            pauses: AtomicUsize::new(0),
            flush_due_s: AtomicU64::new(0),
            old_servers: Arc::default(),
            ejection,
            trust,
            events,
            resolver,
            configured: Mutex::default(),
            servers: Mutex::default(),
            strays: Mutex::default(),
            table: Mutex::default(),
            generation: AtomicU64::new(0),
        };
        fleet.load(layout)?;
        Ok(fleet)
    }

    /// Returns what looks names up.
    #[must_use]
    pub fn resolver(&self) -> &Resolver {
        &self.resolver
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

    /// Returns whether writes are to wait.
    #[must_use]
    pub fn are_writes_paused(&self) -> bool {
        self.pauses.load(Ordering::Acquire) > 0
    }

    /// Returns whether some server is older than today's meta commands.
    #[must_use]
    pub fn has_old_servers(&self) -> bool {
        self.old_servers.load(Ordering::Acquire) > 0
    }

    /// Returns whether servers that are lost are ejected.
    #[must_use]
    pub fn ejects(&self) -> bool {
        self.ejection == Ejection::OnLoss
    }
}
