//! RESP and memcached bytes to values and back.
//!
//! Pure and total: no sockets, no clock, no panic on any input; "need more bytes" is a value, not an error.

pub mod command;
pub mod decode;
pub mod docs;
pub mod encode;
pub mod fault;
pub mod memcached;
pub mod operation;
pub mod reply;
pub mod span;
