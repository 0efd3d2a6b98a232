//! What the table says of a command and of each of its arguments.
//!
//! Arguments are built by small constant functions that read like the syntax they describe:
//! `integer("milliseconds").after("DELAY").optional()` is `[DELAY milliseconds]`.

/// One command or subcommand.
pub(super) struct Entry {
    /// In lower case; a subcommand as `command|subcommand`.
    pub name: &'static str,
    /// Number of arguments, names included; negative: at least so many.
    pub arity: i32,
    /// What Redis would call it: `write`, `readonly`, `fast`, `blocking`, `no_auth` …
    pub flags: &'static [&'static str],
    /// Place of the last key, -1 for the last argument; 0 when no key has a fixed place. The first is at 1.
    pub last_key: i64,
    /// Under which heading redis-cli lists it.
    pub group: &'static str,
    /// One line.
    pub summary: &'static str,
    /// What follows the name.
    pub arguments: &'static [Argument],
    /// Commands below this one.
    pub subcommands: &'static [Entry],
}

/// One argument, with the option word before it.
#[derive(Clone, Copy)]
pub(super) struct Argument {
    /// What to call it.
    pub name: &'static str,
    /// What it is.
    pub kind: Type,
    /// The option word that comes before it, or that it is.
    pub token: Option<&'static str>,
    /// It may be left out.
    pub optional: bool,
    /// It may be given more than once.
    pub repeat: Repeat,
    /// Arguments it is made of.
    pub parts: &'static [Argument],
}

/// What an argument is.
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
    /// Whether it changes something in a queue.
    pub(super) fn is_write(&self) -> bool {
        self.flags.contains(&"write")
    }

    /// The categories of access control that Redis would derive.
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

    /// The same entry with these arguments.
    pub(super) const fn with(mut self, arguments: &'static [Argument]) -> Self {
        self.arguments = arguments;
        self
    }

    /// The same entry with keys from the first argument to this one.
    pub(super) const fn keys_to(mut self, last_key: i64) -> Self {
        self.last_key = last_key;
        self
    }
}

impl Argument {
    /// The names of what makes it other than a single required one.
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

    /// It may be left out.
    pub(super) const fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    /// It comes behind an option word.
    pub(super) const fn after(mut self, token: &'static str) -> Self {
        self.token = Some(token);
        self
    }

    /// It may be given more than once.
    pub(super) const fn repeated(mut self, repeat: Repeat) -> Self {
        self.repeat = repeat;
        self
    }
}

impl Type {
    /// As COMMAND DOCS writes it.
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
