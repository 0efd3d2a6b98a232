//! The pools that a translation is made of: each is written once, and only if a route leads to it.

use std::collections::{HashMap, HashSet};

use super::super::{Import, Pool, Route};
use super::Reader;

impl Reader {
    /// Adds a pool, unless there is one that differs from it by nothing but its name, and returns the name.
    pub(super) fn add(&mut self, mut pool: Pool) -> String {
        let pools = &mut self.import.pools;
        let same = |known: &&Pool| Pool { name: pool.name.clone(), ..(*known).clone() } == pool;
        if let Some(known) = pools.iter().find(same) {
            return known.name.clone();
        }
        let base = pool.name;
        pool.name = free(&base, |name| pools.iter().any(|known| known.name == name));
        let name = pool.name.clone();
        self.bases.insert(name.clone(), base);
        pools.push(pool);
        name
    }

    /// Adds a pool with the servers of another one, more fields and a link, and returns its name.
    pub(super) fn derived(
        &mut self,
        of: &str,
        more: Vec<(&'static str, String)>,
        link: (&'static str, Vec<String>),
    ) -> String {
        let mut pool = self.import.pools.iter().find(|pool| pool.name == of).cloned().unwrap_or_default();
        pool.name = self.bases.get(of).cloned().unwrap_or_default();
        pool.fields.extend(more);
        pool.links.push(link);
        self.add(pool)
    }

    /// Drops the pools that no route leads to, such as one of which only a pool with more fields is used, and
    /// gives their names to those that had to take other ones.
    pub(super) fn drop_unused(&mut self) {
        let used = used(&self.import);
        let pools = &mut self.import.pools;
        pools.retain(|pool| used.contains(&pool.name));
        let base = |name: &String| self.bases.get(name).cloned().unwrap_or_default();
        let mut taken: HashSet<String> =
            pools.iter().filter(|pool| base(&pool.name) == pool.name).map(|pool| pool.name.clone()).collect();
        let renamed = pools.iter().filter(|pool| base(&pool.name) != pool.name).map(|pool| {
            let name = free(&base(&pool.name), |name| taken.contains(name));
            taken.insert(name.clone());
            (pool.name.clone(), name)
        });
        let renamed: HashMap<String, String> = renamed.collect();
        let rename = |name: &mut String| {
            if let Some(new) = renamed.get(name) {
                name.clone_from(new);
            }
        };
        for pool in pools {
            rename(&mut pool.name);
            pool.links.iter_mut().flat_map(|(_, names)| names).for_each(rename);
        }
        for route in &mut self.import.routes {
            rename(&mut route.pool);
            route.shadow.iter_mut().for_each(|(name, _)| rename(name));
        }
    }
}

/// Returns the names of the pools that routes lead to, directly or through other pools.
fn used(import: &Import) -> HashSet<String> {
    let of_route = |route: &Route| [Some(route.pool.clone()), route.shadow.clone().map(|(name, _)| name)];
    let mut open: Vec<String> = import.routes.iter().flat_map(of_route).flatten().collect();
    let mut used = HashSet::new();
    while let Some(name) = open.pop() {
        let pool = import.pools.iter().find(|pool| pool.name == name);
        if used.insert(name) {
            open.extend(pool.into_iter().flat_map(|pool| &pool.links).flat_map(|(_, names)| names).cloned());
        }
    }
    used
}

/// Returns the first of NAME, NAME-2, NAME-3, … that is not taken.
fn free(base: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let mut names = std::iter::once(base.to_owned()).chain((2..).map(|number| format!("{base}-{number}")));
    names.find(|name| !is_taken(name)).unwrap_or_default()
}
