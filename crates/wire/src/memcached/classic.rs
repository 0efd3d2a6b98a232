//! Classic commands: their number of words, what is refused, and whether data follows.

use super::KEY_BYTES_MAX;
use super::decode::Parsed;
use super::number::{is_plain, is_unsigned, signed_32};
use super::request::{Request, Verb};
use super::tokens::{Tokens, next_word};
use crate::span::Span;

const ERROR: &[u8] = b"ERROR\r\n";
const BAD_FORMAT: &[u8] = b"CLIENT_ERROR bad command line format\r\n";
const BAD_DELETE: &[u8] = b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n";
const BAD_EXPTIME: &[u8] = b"CLIENT_ERROR invalid exptime argument\r\n";

/// Reads a line whose first word is no meta command.
pub(super) fn parse(tokens: &Tokens<'_>, line: &[u8], place: Span) -> Parsed {
    match tokens.word(0) {
        b"get" | b"bget" => get(Verb::Get, tokens, line, place),
        b"gets" => get(Verb::Gets, tokens, line, place),
        b"gat" => get_and_touch(Verb::Gat, tokens, line, place),
        b"gats" => get_and_touch(Verb::Gats, tokens, line, place),
        b"set" => store(Verb::Set, tokens, place),
        b"add" => store(Verb::Add, tokens, place),
        b"replace" => store(Verb::Replace, tokens, place),
        b"append" => store(Verb::Append, tokens, place),
        b"prepend" => store(Verb::Prepend, tokens, place),
        b"cas" => store(Verb::Cas, tokens, place),
        b"delete" => delete(tokens, place),
        b"incr" => with_argument(Verb::Incr, tokens, place),
        b"decr" => with_argument(Verb::Decr, tokens, place),
        b"touch" => with_argument(Verb::Touch, tokens, place),
        b"flush_all" => flush_all(tokens, place),
        b"verbosity" => verbosity(tokens, place),
        b"version" => Parsed::Request(Request::bare(Verb::Version, place)),
        b"stats" => Parsed::Request(Request::bare(Verb::Stats, place)),
        b"quit" => Parsed::Request(Request::bare(Verb::Quit, place)),
        b"shutdown" => Parsed::Refused(Some(b"ERROR: shutdown not enabled\r\n")),
        _ if tokens.last().starts_with(b"HTTP/") => Parsed::Close,
        _ => Parsed::Refused(Some(ERROR)),
    }
}

fn get(verb: Verb, tokens: &Tokens<'_>, line: &[u8], place: Span) -> Parsed {
    if tokens.count() < 2 {
        return Parsed::Refused(Some(ERROR));
    }
    keys_from(1, verb, tokens, line, place)
}

/// Reads `gat` and `gats`. The expiry stands before the keys; without any key the answer is END.
fn get_and_touch(verb: Verb, tokens: &Tokens<'_>, line: &[u8], place: Span) -> Parsed {
    if tokens.count() < 2 {
        return Parsed::Refused(Some(ERROR));
    }
    if signed_32(tokens.word(1)).is_none() {
        return Parsed::Refused(Some(BAD_EXPTIME));
    }
    if tokens.count() == 2 {
        return Parsed::Refused(Some(b"END\r\n"));
    }
    keys_from(2, verb, tokens, line, place)
}

fn keys_from(first: usize, verb: Verb, tokens: &Tokens<'_>, line: &[u8], place: Span) -> Parsed {
    let key = tokens.span(first);
    let mut at = (key.start - place.start) as usize;
    let mut keys = 0;
    while let Some(word) = next_word(line, at) {
        if word.len as usize > KEY_BYTES_MAX {
            return Parsed::Refused(Some(BAD_FORMAT));
        }
        keys += 1;
        at = (word.start + word.len) as usize;
    }
    Parsed::Request(Request { key, keys, ..Request::bare(verb, place) })
}

/// Reads `set key flags exptime bytes [cas] [noreply]`. A line that is refused here does not have its data swallowed.
fn store(verb: Verb, tokens: &Tokens<'_>, place: Span) -> Parsed {
    let words = if verb == Verb::Cas { 6 } else { 5 };
    if tokens.count() != words && tokens.count() != words + 1 {
        return Parsed::Refused(Some(ERROR));
    }
    let noreply = noreply(tokens);
    let refused = Parsed::Refused(noreply.is_none().then_some(BAD_FORMAT));
    let numbers = is_unsigned(tokens.word(2)) && signed_32(tokens.word(3)).is_some();
    let length = signed_32(tokens.word(4)).and_then(data_bytes);
    let cas = verb != Verb::Cas || is_unsigned(tokens.word(5));
    match length {
        Some(length) if tokens.word(1).len() <= KEY_BYTES_MAX && numbers && cas => {
            let respell = !is_plain(tokens.word(4), length);
            let request = Request::with_key(verb, place, tokens.span(1));
            Parsed::Data(Request { noreply, respell, ..request }, length)
        }
        _ => refused,
    }
}

/// Returns the length of the data, if it is one that memcached accepts.
pub(super) fn data_bytes(length: i32) -> Option<usize> {
    usize::try_from(length).ok().filter(|_| length <= i32::MAX - 2)
}

fn delete(tokens: &Tokens<'_>, place: Span) -> Parsed {
    let count = tokens.count();
    if !(2..=4).contains(&count) {
        return Parsed::Refused(Some(ERROR));
    }
    let mut request = Request::with_key(Verb::Delete, place, tokens.span(1));
    if count > 2 {
        // Old clients send the hold time that `delete` once took; it is accepted if it is 0.
        let hold_is_zero = tokens.word(2) == b"0";
        request.noreply = noreply(tokens);
        let silent = request.noreply.is_some();
        if !(count == 3 && (hold_is_zero || silent) || count == 4 && hold_is_zero && silent) {
            return Parsed::Refused((!silent).then_some(BAD_DELETE));
        }
    }
    if tokens.word(1).len() > KEY_BYTES_MAX {
        return Parsed::Refused(request.noreply.is_none().then_some(BAD_FORMAT));
    }
    Parsed::Request(request)
}

/// Reads `incr` and `decr` (`key delta [noreply]`) and `touch` (`key exptime [noreply]`).
fn with_argument(verb: Verb, tokens: &Tokens<'_>, place: Span) -> Parsed {
    if tokens.count() != 3 && tokens.count() != 4 {
        return Parsed::Refused(Some(ERROR));
    }
    let noreply = noreply(tokens);
    let silent = noreply.is_some();
    if tokens.word(1).len() > KEY_BYTES_MAX {
        return Parsed::Refused((!silent).then_some(BAD_FORMAT));
    }
    let (valid, complaint): (bool, &[u8]) = match verb {
        Verb::Touch => (signed_32(tokens.word(2)).is_some(), BAD_EXPTIME),
        _ => (is_unsigned(tokens.word(2)), b"CLIENT_ERROR invalid numeric delta argument\r\n"),
    };
    if !valid {
        return Parsed::Refused((!silent).then_some(complaint));
    }
    Parsed::Request(Request { noreply, ..Request::with_key(verb, place, tokens.span(1)) })
}

fn flush_all(tokens: &Tokens<'_>, place: Span) -> Parsed {
    if tokens.count() > 3 {
        return Parsed::Refused(Some(ERROR));
    }
    let noreply = noreply(tokens);
    let bare = if noreply.is_some() { 2 } else { 1 };
    if tokens.count() != bare && signed_32(tokens.word(1)).is_none() {
        return Parsed::Refused(noreply.is_none().then_some(BAD_EXPTIME));
    }
    Parsed::Request(Request { noreply, ..Request::bare(Verb::FlushAll, place) })
}

fn verbosity(tokens: &Tokens<'_>, place: Span) -> Parsed {
    if tokens.count() != 2 && tokens.count() != 3 {
        return Parsed::Refused(Some(ERROR));
    }
    let noreply = noreply(tokens);
    if !is_unsigned(tokens.word(1)) {
        return Parsed::Refused(noreply.is_none().then_some(BAD_FORMAT));
    }
    Parsed::Request(Request { noreply, ..Request::bare(Verb::Verbosity, place) })
}

fn noreply(tokens: &Tokens<'_>) -> Option<Span> {
    (tokens.last() == b"noreply").then(|| tokens.last_span())
}
