//! The queue tier: what is asked of a store, and the stores.

pub mod rules;

pub mod answer;

pub(crate) mod bounds;

mod faults;

mod options;

mod receipts;

mod volatile;

pub mod memory;

pub mod mock;

pub mod embedded;

pub mod postgres;

pub mod choice;

/// Who tells of what a store goes through, in events.
const EVENT_SOURCE: &str = "store";
