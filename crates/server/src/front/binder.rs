//! A tier's listening sockets: handed over by the process that started it, or bound by the tier itself.
//!
//! systemd (socket activation) or any parent may hand over sockets that listen already, in the way of `LISTEN_FDS`.
//! They outlive the process, so connections that arrive while it is restarted wait in the kernel and none is refused.
//! Each handed socket must be bound to an address that the options ask for: so the options always say what is listened
//! on, and are checked for it.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use listenfd::ListenFd;
use posthaste_tls::Acceptor;
use socket2::{Domain, Socket, Type};

use super::accept::{Endpoint, Listener};

/// Connections that the kernel may hold until they are accepted.
const BACKLOG: i32 = 4096;

/// The sockets that a tier listens on.
pub struct ListeningSockets {
    /// Listeners for clients.
    pub listeners: Vec<Listener>,
    /// The addresses really bound.
    pub addresses: Vec<Endpoint>,
    /// Listener for HTTP; None: HTTP is off.
    pub http: Option<TcpListener>,
}

/// Why a tier cannot listen.
#[derive(Debug)]
pub enum ListenError {
    /// Something that was handed over is no listening socket.
    Handed(io::Error),
    /// A socket was handed over that the options do not ask for.
    Unasked(Endpoint),
    /// An address cannot be listened on.
    Listen(Endpoint, io::Error),
    /// The address for HTTP cannot be listened on.
    Http(SocketAddr, io::Error),
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handed(error) => write!(f, "cannot use what LISTEN_FDS hands over: {error}"),
            Self::Unasked(address) => write!(
                f,
                "a socket on {address} was handed over (LISTEN_FDS), which neither --listen nor --http names: name it there"
            ),
            Self::Listen(address, error) => {
                write!(f, "cannot listen on {address}: {error}; choose another with --listen")
            }
            Self::Http(address, error) => {
                write!(
                    f,
                    "cannot listen on {address} for HTTP: {error}; choose another with --http, or --http off"
                )
            }
        }
    }
}

impl std::error::Error for ListenError {}

/// Listens on all of these addresses. With `reuse_port` other processes may listen on them too; with `tls` connections
/// over TCP are encrypted (HTTP does that itself).
///
/// # Errors
/// The first address that cannot be listened on, and why.
pub fn open(
    addresses: &[Endpoint],
    http: Option<SocketAddr>,
    tls: Option<&Arc<Acceptor>>,
    reuse_port: bool,
) -> Result<ListeningSockets, ListenError> {
    let mut binder = Binder::new(tls.cloned(), reuse_port).map_err(ListenError::Handed)?;
    let mut listeners = Vec::new();
    for address in addresses {
        let failed = |error| ListenError::Listen(address.clone(), error);
        listeners.push(binder.listen(address).map_err(failed)?);
    }
    let http =
        http.map(|address| binder.listen_tcp(address).map_err(|error| ListenError::Http(address, error)));
    let http = http.transpose()?;
    if let Some(address) = binder.unasked() {
        return Err(ListenError::Unasked(address));
    }
    let addresses = listeners.iter().map(Listener::address).collect::<io::Result<_>>();
    Ok(ListeningSockets { addresses: addresses.map_err(ListenError::Handed)?, listeners, http })
}

/// Opens listening sockets: takes those that were handed over, and binds the others.
struct Binder {
    tls: Option<Arc<Acceptor>>,
    reuse_port: bool,
    /// Sockets handed over and not yet taken.
    handed_tcp: Vec<(SocketAddr, TcpListener)>,
    /// Sockets handed over and not yet taken.
    handed_unix: Vec<(PathBuf, UnixListener)>,
}

impl Binder {
    fn new(tls: Option<Arc<Acceptor>>, reuse_port: bool) -> io::Result<Self> {
        let mut handed = ListenFd::from_env();
        let mut binder = Self { tls, reuse_port, handed_tcp: Vec::new(), handed_unix: Vec::new() };
        for number in 0..handed.len() {
            if let Ok(Some(listener)) = handed.take_unix_listener(number) {
                let path = listener.local_addr()?.as_pathname().map(Path::to_owned);
                binder.handed_unix.push((path.unwrap_or_default(), listener));
            } else if let Some(listener) = handed.take_tcp_listener(number)? {
                binder.handed_tcp.push((listener.local_addr()?, listener));
            }
        }
        Ok(binder)
    }

    fn listen(&mut self, address: &Endpoint) -> io::Result<Listener> {
        match address {
            Endpoint::Tcp(address) => {
                let listener = self.listen_tcp(*address)?;
                listener.set_nonblocking(true)?;
                Ok(Listener::Tcp(mio::net::TcpListener::from_std(listener), self.tls.clone()))
            }
            Endpoint::Unix(path) => match self.handed_unix.iter().position(|(handed, _)| handed == path) {
                Some(at) => {
                    let (path, listener) = self.handed_unix.remove(at);
                    listener.set_nonblocking(true)?;
                    Ok(Listener::HandedUnix(mio::net::UnixListener::from_std(listener), path))
                }
                None => Listener::bind_unix(path),
            },
        }
    }

    /// Returns a blocking socket that listens on this address.
    fn listen_tcp(&mut self, address: SocketAddr) -> io::Result<TcpListener> {
        if let Some(at) = self.handed_tcp.iter().position(|(handed, _)| *handed == address) {
            return Ok(self.handed_tcp.remove(at).1);
        }
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        if self.reuse_port {
            socket.set_reuse_port(true)?;
        }
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(socket.into())
    }

    /// Returns the address of a handed socket that the options do not ask for; None: all are asked for.
    fn unasked(&self) -> Option<Endpoint> {
        let tcp = self.handed_tcp.first().map(|(address, _)| Endpoint::Tcp(*address));
        tcp.or_else(|| self.handed_unix.first().map(|(path, _)| Endpoint::Unix(path.clone())))
    }
}
