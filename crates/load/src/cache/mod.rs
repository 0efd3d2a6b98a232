//! The load generator for caches: its workload, its clients, its checks.

pub mod check;
pub mod cycle;
pub mod dialogue;
mod gauss;
pub mod keys;
pub mod memtier;
pub mod options;
mod preload;
mod probe;
pub mod value;
pub mod zipf;

use std::sync::Arc;

use serde::Serialize;

use crate::address::{Address, BlockingStream};
use crate::bench::{Bench, Details, FinishedClients, Settled};
use crate::error::LoadError;
use crate::probe::Probe;
use crate::run_options::RunOptions;
use crate::violations::Violations;
use check::{CacheCheck, Findings, Inspector};
use dialogue::{CacheDialogue, CacheThreadState, Lookups, Recipe};
pub use options::CacheBench;
use probe::CacheProbe;
use value::Pool;

/// The part of a report that only caches have.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CacheDetails {
    /// Keys asked for that had a value.
    pub hits: u64,
    /// Keys asked for that had none.
    pub misses: u64,
}

impl Details for CacheDetails {
    fn footnote(&self, duration_s: f64) -> Option<String> {
        let keys = self.hits + self.misses;
        if keys == 0 {
            return None; // of sets alone: a share of none would pass for one of all
        }
        let share = 100.0 * self.hits as f64 / keys as f64;
        Some(format!(
            "keys: {} hits, {} misses ({share:.2} % hits, {:.0} keys/s)",
            self.hits,
            self.misses,
            keys as f64 / duration_s
        ))
    }
}

impl Bench for CacheBench {
    type Dialogue = CacheDialogue;
    type Prepared = Arc<Recipe>;
    type Details = CacheDetails;
    type Check = CacheCheck;

    fn options(&self) -> &RunOptions {
        &self.run
    }

    fn options_mut(&mut self) -> &mut RunOptions {
        &mut self.run
    }

    fn servers(&self) -> &[Address] {
        &self.connect
    }

    fn servers_mut(&mut self) -> &mut [Address] {
        &mut self.connect
    }

    fn title(&self) -> String {
        let keys = match self.keys_per_get {
            Some(keys) => format!(" with up to {keys} keys at once"),
            None if self.multiget.max() == 1 => String::new(),
            None => format!(" with {} keys each", self.multiget),
        };
        format!(
            "set:get {}{keys}, values of {} bytes, {} keys ({})",
            self.ratio, self.value_bytes, self.keys, self.key_distribution
        )
    }

    fn validate(&self) -> Result<(), LoadError> {
        Self::validate(self)
    }

    fn prepare(&self, run: u32) -> Result<Arc<Recipe>, LoadError> {
        let recipe = Recipe {
            space: self.space(),
            cycle: self.cycle(),
            distribution: self.key_distribution,
            value_bytes: self.value_bytes.clone(),
            expiry_s: self.expiry.clone(),
            pool: Pool::default(),
            run,
        };
        if self.preload {
            for server in &self.connect {
                preload::preload(server, &recipe, self.run.seed)?;
            }
        }
        Ok(Arc::new(recipe))
    }

    fn prepared_before(&mut self) {
        self.preload = false;
    }

    fn connect(
        &self,
        recipe: &Arc<Recipe>,
        number: u32,
        server: &Address,
    ) -> Result<(BlockingStream, CacheDialogue), LoadError> {
        let stream =
            server.connect().map_err(|source| LoadError::Connect { address: server.to_string(), source })?;
        let stream = stream.cut_for_memcached();
        Ok((stream, CacheDialogue::new(recipe, self.run.seed, number, self.run.pipeline)))
    }

    fn shared(&self, recipe: &Arc<Recipe>) -> CacheThreadState {
        let inspector = self.check.then(Inspector::default);
        CacheThreadState { recipe: Arc::clone(recipe), lookups: Lookups::default(), inspector }
    }

    fn probe(&self, server: &Address) -> Box<dyn Probe> {
        Box::new(CacheProbe::new(server))
    }

    fn settle(&self, _: Arc<Recipe>, finished: FinishedClients<Self>) -> Settled<Self> {
        let mut lookups = Lookups::default();
        let (mut values, mut violations) = (0, Violations::default());
        for shared in finished.shared {
            lookups.absorb(shared.lookups);
            if let Some(inspector) = shared.inspector {
                let Findings { values: some, violations: more } = inspector.findings();
                values += some;
                violations.absorb(more);
            }
        }
        let Lookups { hits, misses } = lookups;
        let Violations { count, first } = violations;
        let check = self.check.then_some(CacheCheck { values, violations: count, first_violations: first });
        Settled { details: CacheDetails { hits, misses }, check }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_asked_for_no_key_has_no_share_of_hits() {
        assert_eq!(CacheDetails { hits: 0, misses: 0 }.footnote(1.0), None);
        let said = CacheDetails { hits: 0, misses: 3 }.footnote(1.0);
        assert_eq!(said.as_deref(), Some("keys: 0 hits, 3 misses (0.00 % hits, 3 keys/s)"));
    }
}
