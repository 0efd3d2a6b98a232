//! Cuts expiries down: what is stored in a pool that stands in for another must not stay there long.

use std::borrow::Cow;

use posthaste_wire::memcached::request::{Request, Verb};
use posthaste_wire::memcached::{META_WORDS_MAX, signed_32};

use crate::cache::pool::LONGEST_EXPIRY_S;

/// Returns the expiry to send for a value that has so many seconds left: for more than 30 days, a date. The date is
/// kept within 31 bits, since servers would read a later one, cut to 32 bits, as one that has passed.
pub(super) fn lasting(seconds: &[u8], now_s: u64) -> Cow<'_, [u8]> {
    let left = std::str::from_utf8(seconds).ok().and_then(|text| text.parse::<u64>().ok());
    match left {
        Some(left) if left > LONGEST_EXPIRY_S => {
            now_s.saturating_add(left).min(i32::MAX as u64).to_string().into_bytes().into()
        }
        _ => Cow::Borrowed(seconds),
    }
}

/// How long what is stored may live, at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MaxLife {
    /// Seconds.
    pub(super) seconds: u32,
    /// The current date, in Unix seconds: expiries of more than 30 days are dates.
    pub(super) now_s: u64,
}

impl MaxLife {
    /// Returns the expiry to send for the one that a client wrote, read as servers read it. A past one stays past.
    pub(super) fn cap(self, expiry: &[u8]) -> Vec<u8> {
        // Not a number: the server says so.
        let Some(asked) = signed_32(expiry).map(i64::from) else { return expiry.to_vec() };
        let (max_s, days_30, now_s) = (i64::from(self.seconds), LONGEST_EXPIRY_S as i64, self.now_s as i64);
        let capped = match asked {
            // Negative: expired.
            ..=-1 => asked,
            0 => max_s,
            seconds if seconds <= days_30 => seconds.min(max_s),
            date if date <= now_s => date,
            date => (date - now_s).min(max_s),
        };
        capped.to_string().into_bytes()
    }
}

/// Returns the expiry to send for the one that a client wrote: cut down to `max_life`, if that is given.
pub(super) fn capped(expiry: &[u8], max_life: Option<MaxLife>) -> Cow<'_, [u8]> {
    max_life.map_or(Cow::Borrowed(expiry), |max_life| max_life.cap(expiry).into())
}

/// Writes the beginning of a request's line, up to `end`, with its expiry cut down. An `ms` without one gets one.
pub(super) fn write_capped_line(
    request: &Request,
    bytes: &[u8],
    end: usize,
    max_life: MaxLife,
    out: &mut Vec<u8>,
) {
    let key_end = (request.key.start + request.key.len) as usize;
    let expiry_place = match request.verb {
        Verb::Touch => Some(0),
        verb if verb.is_meta() => None,
        _ => Some(1),
    };
    let (is_meta, mut has_ttl, mut creates) = (request.verb.is_meta(), false, false);
    out.extend_from_slice(&bytes[..key_end]);
    for (place, word) in request.words_after_key(bytes).enumerate() {
        if word.start as usize >= end {
            break;
        }
        out.push(b' ');
        match word.of(bytes) {
            word if expiry_place == Some(place) => out.extend(max_life.cap(word)),
            // T is the time to live, N that of what a miss creates. Servers refuse a repeated flag, so it is left as it
            // is: cut down, it could make the line longer than servers take.
            [b'T', expiry @ ..] if is_meta && !has_ttl => {
                has_ttl = true;
                out.push(b'T');
                out.extend(max_life.cap(expiry));
            }
            [b'N', expiry @ ..] if is_meta && !creates => {
                creates = true;
                out.push(b'N');
                out.extend(max_life.cap(expiry));
            }
            word => out.extend_from_slice(word),
        }
    }
    if request.verb == Verb::MetaSet && !has_ttl {
        out.extend_from_slice(format!(" T{}", max_life.seconds).as_bytes());
    }
}

/// Returns whether a request has no room for the time to live that `write_capped_line` adds.
pub(super) fn has_no_room_for_life(request: &Request, bytes: &[u8]) -> bool {
    let mut words = request.words_after_key(bytes).map(|word| word.of(bytes));
    // Two words more: the command and the key.
    request.verb == Verb::MetaSet
        && request.words_after_key(bytes).count() + 2 >= META_WORDS_MAX
        && !words.any(|word| word.starts_with(b"T"))
}

#[cfg(test)]
mod tests {
    use posthaste_wire::memcached::decode::{Decoded, Limits, decode};

    use super::*;

    const MAX_LIFE: MaxLife = MaxLife { seconds: 10, now_s: 1_800_000_000 };

    fn capped(text: &str) -> String {
        let limits = Limits { value_bytes: 100, line_bytes: 1000 };
        let Decoded::Request(request, _) = decode(text.as_bytes(), &limits) else { panic!("{text}") };
        let mut out = Vec::new();
        write_capped_line(&request, text.as_bytes(), text.find('\r').unwrap(), MAX_LIFE, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_expiry_is_never_later_than_allowed() {
        for (asked, sent) in [
            ("set k 1 0 2\r\nhi\r\n", "set k 1 10 2"),
            ("set k 1 5 2\r\nhi\r\n", "set k 1 5 2"),
            ("cas k 1 100 2 7\r\nhi\r\n", "cas k 1 10 2 7"),
            ("set k 1 -1 2\r\nhi\r\n", "set k 1 -1 2"),
            ("set k 1 1800000003 2\r\nhi\r\n", "set k 1 3 2"),
            ("set k 1 1700000000 2\r\nhi\r\n", "set k 1 1700000000 2"),
            ("touch k 0\r\n", "touch k 10"),
            // As C reads them: with white space before and behind them, and cut to 32 bits.
            ("set k 1 \t100 2\r\nhi\r\n", "set k 1 10 2"),
            ("set k 1 100\tx 2\r\nhi\r\n", "set k 1 10 2"),
            ("touch k 4294967396\r\n", "touch k 10"),
            ("touch k 4294967299\r\n", "touch k 3"),
            ("touch k 2147483648\r\n", "touch k -2147483648"),
            ("ms k 2 T\t100\r\nhi\r\n", "ms k 2 T10"),
            ("mg k Tx\r\n", "mg k Tx"),
            ("incr k 100\r\n", "incr k 100"),
            ("delete k\r\n", "delete k"),
            ("ms k 2 F7\r\nhi\r\n", "ms k 2 F7 T10"),
            ("ms k 2 T0 F7\r\nhi\r\n", "ms k 2 T10 F7"),
            ("ma k N0 J5\r\n", "ma k N10 J5"),
            ("mg k T3 v\r\n", "mg k T3 v"),
            ("mg k T0 N0 T0 N0\r\n", "mg k T10 N10 T0 N0"),
        ] {
            assert_eq!(capped(asked), sent);
        }
    }
}
