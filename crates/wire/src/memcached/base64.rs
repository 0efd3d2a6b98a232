//! Base64 decoding for keys in meta commands: the standard alphabet, padded, read as memcached reads it.
//!
//! A key must go to the same server whether a client spells it in base64 or not, so a router has to know the bytes
//! behind it, in every spelling that a server accepts: memcached skips characters of no meaning, and ends the key where
//! padding ends it. Keys are short, so a simple loop is fast enough.

/// Stands for `=`, whose bits are zeros.
const PADDING: u32 = 1 << 6;

/// Decodes into `out` and returns the part that was filled. None when a server would refuse `text`, or it does not fit.
#[must_use]
pub fn decode<'a>(text: &[u8], out: &'a mut [u8]) -> Option<&'a [u8]> {
    let digits = || text.iter().filter_map(|byte| digit(*byte));
    let count = digits().count();
    if count == 0 || !count.is_multiple_of(4) {
        return None;
    }
    let (mut filled, mut bits, mut padding) = (0, 0_u32, 0);
    for (place, digit) in digits().enumerate() {
        bits = bits << 6 | digit & (PADDING - 1);
        padding += usize::from(digit == PADDING);
        if place % 4 < 3 {
            continue;
        }
        if padding > 2 {
            return None;
        }
        for byte in &bits.to_be_bytes()[1..4 - padding] {
            *out.get_mut(filled)? = *byte;
            filled += 1;
        }
        if padding > 0 {
            break;
        }
        bits = 0;
    }
    Some(&out[..filled])
}

/// Returns the bits of a character; `None`: it has no meaning.
fn digit(byte: u8) -> Option<u32> {
    let value = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        b'=' => return Some(PADDING),
        _ => return None,
    };
    Some(u32::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_out_as_they_went_in() {
        let mut out = [0; 16];
        for (text, bytes) in [("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9vYg==", "foob")] {
            assert_eq!(decode(text.as_bytes(), &mut out), Some(bytes.as_bytes()));
        }
        assert_eq!(decode(b"+/+/", &mut out), Some(&[0xfb, 0xff, 0xbf][..]));
    }

    #[test]
    fn what_servers_skip_is_skipped() {
        let mut out = [0; 16];
        for (text, bytes) in [
            ("Zm9v!", "foo"),
            ("Z\tm-9_v", "foo"),
            ("Zg==Zm9v", "f"),
            ("Zm==9vYg", "f"),
            ("Zh==", "f"),
            ("Zm9=", "fo"),
            ("Z=g=", "d"),
            ("Z=9v", "d\x0f"),
            ("=m9v", "\x02o"),
        ] {
            assert_eq!(decode(text.as_bytes(), &mut out), Some(bytes.as_bytes()), "{text:?}");
        }
    }

    #[test]
    fn what_is_not_base64_is_refused_and_nothing_overflows() {
        let mut out = [0; 4];
        for text in ["", "!", "Zg", "Zg=", "Z===", "====", "Zm9v!g==", "Zm9vZ===", "Zm9vYmFy"] {
            assert_eq!(decode(text.as_bytes(), &mut out), None, "{text}");
        }
    }
}
