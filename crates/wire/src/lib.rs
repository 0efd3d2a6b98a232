//! RESP bytes to values and back.
//!
//! Pure and total: no sockets, no clock, no panic on any input; "need more bytes" is a value, not an error.

pub mod encode;
pub mod fault;
pub mod operation;
pub mod span;
