//! Fingerprints instead of bytes: journals stay small however large the messages are.
//!
//! A body must be unique among the messages of a history, for it is what tells them apart: a send that was never
//! answered has no id. 128 bits of XXH3 over all its bytes are its identity and its content at once.

use std::fmt;
use std::num::NonZeroU64;

use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// The fingerprint of a message's body, which identifies the message within a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Body([u64; 2]);

/// The fingerprint of a `DEDUP` or `REQID` key, a receipt or headers.
pub type Key = NonZeroU64;

impl Body {
    /// Returns the fingerprint of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self::from_bits(xxh3_128(bytes))
    }

    pub(crate) const fn from_bits(bits: u128) -> Self {
        Self([(bits >> 64) as u64, bits as u64])
    }

    pub(crate) fn bits(self) -> u128 {
        u128::from(self.0[0]) << 64 | u128::from(self.0[1])
    }
}

impl fmt::Display for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.bits())
    }
}

/// Returns the fingerprint of a key, a receipt or headers; None if `bytes` is empty.
#[must_use]
pub fn fingerprint(bytes: &[u8]) -> Option<Key> {
    if bytes.is_empty() { None } else { Some(Key::new(xxh3_64(bytes)).unwrap_or(Key::MAX)) }
}
