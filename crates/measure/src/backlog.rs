//! Requests on their way to `requests.parquet`: chunks between the threads that measure and the one that writes.
//!
//! A thread on the path gives a full chunk and gets an empty one, and never waits for the disk: when all chunks
//! are full because the disk does not keep up, what the thread holds is dropped and counted. The chunk used last
//! is the first to be used again, so a writer that keeps up works in a few that the caches know.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};

use crate::chunk::Chunk;
use crate::lock::lock;

/// Requests in a chunk: 80 to 360 KB, worth a thread's waking.
pub(crate) const CHUNK_REQUESTS: usize = 4096;

/// Most chunks: 46 MB at most, or half a million requests that the disk may be behind.
const CHUNKS_MAX: usize = 128;

/// What waits to be written. Shared by the threads that measure and the one that writes.
#[derive(Debug, Default)]
pub struct Backlog {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Debug, Default)]
struct State {
    full: VecDeque<Chunk>,
    spare: Vec<Chunk>,
    made: usize,
    lost: u64,
    closed: bool,
}

impl Backlog {
    /// Takes what is in `chunk` and leaves it empty. Never waits.
    pub(crate) fn exchange(&self, chunk: &mut Chunk) {
        let mut state = lock(&self.state);
        if chunk.is_empty() {
            return;
        }
        match state.empty_chunk() {
            Some(empty) if !state.closed => {
                state.full.push_back(std::mem::replace(chunk, empty));
                self.news.notify_one();
            }
            _ => {
                state.lost += chunk.len() as u64;
                chunk.clear();
            }
        }
    }

    /// For the writer: the next full chunk, waiting for it; None when the backlog is closed and empty.
    pub(crate) fn take(&self) -> Option<Chunk> {
        let mut state = lock(&self.state);
        loop {
            if let Some(chunk) = state.full.pop_front() {
                return Some(chunk);
            }
            if state.closed {
                return None;
            }
            state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// For the writer: a chunk it has written.
    pub(crate) fn give_back(&self, mut chunk: Chunk) {
        chunk.clear();
        lock(&self.state).spare.push(chunk);
    }

    /// From now on nothing is taken; what comes is counted as lost.
    pub(crate) fn close(&self) {
        lock(&self.state).closed = true;
        self.news.notify_one();
    }

    /// The same, and what waits is lost too.
    pub(crate) fn give_up(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        state.lost += state.full.drain(..).map(|chunk| chunk.len() as u64).sum::<u64>();
    }

    /// Requests that were not taken.
    pub(crate) fn lost(&self) -> u64 {
        lock(&self.state).lost
    }
}

impl State {
    fn empty_chunk(&mut self) -> Option<Chunk> {
        if self.spare.is_empty() && self.made < CHUNKS_MAX {
            self.made += 1;
            return Some(Chunk::with_capacity(CHUNK_REQUESTS));
        }
        self.spare.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::{Ending, Noted, Stamps};

    fn chunk(requests: usize) -> Chunk {
        let mut chunk = Chunk::default();
        chunk.push(&vec![Noted::new(0, Ending::Ok, Stamps::default()); requests]);
        chunk
    }

    #[test]
    fn a_writer_that_stands_still_costs_requests_and_not_memory_or_time() {
        let backlog = Backlog::default();
        for _ in 0..CHUNKS_MAX + 3 {
            let mut full = chunk(CHUNK_REQUESTS);
            backlog.exchange(&mut full);
            assert!(full.is_empty());
        }
        assert_eq!(backlog.lost(), 3 * CHUNK_REQUESTS as u64);
        let written = backlog.take().expect("a chunk");
        backlog.give_back(written);
        backlog.exchange(&mut chunk(5));
        assert_eq!(backlog.lost(), 3 * CHUNK_REQUESTS as u64, "there is room again");
    }

    #[test]
    fn what_came_before_the_end_is_written_and_what_comes_after_is_counted() {
        let backlog = Backlog::default();
        backlog.exchange(&mut chunk(7));
        backlog.close();
        backlog.exchange(&mut chunk(2));
        assert_eq!(backlog.take().map(|chunk| chunk.len()), Some(7));
        assert!(backlog.take().is_none());
        assert_eq!(backlog.lost(), 2);
    }
}
