//! A range of a request's bytes, given by offset and length instead of by reference.
//!
//! A request outlives the socket buffer it was read from: it is handed to a worker together with one copy of its raw
//! bytes. Spans stay valid across that copy, so nothing is parsed twice and no argument needs an allocation of its own.

/// A range of `len` bytes from `start`, counted from the first byte of the request (or bundle of requests) it
/// belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Number of bytes.
    pub len: u32,
}

impl Span {
    /// Returns the bytes of this span. Panics when `bytes` is shorter than what the span was made from.
    #[must_use]
    pub fn of(self, bytes: &[u8]) -> &[u8] {
        let start = self.start as usize;
        &bytes[start..start + self.len as usize]
    }
}
