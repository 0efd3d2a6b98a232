//! A stretch of a request's bytes, by place instead of by borrow.
//!
//! A request outlives the socket buffer it was read from: it travels to a worker together with one copy of
//! its raw bytes. Spans stay true across that copy, so nothing is parsed twice and no argument is
//! allocated for itself.

/// `len` bytes from `start`, counted from the first byte of the request (or bundle of requests) it belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Number of bytes.
    pub len: u32,
}

impl Span {
    /// The bytes this span names. Panics when `bytes` is not what the span was made from.
    #[must_use]
    pub fn of(self, bytes: &[u8]) -> &[u8] {
        let start = self.start as usize;
        &bytes[start..start + self.len as usize]
    }
}
