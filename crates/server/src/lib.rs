//! The request path, and behind it the queue tier with its stores.
//!
//! Read [`path`] first: its files are the stations of every request, in order. What it shares with the cache tier, from
//! the listening socket to a request's bytes, is [`front`]. [`queue::rules`] says what a store must do; the stores are
//! below it.

pub mod front;

pub mod path;

pub mod cache;

pub mod queue;

pub mod server;

pub mod account_registrar;
pub mod accounts;
pub mod authenticator;
pub mod clients;
pub mod collector;
mod glob;
pub mod grants;
pub mod http;
pub mod info;
pub mod log_level;
pub mod metrics;
pub mod queue_shared;
pub mod slow;
pub mod time;
pub mod trace;

#[cfg(test)]
#[path = "../tests/support/heard.rs"]
mod heard;
