//! One line typed by a person: words between blanks, quotes round what holds blanks, as Redis and redis-cli read them.
//!
//! ```text
//!   "…"   \n \r \t \b \a, \xHH, and a backslash before anything else is that itself
//!   '…'   \' is a single quote, and nothing else is special
//! ```
//!
//! Arguments are spans of the line, so nearly every line costs no copy. A word that is not what stands there, for it
//! has an escape in it or a quote inside, has its line written anew, and the arguments are spans of that. Unescaping in
//! place was rejected: a line may be read again, when what came before it has been answered.

use memchr::memchr2;

use crate::span::Span;

const UNBALANCED: &str = "Protocol error: unbalanced quotes in request: whatever opens a quote needs one that closes it, \
                          with a blank or nothing behind it";
const HTTP: &str = "Protocol error: this is HTTP, but here RESP is spoken";

/// Why the words of a line cannot be stretches of it.
enum Other {
    /// A word stands for other bytes.
    Written,
    /// It is no line of words.
    Wrong,
}

/// Appends the words of `line`, counted from its first byte; or from that of the line written anew, which is given then.
pub(super) fn split(line: &[u8], words: &mut Vec<Span>) -> Result<Option<Vec<u8>>, &'static str> {
    let before = words.len();
    let written = match stretches(line, words) {
        Ok(()) => None,
        Err(Other::Wrong) => return Err(UNBALANCED),
        Err(Other::Written) => {
            words.truncate(before);
            Some(written_anew(line, words)?)
        }
    };
    refuse_http(written.as_deref().unwrap_or(line), words)?;
    Ok(written)
}

fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

fn is_quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'')
}

/// Appends the words of a line in which they stand as they are.
fn stretches(line: &[u8], words: &mut Vec<Span>) -> Result<(), Other> {
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

/// Where the unquoted word that begins at `start` ends.
fn bare_end(line: &[u8], start: usize) -> Result<usize, Other> {
    let stop = line[start..].iter().position(|&byte| is_blank(byte) || is_quote(byte));
    let end = stop.map_or(line.len(), |stop| start + stop);
    if line.get(end).is_some_and(|&byte| !is_blank(byte)) { Err(Other::Written) } else { Ok(end) }
}

/// Where the quote that opens at `open` is closed; a blank or nothing must follow.
fn closing(line: &[u8], open: usize) -> Result<usize, Other> {
    let quote = line[open];
    let mut at = open + 1;
    while let Some(found) = line.get(at..).and_then(|rest| memchr2(quote, b'\\', rest)) {
        at += found;
        let next = line.get(at + 1);
        if line[at] == quote {
            return if next.is_none_or(|&byte| is_blank(byte)) { Ok(at) } else { Err(Other::Wrong) };
        }
        if quote == b'"' || next == Some(&quote) {
            return Err(Other::Written);
        }
        at += 1;
    }
    Err(Other::Wrong)
}

/// The words of a line one behind the other, each what it stands for.
fn written_anew(line: &[u8], words: &mut Vec<Span>) -> Result<Vec<u8>, &'static str> {
    let mut written = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some(first) = rest.iter().position(|&byte| !is_blank(byte)) {
        let start = written.len();
        rest = word(&rest[first..], &mut written)?;
        words.push(Span { start: start as u32, len: (written.len() - start) as u32 });
    }
    Ok(written)
}

/// Writes the first word, which ends with a blank, with its quote, or with the line; what is behind it.
fn word<'a>(mut rest: &'a [u8], written: &mut Vec<u8>) -> Result<&'a [u8], &'static str> {
    while let Some((&byte, behind)) = rest.split_first() {
        match byte {
            b'"' | b'\'' => return quoted(byte, behind, written),
            byte if is_blank(byte) => break,
            byte => written.push(byte),
        }
        rest = behind;
    }
    Ok(rest)
}

/// Writes what stands between quotes, of which the first is passed; what is behind the other.
fn quoted<'a>(quote: u8, mut rest: &'a [u8], written: &mut Vec<u8>) -> Result<&'a [u8], &'static str> {
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
        written.push(meant);
        rest = &rest[length..];
    }
}

/// What a backslash between double quotes means before these bytes, and of how many; None: nothing is behind it.
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

/// A web page can make a browser send anything as the body of a POST; its head comes first and ends the connection.
fn refuse_http(bytes: &[u8], words: &[Span]) -> Result<(), &'static str> {
    let first = words.first().map_or(&[][..], |word| word.of(bytes));
    if first.eq_ignore_ascii_case(b"post") || first.eq_ignore_ascii_case(b"host:") {
        Err(HTTP)
    } else {
        Ok(())
    }
}
