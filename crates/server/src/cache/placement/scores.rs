//! mcrouter's rendezvous hashing: the server with the highest score for a key owns it. A score mixes two hashes, of
//! the server's name and of the key, so a name is hashed once and not for every key.
//!
//! With weights a score becomes weight / -ln(score between 0 and 1), so that a server gets keys in proportion to its
//! weight.

use super::furc::murmur_64a;
use super::{FULL_WEIGHT, NamedServer};

/// The seed of keys' hashes.
const SEED: u64 = 2_718_281_828;

/// Bits of a score that a double holds exactly.
const DOUBLE_BITS: u32 = 53;

/// A server with its name hashed.
struct HashedServer {
    name: u64,
    /// 1.0 is the full weight.
    weight: f64,
}

/// The servers among which scores decide.
pub(super) struct Scores {
    servers: Vec<HashedServer>,
    is_weighted: bool,
}

impl Scores {
    /// Hashes the names. The weights do not count.
    pub(super) fn unweighted(servers: &[NamedServer<'_>]) -> Self {
        Self { servers: hashed(servers), is_weighted: false }
    }

    /// Hashes the names. The weights are in thousandths.
    pub(super) fn weighted(servers: &[NamedServer<'_>]) -> Self {
        Self { servers: hashed(servers), is_weighted: true }
    }

    pub(super) fn owner(&self, key: &[u8]) -> usize {
        let key = murmur_64a(key, SEED);
        let scores = self.servers.iter().map(|server| (mixed(server.name, key), server.weight));
        if !self.is_weighted {
            // mcrouter compares doubles, in which close scores are equal; then the later server wins.
            let scores = scores.map(|(score, _)| score as f64).enumerate();
            return scores.max_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(0, |(server, _)| server);
        }
        let mut best = (0, 0.0);
        for (server, (score, weight)) in scores.enumerate() {
            let unit = (score & ((1 << DOUBLE_BITS) - 1)) as f64 / (1_u64 << DOUBLE_BITS) as f64;
            let score = weight * (1.0 / -unit.ln());
            if score > best.1 {
                best = (server, score);
            }
        }
        best.0
    }
}

/// Hashes the servers' names.
fn hashed(servers: &[NamedServer<'_>]) -> Vec<HashedServer> {
    let hashed = |server: &NamedServer<'_>| HashedServer {
        name: murmur_64a(server.name.as_bytes(), super::furc::SEED),
        weight: f64::from(server.weight) / f64::from(FULL_WEIGHT),
    };
    servers.iter().map(hashed).collect()
}

/// Mixes two hashes into one, in the manner of Murmur.
fn mixed(upper: u64, lower: u64) -> u64 {
    const M: u64 = 0x9ddf_ea08_eb38_2d69;
    let mix = |hash: u64| {
        let hash = hash.wrapping_mul(M);
        hash ^ hash >> 47
    };
    mix(upper ^ mix(lower ^ upper)).wrapping_mul(M)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(servers: usize) -> Vec<String> {
        (0..servers).map(|server| format!("xxx.{server}.yy")).collect()
    }

    fn scores<'a>(names: &'a [String], weights: Option<&[u32]>) -> Scores {
        let weight = |server: usize| weights.map_or(FULL_WEIGHT, |weights| weights[server]);
        let named = |(server, name): (usize, &'a String)| NamedServer { name, weight: weight(server) };
        let servers: Vec<NamedServer<'_>> = names.iter().enumerate().map(named).collect();
        if weights.is_some() { Scores::weighted(&servers) } else { Scores::unweighted(&servers) }
    }

    fn counts(weights: Option<&[u32]>, servers: usize, keys: usize) -> Vec<usize> {
        let rule = scores(&names(servers), weights);
        let mut counts = vec![0; servers];
        (0..keys).for_each(|key| counts[rule.owner(format!("mykey:{key}").as_bytes())] += 1);
        counts
    }

    /// The figures of mcrouter's `RendezvousHashTest.cpp`.
    #[test]
    fn rendezvous_counts_as_mcrouters_own_tests_do() {
        assert_eq!(counts(None, 3, 1000), [337, 353, 310]);
        assert_eq!(counts(None, 10, 10_000), [947, 1026, 1028, 981, 1016, 970, 1013, 939, 1023, 1057]);
        let many = scores(&names(343), None);
        let every_byte: Vec<u8> = (128..=255).chain(0..128).collect();
        let keys: [&[u8]; 4] = [&every_byte, b"sample", b"", b"mykey"];
        assert_eq!(keys.map(|key| many.owner(key)), [183, 45, 291, 132]);
    }

    /// The figures of mcrouter's `WeightedRendezvousHashTest.cpp`.
    #[test]
    fn weighted_rendezvous_counts_as_mcrouters_own_tests_do() {
        assert_eq!(counts(Some(&[1000; 3]), 3, 10_000), [3409, 3360, 3231]);
        assert_eq!(counts(Some(&[1000, 500, 100]), 3, 10_000), [6292, 3118, 590]);
        assert_eq!(counts(Some(&[1000, 0, 500]), 3, 10_000), [6737, 0, 3263]);
        let ten = [[1000; 5], [500; 5]].concat();
        assert_eq!(counts(Some(&ten), 10, 10_000), [1381, 1299, 1283, 1359, 1296, 667, 669, 665, 672, 709]);
        let many = scores(&names(343), Some(&[1000; 343]));
        let keys: [&[u8]; 3] = [b"sample", b"", b"mykey"];
        assert_eq!(keys.map(|key| many.owner(key)), [115, 279, 302]);
    }
}
