//! The next request of a connection, from the bytes that are there.

use memchr::memchr;

use super::request::{Request, Verb};
use super::tokens::Tokens;
use super::{LINE_BYTES_MAX, classic, meta};
use crate::span::Span;

/// What a router accepts.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest value; a larger one is refused as memcached refuses one, and swallowed.
    pub value_bytes: usize,
    /// Longest line of a multi-get.
    pub line_bytes: usize,
}

/// What stands at the beginning of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// A whole request of `end` bytes.
    Request(Request, usize),
    /// At least this many more bytes must arrive.
    NeedBytes(usize),
    /// Something that is answered with `answer` (None: with nothing) and goes no further.
    Refused {
        /// Words for the client.
        answer: Option<&'static [u8]>,
        /// Bytes it took.
        end: usize,
        /// Bytes after `end` that belong to it, whether they are there yet or not.
        swallow: usize,
    },
    /// A value that is too large, of `end` bytes, with `swallow` bytes to follow. The words are [`TOO_LARGE`]; what is
    /// stored under the key of a `set` or `ms` is no longer good.
    TooLarge {
        /// The request, without data.
        request: Request,
        /// Bytes of its line.
        end: usize,
        /// Bytes of its data.
        swallow: usize,
    },
    /// Hang up.
    Close {
        /// Last words for the client.
        answer: Option<&'static [u8]>,
    },
}

/// Bytes of a long line that its words before the keys must fit in.
const WORDS_BEFORE_KEYS: usize = 100;

/// What a client is told whose value is too large.
pub const TOO_LARGE: &[u8] = b"SERVER_ERROR object too large for cache\r\n";

/// What a line says, without the data behind it.
pub(super) enum Parsed {
    /// A whole request.
    Request(Request),
    /// A request with so many bytes of data, and a line end, to follow.
    Data(Request, usize),
    /// Refused with these words.
    Refused(Option<&'static [u8]>),
    /// The same, with so many bytes of data, and a line end, that belong to it.
    RefusedData(&'static [u8], usize),
    /// Not for us at all.
    Close,
}

/// Reads the request at the beginning of `input`.
#[must_use]
pub fn decode(input: &[u8], limits: &Limits) -> Decoded {
    // Multi-gets aside, no command needs more; so a long value is not searched for the end of a line again and again.
    let Some(newline) = memchr(b'\n', &input[..input.len().min(limits.line_bytes)]) else {
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
    // Later than 1.6.18 spaces before a command are part of it.
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

/// Without the return before the line feed, and, being C's idea of a text, nothing from a zero byte on.
fn without_end(line: &[u8]) -> &[u8] {
    let line = match line {
        [text @ .., b'\r'] if !text.is_empty() => text,
        line => line,
    };
    &line[..memchr(0, line).unwrap_or(line.len())]
}

/// No line end yet: that is well for a while, and longer for multi-gets.
fn unfinished(input: &[u8], limits: &Limits) -> Decoded {
    if input.len() <= LINE_BYTES_MAX {
        return Decoded::NeedBytes(1);
    }
    if !may_be_long(input) {
        return Decoded::Close { answer: None };
    }
    if input.len() >= limits.line_bytes {
        return Decoded::Close { answer: Some(b"CLIENT_ERROR line is too long\r\n") };
    }
    Decoded::NeedBytes(1)
}

/// Whether a line that begins so may be long: that of a multi-get, if its keys begin soon.
fn may_be_long(line: &[u8]) -> bool {
    let begin = &line[..line.len().min(WORDS_BEFORE_KEYS)];
    let mut words = begin.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    match words.next() {
        Some(b"get" | b"gets" | b"bget") => true,
        // The expiry, and something behind it.
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
