//! Which server owns a key, by the rules of existing clients, so that a cache filled through them is found through us.
//!
//! | name | as in |
//! | --- | --- |
//! | `ketama` | libmemcached with its weighted ketama behavior, and so pylibmc and php-memcached |
//! | `jump` | memcached's own proxy: XXH3, then jump consistent hashing |
//! | `rendezvous` | pymemcache |
//! | `modulo-crc32` | gomemcache |
//! | `dalli` | Dalli |
//! | `spymemcached` | spymemcached with its `KetamaConnectionFactory` |
//! | `spymemcached-modulo` | spymemcached with its `DefaultConnectionFactory` |
//! | `twemproxy` | twemproxy with `distribution: ketama` and `hash: fnv1a_64`, its defaults |
//! | `mcrouter` | mcrouter's default, ch3 |
//! | `mcrouter-weighted` | its weighted ch3 |
//! | `mcrouter-rendezvous`, `mcrouter-weighted-rendezvous` | its rendezvous hashing |
//! | `mcrouter-crc32` | its CRC-32 modulo the number of servers |
//! | `mcrouter-shard` | its const-shard |
//!
//! The tests hold each rule to values that those programs computed.

mod furc;
mod numbered;
mod rendezvous;
mod ring;
mod scores;
mod spooky;
mod weighted_furc;

use std::fmt;
use std::str::FromStr;

use rendezvous::Rendezvous;
use ring::{Near, Ring, md5_points, md5_words, sha1_points};
use scores::Scores;
use weighted_furc::WeightedFurc;

/// mcrouter's weight of 1.0: weights of its rules are in thousandths.
const FULL_WEIGHT: u32 = 1000;

/// A rule by which keys are placed on servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hash {
    /// libmemcached's weighted ketama.
    #[default]
    Ketama,
    /// Jump consistent hashing over XXH3.
    Jump,
    /// pymemcache's rendezvous hashing.
    Rendezvous,
    /// CRC-32 modulo the number of servers.
    ModuloCrc32,
    /// Dalli's ring.
    Dalli,
    /// spymemcached's ring.
    Spymemcached,
    /// Java's hash code modulo the number of servers.
    SpymemcachedModulo,
    /// twemproxy's ketama over 64-bit FNV-1a.
    Twemproxy,
    /// mcrouter's ch3.
    Mcrouter,
    /// mcrouter's ch3 with weights.
    McrouterWeighted,
    /// mcrouter's rendezvous hashing.
    McrouterRendezvous,
    /// mcrouter's rendezvous hashing with weights.
    McrouterWeightedRendezvous,
    /// mcrouter's CRC-32 modulo the number of servers.
    McrouterCrc32,
    /// mcrouter's const-shard: a number in the key.
    McrouterShard,
}

impl Hash {
    const ALL: [(Self, &'static str); 14] = [
        (Self::Ketama, "ketama"),
        (Self::Jump, "jump"),
        (Self::Rendezvous, "rendezvous"),
        (Self::ModuloCrc32, "modulo-crc32"),
        (Self::Dalli, "dalli"),
        (Self::Spymemcached, "spymemcached"),
        (Self::SpymemcachedModulo, "spymemcached-modulo"),
        (Self::Twemproxy, "twemproxy"),
        (Self::Mcrouter, "mcrouter"),
        (Self::McrouterWeighted, "mcrouter-weighted"),
        (Self::McrouterRendezvous, "mcrouter-rendezvous"),
        (Self::McrouterWeightedRendezvous, "mcrouter-weighted-rendezvous"),
        (Self::McrouterCrc32, "mcrouter-crc32"),
        (Self::McrouterShard, "mcrouter-shard"),
    ];

    /// Other names of rules, by the clients that place keys so.
    const CLIENTS: [(Self, &'static str); 3] =
        [(Self::Ketama, "libmemcached"), (Self::Rendezvous, "pymemcache"), (Self::ModuloCrc32, "gomemcache")];

    /// Returns whether servers may have weights.
    #[must_use]
    pub fn takes_weights(self) -> bool {
        matches!(self, Self::Ketama | Self::Dalli | Self::Twemproxy) || self.has_full_weight()
    }

    /// Returns whether weights are thousandths of a full weight, as in mcrouter, and not shares in proportion to each
    /// other.
    #[must_use]
    pub fn has_full_weight(self) -> bool {
        matches!(self, Self::McrouterWeighted | Self::McrouterWeightedRendezvous)
    }

    /// The name by which a server is placed that is given none: its address. twemproxy leaves out memcached's own
    /// port in it, as libmemcached does, but takes a given name as it is.
    #[must_use]
    pub fn name_of(self, address: &str) -> &str {
        if self == Self::Twemproxy { without_usual_port(address) } else { address }
    }

    /// What tells a server apart from others of its pool when keys are placed: its given name, or else its address.
    /// None: its position does.
    #[must_use]
    pub fn mark<'a>(self, name: Option<&'a str>, address: &'a str) -> Option<&'a str> {
        match self {
            // libmemcached knows a server by its address alone, so a name stands for one.
            Self::Ketama => Some(without_usual_port(name.unwrap_or(address))),
            Self::Rendezvous
            | Self::Dalli
            | Self::Spymemcached
            | Self::Twemproxy
            | Self::McrouterRendezvous
            | Self::McrouterWeightedRendezvous => Some(name.unwrap_or_else(|| self.name_of(address))),
            Self::Jump
            | Self::ModuloCrc32
            | Self::SpymemcachedModulo
            | Self::Mcrouter
            | Self::McrouterWeighted
            | Self::McrouterCrc32
            | Self::McrouterShard => None,
        }
    }

    /// The weight of a server that is given none.
    #[must_use]
    pub fn usual_weight(self) -> u32 {
        if self.has_full_weight() { FULL_WEIGHT } else { 1 }
    }

    /// The names of all rules.
    #[must_use]
    pub fn words() -> [&'static str; 14] {
        Self::ALL.map(|(_, name)| name)
    }
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
        let mut named = Self::ALL.into_iter().chain(Self::CLIENTS);
        let names = Self::words().join(", ");
        named
            .find(|(_, name)| *name == text)
            .map(|(hash, _)| hash)
            .ok_or_else(|| format!("write one of: {names}"))
    }
}

/// A server as rules see it.
#[derive(Clone, Copy, Debug)]
pub struct NamedServer<'a> {
    /// The given name, or [that of the address](Hash::name_of).
    pub name: &'a str,
    /// The weight, which not all rules use.
    pub weight: u32,
}

/// A rule, applied to the servers of a pool.
pub struct Placement(Rule);

enum Rule {
    Md5Ring(Ring),
    FnvRing(Ring),
    CrcRing(Ring),
    Jump(usize),
    Rendezvous(Rendezvous),
    ModuloCrc32(usize),
    ModuloJava(usize),
    ModuloCrc31(usize),
    Furc(usize),
    WeightedFurc(WeightedFurc),
    Scores(Scores),
    Numbered(usize),
}

impl Placement {
    /// Applies a rule to at least one server, in this order.
    #[must_use]
    pub fn new<'a>(hash: Hash, servers: &[NamedServer<'a>]) -> Self {
        // libmemcached knows a server by its address alone, so a name stands for one.
        let without_port =
            |server: &NamedServer<'a>| NamedServer { name: without_usual_port(server.name), ..*server };
        Self(match hash {
            Hash::Ketama => Rule::Md5Ring(Ring::new(
                md5_points(&servers.iter().map(without_port).collect::<Vec<_>>()),
                Near::Next,
            )),
            Hash::Twemproxy => Rule::FnvRing(Ring::new(md5_points(servers), Near::Next)),
            Hash::Spymemcached => Rule::Md5Ring(Ring::new(md5_points(servers), Near::Next)),
            Hash::Dalli => Rule::CrcRing(Ring::new(sha1_points(servers), Near::Last)),
            Hash::Jump => Rule::Jump(servers.len()),
            Hash::Rendezvous => Rule::Rendezvous(Rendezvous::new(servers)),
            Hash::ModuloCrc32 => Rule::ModuloCrc32(servers.len()),
            Hash::SpymemcachedModulo => Rule::ModuloJava(servers.len()),
            Hash::Mcrouter => Rule::Furc(servers.len()),
            Hash::McrouterWeighted => {
                Rule::WeightedFurc(WeightedFurc::new(servers.iter().map(|server| server.weight)))
            }
            Hash::McrouterRendezvous => Rule::Scores(Scores::unweighted(servers)),
            Hash::McrouterWeightedRendezvous => Rule::Scores(Scores::weighted(servers)),
            Hash::McrouterCrc32 => Rule::ModuloCrc31(servers.len()),
            Hash::McrouterShard => Rule::Numbered(servers.len()),
        })
    }

    /// Returns the owner of a key, as its place among the servers.
    #[must_use]
    pub fn owner(&self, key: &[u8]) -> usize {
        match &self.0 {
            Rule::Md5Ring(ring) => ring.owner(md5_words(key)[0]),
            Rule::FnvRing(ring) => ring.owner(fnv1a(key)),
            Rule::CrcRing(ring) => ring.owner(crc32fast::hash(key)),
            Rule::Jump(servers) => jump(xxhash_rust::xxh3::xxh3_64(key), *servers),
            Rule::Rendezvous(rendezvous) => rendezvous.owner(key),
            Rule::ModuloCrc32(servers) => crc32fast::hash(key) as usize % servers,
            Rule::ModuloJava(servers) => java_hash(key) as usize % servers,
            // mcrouter drops the sign bit.
            Rule::ModuloCrc31(servers) => (crc32fast::hash(key) & 0x7fff_ffff) as usize % servers,
            Rule::Furc(servers) => furc::owner(key, *servers),
            Rule::WeightedFurc(furc) => furc.owner(key),
            Rule::Scores(scores) => scores.owner(key),
            Rule::Numbered(servers) => numbered::owner(key, *servers),
        }
    }
}

fn without_usual_port(address: &str) -> &str {
    address.strip_suffix(":11211").unwrap_or(address)
}

/// The lower 32 bits of FNV-1a with its 64-bit constants cut to 32 bits: what libhashkit and twemproxy call 64-bit
/// FNV-1a.
fn fnv1a(key: &[u8]) -> u32 {
    key.iter().fold(0x8422_2325, |hash: u32, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0000_01b3))
}

/// Java's `String.hashCode`, read as an unsigned number. Java counts in UTF-16; a key that is not UTF-8 is hashed byte
/// by byte.
fn java_hash(key: &[u8]) -> u32 {
    let add = |hash: u32, unit: u16| hash.wrapping_mul(31).wrapping_add(u32::from(unit));
    match std::str::from_utf8(key) {
        Ok(text) => text.encode_utf16().fold(0, add),
        Err(_) => key.iter().map(|byte| u16::from(*byte)).fold(0, add),
    }
}

/// Jump consistent hashing (Lamping and Veach, "A Fast, Minimal Memory, Consistent Hash Algorithm", 2014).
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

    const EQUAL: [u32; 5] = [1; 5];
    const WEIGHTS: [u32; 5] = [1, 2, 3, 1, 5];

    /// The owners of `memtier-0`, `memtier-37`, `memtier-74`, …
    fn owners_among(hash: Hash, servers: &[&str], weights: &[u32]) -> [usize; 40] {
        let names = servers.iter().map(|address| hash.name_of(address));
        let servers: Vec<_> =
            names.zip(weights).map(|(name, weight)| NamedServer { name, weight: *weight }).collect();
        let placement = Placement::new(hash, &servers);
        std::array::from_fn(|i| placement.owner(format!("memtier-{}", i * 37).as_bytes()))
    }

    fn owners(hash: Hash) -> [usize; 40] {
        owners_among(hash, &SERVERS, &EQUAL)
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
        let placement = Placement::new(Hash::Ketama, &SERVERS.map(|name| NamedServer { name, weight: 1 }));
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

    /// Computed with `memcached_generate_hash` of libmemcached 1.0.16, as pylibmc 1.6.3 brings it.
    #[test]
    fn ketama_gives_servers_their_weight_as_libmemcached_does() {
        assert_eq!(
            owners_among(Hash::Ketama, &SERVERS, &WEIGHTS),
            [
                2, 1, 2, 2, 3, 0, 4, 2, 2, 0, 4, 2, 2, 4, 4, 4, 2, 4, 2, 1, 0, 1, 4, 2, 4, 2, 4, 4, 2, 0, 2,
                0, 4, 2, 4, 4, 2, 2, 1, 4
            ]
        );
        let seven: Vec<String> = (1..=7).map(|i| format!("10.0.0.{i}:11211")).collect();
        let seven: Vec<&str> = seven.iter().map(String::as_str).collect();
        assert_eq!(
            owners_among(Hash::Ketama, &seven, &[1; 7]),
            [
                5, 1, 5, 1, 2, 5, 4, 5, 3, 0, 5, 2, 3, 1, 6, 5, 3, 3, 4, 1, 2, 5, 4, 0, 5, 3, 0, 4, 5, 0, 4,
                0, 4, 0, 4, 5, 5, 6, 1, 0
            ]
        );
    }

    /// Computed with `Dalli::Ring` of Dalli 3.0.6.
    #[test]
    fn dalli_places_keys_as_dalli_does() {
        assert_eq!(
            owners(Hash::Dalli),
            [
                1, 2, 2, 2, 2, 4, 4, 2, 4, 3, 3, 0, 0, 0, 3, 2, 0, 2, 3, 2, 4, 0, 1, 0, 1, 0, 3, 2, 2, 2, 2,
                1, 2, 3, 4, 0, 4, 2, 3, 2
            ]
        );
        assert_eq!(
            owners_among(Hash::Dalli, &SERVERS, &WEIGHTS),
            [
                1, 2, 2, 2, 4, 4, 4, 2, 4, 4, 2, 2, 2, 3, 3, 2, 0, 2, 4, 2, 4, 3, 1, 4, 4, 2, 2, 2, 2, 2, 4,
                1, 2, 4, 4, 0, 4, 2, 3, 4
            ]
        );
    }

    /// Computed with `KetamaNodeLocator` and `ArrayModNodeLocator` of spymemcached 2.12.3.
    #[test]
    fn spymemcached_places_keys_as_spymemcached_does() {
        let mut servers = SERVERS;
        servers[3] = "10.0.0.4:11300";
        assert_eq!(
            owners_among(Hash::Spymemcached, &servers, &EQUAL),
            [
                3, 0, 2, 0, 1, 3, 2, 2, 2, 4, 1, 1, 4, 1, 4, 4, 1, 4, 3, 4, 4, 0, 0, 3, 1, 2, 0, 2, 0, 0, 0,
                3, 2, 2, 2, 0, 3, 3, 1, 0
            ]
        );
        assert_eq!(
            owners(Hash::SpymemcachedModulo),
            [
                3, 3, 4, 1, 1, 2, 4, 4, 0, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 3, 4, 4, 1, 2, 2, 4, 0, 0, 0, 1, 3,
                3, 4, 1, 1, 2, 4, 4, 1, 2
            ]
        );
    }

    #[test]
    fn javas_hash_code_counts_in_utf_16() {
        // "é😀".hashCode(), as Java 17 says.
        assert_eq!(java_hash("é😀".as_bytes()), 1996812);
        assert_eq!(java_hash(&[0xff]), 0xff);
    }

    /// Seen at twemproxy 0.5.0, by the servers that it asked.
    #[test]
    fn twemproxy_places_keys_as_twemproxy_does() {
        assert_eq!(
            owners(Hash::Twemproxy),
            [
                2, 3, 3, 1, 1, 1, 0, 0, 0, 2, 2, 3, 3, 3, 2, 2, 2, 4, 4, 0, 0, 0, 3, 3, 3, 1, 1, 1, 1, 1, 3,
                3, 3, 3, 3, 0, 2, 2, 4, 4
            ]
        );
        assert_eq!(
            owners_among(Hash::Twemproxy, &SERVERS, &WEIGHTS),
            [
                2, 3, 3, 4, 4, 4, 2, 2, 2, 2, 2, 3, 3, 3, 2, 2, 2, 4, 4, 0, 0, 0, 4, 4, 4, 1, 1, 1, 1, 1, 3,
                3, 3, 3, 3, 4, 2, 2, 4, 4
            ]
        );
    }

    /// Computed with the C functions of mcrouter's `lib/fbi/hash.c`, compiled by themselves.
    #[test]
    fn mcrouter_places_keys_as_mcrouter_does() {
        assert_eq!(
            owners(Hash::Mcrouter),
            [
                4, 3, 4, 0, 0, 0, 4, 2, 1, 4, 3, 3, 2, 0, 2, 2, 3, 2, 0, 0, 1, 3, 2, 1, 4, 4, 4, 1, 1, 3, 2,
                3, 2, 1, 3, 2, 0, 2, 4, 0
            ]
        );
        let many: Vec<String> = (0..300).map(|i| i.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(
            owners_among(Hash::Mcrouter, &many, &[1; 300]),
            [
                269, 278, 253, 116, 82, 253, 114, 65, 90, 108, 47, 11, 254, 276, 41, 112, 3, 193, 227, 265,
                287, 128, 89, 92, 30, 15, 244, 186, 289, 122, 242, 169, 63, 16, 42, 11, 31, 84, 157, 67
            ]
        );
    }

    /// Computed with mcrouter's formulas over its `lib/fbi/hash.c` and folly's `SpookyHashV2`.
    #[test]
    fn mcrouters_other_rules_place_keys_as_mcrouter_does() {
        assert_eq!(
            owners(Hash::McrouterCrc32),
            [
                3, 1, 4, 4, 4, 4, 4, 4, 1, 2, 3, 0, 2, 3, 4, 1, 0, 3, 1, 3, 2, 3, 3, 1, 0, 1, 1, 2, 0, 2, 0,
                0, 4, 3, 3, 1, 2, 0, 3, 2
            ]
        );
        assert_eq!(
            owners(Hash::McrouterRendezvous),
            [
                1, 1, 0, 4, 0, 1, 2, 1, 1, 2, 1, 2, 4, 2, 0, 1, 0, 3, 1, 3, 0, 2, 3, 4, 4, 1, 3, 4, 4, 1, 2,
                1, 3, 0, 4, 2, 2, 1, 2, 2
            ]
        );
        let weights = [1000, 250, 700, 0, 999];
        assert_eq!(
            owners_among(Hash::McrouterWeighted, &SERVERS, &weights),
            [
                4, 2, 4, 0, 0, 0, 4, 2, 0, 4, 2, 2, 2, 0, 0, 2, 1, 2, 0, 0, 0, 4, 2, 4, 4, 4, 4, 1, 1, 4, 2,
                0, 2, 4, 0, 2, 0, 2, 4, 0
            ]
        );
        assert_eq!(
            owners_among(Hash::McrouterWeightedRendezvous, &SERVERS, &weights),
            [
                0, 4, 4, 0, 2, 4, 4, 4, 4, 0, 0, 4, 2, 2, 4, 4, 1, 0, 0, 2, 0, 2, 4, 4, 0, 4, 4, 4, 4, 1, 4,
                4, 0, 2, 4, 0, 4, 0, 0, 0
            ]
        );
        assert_eq!(owners(Hash::McrouterShard), owners(Hash::Mcrouter), "none of these keys has a number");
    }

    #[test]
    fn names_of_rules_are_read_as_they_are_written() {
        for (hash, name) in Hash::ALL {
            assert_eq!(name.parse(), Ok(hash));
            assert_eq!(hash.to_string(), name);
        }
        assert_eq!("gomemcache".parse(), Ok(Hash::ModuloCrc32));
        assert!("md5".parse::<Hash>().is_err());
    }
}
