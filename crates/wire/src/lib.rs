//! Encoding and decoding of the RESP and memcached protocols.
//!
//! Everything here is pure and total: no sockets, no clock, no panic on any input. "Need more bytes" is a
//! value, not an error.

pub mod command;
pub mod decode;
pub mod docs;
pub mod encode;
pub mod fault;
pub mod memcached;
pub mod operation;
pub mod reply;
pub mod span;
