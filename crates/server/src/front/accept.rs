//! Listening addresses and accepted sockets: TCP on loopback by default, unix sockets by path, TLS over TCP.
//!
//! An encrypted socket is one more kind of socket: whoever reads and writes it does not know, and who has none pays for
//! none. A unix socket is never encrypted, for its bytes do not leave the machine and its path says who may come.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mio::event::Source;
use mio::{Interest, Registry, Token};
use posthaste_tls::{Acceptor, Tls};
use socket2::{SockRef, TcpKeepalive};

use super::limits::{GONE, KEEPALIVE_COUNT, KEEPALIVE_IDLE, KEEPALIVE_INTERVAL};

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

/// A listening socket.
pub enum Listener {
    /// TCP, and what encrypts its connections.
    Tcp(mio::net::TcpListener, Option<Arc<Acceptor>>),
    /// Unix, with its path, which is removed when this is dropped.
    Unix(mio::net::UnixListener, PathBuf),
    /// Unix, with a path that belongs to whoever handed the socket over.
    HandedUnix(mio::net::UnixListener, PathBuf),
}

impl Listener {
    /// Binds a unix socket and listens.
    ///
    /// # Errors
    /// The system's; a path on which a live server listens is `AddrInUse`, a dead one's is replaced.
    pub fn bind_unix(path: &Path) -> io::Result<Self> {
        remove_dead_socket(path)?;
        Ok(Self::Unix(mio::net::UnixListener::bind(path)?, path.to_owned()))
    }

    /// The address really bound.
    ///
    /// # Errors
    /// The system's.
    pub fn address(&self) -> io::Result<ListenAddress> {
        match self {
            Self::Tcp(listener, _) => Ok(ListenAddress::Tcp(listener.local_addr()?)),
            Self::Unix(_, path) | Self::HandedUnix(_, path) => Ok(ListenAddress::Unix(path.clone())),
        }
    }

    /// The next connection, if one waits.
    ///
    /// # Errors
    /// `WouldBlock` when none waits; others are the system's.
    pub fn accept(&self) -> io::Result<Socket> {
        match self {
            Self::Tcp(listener, tls) => {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                keep_alive(&stream)?;
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
            // Nothing to do when somebody was faster.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Has the kernel find out when the client at the other end is gone without a word.
///
/// # Errors
/// The system's.
pub(crate) fn keep_alive(stream: &impl AsFd) -> io::Result<()> {
    let alive = TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_INTERVAL);
    SockRef::from(stream).set_tcp_keepalive(&alive.with_retries(KEEPALIVE_COUNT))
}

/// Has it find that out, too, while something that was sent is not acknowledged. A client that takes nothing is taken for one
/// that is gone.
///
/// # Errors
/// The system's.
pub(crate) fn give_up_when_gone(stream: &impl AsFd) -> io::Result<()> {
    SockRef::from(stream).set_tcp_user_timeout(Some(GONE))
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
    /// TCP, encrypted.
    Tls(Box<Tls<mio::net::TcpStream>>),
    /// No socket of the system.
    Wire(Box<dyn Wire>),
}

/// What else bytes may come and go over: a simulation's connections, of which its own scheduler tells.
pub trait Wire: Read + Write + Send {
    /// A network thread has it, under this token.
    fn register(&mut self, token: Token);

    /// Tells the peer that nothing more comes.
    fn shut_write(&mut self);
}

impl Socket {
    /// The peer for people: `127.0.0.1:4711` or `unix`.
    #[must_use]
    pub fn peer(&self) -> String {
        match self.tcp() {
            Some(stream) => stream.peer_addr().map_or_else(|_| "?".into(), |peer| peer.to_string()),
            None if matches!(self, Self::Wire(_)) => "wire".into(),
            None => "unix".into(),
        }
    }

    /// The peer's address, which others may share.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        self.tcp()?.peer_addr().ok().map(|peer| peer.ip().to_canonical())
    }

    /// The TCP stream in it.
    #[must_use]
    pub fn tcp(&self) -> Option<&mio::net::TcpStream> {
        match self {
            Self::Tcp(stream) => Some(stream),
            Self::Tls(tls) => Some(tls.socket()),
            Self::Unix(_) | Self::Wire(_) => None,
        }
    }

    /// Whether the peer has yet to show that it may speak at all.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        matches!(self, Self::Tls(tls) if tls.is_handshaking())
    }

    /// Whether the end of what the peer sends is known, and behind what was read: of this no event tells.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self, Self::Tls(tls) if tls.has_ended())
    }

    /// For as long as nobody reads: takes in what came, as far as there is room, so that [`Self::has_ended`] knows of an end
    /// behind it. Of the end of a plain socket an event tells.
    ///
    /// # Errors
    /// What breaks the connection.
    pub fn look_ahead(&mut self) -> io::Result<()> {
        match self {
            Self::Tls(tls) => tls.look_ahead(),
            Self::Tcp(_) | Self::Unix(_) | Self::Wire(_) => Ok(()),
        }
    }

    /// The kernel takes bytes again: what encryption itself owes the peer leaves first.
    pub fn now_writable(&mut self) {
        if let Self::Tls(tls) = self {
            // If it still cannot, the next event says when; if it never can, the next read says so.
            let _ = tls.push();
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
            Self::Tls(tls) => (tls.socket().take_error()?, tls.socket().peer_addr().is_ok()),
            Self::Wire(_) => (None, true),
        };
        error.map_or(Ok(connected), Err)
    }

    /// The descriptor, for somebody who does not wait for events; None: it has none.
    #[must_use]
    pub fn into_fd(self) -> Option<OwnedFd> {
        match self {
            Self::Tcp(stream) => Some(stream.into()),
            Self::Unix(stream) => Some(stream.into()),
            Self::Tls(tls) => Some(tls.into_socket().into()),
            Self::Wire(_) => None,
        }
    }

    /// Tells the peer that nothing more comes, while its last bytes are still read.
    pub fn shut_write(&mut self) {
        // A peer that is gone needs no telling.
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
            Self::Tls(tls) => {
                tls.say_end();
                tls.socket().shutdown(Shutdown::Write)
            }
            Self::Wire(wire) => {
                wire.shut_write();
                Ok(())
            }
        };
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
            Self::Tls(tls) => tls.read(buffer),
            Self::Wire(wire) => wire.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
            Self::Tls(tls) => tls.write(bytes),
            Self::Wire(wire) => wire.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Source for Socket {
    fn register(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.register(registry, token, interests),
            Self::Unix(stream) => stream.register(registry, token, interests),
            Self::Tls(tls) => tls.socket_mut().register(registry, token, interests),
            Self::Wire(wire) => {
                wire.register(token);
                Ok(())
            }
        }
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.reregister(registry, token, interests),
            Self::Unix(stream) => stream.reregister(registry, token, interests),
            Self::Tls(tls) => tls.socket_mut().reregister(registry, token, interests),
            Self::Wire(wire) => {
                wire.register(token);
                Ok(())
            }
        }
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.deregister(registry),
            Self::Unix(stream) => stream.deregister(registry),
            Self::Tls(tls) => tls.socket_mut().deregister(registry),
            Self::Wire(_) => Ok(()),
        }
    }
}
