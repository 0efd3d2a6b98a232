//! Buffers that nobody uses, kept so that nothing is allocated in the steady state and an idle connection holds none.

use super::limits::{BUFFER_BYTES, BUFFER_BYTES_KEPT, BUFFERS_KEPT};

/// Some of them.
#[derive(Default)]
pub struct Buffers(Vec<Vec<u8>>);

impl Buffers {
    /// An empty one.
    #[must_use]
    pub fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES))
    }

    /// Takes one back. What it holds is forgotten.
    pub fn keep(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() > 0 && self.0.len() < BUFFERS_KEPT {
            buffer.clear();
            buffer.shrink_to(BUFFER_BYTES_KEPT);
            self.0.push(buffer);
        }
    }
}
