//! In what order a client writes and reads: so many sets, then so many gets, and again.
//!
//! Counted, not drawn: shares are exact in every run however short, and the same seed gives the same requests. Clients
//! begin at different places of the cycle, so that they do not march in step: each as far behind the one before it as
//! it has requests under way. Where a pipeline holds whole cycles all begin with the sets, for what they send at once
//! is the same mixture anyway, and a server may care for its order: memcached 1.6.18 writes out what it has to say
//! after every get, so that eight times `get set` cost it nine writes and eight times `set get` eight (counted with
//! strace).

use std::fmt;
use std::str::FromStr;

use fastrand::Rng;
use serde::{Serialize, Serializer};

use crate::numbers::Numbers;

/// Sets and gets of one cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    /// Sets.
    pub sets: u32,
    /// Gets.
    pub gets: u32,
}

impl FromStr for Ratio {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once(':').map(|(sets, gets)| (sets.parse(), gets.parse()));
        match parts {
            Some((Ok(sets), Ok(gets))) if (sets, gets) != (0, 0) => Ok(Self { sets, gets }),
            _ => Err("write SETS:GETS, as in 1:10; one of them may be 0".to_owned()),
        }
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.sets, self.gets)
    }
}

impl Serialize for Ratio {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The order of requests, which repeats: sets, then gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// Number of sets, which come first.
    sets: u64,
    /// Number of gets, which come after.
    gets: u64,
    /// Number of keys of a get.
    keys: Numbers,
    /// Number of keys of the last get, if it differs.
    last: Option<u32>,
}

/// One request of a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A set.
    Set,
    /// A get of this many keys.
    Get(u32),
}

impl Cycle {
    /// Creates a cycle by the ratio, in which every get has a number of keys of its own.
    #[must_use]
    pub fn new(ratio: Ratio, keys: Numbers) -> Self {
        Self { sets: ratio.sets.into(), gets: ratio.gets.into(), keys, last: None }
    }

    /// Creates a cycle as memtier_benchmark has it with --multi-key-get: the gets of the ratio count keys, and a
    /// request takes up to `keys` of them, the last what is left.
    #[must_use]
    pub fn of_keys(ratio: Ratio, keys: u32) -> Self {
        let (gets, rest) = (ratio.gets.div_ceil(keys), ratio.gets % keys);
        let last = (rest > 0).then_some(rest);
        Self { sets: ratio.sets.into(), gets: gets.into(), keys: Numbers::fixed(keys), last }
    }

    /// Returns the number of requests in a cycle.
    #[must_use]
    pub const fn requests(&self) -> u64 {
        self.sets + self.gets
    }

    /// Returns the place in the cycle where client `client`, counted from 1, begins, which keeps `pipeline` requests in
    /// flight.
    #[must_use]
    pub fn begin(&self, client: u32, pipeline: u32) -> u64 {
        u64::from(client - 1) * u64::from(pipeline) % self.requests()
    }

    /// Returns the request at a place, which is below [`Cycle::requests`].
    pub fn at(&self, place: u64, rng: &mut Rng) -> Step {
        if place < self.sets {
            return Step::Set;
        }
        match self.last {
            Some(keys) if place + 1 == self.requests() => Step::Get(keys),
            _ => Step::Get(self.keys.draw(rng)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(cycle: &Cycle) -> Vec<Step> {
        let mut rng = Rng::with_seed(1);
        (0..cycle.requests()).map(|place| cycle.at(place, &mut rng)).collect()
    }

    #[test]
    fn ratios_are_read_as_they_are_written() {
        for text in ["1:1", "0:3", "1:0", "1:10"] {
            assert_eq!(text.parse::<Ratio>().expect(text).to_string(), text);
        }
        for wrong in ["0:0", "1", "1:", "a:b", "-1:1", "1:1:1"] {
            assert!(wrong.parse::<Ratio>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn sets_come_before_gets() {
        let cycle = Cycle::new(Ratio { sets: 1, gets: 2 }, Numbers::fixed(3));
        assert_eq!(steps(&cycle), [Step::Set, Step::Get(3), Step::Get(3)]);
    }

    #[test]
    fn clients_begin_a_pipeline_apart_and_those_of_whole_cycles_with_the_sets() {
        let cycle = Cycle::new(Ratio { sets: 1, gets: 2 }, Numbers::fixed(1));
        let places = |pipeline| [1, 2, 3, 4].map(|client| cycle.begin(client, pipeline));
        assert_eq!(places(1), [0, 1, 2, 0]);
        assert_eq!(places(2), [0, 2, 1, 0]);
        assert_eq!(places(6), [0; 4]);
    }

    #[test]
    fn a_ratio_of_keys_is_cut_into_requests_and_a_rest() {
        let of = |gets, keys| steps(&Cycle::of_keys(Ratio { sets: 1, gets }, keys));
        assert_eq!(of(10, 6), [Step::Set, Step::Get(6), Step::Get(4)]);
        assert_eq!(of(3, 3), [Step::Set, Step::Get(3)]);
        assert_eq!(of(1, 9), [Step::Set, Step::Get(1)]);
    }
}
