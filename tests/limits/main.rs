//! How much a tier bears, and what it costs in memory: little of it in `make test`, all of it in `make limits`, which
//! leaves a row for every limit. docs/trust.md shows them.

#[path = "../support/client.rs"]
mod client;
#[path = "../support/news.rs"]
mod news;
#[path = "../support/postgres.rs"]
mod postgres;
#[path = "../support/process.rs"]
mod process;
#[path = "../support/rows.rs"]
mod rows;
#[path = "../support/still.rs"]
mod still;
#[path = "../support/mod.rs"]
mod support;

mod measure;

mod blocked;
mod connections;
mod flood;
mod messages;
mod queues;
mod slow;
