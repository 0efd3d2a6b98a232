//! Where one thread leaves its requests: a small buffer of its own, handed over under a mutex of its own.
//!
//! `note` copies 56 bytes and nothing else. `flush`, once per loop turn, takes a mutex that only the collector
//! shares, once per window and for as long as a swap takes. Counting straight into thread-local histograms and
//! swapping them when the window turns would save the copy, but a thread asleep in its poll would keep its last
//! requests until something woke it, and an idle second would look like a dip.

use std::mem;
use std::sync::{Arc, Mutex};

use crate::lock::lock;
use crate::stage::{Ending, Stamps};
use crate::tally::Tallies;

/// Requests kept before they are handed over without being asked: 7 KB, at home in the first-level cache.
const PENDING_MAX: usize = 128;

/// What a recorder shares with the collector.
#[derive(Debug)]
pub(crate) struct Cell(Mutex<Tallies>);

impl Cell {
    pub(crate) fn new(kinds: &'static [&'static str]) -> Self {
        Self(Mutex::new(Tallies::new(kinds)))
    }

    /// Takes what was counted and leaves `spare`, which is empty, in its place.
    pub(crate) fn swap(&self, spare: &mut Tallies) {
        mem::swap(&mut *lock(&self.0), spare);
    }
}

/// One thread's access to the meter. Dropping it hands over what it holds.
#[derive(Debug)]
pub struct Recorder {
    cell: Arc<Cell>,
    pending: Vec<Note>,
}

#[derive(Clone, Copy, Debug)]
struct Note {
    stamps: Stamps,
    kind: u8,
    ending: Ending,
}

impl Recorder {
    pub(crate) fn new(cell: Arc<Cell>) -> Self {
        Self { cell, pending: Vec::with_capacity(PENDING_MAX) }
    }

    /// Notes one ended request of the kind at place `kind` in the meter's table.
    #[inline]
    pub fn note(&mut self, kind: u8, ending: Ending, stamps: &Stamps) {
        if cfg!(feature = "unmeasured") {
            return;
        }
        if self.pending.len() == PENDING_MAX {
            self.flush();
        }
        self.pending.push(Note { stamps: *stamps, kind, ending });
    }

    /// Hands the noted requests to the collector: at the end of every loop turn, before the thread may sleep.
    /// Panics when a request's kind has no name.
    pub fn flush(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let mut tallies = lock(&self.cell.0);
        for note in self.pending.drain(..) {
            tallies.note(note.kind, note.ending, &note.stamps);
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.flush();
    }
}
