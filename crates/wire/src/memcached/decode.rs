//! Decodes the next request of a connection from the bytes that have arrived.

use memchr::memchr;

use super::request::{Request, Verb};
use super::tokens::Tokens;
use super::{LINE_BYTES_MAX, classic, meta};
use crate::span::Span;

/// Limits of what a router accepts.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest value, in bytes; a larger one is refused in memcached's words, and its data swallowed.
    pub value_bytes: usize,
    /// Longest line of a multi-get, in bytes.
    pub line_bytes: usize,
}

/// What stands at the beginning of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// A whole request of `end` bytes.
    Request(Request, usize),
    /// The line does not end in the input: at least one more byte must arrive. See [`decode_from`].
    NeedLineEnd,
    /// At least this many more bytes of data must arrive.
    NeedBytes(usize),
    /// A request that is answered with `answer` (None: with nothing) and not passed on.
    Refused {
        /// Answer to the client.
        answer: Option<&'static [u8]>,
        /// Bytes of the input that it took.
        end: usize,
        /// Bytes after `end` that belong to it and must be dropped, whether they have arrived yet or not.
        swallow: usize,
    },
    /// A request with a value that is too large: a line of `end` bytes, and `swallow` bytes to drop. The
    /// answer is [`TOO_LARGE`]. What is stored under the key of a `set` or `ms` is no longer valid.
    TooLarge {
        /// The request, without data.
        request: Request,
        /// Bytes of its line.
        end: usize,
        /// Bytes of its data, the line end included.
        swallow: usize,
    },
    /// The connection must be closed.
    Close {
        /// Answer before closing, if any.
        answer: Option<&'static [u8]>,
    },
}

/// A long line's words before its keys must fit in this many bytes.
const WORDS_BEFORE_KEYS: usize = 100;

/// Answer to a request whose value is too large.
pub const TOO_LARGE: &[u8] = b"SERVER_ERROR object too large for cache\r\n";

/// Result of parsing a line, without the data behind it.
pub(super) enum Parsed {
    /// A whole request.
    Request(Request),
    /// A request that is followed by this many bytes of data and a line end.
    Data(Request, usize),
    /// Refused with this answer, if any.
    Refused(Option<&'static [u8]>),
    /// Refused with this answer, and followed by this many bytes of data and a line end that belong to it.
    RefusedData(&'static [u8], usize),
    /// Not memcached's protocol: close the connection.
    Close,
}

/// Decodes the request at the beginning of `input`.
#[must_use]
pub fn decode(input: &[u8], limits: &Limits) -> Decoded {
    decode_from(input, 0, limits)
}

/// Decodes the request at the beginning of `input`, of which the first `searched` bytes are known to hold no line end.
/// After [`Decoded::NeedLineEnd`] that is all of the input: a long line that arrives in small pieces is searched once.
#[must_use]
pub fn decode_from(input: &[u8], searched: usize, limits: &Limits) -> Decoded {
    // Searching only this far is enough, and keeps a long value from being searched for a line end again and again.
    let searchable = &input[..input.len().min(limits.line_bytes)];
    let searched = searched.min(searchable.len());
    let Some(newline) = memchr(b'\n', &searchable[searched..]).map(|found| searched + found) else {
        return unfinished(input, limits);
    };
    if newline > LINE_BYTES_MAX && !may_be_long(input) {
        return Decoded::Close { answer: None };
    }
    let line = without_end(&input[..newline]);
    let end = newline + 1;
    let tokens = Tokens::of(line, 0);
    if tokens.word(0).len() < 2 {
        return Decoded::Refused { answer: Some(b"ERROR\r\n"), end, swallow: 0 };
    }
    let place = Span { start: 0, len: line.len() as u32 };
    let parsed = match tokens.word(0) {
        [b'm', _] => meta::parse(&tokens, place),
        _ => classic::parse(&tokens, line, place),
    };
    // In memcached later than 1.6.18, spaces before a command are part of it.
    let respell = tokens.span(0).start > 0;
    let spelled = |request: Request| Request { respell: request.respell || respell, ..request };
    match parsed {
        Parsed::Request(request) => Decoded::Request(spelled(request), end),
        Parsed::Data(request, length) => with_data(spelled(request), length, input, end, limits),
        Parsed::RefusedData(answer, length) => {
            Decoded::Refused { answer: Some(answer), end, swallow: length + 2 }
        }
        Parsed::Refused(answer) => Decoded::Refused { answer, end, swallow: 0 },
        Parsed::Close => Decoded::Close { answer: None },
    }
}

/// Returns the line without a carriage return before its line feed, and cut at the first zero byte, as C ends
/// a text there.
fn without_end(line: &[u8]) -> &[u8] {
    let line = match line {
        [text @ .., b'\r'] if !text.is_empty() => text,
        line => line,
    };
    &line[..memchr(0, line).unwrap_or(line.len())]
}

/// Decides about input without a line end: a short one may go on, and a longer one if it is a multi-get.
fn unfinished(input: &[u8], limits: &Limits) -> Decoded {
    if input.len() <= LINE_BYTES_MAX {
        return Decoded::NeedLineEnd;
    }
    if !may_be_long(input) {
        return Decoded::Close { answer: None };
    }
    if input.len() >= limits.line_bytes {
        return Decoded::Close { answer: Some(b"CLIENT_ERROR line is too long\r\n") };
    }
    Decoded::NeedLineEnd
}

/// Returns whether a line that begins like this may be long: it is a multi-get whose keys begin soon.
fn may_be_long(line: &[u8]) -> bool {
    let begin = &line[..line.len().min(WORDS_BEFORE_KEYS)];
    let mut words = begin.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    match words.next() {
        Some(b"get" | b"gets" | b"bget") => true,
        // The expiry, and at least one key behind it.
        Some(b"gat" | b"gats") => words.count() > 1,
        _ => false,
    }
}

fn with_data(request: Request, length: usize, input: &[u8], end: usize, limits: &Limits) -> Decoded {
    let whole = end + length + 2;
    if length > limits.value_bytes {
        return Decoded::TooLarge { request, end, swallow: length + 2 };
    }
    if input.len() < whole {
        return Decoded::NeedBytes(whole - input.len());
    }
    if !input[..whole].ends_with(b"\r\n") {
        let told = request.noreply.is_none() || request.verb == Verb::MetaSet;
        let answer = told.then_some(&b"CLIENT_ERROR bad data chunk\r\n"[..]);
        return Decoded::Refused { answer, end: whole, swallow: 0 };
    }
    let data = Span { start: end as u32, len: length as u32 + 2 };
    Decoded::Request(Request { data, ..request }, whole)
}
