//! One line typed by a person: words between blanks, quotes round words that hold blanks.
//!
//! Arguments must be spans of the line, so a word cannot be made of parts: a quote opens a word or is
//! refused, and so is a backslash that would stand for another byte. Both are refused aloud instead of
//! being taken literally, for whoever types them means something else; programs send arrays, which hold
//! any bytes. Unescaping into a buffer of our own was rejected: it would give spans of two buffers to
//! everything behind the decoder, for a convenience of hands only.

use memchr::memchr2;

use crate::span::Span;

const UNBALANCED: &str = "Protocol error: unbalanced quotes in request";
const QUOTE_INSIDE: &str = "Protocol error: a quote inside a word of an inline command: quote the whole word, or send an array of bulk strings";
const ESCAPE: &str =
    "Protocol error: a backslash escape in an inline command: send an array of bulk strings instead";
const HTTP: &str = "Protocol error: this is HTTP, but here RESP is spoken";

/// Appends the words of `line`, counted from its first byte.
pub(super) fn split(line: &[u8], words: &mut Vec<Span>) -> Result<(), &'static str> {
    let mut at = 0;
    while let Some(&first) = line.get(at) {
        if is_blank(first) {
            at += 1;
            continue;
        }
        let quoted = matches!(first, b'"' | b'\'');
        let (start, end) = if quoted { (at + 1, closing(line, at)?) } else { (at, bare_end(line, at)?) };
        words.push(Span { start: start as u32, len: (end - start) as u32 });
        at = end + usize::from(quoted);
    }
    refuse_http(line, words)
}

fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

/// Where the unquoted word that begins at `start` ends.
fn bare_end(line: &[u8], start: usize) -> Result<usize, &'static str> {
    let stop = line[start..].iter().position(|&byte| is_blank(byte) || matches!(byte, b'"' | b'\''));
    let end = stop.map_or(line.len(), |stop| start + stop);
    if line.get(end).is_some_and(|&byte| !is_blank(byte)) { Err(QUOTE_INSIDE) } else { Ok(end) }
}

/// Where the quote that opens at `open` is closed; a blank or nothing must follow.
fn closing(line: &[u8], open: usize) -> Result<usize, &'static str> {
    let quote = line[open];
    let mut at = open + 1;
    while let Some(found) = line.get(at..).and_then(|rest| memchr2(quote, b'\\', rest)) {
        at += found;
        let next = line.get(at + 1);
        if line[at] == quote {
            return if next.is_none_or(|&byte| is_blank(byte)) { Ok(at) } else { Err(UNBALANCED) };
        }
        // Between single quotes a backslash is itself, except before a single quote.
        if quote == b'"' || next == Some(&quote) {
            return Err(ESCAPE);
        }
        at += 1;
    }
    Err(UNBALANCED)
}

/// A web page can make a browser send anything as the body of a POST; its head comes first and ends the connection.
fn refuse_http(line: &[u8], words: &[Span]) -> Result<(), &'static str> {
    let first = words.first().map_or(&[][..], |word| word.of(line));
    if first.eq_ignore_ascii_case(b"post") || first.eq_ignore_ascii_case(b"host:") {
        Err(HTTP)
    } else {
        Ok(())
    }
}
