//! The exchanges of a router, by number: those under way, and those kept to be used again with their memory.

use std::ops::{Index, IndexMut};

use super::exchange::Exchange;
use crate::cache::limits;

/// Exchanges by their number.
#[derive(Default)]
pub(super) struct Exchanges {
    all: Vec<Exchange>,
    free: Vec<u32>,
}

impl Exchanges {
    /// Takes a free exchange, or makes one; returns its number.
    pub(super) fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.all.push(Exchange::default());
            (self.all.len() - 1) as u32
        })
    }

    /// Frees an exchange. Its memory is kept for the next one, unless enough is kept already.
    pub(super) fn give_back(&mut self, id: u32) {
        if self.free.len() < limits::SPARE_MAX {
            self[id].clear();
        } else {
            self[id] = Exchange::default();
        }
        self.free.push(id);
    }

    /// Drops the free exchanges beyond `SPARE_MAX`. They are known by their index, so this waits until none is under way.
    pub(super) fn shed_spare(&mut self) {
        if self.free.len() == self.all.len() && self.all.len() > limits::SPARE_MAX {
            self.all.truncate(limits::SPARE_MAX);
            self.all.shrink_to_fit();
            self.free.clear();
            self.free.shrink_to(limits::SPARE_MAX);
            self.free.extend(0..limits::SPARE_MAX as u32);
        }
    }

    /// Returns how many are not free.
    pub(super) fn under_way(&self) -> usize {
        self.all.len() - self.free.len()
    }

    /// Returns all numbers, those of free exchanges included.
    pub(super) fn ids(&self) -> std::ops::Range<u32> {
        0..self.all.len() as u32
    }
}

impl Index<u32> for Exchanges {
    type Output = Exchange;

    fn index(&self, id: u32) -> &Exchange {
        &self.all[id as usize]
    }
}

impl IndexMut<u32> for Exchanges {
    fn index_mut(&mut self, id: u32) -> &mut Exchange {
        &mut self.all[id as usize]
    }
}
