//! Error answers to a request that cannot be served: a word for programs and a sentence for people.

use std::borrow::Cow;
use std::fmt;

/// The first word of an error answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Word {
    /// Not logged in.
    NoAuth,
    /// The account is unknown, or its secret is wrong.
    NoAccount,
    /// A queue of that name does not exist.
    NoQueue,
    /// The request names neither a queue nor a sender, or contradicts itself.
    BadQuery,
    /// A body or a request is larger than allowed; it was discarded.
    TooBig,
    /// A limit on messages, bytes or memory is reached.
    Full,
    /// The queue of waiting requests is full; try again.
    Busy,
    /// The store failed; the outcome is unknown, unless the text says that nothing was changed.
    Store,
    /// The account may not do this.
    Denied,
    /// HELLO asked for a protocol other than 2 or 3.
    NoProto,
    /// Anything else: unknown commands, wrong arguments.
    Err,
}

impl Word {
    /// The word as it stands on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoAuth => "NOAUTH",
            Self::NoAccount => "NOACCOUNT",
            Self::NoQueue => "NOQUEUE",
            Self::BadQuery => "BADQUERY",
            Self::TooBig => "TOOBIG",
            Self::Full => "FULL",
            Self::Busy => "BUSY",
            Self::Store => "STORE",
            Self::Denied => "DENIED",
            Self::NoProto => "NOPROTO",
            Self::Err => "ERR",
        }
    }
}

/// An error answer. Its text never holds a line break: the encoder would have to replace it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What programs match on.
    pub word: Word,
    /// What went wrong and what to do.
    pub text: Cow<'static, str>,
}

impl Fault {
    /// A fault with a fixed sentence.
    #[must_use]
    pub const fn new(word: Word, text: &'static str) -> Self {
        Self { word, text: Cow::Borrowed(text) }
    }

    /// A fault whose sentence names the offending thing.
    #[must_use]
    pub const fn about(word: Word, text: String) -> Self {
        Self { word, text: Cow::Owned(text) }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.word.as_str(), self.text)
    }
}

impl std::error::Error for Fault {}
