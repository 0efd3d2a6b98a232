//! Decodes RESP 2 and 3 replies into values that borrow from the input.
//!
//! Any input is a whole reply, the beginning of one, or malformed. Depth and size are limited, and no memory
//! is reserved for an announced length before its bytes have arrived. Two functions accept the same bytes
//! because they share a scanner: [`decode`] builds the value, and [`skip`] only finds its end and allocates
//! nothing, for callers that count replies by the hundred thousand.
//!
//! `NeedBytes` says how many bytes must arrive before another try can succeed, which saves most tries, but not those at
//! long lists of small values, whose size cannot be known beforehand. For these, [`Passage`] resumes where it stopped.

mod scan;

use crate::fault::{Fault, Word};
pub use scan::{DEPTH_MAX, LINE_MAX, SIZE_MAX};
use scan::{Stop, build, pass};

/// One reply. Texts and blobs are slices of the input.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// `_`, and RESP 2's `$-1` and `*-1`.
    Null,
    /// `#t` or `#f`.
    Boolean(bool),
    /// `:`.
    Integer(i64),
    /// `,`.
    Double(f64),
    /// `(`: decimal digits of any length.
    BigNumber(&'a [u8]),
    /// `+`: a short text without line breaks.
    Simple(&'a [u8]),
    /// `-` and `!`: the word and the sentence.
    Error(&'a [u8]),
    /// `$`: any bytes.
    Bulk(&'a [u8]),
    /// `=`: a text with three letters that say its format.
    Verbatim(&'a [u8], &'a [u8]),
    /// `*`.
    Array(Vec<Value<'a>>),
    /// `%`, in the order sent.
    Map(Vec<(Value<'a>, Value<'a>)>),
    /// `~`, in the order sent.
    Set(Vec<Value<'a>>),
    /// `>`: sent by the server unasked.
    Push(Vec<Value<'a>>),
}

/// What [`decode`] found.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply<'a> {
    /// A whole reply and the number of bytes it took.
    Value(Value<'a>, usize),
    /// The reply goes on: at least this many more bytes must arrive.
    NeedBytes(usize),
    /// Not RESP, or beyond a limit; the connection is of no more use.
    Malformed(Fault),
}

/// What [`skip`] found.
#[derive(Clone, Debug, PartialEq)]
pub enum Skip<'a> {
    /// A whole reply: its outermost item and the number of bytes the reply took.
    Done(Item<'a>, usize),
    /// The reply goes on: at least this many more bytes must arrive.
    NeedBytes(usize),
    /// Not RESP, or beyond a limit; the connection is of no more use.
    Malformed(Fault),
}

/// The outermost value of a reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Item<'a> {
    /// A whole value without parts.
    Scalar(Value<'a>),
    /// A value with parts, which are not built: its shape and the number of parts (two for each pair of a map).
    Compound(Shape, usize),
}

/// Kind of a value with parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `*`.
    Array,
    /// `%`.
    Map,
    /// `~`.
    Set,
    /// `>`.
    Push,
}

/// Builds the reply that `input` begins with.
#[must_use]
pub fn decode(input: &[u8]) -> Reply<'_> {
    // Once `pass` has succeeded, every length is true, so memory may be reserved for it.
    match pass(input, 0).and_then(|_| build(input, 0)) {
        Ok((_, used)) if used > SIZE_MAX => Reply::Malformed(too_large()),
        Ok((value, used)) => Reply::Value(value, used),
        Err(Stop::NeedBytes(n)) if input.len().saturating_add(n) > SIZE_MAX => Reply::Malformed(too_large()),
        Err(Stop::NeedBytes(n)) => Reply::NeedBytes(n),
        Err(Stop::Malformed(why)) => Reply::Malformed(Fault::new(Word::Err, why)),
    }
}

/// Finds the end of the reply that `input` begins with, and returns its outermost value without building the parts.
#[must_use]
pub fn skip(input: &[u8]) -> Skip<'_> {
    match pass(input, 0) {
        Ok((_, used)) if used > SIZE_MAX => Skip::Malformed(too_large()),
        Ok((item, used)) => Skip::Done(item, used),
        Err(Stop::NeedBytes(n)) if input.len().saturating_add(n) > SIZE_MAX => Skip::Malformed(too_large()),
        Err(Stop::NeedBytes(n)) => Skip::NeedBytes(n),
        Err(Stop::Malformed(why)) => Skip::Malformed(Fault::new(Word::Err, why)),
    }
}

/// Finds the end of one reply that arrives piece by piece, and looks at each byte about once.
#[derive(Clone, Debug, Default)]
pub struct Passage {
    used: usize,
    /// For each compound value that is not whole, the number of parts still to come; the outermost first.
    open: Vec<usize>,
}

impl Passage {
    /// Returns where the reply at the beginning of `input` ends; None: it is incomplete. `input` must hold
    /// all that the calls before were given. After an end was found, the next call begins a new reply.
    ///
    /// # Errors
    /// Not RESP, or beyond a limit; the connection is of no more use.
    pub fn end(&mut self, input: &[u8]) -> Result<Option<usize>, Fault> {
        loop {
            let (item, len) = match scan::head(&input[self.used..], self.open.len()) {
                Ok(found) => found,
                Err(Stop::NeedBytes(_)) if input.len() > SIZE_MAX => return Err(too_large()),
                Err(Stop::NeedBytes(_)) => return Ok(None),
                Err(Stop::Malformed(why)) => return Err(Fault::new(Word::Err, why)),
            };
            self.used += len;
            match item {
                Item::Compound(_, parts) if parts > 0 => self.open.push(parts),
                _ if self.one_is_whole() => {
                    let used = std::mem::take(self).used;
                    return if used > SIZE_MAX { Err(too_large()) } else { Ok(Some(used)) };
                }
                _ => {}
            }
        }
    }

    /// Counts a value that has ended, and those around it that end with it. Returns whether the outermost has ended.
    fn one_is_whole(&mut self) -> bool {
        while let Some(left) = self.open.last_mut() {
            *left -= 1;
            if *left > 0 {
                return false;
            }
            self.open.pop();
        }
        true
    }
}

fn too_large() -> Fault {
    Fault::new(Word::Err, "the reply is larger than a client accepts; ask for fewer messages at once")
}

/// Returns the pairs of a whole encoded map, or of a flat array of names and values, one after another.
/// Nothing is allocated unless a pair holds a compound value. Ends early at anything that is not such a pair.
#[must_use]
pub fn pairs(reply: &[u8]) -> Pairs<'_> {
    match scan::head(reply, 0) {
        Ok((Item::Compound(Shape::Map | Shape::Array, parts), used)) => {
            Pairs { rest: &reply[used..], left: parts / 2 }
        }
        _ => Pairs { rest: &[], left: 0 },
    }
}

/// Iterator over the pairs of an encoded map; see [`pairs`].
#[derive(Clone, Debug)]
pub struct Pairs<'a> {
    rest: &'a [u8],
    left: usize,
}

impl<'a> Pairs<'a> {
    fn value(&mut self) -> Option<Value<'a>> {
        let (value, used) = build(self.rest, 1).ok()?;
        self.rest = &self.rest[used..];
        Some(value)
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a [u8], Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        Some((self.value()?.as_bytes()?, self.value()?))
    }
}

impl<'a> Value<'a> {
    /// Returns the value of `name` in a map, or in a flat array of names and values.
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<&Value<'a>> {
        match self {
            Self::Map(pairs) => pairs.iter().find(|(key, _)| key.as_bytes() == Some(name)).map(|(_, v)| v),
            Self::Array(parts) => {
                parts.chunks_exact(2).find(|pair| pair[0].as_bytes() == Some(name)).map(|pair| &pair[1])
            }
            _ => None,
        }
    }

    /// Returns the bytes of a text, blob or big number; not those of an error.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&'a [u8]> {
        match self {
            Self::Simple(bytes) | Self::Bulk(bytes) | Self::Verbatim(_, bytes) | Self::BigNumber(bytes) => {
                Some(bytes)
            }
            _ => None,
        }
    }

    /// Returns the number of an integer.
    #[must_use]
    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Self::Integer(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns the parts of an array, set or push; empty for anything else.
    #[must_use]
    pub fn parts(&self) -> &[Value<'a>] {
        match self {
            Self::Array(parts) | Self::Set(parts) | Self::Push(parts) => parts,
            _ => &[],
        }
    }

    /// Returns whether the value is null.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Returns the first word of an error, which programs match on.
    #[must_use]
    pub fn error_word(&self) -> Option<&'a [u8]> {
        match self {
            Self::Error(text) => text.split(|&b| b == b' ').next(),
            _ => None,
        }
    }
}
