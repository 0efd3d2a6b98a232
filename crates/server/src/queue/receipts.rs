//! Receipts of leases: a request with a receipt acts for its lease, whichever account sends it.

use fastrand::Rng;
use rustix::io::retry_on_intr;
use rustix::rand::{GetRandomFlags, getrandom};

/// Receipts drawn from the system at once: as many as it certainly gives in one call.
const DRAWN_AT_ONCE: usize = 256 / size_of::<u64>();

/// Where receipts come from.
pub(super) struct Receipts(Source);

enum Source {
    /// The system's random numbers, which cannot be guessed from others that were given.
    System(Vec<u64>),
    /// A seeded generator, so that tests see the same numbers again.
    Seeded(Rng),
}

impl Receipts {
    /// Returns a source of receipts: from a seed, or without one from the system.
    pub(super) fn new(seed: Option<u64>) -> Self {
        Self(seed.map_or_else(
            || Source::System(Vec::with_capacity(DRAWN_AT_ONCE)),
            |seed| Source::Seeded(Rng::with_seed(seed)),
        ))
    }

    /// Returns the next receipt, which is not 0.
    pub(super) fn draw(&mut self) -> u64 {
        match &mut self.0 {
            Source::System(drawn) => loop {
                match drawn.pop() {
                    None => refill(drawn),
                    Some(0) => {}
                    Some(receipt) => return receipt,
                }
            },
            Source::Seeded(rng) => rng.u64(1..),
        }
    }

    /// Returns the seed that draws the same receipts from now on; None: they are from the system.
    pub(super) fn seed(&self) -> Option<u64> {
        match &self.0 {
            Source::System(_) => None,
            Source::Seeded(rng) => Some(rng.get_seed()),
        }
    }
}

fn refill(drawn: &mut Vec<u64>) {
    let mut bytes = [0; DRAWN_AT_ONCE * size_of::<u64>()];
    retry_on_intr(|| getrandom(&mut bytes, GetRandomFlags::empty()))
        .expect("the system has random numbers for everybody");
    drawn.extend(bytes.as_chunks().0.iter().map(|number| u64::from_ne_bytes(*number)));
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{DRAWN_AT_ONCE, Receipts};

    #[test]
    fn those_of_the_system_are_all_different() {
        let mut receipts = [Receipts::new(None), Receipts::new(None)];
        let drawn: HashSet<u64> = (0..4 * DRAWN_AT_ONCE).map(|number| receipts[number % 2].draw()).collect();
        assert_eq!(drawn.len(), 4 * DRAWN_AT_ONCE);
        assert!(!drawn.contains(&0));
        assert_eq!(receipts[0].seed(), None);
    }

    #[test]
    fn a_seed_draws_the_same_again() {
        let mut first = Receipts::new(Some(7));
        first.draw();
        let mut second = Receipts::new(first.seed());
        assert_eq!(first.draw(), second.draw());
    }
}
