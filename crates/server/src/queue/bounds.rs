//! Bounds that hold in every store, so that stores can be compared answer by answer.

use super::rules::Millis;

/// How long a `DEDUP` or `REQID` key is remembered, counted from its first use.
pub(crate) const REMEMBERED_MS: Millis = 10 * 60 * 1000;

/// An answer to `COUNT n` ends before the message whose body and headers would take it beyond this; the first always
/// fits.
pub(crate) const ANSWER_BYTES: usize = 8 << 20;

/// Most bytes that a SEND to everyone writes: they stand in memory until they are on the disk; in a database others
/// wait.
pub(crate) const COPIES_BYTES: u64 = 64 << 20;
