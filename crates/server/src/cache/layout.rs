//! What a configuration says of servers, pools and routes: plain data, checked, with names replaced by numbers.
//!
//! Options and files become a layout, and a layout becomes a [`super::table::Table`]. So mistakes in words are found
//! before anything changes, and no table is half a table.

use std::time::Duration;

use super::rules::Rules;
use super::server_limits::ServerLimits;
use super::verbs::Verbs;

/// The pool that `--server` makes.
pub const DEFAULT_POOL: &str = "default";

/// The default request timeout, as a multiple of the server timeout.
pub const SERVER_TIMEOUTS_PER_REQUEST: u32 = 10;

/// A server of a pool as configured, or a group of servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberPlan {
    /// `HOST`, `HOST:PORT` or `unix:PATH`; or a group of servers, see [`super::groups`].
    pub address: String,
    /// The name that keys are placed by; None: the address.
    pub name: Option<String>,
    /// The server's share of the keys, in proportion to the others' weights; None: the usual weight of the pool's rule.
    pub weight: Option<u32>,
    /// The zone that the server stands in, if the configuration says so.
    pub zone: Option<String>,
    /// The group that the server was found by, if it was.
    pub group: Option<String>,
}

impl MemberPlan {
    /// A server of usual weight, named by its address.
    #[must_use]
    pub fn of(address: &str) -> Self {
        Self { address: address.to_owned(), name: None, weight: None, zone: None, group: None }
    }
}

/// Another pool that takes a pool's keys when that cannot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandInPlan {
    /// The other pool, as its place in the layout.
    pub pool: usize,
    /// How long a value stored there lives at most; None: as long as the client says.
    pub expiry: Option<Duration>,
}

/// Where a pool looks for keys that it does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A larger pool below, which gets all writes too and decides where one server must decide.
    Below(usize),
    /// The pool whose place this one takes: keys written here are deleted there.
    Old(usize),
}

impl Source {
    /// The other pool, as its place in the layout.
    #[must_use]
    pub fn pool(self) -> usize {
        match self {
            Self::Below(pool) | Self::Old(pool) => pool,
        }
    }
}

/// One pool as configured.
#[derive(Clone, Debug, Default)]
pub struct PoolPlan {
    /// The pool's name.
    pub name: String,
    /// The pool's servers and groups of servers; at least one.
    pub members: Vec<MemberPlan>,
    /// How requests are spread over the servers.
    pub rules: Rules,
    /// Other pools that stand in for this one, in the order in which they are tried.
    pub stand_ins: Vec<StandInPlan>,
    /// Most requests in a second that stand-ins may take; None: no limit.
    pub failover_limit: Option<u32>,
    /// Where the pool looks for keys that it does not have.
    pub source: Option<Source>,
    /// Other pools in which a key is deleted too when it is deleted here.
    pub deletes_to: Vec<usize>,
    /// Limits for each of the pool's servers.
    pub server_limits: ServerLimits,
}

/// Requests that are repeated in another pool, where no client waits for the answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShadowPlan {
    /// The other pool, as its place in the layout.
    pub pool: usize,
    /// The share of keys, above 0 and at most 1.
    pub share: f64,
}

/// A limit on the rate of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// Most requests in a second; at least 1.
    pub per_second: u32,
    /// Most requests at once, after a pause; at least 1.
    pub burst: u32,
}

/// One route as configured: keys with a prefix, asked by some commands, go to a pool.
#[derive(Clone, Debug, Default)]
pub struct RoutePlan {
    /// What a key must begin with; may be empty.
    pub prefix: Vec<u8>,
    /// Servers see the key without the prefix.
    pub strip: bool,
    /// Servers see the key with this before it.
    pub add_prefix: Vec<u8>,
    /// The commands that the route takes.
    pub verbs: Verbs,
    /// The pool, as its place in the layout.
    pub pool: usize,
    /// Which pool gets a copy of the requests for a share of the keys.
    pub shadow: Option<ShadowPlan>,
    /// Most requests; each key of a multi-get counts.
    pub limit: Option<RateLimit>,
    /// How long a request may take; None: as long as the settings say.
    pub timeout: Option<Duration>,
}

/// What holds for all pools and routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether `flush_all` is passed on.
    pub flush_all: bool,
    /// Fixed answers instead of servers, with values of this many bytes.
    pub mock: Option<usize>,
    /// How long a request may take.
    pub request_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            flush_all: true,
            mock: None,
            request_timeout: SERVER_TIMEOUTS_PER_REQUEST * ServerLimits::default().answer_timeout,
        }
    }
}

/// A configuration of servers, pools and routes.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// The pools.
    pub pools: Vec<PoolPlan>,
    /// The routes; no two say different things of the same keys and commands.
    pub routes: Vec<RoutePlan>,
    /// The settings for all of them.
    pub settings: Settings,
    /// Our own zone, if the configuration says so: its servers are read before others.
    pub zone: Option<String>,
}

impl Layout {
    /// This layout, with all servers waited for as `server_limits` says.
    #[must_use]
    pub fn with_server_limits(mut self, server_limits: ServerLimits) -> Self {
        self.pools.iter_mut().for_each(|pool| pool.server_limits = server_limits);
        self
    }

    /// A layout of one pool for every key.
    #[must_use]
    pub fn of_one_pool(members: Vec<MemberPlan>, rules: Rules) -> Self {
        let pool = PoolPlan { name: DEFAULT_POOL.into(), members, rules, ..PoolPlan::default() };
        Self { pools: vec![pool], routes: vec![RoutePlan::default()], ..Self::default() }
    }
}
