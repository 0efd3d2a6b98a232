//! Whole numbers as a user describes them: always the same (`1024`), any of a range (`100-2000`), or by weight
//! (`64:80,1024:15,65536:5`), where the weighted may be ranges again (`64-128:9,4096:1`).

use std::fmt;
use std::str::FromStr;

use fastrand::Rng;
use serde::{Serialize, Serializer};

/// A distribution of whole numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// Ranges, each with its weight and those before it summed up.
    ranges: Vec<Range>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    low: u32,
    high: u32,
    weight: u32,
    /// Sum of the weights of all ranges up to this one.
    weight_up_to: u64,
}

impl Numbers {
    /// Returns the distribution of a single number.
    #[must_use]
    pub fn fixed(number: u32) -> Self {
        Self { ranges: vec![Range { low: number, high: number, weight: 1, weight_up_to: 1 }] }
    }

    /// Draws a number.
    pub fn draw(&self, rng: &mut Rng) -> u32 {
        let range = match &self.ranges[..] {
            [only] => only,
            all => {
                let point = rng.u64(..all.last().map_or(1, |range| range.weight_up_to));
                &all[all.partition_point(|range| range.weight_up_to <= point)]
            }
        };
        if range.low == range.high { range.low } else { rng.u32(range.low..=range.high) }
    }

    /// Returns the smallest number that can be drawn.
    #[must_use]
    pub fn min(&self) -> u32 {
        self.ranges.iter().map(|range| range.low).min().unwrap_or(0)
    }

    /// Returns the largest number that can be drawn.
    #[must_use]
    pub fn max(&self) -> u32 {
        self.ranges.iter().map(|range| range.high).max().unwrap_or(0)
    }

    /// Returns whether this number can be drawn.
    #[must_use]
    pub fn contains(&self, number: u32) -> bool {
        self.ranges.iter().any(|range| (range.low..=range.high).contains(&number))
    }

    /// Returns the mean of the distribution.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let weights: f64 = self.ranges.iter().map(|range| f64::from(range.weight)).sum();
        let middle = |range: &Range| f64::midpoint(range.low.into(), range.high.into());
        self.ranges.iter().map(|range| middle(range) * f64::from(range.weight)).sum::<f64>() / weights
    }
}

impl FromStr for Numbers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut numbers = Self { ranges: Vec::new() };
        let mut sum = 0;
        let parts: Vec<&str> = text.split(',').collect();
        for part in &parts {
            let (range, weight) = match part.split_once(':') {
                Some((range, weight)) => (range, whole(weight, part)?),
                None if parts.len() == 1 => (*part, 1),
                None => return Err(format!("'{part}' has no weight; write 64:80,1024:20")),
            };
            let (low, high) = range.split_once('-').unwrap_or((range, range));
            let (low, high) = (whole(low, part)?, whole(high, part)?);
            if low > high {
                return Err(format!("'{part}' ends before it begins"));
            }
            if weight > 0 {
                sum += u64::from(weight);
                numbers.ranges.push(Range { low, high, weight, weight_up_to: sum });
            }
        }
        if numbers.ranges.is_empty() {
            Err(format!("'{text}' gives no number any weight"))
        } else {
            Ok(numbers)
        }
    }
}

fn whole(text: &str, part: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("'{part}' is not a number (1024), a range (100-2000) or NUMBER:WEIGHT"))
}

impl fmt::Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, Range { low, high, weight, .. }) in self.ranges.iter().enumerate() {
            f.write_str(if i == 0 { "" } else { "," })?;
            write!(f, "{low}")?;
            if low < high {
                write!(f, "-{high}")?;
            }
            if self.ranges.len() > 1 {
                write!(f, ":{weight}")?;
            }
        }
        Ok(())
    }
}

impl Serialize for Numbers {
    /// Writes a number if there is only one, else the text.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.ranges[..] {
            [Range { low, high, .. }] if low == high => serializer.serialize_u32(*low),
            _ => serializer.collect_str(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Numbers {
        text.parse().expect(text)
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        for text in ["1024", "100-2000", "64:80,1024:15,65536:5", "0", "64-128:9,4096:1"] {
            assert_eq!(parse(text).to_string(), text);
        }
        assert_eq!(serde_json::to_value(parse("7")).expect("JSON"), 7);
    }

    #[test]
    fn nonsense_is_refused_with_an_example() {
        for (text, about) in [
            ("", "not a number"),
            ("x", "not a number"),
            ("-5", "not a number"),
            ("5-", "not a number"),
            ("9-5", "ends before it begins"),
            ("64,128", "no weight"),
            ("64:0", "no number any weight"),
            ("64:x", "not a number"),
        ] {
            let refusal = text.parse::<Numbers>().expect_err(text);
            assert!(refusal.contains(about), "{text}: {refusal}");
        }
    }

    #[test]
    fn draws_follow_the_weights_and_fill_the_ranges() {
        let numbers = parse("10:80,100-103:15,1000:5");
        let mut rng = Rng::with_seed(1);
        let drawn: Vec<u32> = (0..100_000).map(|_| numbers.draw(&mut rng)).collect();
        let share = |from, to| drawn.iter().filter(|n| (from..=to).contains(*n)).count() as f64 / 100_000.0;
        for (from, to, expected) in
            [(10, 10, 0.8), (100, 100, 0.0375), (103, 103, 0.0375), (1000, 1000, 0.05)]
        {
            assert!((share(from, to) - expected).abs() < 0.005, "{from}-{to}: {}", share(from, to));
        }
        assert!(drawn.iter().all(|n| numbers.contains(*n)));
        let mean = drawn.iter().map(|n| f64::from(*n)).sum::<f64>() / 100_000.0;
        assert!((numbers.mean() / mean - 1.0).abs() < 0.02, "{} {mean}", numbers.mean());
        assert_eq!((numbers.min(), numbers.max()), (10, 1000));
    }
}
