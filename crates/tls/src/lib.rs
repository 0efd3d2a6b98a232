//! TLS as a layer between a socket and the code that reads and writes it.
//!
//! [`stream::Tls`] behaves like a non-blocking socket: reads and writes of bytes, `WouldBlock`, an end. An
//! event loop serves plain and encrypted sockets with the same lines, and pays nothing if there are no
//! encrypted ones. The cryptography is rustls's; this crate adds the reading of files, the verification of
//! certificates, and the socket behaviour.
//!
//! The server and the load generator both use it, so it belongs to neither.

pub mod acceptor;
pub mod connector;
pub mod error;
mod files;
pub mod stream;
mod validity;
mod verifier;

pub use acceptor::{Acceptor, ServerFiles};
pub use connector::{Check, Connector, Trust};
pub use error::TlsError;
pub use stream::{HANDSHAKE, Tls};
