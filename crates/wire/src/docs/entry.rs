//! Types of the documentation table: commands and their arguments.

/// One command or subcommand.
pub(super) struct Entry {
    /// Name in lower case; a subcommand's is `command|subcommand`.
    pub name: &'static str,
    /// Number of arguments, names included; negative: at least that many.
    pub arity: i32,
    /// Redis's flags for it: `write`, `readonly`, `fast`, `blocking`, `no_auth` …
    pub flags: &'static [&'static str],
    /// Place of the last key, -1 for the last argument; 0 when no key has a fixed place. The first is at 1.
    pub last_key: i64,
    /// Heading under which redis-cli lists it.
    pub group: &'static str,
    /// Summary of one line.
    pub summary: &'static str,
    /// Arguments behind the name.
    pub arguments: &'static [Argument],
    /// Subcommands.
    pub subcommands: &'static [Entry],
}

/// One argument, with the option word before it, if any.
#[derive(Clone, Copy)]
pub(super) struct Argument {
    /// Name of the argument.
    pub name: &'static str,
    /// Type of the argument.
    pub kind: Type,
    /// Option word that stands before the argument, or that the argument consists of.
    pub token: Option<&'static str>,
    /// Whether it may be left out.
    pub optional: bool,
    /// How often it may be given.
    pub repeat: Repeat,
    /// Parts of a block, or alternatives of a choice.
    pub parts: &'static [Argument],
}

/// Type of an argument.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    /// The name of a queue at a fixed place.
    Key,
    /// Any text.
    String,
    /// Decimal digits.
    Integer,
    /// An option word alone.
    Token,
    /// Several arguments in a row.
    Block,
    /// One of several arguments.
    OneOf,
}

/// How often an argument may be given.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// Once.
    No,
    /// More than once.
    Values,
    /// More than once, each time with its option word.
    Tokens,
}

impl Entry {
    /// Returns whether the command changes something in a queue.
    pub(super) fn is_write(&self) -> bool {
        self.flags.contains(&"write")
    }

    /// Returns the access-control categories that Redis would derive.
    pub(super) fn categories(&self) -> Vec<&'static str> {
        let has = |flag: &str| self.flags.contains(&flag);
        let mut categories = vec![if has("fast") { "@fast" } else { "@slow" }];
        let derived =
            [("write", "@write"), ("readonly", "@read"), ("blocking", "@blocking"), ("admin", "@admin")];
        categories.extend(derived.iter().filter(|(flag, _)| has(flag)).map(|(_, category)| category));
        if self.group == "connection" {
            categories.push("@connection");
        }
        categories
    }

    /// Sets the arguments.
    pub(super) const fn with(mut self, arguments: &'static [Argument]) -> Self {
        self.arguments = arguments;
        self
    }

    /// Says that the arguments from the first to this one are keys.
    pub(super) const fn keys_to(mut self, last_key: i64) -> Self {
        self.last_key = last_key;
        self
    }
}

impl Argument {
    /// Returns Redis's flags for an argument that is optional or may be repeated.
    pub(super) fn flags(&self) -> Vec<&'static str> {
        let mut flags = Vec::new();
        if self.optional {
            flags.push("optional");
        }
        if self.repeat != Repeat::No {
            flags.push("multiple");
        }
        if self.repeat == Repeat::Tokens {
            flags.push("multiple_token");
        }
        flags
    }

    /// Makes the argument optional.
    pub(super) const fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    /// Puts the option word `token` before the argument.
    pub(super) const fn after(mut self, token: &'static str) -> Self {
        self.token = Some(token);
        self
    }

    /// Lets the argument be given more than once.
    pub(super) const fn repeated(mut self, repeat: Repeat) -> Self {
        self.repeat = repeat;
        self
    }
}

impl Type {
    /// Returns the type's name in COMMAND DOCS.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Token => "pure-token",
            Self::Block => "block",
            Self::OneOf => "oneof",
        }
    }
}

/// An argument of some type.
const fn argument(name: &'static str, kind: Type, parts: &'static [Argument]) -> Argument {
    Argument { name, kind, token: None, optional: false, repeat: Repeat::No, parts }
}

/// A queue's name at a fixed place.
pub(super) const fn key(name: &'static str) -> Argument {
    argument(name, Type::Key, &[])
}

/// Any text.
pub(super) const fn text(name: &'static str) -> Argument {
    argument(name, Type::String, &[])
}

/// A number.
pub(super) const fn integer(name: &'static str) -> Argument {
    argument(name, Type::Integer, &[])
}

/// An option word alone.
pub(super) const fn token(name: &'static str, token: &'static str) -> Argument {
    argument(name, Type::Token, &[]).after(token)
}

/// Several arguments in a row.
pub(super) const fn block(name: &'static str, parts: &'static [Argument]) -> Argument {
    argument(name, Type::Block, parts)
}

/// One of several arguments.
pub(super) const fn one_of(name: &'static str, parts: &'static [Argument]) -> Argument {
    argument(name, Type::OneOf, parts)
}
