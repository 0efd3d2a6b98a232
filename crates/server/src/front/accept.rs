//! Listening: TCP on loopback by default, unix sockets by path, TLS over TCP.
//!
//! A unix socket is never encrypted: its bytes do not leave the machine, and the permissions of its path decide which
//! users may connect.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mio::{Interest, Registry, Token};
use posthaste_tls::Acceptor;

use super::socket::{Socket, set_keepalive};

/// An address: to listen on, or to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `host:port`; port 0 lets the system choose.
    Tcp(SocketAddr),
    /// `unix:PATH`.
    Unix(PathBuf),
}

impl Endpoint {
    /// Reads `host:port` or `unix:PATH`, and looks the host up: the first of its addresses counts.
    ///
    /// # Errors
    /// `InvalidInput` if the text has another form; otherwise the system's, whose name server may be away for now.
    pub fn look_up(text: &str) -> io::Result<Self> {
        match text.strip_prefix("unix:") {
            Some("") => Err(io::Error::new(io::ErrorKind::InvalidInput, "unix: needs a path")),
            Some(path) => Ok(Self::Unix(PathBuf::from(path))),
            None => {
                let none = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
                text.to_socket_addrs()?.next().map(Self::Tcp).ok_or_else(none)
            }
        }
    }

    /// Returns whether only this machine can reach the address.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().is_loopback(),
            Self::Unix(_) => true,
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A listening socket.
pub enum Listener {
    /// TCP, with the acceptor that encrypts its connections, if they are encrypted.
    Tcp(mio::net::TcpListener, Option<Arc<Acceptor>>),
    /// Unix, with its path, which is removed when the listener is dropped.
    Unix(mio::net::UnixListener, PathBuf),
    /// Unix, handed over by another process, with its path, which belongs to that process and stays.
    HandedUnix(mio::net::UnixListener, PathBuf),
}

impl Listener {
    /// Binds a unix socket and listens.
    ///
    /// # Errors
    /// Those of the system; `AddrInUse` if a live server listens on the path (the socket of a dead one is replaced).
    pub fn bind_unix(path: &Path) -> io::Result<Self> {
        remove_dead_socket(path)?;
        Ok(Self::Unix(mio::net::UnixListener::bind(path)?, path.to_owned()))
    }

    /// Returns the address really bound.
    ///
    /// # Errors
    /// The system's.
    pub fn address(&self) -> io::Result<Endpoint> {
        match self {
            Self::Tcp(listener, _) => Ok(Endpoint::Tcp(listener.local_addr()?)),
            Self::Unix(_, path) | Self::HandedUnix(_, path) => Ok(Endpoint::Unix(path.clone())),
        }
    }

    /// Accepts the next connection.
    ///
    /// # Errors
    /// `WouldBlock` when none waits; others are the system's.
    pub fn accept(&self) -> io::Result<Socket> {
        match self {
            Self::Tcp(listener, tls) => {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                set_keepalive(&stream)?;
                match tls {
                    None => Ok(Socket::Tcp(stream)),
                    Some(tls) => Ok(Socket::Tls(Box::new(tls.accept(stream).map_err(io::Error::other)?))),
                }
            }
            Self::Unix(listener, _) | Self::HandedUnix(listener, _) => Ok(Socket::Unix(listener.accept()?.0)),
        }
    }

    /// Registers for readiness.
    ///
    /// # Errors
    /// The system's.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Self::Tcp(listener, _) => registry.register(listener, token, Interest::READABLE),
            Self::Unix(listener, _) | Self::HandedUnix(listener, _) => {
                registry.register(listener, token, Interest::READABLE)
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            // An error means that another process removed it already.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Removes the socket of a dead server from this path, so that a new one can be bound; anything else stays.
fn remove_dead_socket(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "something that is no socket is there"));
        }
        Ok(_) => {}
        Err(_) => return Ok(()),
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "a server already listens there")),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        Err(_) => Ok(()),
    }
}
