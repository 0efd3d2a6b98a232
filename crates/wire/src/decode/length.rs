//! The numbers of RESP: decimal digits up to a line break.
//!
//! A number is read anew when its line has not ended yet; it has at most 19 digits, so that costs nothing
//! and needs no state. Signs are refused: a request has no null parts.

use super::Stop;

/// The shortest number with its line break, in bytes.
pub(super) const SHORTEST: usize = 3;

/// Enough for every limit, and the product of so many nines still fits 64 bits.
const DIGITS_MAX: usize = 19;

/// The number at `bytes[start]` and where its line has ended; `invalid` is said when there is none.
pub(super) fn read(bytes: &[u8], start: usize, invalid: &'static str) -> Result<(u64, usize), Stop> {
    let mut value = 0;
    let mut at = start;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'0'..=b'9' if at - start < DIGITS_MAX => value = value * 10 + u64::from(byte - b'0'),
            b'\r' if at > start => return line_feed(bytes, at + 1, invalid).map(|end| (value, end)),
            _ => return Err(Stop::malformed(invalid)),
        }
        at += 1;
    }
    Err(Stop::NeedBytes(if at > start { SHORTEST - 1 } else { SHORTEST }))
}

fn line_feed(bytes: &[u8], at: usize, invalid: &'static str) -> Result<usize, Stop> {
    match bytes.get(at) {
        Some(b'\n') => Ok(at + 1),
        Some(_) => Err(Stop::malformed(invalid)),
        None => Err(Stop::NeedBytes(1)),
    }
}
