//! The front: everything between a client's socket and what a tier makes of its bytes, the same for both tiers.
//!
//! ```text
//!   listener ─▶ gate ─▶ mailbox ─▶ connections: read ─▶ the tier takes what is whole
//!                                       ▲                          │
//!                                       └─── write, once a turn ◀──┘
//! ```
//!
//! [`network`] is the loop, [`connections`] knows what is due on each connection, a [`peer::Peer`] is the socket's side
//! of one client, and [`tier::Tier`] is what a tier adds: which bytes are a request, what answers it, when a client has
//! to wait. The tier is a type parameter, so each tier's loop is compiled for it alone, and sharing costs nothing at
//! run time.

pub mod limits;

pub mod accept; // listening addresses, sockets

pub mod binder; // how a tier comes to its listening sockets

pub mod gate; // who is let in

pub mod files; // how many may be open, and whose

pub mod newcomers; // who has not shown yet who they are

pub mod quiet; // who does nothing for too long

pub mod mailbox; // what reaches a network thread from others

pub mod buffers; // kept for reuse

pub mod readiness; // what a thread is told of a socket

pub mod slots; // lists in which a connection stands once

pub mod peer; // the socket's side of one client

pub mod connections; // all of a thread, and what is due on them

pub mod tier; // what a tier adds

pub mod network; // the loop

pub mod lifecycle; // start and stop
