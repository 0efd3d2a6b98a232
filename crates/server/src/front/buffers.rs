//! Unused buffers, kept for reuse: nothing is allocated in the steady state, and an idle connection holds no buffer.

use super::limits::{BUFFER_BYTES, BUFFER_BYTES_KEPT, BUFFERS_KEPT};

/// Empties a buffer. Memory is given back only where it is far more than what was in it needed, so that a buffer filled
/// alike again and again is not cut and grown each time.
pub fn empty(buffer: &mut Vec<u8>, kept_bytes: usize) {
    let enough = buffer.len().max(kept_bytes);
    buffer.clear();
    if buffer.capacity() / 4 > enough {
        buffer.shrink_to(enough);
    }
}

/// Drops the first `done` bytes of a buffer once they are the larger part: a peer that is always a little behind must
/// not make the buffer grow for ever. A byte is moved at most once for every byte dropped.
pub fn shed(buffer: &mut Vec<u8>, done: &mut usize) {
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
    use super::{empty, shed};

    #[test]
    fn memory_stays_while_it_is_used_and_goes_when_it_is_not() {
        let mut buffer = vec![1; 1000];
        empty(&mut buffer, 10);
        assert!(buffer.is_empty() && buffer.capacity() >= 1000, "it was all needed");
        buffer.extend([1; 100]);
        empty(&mut buffer, 10);
        assert!((100..1000).contains(&buffer.capacity()), "a tenth of it was needed: {}", buffer.capacity());
    }

    #[test]
    fn what_is_done_with_goes_when_it_is_the_larger_part() {
        let mut buffer: Vec<u8> = [[1; 100_000], [2; 100_000]].concat();
        let mut done = 99_999;
        shed(&mut buffer, &mut done);
        assert_eq!((buffer.len(), done), (200_000, 99_999), "more would move than goes");
        done = 100_000;
        shed(&mut buffer, &mut done);
        assert_eq!((buffer, done), (vec![2; 100_000], 0));
    }
}
