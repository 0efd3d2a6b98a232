//! The socket of a connection, to a client or to a server: TCP, unix, or TLS over TCP.
//!
//! An encrypted socket is one more kind of socket: the code that reads and writes it does not know the difference, and
//! plain sockets pay nothing for it.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown};
use std::os::fd::{AsFd, OwnedFd};

use mio::event::Source;
use mio::{Interest, Registry, Token};
use posthaste_tls::Tls;
use socket2::{SockRef, TcpKeepalive};

use super::accept::Endpoint;
use super::limits::{KEEPALIVE_COUNT, KEEPALIVE_IDLE, KEEPALIVE_INTERVAL, USER_TIMEOUT};

/// A connection's socket.
pub enum Socket {
    /// TCP.
    Tcp(mio::net::TcpStream),
    /// Unix.
    Unix(mio::net::UnixStream),
    /// TCP, encrypted.
    Tls(Box<Tls<mio::net::TcpStream>>),
    /// A connection of a simulation, which the system does not know of.
    Simulated(Box<dyn SimulatedSocket>),
}

/// A connection of a simulation, whose scheduler reports readiness in place of the system.
pub trait SimulatedSocket: Read + Write + Send {
    /// Notes that a network thread has registered the connection under this token.
    fn register(&mut self, token: Token);

    /// Tells the peer that no more bytes follow.
    fn shut_write(&mut self);
}

impl Socket {
    /// Returns the peer in readable form: `127.0.0.1:4711` or `unix`.
    #[must_use]
    pub fn peer_name(&self) -> String {
        match self.tcp() {
            Some(stream) => stream.peer_addr().map_or_else(|_| "?".into(), |peer| peer.to_string()),
            None if matches!(self, Self::Simulated(_)) => "wire".into(),
            None => "unix".into(),
        }
    }

    /// Returns the peer's IP address, which other clients may share.
    #[must_use]
    pub fn peer_ip(&self) -> Option<IpAddr> {
        self.tcp()?.peer_addr().ok().map(|peer| peer.ip().to_canonical())
    }

    /// Returns the TCP stream inside, if there is one.
    #[must_use]
    pub fn tcp(&self) -> Option<&mio::net::TcpStream> {
        match self {
            Self::Tcp(stream) => Some(stream),
            Self::Tls(tls) => Some(tls.socket()),
            Self::Unix(_) | Self::Simulated(_) => None,
        }
    }

    /// Returns whether the TLS handshake is not finished yet.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        matches!(self, Self::Tls(tls) if tls.is_handshaking())
    }

    /// Returns whether the end of an encrypted stream is known to follow the bytes read so far; no event reports this.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self, Self::Tls(tls) if tls.has_ended())
    }

    /// Reads ahead, as far as there is room, what has arrived on an encrypted connection that is not read now, so that
    /// [`Self::has_ended`] knows of an end behind it. For a plain socket an event reports the end.
    ///
    /// # Errors
    /// What breaks the connection.
    pub fn look_ahead(&mut self) -> io::Result<()> {
        match self {
            Self::Tls(tls) => tls.look_ahead(),
            Self::Tcp(_) | Self::Unix(_) | Self::Simulated(_) => Ok(()),
        }
    }

    /// Returns how many bytes may have left in part although no write has counted them: those of an encrypted record.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        match self {
            Self::Tls(tls) => tls.pending_bytes(),
            Self::Tcp(_) | Self::Unix(_) | Self::Simulated(_) => 0,
        }
    }

    /// Sends what TLS itself has to send, now that the kernel takes bytes again.
    pub fn flush_tls(&mut self) {
        if let Self::Tls(tls) = self {
            // If this fails, the next event or the next read reports it.
            let _ = tls.push();
        }
    }

    /// Begins to connect; an event reports when that is done.
    ///
    /// # Errors
    /// The system's, when it cannot even be tried.
    pub fn connect(address: &Endpoint) -> io::Result<Self> {
        match address {
            Endpoint::Tcp(address) => {
                let stream = mio::net::TcpStream::connect(*address)?;
                stream.set_nodelay(true)?;
                SockRef::from(&stream).set_keepalive(true)?;
                Ok(Self::Tcp(stream))
            }
            Endpoint::Unix(path) => Ok(Self::Unix(mio::net::UnixStream::connect(path)?)),
        }
    }

    /// Returns whether a connection that was begun is established by now.
    ///
    /// # Errors
    /// Why it cannot be established.
    pub fn is_connected(&self) -> io::Result<bool> {
        let (error, connected) = match self {
            Self::Tcp(stream) => (stream.take_error()?, stream.peer_addr().is_ok()),
            Self::Unix(stream) => (stream.take_error()?, stream.peer_addr().is_ok()),
            Self::Tls(tls) => (tls.socket().take_error()?, tls.socket().peer_addr().is_ok()),
            Self::Simulated(_) => (None, true),
        };
        error.map_or(Ok(connected), Err)
    }

    /// Returns the descriptor, for use without events; None: the socket is simulated and has none.
    #[must_use]
    pub fn into_fd(self) -> Option<OwnedFd> {
        match self {
            Self::Tcp(stream) => Some(stream.into()),
            Self::Unix(stream) => Some(stream.into()),
            Self::Tls(tls) => Some(tls.into_socket().into()),
            Self::Simulated(_) => None,
        }
    }

    /// Tells the peer that no more bytes follow, while its last bytes are still read.
    pub fn shut_write(&mut self) {
        // This fails only if the peer is gone already.
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
            Self::Tls(tls) => {
                tls.send_close_notify();
                tls.socket().shutdown(Shutdown::Write)
            }
            Self::Simulated(socket) => {
                socket.shut_write();
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
            Self::Simulated(socket) => socket.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
            Self::Tls(tls) => tls.write(bytes),
            Self::Simulated(socket) => socket.write(bytes),
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
            Self::Simulated(socket) => {
                socket.register(token);
                Ok(())
            }
        }
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.reregister(registry, token, interests),
            Self::Unix(stream) => stream.reregister(registry, token, interests),
            Self::Tls(tls) => tls.socket_mut().reregister(registry, token, interests),
            Self::Simulated(socket) => {
                socket.register(token);
                Ok(())
            }
        }
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.deregister(registry),
            Self::Unix(stream) => stream.deregister(registry),
            Self::Tls(tls) => tls.socket_mut().deregister(registry),
            Self::Simulated(_) => Ok(()),
        }
    }
}

/// Has the kernel probe an idle connection, to find out when the client is gone without closing it.
///
/// # Errors
/// The system's.
pub(crate) fn set_keepalive(stream: &impl AsFd) -> io::Result<()> {
    let alive = TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_INTERVAL);
    SockRef::from(stream).set_tcp_keepalive(&alive.with_retries(KEEPALIVE_COUNT))
}

/// Has the kernel end the connection when data that was sent stays unacknowledged for too long. So a client that reads
/// nothing is treated like one that is gone.
///
/// # Errors
/// The system's.
pub(crate) fn set_user_timeout(stream: &impl AsFd) -> io::Result<()> {
    SockRef::from(stream).set_tcp_user_timeout(Some(USER_TIMEOUT))
}
