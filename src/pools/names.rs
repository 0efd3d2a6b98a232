//! The pools of a file by their names: what fields that name pools refer to.

use std::collections::BTreeMap;

use posthaste_server::cache::layout::Layout;

use crate::placed::{Fields, FileError};

/// The number of every pool of a layout, by its name.
pub(super) struct PoolNames(BTreeMap<String, usize>);

impl PoolNames {
    /// Those of a layout.
    pub(super) fn of(layout: &Layout) -> Self {
        Self(layout.pools.iter().map(|pool| pool.name.clone()).zip(0..).collect())
    }

    /// The number of the pool with this name, if there is one.
    pub(super) fn get(&self, name: &str) -> Option<usize> {
        self.0.get(name).copied()
    }

    /// The pool that a field names, if it is given.
    pub(super) fn field(&self, fields: &Fields<'_, '_>, field: &str) -> Result<Option<usize>, FileError> {
        let name = fields.text(field)?;
        name.map(|name| self.find(field, name, fields.place(field))).transpose()
    }

    /// The pools that a field names, one or a list, each with its place in the file.
    pub(super) fn list(
        &self,
        fields: &Fields<'_, '_>,
        field: &str,
    ) -> Result<Vec<(usize, usize)>, FileError> {
        let names = fields.texts(field)?.into_iter();
        names.map(|(name, at)| Ok((self.find(field, name, at)?, at))).collect()
    }

    fn find(&self, field: &str, name: &str, at: usize) -> Result<usize, FileError> {
        self.get(name).ok_or_else(|| FileError::new(at, format!("{field}: there is no pool {name}")))
    }
}
