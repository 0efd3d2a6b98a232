//! Numbers as memcached reads them, with C's `strtol` and its relatives:
//!
//! - white space before the number is skipped, and a sign is accepted;
//! - what does not fit 64 bits is refused, and the rest is silently cut to 32 bits;
//! - anything may follow a white space behind the digits.
//!
//! A length read otherwise than the server reads it would put us out of step with it. memcached from 1.6.40
//! on takes plain digits only, so a length spelled otherwise is respelled before a server sees it.

/// Returns whether C's `isspace` calls this byte white space.
fn is_space(byte: u8) -> bool {
    byte == b' ' || (b'\t'..=b'\r').contains(&byte)
}

/// Parses sign and magnitude. None: C sees no number, or one too large for 64 bits even without a sign.
fn parse(text: &[u8]) -> Option<(bool, u64)> {
    let text = &text[text.iter().take_while(|byte| is_space(**byte)).count()..];
    let (negative, digits) = match text.first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let count = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if count == 0 || digits.get(count).is_some_and(|byte| !is_space(*byte)) {
        return None;
    }
    let add = |sum: u64, digit: &u8| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
    Some((negative, digits[..count].iter().try_fold(0, add)?))
}

/// Parses a signed number as memcached's `safe_strtol` does: cut to 32 bits.
#[must_use]
pub fn signed_32(text: &[u8]) -> Option<i32> {
    let (negative, magnitude) = parse(text)?;
    let fits = magnitude <= i64::MAX as u64 || (negative && magnitude == 1 << 63);
    let value = if negative { magnitude.wrapping_neg() } else { magnitude };
    fits.then_some(value as i32)
}

/// Returns whether memcached's `safe_strtoul` accepts this as a number; `safe_strtoull` accepts the same.
pub(super) fn is_unsigned(text: &[u8]) -> bool {
    parse(text).is_some_and(|(negative, magnitude)| {
        let value = if negative { magnitude.wrapping_neg() } else { magnitude };
        // A number that would be negative if it were signed is refused if a minus stands anywhere in the text.
        value <= i64::MAX as u64 || !text.contains(&b'-')
    })
}

/// Returns whether `text` is the decimal digits of `number` and nothing else.
pub(super) fn is_plain(text: &[u8], number: usize) -> bool {
    let mut rest = number;
    let is_next = |digit: &u8| {
        let is_it = usize::from(digit.wrapping_sub(b'0')) == rest % 10;
        rest /= 10;
        is_it
    };
    let digits = number.checked_ilog10().unwrap_or_default() as usize + 1;
    text.len() == digits && text.iter().rev().all(is_next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signed_numbers_are_those_of_strtol_cut_to_32_bits() {
        for (text, value) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("+7", Some(7)),
            ("\t7", Some(7)),
            ("7\tx", Some(7)),
            ("7x", None),
            ("", None),
            ("-", None),
            ("4294967297", Some(1)),
            ("2147483648", Some(i32::MIN)),
            ("9223372036854775807", Some(-1)),
            ("9223372036854775808", None),
            ("-9223372036854775808", Some(0)),
            ("99999999999999999999", None),
        ] {
            assert_eq!(signed_32(text.as_bytes()), value, "{text}");
        }
    }

    #[test]
    fn a_plain_number_has_its_digits_and_nothing_else() {
        for number in [0, 7, 10, 1_048_576, 2_147_483_645] {
            assert!(is_plain(number.to_string().as_bytes(), number), "{number}");
        }
        for text in ["+2", "02", "\t2", "2\tz", "4294967298", "12", "", "-2", "2\r"] {
            assert!(!is_plain(text.as_bytes(), 2), "{text:?}");
        }
        assert!(!is_plain(b"-0", 0) && !is_plain(b"00", 0));
    }

    #[test]
    fn unsigned_numbers_may_be_negative_only_where_they_wrap_to_small_ones() {
        for (text, is_one) in [
            ("0", true),
            ("-0", true),
            ("-1", false),
            ("18446744073709551615", true),
            ("18446744073709551616", false),
            ("-18446744073709551615", true),
            ("1 ", true),
            ("x", false),
        ] {
            assert_eq!(is_unsigned(text.as_bytes()), is_one, "{text}");
        }
    }
}
