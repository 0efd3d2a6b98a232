//! The store in a PostgreSQL database: where it is, how it is reached, how its schema comes to be there, and how
//! batches of requests become calls of its functions.
//!
//! Several middlewares may work over one database: what they must agree on is decided there, under the locks of
//! queues' rows. What a middleware remembers (names, floors, pops that wait) only saves work.

pub mod address;

pub mod connect;

pub mod migrations;

pub mod report;

mod advice;

mod refusal;

mod tls;

mod under_way;
mod url;

mod password;

mod era;
mod names;

mod floors;

mod steps;

mod columns;

mod call;

mod asking;

mod census;

mod replies;

mod link;
mod links;

mod parked;

mod keeper;

mod kept;

pub mod strategy;

mod single;

mod alone;

pub mod examine;

pub mod mock;

mod shared;

mod sweeper;

pub mod store;
