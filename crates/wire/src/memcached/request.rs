//! One decoded request: its verb, and the places of its parts among the bytes it was read from.

use super::tokens::next_word;
use crate::span::Span;

/// The command of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// `get`
    Get,
    /// `gets`: with CAS.
    Gets,
    /// `gat`: get and touch.
    Gat,
    /// `gats`
    Gats,
    /// `set`
    Set,
    /// `add`
    Add,
    /// `replace`
    Replace,
    /// `append`
    Append,
    /// `prepend`
    Prepend,
    /// `cas`
    Cas,
    /// `delete`
    Delete,
    /// `incr`
    Incr,
    /// `decr`
    Decr,
    /// `touch`
    Touch,
    /// `mg`
    MetaGet,
    /// `ms`
    MetaSet,
    /// `md`
    MetaDelete,
    /// `ma`
    MetaArithmetic,
    /// `me`
    MetaDebug,
    /// `mn`
    MetaNoop,
    /// `flush_all`
    FlushAll,
    /// `version`
    Version,
    /// `verbosity`
    Verbosity,
    /// `stats`
    Stats,
    /// `quit`
    Quit,
}

impl Verb {
    /// Returns whether the command is answered by VALUE lines and END.
    #[must_use]
    pub fn is_get(self) -> bool {
        matches!(self, Self::Get | Self::Gets | Self::Gat | Self::Gats)
    }

    /// Returns whether the command deletes a key.
    #[must_use]
    pub fn is_delete(self) -> bool {
        matches!(self, Self::Delete | Self::MetaDelete)
    }

    /// Returns whether this is a meta command with a key.
    #[must_use]
    pub fn is_meta(self) -> bool {
        use Verb::{MetaArithmetic, MetaDebug, MetaDelete, MetaGet, MetaSet};
        matches!(self, MetaGet | MetaSet | MetaDelete | MetaArithmetic | MetaDebug)
    }
}

/// A request. Its spans count from the first byte of the input it was decoded from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The command.
    pub verb: Verb,
    /// The command line without its end.
    pub line: Span,
    /// The first key; empty when there is none.
    pub key: Span,
    /// Number of keys: any for get and its relatives, else 0 or 1.
    pub keys: u32,
    /// The data block with the line end behind it; empty when there is none.
    pub data: Span,
    /// The word `noreply`, if the request ends with it and means it.
    pub noreply: Option<Span>,
    /// Whether the key is written in base64 (meta flag b).
    pub base64: bool,
    /// Whether nominal answers are suppressed (meta flag q).
    pub quiet: bool,
    /// Whether some memcached would read this line differently. Servers are sent [`Request::respelled`] instead.
    pub respell: bool,
}

impl Request {
    /// Returns a request without key and data.
    #[must_use]
    pub(super) fn bare(verb: Verb, line: Span) -> Self {
        let nothing = Span::default();
        let (noreply, base64, quiet, respell) = (None, false, false, false);
        Self { verb, line, key: nothing, keys: 0, data: nothing, noreply, base64, quiet, respell }
    }

    /// Returns a request with one key.
    #[must_use]
    pub(super) fn with_key(verb: Verb, line: Span, key: Span) -> Self {
        Self { key, keys: 1, ..Self::bare(verb, line) }
    }

    /// Returns the meta flag that goes with the key in a command of the router's own, with the space before it; empty
    /// if the key is plain.
    #[must_use]
    pub fn base64_flag(&self) -> &'static [u8] {
        if self.base64 { b" b" } else { b"" }
    }

    /// Returns the places of all keys, in order.
    pub fn key_spans<'a>(&self, input: &'a [u8]) -> impl Iterator<Item = Span> + use<'a> {
        let line = &input[..(self.line.start + self.line.len) as usize];
        let mut at = if self.keys == 0 { line.len() } else { self.key.start as usize };
        std::iter::from_fn(move || {
            let word = next_word(line, at)?;
            at = (word.start + word.len) as usize;
            Some(word)
        })
    }

    /// Writes the request to `out` in the form that every memcached reads alike: one space between words,
    /// none before the first, and the length of the data as plain digits. Returns the request with the places
    /// of its parts in `out`.
    #[must_use]
    pub fn respelled(&self, input: &[u8], out: &mut Vec<u8>) -> Self {
        let length_place = match self.verb {
            Verb::Set | Verb::Add | Verb::Replace | Verb::Append | Verb::Prepend | Verb::Cas => 4,
            Verb::MetaSet => 2,
            _ => usize::MAX,
        };
        let mut request = Self { respell: false, ..*self };
        let line = &input[..(self.line.start + self.line.len) as usize];
        let mut at = self.line.start as usize;
        out.clear();
        for place in 0.. {
            let Some(word) = next_word(line, at) else { break };
            at = (word.start + word.len) as usize;
            if place > 0 {
                out.push(b' ');
            }
            let start = out.len() as u32;
            if word.start == self.key.start {
                request.key.start = start;
            }
            request.noreply = request.noreply.map(|noreply| Span { start, ..noreply });
            if place == length_place {
                out.extend_from_slice((self.data.len - 2).to_string().as_bytes());
            } else {
                out.extend_from_slice(word.of(input));
            }
        }
        request.line = Span { start: 0, len: out.len() as u32 };
        out.extend_from_slice(b"\r\n");
        if self.data.len > 0 {
            request.data.start = out.len() as u32;
            out.extend_from_slice(self.data.of(input));
        }
        request
    }

    /// Returns the words behind the key, in order: flags of a meta command, arguments of a classic one.
    pub fn words_after_key<'a>(&self, input: &'a [u8]) -> impl Iterator<Item = Span> + use<'a> {
        self.key_spans(input).skip(1)
    }
}
