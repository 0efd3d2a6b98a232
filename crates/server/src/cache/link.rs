//! The connection of a network thread to one server: opened when there is something to send, never waited for.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::{Interest, Registry, Token};

use super::backend::Backend;
use super::limits;
use crate::front::accept::Socket;

/// A connection that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failed;

/// One connection, or none.
#[derive(Default)]
pub(super) struct Link {
    socket: Option<Socket>,
    /// Since when it is being opened.
    opening: Option<Instant>,
    pub(super) can_read: bool,
    can_write: bool,
    /// An event told that the server sends no more; what it sent before may still have to be read.
    hung_up: bool,
    /// The beginning of a reply.
    pub(super) input: Vec<u8>,
}

impl Link {
    /// Whether there is a connection, or will be.
    pub(super) fn is_open(&self) -> bool {
        self.socket.is_some()
    }

    /// Since when it is being opened; None: it is open, or there is none.
    pub(super) fn opening(&self) -> Option<Instant> {
        self.opening
    }

    /// Begins to connect.
    pub(super) fn open(
        &mut self,
        backend: &Backend,
        timeout: Duration,
        token: Token,
        registry: &Registry,
    ) -> Result<(), Failed> {
        let mut socket = backend.open(timeout).map_err(|_| Failed)?;
        let interests = Interest::READABLE | Interest::WRITABLE;
        registry.register(&mut socket, token, interests).map_err(|_| Failed)?;
        self.socket = Some(socket);
        (self.opening, self.can_read, self.can_write) = (Some(Instant::now()), false, false);
        Ok(())
    }

    /// Takes note of an event.
    pub(super) fn note(&mut self, event: &Event) -> Result<(), Failed> {
        self.hung_up |= event.is_read_closed() || event.is_error();
        self.can_read |= event.is_readable() || self.hung_up;
        self.can_write |= event.is_writable();
        if let Some(socket) = self.socket.as_mut().filter(|_| event.is_writable()) {
            socket.now_writable();
        }
        let Some(socket) = self.socket.as_ref().filter(|_| self.opening.is_some()) else { return Ok(()) };
        if socket.is_connected().map_err(|_| Failed)? {
            self.opening = None;
        }
        Ok(())
    }

    /// Sends as much as the server takes; how many bytes that was.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<usize, Failed> {
        let Some(socket) = self.socket.as_mut().filter(|_| self.opening.is_none()) else { return Ok(0) };
        let mut sent = 0;
        while self.can_write && sent < bytes.len() {
            match socket.write(&bytes[sent..]) {
                Ok(n) if n > 0 => sent += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.can_write = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => return Err(Failed),
            }
        }
        Ok(sent)
    }

    /// Reads once; a short read means that there is no more for now.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Failed> {
        let Some(socket) = self.socket.as_mut() else { return Ok(0) };
        loop {
            match socket.read(buffer) {
                Ok(0) => return Err(Failed),
                Ok(n) => {
                    self.can_read = n == buffer.len() || self.hung_up || socket.has_ended();
                    return Ok(n);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.can_read = false;
                    return Ok(0);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    if socket.is_handshaking() {
                        tracing::warn!(server = socket.peer(), "TLS handshake failed: {error}");
                    }
                    return Err(Failed);
                }
            }
        }
    }

    /// Keeps the rest of what was read, which begins a reply.
    pub(super) fn keep(&mut self, rest: &[u8]) {
        self.input.extend_from_slice(rest);
    }

    /// So many bytes of the input are done with.
    pub(super) fn used(&mut self, bytes: usize) {
        if bytes == self.input.len() {
            self.input.clear();
            self.input.shrink_to(limits::READ_BYTES);
        } else {
            self.input.drain(..bytes);
        }
    }

    /// Gives the connection up. What is left of it, its sending side closed, if it was open.
    pub(super) fn close(&mut self, registry: &Registry) -> Option<OwnedFd> {
        let was_open = self.opening.is_none();
        let mut socket = std::mem::take(self).socket?;
        // It leaves the poll in any case when it is closed.
        let _ = registry.deregister(&mut socket);
        socket.shut_write();
        was_open.then(|| socket.into_fd())
    }
}
