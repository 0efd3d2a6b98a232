//! Draws from Zipf's law over a bounded number of ranks: rank k has a probability proportional to 1/k^s.
//!
//! By rejection-inversion (W. Hörmann, G. Derflinger: Rejection-inversion to generate variates from monotone discrete
//! distributions, ACM Transactions on Modeling and Computer Simulation 6(3), 1996): the area under 1/x^s is inverted in
//! closed form and the few draws that fall beside the staircase are rejected. Constant time and memory whatever the
//! number of ranks; a table of 100 million cumulative probabilities would be 800 MB and a cache miss for each draw.

use fastrand::Rng;

/// The largest exponent: beyond it nearly all draws are rank 1.
pub const EXPONENT_MAX: f64 = 10.0;

/// A bounded Zipf distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Zipf {
    ranks: u64,
    exponent: f64,
    /// The integral from 1 up to 1.5, less the height of rank 1.
    area_first: f64,
    /// The integral up to the last rank and a half.
    area_last: f64,
    /// Draws at most this far below their rank are accepted without the second test.
    shortcut: f64,
}

impl Zipf {
    /// Creates the distribution of ranks 1 to `ranks`, at least 1; `exponent` is positive.
    #[must_use]
    pub fn new(ranks: u64, exponent: f64) -> Self {
        let mut zipf = Self { ranks, exponent, area_first: 0.0, area_last: 0.0, shortcut: 0.0 };
        zipf.area_first = zipf.area(1.5) - 1.0;
        zipf.area_last = zipf.area(ranks as f64 + 0.5);
        zipf.shortcut = 2.0 - zipf.area_inverse(zipf.area(2.5) - zipf.height(2.0));
        zipf
    }

    /// Draws a rank, from 1 to the number of ranks.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        loop {
            let area = self.area_last + rng.f64() * (self.area_first - self.area_last);
            let x = self.area_inverse(area);
            let rank = (x + 0.5).clamp(1.0, self.ranks as f64).floor();
            if rank - x <= self.shortcut || area >= self.area(rank + 0.5) - self.height(rank) {
                return rank as u64;
            }
        }
    }

    /// 1/x^s.
    fn height(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// The integral of 1/t^s from 1 to x, in a form that holds for s = 1 too: (x^(1-s) - 1) / (1 - s).
    fn area(&self, x: f64) -> f64 {
        let log = x.ln();
        exp_m1_over((1.0 - self.exponent) * log) * log
    }

    /// Returns the x whose area this is.
    fn area_inverse(&self, area: f64) -> f64 {
        // Rounding may step over the edge of the logarithm.
        let scaled = (area * (1.0 - self.exponent)).max(-1.0);
        (ln_1p_over(scaled) * area).exp()
    }
}

/// (e^x - 1) / x, also near 0.
fn exp_m1_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x / 2.0 }
}

/// ln(1 + x) / x, also near 0.
fn ln_1p_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - x / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: usize = 1_000_000;

    /// The exact probabilities of the first ranks, and of all behind them as the last.
    fn exact(ranks: u64, exponent: f64, first: usize) -> Vec<f64> {
        let weight = |k: u64| (k as f64).powf(-exponent);
        let all: f64 = (1..=ranks).rev().map(weight).sum();
        let mut exact: Vec<f64> = (1..=ranks.min(first as u64)).map(|k| weight(k) / all).collect();
        exact.push((1.0 - exact.iter().sum::<f64>()).max(0.0));
        exact
    }

    /// Pearson's statistic as its distance from its mean in its standard deviations (it is nearly normal).
    fn misfit(ranks: u64, exponent: f64, first: usize) -> f64 {
        let (zipf, mut rng) = (Zipf::new(ranks, exponent), Rng::with_seed(42));
        let expected = exact(ranks, exponent, first);
        let mut seen = vec![0_u64; expected.len()];
        for _ in 0..DRAWS {
            let rank = zipf.draw(&mut rng);
            assert!((1..=ranks).contains(&rank));
            seen[(rank as usize - 1).min(expected.len() - 1)] += 1;
        }
        let cells: Vec<_> = seen.iter().zip(&expected).filter(|(_, p)| **p * DRAWS as f64 > 5.0).collect();
        let chi: f64 = cells
            .iter()
            .map(|(seen, p)| (**seen as f64 - **p * DRAWS as f64).powi(2) / (**p * DRAWS as f64))
            .sum();
        let freedom = (cells.len() as f64 - 1.0).max(1.0);
        (chi - freedom) / (2.0 * freedom).sqrt()
    }

    #[test]
    fn draws_follow_the_exact_probabilities() {
        for (ranks, exponent, first) in [
            (2, 0.99, 2),
            (10, 0.5, 10),
            (10, 1.0, 10),
            (1000, 0.99, 1000),
            (1000, 1.0, 1000),
            (1000, 1.5, 200),
            (100, 3.0, 20),
            (1_000_000, 0.99, 500),
            (1_000_000, 0.2, 100),
        ] {
            let misfit = misfit(ranks, exponent, first);
            assert!(misfit < 4.0, "{ranks} ranks, exponent {exponent}: {misfit}");
        }
    }

    #[test]
    fn a_hundred_million_ranks_take_no_table() {
        let (zipf, mut rng) = (Zipf::new(100_000_000, 0.99), Rng::with_seed(7));
        let exact = exact(100_000_000, 0.99, 1)[0];
        let ones = (0..DRAWS).filter(|_| zipf.draw(&mut rng) == 1).count() as f64 / DRAWS as f64;
        let deviation = (exact * (1.0 - exact) / DRAWS as f64).sqrt();
        assert!((ones - exact).abs() < 4.0 * deviation, "{ones} for {exact}");
        assert!((0..DRAWS).any(|_| zipf.draw(&mut rng) > 90_000_000), "the tail is reached");
    }

    #[test]
    fn one_rank_is_always_drawn() {
        let (zipf, mut rng) = (Zipf::new(1, 1.0), Rng::with_seed(1));
        assert!((0..1000).all(|_| zipf.draw(&mut rng) == 1));
    }
}
