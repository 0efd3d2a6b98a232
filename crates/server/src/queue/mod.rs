//! The queue tier: what is asked of a store, and the stores.

pub mod rules;

pub mod answer;
