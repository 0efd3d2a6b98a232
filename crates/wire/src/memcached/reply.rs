//! Replies of a server, one piece at a time: a line, or a value with the line that announces it.
//!
//! The end of a value is found by its length alone, since a value may hold anything, an END line included. A
//! value is a piece only when all of it has arrived, so a piece that is passed on is never cut.

use memchr::memchr;

use super::tokens::Tokens;
use crate::span::Span;

/// Longest line of a reply, in bytes: those of `stats` and the meta commands are far shorter.
const LINE_BYTES_MAX: usize = 8192;

/// Largest value that a server can be told to keep, in bytes.
const VALUE_BYTES_MAX: usize = 1 << 30;

/// A piece at the beginning of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// `VALUE key flags bytes [cas]` and the value, or a meta `VA bytes flags` and the value.
    Value {
        /// The key; for a meta reply the word `VA`.
        key: Span,
        /// Offset of the value's first byte.
        data: usize,
        /// Bytes of the piece, the value's line end included.
        end: usize,
    },
    /// Any other line.
    Line {
        /// Bytes of the piece, the line end included.
        end: usize,
    },
    /// At least this many more bytes must arrive.
    NeedBytes(usize),
    /// Not the protocol; the connection is of no more use.
    Malformed,
}

/// Decodes the piece at the beginning of `input`.
#[must_use]
pub fn next(input: &[u8]) -> Piece {
    let Some(newline) = memchr(b'\n', &input[..input.len().min(LINE_BYTES_MAX)]) else {
        return if input.len() < LINE_BYTES_MAX { Piece::NeedBytes(1) } else { Piece::Malformed };
    };
    let Some(line) = input[..newline].strip_suffix(b"\r") else { return Piece::Malformed };
    let end = newline + 1;
    if line.starts_with(b"VALUE ") {
        return value(line, 1, 3, input, end);
    }
    if line.starts_with(b"VA ") {
        return value(line, 0, 1, input, end);
    }
    Piece::Line { end }
}

/// Decodes a value whose key and length are the words at these indices of `line`.
fn value(line: &[u8], key: usize, length: usize, input: &[u8], data: usize) -> Piece {
    let tokens = Tokens::of(line, 0);
    let length = std::str::from_utf8(tokens.word(length)).ok().and_then(|text| text.parse::<usize>().ok());
    let Some(length) = length.filter(|length| *length <= VALUE_BYTES_MAX) else { return Piece::Malformed };
    let end = data + length + 2;
    if input.len() < end {
        return Piece::NeedBytes(end - input.len());
    }
    if &input[end - 2..end] != b"\r\n" {
        return Piece::Malformed;
    }
    Piece::Value { key: tokens.span(key), data, end }
}

/// Returns whether a line is an error: the server refused the request or failed.
#[must_use]
pub fn is_error(line: &[u8]) -> bool {
    line.starts_with(b"SERVER_ERROR") || line.starts_with(b"CLIENT_ERROR") || line.starts_with(b"ERROR")
}
