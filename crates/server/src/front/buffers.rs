//! Unused buffers, kept for reuse: nothing is allocated in the steady state, and an idle connection holds no buffer.

use super::limits::{BUFFER_BYTES, BUFFER_BYTES_KEPT, BUFFERS_KEPT};

/// Clears a buffer. It gives memory back only where it has far more than its content needed, so that a buffer that is
/// filled alike again and again is not shrunk and grown each time.
pub fn clear_and_shrink(buffer: &mut Vec<u8>, kept_bytes: usize) {
    let enough = buffer.len().max(kept_bytes);
    buffer.clear();
    if buffer.capacity() / 4 > enough {
        buffer.shrink_to(enough);
    }
}

/// Drops the first `done` bytes of a buffer once they are at least half of it, so that the buffer does not grow for ever
/// if its reader is always a little behind. At most one byte is moved for every byte dropped.
pub fn drop_done(buffer: &mut Vec<u8>, done: &mut usize) {
    if *done > BUFFER_BYTES_KEPT && *done >= buffer.len() / 2 {
        buffer.drain(..*done);
        *done = 0;
    }
}

/// The unused buffers of a thread.
#[derive(Default)]
pub struct Buffers(Vec<Vec<u8>>);

impl Buffers {
    /// Returns an empty buffer.
    #[must_use]
    pub fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES))
    }

    /// Takes back a buffer and drops its content.
    pub fn keep(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() > 0 && self.0.len() < BUFFERS_KEPT {
            buffer.clear();
            buffer.shrink_to(BUFFER_BYTES_KEPT);
            self.0.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{clear_and_shrink, drop_done};

    #[test]
    fn a_cleared_buffer_keeps_memory_that_it_needed_and_gives_back_the_rest() {
        let mut buffer = vec![1; 1000];
        clear_and_shrink(&mut buffer, 10);
        assert!(buffer.is_empty() && buffer.capacity() >= 1000, "it was all needed");
        buffer.extend([1; 100]);
        clear_and_shrink(&mut buffer, 10);
        assert!((100..1000).contains(&buffer.capacity()), "a tenth of it was needed: {}", buffer.capacity());
    }

    #[test]
    fn bytes_that_are_done_with_are_dropped_once_they_are_half_of_the_buffer() {
        let mut buffer: Vec<u8> = [[1; 100_000], [2; 100_000]].concat();
        let mut done = 99_999;
        drop_done(&mut buffer, &mut done);
        assert_eq!((buffer.len(), done), (200_000, 99_999), "more would be moved than dropped");
        done = 100_000;
        drop_done(&mut buffer, &mut done);
        assert_eq!((buffer, done), (vec![2; 100_000], 0));
    }
}
