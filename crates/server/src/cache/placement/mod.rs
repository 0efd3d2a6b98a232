//! Which server owns a key: the rules that clients use, so that a cache filled through them is found through us.
//!
//! | name | as in |
//! | --- | --- |
//! | `ketama` | libmemcached with its weighted ketama behavior, and so pylibmc and php-memcached |
//! | `jump` | memcached's own proxy: XXH3, then jump consistent hashing |
//! | `rendezvous` | pymemcache |
//! | `modulo-crc32` | gomemcache |
//!
//! Each is held to values that those programs computed.

mod ketama;
mod rendezvous;

use std::fmt;
use std::str::FromStr;

use ketama::Ring;
use rendezvous::Rendezvous;

/// A rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hash {
    /// libmemcached's.
    #[default]
    Ketama,
    /// Jump consistent hashing over XXH3.
    Jump,
    /// pymemcache's.
    Rendezvous,
    /// CRC-32 modulo the number of servers.
    ModuloCrc32,
}

impl Hash {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Ketama, "ketama"),
        (Self::Jump, "jump"),
        (Self::Rendezvous, "rendezvous"),
        (Self::ModuloCrc32, "modulo-crc32"),
    ];
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(hash, _)| hash == self).map_or("", |(_, name)| name);
        f.write_str(name)
    }
}

impl FromStr for Hash {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|(_, name)| *name == text);
        found.map(|(hash, _)| hash).ok_or_else(|| "write ketama, jump, rendezvous or modulo-crc32".into())
    }
}

/// A rule applied to a pool.
pub struct Placement(Rule);

enum Rule {
    Ketama(Ring),
    Jump(usize),
    Rendezvous(Rendezvous),
    ModuloCrc32(usize),
}

impl Placement {
    /// For servers with these names (`host:port`), in this order; at least one.
    #[must_use]
    pub fn new(hash: Hash, names: &[String]) -> Self {
        Self(match hash {
            Hash::Ketama => Rule::Ketama(Ring::new(names)),
            Hash::Jump => Rule::Jump(names.len()),
            Hash::Rendezvous => Rule::Rendezvous(Rendezvous::new(names)),
            Hash::ModuloCrc32 => Rule::ModuloCrc32(names.len()),
        })
    }

    /// The owner of a key.
    #[must_use]
    pub fn owner(&self, key: &[u8]) -> usize {
        match &self.0 {
            Rule::Ketama(ring) => ring.owner(key),
            Rule::Jump(servers) => jump(xxhash_rust::xxh3::xxh3_64(key), *servers),
            Rule::Rendezvous(rendezvous) => rendezvous.owner(key),
            Rule::ModuloCrc32(servers) => crc32fast::hash(key) as usize % servers,
        }
    }
}

/// Lamping and Veach, "A Fast, Minimal Memory, Consistent Hash Algorithm", 2014.
fn jump(mut hash: u64, servers: usize) -> usize {
    let (mut found, mut next) = (0, 0);
    while next < servers {
        found = next;
        hash = hash.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        let stretch = (1_u64 << 31) as f64 / ((hash >> 33) + 1) as f64;
        next = ((found + 1) as f64 * stretch) as usize;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVERS: [&str; 5] =
        ["10.0.0.1:11211", "10.0.0.2:11211", "10.0.0.3:11212", "cache.example:11300", "10.0.0.5:11211"];

    /// The owners of `memtier-0`, `memtier-37`, `memtier-74`, …
    fn owners(hash: Hash) -> [usize; 40] {
        let placement = Placement::new(hash, &SERVERS.map(String::from));
        std::array::from_fn(|i| placement.owner(format!("memtier-{}", i * 37).as_bytes()))
    }

    #[test]
    fn ketama_places_keys_as_libmemcached_1_1_4_does() {
        assert_eq!(
            owners(Hash::Ketama),
            [
                1, 1, 2, 2, 3, 0, 4, 2, 2, 0, 4, 2, 3, 1, 4, 3, 2, 1, 2, 1, 3, 1, 4, 2, 4, 2, 0, 4, 2, 0, 4,
                0, 4, 2, 3, 3, 2, 2, 1, 0
            ]
        );
        let placement = Placement::new(Hash::Ketama, &SERVERS.map(String::from));
        let mut counts = [0; 5];
        (0..10_000).for_each(|i| counts[placement.owner(format!("key:{i}").as_bytes())] += 1);
        assert_eq!(counts, [1939, 2136, 2085, 1823, 2017]);
    }

    #[test]
    fn rendezvous_places_keys_as_pymemcache_4_0_does() {
        assert_eq!(
            owners(Hash::Rendezvous),
            [
                2, 3, 4, 1, 4, 0, 2, 3, 0, 1, 2, 3, 0, 4, 0, 1, 3, 2, 3, 0, 2, 4, 1, 2, 1, 0, 1, 3, 0, 3, 4,
                0, 3, 4, 0, 0, 4, 4, 0, 1
            ]
        );
    }

    #[test]
    fn modulo_crc32_places_keys_as_gomemcache_does() {
        assert_eq!(
            owners(Hash::ModuloCrc32),
            [
                3, 1, 2, 4, 4, 2, 2, 4, 1, 0, 3, 3, 2, 1, 4, 1, 0, 3, 4, 1, 2, 1, 3, 1, 3, 1, 4, 0, 0, 2, 3,
                0, 4, 1, 1, 1, 2, 3, 3, 2
            ]
        );
    }

    /// Computed with the formula of memcached's `proxy_jump_hash.c` and the xxhash library of Python.
    #[test]
    fn jump_places_keys_as_memcacheds_proxy_does() {
        assert_eq!(
            owners(Hash::Jump),
            [
                4, 0, 4, 4, 3, 1, 2, 1, 1, 2, 2, 3, 2, 4, 2, 0, 0, 2, 1, 0, 1, 4, 0, 0, 4, 4, 1, 0, 3, 2, 1,
                0, 1, 1, 0, 0, 4, 0, 1, 0
            ]
        );
    }

    #[test]
    fn names_of_rules_are_read_as_they_are_written() {
        for (hash, name) in Hash::ALL {
            assert_eq!(name.parse(), Ok(hash));
            assert_eq!(hash.to_string(), name);
        }
        assert!("md5".parse::<Hash>().is_err());
    }
}
