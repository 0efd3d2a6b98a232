//! What a configuration says of servers, pools and routes: plain data, checked, names replaced by numbers.
//!
//! Flags and files become a layout, a layout becomes a [`super::table::Table`]. So what can be wrong with words is found
//! before anything is touched, and a table never is half a table.

use std::time::Duration;

use posthaste_wire::memcached::request::Verb;

use super::patience::Patience;
use super::rules::Rules;

/// The pool that `--server` makes.
pub const DEFAULT_POOL: &str = "default";

/// How many times as long as a server may be silent a request may take, if nothing else is said.
pub const REQUEST_TIMEOUTS: u32 = 10;

/// A server's place in a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    /// `HOST`, `HOST:PORT` or `unix:PATH`; or a group of servers, see [`super::groups`].
    pub address: String,
    /// The name that keys are placed by; None: the address.
    pub name: Option<String>,
    /// Its share of the keys, beside the others'; None: the usual one of the pool's rule.
    pub weight: Option<u32>,
    /// Where it stands, if that is said.
    pub zone: Option<String>,
    /// The group that it was found by, if it was.
    pub group: Option<String>,
}

impl Seat {
    /// A server of usual weight, named by its address.
    #[must_use]
    pub fn of(address: &str) -> Self {
        Self { address: address.to_owned(), name: None, weight: None, zone: None, group: None }
    }
}

/// Where keys go whose own pool cannot take them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// The other pool.
    pub pool: usize,
    /// What is stored there lives at most so long; None: as long as the client said.
    pub expiry: Option<Duration>,
}

/// Where a pool looks for what it does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A larger pool below, which gets all writes too and decides where one must decide.
    Below(usize),
    /// The pool whose place this one takes: keys that are written here are deleted there.
    Old(usize),
}

impl Source {
    /// The other pool.
    #[must_use]
    pub fn pool(self) -> usize {
        match self {
            Self::Below(pool) | Self::Old(pool) => pool,
        }
    }
}

/// One pool.
#[derive(Clone, Debug, Default)]
pub struct PoolPlan {
    /// Its name.
    pub name: String,
    /// Its servers; at least one.
    pub seats: Vec<Seat>,
    /// How requests are spread over them.
    pub rules: Rules,
    /// Other pools that stand in for it, the first first.
    pub fallbacks: Vec<Fallback>,
    /// Most requests in a second that others stand in for; None: all.
    pub failover_limit: Option<u32>,
    /// Where it looks for what it does not have.
    pub source: Option<Source>,
    /// Other pools in which a key is deleted too when it is deleted here.
    pub deletes_to: Vec<usize>,
    /// How long its servers are waited for.
    pub patience: Patience,
}

/// Requests that are repeated elsewhere, with nobody waiting for the answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShadowPlan {
    /// Where.
    pub pool: usize,
    /// The share of keys, above 0 and at most 1.
    pub share: f64,
}

/// So many requests and no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitPlan {
    /// In a second; at least 1.
    pub per_second: u32,
    /// At once, after a pause; at least 1.
    pub burst: u32,
}

/// One route: keys that begin so, asked by these commands, go there.
#[derive(Clone, Debug, Default)]
pub struct RoutePlan {
    /// What a key must begin with; may be empty.
    pub prefix: Vec<u8>,
    /// Servers see the key without it.
    pub strip: bool,
    /// Servers see the key with this before it.
    pub add_prefix: Vec<u8>,
    /// The commands.
    pub verbs: Verbs,
    /// The pool.
    pub pool: usize,
    /// A copy of a share of it.
    pub shadow: Option<ShadowPlan>,
    /// Most requests; of multi-gets each key is one.
    pub limit: Option<LimitPlan>,
    /// How long a request may take; None: as long as any.
    pub timeout: Option<Duration>,
}

/// What holds for all pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `flush_all` is passed on.
    pub flush_all: bool,
    /// Fixed answers with values of so many bytes, and no servers.
    pub mock: Option<usize>,
    /// How long a request may take.
    pub request_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { flush_all: true, mock: None, request_timeout: REQUEST_TIMEOUTS * Patience::default().answer }
    }
}

/// A configuration.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// Its pools.
    pub pools: Vec<PoolPlan>,
    /// Its routes; no two say different things of the same keys and commands.
    pub routes: Vec<RoutePlan>,
    /// What holds for all.
    pub settings: Settings,
    /// Where we stand, if that is said: servers of the same zone are read before others.
    pub zone: Option<String>,
}

impl Layout {
    /// The same, its servers waited for so long.
    #[must_use]
    pub fn with_patience(mut self, patience: Patience) -> Self {
        self.pools.iter_mut().for_each(|pool| pool.patience = patience);
        self
    }

    /// One pool for every key.
    #[must_use]
    pub fn of_one_pool(seats: Vec<Seat>, rules: Rules) -> Self {
        let pool = PoolPlan { name: DEFAULT_POOL.into(), seats, rules, ..PoolPlan::default() };
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

/// How many of them read; the rest write, and the last two of those delete.
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

    /// Both.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// All that are not among them.
    #[must_use]
    pub fn others(self) -> Self {
        Self(!self.0)
    }

    /// What both have.
    #[must_use]
    pub fn common(self, other: Self) -> Option<Self> {
        let common = self.0 & other.0;
        (common != 0).then_some(Self(common))
    }

    /// Whether a command is among them.
    #[must_use]
    pub fn has(self, verb: Verb) -> bool {
        self.0 & bit(verb) != 0
    }

    /// Their names.
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
