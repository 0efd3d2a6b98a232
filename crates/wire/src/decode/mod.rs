//! Decodes requests from bytes that arrive in any pieces.
//!
//! Promises: the same bytes give the same requests however they are cut, a finished argument is never looked
//! at again, and what a peer can make us hold is bounded by [`Limits`]. Arguments come out as [`Span`]s of
//! the caller's buffer, so nothing is copied. A request that is too large is discarded while it arrives and
//! answered with a fault; only bytes that are not RESP or exceed a hard limit end a connection.
//!
//! Progress is kept relative to the first byte of the request, so the caller may move its buffer between
//! calls. Two alternatives were rejected: parsing from the start after each read costs the square of the
//! number of arguments, and a parser that owns the bytes copies every body once more.

mod inline;
mod length;

use std::fmt;

use memchr::memchr;

use crate::fault::{Fault, Word};
use crate::span::Span;

/// What one request may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest argument, in bytes; a request with a longer one is discarded.
    pub bulk_bytes: usize,
    /// All bytes of one request, its lengths and line breaks included; a longer one is discarded.
    pub request_bytes: usize,
    /// Most arguments of one request; a peer that announces more is cut off.
    pub args: usize,
    /// Longest inline command, in bytes without its line feed; a peer that sends a longer one is cut off.
    pub inline_bytes: usize,
}

/// What [`Decoder::decode`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// One whole request, which ended before `input[end]`; its arguments are in `args`. There may be none
    /// (a blank line, or `*0`): such a request is not answered.
    Request {
        /// Where the next request begins.
        end: usize,
    },
    /// One whole inline command that ended before `input[end]`, in which a word had to be unescaped: the
    /// spans in `args` are of `bytes`.
    Unescaped {
        /// Where the next request begins.
        end: usize,
        /// The unescaped words.
        bytes: Vec<u8>,
    },
    /// The request is incomplete: at least this many more bytes must arrive. Within an argument, that is all
    /// that is missing of it.
    NeedBytes(usize),
    /// The next bytes, this many from `start`, belong to a request that is too large: drop them and call
    /// again with `start` behind them. At least 1, and no more than the input has.
    Discard(usize),
    /// The end of a request that was too large; it ended before `input[end]`. Answer the fault and go on.
    TooBig {
        /// Where the next request begins.
        end: usize,
        /// `TOOBIG` with both sizes.
        fault: Fault,
    },
    /// Not RESP, or beyond a limit: answer the fault, then close.
    Malformed(Fault),
}

/// The longest argument that any peer may announce, in bytes: the limit of the protocol. A larger
/// [`Limits::bulk_bytes`] has no effect.
pub const BULK_BYTES_PROTOCOL: u64 = 512 * 1024 * 1024;

/// Bytes of the input that are looked at. Spans have 32 bits; the rest waits until the caller has moved its buffer.
const INPUT_BYTES_MAX: usize = u32::MAX as usize;

/// Capacity for arguments that an idle decoder keeps.
const SPANS_KEPT: usize = 16;

const INVALID_COUNT: &str = "Protocol error: invalid multibulk length";
const INVALID_LENGTH: &str = "Protocol error: invalid bulk length";

/// Why decoding stopped before the end of a request.
#[derive(Debug)]
enum Stop {
    NeedBytes(usize),
    Malformed(Fault),
}

impl Stop {
    fn malformed(text: &'static str) -> Self {
        Self::Malformed(Fault::new(Word::Err, text))
    }
}

/// The part of the request that comes next.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// Its first byte.
    Start,
    /// The rest of an inline command.
    Line,
    /// `*` and the number of arguments.
    Count,
    /// `$` and the length of an argument; `left` arguments are still missing.
    Head { left: usize },
    /// `len` bytes and a line break: the first of `left` missing arguments.
    Blob { left: usize, len: usize },
}

/// Decodes the requests of one connection.
pub struct Decoder {
    limits: Limits,
    place: Place,
    /// Bytes of the request that are decoded, counted from its first byte that the caller still holds.
    done: usize,
    /// Arguments decoded so far, counted from the same byte as `done`.
    spans: Vec<Span>,
    /// The unescaped words of an inline command, if unescaping was needed.
    unescaped: Option<Vec<u8>>,
    /// The fault to answer once the request is known to be too large; its bytes are discarded from then on.
    too_big: Option<Fault>,
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder")
            .field("place", &self.place)
            .field("done", &self.done)
            .finish_non_exhaustive()
    }
}

impl Decoder {
    /// Makes a decoder for a new connection. It allocates nothing before the first request.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, place: Place::Start, done: 0, spans: Vec::new(), unescaped: None, too_big: None }
    }

    /// Returns whether the decoder is between two requests.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        matches!(self.place, Place::Start)
    }

    /// Continues with the request that begins at `input[start]`. Until it has ended, or some of it was
    /// discarded, each call must be given the same bytes from `start` on, and whatever has arrived since.
    /// `args` is emptied; spans in it count from `input[0]`, except for [`Decoded::Unescaped`].
    pub fn decode(&mut self, input: &[u8], start: usize, args: &mut Vec<Span>) -> Decoded {
        args.clear();
        let input = &input[..input.len().min(INPUT_BYTES_MAX)];
        let request = input.get(start..).unwrap_or_default();
        match self.advance(request) {
            Ok(()) => self.finish(start, args),
            Err(Stop::NeedBytes(more)) => self.pause(request.len(), more),
            Err(Stop::Malformed(fault)) => {
                self.reset();
                Decoded::Malformed(fault)
            }
        }
    }

    fn advance(&mut self, request: &[u8]) -> Result<(), Stop> {
        loop {
            match self.place {
                Place::Start => match request.first() {
                    None => return Err(Stop::NeedBytes(1)),
                    Some(b'*') => self.place = Place::Count,
                    Some(_) => self.place = Place::Line,
                },
                Place::Line => return self.line(request),
                Place::Count => self.count(request)?,
                Place::Head { left: 0 } => return Ok(()),
                Place::Head { left } => self.head(request, left)?,
                Place::Blob { left, len } => self.blob(request, left, len)?,
            }
        }
    }

    fn line(&mut self, request: &[u8]) -> Result<(), Stop> {
        let unseen = request.get(self.done..).unwrap_or_default();
        let end = memchr(b'\n', unseen).map(|found| self.done + found);
        if end.unwrap_or(request.len()) > self.limits.inline_bytes {
            return Err(Stop::malformed("Protocol error: too big inline request"));
        }
        let Some(end) = end else {
            self.done = request.len();
            return Err(Stop::NeedBytes(1));
        };
        self.unescaped = inline::split(&request[..end], &mut self.spans).map_err(Stop::malformed)?;
        if self.spans.len() > self.limits.args {
            return Err(self.too_many_args());
        }
        self.done = end + 1;
        Ok(())
    }

    fn count(&mut self, request: &[u8]) -> Result<(), Stop> {
        let (count, end) = length::read(request, 1, INVALID_COUNT)?;
        let left = usize::try_from(count).ok().filter(|&count| count <= self.limits.args);
        self.place = Place::Head { left: left.ok_or_else(|| self.too_many_args())? };
        self.done = end;
        Ok(())
    }

    fn head(&mut self, request: &[u8], left: usize) -> Result<(), Stop> {
        match request.get(self.done) {
            None => return Err(Stop::NeedBytes(length::SHORTEST + 1)),
            Some(b'$') => {}
            Some(other) => {
                let text = format!("Protocol error: expected '$', got '{}'", other.escape_ascii());
                return Err(Stop::Malformed(Fault::about(Word::Err, text)));
            }
        }
        let (len, end) = length::read(request, self.done + 1, INVALID_LENGTH)?;
        if len > BULK_BYTES_PROTOCOL {
            return Err(Stop::malformed(INVALID_LENGTH));
        }
        let len = len as usize;
        if self.too_big.is_none() {
            self.too_big = self.oversize(len, end + len + 2);
        }
        self.place = Place::Blob { left, len };
        self.done = end;
        Ok(())
    }

    /// Returns the fault of a request with an argument of `len` bytes and `total` bytes up to its end, if
    /// either is too large.
    fn oversize(&mut self, len: usize, total: usize) -> Option<Fault> {
        let Limits { bulk_bytes, request_bytes, .. } = self.limits;
        let text = if len > bulk_bytes {
            format!("an argument has {len} bytes, at most {bulk_bytes} are allowed; it was discarded")
        } else if total > request_bytes {
            format!(
                "the request has {total} bytes or more, at most {request_bytes} are allowed; it was discarded: send smaller ones"
            )
        } else {
            return None;
        };
        self.spans.clear();
        Some(Fault::about(Word::TooBig, text))
    }

    fn blob(&mut self, request: &[u8], left: usize, len: usize) -> Result<(), Stop> {
        let have = request.len().saturating_sub(self.done);
        if have < len + 2 {
            return Err(Stop::NeedBytes(len + 2 - have));
        }
        let end = self.done + len;
        if request[end..end + 2] != *b"\r\n" {
            return Err(Stop::malformed("Protocol error: expected a line break after a bulk"));
        }
        if self.too_big.is_none() {
            self.spans.push(Span { start: self.done as u32, len: len as u32 });
        }
        self.place = Place::Head { left: left - 1 };
        self.done = end + 2;
        Ok(())
    }

    /// Stops in the middle of a request; bytes of one that is too large are discarded.
    fn pause(&mut self, available: usize, more: usize) -> Decoded {
        if self.too_big.is_none() {
            return Decoded::NeedBytes(more);
        }
        if let Place::Blob { len, .. } = &mut self.place {
            let arrived = available.saturating_sub(self.done).min(*len);
            *len -= arrived;
            self.done += arrived;
        }
        match std::mem::take(&mut self.done) {
            0 => Decoded::NeedBytes(more),
            passed => Decoded::Discard(passed),
        }
    }

    fn finish(&mut self, start: usize, args: &mut Vec<Span>) -> Decoded {
        let end = start + self.done;
        let decoded = match (self.too_big.take(), self.unescaped.take()) {
            (Some(fault), _) => Decoded::TooBig { end, fault },
            (None, Some(bytes)) => {
                args.extend_from_slice(&self.spans);
                Decoded::Unescaped { end, bytes }
            }
            (None, None) => {
                let moved = |span: &Span| Span { start: start as u32 + span.start, len: span.len };
                args.extend(self.spans.iter().map(moved));
                Decoded::Request { end }
            }
        };
        self.reset();
        decoded
    }

    fn reset(&mut self) {
        self.place = Place::Start;
        self.done = 0;
        self.too_big = None;
        self.unescaped = None;
        self.spans.clear();
        if self.spans.capacity() > SPANS_KEPT {
            self.spans.shrink_to(SPANS_KEPT);
        }
    }

    fn too_many_args(&self) -> Stop {
        let text = format!("{INVALID_COUNT}: at most {} arguments are accepted", self.limits.args);
        Stop::Malformed(Fault::about(Word::Err, text))
    }
}
