//! The format that all lines of a journal share.
//!
//! ```text
//! journal client=3 account=alice #5d1f7a0c
//! > 0 81723 send queue=orders priority=5 body=0f3a… #…
//! < 0 81790 ok ids=17 #…
//! ```
//!
//! A line is a mark, the operation's number, a time, a word, fields (`name=value` or a name alone) and a checksum.
//! Names of queues and accounts are percent-encoded; fields that have their default are left out.

use std::fmt::Write;

/// Appends the checksum and the line end.
pub(super) fn sealed(mut line: String) -> String {
    let checksum = crc32c::crc32c(line.as_bytes());
    let _ = writeln!(line, " #{checksum:08x}"); // a String takes everything
    line
}

/// Returns a line without checksum and line end; None unless both are right.
pub(super) fn unsealed(line: &str) -> Option<&str> {
    let (words, checksum) = line.strip_suffix('\n')?.rsplit_once(" #")?;
    (u32::from_str_radix(checksum, 16) == Ok(crc32c::crc32c(words.as_bytes()))).then_some(words)
}

/// Percent-encodes a word, so that none of its characters has a meaning in a line.
pub(super) fn encoded(word: &str) -> String {
    word.bytes().fold(String::with_capacity(word.len()), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"_.:/-".contains(&byte) {
            text.push(byte.into());
        } else {
            let _ = write!(text, "%{byte:02x}"); // a String takes everything
        }
        text
    })
}

/// Decodes a word that [`encoded`] made.
pub(super) fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let byte = match (first, after) {
            (b'%', [high, low, ..]) => {
                rest = &after[2..];
                let digit = |digit: u8| (digit as char).to_digit(16).unwrap_or(0) as u8;
                digit(*high) << 4 | digit(*low)
            }
            _ => {
                rest = after;
                *first
            }
        };
        bytes.push(byte);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
