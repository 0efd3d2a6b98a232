//! One request of a workload, and its bytes.
//!
//! Queues and accounts of a run are numbers: queues `1` to `N` and those named by their id, accounts `1`
//! to the number of clients. So a request is a small value that can be copied, compared and remembered
//! beside its answer, and its bytes are fixed pieces with a few numbers between them.

/// A queue, by the number that is its name.
pub type Queue = u64;

/// An account, by the number that is its name: client c is account c, counted from 1.
pub type Account = u32;

/// The kind of a request, by which it is counted and timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// SEND.
    Send,
    /// PEEK.
    Peek,
    /// POP.
    Pop,
    /// PEEK or POP of messages to anyone only.
    ReadBroadcast,
    /// QREADABLE.
    Readable,
    /// QCREATE.
    Create,
    /// QDELETE.
    Delete,
    /// ECHO.
    Echo,
}

impl Kind {
    /// Their names on the command line and in reports, in the order of the variants.
    pub const NAMES: [&'static str; 8] =
        ["send", "peek", "pop", "read_broadcast", "readable", "create", "delete", "echo"];
}

/// What a client asks of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// `SEND queue body [TO account]`.
    Send {
        /// The queue that the message is sent to.
        queue: Queue,
        /// The recipient; None: for anyone.
        to: Option<Account>,
    },
    /// `PEEK` or `POP`.
    Read(Read),
    /// `QREADABLE`.
    Readable,
    /// `QCREATE`, to be named by its id.
    Create,
    /// `QDELETE queue`.
    Delete {
        /// The queue.
        queue: Queue,
    },
    /// `ECHO body`.
    Echo,
}

/// `PEEK` or `POP` with its conditions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// POP instead of PEEK.
    pub remove: bool,
    /// `QUEUE q`.
    pub queue: Option<Queue>,
    /// `FROM account`.
    pub from: Option<Account>,
    /// `BROADCAST`: only messages to anyone.
    pub broadcast: bool,
}

impl Request {
    /// Returns the kind of the request.
    #[must_use]
    pub const fn kind(self) -> Kind {
        match self {
            Self::Send { .. } => Kind::Send,
            Self::Read(Read { broadcast: true, .. }) => Kind::ReadBroadcast,
            Self::Read(Read { remove: true, .. }) => Kind::Pop,
            Self::Read(_) => Kind::Peek,
            Self::Readable => Kind::Readable,
            Self::Create => Kind::Create,
            Self::Delete { .. } => Kind::Delete,
            Self::Echo => Kind::Echo,
        }
    }

    /// Returns whether the request carries a body.
    #[must_use]
    pub const fn has_body(self) -> bool {
        matches!(self, Self::Send { .. } | Self::Echo)
    }

    /// Appends the request's bytes to `out`; `body` goes with those that carry one.
    pub fn encode(self, body: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Send { queue, to: None } => {
                out.extend_from_slice(b"*3\r\n$4\r\nSEND\r\n");
                number(queue, out);
                blob(body, out);
            }
            Self::Send { queue, to: Some(account) } => {
                out.extend_from_slice(b"*5\r\n$4\r\nSEND\r\n");
                number(queue, out);
                blob(body, out);
                out.extend_from_slice(b"$2\r\nTO\r\n");
                number(account.into(), out);
            }
            Self::Read(read) => read.encode(out),
            Self::Readable => out.extend_from_slice(b"*1\r\n$9\r\nQREADABLE\r\n"),
            Self::Create => out.extend_from_slice(b"*1\r\n$7\r\nQCREATE\r\n"),
            Self::Delete { queue } => {
                out.extend_from_slice(b"*2\r\n$7\r\nQDELETE\r\n");
                number(queue, out);
            }
            Self::Echo => {
                out.extend_from_slice(b"*2\r\n$4\r\nECHO\r\n");
                blob(body, out);
            }
        }
    }
}

impl Read {
    fn encode(self, out: &mut Vec<u8>) {
        let options = 2 * (u8::from(self.queue.is_some()) + u8::from(self.from.is_some()));
        out.extend_from_slice(&[b'*', b'1' + options + u8::from(self.broadcast)]);
        out.extend_from_slice(if self.remove { b"\r\n$3\r\nPOP\r\n" } else { b"\r\n$4\r\nPEEK\r\n" });
        if let Some(queue) = self.queue {
            out.extend_from_slice(b"$5\r\nQUEUE\r\n");
            number(queue, out);
        }
        if let Some(account) = self.from {
            out.extend_from_slice(b"$4\r\nFROM\r\n");
            number(account.into(), out);
        }
        if self.broadcast {
            out.extend_from_slice(b"$9\r\nBROADCAST\r\n");
        }
    }
}

/// A number as a bulk string.
fn number(value: u64, out: &mut Vec<u8>) {
    blob(itoa::Buffer::new().format(value).as_bytes(), out);
}

fn blob(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'$');
    out.extend_from_slice(itoa::Buffer::new().format(bytes.len()).as_bytes());
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use posthaste_wire::reply::{Reply, Value, decode};

    use super::*;

    fn words(request: Request) -> String {
        let mut out = Vec::new();
        request.encode(b"hi there", &mut out);
        let Reply::Value(value, used) = decode(&out) else { panic!("{request:?} is not RESP") };
        assert_eq!(used, out.len());
        let word =
            |v: &Value<'_>| String::from_utf8_lossy(v.as_bytes().expect("bulk strings only")).into_owned();
        value.parts().iter().map(word).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_request_is_an_array_of_bulk_strings() {
        let read = Read::default();
        for (request, expected) in [
            (Request::Send { queue: 12, to: None }, "SEND 12 hi there"),
            (Request::Send { queue: 1, to: Some(34) }, "SEND 1 hi there TO 34"),
            (Request::Read(Read { queue: Some(1), ..read }), "PEEK QUEUE 1"),
            (Request::Read(Read { remove: true, queue: Some(1), ..read }), "POP QUEUE 1"),
            (Request::Read(Read { from: Some(5), ..read }), "PEEK FROM 5"),
            (
                Request::Read(Read { remove: true, queue: Some(1), from: Some(5), broadcast: true }),
                "POP QUEUE 1 FROM 5 BROADCAST",
            ),
            (Request::Readable, "QREADABLE"),
            (Request::Create, "QCREATE"),
            (Request::Delete { queue: 99 }, "QDELETE 99"),
            (Request::Echo, "ECHO hi there"),
        ] {
            assert_eq!(words(request), expected);
        }
    }
}
