//! Queue of chunks of requests, from the threads that measure to the thread that writes `requests.parquet`.
//!
//! A measuring thread exchanges a full chunk for an empty one and never waits for the disk: when the disk
//! does not keep up and all chunks are full, the thread's requests are dropped and counted. The chunk used
//! last is reused first, so a writer that keeps up uses only a few chunks, which stay in the caches.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};

use crate::chunk::Chunk;
use crate::lock::lock;

/// Requests in a chunk: 80 to 360 KB, enough to be worth waking the writer.
pub(crate) const CHUNK_REQUESTS: usize = 4096;

/// Most chunks: 46 MB, or half a million requests that the disk may lag behind.
const CHUNKS_MAX: usize = 128;

/// Full chunks that wait to be written, and the pool of empty ones.
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
    /// Takes the requests in `chunk` and leaves it empty. Never waits.
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

    /// Returns the next full chunk to the writer, waiting for it; None when the backlog is closed and empty.
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

    /// Takes back a chunk that the writer has written.
    pub(crate) fn give_back(&self, mut chunk: Chunk) {
        chunk.clear();
        lock(&self.state).spare.push(chunk);
    }

    /// Closes the backlog: requests that arrive from now on are counted as lost.
    pub(crate) fn close(&self) {
        lock(&self.state).closed = true;
        self.news.notify_one();
    }

    /// Closes the backlog and counts the waiting requests as lost too.
    pub(crate) fn give_up(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        state.lost += state.full.drain(..).map(|chunk| chunk.len() as u64).sum::<u64>();
    }

    /// Returns the number of lost requests.
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
