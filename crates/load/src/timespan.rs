//! Spans of time as people write them on a command line: `500ms`, `60s`, `2m`.

use std::time::Duration;

use posthaste_wire::command::DURATION_MAX_MS;
use serde::Serializer;

/// The longest time accepted, ten years as in requests: sums with it stay far from the end of any clock.
const LONGEST: Duration = Duration::from_millis(DURATION_MAX_MS);

/// Reads a number with its unit: `us`, `ms`, `s`, `m` or `h`; `0` needs none. Also as reports write times: `1.5µs`,
/// `7ns`.
///
/// # Errors
/// A sentence that says what is accepted.
pub fn parse(text: &str) -> Result<Duration, String> {
    let split = text.find(char::is_alphabetic).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let seconds_each = match unit {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "" if number == "0" => 1.0,
        _ => return Err(format!("'{text}' needs a unit, one of us, ms, s, m and h, as in 500ms or 60s")),
    };
    let plain = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    match number.parse::<f64>() {
        Ok(value) if plain => {
            let span = Duration::try_from_secs_f64(value * seconds_each).ok();
            let is_too_long = || format!("'{text}' is too long a time: at most ten years, 87600h");
            span.filter(|span| *span <= LONGEST).ok_or_else(is_too_long)
        }
        _ => Err(format!("'{text}' is not a time; write a number and a unit, as in 500ms or 60s")),
    }
}

/// Writes seconds, for fields whose name ends in `_s`.
///
/// # Errors
/// Those of the serializer.
pub fn seconds<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(span.as_secs_f64())
}

/// Writes milliseconds, for fields whose name ends in `_ms`.
///
/// # Errors
/// Those of the serializer.
pub fn milliseconds<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(span.as_secs_f64() * 1e3)
}

/// Converts to nanoseconds, at most as many as 64 bits hold (584 years).
#[must_use]
pub fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_units_are_times() {
        for (text, millis) in [
            ("500ms", 500),
            ("60s", 60_000),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("1.5s", 1500),
            ("0", 0),
            ("0ms", 0),
            ("87600h", 315_360_000_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(parse("250us"), Ok(Duration::from_micros(250)));
        for nanos in [7, 1_500, 999_999_999, 123_456_789_000] {
            let time = Duration::from_nanos(nanos);
            assert_eq!(parse(&format!("{time:?}")), Ok(time), "as it is written");
        }
    }

    #[test]
    fn anything_else_is_refused_with_an_example() {
        for text in [
            "",
            "60",
            "s",
            "-1s",
            "+1s",
            "1 s",
            "1d",
            "1.2.3s",
            "infs",
            "nans",
            "1e3s",
            "87600.1h",
            "99999999999999999999h",
        ] {
            let refusal = parse(text).expect_err(text);
            assert!(refusal.contains(text), "{refusal}");
        }
    }
}
