//! The tables in use by a router: new requests go by the one that was adopted last, earlier ones by theirs to the end.
//!
//! A router publishes to the others the oldest of these tables by which keys may still be written, without a claim and
//! with one, see [`handover`](crate::cache::handover).

use std::sync::Arc;

use super::Router;
use super::lane::Lane;
use crate::cache::claims::Claim;
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
    /// How many of those exchanges hold a claim.
    claimed: usize,
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

    /// Notes that no request is under way, and that none is accepted before the next `adopt_table`: no other router has
    /// to wait for this one.
    pub fn go_idle(&mut self) {
        self.is_idle = true;
        self.publish_oldest();
    }

    /// Publishes to the other routers the oldest tables by which keys may be written here, without a claim and with one.
    fn publish_oldest(&self) {
        let oldest = |is_written_by: fn(&TableInUse) -> bool| {
            let may_write = |(place, used): &(usize, &TableInUse)| {
                is_written_by(used) || !self.is_idle && *place == usize::from(self.current)
            };
            self.tables.iter().enumerate().filter(may_write).map(|(_, used)| used.generation).min()
        };
        self.handover.publish(oldest(|used| used.unclaimed > 0), oldest(|used| used.claimed > 0));
    }

    /// Has an exchange hold a claim.
    pub(super) fn hold_claim(&mut self, id: u32, claim: Claim) {
        let exchange = &mut self.exchanges[id];
        exchange.claim = Some(claim);
        self.tables[usize::from(exchange.table)].claimed += 1;
    }

    /// Takes from an exchange the claim that it holds, if any.
    pub(super) fn take_claim(&mut self, id: u32) -> Option<Claim> {
        let exchange = &mut self.exchanges[id];
        let claim = exchange.claim.take()?;
        let table = exchange.table;
        let used = &mut self.tables[usize::from(table)];
        used.claimed -= 1;
        if table != self.current && used.claimed == 0 {
            self.publish_oldest();
        }
        Some(claim)
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

    /// Returns whether all routers have adopted the current table, so that no key is written by an earlier one without
    /// a claim.
    pub(super) fn is_handed_over(&mut self) -> bool {
        if self.handed_over != self.generation && self.fleet.handover.is_complete(self.generation) {
            self.handed_over = self.generation;
        }
        self.handed_over == self.generation
    }

    /// Returns whether no router holds a claim by an earlier table: a key of which there is one copy need not be claimed.
    pub(super) fn are_earlier_claims_over(&mut self) -> bool {
        if self.claims_handed_over != self.generation && self.fleet.handover.are_claims_past(self.generation)
        {
            self.claims_handed_over = self.generation;
        }
        self.claims_handed_over == self.generation
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
