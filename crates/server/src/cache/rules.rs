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
    /// To any server.
    Random,
    /// To that of any two with fewer requests under way.
    TwoChoices,
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

/// When a key that one replica misses is looked for on another, and brought from there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadRepair {
    /// While a replica that was lost may lack what others have.
    #[default]
    AfterLoss,
    /// Always.
    Always,
    /// Never: what one replica misses is missed.
    Never,
}

/// What a get is answered for keys of a server that does not answer, where nobody else can.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GetErrors {
    /// An error.
    #[default]
    Told,
    /// As if the keys were not there.
    Missed,
}

/// Gives an enumeration of words its names, both ways.
macro_rules! words {
    ($kind:ty: $($value:path = $word:literal),+) => {
        impl $kind {
            /// All that can be written.
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
words!(GetErrors: GetErrors::Told = "error", GetErrors::Missed = "miss");
words!(Multiget: Multiget::Whole = "whole", Multiget::Split = "split", Multiget::Auto = "auto");

/// When a write that goes to several servers is answered, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answer {
    /// When all that take part have answered: done if all did it, else the last error.
    #[default]
    All,
    /// When one did it.
    Any,
    /// When more than half did it, of all that there are.
    Majority,
    /// When so many did it.
    Count(usize),
    /// When the first in order that takes part has answered.
    First,
    /// At once, before anybody is asked.
    None,
}

impl Answer {
    /// How many of so many servers must have done it; None: it is not a matter of counting.
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
    /// All of it.
    #[default]
    Whole,
    /// What stands between these two, if something does: `{user:7}:cart` goes where `{user:7}:name` goes.
    Tag(u8, u8),
    /// What stands before this, which may be nothing, as it may be to mcrouter.
    Before(Vec<u8>),
}

impl KeyPart {
    /// The part of a key.
    #[must_use]
    pub fn of<'a>(&self, key: &'a [u8]) -> &'a [u8] {
        let part = match self {
            Self::Whole => None,
            Self::Tag(open, close) => memchr::memchr(*open, key).and_then(|start| {
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
    /// Who owns a key.
    pub hash: Hash,
    /// By which part of it.
    pub key_part: KeyPart,
    /// What is put behind that before it is hashed.
    pub salt: Vec<u8>,
    /// When a write is answered.
    pub answer: Answer,
    /// When a miss of one replica is looked for on another.
    pub read_repair: ReadRepair,
    /// What a get is answered whose server does not answer.
    pub get_errors: GetErrors,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_placed_by_its_part() {
        let tag = KeyPart::Tag(b'{', b'}');
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
