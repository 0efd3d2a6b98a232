//! Random numbers: a stream for each purpose and each client or thread, all from the seed of the run.
//!
//! A generator multiplies its state, so two that begin a small step apart go on with correlated numbers: neighboring
//! seeds, which are what the repetitions of an experiment have, at -0.25. Steps of the golden ratio, added to the seed,
//! do not help: the difference of neighbors stays 1, and of sum and exclusive or some are the same number. So whatever
//! tells two streams apart goes through a finalizer first, after which their states differ in half of their bits.

use fastrand::Rng;

/// What random numbers are for. Streams for different purposes have nothing to do with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Arrivals of an open loop, by thread.
    Arrivals = 1,
    /// Think times of a closed loop, by thread.
    Thoughts,
    /// Requests of a client of the queue tier, by account.
    Mix,
    /// Sizes of a client's messages, by account.
    MessageSizes,
    /// Requests of a client of the cache tier, by its number.
    Cache,
    /// Sizes, and of values the expiries, of what is stored before the run.
    Preload,
}

/// Returns the random numbers for a purpose under a seed; `number` tells clients or threads apart.
pub(crate) fn stream(seed: u64, purpose: Purpose, number: u64) -> Rng {
    Rng::with_seed(mix(number, mix(seed, purpose as u64)))
}

/// Mixes two numbers into one whose bits depend on all of theirs (the finalizer of D. Stafford's "variant 13").
pub(crate) fn mix(key: u64, seed: u64) -> u64 {
    let mut x = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed;
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Number of draws that a correlation is computed from.
    pub(crate) const DRAWS: usize = 10_000;

    /// Bound of a correlation by chance: five standard errors.
    const BY_CHANCE: f64 = 0.05;

    const PURPOSES: [Purpose; 6] = [
        Purpose::Arrivals,
        Purpose::Thoughts,
        Purpose::Mix,
        Purpose::MessageSizes,
        Purpose::Cache,
        Purpose::Preload,
    ];

    fn correlation(one: &[f64], other: &[f64]) -> f64 {
        let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
        let (mean_one, mean_other) = (mean(one), mean(other));
        let products = |a: &[f64], mean_a: f64, b: &[f64], mean_b: f64| -> f64 {
            a.iter().zip(b).map(|(a, b)| (a - mean_a) * (b - mean_b)).sum()
        };
        products(one, mean_one, other, mean_other)
            / (products(one, mean_one, one, mean_one) * products(other, mean_other, other, mean_other)).sqrt()
    }

    /// Checks that what is drawn under seeds 1 to 5 for numbers 1 to 4 is uncorrelated, each with each.
    pub(crate) fn assert_apart(mut draw: impl FnMut(u64, u32) -> Vec<f64>) {
        let all: Vec<_> = (1..=5)
            .flat_map(|seed| (1..=4).map(move |number| (seed, number)))
            .map(|(seed, number)| (seed, number, draw(seed, number)))
            .collect();
        for (place, (seed, number, one)) in all.iter().enumerate() {
            for (other_seed, other_number, other) in &all[..place] {
                let found = correlation(one, other);
                assert!(
                    found.abs() < BY_CHANCE,
                    "{found:.3} between number {number} under seed {seed} and {other_number} under {other_seed}"
                );
            }
        }
    }

    #[test]
    fn neighboring_streams_are_not_correlated() {
        for purpose in PURPOSES {
            assert_apart(|seed, number| {
                let mut rng = stream(seed, purpose, number.into());
                (0..DRAWS).map(|_| rng.f64()).collect()
            });
        }
    }

    #[test]
    fn streams_of_different_purposes_are_not_correlated() {
        assert_apart(|seed, number| {
            let purpose = PURPOSES[number as usize];
            let mut rng = stream(seed, purpose, 1);
            (0..DRAWS).map(|_| rng.f64()).collect()
        });
    }

    #[test]
    fn no_two_streams_are_the_same_and_each_comes_back_by_its_seed() {
        let first = |seed, purpose, number| stream(seed, purpose, number).u64(..);
        let mut found = HashSet::new();
        for purpose in PURPOSES {
            for seed in 0..64 {
                (0..64).for_each(|number| {
                    found.insert(first(seed, purpose, number));
                });
            }
        }
        assert_eq!(found.len(), PURPOSES.len() * 64 * 64);
        assert_eq!(first(7, Purpose::Mix, 3), first(7, Purpose::Mix, 3));
    }
}
