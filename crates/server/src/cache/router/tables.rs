//! By which tables a router goes: new requests by the one that was taken up last, others by theirs, to their end.
//!
//! Of all tables that are gone by, the other routers are told which is the oldest that keys may be written by without a claim, see
//! [`handover`](crate::cache::handover).

use std::sync::Arc;

use super::Router;
use super::lane::{ASIDE, Lane};
use crate::cache::table::Table;

/// A table, and how many exchanges go by it.
#[derive(Default)]
pub(super) struct InUse {
    pub(super) table: Arc<Table>,
    /// Its number.
    generation: u64,
    pub(super) exchanges: usize,
    /// Of those, the writes that claim nothing.
    pub(super) unclaimed: usize,
}

impl Router {
    /// Takes up the table in force, if it is a new one. Requests under way go on by theirs.
    pub fn take_up(&mut self) {
        while self.rests || self.fleet.generation() != self.generation {
            self.rests = false;
            self.take_up_newest();
            self.tell_oldest();
        }
    }

    fn take_up_newest(&mut self) {
        let generation = self.fleet.generation();
        if generation == self.generation {
            return;
        }
        self.generation = generation;
        let table = self.fleet.table();
        self.servers.clone_from(&table.servers);
        self.lanes.resize_with(self.servers.len(), Lane::default);
        self.share_of_server.resize(self.servers.len(), ASIDE);
        let unused = self.tables.iter().position(|used| used.exchanges == 0);
        let place = unused.unwrap_or(self.tables.len());
        if unused.is_none() {
            self.tables.push(InUse::default());
        }
        for unused in self.tables.iter_mut().filter(|used| used.exchanges == 0) {
            unused.table = Arc::default();
        }
        (self.tables[place].table, self.tables[place].generation) = (table, generation);
        self.current = place as u16;
    }

    /// Nothing is under way, and nothing will be taken until a table is taken up again: nobody has to wait for that.
    pub fn rest(&mut self) {
        self.rests = true;
        self.tell_oldest();
    }

    /// Tells the others which is the oldest table that keys may be written by here without a claim.
    fn tell_oldest(&self) {
        let is_written_by = |(place, used): &(usize, &InUse)| {
            used.unclaimed > 0 || !self.rests && *place == usize::from(self.current)
        };
        let tables = self.tables.iter().enumerate().filter(is_written_by);
        self.party.say(tables.map(|(_, used)| used.generation).min());
    }

    /// A write that claimed nothing is over. If it was the last one by an earlier table, others may have waited for it.
    pub(super) fn end_unclaimed(&mut self, id: u32) {
        let table = self.exchange(id).table;
        let used = &mut self.tables[usize::from(table)];
        used.unclaimed -= 1;
        if table != self.current && used.unclaimed == 0 {
            self.tell_oldest();
            self.claim_released = true;
        }
    }

    /// Whether no key is written any more by a table before the present one, that nobody else would know of.
    pub(super) fn is_handed_over(&mut self) -> bool {
        if self.handed_over != self.generation && self.fleet.handover.is_done(self.generation) {
            self.handed_over = self.generation;
        }
        self.handed_over == self.generation
    }

    /// Whether a pool of the present table has a server.
    #[must_use]
    pub fn names(&self, server: usize) -> bool {
        self.table().in_use().binary_search(&server).is_ok()
    }

    /// The table that new requests go by.
    pub(super) fn table(&self) -> &Table {
        &self.tables[usize::from(self.current)].table
    }

    /// The table that an exchange goes by.
    pub(super) fn table_of(&self, id: u32) -> &Table {
        &self.tables[usize::from(self.exchanges[id as usize].table)].table
    }
}
