//! TLS as one layer between a socket and whoever reads and writes it.
//!
//! [`stream::Tls`] has the manners of a socket that never waits: reads and writes of bytes, `WouldBlock`, an end. A
//! readiness loop that serves plain sockets serves encrypted ones with the same lines, and pays for nothing when there
//! are none. The cryptography is rustls's; ours are the files, the judgment of certificates, and the manners.
//!
//! Server and load generator use it both, so it belongs to neither.

pub mod acceptor;
pub mod connector;
pub mod error;
mod files;
mod judge;
pub mod stream;
mod validity;

pub use acceptor::{Acceptor, ServerFiles};
pub use connector::{Check, Connector, Trust};
pub use error::TlsError;
pub use stream::Tls;
