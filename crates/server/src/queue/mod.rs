//! The queue tier: what every store must do, and the stores.

pub mod rules;

pub mod answer;

pub(crate) mod bounds;

pub(crate) mod counts;

pub(crate) mod faults;

mod options;

mod receipts;

mod volatile;

pub mod memory;

pub mod mock;

pub mod embedded;

pub mod postgres;

pub mod choice;

/// The source that events of a store name.
const EVENT_SOURCE: &str = "store";
