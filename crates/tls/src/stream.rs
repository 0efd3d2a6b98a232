//! An encrypted connection that behaves like a plain non-blocking one.
//!
//! It keeps the three rules that an edge-triggered event loop relies on:
//!
//! - a read that returns less than asked for has emptied the kernel's buffer;
//! - a write counts the bytes that the kernel has taken, not those buffered here;
//! - what this layer itself owes the peer (the next part of a handshake, an alert) is sent at once, or when
//!   there is room again: with the next write or [`Tls::push`].

use std::io::{self, ErrorKind, Read, Write};

use rustls::Connection;

/// Unread plain bytes from which on [`Tls::look_ahead`] takes no more: the session holds no more than this.
const LOOKED_AHEAD_MAX: usize = 16 << 10;

/// First byte of a handshake; a connection that begins otherwise is not TLS.
pub const HANDSHAKE: u8 = 22;

/// An encrypted connection over a socket.
#[derive(Debug)]
pub struct Tls<S> {
    socket: S,
    session: Connection,
    /// Bytes of the last write that are encrypted but not yet all taken by the kernel: that write will be repeated.
    taken: usize,
    /// Whether the peer has ended the connection.
    ended: bool,
    /// Sent to a peer that does not speak TLS. None: nothing is sent, or the peer's first byte was judged already.
    refusal: Option<&'static [u8]>,
}

impl<S: Read + Write> Tls<S> {
    /// Encrypts a socket.
    #[must_use]
    pub fn new(socket: S, session: Connection) -> Self {
        Self { socket, session, taken: 0, ended: false, refusal: None }
    }

    /// Has peers that speak plain text answered with `words`, in plain text.
    #[must_use]
    pub fn refusing(self, words: &'static [u8]) -> Self {
        Self { refusal: Some(words), ..self }
    }

    /// Returns the socket below.
    #[must_use]
    pub const fn socket(&self) -> &S {
        &self.socket
    }

    /// Returns the socket below, to register it.
    pub const fn socket_mut(&mut self) -> &mut S {
        &mut self.socket
    }

    /// Returns the socket without the session: for its descriptor, not for its bytes.
    #[must_use]
    pub fn into_socket(self) -> S {
        self.socket
    }

    /// Returns whether the handshake is still going on.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        self.session.is_handshaking()
    }

    /// Returns whether the end is known already, for which the kernel may have no event any more.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.ended
    }

    /// Returns how many bytes are encrypted already although no write has counted them: the kernel may have a part of
    /// them, and the rest leaves before anything that is written later.
    #[must_use]
    pub const fn pending_bytes(&self) -> usize {
        self.taken
    }

    /// Sends the encrypted bytes that are buffered here.
    ///
    /// # Errors
    /// `WouldBlock` when the kernel takes no more; others are the system's.
    pub fn push(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.socket) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Tells the peer that nothing more will be sent.
    pub fn send_close_notify(&mut self) {
        self.session.send_close_notify();
        // A peer that is gone or does not read need not be told.
        let _ = self.push();
    }

    /// Takes bytes from the kernel without returning any, to notice an end behind them while nobody reads.
    /// The buffered bytes are bounded, and an end behind more than that is not seen.
    ///
    /// # Errors
    /// The system's, and what is wrong with what the peer says.
    pub fn look_ahead(&mut self) -> io::Result<()> {
        while !self.ended && self.bytes_in_hand()? < LOOKED_AHEAD_MAX {
            match self.read_tls() {
                Ok(false) => {}
                Ok(true) => break,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns how many plain bytes wait to be read.
    fn bytes_in_hand(&mut self) -> io::Result<usize> {
        let state = self.session.process_new_packets();
        let state = state.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        Ok(state.plaintext_bytes_to_read())
    }

    /// Takes once what the kernel has; returns whether that was all of it.
    fn read_tls(&mut self) -> io::Result<bool> {
        let mut probe = ReadProbe { socket: &mut self.socket, first: None, is_all: false };
        while let Err(error) = self.session.read_tls(&mut probe) {
            if error.kind() != ErrorKind::Interrupted {
                return Err(error);
            }
        }
        let ReadProbe { first, is_all, .. } = probe;
        if let (Some(first), Some(words)) = (first, self.refusal.take())
            && first != HANDSHAKE
        {
            // Whether or not the peer got the message, the connection ends here.
            let _ = self.socket.write(words);
            return Err(io::Error::new(ErrorKind::InvalidData, "the peer does not speak TLS"));
        }
        let processed = self.session.process_new_packets();
        // Sends the handshake's answer, or the alert that says why it fails.
        let pushed = self.push();
        let state = processed.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        self.ended |= state.peer_has_closed();
        match pushed {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(is_all),
        }
    }
}

impl<S: Read + Write> Read for Tls<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (mut filled, mut is_all) = (0, false);
        while filled < buffer.len() {
            match self.session.reader().read(&mut buffer[filled..]) {
                Ok(n) if n > 0 => filled += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    // With bytes in hand, a short read may be taken for the last. Without any, the kernel
                    // must be seen empty, or an end behind a handshake's bytes would be missed.
                    if is_all && filled > 0 {
                        break;
                    }
                    match self.read_tls() {
                        Ok(all) => is_all = all,
                        Err(error) if error.kind() == ErrorKind::WouldBlock && filled > 0 => break,
                        Err(error) => return Err(error),
                    }
                }
                // The end, with or without a close_notify: the protocols above can tell by themselves whether
                // they are complete.
                _ => {
                    self.ended = true;
                    break;
                }
            }
        }
        Ok(filled)
    }
}

impl<S: Read + Write> Write for Tls<S> {
    /// Encrypts and sends bytes. After `WouldBlock` the next write must begin with the same bytes: they are
    /// encrypted already.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.taken == 0 {
            self.taken = self.session.writer().write(bytes)?;
        }
        self.push()?;
        match std::mem::take(&mut self.taken) {
            0 if !bytes.is_empty() => Err(ErrorKind::WouldBlock.into()),
            taken => Ok(taken),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.push()
    }
}

/// One read from the kernel: its first byte, and whether it returned less than asked for.
struct ReadProbe<'a, S> {
    socket: &'a mut S,
    first: Option<u8>,
    is_all: bool,
}

impl<S: Read> Read for ReadProbe<'_, S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.socket.read(buffer)?;
        self.first = buffer.first().copied().filter(|_| n > 0);
        self.is_all = n < buffer.len();
        Ok(n)
    }
}
