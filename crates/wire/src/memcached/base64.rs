//! Base64 decoding for keys in meta commands: the standard alphabet, padded.
//!
//! A key must go to the same server whether a client spells it in base64 or not, so a router has to know the
//! bytes behind it. Keys are short, so a simple loop is fast enough.

/// Decodes into `out` and returns the part that was filled. None when `text` is not base64 or does not fit.
#[must_use]
pub fn decode<'a>(text: &[u8], out: &'a mut [u8]) -> Option<&'a [u8]> {
    let padding = text.iter().rev().take(2).take_while(|byte| **byte == b'=').count();
    let digits = &text[..text.len() - padding];
    if text.is_empty() || !text.len().is_multiple_of(4) {
        return None;
    }
    let mut filled = 0;
    for group in digits.chunks(4) {
        let bits = group.iter().try_fold(0_u32, |bits, byte| Some(bits << 6 | digit(*byte)?))?;
        let bits = bits << (6 * (4 - group.len()));
        for byte in bits.to_be_bytes().iter().skip(1).take(group.len() - 1) {
            *out.get_mut(filled)? = *byte;
            filled += 1;
        }
    }
    Some(&out[..filled])
}

fn digit(byte: u8) -> Option<u32> {
    let value = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
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
    fn what_is_not_base64_is_refused_and_nothing_overflows() {
        let mut out = [0; 4];
        for text in ["", "Zg", "Zg=", "Z===", "====", "Zm9v!g==", "Z=g=", "Zm9vYmFy"] {
            assert_eq!(decode(text.as_bytes(), &mut out), None, "{text}");
        }
    }
}
