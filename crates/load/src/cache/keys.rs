//! The keys of a run: a prefix and a number, and which of them a request is about.

use std::fmt;
use std::str::FromStr;

use fastrand::Rng;
use serde::{Serialize, Serializer};

use crate::cache::gauss::Gauss;
use crate::cache::zipf::{EXPONENT_MAX, Zipf};

/// Length of the longest key that servers accept.
pub const KEY_BYTES_MAX: usize = 250;

/// All keys of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySpace {
    /// What every key begins with.
    pub prefix: String,
    /// Number of the first key.
    pub first: u64,
    /// Number of keys.
    pub count: u64,
}

impl KeySpace {
    /// Appends a key.
    pub fn write(&self, number: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(self.prefix.as_bytes());
        out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }

    /// Returns the number of a key; None when it is no key of the run.
    #[must_use]
    pub fn number(&self, key: &[u8]) -> Option<u64> {
        let digits = key.strip_prefix(self.prefix.as_bytes())?;
        // Nothing else may stand for the same number: no sign, no leading zero.
        if !digits.first().is_some_and(u8::is_ascii_digit) || (digits.len() > 1 && digits[0] == b'0') {
            return None;
        }
        let number: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
        (self.first..self.first + self.count).contains(&number).then_some(number)
    }

    /// Returns the length of the longest key, in bytes.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.prefix.len() + itoa::Buffer::new().format(self.first + (self.count - 1)).len()
    }
}

/// How requests are spread over the keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KeyDistribution {
    /// All keys are equally likely.
    Uniform,
    /// Zipf's law with this exponent; the first key is the most popular.
    Zipf(f64),
    /// A normal distribution of key numbers, cut to the keys that there are; None: the one of [`Normal::of`].
    Gauss(Option<Normal>),
    /// Each client sets one key after the other, from the first to the last and again, and gets them in the same way.
    Sequential,
}

/// Parameters of a normal distribution of key numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normal {
    /// The mean, at whose number the keys are the most popular.
    pub mean: f64,
    /// The standard deviation, before the distribution is cut to the keys.
    pub deviation: f64,
}

impl FromStr for Normal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once(':').map(|(mean, deviation)| (mean.parse(), deviation.parse()));
        match numbers {
            Some((Ok(mean), Ok(deviation))) if mean >= 0.0 && deviation > 0.0_f64 => {
                Ok(Self { mean, deviation })
            }
            _ => {
                Err("write gauss, or gauss:MEAN:DEVIATION with key numbers, such as gauss:5000:800"
                    .to_owned())
            }
        }
    }
}

impl Normal {
    /// Returns what was given, or the middle of the keys and a sixth of the distance from the first to the last, as in
    /// memtier_benchmark.
    #[must_use]
    pub fn of(given: Option<Self>, keys: &KeySpace) -> Self {
        let (mean, deviation) = Gauss::usual(keys.first, keys.count);
        given.unwrap_or(Self { mean, deviation })
    }
}

impl KeyDistribution {
    /// Looks for a normal distribution that does not fit the keys.
    ///
    /// # Errors
    /// What does not fit, and what would.
    pub fn validate(self, keys: &KeySpace) -> Result<(), String> {
        let Self::Gauss(given) = self else { return Ok(()) };
        let Normal { mean, deviation } = Normal::of(given, keys);
        let (first, end) = (keys.first as f64, (keys.first + keys.count) as f64);
        if !(first..end).contains(&mean) {
            return Err(format!("the mean of {self} must be a key's number, from {first} to {}", end - 1.0));
        }
        if deviation > keys.count as f64 {
            return Err(format!(
                "the deviation of {self} must be at most the number of keys, {}; uniform has all alike",
                keys.count
            ));
        }
        Ok(())
    }
}

impl FromStr for KeyDistribution {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("zipf:").map(str::parse::<f64>)) {
            ("uniform", _) => Ok(Self::Uniform),
            ("sequential", _) => Ok(Self::Sequential),
            ("gauss", _) => Ok(Self::Gauss(None)),
            (normal, _) if normal.starts_with("gauss:") => {
                normal["gauss:".len()..].parse().map(|normal| Self::Gauss(Some(normal)))
            }
            (_, Some(Ok(exponent))) if exponent > 0.0 && exponent <= EXPONENT_MAX => Ok(Self::Zipf(exponent)),
            (_, Some(_)) => {
                Err(format!("the exponent of zipf is above 0 and at most {EXPONENT_MAX}, as in zipf:0.99"))
            }
            _ => Err("write uniform, zipf:EXPONENT such as zipf:0.99, gauss, or sequential".to_owned()),
        }
    }
}

impl fmt::Display for KeyDistribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Zipf(exponent) => write!(f, "zipf:{exponent}"),
            Self::Gauss(None) => f.write_str("gauss"),
            Self::Gauss(Some(Normal { mean, deviation })) => write!(f, "gauss:{mean}:{deviation}"),
            Self::Sequential => f.write_str("sequential"),
        }
    }
}

impl Serialize for KeyDistribution {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One client's choice of keys.
#[derive(Clone, Copy, Debug)]
pub struct Chooser {
    first: u64,
    count: u64,
    how: How,
}

#[derive(Clone, Copy, Debug)]
enum How {
    Uniform,
    Zipf(Zipf),
    Gauss(Gauss),
    Next(u64),
}

impl Chooser {
    /// Creates the choice of a client.
    #[must_use]
    pub fn new(keys: &KeySpace, distribution: KeyDistribution) -> Self {
        let how = match distribution {
            KeyDistribution::Uniform => How::Uniform,
            KeyDistribution::Zipf(exponent) => How::Zipf(Zipf::new(keys.count, exponent)),
            KeyDistribution::Gauss(given) => {
                let Normal { mean, deviation } = Normal::of(given, keys);
                How::Gauss(Gauss::new(keys.first, keys.count, mean, deviation))
            }
            KeyDistribution::Sequential => How::Next(0),
        };
        Self { first: keys.first, count: keys.count, how }
    }

    /// Returns the number of the next key.
    pub fn choose(&mut self, rng: &mut Rng) -> u64 {
        match &mut self.how {
            How::Uniform => self.first + rng.u64(..self.count),
            How::Zipf(zipf) => self.first + zipf.draw(rng) - 1,
            How::Gauss(gauss) => gauss.draw(rng),
            How::Next(place) => {
                let chosen = *place;
                *place = (chosen + 1) % self.count;
                self.first + chosen
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space() -> KeySpace {
        KeySpace { prefix: "key-".into(), first: 5, count: 10 }
    }

    #[test]
    fn a_key_is_its_number_and_nothing_else_is() {
        let keys = space();
        let mut out = Vec::new();
        keys.write(7, &mut out);
        assert_eq!((out.as_slice(), keys.number(&out)), (&b"key-7"[..], Some(7)));
        for wrong in ["key-4", "key-15", "key-07", "key-+7", "key-", "kez-7", "7", "key-7 "] {
            assert_eq!(keys.number(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(keys.longest(), 6);
    }

    #[test]
    fn every_key_is_chosen_and_no_other() {
        for distribution in ["uniform", "zipf:0.99", "gauss:10:3", "sequential"] {
            let distribution = distribution.parse::<KeyDistribution>().expect(distribution);
            let (mut chooser, mut rng) = (Chooser::new(&space(), distribution), Rng::with_seed(3));
            let mut seen = [0; 20];
            (0..1000).for_each(|_| seen[chooser.choose(&mut rng) as usize] += 1);
            assert!(seen[5..15].iter().all(|n| *n > 0), "{distribution}: {seen:?}");
            assert_eq!(seen[5..15].iter().sum::<u32>(), 1000);
        }
    }

    #[test]
    fn in_sequence_every_key_has_its_turn() {
        let (mut chooser, mut rng) = (Chooser::new(&space(), KeyDistribution::Sequential), Rng::with_seed(3));
        let chosen: Vec<u64> = (0..12).map(|_| chooser.choose(&mut rng)).collect();
        assert_eq!(chosen, [5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 5, 6]);
    }

    #[test]
    fn distributions_are_read_as_they_are_written() {
        for text in ["uniform", "zipf:0.99", "gauss", "gauss:5000.5:800", "sequential"] {
            assert_eq!(text.parse::<KeyDistribution>().expect(text).to_string(), text);
        }
        for wrong in [
            "zipf",
            "zipf:0",
            "zipf:-1",
            "zipf:x",
            "zipf:NaN",
            "gaus",
            "gauss:",
            "gauss:5",
            "gauss:5:0",
            "gauss:5:-1",
            "gauss:-1:5",
            "gauss:NaN:5",
            "gauss:5:x",
        ] {
            assert!(wrong.parse::<KeyDistribution>().is_err(), "{wrong}");
        }
    }
}
