//! What a configuration says of servers, pools and routes: plain data, checked, with names replaced by numbers.
//!
//! Options and files become a layout, and a layout becomes a [`super::table::Table`]. So mistakes in words are found
//! before anything changes, and no table is half a table.

use std::time::Duration;

use posthaste_wire::memcached::request::Verb;

use super::rules::Rules;
use super::server_limits::ServerLimits;

/// The pool that `--server` makes.
pub const DEFAULT_POOL: &str = "default";

/// The default request timeout, as a multiple of the server timeout.
pub const REQUEST_TIMEOUTS: u32 = 10;

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
pub struct Fallback {
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
    pub fallbacks: Vec<Fallback>,
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
            request_timeout: REQUEST_TIMEOUTS * ServerLimits::default().answer_timeout,
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

/// A set of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verbs(u32);

/// The commands that have keys, by their words.
const WORDS: [(&str, Verb); 19] = [
    ("get", Verb::Get),
    ("gets", Verb::Gets),
    ("gat", Verb::Gat),
    ("gats", Verb::Gats),
    ("mg", Verb::MetaGet),
    ("me", Verb::MetaDebug),
    ("set", Verb::Set),
    ("add", Verb::Add),
    ("replace", Verb::Replace),
    ("append", Verb::Append),
    ("prepend", Verb::Prepend),
    ("cas", Verb::Cas),
    ("incr", Verb::Incr),
    ("decr", Verb::Decr),
    ("touch", Verb::Touch),
    ("ms", Verb::MetaSet),
    ("ma", Verb::MetaArithmetic),
    ("delete", Verb::Delete),
    ("md", Verb::MetaDelete),
];

/// How many of [`WORDS`] read (the first ones), and how many delete (the last ones); all but the first write.
const READS: usize = 6;
const DELETES: usize = 2;

impl Verbs {
    /// Every command.
    pub const ALL: Self = Self(u32::MAX);

    /// No command.
    pub const NONE: Self = Self(0);

    /// The set that a word names: a command, or one of the groups `reads`, `writes` (deletions included) and
    /// `deletes`.
    ///
    /// # Errors
    /// What could be written instead.
    pub fn named(word: &str) -> Result<Self, String> {
        let group = |words: &[(&str, Verb)]| Self(words.iter().fold(0, |set, (_, verb)| set | bit(*verb)));
        match word {
            "reads" => return Ok(group(&WORDS[..READS])),
            "writes" => return Ok(group(&WORDS[READS..])),
            "deletes" => return Ok(group(&WORDS[WORDS.len() - DELETES..])),
            _ => {}
        }
        let found = WORDS.iter().find(|(name, _)| *name == word);
        let all = WORDS.map(|(name, _)| name).join(", ");
        found.map(|(_, verb)| Self(bit(*verb))).ok_or_else(|| {
            format!("there is no command {word:?} for keys; write reads, writes, deletes, or any of {all}")
        })
    }

    /// The command of this name.
    #[must_use]
    pub fn verb(word: &str) -> Option<Verb> {
        WORDS.iter().find(|(name, _)| *name == word).map(|(_, verb)| *verb)
    }

    /// All commands of both sets.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// All commands that are not in the set.
    #[must_use]
    pub fn others(self) -> Self {
        Self(!self.0)
    }

    /// The commands that both sets have; None: there are none.
    #[must_use]
    pub fn common(self, other: Self) -> Option<Self> {
        let common = self.0 & other.0;
        (common != 0).then_some(Self(common))
    }

    /// Returns whether a command is in the set.
    #[must_use]
    pub fn has(self, verb: Verb) -> bool {
        self.0 & bit(verb) != 0
    }

    /// The names of the set's commands.
    #[must_use]
    pub fn names(self) -> Vec<&'static str> {
        WORDS.iter().filter(|(_, verb)| self.has(*verb)).map(|(name, _)| *name).collect()
    }
}

impl Default for Verbs {
    fn default() -> Self {
        Self::ALL
    }
}

fn bit(verb: Verb) -> u32 {
    1 << verb as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_commands_are_those_that_read_write_and_delete() {
        let set = |word| Verbs::named(word).unwrap();
        assert!(set("reads").has(Verb::Gat) && !set("reads").has(Verb::Set));
        assert!(set("writes").has(Verb::MetaSet) && set("writes").has(Verb::Delete));
        assert_eq!(set("deletes").names(), ["delete", "md"]);
        assert_eq!(set("reads").common(set("writes")), None);
        assert_eq!(set("reads").with(set("writes")).names().len(), WORDS.len());
        assert_eq!(set("reads").others().names(), set("writes").names());
        assert!(Verbs::named("fetch").unwrap_err().contains("fetch"));
    }
}
