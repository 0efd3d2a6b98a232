//! Draws whole numbers of a range by a normal distribution: the middle ones often, those at the edges rarely.
//!
//! A draw is rounded down, and what falls outside of the range is drawn again, so that the distribution is the normal one
//! cut to the range. memtier_benchmark draws its G:G keys in this way.

use std::f64::consts::TAU;

use fastrand::Rng;

/// A normal distribution cut to a range of whole numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Gauss {
    /// The first number.
    first: f64,
    /// The number after the last.
    end: f64,
    mean: f64,
    deviation: f64,
}

impl Gauss {
    /// Creates the distribution of the numbers from `first` on, `count` of them. The mean must lie among them and the
    /// deviation be at most their count: then at least a third of the draws is in the range.
    pub(crate) fn new(first: u64, count: u64, mean: f64, deviation: f64) -> Self {
        Self { first: first as f64, end: (first + count) as f64, mean, deviation }
    }

    /// Returns the mean and deviation of memtier_benchmark: the middle of the range, and a sixth of the distance from its
    /// first to its last number.
    pub(crate) fn usual(first: u64, count: u64) -> (f64, f64) {
        (first as f64 + count as f64 / 2.0, (count - 1) as f64 / 6.0)
    }

    /// Draws a number.
    pub(crate) fn draw(&self, rng: &mut Rng) -> u64 {
        loop {
            // By G. Box and M. Muller: A note on the generation of random normal deviates, 1958.
            let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
            let drawn = self.mean + self.deviation * radius * (TAU * rng.f64()).cos();
            if (self.first..self.end).contains(&drawn) {
                return drawn as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: usize = 400_000;

    /// The density of the normal distribution, up to a factor.
    fn density(x: f64, mean: f64, deviation: f64) -> f64 {
        (-((x - mean) / deviation).powi(2) / 2.0).exp()
    }

    /// The share of each number, by the rule of the middle in a thousand steps.
    fn exact(first: u64, count: u64, mean: f64, deviation: f64) -> Vec<f64> {
        let area = |number: u64| -> f64 {
            (0..1000)
                .map(|step| density(number as f64 + (f64::from(step) + 0.5) / 1e3, mean, deviation))
                .sum()
        };
        let areas: Vec<f64> = (first..first + count).map(area).collect();
        let all: f64 = areas.iter().sum();
        areas.into_iter().map(|area| area / all).collect()
    }

    #[test]
    fn draws_have_the_shares_of_the_normal_distribution_cut_to_the_range() {
        let (mean, deviation) = Gauss::usual(5, 30);
        assert_eq!((mean, deviation), (20.0, 29.0 / 6.0));
        for (first, count, mean, deviation) in
            [(5, 30, mean, deviation), (0, 10, 0.5, 3.0), (100, 12, 111.9, 12.0), (0, 3, 1.0, 0.2)]
        {
            let (gauss, mut rng) = (Gauss::new(first, count, mean, deviation), Rng::with_seed(11));
            let mut seen = vec![0_usize; count as usize];
            (0..DRAWS).for_each(|_| seen[(gauss.draw(&mut rng) - first) as usize] += 1);
            for (number, (seen, share)) in seen.iter().zip(exact(first, count, mean, deviation)).enumerate() {
                let expected = share * DRAWS as f64;
                let chance = 4.5 * expected.max(1.0).sqrt();
                assert!(
                    (*seen as f64 - expected).abs() < chance,
                    "{number} of {first}+{count}: {seen} for {expected}"
                );
            }
        }
    }

    #[test]
    fn one_number_is_always_drawn() {
        let (mean, deviation) = Gauss::usual(7, 1);
        let (gauss, mut rng) = (Gauss::new(7, 1, mean, deviation), Rng::with_seed(1));
        assert!((0..1000).all(|_| gauss.draw(&mut rng) == 7));
    }
}
