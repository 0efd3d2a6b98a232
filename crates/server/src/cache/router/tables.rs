//! The tables in use by a router: new requests go by the one that was adopted last, earlier ones by theirs to the end.
//!
//! A router publishes to the others the oldest of these tables by which keys may still be written without a claim, see
//! [`handover`](crate::cache::handover).

use std::sync::Arc;

use super::Router;
use super::lane::Lane;
use crate::cache::table::Table;

/// A table, and how many exchanges go by it.
#[derive(Default)]
pub(super) struct TableInUse {
    pub(super) table: Arc<Table>,
    /// The table's number.
    generation: u64,
    pub(super) exchanges: usize,
    /// How many of those exchanges are writes without a claim.
    pub(super) unclaimed: usize,
}

impl Router {
    /// Adopts the table in force for new requests. Requests under way keep theirs.
    pub fn adopt_table(&mut self) {
        while self.is_idle || self.fleet.generation() != self.generation {
            self.is_idle = false;
            self.adopt_newest();
            self.publish_oldest();
        }
    }

    fn adopt_newest(&mut self) {
        let generation = self.fleet.generation();
        if generation == self.generation {
            return;
        }
        self.generation = generation;
        let table = self.fleet.table();
        self.servers.clone_from(&table.servers);
        self.lanes.resize_with(self.servers.len(), Lane::default);
        self.scratch.share_of_server.resize(self.servers.len(), None);
        let unused = self.tables.iter().position(|used| used.exchanges == 0);
        let place = unused.unwrap_or(self.tables.len());
        if unused.is_none() {
            self.tables.push(TableInUse::default());
        }
        for unused in self.tables.iter_mut().filter(|used| used.exchanges == 0) {
            unused.table = Arc::default();
        }
        (self.tables[place].table, self.tables[place].generation) = (table, generation);
        self.current = place as u16;
    }

    /// Notes that no request is under way, and that none is accepted before the next `adopt_table`: no other router has to
    /// wait for this one.
    pub fn go_idle(&mut self) {
        self.is_idle = true;
        self.publish_oldest();
    }

    /// Publishes to the other routers the oldest table by which keys may be written here without a claim.
    fn publish_oldest(&self) {
        let is_written_by = |(place, used): &(usize, &TableInUse)| {
            used.unclaimed > 0 || !self.is_idle && *place == usize::from(self.current)
        };
        let tables = self.tables.iter().enumerate().filter(is_written_by);
        self.handover.publish(tables.map(|(_, used)| used.generation).min());
    }

    /// Notes the end of a write without a claim. Other threads may wait for the last one by an earlier table.
    pub(super) fn end_unclaimed(&mut self, id: u32) {
        let table = self.exchanges[id].table;
        let used = &mut self.tables[usize::from(table)];
        used.unclaimed -= 1;
        if table != self.current && used.unclaimed == 0 {
            self.publish_oldest();
            self.claim_released = true;
        }
    }

    /// Returns whether all routers have adopted the current table, so that no key is written by an earlier one without a claim.
    pub(super) fn is_handed_over(&mut self) -> bool {
        if self.handed_over != self.generation && self.fleet.handover.is_complete(self.generation) {
            self.handed_over = self.generation;
        }
        self.handed_over == self.generation
    }

    /// Returns whether some pool of the current table has this server.
    #[must_use]
    pub fn has_server(&self, server: usize) -> bool {
        self.table().in_use().binary_search(&server).is_ok()
    }

    /// The table that new requests go by.
    pub(super) fn table(&self) -> &Table {
        &self.tables[usize::from(self.current)].table
    }

    /// The table that an exchange goes by.
    pub(super) fn table_of(&self, id: u32) -> &Table {
        &self.tables[usize::from(self.exchanges[id].table)].table
    }
}
