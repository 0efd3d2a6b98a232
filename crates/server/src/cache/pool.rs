//! The servers behind a router and the rules by which requests are spread over them; shared by all threads.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use posthaste_wire::memcached::decode_base64;
use posthaste_wire::memcached::request::Request;

use super::claims::Claims;
use super::costs::Costs;
use super::health::Health;
use super::placement::{Hash, Placement};

/// Where writes go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Writes {
    /// To every server: they are replicas.
    #[default]
    All,
    /// To the key's owner: the servers share the keys.
    Owner,
}

/// Where reads go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reads {
    /// To each server in turn.
    #[default]
    RoundRobin,
    /// To the key's owner.
    Owner,
    /// To the server with the fewest requests under way.
    Nearest,
}

/// How a multi-get is spread over replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Multiget {
    /// To one server.
    Whole,
    /// Evenly over all.
    Split,
    /// Whichever costs less, as measured.
    #[default]
    Auto,
}

/// Gives an enumeration of words its names, both ways.
macro_rules! words {
    ($kind:ty: $($value:path = $word:literal),+) => {
        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($value => $word),+ })
            }
        }

        impl FromStr for $kind {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok($value),)+
                    _ => Err(format!("write one of: {}", [$($word),+].join(", "))),
                }
            }
        }
    };
}

words!(Writes: Writes::All = "all", Writes::Owner = "owner");
words!(Reads: Reads::RoundRobin = "round-robin", Reads::Owner = "owner", Reads::Nearest = "nearest");
words!(Multiget: Multiget::Whole = "whole", Multiget::Split = "split", Multiget::Auto = "auto");

/// The rules.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Where writes go.
    pub writes: Writes,
    /// Where reads go.
    pub reads: Reads,
    /// How multi-gets are spread.
    pub multiget: Multiget,
    /// Who owns a key.
    pub hash: Hash,
    /// Servers that are lost leave until they are well again.
    pub eject: bool,
    /// `flush_all` is passed on.
    pub flush_all: bool,
    /// Fixed answers with values of so many bytes, and no servers.
    pub mock: Option<usize>,
}

/// What was done with one server.
#[derive(Debug, Default)]
pub struct ServerCounts {
    /// Commands sent to it.
    pub requests: AtomicU64,
    /// Keys asked of it.
    pub keys: AtomicU64,
    /// Errors it answered, and answers it did not give.
    pub errors: AtomicU64,
}

/// Names and values that stand in `stats`.
pub type About = dyn Fn() -> Vec<(&'static str, String)> + Send + Sync;

/// Servers and rules.
pub struct Pool {
    /// Names of the servers, `host:port` or `unix:PATH`, in the order given.
    pub names: Vec<String>,
    /// The rules.
    pub rules: Rules,
    /// Who takes part.
    pub health: Health,
    /// Who writes which key.
    pub claims: Claims,
    /// What multi-gets cost.
    pub costs: Costs,
    /// What was done with each server.
    pub counts: Vec<ServerCounts>,
    /// Keys asked for and not found.
    pub misses: AtomicU64,
    /// What `stats` says of the process around it, once there is one.
    pub about: OnceLock<Box<About>>,
    placement: Placement,
    turn: AtomicUsize,
}

impl Pool {
    /// A pool of servers with these names; at least one, or a mock.
    #[must_use]
    pub fn new(names: Vec<String>, rules: Rules) -> Self {
        Self {
            health: Health::new(names.len(), rules.eject),
            claims: Claims::default(),
            costs: Costs::default(),
            counts: names.iter().map(|_| ServerCounts::default()).collect(),
            misses: AtomicU64::new(0),
            about: OnceLock::new(),
            placement: Placement::new(rules.hash, &names),
            turn: AtomicUsize::new(0),
            names,
            rules,
        }
    }

    /// How many servers there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none: a mock.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Whether every server is to hold every key.
    #[must_use]
    pub fn is_replicated(&self) -> bool {
        self.rules.writes == Writes::All && self.len() > 1
    }

    /// The next place in the round of readers.
    #[must_use]
    pub fn next_turn(&self) -> usize {
        self.turn.fetch_add(1, Ordering::Relaxed)
    }

    /// The owner of a key. Among replicas the next one that takes part stands in for it; otherwise keys stay where they
    /// are, whether their owner is there or not.
    #[must_use]
    pub fn owner(&self, key: &[u8]) -> usize {
        let owner = self.placement.owner(key);
        if !self.is_replicated() || self.health.is_live(owner) {
            return owner;
        }
        let all = 1..self.len();
        let standing_in =
            all.map(|step| (owner + step) % self.len()).find(|server| self.health.is_live(*server));
        standing_in.unwrap_or(owner)
    }
}

/// Calls `with` with the key of a request as it was before base64.
pub fn plain_key<T>(request: &Request, bytes: &[u8], with: impl FnOnce(&[u8]) -> T) -> T {
    let key = request.key.of(bytes);
    let mut space = [0; 192]; // of the longest key in base64
    match request.base64.then(|| decode_base64(key, &mut space)) {
        Some(Some(plain)) => with(plain),
        // Not base64 at all: the server will say so.
        _ => with(key),
    }
}
