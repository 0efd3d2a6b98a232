//! The rules by which requests are spread over the servers of a pool.

use std::fmt;
use std::str::FromStr;

use super::placement::Hash;

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
    /// To a server chosen at random.
    Random,
    /// To the one with fewer requests under way of two servers chosen at random.
    TwoChoices,
}

/// How a multi-get is spread over replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Multiget {
    /// All keys to one server.
    Whole,
    /// The keys evenly over all servers.
    Split,
    /// The way that costs less, as measured.
    #[default]
    Auto,
}

/// When a key that one replica misses is looked for on another, and brought from there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadRepair {
    /// While a replica that was lost may lack what other replicas have.
    #[default]
    AfterLoss,
    /// Always.
    Always,
    /// Never: what one replica misses is missed.
    Never,
}

/// How a get is answered for keys of a server that does not reply, where no other can.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GetErrors {
    /// With an error.
    #[default]
    Error,
    /// As if the keys were not there.
    Miss,
}

/// Gives an enumeration its names, both ways.
macro_rules! words {
    ($kind:ty: $($value:path = $word:literal),+) => {
        impl $kind {
            /// The names of all values.
            pub const WORDS: &'static [&'static str] = &[$($word),+];
        }

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
                    _ => Err(format!("write one of: {}", Self::WORDS.join(", "))),
                }
            }
        }
    };
}

words!(Writes: Writes::All = "all", Writes::Owner = "owner");
words!(
    Reads: Reads::RoundRobin = "round-robin",
    Reads::Owner = "owner",
    Reads::Nearest = "nearest",
    Reads::Random = "random",
    Reads::TwoChoices = "two-choices"
);
words!(
    ReadRepair: ReadRepair::AfterLoss = "after-loss",
    ReadRepair::Always = "always",
    ReadRepair::Never = "never"
);
words!(GetErrors: GetErrors::Error = "error", GetErrors::Miss = "miss");
words!(Multiget: Multiget::Whole = "whole", Multiget::Split = "split", Multiget::Auto = "auto");

/// When a write that goes to several servers is answered, and with what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answer {
    /// When all that take part have answered: with success if all succeeded, else with the last error.
    #[default]
    All,
    /// When one has succeeded.
    Any,
    /// When more than half of all servers have succeeded, those that are away counted among all.
    Majority,
    /// When this many have succeeded.
    Count(usize),
    /// When the first in order that takes part has answered.
    First,
    /// At once, before any server is asked.
    None,
}

impl Answer {
    /// How many of `of` servers must have succeeded; None: the rule counts none.
    #[must_use]
    pub fn needed(self, of: usize) -> Option<usize> {
        match self {
            Self::Any => Some(1),
            Self::Majority => Some(of / 2 + 1),
            Self::Count(count) => Some(count),
            Self::All | Self::First | Self::None => None,
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Any => f.write_str("any"),
            Self::Majority => f.write_str("majority"),
            Self::Count(count) => write!(f, "{count}"),
            Self::First => f.write_str("first"),
            Self::None => f.write_str("none"),
        }
    }
}

impl FromStr for Answer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            "any" => Ok(Self::Any),
            "majority" => Ok(Self::Majority),
            "first" => Ok(Self::First),
            "none" => Ok(Self::None),
            text => match text.parse() {
                Ok(count @ 1..) => Ok(Self::Count(count)),
                _ => Err("write all, any, majority, first, none, or a number of servers".into()),
            },
        }
    }
}

/// The part of a key that it is placed by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KeyPart {
    /// The whole key.
    #[default]
    Whole,
    /// What stands between these two bytes, if something does: `{user:7}:cart` is placed as `{user:7}:name` is.
    Tag {
        /// The byte before it.
        open: u8,
        /// The byte behind it.
        close: u8,
    },
    /// What stands before these bytes; it may be empty, as with mcrouter.
    Before(Vec<u8>),
}

impl KeyPart {
    /// Returns the part of a key that it is placed by.
    #[must_use]
    pub fn of<'a>(&self, key: &'a [u8]) -> &'a [u8] {
        let part = match self {
            Self::Whole => None,
            Self::Tag { open, close } => memchr::memchr(*open, key).and_then(|start| {
                let inside = &key[start + 1..];
                memchr::memchr(*close, inside).map(|end| &inside[..end]).filter(|part| !part.is_empty())
            }),
            Self::Before(stop) => memchr::memmem::find(key, stop).map(|end| &key[..end]),
        };
        part.unwrap_or(key)
    }
}

/// How requests are spread over the servers of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Where writes go.
    pub writes: Writes,
    /// Where reads go.
    pub reads: Reads,
    /// How multi-gets are spread.
    pub multiget: Multiget,
    /// How a key is placed on a server.
    pub hash: Hash,
    /// The part of a key that it is placed by.
    pub key_part: KeyPart,
    /// What is put behind that part before it is hashed.
    pub salt: Vec<u8>,
    /// When a write is answered.
    pub answer: Answer,
    /// When a miss of one replica is looked for on another.
    pub read_repair: ReadRepair,
    /// How a get is answered if its server does not reply.
    pub get_errors: GetErrors,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_placed_by_its_part() {
        let tag = KeyPart::Tag { open: b'{', close: b'}' };
        for (key, part) in
            [("{u7}:cart", "u7"), ("a{u7}b}", "u7"), ("{}x", "{}x"), ("}a{", "}a{"), ("{a", "{a")]
        {
            assert_eq!(tag.of(key.as_bytes()), part.as_bytes());
        }
        let before = KeyPart::Before(b"|#|".to_vec());
        for (key, part) in [("u7|#|cart", "u7"), ("|#|x", ""), ("u7|x", "u7|x")] {
            assert_eq!(before.of(key.as_bytes()), part.as_bytes());
        }
    }

    #[test]
    fn rules_of_answers_are_read_as_they_are_written() {
        for word in ["all", "any", "majority", "first", "none", "2"] {
            assert_eq!(word.parse::<Answer>().unwrap().to_string(), word);
        }
        assert!("0".parse::<Answer>().is_err() && "most".parse::<Answer>().is_err());
        assert_eq!(
            [Answer::Any, Answer::Majority, Answer::Count(2)].map(|rule| rule.needed(4)),
            [1, 3, 2].map(Some)
        );
    }
}
