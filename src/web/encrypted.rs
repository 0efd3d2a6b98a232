//! TLS between the HTTP client and its socket.
//!
//! The client has TLS of its own, which trusts authorities only. Ours follows the options that all commands share,
//! and can also trust a server's own certificate; using it here makes `--tls-ca` mean the same to every command.

use std::fmt;
use std::io::{self, ErrorKind, Read as _, Write as _};

use rustls::{ClientConnection, StreamOwned};
use ureq::Error;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport, TransportAdapter,
};

/// Encrypts every connection.
#[derive(Debug)]
pub(super) struct Encrypting(pub(super) posthaste_tls::Connector);

impl<Below: Transport> Connector<Below> for Encrypting {
    type Out = Encrypted;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        below: Option<Below>,
    ) -> Result<Option<Encrypted>, Error> {
        let Some(below) = below else { return Ok(None) };
        let authority = details.uri.authority().map_or("", |authority| authority.as_str());
        let mut session = self.0.session(authority).map_err(|error| Error::Other(error.into()))?;
        let mut socket = TransportAdapter::new(below.boxed(), details.current_time.clone());
        socket.set_timeout(details.timeout);
        while session.is_handshaking() {
            if let Err(error) = session.complete_io(&mut socket) {
                return Err(last_word(&mut session, &mut socket, error).into());
            }
        }
        let buffers =
            LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Some(Encrypted { buffers, stream: StreamOwned::new(session, socket) }))
    }
}

/// Returns the server's reason for ending the connection, if it has sent one, else `error`. The server need
/// not wait for the end of a request it refuses, so the first sign of a refusal may be a failed write.
fn last_word(session: &mut ClientConnection, socket: &mut TransportAdapter, error: io::Error) -> io::Error {
    // Our own alert, if it is us who refuse, may still be buffered here, and the server would wait for it.
    while session.wants_write() && session.write_tls(socket).is_ok_and(|n| n > 0) {}
    while let Ok(1..) = session.read_tls(socket) {
        if let Err(said) = session.process_new_packets() {
            return io::Error::new(ErrorKind::InvalidData, said);
        }
    }
    error
}

/// An encrypted connection.
pub(super) struct Encrypted {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl fmt::Debug for Encrypted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encrypted").field("below", &self.stream.sock.get_ref()).finish_non_exhaustive()
    }
}

impl Transport for Encrypted {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.sock.set_timeout(timeout);
        let written = self.stream.write_all(&self.buffers.output()[..amount]);
        let StreamOwned { conn, sock } = &mut self.stream;
        written.map_err(|error| last_word(conn, sock, error).into())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.sock.set_timeout(timeout);
        let n = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(n);
        Ok(n > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.sock.get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}
