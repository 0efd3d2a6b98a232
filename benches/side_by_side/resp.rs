//! RESP for the load client: two fixed requests, replies skipped without being built.
//!
//! Redis and posthaste are driven by this one type, so the client costs the same beside either.

use posthaste_wire::reply::{Item, Skip, Value, skip};

use crate::Result;
use crate::protocol::{Protocol, Reply};

/// One RESP connection.
#[derive(Clone, Debug)]
pub(crate) struct Resp {
    send: Vec<u8>,
    pop: Vec<u8>,
}

impl Resp {
    /// Repeats these two requests.
    pub(crate) fn new(send: &[&[u8]], pop: &[&[u8]]) -> Self {
        Self { send: request(send), pop: request(pop) }
    }

    /// Repeats one request, whatever it is.
    pub(crate) fn only(words: &[&[u8]]) -> Self {
        Self::new(words, words)
    }
}

/// The words as an array of bulk strings.
pub(crate) fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    out
}

impl Protocol for Resp {
    fn write_send(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.send);
    }

    fn write_pop(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.pop);
    }

    fn next_reply(&mut self, input: &[u8], _out: &mut Vec<u8>) -> Result<Option<(usize, Reply)>> {
        match skip(input) {
            Skip::Done(Item::Scalar(Value::Null), len) => Ok(Some((len, Reply::Null))),
            Skip::Done(Item::Scalar(Value::Error(text)), len) => {
                Ok(Some((len, Reply::Error(String::from_utf8_lossy(text).into_owned()))))
            }
            Skip::Done(_, len) => Ok(Some((len, Reply::Ok))),
            Skip::NeedBytes(_) => Ok(None),
            Skip::Malformed(fault) => Err(fault.to_string().into()),
        }
    }
}
