//! Values that say by themselves whether they are what was stored.
//!
//! A value begins with a header (which run and which key it is for, which write made it, how long it is, and a checksum
//! of these) and goes on with a stretch of a pool of random bytes that only header and key determine. So every byte of
//! a value can be verified by its key alone, in this run or a later one, without a table of what was written: a flipped
//! bit, a cut end, another key's value all show. Making one is two copies and checking one is a comparison, at the
//! speed of memory.
//!
//! A value too short for the header is a stretch of the pool that its key alone determines.

use fastrand::Rng;

use crate::seeds::mix;

const MARK: [u8; 2] = *b"ph";

/// Length of the header: mark, run, key, write, length, checksum.
pub const HEADER_BYTES: usize = 30;

/// Number of bytes that the checksum covers.
const CHECKED_BYTES: usize = 26;

/// Size of the pool in bytes; a longer value wraps around.
const POOL_BYTES: usize = 64 * 1024;

/// Seed of the pool: the same in all runs, or values of an earlier one could not be verified.
const POOL_SEED: u64 = 0x706f_7374_6861_7374;

/// Which write a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Tells the run from others.
    pub run: u32,
    /// Which client wrote it, and as which of its writes.
    pub write: u64,
}

/// Why a value is not what was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// The value does not begin as values of this program do.
    Foreign,
    /// The header of the value is not as it was written.
    Header,
    /// The value is that of another key, this one.
    OtherKey(u64),
    /// The value was stored with this length, and has another; if it is too short for a header, this run stores none
    /// shorter than this.
    Length(u32),
    /// The byte at this place is not what was stored.
    Byte(usize),
}

/// Random bytes that all values are cut from.
#[derive(Debug)]
pub struct Pool(Vec<u8>);

impl Default for Pool {
    fn default() -> Self {
        let mut rng = Rng::with_seed(POOL_SEED);
        Self((0..POOL_BYTES).map(|_| rng.u8(..)).collect())
    }
}

impl Pool {
    /// Appends a value.
    pub fn write(&self, key: u64, version: Version, len: usize, out: &mut Vec<u8>) {
        if len < HEADER_BYTES {
            return self.copy(mix(key, 0), len, out);
        }
        let begin = out.len();
        out.extend_from_slice(&MARK);
        out.extend_from_slice(&version.run.to_le_bytes());
        out.extend_from_slice(&key.to_le_bytes());
        out.extend_from_slice(&version.write.to_le_bytes());
        out.extend_from_slice(&(len as u32).to_le_bytes());
        let checksum = crc32c::crc32c(&out[begin..]);
        out.extend_from_slice(&checksum.to_le_bytes());
        self.copy(mix(key, seed(version)), len - HEADER_BYTES, out);
    }

    /// Verifies every byte of a value that came for `key`.
    ///
    /// # Errors
    /// What is wrong with the value.
    pub fn verify(&self, key: u64, value: &[u8]) -> Result<(), Wrong> {
        let Some((header, rest)) = value.split_at_checked(HEADER_BYTES) else {
            return self.compare(mix(key, 0), value, 0);
        };
        if header[..2] != MARK {
            return Err(Wrong::Foreign);
        }
        let field = |from: usize, to: usize| {
            header[from..to].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
        };
        if field(CHECKED_BYTES, HEADER_BYTES) != u64::from(crc32c::crc32c(&header[..CHECKED_BYTES])) {
            return Err(Wrong::Header);
        }
        let version = Version { run: field(2, 6) as u32, write: field(14, 22) };
        if field(6, 14) != key {
            return Err(Wrong::OtherKey(field(6, 14)));
        }
        if field(22, 26) != value.len() as u64 {
            return Err(Wrong::Length(field(22, 26) as u32));
        }
        self.compare(mix(key, seed(version)), rest, HEADER_BYTES)
    }

    fn copy(&self, from: u64, mut len: usize, out: &mut Vec<u8>) {
        let mut stretch = self.from(from);
        while len > 0 {
            let some = len.min(stretch.len());
            out.extend_from_slice(&stretch[..some]);
            len -= some;
            stretch = &self.0;
        }
    }

    /// Compares with the stretch at `from`; `base` bytes of the value come before `bytes`.
    fn compare(&self, from: u64, mut bytes: &[u8], mut base: usize) -> Result<(), Wrong> {
        let mut stretch = self.from(from);
        while !bytes.is_empty() {
            let some = bytes.len().min(stretch.len());
            if bytes[..some] != stretch[..some] {
                let same = bytes.iter().zip(stretch).take_while(|(a, b)| a == b).count();
                return Err(Wrong::Byte(base + same));
            }
            bytes = &bytes[some..];
            base += some;
            stretch = &self.0;
        }
        Ok(())
    }

    fn from(&self, place: u64) -> &[u8] {
        &self.0[(place % POOL_BYTES as u64) as usize..]
    }
}

fn seed(version: Version) -> u64 {
    version.write ^ u64::from(version.run) << 32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(pool: &Pool, key: u64, write: u64, len: usize) -> Vec<u8> {
        let mut out = Vec::new();
        pool.write(key, Version { run: 9, write }, len, &mut out);
        out
    }

    #[test]
    fn what_is_wrong_is_told() {
        let pool = Pool::default();
        let good = value(&pool, 7, 1, 100);
        assert_eq!(pool.verify(8, &good), Err(Wrong::OtherKey(7)));
        assert_eq!(pool.verify(7, &good[..99]), Err(Wrong::Length(100)));
        assert_eq!(pool.verify(7, &[b'x'; 100]), Err(Wrong::Foreign));
        let mut flipped = good;
        flipped[60] ^= 1;
        assert_eq!(pool.verify(7, &flipped), Err(Wrong::Byte(60)));
        flipped[20] ^= 1;
        assert_eq!(pool.verify(7, &flipped), Err(Wrong::Header));
    }

    #[test]
    fn every_write_makes_another_value() {
        let pool = Pool::default();
        assert_ne!(value(&pool, 7, 1, 100)[HEADER_BYTES..], value(&pool, 7, 2, 100)[HEADER_BYTES..]);
    }

    proptest! {
        #[test]
        fn what_is_written_verifies_and_any_changed_byte_is_noticed(
            key: u64, write: u64, len in prop_oneof![1..50_usize, 1..400_usize, 60_000..200_000_usize],
            at: prop::sample::Index, flip in 1..=255_u8,
        ) {
            let pool = Pool::default();
            let mut value = value(&pool, key, write, len);
            prop_assert_eq!(value.len(), len);
            prop_assert_eq!(pool.verify(key, &value), Ok(()));
            value[at.index(len)] ^= flip;
            prop_assert!(pool.verify(key, &value).is_err());
        }
    }
}
