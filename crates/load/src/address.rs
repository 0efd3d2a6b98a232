//! Where a server listens: `host:port`, or `unix:PATH`.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use mio::event::Source;
use mio::{Interest, Registry, Token};
use posthaste_tls::{Connector, Tls};
use posthaste_wire::memcached::records::Records;
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepidle};
use rustls::{ClientConnection, StreamOwned};
use serde::{Serialize, Serializer};

/// How long a server may take to accept a connection, or to take or answer a request of set-up or drain, before it
/// counts as hung.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes that a blocking read takes at most.
const READ_BYTES: usize = 64 * 1024;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// `host:port`; the host may be a name.
    Tcp(String),
    /// `unix:PATH`.
    Unix(PathBuf),
    /// `host:port`, to be spoken to over TLS.
    Tls(String, Connector),
}

impl FromStr for Address {
    type Err = String;

    /// Parses an address, without looking up the host.
    fn from_str(text: &str) -> Result<Self, String> {
        match (text.strip_prefix("unix:"), text.rsplit_once(':')) {
            (Some(""), _) => Err("unix: needs a path, for example unix:/run/posthaste.sock".to_owned()),
            (Some(path), _) if SocketAddr::from_pathname(path).is_err() => {
                Err("a unix socket's path has at most 107 bytes".to_owned())
            }
            (Some(path), _) => Ok(Self::Unix(path.into())),
            // A URL is no address: it would be looked up as a host, scheme and all.
            (None, Some((host, port)))
                if !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok() =>
            {
                Ok(Self::Tcp(text.to_owned()))
            }
            _ => Err("write HOST:PORT or unix:PATH".to_owned()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(text) | Self::Tls(text, _) => f.write_str(text),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Address {
    /// Switches the address to TLS, except for a unix socket, whose bytes do not leave the machine.
    pub fn encrypt(&mut self, connector: &Connector) {
        if let Self::Tcp(text) = self {
            *self = Self::Tls(std::mem::take(text), connector.clone());
        }
    }

    /// Connects and, with TLS, shakes hands; waits until that is done.
    ///
    /// # Errors
    /// Those of the operating system, and of the handshake.
    pub fn connect(&self) -> io::Result<BlockingStream> {
        self.connect_within(PATIENCE)
    }

    /// Connects like [`Address::connect`]; the server may take `patience` to accept, and for each read and write later.
    ///
    /// # Errors
    /// As for [`Address::connect`].
    pub fn connect_within(&self, patience: Duration) -> io::Result<BlockingStream> {
        match self {
            Self::Tcp(text) => Ok(BlockingStream::Tcp(connect(text, patience)?)),
            Self::Tls(text, connector) => {
                let mut session = connector.session(text).map_err(io::Error::other)?;
                let mut stream = connect(text, patience)?;
                while session.is_handshaking() {
                    session.complete_io(&mut stream)?;
                }
                Ok(BlockingStream::Tls(Box::new(StreamOwned::new(session, stream))))
            }
            Self::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(patience))?;
                stream.set_write_timeout(Some(patience))?;
                Ok(BlockingStream::Unix(stream))
            }
        }
    }
}

fn connect(address: &str, patience: Duration) -> io::Result<TcpStream> {
    let stream = connect_within(address, patience)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    Ok(stream)
}

/// Connects to the first of the name's addresses that accepts. The time limit is ours, since the system would try a
/// listener whose backlog is full for two minutes.
fn connect_within(address: &str, patience: Duration) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, patience) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Removes the read timeout; the system's keep-alives find out whether the peer is still there.
fn wait_while_there(stream: &TcpStream) -> io::Result<()> {
    set_socket_keepalive(stream, true)?;
    set_tcp_keepidle(stream, PATIENCE)?;
    stream.set_read_timeout(None)
}

/// A connection whose reads and writes wait.
#[derive(Debug)]
pub enum BlockingStream {
    /// Over TCP.
    Tcp(TcpStream),
    /// Over a unix socket.
    Unix(UnixStream),
    /// Over TCP, encrypted.
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
    /// Over TCP to a memcached, encrypted in records that it can read.
    CutTls(Box<StreamOwned<ClientConnection, TcpStream>>, Records),
}

/// A connection for a readiness loop.
#[derive(Debug)]
pub enum Stream {
    /// Over TCP.
    Tcp(mio::net::TcpStream),
    /// Over a unix socket.
    Unix(mio::net::UnixStream),
    /// Over TCP, encrypted.
    Tls(Box<Tls<mio::net::TcpStream>>),
    /// Over TCP to a memcached, encrypted in records that it can read.
    CutTls(Box<Tls<mio::net::TcpStream>>, Records),
}

impl BlockingStream {
    /// Waits for bytes and appends them to `input`.
    ///
    /// # Errors
    /// `UnexpectedEof` if the server has closed the connection, `TimedOut` if nothing came for too long; others are the
    /// operating system's.
    pub fn read_more(&mut self, input: &mut Vec<u8>) -> io::Result<()> {
        let known = input.len();
        input.resize(known + READ_BYTES, 0);
        let read = loop {
            match self.read(&mut input[known..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        input.truncate(known + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => Err(io::Error::new(ErrorKind::UnexpectedEof, "the server closed the connection")),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                Err(io::Error::new(ErrorKind::TimedOut, "the server does not answer"))
            }
            Err(error) => Err(error),
        }
    }

    /// Removes the time limit for answers: from now on only a peer that is gone ends the wait for one.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn wait_for_long(&self) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_read_timeout(None),
            Self::Tcp(stream) => wait_while_there(stream),
            Self::Tls(tls) | Self::CutTls(tls, _) => wait_while_there(&tls.sock),
        }
    }

    /// Has TLS records cut as memcached reads them from now on; then every write must end where a request does.
    #[must_use]
    pub fn cut_for_memcached(self) -> Self {
        match self {
            Self::Tls(tls) => Self::CutTls(tls, Records::default()),
            other => other,
        }
    }

    /// Returns the same connection for a readiness loop.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn into_polled(self) -> io::Result<Stream> {
        match self {
            Self::Tcp(stream) => {
                stream.set_nonblocking(true)?;
                Ok(Stream::Tcp(mio::net::TcpStream::from_std(stream)))
            }
            Self::Unix(stream) => {
                stream.set_nonblocking(true)?;
                Ok(Stream::Unix(mio::net::UnixStream::from_std(stream)))
            }
            Self::Tls(tls) => Ok(Stream::Tls(polled(*tls)?)),
            Self::CutTls(tls, records) => Ok(Stream::CutTls(polled(*tls)?, records)),
        }
    }
}

fn polled(tls: StreamOwned<ClientConnection, TcpStream>) -> io::Result<Box<Tls<mio::net::TcpStream>>> {
    let StreamOwned { conn, sock } = tls;
    sock.set_nonblocking(true)?;
    Ok(Box::new(Tls::new(mio::net::TcpStream::from_std(sock), conn.into())))
}

/// Writes at most one TLS record.
fn write_cut(tls: &mut impl Write, records: &mut Records, from: &[u8]) -> io::Result<usize> {
    let written = tls.write(&from[..records.next(from)])?;
    records.written(from, written);
    Ok(written)
}

impl Read for BlockingStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(into),
            Self::Unix(stream) => stream.read(into),
            Self::Tls(stream) | Self::CutTls(stream, _) => stream.read(into),
        }
    }
}

impl Write for BlockingStream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(from),
            Self::Unix(stream) => stream.write(from),
            Self::Tls(stream) => stream.write(from),
            Self::CutTls(stream, records) => write_cut(stream, records, from),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(into),
            Self::Unix(stream) => stream.read(into),
            Self::Tls(stream) | Self::CutTls(stream, _) => stream.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(from),
            Self::Unix(stream) => stream.write(from),
            Self::Tls(stream) => stream.write(from),
            Self::CutTls(stream, records) => write_cut(stream, records, from),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Source for Stream {
    fn register(&mut self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.register(registry, token, interest),
            Self::Unix(stream) => stream.register(registry, token, interest),
            Self::Tls(tls) | Self::CutTls(tls, _) => tls.socket_mut().register(registry, token, interest),
        }
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.reregister(registry, token, interest),
            Self::Unix(stream) => stream.reregister(registry, token, interest),
            Self::Tls(tls) | Self::CutTls(tls, _) => tls.socket_mut().reregister(registry, token, interest),
        }
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.deregister(registry),
            Self::Unix(stream) => stream.deregister(registry),
            Self::Tls(tls) | Self::CutTls(tls, _) => tls.socket_mut().deregister(registry),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use rustix::net::sockopt::socket_keepalive;

    use super::*;

    #[test]
    fn a_url_is_no_address() {
        for text in ["redis://127.0.0.1:7411", "http://localhost:7480", ":7411", "localhost"] {
            assert_eq!(text.parse::<Address>(), Err("write HOST:PORT or unix:PATH".into()), "{text}");
        }
        assert!("localhost:7411".parse::<Address>().is_ok());
    }

    #[test]
    fn more_is_what_comes_next_and_an_end_or_silence_is_none() {
        let (client, mut server) = UnixStream::pair().expect("two sockets");
        client.set_read_timeout(Some(Duration::from_millis(20))).expect("a setting");
        let (mut stream, mut input) = (BlockingStream::Unix(client), b"+O".to_vec());
        let mut kind = |input: &mut Vec<u8>| stream.read_more(input).map_err(|error| error.kind());
        server.write_all(b"K\r\n").expect("it takes bytes");
        assert_eq!((kind(&mut input), &input[..]), (Ok(()), &b"+OK\r\n"[..]));
        assert_eq!(kind(&mut input), Err(ErrorKind::TimedOut));
        drop(server);
        assert_eq!((kind(&mut input), &input[..]), (Err(ErrorKind::UnexpectedEof), &b"+OK\r\n"[..]));
    }

    #[test]
    fn who_waits_for_long_waits_for_a_peer_that_is_there() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("an address");
        let address = Address::Tcp(listener.local_addr().expect("an address").to_string());
        let Ok(BlockingStream::Tcp(stream)) = address.connect() else { panic!("somebody listens") };
        assert_eq!(stream.read_timeout().ok(), Some(Some(PATIENCE)));
        wait_while_there(&stream).expect("settings");
        assert_eq!(stream.read_timeout().ok(), Some(None));
        assert_eq!(socket_keepalive(&stream), Ok(true));
    }

    #[test]
    fn who_takes_no_connection_is_waited_for_no_longer_than_patience_lasts() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("an address");
        rustix::net::listen(&listener, 0).expect("a shorter backlog");
        let address = listener.local_addr().expect("an address").to_string();
        // As many as the backlog takes, and one more.
        let taken: Vec<_> = (0..4).map(|_| connect_within(&address, Duration::from_millis(100))).collect();
        let refused = taken.iter().find_map(|stream| stream.as_ref().err()).expect("a backlog that is full");
        assert_eq!(refused.kind(), ErrorKind::TimedOut);
    }
}
