//! A client with its socket: bytes in, answers to the client, requests out, at most one write per turn.

use std::io::{self, ErrorKind, Read, Write};

use mio::{Interest, Registry, Token};

use crate::address::Stream;
use crate::client::{Client, Instruments, Received};
use crate::clock::Clock;
use crate::dialogue::Dialogue;

/// A client on its connection.
#[derive(Debug)]
pub(crate) struct Connection<D: Dialogue> {
    stream: Stream,
    /// The state machine.
    pub(crate) client: Client<D>,
    out: Vec<u8>,
    written: usize,
    /// The beginning of an answer whose end has not arrived.
    partial: Vec<u8>,
    /// Number of bytes that `partial` lacks at least.
    missing: usize,
    /// Whether the socket is registered for writability too.
    waits_to_write: bool,
    /// Why the connection ended, once it has.
    pub(crate) broken: Option<String>,
}

impl<D: Dialogue> Connection<D> {
    /// Creates the connection of a client that may begin on `stream`.
    #[must_use]
    pub(crate) const fn new(stream: Stream, client: Client<D>) -> Self {
        Self {
            stream,
            client,
            out: Vec::new(),
            written: 0,
            partial: Vec::new(),
            missing: 0,
            waits_to_write: false,
            broken: None,
        }
    }

    /// Registers the socket for events of arriving answers.
    ///
    /// # Errors
    /// Those of the operating system.
    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(&mut self.stream, token, Interest::READABLE)
    }

    /// Reads what has arrived, until a read comes back short, and hands the answers to the client. Returns how
    /// many there were; `now` is set to the time of the last read. `is_read_closed`: the stream's end was reported. It
    /// may lie behind the last bytes, and no event reports it again, so it is read too.
    pub(crate) fn read(
        &mut self,
        is_read_closed: bool,
        scratch: &mut [u8],
        clock: Clock,
        now: &mut u64,
        instruments: &mut Instruments<D>,
    ) -> usize {
        let mut answers = 0;
        while self.broken.is_none() {
            match self.stream.read(scratch) {
                Ok(0) => self.broken = Some("the server closed the connection".to_owned()),
                Ok(len) => {
                    *now = clock.now();
                    answers += self.take(&scratch[..len], *now, instruments);
                    if len < scratch.len() && !is_read_closed {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => self.broken = Some(error.to_string()),
            }
        }
        answers
    }

    /// Takes newly arrived bytes: whole answers from where they were read, without a copy; the rest is kept.
    fn take(&mut self, bytes: &[u8], now: u64, instruments: &mut Instruments<D>) -> usize {
        if self.partial.is_empty() {
            let (answers, used) = self.answers(bytes, now, instruments);
            self.partial.extend_from_slice(&bytes[used..]);
            return answers;
        }
        self.partial.extend_from_slice(bytes);
        if bytes.len() < self.missing {
            self.missing -= bytes.len();
            return 0;
        }
        let mut partial = std::mem::take(&mut self.partial);
        let (answers, used) = self.answers(&partial, now, instruments);
        partial.drain(..used);
        self.partial = partial;
        answers
    }

    /// Hands on the whole answers that `bytes` begins with; returns their number and length.
    fn answers(&mut self, bytes: &[u8], now: u64, instruments: &mut Instruments<D>) -> (usize, usize) {
        let (mut answers, mut used) = (0, 0);
        while used < bytes.len() && self.broken.is_none() {
            match self.client.receive(&bytes[used..], now, instruments) {
                Received::Answer(len) => {
                    answers += 1;
                    used += len;
                }
                Received::NeedBytes(missing) => {
                    self.missing = missing;
                    break;
                }
                Received::Broken(why) => self.broken = Some(why.into_owned()),
            }
        }
        if let Some(watch) = instruments.watch.as_mut().filter(|_| answers > 0) {
            watch.finish_batch(now, &mut instruments.tally);
        }
        (answers, used)
    }

    /// Queues up to `requests` of the client, to be written together; returns whether there was one.
    pub(crate) fn issue(&mut self, requests: usize, now: u64, instruments: &mut Instruments<D>) -> bool {
        let mut issued = 0;
        while self.broken.is_none() && issued < requests && self.client.issue(now, instruments, &mut self.out)
        {
            issued += 1;
        }
        if let Some(watch) = instruments.watch.as_mut().filter(|_| issued > 0) {
            self.client.encoded(issued, watch);
        }
        issued > 0
    }

    /// Writes what is queued; asks for writability only when the socket takes no more.
    pub(crate) fn flush(&mut self, registry: &Registry, token: Token) {
        while self.written < self.out.len() && self.broken.is_none() {
            match self.stream.write(&self.out[self.written..]) {
                Ok(len) => self.written += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => self.broken = Some(error.to_string()),
            }
        }
        if self.written == self.out.len() {
            self.out.clear();
            self.written = 0;
        }
        let blocked = !self.out.is_empty() && self.broken.is_none();
        if blocked != self.waits_to_write {
            let interest = if blocked { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
            if let Err(error) = registry.reregister(&mut self.stream, token, interest) {
                self.broken = Some(error.to_string());
            }
            self.waits_to_write = blocked;
        }
    }

    /// Returns whether the connection is broken or its client done.
    #[must_use]
    pub(crate) fn is_done(&self) -> bool {
        self.broken.is_some() || self.client.is_done()
    }
}
