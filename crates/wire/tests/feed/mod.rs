//! Feeds bytes to a decoder in pieces of any size, as a connection would: it keeps unfinished bytes, moves
//! its buffer between reads, and checks what every caller relies on.

use posthaste_wire::decode::{Decoded, Decoder, Limits};
use posthaste_wire::span::Span;

/// One thing that a connection saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A request with these arguments.
    Request(Vec<Vec<u8>>),
    /// A request that was too large, and the fault to answer.
    TooBig(String),
    /// The end of the connection, and the fault to answer.
    Malformed(String),
    /// The bytes ended in the middle of a request.
    Unfinished,
}

/// Everything that a connection saw, and the most bytes it had to keep.
pub(crate) struct Seen {
    /// Events in order.
    pub(crate) events: Vec<Event>,
    /// Most unfinished bytes kept at once.
    pub(crate) kept_max: usize,
    /// Capacity of the caller's list of arguments at the end.
    pub(crate) args_capacity: usize,
}

/// Feeds `input` in pieces of the given sizes; whatever is left after the last one follows as one more piece.
pub(crate) fn feed(limits: Limits, input: &[u8], pieces: impl IntoIterator<Item = usize>) -> Seen {
    let mut connection = Connection::new(limits);
    let mut rest = input;
    for piece in pieces {
        let (now, later) = rest.split_at(piece.min(rest.len()));
        rest = later;
        if now.is_empty() || !connection.receive(now) {
            break;
        }
    }
    if !rest.is_empty() && !connection.is_over() {
        connection.receive(rest);
    }
    connection.end()
}

struct Connection {
    decoder: Decoder,
    buffer: Vec<u8>,
    start: usize,
    /// Bytes that, as the decoder said, must still arrive before a request can end.
    owed: usize,
    reads: usize,
    args: Vec<Span>,
    seen: Seen,
}

impl Connection {
    fn new(limits: Limits) -> Self {
        let seen = Seen { events: Vec::new(), kept_max: 0, args_capacity: 0 };
        let decoder = Decoder::new(limits);
        Self { decoder, buffer: Vec::new(), start: 0, owed: 0, reads: 0, args: Vec::new(), seen }
    }

    fn is_over(&self) -> bool {
        matches!(self.seen.events.last(), Some(Event::Malformed(_)))
    }

    /// Returns false when the connection is over.
    fn receive(&mut self, bytes: &[u8]) -> bool {
        self.buffer.extend_from_slice(bytes);
        self.owed = self.owed.saturating_sub(bytes.len());
        while self.step() {}
        self.reads += 1;
        // The buffer moves after every other read, since callers may move it or not.
        if self.reads.is_multiple_of(2) {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        if !self.is_over() {
            self.seen.kept_max = self.seen.kept_max.max(self.buffer.len() - self.start);
        }
        !self.is_over()
    }

    fn step(&mut self) -> bool {
        match self.decoder.decode(&self.buffer, self.start, &mut self.args) {
            Decoded::Request { end } => {
                assert_eq!(self.owed, 0, "a request ended before the bytes it needed");
                let request = self.args.iter().map(|arg| arg.of(&self.buffer).to_vec()).collect();
                self.pass(end, Event::Request(request))
            }
            Decoded::Unescaped { end, bytes } => {
                let request = self.args.iter().map(|arg| arg.of(&bytes).to_vec()).collect();
                self.pass(end, Event::Request(request))
            }
            Decoded::TooBig { end, fault } => {
                assert_eq!(self.owed, 0, "a request ended before the bytes it needed");
                self.pass(end, Event::TooBig(fault.to_string()))
            }
            Decoded::Discard(n) => {
                assert!(n > 0 && n <= self.buffer.len() - self.start, "discards {n} of what there is");
                self.start += n;
                true
            }
            Decoded::NeedBytes(n) => {
                assert!(n > 0, "needs no bytes");
                self.owed = n;
                false
            }
            Decoded::Malformed(fault) => {
                self.seen.events.push(Event::Malformed(fault.to_string()));
                false
            }
        }
    }

    fn pass(&mut self, end: usize, event: Event) -> bool {
        assert!(
            end > self.start && end <= self.buffer.len(),
            "a request has bytes, and all of them are here"
        );
        assert!(self.decoder.is_idle(), "between requests a decoder is idle");
        self.start = end;
        self.seen.events.push(event);
        true
    }

    fn end(mut self) -> Seen {
        if !self.is_over() && !self.decoder.is_idle() {
            self.seen.events.push(Event::Unfinished);
        }
        self.seen.args_capacity = self.args.capacity();
        self.seen
    }
}
