//! The checks of `--check`: every value is one that was stored under a key that was asked for, whole and unaltered.
//!
//! A cache may forget, so a miss is no violation. It may not give one key's value for another's, cut a value, or change
//! a byte of it.

use std::fmt;

use posthaste_wire::memcached::answer::values;
use serde::Serialize;

use crate::bench::Check;
use crate::cache::dialogue::Recipe;
use crate::cache::value::{HEADER_BYTES, Wrong};
use crate::violations::Violations;

/// What `--check` found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CacheCheck {
    /// Values of which every byte was compared.
    pub values: u64,
    /// Broken promises.
    pub violations: u64,
    /// The first ten of them.
    pub first_violations: Vec<String>,
}

impl fmt::Display for CacheCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} values verified", self.values)
    }
}

impl Check for CacheCheck {
    fn violations(&self) -> u64 {
        self.violations
    }

    fn first_violations(&self) -> &[String] {
        &self.first_violations
    }
}

/// Checks the answers of one thread's clients.
#[derive(Debug, Default)]
pub struct Inspector {
    findings: Findings,
}

/// What an inspector counted.
#[derive(Debug, Default)]
pub struct Findings {
    /// Values compared.
    pub values: u64,
    /// Broken promises.
    pub violations: Violations,
}

/// Marks a key whose value has arrived; no key of a run is as large.
const SEEN: u64 = u64::MAX;

impl Inspector {
    /// Checks the values of an answer to `client`, which asked for `keys`; these are overwritten.
    pub fn inspect(&mut self, recipe: &Recipe, client: u32, keys: &mut [u64], answer: &[u8]) {
        let mut next = 0;
        for (key, data) in values(answer) {
            self.findings.values += 1;
            let name = || String::from_utf8_lossy(key).into_owned();
            let blame = |what: String| format!("client {client}, get {}: {what}", name());
            let number = recipe.space.number(key);
            // Servers answer in the order asked, so the key is nearly always the next one.
            let place = number.and_then(|number| {
                let from_next = keys[next..].iter().position(|asked| *asked == number);
                from_next.map(|i| next + i).or_else(|| keys.iter().position(|asked| *asked == number))
            });
            let (Some(number), Some(place)) = (number, place) else {
                self.findings
                    .violations
                    .add(|| blame("a value of this key came, which was not asked for".to_owned()));
                continue;
            };
            keys[place] = SEEN;
            next = place + 1;
            if let Err(wrong) = verify(recipe, number, data) {
                self.findings.violations.add(|| blame(tell(wrong, data)));
            }
        }
    }

    /// Returns what was counted, at the end.
    #[must_use]
    pub fn findings(self) -> Findings {
        self.findings
    }
}

fn verify(recipe: &Recipe, key: u64, data: &[u8]) -> Result<(), Wrong> {
    // Values shorter than their header do not tell their length themselves.
    let is_short = data.len() < HEADER_BYTES;
    if is_short && !recipe.value_bytes.contains(data.len() as u32) {
        return Err(Wrong::Length(recipe.value_bytes.min()));
    }
    recipe.pool.verify(key, data)
}

fn tell(wrong: Wrong, data: &[u8]) -> String {
    let bytes = data.len();
    match wrong {
        Wrong::Foreign => format!(
            "its {bytes} bytes are not a value of this program; empty the server or choose another --key-prefix"
        ),
        Wrong::Header => format!("the first {HEADER_BYTES} of its {bytes} bytes are not what was stored"),
        Wrong::OtherKey(key) => format!("the value is that of key number {key}"),
        Wrong::Length(least) if data.len() < HEADER_BYTES => format!(
            "the value has {bytes} bytes, where this run stores {least} or more: it was cut, or is of another run; empty the \
             server or choose another --key-prefix"
        ),
        Wrong::Length(stored) => format!("the value has {bytes} bytes, and was stored with {stored} or more"),
        Wrong::Byte(place) => format!("byte {place} of {bytes} is not what was stored"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::cycle::Cycle;
    use crate::cache::keys::{KeyDistribution, KeySpace};
    use crate::cache::value::{Pool, Version};
    use crate::numbers::Numbers;

    fn recipe(bytes: u32) -> Recipe {
        Recipe {
            space: KeySpace { prefix: "k".into(), first: 0, count: 100 },
            cycle: Cycle::new("0:1".parse().expect("a ratio"), Numbers::fixed(2)),
            distribution: KeyDistribution::Uniform,
            value_bytes: Numbers::fixed(bytes),
            expiry_s: Numbers::fixed(0),
            pool: Pool::default(),
            run: 1,
        }
    }

    /// An answer with values made for the second key and sent for the first of each pair.
    fn answer(recipe: &Recipe, values: &[(&str, u64)], change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        for (name, key) in values {
            let mut value = Vec::new();
            let len = recipe.value_bytes.min() as usize;
            recipe.pool.write(*key, Version { run: 1, write: 5 }, len, &mut value);
            change(&mut value);
            out.extend(format!("VALUE {name} 0 {}\r\n", value.len()).into_bytes());
            out.extend(value);
            out.extend(b"\r\n");
        }
        out.extend(b"END\r\n");
        out
    }

    fn findings(recipe: &Recipe, asked: &[u64], answer: &[u8]) -> Findings {
        let mut inspector = Inspector::default();
        inspector.inspect(recipe, 1, &mut asked.to_vec(), answer);
        inspector.findings()
    }

    #[test]
    fn honest_answers_pass_in_any_order_with_misses_and_keys_asked_twice() {
        for bytes in [1, 29, 30, 1024] {
            let recipe = recipe(bytes);
            for values in
                [&[("k3", 3), ("k4", 4)][..], &[("k4", 4), ("k3", 3)], &[("k4", 4)], &[("k3", 3), ("k3", 3)]]
            {
                let found = findings(&recipe, &[3, 4, 3], &answer(&recipe, values, |_| ()));
                assert_eq!((found.values, found.violations.count), (values.len() as u64, 0), "{values:?}");
            }
        }
    }

    #[test]
    fn what_was_not_stored_is_found() {
        let recipe = recipe(100);
        let flip = |value: &mut Vec<u8>| value[99] ^= 1;
        let cut = |value: &mut Vec<u8>| value.truncate(99);
        for (answer, about) in [
            (answer(&recipe, &[("k3", 4)], |_| ()), "that of key number 4"),
            (answer(&recipe, &[("k5", 5)], |_| ()), "not asked for"),
            (answer(&recipe, &[("k3", 3), ("k3", 3)], |_| ()), "not asked for"),
            (answer(&recipe, &[("x3", 3)], |_| ()), "not asked for"),
            (answer(&recipe, &[("k3", 3)], flip), "byte 99 of 100"),
            (answer(&recipe, &[("k3", 3)], cut), "has 99 bytes"),
            (answer(&recipe, &[("k3", 3)], |value| value[0] = 0), "not a value of this program"),
        ] {
            let found = findings(&recipe, &[3, 4], &answer).violations;
            assert_eq!(found.count, 1, "{about}");
            assert!(found.first[0].contains(about), "{:?}", found.first);
        }
    }

    #[test]
    fn a_short_value_is_verified_too() {
        let recipe = recipe(8);
        let wrong = findings(&recipe, &[3], &answer(&recipe, &[("k3", 4)], |_| ()));
        let cut = findings(&recipe, &[3], &answer(&recipe, &[("k3", 3)], |value| value.truncate(7)));
        assert_eq!((wrong.violations.count, cut.violations.count), (1, 1));
    }
}
