//! One line typed by a person: words between blanks, with quotes around a word that holds blanks, as Redis
//! and redis-cli read them.
//!
//! ```text
//!   "…"   \n \r \t \b \a, \xHH; a backslash before anything else stands for that character
//!   '…'   \' is a single quote, and nothing else is special
//! ```
//!
//! Arguments are spans of the line, so nearly every line costs no copy. If a word has an escape or a quote
//! inside, the whole line is unescaped into a new buffer, and the arguments are spans of that. Unescaping in
//! place was rejected: a line may be read again once the requests before it have been answered.

use memchr::memchr2;

use crate::span::Span;

const UNBALANCED: &str = "Protocol error: unbalanced quotes in request: whatever opens a quote needs one that closes it, \
                          with a blank or nothing behind it";
const HTTP: &str = "Protocol error: this is HTTP, but here RESP is spoken";

/// Why the words of a line cannot be spans of it.
enum NotBorrowed {
    /// A word has an escape or a quote inside, so it differs from the bytes sent.
    NeedsUnescaping,
    /// The quotes are unbalanced.
    Unbalanced,
}

/// Appends the words of `line` as spans of it. If a word must be unescaped, returns the unescaped line, and
/// the spans are of that.
pub(super) fn split(line: &[u8], words: &mut Vec<Span>) -> Result<Option<Vec<u8>>, &'static str> {
    let before = words.len();
    let unescaped = match split_borrowed(line, words) {
        Ok(()) => None,
        Err(NotBorrowed::Unbalanced) => return Err(UNBALANCED),
        Err(NotBorrowed::NeedsUnescaping) => {
            words.truncate(before);
            Some(unescape(line, words)?)
        }
    };
    refuse_http(unescaped.as_deref().unwrap_or(line), words)?;
    Ok(unescaped)
}

fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

fn is_quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'')
}

/// Appends the words of a line if all of them are spans of it.
fn split_borrowed(line: &[u8], words: &mut Vec<Span>) -> Result<(), NotBorrowed> {
    let mut at = 0;
    while let Some(&first) = line.get(at) {
        if is_blank(first) {
            at += 1;
            continue;
        }
        let quoted = is_quote(first);
        let (start, end) = if quoted { (at + 1, closing(line, at)?) } else { (at, bare_end(line, at)?) };
        words.push(Span { start: start as u32, len: (end - start) as u32 });
        at = end + usize::from(quoted);
    }
    Ok(())
}

/// Returns where the unquoted word that begins at `start` ends.
fn bare_end(line: &[u8], start: usize) -> Result<usize, NotBorrowed> {
    let stop = line[start..].iter().position(|&byte| is_blank(byte) || is_quote(byte));
    let end = stop.map_or(line.len(), |stop| start + stop);
    if line.get(end).is_some_and(|&byte| !is_blank(byte)) {
        Err(NotBorrowed::NeedsUnescaping)
    } else {
        Ok(end)
    }
}

/// Returns where the quote that opens at `open` is closed; a blank or nothing must follow.
fn closing(line: &[u8], open: usize) -> Result<usize, NotBorrowed> {
    let quote = line[open];
    let mut at = open + 1;
    while let Some(found) = line.get(at..).and_then(|rest| memchr2(quote, b'\\', rest)) {
        at += found;
        let next = line.get(at + 1);
        if line[at] == quote {
            return if next.is_none_or(|&byte| is_blank(byte)) {
                Ok(at)
            } else {
                Err(NotBorrowed::Unbalanced)
            };
        }
        if quote == b'"' || next == Some(&quote) {
            return Err(NotBorrowed::NeedsUnescaping);
        }
        at += 1;
    }
    Err(NotBorrowed::Unbalanced)
}

/// Returns the unescaped words of a line, one directly after the other, and appends their spans.
fn unescape(line: &[u8], words: &mut Vec<Span>) -> Result<Vec<u8>, &'static str> {
    let mut unescaped = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some(first) = rest.iter().position(|&byte| !is_blank(byte)) {
        let start = unescaped.len();
        rest = word(&rest[first..], &mut unescaped)?;
        words.push(Span { start: start as u32, len: (unescaped.len() - start) as u32 });
    }
    Ok(unescaped)
}

/// Writes the first word, which ends at a blank, with its quote, or with the line. Returns the bytes behind it.
fn word<'a>(mut rest: &'a [u8], unescaped: &mut Vec<u8>) -> Result<&'a [u8], &'static str> {
    while let Some((&byte, behind)) = rest.split_first() {
        match byte {
            b'"' | b'\'' => return quoted(byte, behind, unescaped),
            byte if is_blank(byte) => break,
            byte => unescaped.push(byte),
        }
        rest = behind;
    }
    Ok(rest)
}

/// Writes the text between two quotes, the first of which is already passed. Returns the bytes behind the second.
fn quoted<'a>(quote: u8, mut rest: &'a [u8], unescaped: &mut Vec<u8>) -> Result<&'a [u8], &'static str> {
    loop {
        let (&byte, behind) = rest.split_first().ok_or(UNBALANCED)?;
        rest = behind;
        if byte == quote {
            return if rest.first().is_none_or(|&byte| is_blank(byte)) { Ok(rest) } else { Err(UNBALANCED) };
        }
        let (meant, length) = match (byte, quote) {
            (b'\\', b'"') => escaped(rest).ok_or(UNBALANCED)?,
            (b'\\', _) if rest.first() == Some(&quote) => (quote, 1),
            _ => (byte, 0),
        };
        unescaped.push(meant);
        rest = &rest[length..];
    }
}

/// Returns what a backslash between double quotes means before `rest`, and how many bytes of `rest` belong to
/// it. None: nothing is behind the backslash.
fn escaped(rest: &[u8]) -> Option<(u8, usize)> {
    let digit = |at: usize| rest.get(at).and_then(|&byte| char::from(byte).to_digit(16));
    if let (Some(b'x'), Some(high), Some(low)) = (rest.first(), digit(1), digit(2)) {
        return Some(((high * 16 + low) as u8, 3));
    }
    let meant = match *rest.first()? {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    };
    Some((meant, 1))
}

/// Refuses HTTP. A web page can make a browser send anything as the body of a POST; the head comes first, and
/// refusing that ends the connection.
fn refuse_http(bytes: &[u8], words: &[Span]) -> Result<(), &'static str> {
    let first = words.first().map_or(&[][..], |word| word.of(bytes));
    if first.eq_ignore_ascii_case(b"post") || first.eq_ignore_ascii_case(b"host:") {
        Err(HTTP)
    } else {
        Ok(())
    }
}
