//! SpookyHash, version 2 (Jenkins, 2012, in the public domain): its lower 32 bits, from one seed for both halves.
//!
//! mcrouter uses it to draw whether a server of less than full weight takes a key. Its steps are written as loops
//! over a table of rotations, since each step differs from the one before only in the words that it touches.

/// What fills the words of the state that neither seed nor message fills.
const FILL: u64 = 0xdead_beef_dead_beef;

/// Bytes in a block of a long message; a message of two blocks or more is long.
const BLOCK: usize = 96;

const SHORT_MIX: [u32; 12] = [50, 52, 30, 41, 54, 48, 38, 37, 62, 34, 5, 36];
const SHORT_END: [u32; 11] = [15, 52, 26, 51, 28, 9, 47, 54, 32, 25, 63];
const MIX: [u32; 12] = [11, 32, 43, 31, 17, 28, 39, 57, 55, 54, 22, 46];
const END: [u32; 12] = [44, 15, 34, 21, 38, 33, 10, 13, 38, 53, 42, 54];

pub(super) fn hash_32(message: &[u8], seed: u32) -> u32 {
    let seed = u64::from(seed);
    let hash = if message.len() < 2 * BLOCK { short(message, seed) } else { long(message, seed) };
    hash as u32
}

fn short(message: &[u8], seed: u64) -> u64 {
    let mut state = [seed, seed, FILL, FILL];
    let mut pairs = message.chunks_exact(16);
    for (number, pair) in (&mut pairs).enumerate() {
        let (first, second) = (word(&pair[..8]), word(&pair[8..]));
        // Of each 32 bytes the first half is mixed in, and the second is added between two mixings.
        if number % 2 == 0 {
            state[2] = state[2].wrapping_add(first);
            state[3] = state[3].wrapping_add(second);
            short_mix(&mut state);
        } else {
            state[0] = state[0].wrapping_add(first);
            state[1] = state[1].wrapping_add(second);
        }
    }
    let rest = pairs.remainder();
    let (first, second) = rest.split_at(rest.len().min(8));
    let (first, second) = if rest.is_empty() { (FILL, FILL) } else { (word(first), word(second)) };
    state[2] = state[2].wrapping_add(first);
    state[3] = state[3].wrapping_add(second).wrapping_add((message.len() as u64) << 56);
    short_end(&mut state);
    state[0]
}

fn short_mix(state: &mut [u64; 4]) {
    for (step, rotation) in SHORT_MIX.into_iter().enumerate() {
        let (turned, added, changed) = ((step + 2) % 4, (step + 3) % 4, step % 4);
        state[turned] = state[turned].rotate_left(rotation).wrapping_add(state[added]);
        state[changed] ^= state[turned];
    }
}

fn short_end(state: &mut [u64; 4]) {
    for (step, rotation) in SHORT_END.into_iter().enumerate() {
        let (changed, turned) = ((step + 3) % 4, (step + 2) % 4);
        state[changed] ^= state[turned];
        state[turned] = state[turned].rotate_left(rotation);
        state[changed] = state[changed].wrapping_add(state[turned]);
    }
}

fn long(message: &[u8], seed: u64) -> u64 {
    let mut state: [u64; 12] = std::array::from_fn(|at| if at % 3 == 2 { FILL } else { seed });
    let mut blocks = message.chunks_exact(BLOCK);
    for block in &mut blocks {
        mix(&mut state, block);
    }
    let rest = blocks.remainder();
    let mut last = [0; BLOCK];
    last[..rest.len()].copy_from_slice(rest);
    last[BLOCK - 1] = rest.len() as u8;
    for (word_of, bytes) in state.iter_mut().zip(last.chunks_exact(8)) {
        *word_of = word_of.wrapping_add(word(bytes));
    }
    (0..3).for_each(|_| end(&mut state));
    state[0]
}

fn mix(state: &mut [u64; 12], block: &[u8]) {
    for (step, (bytes, rotation)) in block.chunks_exact(8).zip(MIX).enumerate() {
        let at = |offset| (step + offset) % 12;
        state[step] = state[step].wrapping_add(word(bytes));
        state[at(2)] ^= state[at(10)];
        state[at(11)] ^= state[step];
        state[step] = state[step].rotate_left(rotation);
        state[at(11)] = state[at(11)].wrapping_add(state[at(1)]);
    }
}

fn end(state: &mut [u64; 12]) {
    for (step, rotation) in END.into_iter().enumerate() {
        let at = |offset| (step + offset) % 12;
        state[at(11)] = state[at(11)].wrapping_add(state[at(1)]);
        state[at(2)] ^= state[at(11)];
        state[at(1)] = state[at(1)].rotate_left(rotation);
    }
}

/// At most eight bytes as a little-endian number.
fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}
