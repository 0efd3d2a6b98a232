//! The request path, and behind it the queue tier with its stores.

pub mod queue;
