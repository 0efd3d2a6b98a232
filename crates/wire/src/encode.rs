//! Encodes values as RESP.

use crate::fault::Fault;

/// The protocol version a connection speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2: what a connection starts with.
    #[default]
    Resp2,
    /// RESP3, after `HELLO 3`.
    Resp3,
}

/// Appends RESP values to a byte vector. Compound values are written as a head and then their parts.
pub struct Encoder<'a> {
    out: &'a mut Vec<u8>,
    protocol: Protocol,
}

impl<'a> Encoder<'a> {
    /// An encoder that appends to `out`.
    pub fn new(out: &'a mut Vec<u8>, protocol: Protocol) -> Self {
        Self { out, protocol }
    }

    /// Returns everything in the output so far, what was there before this encoder included.
    #[must_use]
    pub fn written(&self) -> &[u8] {
        self.out
    }

    /// Returns the protocol version that this encoder writes.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Writes `+text`; a line break in it is replaced by a space.
    pub fn simple(&mut self, text: &str) {
        self.out.push(b'+');
        self.line(text);
    }

    /// Writes `-WORD text`.
    pub fn error(&mut self, fault: &Fault) {
        self.out.push(b'-');
        self.out.extend_from_slice(fault.word.as_str().as_bytes());
        self.out.push(b' ');
        self.line(&fault.text);
    }

    /// Writes `:value`.
    pub fn integer(&mut self, value: i64) {
        self.head(b':', value);
    }

    /// Writes `$len bytes`.
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.bulk_of(&[bytes]);
    }

    /// Writes one bulk string that is the concatenation of `parts`.
    pub fn bulk_of(&mut self, parts: &[&[u8]]) {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        self.head(b'$', len.cast_signed() as i64);
        parts.iter().for_each(|part| self.out.extend_from_slice(part));
        self.out.extend_from_slice(b"\r\n");
    }

    /// Writes bytes that are RESP already.
    pub fn encoded(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Writes null: `_` in RESP3, `$-1` in RESP2.
    pub fn null(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// Writes null where an array was expected: `_` in RESP3, `*-1` in RESP2.
    pub fn null_array(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"*-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// Writes the head of an array; `len` values follow.
    pub fn array(&mut self, len: usize) {
        self.head(b'*', len.cast_signed() as i64);
    }

    /// Writes the head of a map; `pairs` times a key and a value follow. In RESP2 it is a flat array.
    pub fn map(&mut self, pairs: usize) {
        match self.protocol {
            Protocol::Resp2 => self.head(b'*', (pairs * 2).cast_signed() as i64),
            Protocol::Resp3 => self.head(b'%', pairs.cast_signed() as i64),
        }
    }

    /// Writes the head of a set; `len` values follow. In RESP2 it is an array.
    pub fn set(&mut self, len: usize) {
        let mark = if self.protocol == Protocol::Resp3 { b'~' } else { b'*' };
        self.head(mark, len.cast_signed() as i64);
    }

    fn head(&mut self, mark: u8, value: i64) {
        if let Ok(digit @ 0..=9) = u8::try_from(value) {
            self.out.extend_from_slice(&[mark, b'0' + digit, b'\r', b'\n']);
            return;
        }
        self.out.push(mark);
        self.out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    fn line(&mut self, text: &str) {
        self.out.extend(text.bytes().map(|b| if b == b'\r' || b == b'\n' { b' ' } else { b }));
        self.out.extend_from_slice(b"\r\n");
    }
}
