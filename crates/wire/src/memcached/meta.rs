//! Meta commands. Flags are left to the server to judge; a router needs only the key, the length of the data,
//! and whether the server may stay silent.
//!
//! One exception: an `ms` with a flag that begins with neither letter nor digit, which no valid flag does, is
//! refused here, because memcached 1.6.18 swallows its data while 1.6.40 and later take the data for commands.

use super::classic::data_bytes;
use super::decode::Parsed;
use super::number::{is_plain, signed_32};
use super::request::{Request, Verb};
use super::tokens::Tokens;
use super::{KEY_BYTES_MAX, META_WORDS_MAX};
use crate::span::Span;

const BAD_FORMAT: &[u8] = b"CLIENT_ERROR bad command line format\r\n";

/// Parses a line whose first word has two letters, the first of them an m.
pub(super) fn parse(tokens: &Tokens<'_>, place: Span) -> Parsed {
    let (verb, too_long): (Verb, &[u8]) = match tokens.word(0) {
        b"mg" => (Verb::MetaGet, b"CLIENT_ERROR options flags are too long\r\n"),
        b"ms" => (Verb::MetaSet, b"CLIENT_ERROR options flags too long\r\n"),
        b"md" => (Verb::MetaDelete, b"CLIENT_ERROR options flags too long\r\n"),
        b"ma" => (Verb::MetaArithmetic, b"CLIENT_ERROR options flags too long\r\n"),
        b"me" => return debug(tokens, place),
        b"mn" => return Parsed::Request(Request::bare(Verb::MetaNoop, place)),
        _ => return Parsed::Refused(Some(b"ERROR\r\n")),
    };
    if tokens.count() < 2 {
        return Parsed::Refused(Some(b"ERROR\r\n"));
    }
    if tokens.word(1).len() > KEY_BYTES_MAX || verb == Verb::MetaSet && tokens.count() == 2 {
        return Parsed::Refused(Some(BAD_FORMAT));
    }
    if tokens.count() > META_WORDS_MAX {
        return Parsed::Refused(Some(too_long));
    }
    let first_flag = if verb == Verb::MetaSet { 3 } else { 2 };
    let has = |flag: u8| (first_flag..tokens.count()).any(|place| tokens.word(place).first() == Some(&flag));
    let request = Request::with_key(verb, place, tokens.span(1));
    let request = Request { base64: has(b'b'), quiet: has(b'q'), ..request };
    if verb != Verb::MetaSet {
        return Parsed::Request(request);
    }
    let Some(length) = signed_32(tokens.word(2)).and_then(data_bytes) else {
        return Parsed::Refused(Some(BAD_FORMAT));
    };
    let mut flags = (first_flag..tokens.count()).map(|place| tokens.word(place)[0]);
    match flags.find(|flag| !flag.is_ascii_alphanumeric()) {
        Some(127..) => Parsed::RefusedData(b"CLIENT_ERROR duplicate flag\r\n", length),
        Some(_) => Parsed::RefusedData(b"CLIENT_ERROR invalid flag\r\n", length),
        None => Parsed::Data(Request { respell: !is_plain(tokens.word(2), length), ..request }, length),
    }
}

fn debug(tokens: &Tokens<'_>, place: Span) -> Parsed {
    if tokens.count() < 2 || tokens.word(1).len() > KEY_BYTES_MAX {
        return Parsed::Refused(Some(BAD_FORMAT));
    }
    let base64 = tokens.word(2) == b"b";
    Parsed::Request(Request { base64, ..Request::with_key(Verb::MetaDebug, place, tokens.span(1)) })
}
