//! Recorder of one thread: a small buffer of its own, handed over under a mutex of its own.
//!
//! `note` only copies a request's stamps. `flush`, once per loop turn, takes a mutex that only the collector
//! shares, once per window and for as long as a swap takes. Counting straight into thread-local histograms
//! and swapping them at the end of the window would save the copy, but a thread asleep in its poll would keep
//! its last requests until something woke it up, and an idle second would look like a dip.

use std::mem;
use std::sync::{Arc, Mutex};

use crate::backlog::{Backlog, CHUNK_REQUESTS};
use crate::chunk::Chunk;
use crate::lock::lock;
use crate::scheme::Scheme;
use crate::stage::Noted;
use crate::tally::Tallies;

/// Requests after which the buffer is handed over without a flush: 11 KB, which fit into the first-level cache.
const PENDING_MAX: usize = 128;

/// State that a recorder shares with the collector.
#[derive(Debug)]
pub(crate) struct Cell {
    held: Mutex<Held>,
    /// Gets every request, if a record of single requests is kept.
    backlog: Option<Arc<Backlog>>,
}

#[derive(Debug)]
struct Held {
    tallies: Tallies,
    /// Requests since the last whole chunk went to the backlog.
    chunk: Chunk,
}

impl Cell {
    pub(crate) fn new(scheme: Scheme, backlog: Option<Arc<Backlog>>) -> Self {
        Self { held: Mutex::new(Held { tallies: Tallies::new(scheme), chunk: Chunk::default() }), backlog }
    }

    /// Takes the tallies and leaves `spare`, which is empty, in their place; the requests go to the backlog.
    pub(crate) fn swap(&self, spare: &mut Tallies) {
        let mut held = lock(&self.held);
        mem::swap(&mut held.tallies, spare);
        if let Some(backlog) = &self.backlog {
            backlog.exchange(&mut held.chunk);
        }
    }

    /// Returns a count over the tallies since the last swap.
    pub(crate) fn count(&self, count: impl Fn(&Tallies) -> u64) -> u64 {
        count(&lock(&self.held).tallies)
    }

    fn take(&self, pending: &mut Vec<Noted>) {
        let mut held = lock(&self.held);
        // Requests that were handled together have the same stamps: they are counted and passed on together too.
        for alike in pending.chunk_by(Noted::counts_as) {
            held.tallies.note(&alike[0], alike.len() as u64);
            if let Some(backlog) = &self.backlog {
                pass_on(alike, &mut held.chunk, backlog);
            }
        }
        pending.clear();
    }
}

/// Adds requests that are alike to the chunk. However many they are, no chunk gets more than it may have: each that is
/// full goes to the backlog.
fn pass_on(mut alike: &[Noted], chunk: &mut Chunk, backlog: &Backlog) {
    while !alike.is_empty() {
        let (fitting, rest) = alike.split_at(alike.len().min(CHUNK_REQUESTS - chunk.len()));
        chunk.push(fitting);
        alike = rest;
        if chunk.len() == CHUNK_REQUESTS {
            backlog.exchange(chunk);
        }
    }
}

/// One thread's access to the meter. Dropping it hands over what it holds.
#[derive(Debug)]
pub struct Recorder {
    cell: Arc<Cell>,
    pending: Vec<Noted>,
}

impl Recorder {
    pub(crate) fn new(cell: Arc<Cell>) -> Self {
        Self { cell, pending: Vec::with_capacity(PENDING_MAX) }
    }

    /// Notes one ended request.
    #[inline]
    pub fn note(&mut self, noted: Noted) {
        if cfg!(feature = "unmeasured") {
            return;
        }
        if self.pending.len() == PENDING_MAX {
            self.flush();
        }
        self.pending.push(noted);
    }

    /// Notes requests that ended together and leaves `noted` empty.
    pub fn note_all(&mut self, noted: &mut Vec<Noted>) {
        if cfg!(feature = "unmeasured") {
            noted.clear();
            return;
        }
        if self.pending.len() + noted.len() > PENDING_MAX {
            self.flush();
        }
        self.pending.append(noted);
    }

    /// Hands the noted requests to the collector: at the end of every loop turn, before the thread may sleep.
    /// Panics when a request's kind has no name.
    pub fn flush(&mut self) {
        if !self.pending.is_empty() {
            self.cell.take(&mut self.pending);
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::{Ending, Stamps};

    #[test]
    fn no_chunk_has_more_requests_than_it_may_however_many_are_noted_together() {
        let backlog = Arc::new(Backlog::default());
        let cell = Arc::new(Cell::new(Scheme::clients(&["send"]), Some(Arc::clone(&backlog))));
        let mut recorder = Recorder::new(Arc::clone(&cell));
        let mut together = vec![Noted::new(0, Ending::Ok, Stamps::default()); 2 * CHUNK_REQUESTS];
        recorder.note(together[0]);
        recorder.note_all(&mut together);
        recorder.flush();
        cell.swap(&mut Tallies::new(Scheme::clients(&["send"])));
        backlog.close();
        let chunks: Vec<usize> = std::iter::from_fn(|| backlog.take()).map(|chunk| chunk.len()).collect();
        assert_eq!(chunks, [CHUNK_REQUESTS, CHUNK_REQUESTS, 1]);
    }
}
