//! The rules, one or two files each; the comment of each `judge` states its rule.

pub(crate) mod addressing;
pub(crate) mod definite;
pub(crate) mod depth;
pub(crate) mod empty;
mod excuses;
pub(crate) mod ids;
pub(crate) mod invention;
pub(crate) mod leases;
pub(crate) mod loss;
pub(crate) mod once;
pub(crate) mod order;
mod program_order;
pub(crate) mod queues;
pub(crate) mod sight;
pub(crate) mod totals;
