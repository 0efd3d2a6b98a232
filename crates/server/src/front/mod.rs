//! The front: everything between a client's socket and what a tier makes of its bytes, the same for both tiers.
//!
//! ```text
//!   listener ─▶ gate ─▶ mailbox ─▶ connections: read ─▶ the tier takes whole requests
//!                                       ▲                          │
//!                                       └─── write, once a turn ◀──┘
//! ```
//!
//! [`network`] is the loop, [`connections`] knows what is due on each connection, a [`peer::Peer`] is the socket's side
//! of one client, and [`tier::Tier`] is what a tier adds: which bytes are a request, what answers it, when a client has
//! to wait. The tier is a type parameter, so each tier's loop is compiled for it alone, and sharing costs nothing at
//! run time.

pub mod limits; // every bound, with its reason

pub mod accept; // listening

pub mod socket; // sockets of connections, encrypted or not

pub mod binder; // listening sockets: handed over, or bound

pub mod gate; // which connections are let in

pub mod files; // open files: shares of clients, HTTP and the store

pub mod newcomers; // connections that still have to log in or shake hands

pub mod quiet; // clients that read or send nothing for too long

pub mod mailbox; // messages of other threads to a network thread

pub mod buffers; // buffers kept for reuse

pub mod readiness; // what events report of a socket

pub mod slots; // lists of connections without duplicates

pub mod peer; // the socket's side of one client

pub mod connections; // all connections of a thread, and what is due on them

pub mod tier; // what a tier adds

pub mod network; // the readiness loop of a network thread

pub mod lifecycle; // start and stop of a tier
