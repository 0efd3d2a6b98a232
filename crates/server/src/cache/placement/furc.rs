//! mcrouter's default, which it calls ch3: a walk down a binary tree of servers, by bits that are drawn from the key.
//!
//! The first bits say how deep in the tree the server stands, the next ones which server of that depth it is. If
//! there is no server of that number, the walk goes on from there with more bits. Adding servers moves only the keys
//! that go to the new ones.

/// The seed of mcrouter's MurmurHash64A.
pub(super) const SEED: u64 = 4_193_360_111;

/// Draws after which the first server is taken.
const DRAWS: u32 = 32;

/// How far apart the bits of one draw are, so that draws at different depths use different bits.
const STRIDE: usize = 23;

/// The server, of `servers`, that owns a key.
pub(super) fn owner(key: &[u8], servers: usize) -> usize {
    let mut bits = Bits { words: vec![murmur_64a(key, SEED)] };
    let mut depth = servers.next_power_of_two().trailing_zeros() as usize;
    let mut at = depth;
    if depth == 0 {
        return 0;
    }
    for _ in 0..DRAWS {
        while !bits.get(at) {
            depth -= 1;
            if depth == 0 {
                return 0;
            }
            at = depth;
        }
        at += STRIDE;
        let mut number = 1;
        for _ in 1..depth {
            number = number << 1 | usize::from(bits.get(at));
            at += STRIDE;
        }
        if number < servers {
            return number;
        }
    }
    0
}

/// An endless row of bits: the hash of the key, then the hash of that, and so on.
struct Bits {
    words: Vec<u64>,
}

impl Bits {
    fn get(&mut self, at: usize) -> bool {
        while self.words.len() <= at / 64 {
            let last = self.words[self.words.len() - 1];
            self.words.push(murmur_64a(&last.to_le_bytes(), SEED));
        }
        self.words[at / 64] >> (at % 64) & 1 == 1
    }
}

/// MurmurHash64A (Appleby, 2008, in the public domain).
pub(super) fn murmur_64a(bytes: &[u8], seed: u64) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(M);
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        let mixed = word(chunk).wrapping_mul(M);
        hash = (hash ^ (mixed ^ mixed >> 47).wrapping_mul(M)).wrapping_mul(M);
    }
    if !chunks.remainder().is_empty() {
        hash = (hash ^ word(chunks.remainder())).wrapping_mul(M);
    }
    hash = (hash ^ hash >> 47).wrapping_mul(M);
    hash ^ hash >> 47
}
