//! The most bytes that records take in the log, with what the log adds to each: so much space is reserved before they are
//! written. Rounded up.

/// A record about one message that is there: it is removed, leased, returned or moved. The name of a dead letter's first
/// queue comes on top.
pub(in crate::queue::embedded) const CHANGE_BYTES: u64 = 80;

/// The record of a message that is sent, beside its headers and its body.
pub(in crate::queue::embedded) const MESSAGE_BYTES: u64 = 96;

/// A copy of a message in a remembered answer, beyond the message's record: the name of its queue, a lease, and the first
/// queue of a dead letter.
pub(in crate::queue::embedded) const COPY_BYTES: u64 = 640;

/// What a record grows by when it is written again with what has become of its message: a lease, the first queue of a
/// dead letter, what the log adds.
pub(in crate::queue::embedded) const PRESENT_STATE_BYTES: u64 = 320;

/// The record of the counters.
pub(in crate::queue::embedded) const COUNTERS_BYTES: u64 = 64;

/// All other records of a request, beside what it carries: a queue, or an account and the answer to a key.
pub(in crate::queue::embedded) const REQUEST_BYTES: u64 = 1024;
