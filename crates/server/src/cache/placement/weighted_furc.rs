//! mcrouter's weighted ch3: the server that ch3 names takes a key with a chance that is its weight; otherwise ch3 is
//! asked again for the key with a number behind it, up to [`ATTEMPTS`] times.
//!
//! A server of full weight keeps every key that ch3 gives it, so lowering the weight of one server moves only its own
//! keys. If all weights are low, most attempts fail, and the last one decides whatever the weights.

use super::FULL_WEIGHT;
use super::furc;
use super::spooky;

/// The seed of mcrouter's draw.
const SEED: u32 = 0xface_2014;

/// Most attempts; the last one's server is taken in any case.
const ATTEMPTS: usize = 32;

/// The limit of each server, below which its draw must stay.
pub(super) struct WeightedFurc(Vec<u32>);

impl WeightedFurc {
    /// Computes the limits from weights in thousandths.
    pub(super) fn new(weights: impl Iterator<Item = u32>) -> Self {
        // mcrouter computes in doubles and truncates; a thousandth as a quotient is the double that its parser reads.
        let limit = |weight: u32| f64::from(weight) / f64::from(FULL_WEIGHT) * f64::from(u32::MAX);
        Self(weights.map(|weight| limit(weight) as u32).collect())
    }

    pub(super) fn owner(&self, key: &[u8]) -> usize {
        let mut salted = Vec::new();
        let mut attempt = key;
        let mut server = 0;
        for number in 0..ATTEMPTS {
            server = furc::owner(attempt, self.0.len());
            if self.0.get(server).is_none_or(|limit| spooky::hash_32(attempt, SEED) < *limit) {
                return server;
            }
            salted.clear();
            salted.extend_from_slice(key);
            salted.extend(number.to_string().bytes().rev());
            attempt = &salted;
        }
        server
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number that mcrouter's tests compute from many owners.
    fn checksum(servers: usize, weight: u32, keys: impl Iterator<Item = String>) -> u32 {
        let rule = WeightedFurc::new(std::iter::repeat_n(weight, servers));
        keys.fold(0, |sum: u32, key| sum.wrapping_mul(31).wrapping_add(rule.owner(key.as_bytes()) as u32))
    }

    fn counts(weights: &[u32], keys: usize) -> Vec<usize> {
        let rule = WeightedFurc::new(weights.iter().copied());
        let mut counts = vec![0; weights.len()];
        (0..keys).for_each(|key| counts[rule.owner(key.to_string().as_bytes())] += 1);
        counts
    }

    /// The figures of mcrouter's `WeightedCh3HashFuncTest.cpp`.
    #[test]
    fn weighted_ch3_counts_as_mcrouters_own_tests_do() {
        assert_eq!(counts(&[1000, 1000, 700], 1000), [341, 371, 288]);
        assert_eq!(
            counts(&[429, 541, 117, 998, 283, 65, 109, 42, 676, 943], 10_000),
            [1016, 1252, 288, 2354, 661, 195, 247, 122, 1668, 2197]
        );
        let short = || (0..10_000).map(|key| format!("k{key}"));
        for (servers, sum) in [(2, 2_395_690_262), (10, 547_444_706), (1000, 1_336_857_622)] {
            assert_eq!(checksum(servers, 500, short()), sum, "{servers} servers of half weight");
        }
        for (servers, sum) in [(2, 3_431_444_300), (100, 2_604_325_093)] {
            assert_eq!(checksum(servers, 0, short()), sum, "{servers} servers without weight");
        }
        let alphabet: String = ('A'..='Z').cycle().take(128).collect();
        let long = || (0..10_000).map(|key| format!("{alphabet}{key}"));
        assert_eq!(checksum(10, 500, long()), 707_485_837);
    }

    /// Computed with mcrouter's formula over its `furc_hash` and folly's `SpookyHashV2`: beyond 192 bytes it hashes
    /// otherwise.
    #[test]
    fn the_longest_keys_are_placed_as_mcrouter_does() {
        let alphabet: String = ('A'..='Z').cycle().take(240).collect();
        let keys = || (0..10_000).map(|key| format!("{}{key}", &alphabet[..180 + key % 60]));
        assert_eq!(checksum(10, 500, keys()), 3_044_747_981);
        assert_eq!(checksum(100, 500, keys()), 3_208_099_551);
    }
}
