//! Bounds that stores have in common, so that they can be compared answer by answer.

use super::rules::Millis;

/// How long a `DEDUP` or `REQID` key is remembered, counted from its first use.
pub(crate) const REMEMBERED_MS: Millis = 10 * 60 * 1000;

/// An answer to `COUNT n` ends before the message that would take it beyond this; the first always fits. Bodies and
/// headers count; in the embedded store whole records do, which have some dozen bytes more and whose length is known
/// without reading them.
pub(crate) const ANSWER_BYTES: usize = 8 << 20;

/// Most bytes that a SEND to everyone writes: they stand in memory until they are on the disk; in a database others
/// wait.
pub(crate) const COPIES_BYTES: u64 = 64 << 20;
