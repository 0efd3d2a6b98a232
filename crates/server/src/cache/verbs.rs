//! Sets of commands that have keys, and their words in configurations.

use posthaste_wire::memcached::request::Verb;

/// A set of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verbs(u32);

/// Commands that read; every other one of [`WORDS`] writes.
const READS: Verbs =
    Verbs::of(&[Verb::Get, Verb::Gets, Verb::Gat, Verb::Gats, Verb::MetaGet, Verb::MetaDebug]);
const DELETES: Verbs = Verbs::of(&[Verb::Delete, Verb::MetaDelete]);

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

impl Verbs {
    /// Every command.
    pub const ALL: Self = Self(u32::MAX);

    /// No command.
    pub const NONE: Self = Self(0);

    const fn of(verbs: &[Verb]) -> Self {
        let (mut bits, mut i) = (0, 0);
        // Iterators do not run at compile time.
        while i < verbs.len() {
            bits |= bit(verbs[i]);
            i += 1;
        }
        Self(bits)
    }

    /// The set that a word names: a command, or one of the groups `reads`, `writes` (deletions included) and
    /// `deletes`.
    ///
    /// # Errors
    /// What could be written instead.
    pub fn named(word: &str) -> Result<Self, String> {
        let one = || Self::verb(word).map(|verb| Self(bit(verb)));
        match word {
            "reads" => Ok(READS),
            "writes" => Ok(READS.complement()),
            "deletes" => Ok(DELETES),
            _ => one().ok_or_else(|| {
                let all = WORDS.map(|(name, _)| name).join(", ");
                format!(
                    "there is no command {word:?} for keys; write reads, writes, deletes, or any of {all}"
                )
            }),
        }
    }

    /// The command of this name.
    #[must_use]
    pub fn verb(word: &str) -> Option<Verb> {
        WORDS.iter().find(|(name, _)| *name == word).map(|(_, verb)| *verb)
    }

    /// Returns whether a command reads and does not write; `mg` may do both.
    #[must_use]
    pub fn is_read(verb: Verb) -> bool {
        READS.contains(verb)
    }

    /// All commands of both sets.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// All commands that are not in the set.
    #[must_use]
    pub fn complement(self) -> Self {
        Self(!self.0)
    }

    /// The commands that both sets have.
    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns whether no command is in the set.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::NONE
    }

    /// Returns whether a command is in the set.
    #[must_use]
    pub fn contains(self, verb: Verb) -> bool {
        self.0 & bit(verb) != 0
    }

    /// The names of the set's commands.
    #[must_use]
    pub fn names(self) -> Vec<&'static str> {
        WORDS.iter().filter(|(_, verb)| self.contains(*verb)).map(|(name, _)| *name).collect()
    }
}

impl Default for Verbs {
    fn default() -> Self {
        Self::ALL
    }
}

const fn bit(verb: Verb) -> u32 {
    1 << verb as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_commands_are_those_that_read_write_and_delete() {
        let set = |word| Verbs::named(word).unwrap();
        assert!(set("reads").contains(Verb::Gat) && !set("reads").contains(Verb::Set));
        assert!(set("writes").contains(Verb::MetaSet) && set("writes").contains(Verb::Delete));
        assert_eq!(set("deletes").names(), ["delete", "md"]);
        assert!(set("reads").intersection(set("writes")).is_empty());
        assert_eq!(set("reads").union(set("writes")).names().len(), WORDS.len());
        assert_eq!(set("get").names(), ["get"]);
        assert!(Verbs::named("fetch").unwrap_err().contains("fetch"));
    }
}
