//! The connection of a network thread to one server: opened when there is something to send, never waited for.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::time::Instant;

use mio::event::Event;
use mio::{Interest, Registry, Token};
use posthaste_wire::memcached::records::Records;

use super::backend::Backend;
use super::identity::{Run, RunQuery};
use super::limits;
use super::router::Broken;
use super::server_limits::ServerLimits;
use crate::front::buffers::clear_and_shrink;
use crate::front::socket::Socket;

/// The error for a connection that the server has closed.
pub(super) fn closed() -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, "it closed the connection")
}

impl From<Broken> for io::Error {
    fn from(_: Broken) -> Self {
        Self::new(ErrorKind::InvalidData, "it said what is no answer to what it was asked")
    }
}

/// One connection, or none.
#[derive(Default)]
pub(super) struct Link {
    socket: Option<Socket>,
    /// Since when the connection is being opened.
    opening: Option<Instant>,
    pub(super) can_read: bool,
    can_write: bool,
    /// The query for the server's run until it is answered: nothing else is sent before that.
    run_query: Option<RunQuery>,
    /// An event showed that the server sends no more; what it sent before may still have to be read.
    hung_up: bool,
    /// Whether the server has replied to a request over this connection.
    has_served: bool,
    /// How often the server had been moved when the connection was opened.
    moves: u64,
    /// When the server last gave a sign of life, on the clock of the stamps: it sent something, was sent the first of what it
    /// is to answer, or made room for more of that.
    pub(super) heard_ns: u64,
    /// The beginning of a reply that is not whole yet.
    pub(super) input: Vec<u8>,
    /// How requests are cut into TLS records, if the connection is encrypted.
    records: Records,
}

impl Link {
    /// Returns whether there is a connection, or one is being opened.
    pub(super) fn is_open(&self) -> bool {
        self.socket.is_some()
    }

    /// Since when the connection is being opened; None: it is open, or there is none.
    pub(super) fn opening(&self) -> Option<Instant> {
        self.opening
    }

    /// Returns whether requests can be sent now.
    pub(super) fn is_ready(&self) -> bool {
        self.opening.is_none() && self.run_query.is_none()
    }

    /// Queries the run of the server before anything else is sent.
    pub(super) fn query_run_first(&mut self) {
        self.run_query = Some(RunQuery::default());
    }

    /// Returns whether the answer about the server's run is still to come.
    pub(super) fn is_querying_run(&self) -> bool {
        self.run_query.is_some()
    }

    /// Parses bytes of the server's answer about its run; returns the run once it is known.
    pub(super) fn parse_run(&mut self, bytes: &[u8]) -> Result<Option<Run>, Broken> {
        let Some(run_query) = self.run_query.as_mut() else { return Ok(None) };
        if !run_query.parse(bytes)? {
            return Ok(None);
        }
        Ok(self.run_query.take().and_then(|run_query| run_query.run()))
    }

    /// Returns whether the server sends no more.
    pub(super) fn has_hung_up(&self) -> bool {
        self.hung_up
    }

    /// Returns whether there is a connection and its server is at another address now.
    pub(super) fn is_outdated(&self, backend: &Backend) -> bool {
        self.is_open() && self.moves != backend.moves()
    }

    /// Returns whether the server has replied to a request over this connection.
    pub(super) fn has_served(&self) -> bool {
        self.has_served
    }

    /// Begins to connect.
    pub(super) fn open(
        &mut self,
        backend: &Backend,
        server_limits: ServerLimits,
        token: Token,
        registry: &Registry,
    ) -> io::Result<()> {
        // Before the address is read: a move in between then costs a connection, while the other order would keep an
        // old one.
        let moves = backend.moves();
        let mut socket = backend.open(server_limits)?;
        let interests = Interest::READABLE | Interest::WRITABLE;
        registry.register(&mut socket, token, interests)?;
        (self.socket, self.moves) = (Some(socket), moves);
        (self.opening, self.can_read, self.can_write) = (Some(Instant::now()), false, false);
        Ok(())
    }

    /// Notes an event.
    pub(super) fn note_event(&mut self, event: &Event) -> io::Result<()> {
        self.hung_up |= event.is_read_closed() || event.is_error();
        self.can_read |= event.is_readable() || self.hung_up;
        self.can_write |= event.is_writable();
        let Some(socket) = self.socket.as_mut() else { return Ok(()) };
        // Before anything is written: the system tells only once why it could not connect.
        if self.opening.is_some() && socket.is_connected()? {
            self.opening = None;
        }
        match self.opening {
            Some(_) if self.hung_up => Err(closed()),
            Some(_) => Ok(()),
            None => {
                if event.is_writable() {
                    socket.flush_tls();
                }
                Ok(())
            }
        }
    }

    /// Sends as much of `bytes`, which end where a request does, as the server takes. Returns how many bytes that was.
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(request) = self.run_query.as_ref().map(RunQuery::unsent) else { return self.write(bytes) };
        let sent = self.write(request)?;
        if let Some(run_query) = self.run_query.as_mut() {
            run_query.note_sent(sent);
        }
        Ok(0)
    }

    /// Returns how many bytes of requests the server may get although [`Self::send`] has not counted them.
    pub(super) fn pending_bytes(&self) -> usize {
        let socket = self.socket.as_ref().filter(|_| self.run_query.is_none());
        socket.map_or(0, Socket::pending_bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(socket) = self.socket.as_mut().filter(|_| self.opening.is_none()) else { return Ok(0) };
        let mut sent = 0;
        while self.can_write && sent < bytes.len() {
            let unsent = &bytes[sent..];
            let is_cut = matches!(socket, Socket::Tls(_));
            let piece = if is_cut { self.records.next(unsent) } else { unsent.len() };
            match socket.write(&unsent[..piece]) {
                Ok(0) => return Err(closed()),
                Ok(n) => {
                    if is_cut {
                        self.records.written(unsent, n);
                    }
                    sent += n;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.can_write = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(sent)
    }

    /// Reads once; a short read means that there is no more for now.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(socket) = self.socket.as_mut() else { return Ok(0) };
        let was_handshaking = socket.is_handshaking();
        loop {
            let read = socket.read(buffer);
            if was_handshaking && !socket.is_handshaking() {
                // During the handshake TLS took only little, whatever room the kernel had: no event tells that it
                // takes more now.
                self.can_write = true;
            }
            match read {
                Ok(0) => return Err(closed()),
                Ok(n) => {
                    // An answer about its run does not show that the server does its work.
                    self.has_served |= self.run_query.is_none();
                    self.can_read = n == buffer.len() || self.hung_up || socket.has_ended();
                    return Ok(n);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.can_read = false;
                    return Ok(0);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if socket.is_handshaking() => {
                    return Err(io::Error::other(format!("TLS handshake failed: {error}")));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Keeps the rest of what was read, which begins a reply.
    pub(super) fn keep(&mut self, rest: &[u8]) {
        self.input.extend_from_slice(rest);
    }

    /// Removes this many bytes of the input, which were used.
    pub(super) fn used(&mut self, bytes: usize) {
        if bytes == self.input.len() {
            clear_and_shrink(&mut self.input, limits::READ_BYTES);
        } else {
            self.input.drain(..bytes);
        }
    }

    /// Gives the connection up, closes its sending side, and returns what is left of it if it was open.
    pub(super) fn close(&mut self, registry: &Registry) -> Option<OwnedFd> {
        let was_open = self.opening.is_none();
        let mut socket = std::mem::take(self).socket?;
        // Closing the socket takes it out of the poll in any case.
        let _ = registry.deregister(&mut socket);
        socket.shut_write();
        was_open.then(|| socket.into_fd()).flatten()
    }
}

#[cfg(test)]
#[path = "../../../../tests/support/certificates.rs"]
mod certificates;

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener};
    use std::time::Duration;

    use mio::{Events, Poll};
    use posthaste_tls::{Acceptor, Check, Connector, ServerFiles, Trust};
    use socket2::{Domain, SockRef, Type};

    use super::certificates::Authority;
    use super::*;

    #[test]
    fn who_takes_no_connections_is_found_out_encrypted_or_not() {
        let trust = Trust { check: Check::Nothing, roots: None, own: None };
        for connector in [None, Some(Connector::open(&trust).unwrap())] {
            let backend = Backend::parse("127.0.0.1:1").unwrap();
            backend.encrypt(connector);
            let mut poll = Poll::new().unwrap();
            let (mut link, mut events) = (Link::default(), Events::with_capacity(8));
            link.open(&backend, ServerLimits::default(), Token(0), poll.registry()).unwrap();
            poll.poll(&mut events, Some(Duration::from_secs(180))).unwrap();
            let error = events.iter().find_map(|event| link.note_event(event).err());
            assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::ConnectionRefused));
        }
    }

    /// Turns in which whatever is under way has arrived.
    const TURNS: usize = 30_000;

    /// Returns a listener whose connections hold little that is not read.
    fn small_listener() -> TcpListener {
        let socket = socket2::Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        socket.listen(1).unwrap();
        socket.into()
    }

    #[test]
    fn a_server_gets_the_record_that_is_pending_though_nothing_more_is_sent() {
        let authority = Authority::new();
        let pair = authority.issue("server");
        let files = ServerFiles { certificate: pair.certificate, key: pair.key, clients: None };
        let acceptor = Acceptor::open(files, b"").unwrap();
        let listener = small_listener();
        let backend = Backend::parse(&listener.local_addr().unwrap().to_string()).unwrap();
        let trust = Trust { check: Check::Nothing, roots: None, own: None };
        backend.encrypt(Some(Connector::open(&trust).unwrap()));
        let mut poll = Poll::new().unwrap();
        let (mut link, mut events) = (Link::default(), Events::with_capacity(8));
        link.open(&backend, ServerLimits::default(), Token(0), poll.registry()).unwrap();
        SockRef::from(link.socket.as_ref().and_then(Socket::tcp).unwrap())
            .set_send_buffer_size(4096)
            .unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut server = acceptor.accept(stream).unwrap();
        let mut buffer = vec![0; limits::READ_BYTES];
        let mut got = 0;
        // One turn of the link's thread, and as much as the server finds when it looks.
        let mut turn = |link: &mut Link| {
            poll.poll(&mut events, Some(Duration::from_millis(1))).unwrap();
            events.iter().for_each(|event| link.note_event(event).unwrap());
            link.read(&mut buffer).unwrap();
            while let Ok(n @ 1..) = server.read(&mut buffer) {
                got += n;
            }
            (got, !server.is_handshaking() && link.can_write)
        };
        assert!((0..TURNS).any(|_| turn(&mut link).1), "hands are not shaken");
        let set = format!("set k 0 0 12000\r\n{}\r\n", "x".repeat(12_000));
        let mut counted = 0;
        loop {
            assert_eq!(link.pending_bytes(), 0);
            match link.send(set.as_bytes()).unwrap() {
                0 => break,
                sent => counted += sent,
            }
        }
        assert_eq!(link.pending_bytes(), set.len());
        assert!((0..TURNS).any(|_| turn(&mut link).0 == counted + set.len()), "the server has no more");
    }
}
