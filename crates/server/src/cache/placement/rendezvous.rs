//! pymemcache's rendezvous hashing: the server whose name together with the key has the highest MurmurHash3.

use super::NamedServer;

/// The servers' names.
pub(super) struct Rendezvous(Vec<String>);

impl Rendezvous {
    pub(super) fn new(servers: &[NamedServer<'_>]) -> Self {
        Self(servers.iter().map(|server| server.name.to_owned()).collect())
    }

    /// The server with the highest score; of equal scores, the one with the greatest name.
    pub(super) fn owner(&self, key: &[u8]) -> usize {
        let score = |name: &String| murmur3_32([name.as_bytes(), b"-", key].into_iter().flatten().copied());
        let scores = self.0.iter().map(|name| (score(name), name)).enumerate();
        scores.max_by(|(_, a), (_, b)| a.cmp(b)).map_or(0, |(server, _)| server)
    }
}

/// MurmurHash3, 32 bits for x86, seed 0 (Appleby, 2011, in the public domain).
fn murmur3_32(bytes: impl Iterator<Item = u8>) -> u32 {
    let mix = |word: u32| word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    let (mut hash, mut word, mut len) = (0_u32, 0_u32, 0_u32);
    for byte in bytes {
        word |= u32::from(byte) << (8 * (len % 4));
        len += 1;
        if len.is_multiple_of(4) {
            hash = (hash ^ mix(word)).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
            word = 0;
        }
    }
    hash ^= mix(word) ^ len;
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}
