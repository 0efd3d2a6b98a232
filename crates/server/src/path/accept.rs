//! Listening addresses and accepted sockets: TCP on loopback by default, unix sockets by path.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use mio::event::Source;
use mio::{Interest, Registry, Token};
use socket2::{Domain, SockRef, Type};

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// `host:port`; port 0 lets the system choose.
    Tcp(SocketAddr),
    /// `unix:PATH`.
    Unix(PathBuf),
}

impl ListenAddress {
    /// Reads `host:port` or `unix:PATH`.
    ///
    /// # Errors
    /// A sentence that names the address and what to write instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => Err("unix: needs a path, for example unix:/run/posthaste.sock".into()),
                path => Ok(Self::Unix(PathBuf::from(path))),
            };
        }
        let mut found = text
            .to_socket_addrs()
            .map_err(|error| format!("cannot listen on {text}: {error}; write HOST:PORT or unix:PATH"))?;
        found.next().map(Self::Tcp).ok_or_else(|| format!("{text} names no address"))
    }

    /// Whether only this machine can reach it.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().is_loopback(),
            Self::Unix(_) => true,
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A listening socket. A unix socket's path is removed when it is dropped.
pub enum Listener {
    /// TCP.
    Tcp(mio::net::TcpListener),
    /// Unix, with its path.
    Unix(mio::net::UnixListener, PathBuf),
}

/// Connections the kernel may hold until we accept them.
const BACKLOG: i32 = 4096;

impl Listener {
    /// Binds and listens.
    ///
    /// # Errors
    /// The system's; a unix path on which a live server listens is `AddrInUse`, a dead one's is replaced.
    pub fn bind(address: &ListenAddress) -> io::Result<Self> {
        match address {
            ListenAddress::Tcp(address) => {
                let socket = socket2::Socket::new(Domain::for_address(*address), Type::STREAM, None)?;
                socket.set_reuse_address(true)?;
                socket.set_nonblocking(true)?;
                socket.bind(&(*address).into())?;
                socket.listen(BACKLOG)?;
                Ok(Self::Tcp(mio::net::TcpListener::from_std(socket.into())))
            }
            ListenAddress::Unix(path) => {
                remove_dead_socket(path)?;
                Ok(Self::Unix(mio::net::UnixListener::bind(path)?, path.clone()))
            }
        }
    }

    /// The address really bound.
    ///
    /// # Errors
    /// The system's.
    pub fn address(&self) -> io::Result<ListenAddress> {
        match self {
            Self::Tcp(listener) => Ok(ListenAddress::Tcp(listener.local_addr()?)),
            Self::Unix(_, path) => Ok(ListenAddress::Unix(path.clone())),
        }
    }

    /// The next connection, if one waits, and the peer's name.
    ///
    /// # Errors
    /// `WouldBlock` when none waits; others are the system's.
    pub fn accept(&self) -> io::Result<Socket> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                SockRef::from(&stream).set_keepalive(true)?;
                Ok(Socket::Tcp(stream))
            }
            Self::Unix(listener, _) => Ok(Socket::Unix(listener.accept()?.0)),
        }
    }

    /// Registers for readiness.
    ///
    /// # Errors
    /// The system's.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Self::Tcp(listener) => registry.register(listener, token, Interest::READABLE),
            Self::Unix(listener, _) => registry.register(listener, token, Interest::READABLE),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            // Nothing to do when somebody was faster.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Makes way for a new socket: what a dead server left is removed, anything else is not ours.
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

/// A connection's socket.
pub enum Socket {
    /// TCP.
    Tcp(mio::net::TcpStream),
    /// Unix.
    Unix(mio::net::UnixStream),
}

impl Socket {
    /// The peer for people: `127.0.0.1:4711` or `unix`.
    #[must_use]
    pub fn peer(&self) -> String {
        match self {
            Self::Tcp(stream) => stream.peer_addr().map_or_else(|_| "?".into(), |peer| peer.to_string()),
            Self::Unix(_) => "unix".into(),
        }
    }

    /// Begins to connect; an event tells when it is done.
    ///
    /// # Errors
    /// The system's, when it cannot even be tried.
    pub fn connect(address: &ListenAddress) -> io::Result<Self> {
        match address {
            ListenAddress::Tcp(address) => {
                let stream = mio::net::TcpStream::connect(*address)?;
                stream.set_nodelay(true)?;
                SockRef::from(&stream).set_keepalive(true)?;
                Ok(Self::Tcp(stream))
            }
            ListenAddress::Unix(path) => Ok(Self::Unix(mio::net::UnixStream::connect(path)?)),
        }
    }

    /// Whether a connection that was begun is there; false: not yet.
    ///
    /// # Errors
    /// Why it will not be.
    pub fn is_connected(&self) -> io::Result<bool> {
        let (error, connected) = match self {
            Self::Tcp(stream) => (stream.take_error()?, stream.peer_addr().is_ok()),
            Self::Unix(stream) => (stream.take_error()?, stream.peer_addr().is_ok()),
        };
        error.map_or(Ok(connected), Err)
    }

    /// The descriptor, for somebody who does not wait for events.
    #[must_use]
    pub fn into_fd(self) -> OwnedFd {
        match self {
            Self::Tcp(stream) => stream.into(),
            Self::Unix(stream) => stream.into(),
        }
    }

    /// Tells the peer that nothing more comes, while its last bytes are still read.
    pub fn shut_write(&self) {
        // A peer that is gone needs no telling.
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
        };
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

impl Source for Socket {
    fn register(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.register(registry, token, interests),
            Self::Unix(stream) => stream.register(registry, token, interests),
        }
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.reregister(registry, token, interests),
            Self::Unix(stream) => stream.reregister(registry, token, interests),
        }
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.deregister(registry),
            Self::Unix(stream) => stream.deregister(registry),
        }
    }
}
