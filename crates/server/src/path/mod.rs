//! The path of every request, one file per station, in the order a request meets them.
//!
//! ```text
//!   accept ─▶ network: read, parse ─▶ waiting line ─▶ batch ─▶ worker ─▶ store
//!                 ▲  └─ what needs no commit is answered on the spot          │
//!                 └───────────── mailbox ◀──────────── answers ◀──────────────┘
//! ```
//!
//! Accepting, reading and writing (stations 1 and 2) are the same for both tiers, and are in [`crate::front`].
//!
//! A network thread owns its connections; no other thread touches them. What one connection sent in one go travels as
//! one [`bundle::Bundle`], and a connection has at most one bundle under way. That alone keeps its requests and answers
//! in order, whatever the number of workers, and makes deep pipelines cheap.

pub mod limits;

pub mod tier; // 2, between reading and writing

pub mod connection; // 2, one client's connection

pub mod turn; // 2, what a connection may use while it is served

pub mod session; // 2, requests that need no store

mod client_command; // 2, those of CLIENT

pub mod bundle; // 3, requests on their way to a worker and back

pub mod progress; // 3, requests that a store executes in several calls

mod pieces; // 3, long lists and redrives

mod gathering; // 3, how long a worker waits for a fuller batch

pub mod waiting_line; // 3

pub mod worker; // 4, 5

pub mod local; // 5, a store in this process

pub mod waiters; // 5, blocked pops

mod tickets; // 5, blocked pops that wait for the same messages

pub mod mail; // 6

mod report; // 6, slow and traced requests
