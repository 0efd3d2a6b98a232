//! The store in a PostgreSQL database: where it is, how it is reached, how its schema comes to be there, and how
//! batches of requests become calls of its functions.
//!
//! Several middlewares may work over one database: what they must agree on is decided there, under the locks of
//! queues' rows. What a middleware remembers (names, floors, pops that wait) only saves work.

// Addresses and connections.
pub mod address;
mod cancel;
pub mod connect;
mod failure;
mod link;
mod links;
mod password;
mod reach;
mod refusal;
mod tls;
pub mod url;

// The schema.
pub mod migrations;
pub mod mock;

// A batch, from requests to answers.
mod answering;
mod asking;
mod attempt;
mod call;
mod columns;
mod fitting;
mod kinds;
mod replies;
mod rows;
mod steps;
pub mod store;
mod undone;

// Requests that take another path.
mod alone;
mod logins;
mod plain;
pub mod strategy;
mod unbatched;

// What is remembered to save work.
mod census;
mod era;
mod floors;
mod names;

// Requests that wait, and threads beside the workers.
mod departed;
mod in_parts;
mod keeper;
mod locked_accounts;
mod locked_leases;
mod locked_queues;
mod parked;
mod removals;
mod shared;
mod sweeper;
mod under_way;

// For operators.
mod advice;
pub mod examine;
pub mod report;
