//! The path of every request, one file per station, in the order a request meets them.
//!
//! ```text
//!   accept ─▶ network: read, parse ─▶ waiting line ─▶ batch ─▶ worker ─▶ store
//!                 ▲  └─ what needs no commit is answered on the spot          │
//!                 └───────────── mailbox ◀──────────── answers ◀──────────────┘
//! ```
//!
//! Accepting, reading and writing (stations 1 and 2) are the same for both tiers, and stand in [`crate::front`].
//!
//! A network thread owns its connections; nobody else touches them. What one connection sent in one go travels
//! as one [`bundle::Bundle`], and a connection has at most one bundle under way. That alone keeps its requests
//! and answers in order, whatever the number of workers, and makes deep pipelines cheap.

pub mod limits;

pub mod tier; // 2, between reading and writing

pub mod connection; // 2, one of many

pub mod turn; // 2, what it may use

pub mod session; // 2, what is not for the store

pub mod bundle; // 3, what travels

mod pieces; // 3, of an answer that is long

mod gathering; // 3, who is waited for

pub mod waiting_line; // 3

pub mod worker; // 4, 5

pub mod local; // 5, a store in this process

pub mod waiters; // 5, pops that wait

mod tickets; // 5, those that wait for the same

pub mod mail; // 6

mod watch; // 6, who wants to know of single requests
