//! What the load client must know of a messaging protocol: its bytes, nothing else.

use crate::Result;

/// One connection's side of a protocol. Bytes to be sent are appended to `out`; whoever calls sends them.
pub(crate) trait Protocol {
    /// What a connection sends before its first request.
    fn write_greeting(&mut self, _out: &mut Vec<u8>) {}

    /// Sends one message.
    fn write_send(&mut self, out: &mut Vec<u8>);

    /// Takes the oldest message.
    fn write_pop(&mut self, out: &mut Vec<u8>);

    /// The next whole reply at the beginning of `input` and its length; None while it has not all arrived.
    ///
    /// # Errors
    /// When the server says something the protocol does not know.
    fn next_reply(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Option<(usize, Reply)>>;
}

/// What a reply says about the request it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// It is done.
    Ok,
    /// It is done: there was nothing to take.
    Null,
    /// It failed, in the server's words.
    Error(String),
    /// Nothing yet: it goes on (a second step was written to `out`), or the server spoke unasked.
    Pending,
}

/// A line that ends in CR LF at the beginning of `input`, without them.
pub(crate) fn line(input: &[u8]) -> Option<&[u8]> {
    let end = input.iter().position(|&byte| byte == b'\n')?;
    Some(input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]))
}

/// The number in an ASCII word.
pub(crate) fn number(word: &[u8]) -> Option<usize> {
    std::str::from_utf8(word).ok()?.parse().ok()
}
