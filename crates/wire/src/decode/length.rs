//! Numbers of RESP: decimal digits up to a line break.
//!
//! A number is read again from its first digit when its line has not ended yet. It has at most 19 digits, so
//! that costs nothing and needs no state. Signs are refused: a request has no null parts.

use super::Stop;

/// Length of the shortest number with its line break, in bytes.
pub(super) const SHORTEST: usize = 3;

/// Most digits of a number: enough for every limit, and 19 nines still fit 64 bits.
const DIGITS_MAX: usize = 19;

/// Reads the number at `bytes[start]`; returns it and where its line ends. `invalid` is the error text.
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
