//! A blocking RESP connection for tests: one request, one owned answer; a broken connection is a value.

#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::io::{Error, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use posthaste_wire::encode::{Encoder, Protocol};
use posthaste_wire::reply::{Passage, Reply, Value, decode};

use crate::support::patience::PATIENCE;

/// A connection.
pub(crate) struct Client {
    socket: TcpStream,
    received: Vec<u8>,
    /// How far the next answer has come: a list of all queues arrives in hundreds of pieces.
    passage: Passage,
    /// Whether a late answer is given up, instead of being a sign of a hung server.
    gives_up: bool,
}

/// An answer that owns its bytes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Null,
    Integer(i64),
    Text(Vec<u8>),
    Error(String),
    List(Vec<Answer>),
}

/// The connection is gone, and it is unknown whether the last request took effect; or nobody was let in.
#[derive(Debug)]
pub(crate) struct Broken;

impl Client {
    /// Connects.
    pub(crate) fn connect(server: SocketAddr) -> Result<Self, Broken> {
        let socket = TcpStream::connect(server).map_err(|_| Broken)?;
        socket.set_nodelay(true).map_err(|_| Broken)?;
        socket.set_read_timeout(Some(PATIENCE)).map_err(|_| Broken)?;
        socket.set_write_timeout(Some(PATIENCE)).map_err(|_| Broken)?;
        Ok(Self { socket, received: Vec::new(), passage: Passage::default(), gives_up: false })
    }

    /// Connects for somebody to whom an answer that takes longer than this is lost, and the connection with it.
    pub(crate) fn connect_for(server: SocketAddr, patience: Duration) -> Result<Self, Broken> {
        let client = Self { gives_up: true, ..Self::connect(server)? };
        client.socket.set_read_timeout(Some(patience)).map_err(|_| Broken)?;
        Ok(client)
    }

    /// Connects and logs in. Who is refused is not left with a connection, on which it would be somebody else.
    pub(crate) fn login(server: SocketAddr, account: &str) -> Result<Self, Broken> {
        let mut client = Self::connect(server)?;
        match client.ask(&["LOGIN", account])? {
            Answer::Error(why) => {
                eprintln!("{account} is not let in: {why}");
                Err(Broken)
            }
            _ => Ok(client),
        }
    }

    /// One request and its answer.
    pub(crate) fn ask(&mut self, words: &[&str]) -> Result<Answer, Broken> {
        self.send(words)?;
        self.answer()
    }

    /// A request whose answer is read later.
    pub(crate) fn send(&mut self, words: &[&str]) -> Result<(), Broken> {
        let mut request = Vec::new();
        let mut encoder = Encoder::new(&mut request, Protocol::Resp2);
        encoder.array(words.len());
        for word in words {
            encoder.bulk(word.as_bytes());
        }
        self.write(&request)
    }

    /// Raw bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        self.socket.write_all(bytes).map_err(|_| Broken)
    }

    /// The next answer.
    pub(crate) fn answer(&mut self) -> Result<Answer, Broken> {
        loop {
            match self.passage.end(&self.received) {
                Ok(Some(end)) => {
                    let Reply::Value(value, _) = decode(&self.received[..end]) else {
                        panic!("the server sent what is not RESP");
                    };
                    let answer = owned(&value);
                    self.received.drain(..end);
                    return Ok(answer);
                }
                Ok(None) => self.read()?,
                Err(fault) => panic!("the server sent what is not RESP: {fault}"),
            }
        }
    }

    /// Whether the server closes the connection, and nothing is left to read.
    pub(crate) fn is_closed(&mut self) -> bool {
        let closes = |error: &Error| {
            matches!(
                error.kind(),
                ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe
            )
        };
        self.received.is_empty() && self.socket.read(&mut [0]).map_or_else(|error| closes(&error), |n| n == 0)
    }

    /// The bodies of all that a queue holds for this account, in the order in which they are given out.
    pub(crate) fn pop_all(&mut self, queue: &str) -> Vec<String> {
        let mut pop = || self.ask(&["POP", "QUEUE", queue]).expect("it runs");
        std::iter::from_fn(|| match pop() {
            Answer::Null => None,
            answer => Some(answer.body().unwrap_or_else(|| panic!("{answer:?}")).to_owned()),
        })
        .collect()
    }

    /// The socket, to do something unkind with it.
    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    fn read(&mut self) -> Result<(), Broken> {
        let mut buffer = [0; 64 * 1024];
        match self.socket.read(&mut buffer) {
            Ok(0) => Err(Broken),
            Ok(n) => {
                self.received.extend_from_slice(&buffer[..n]);
                Ok(())
            }
            // A machine that stood still for a moment.
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) if error.kind() == ErrorKind::WouldBlock && !self.gives_up => {
                panic!("no answer within {PATIENCE:?}")
            }
            Err(_) => Err(Broken),
        }
    }
}

impl Answer {
    /// The value beside a name in a map, which RESP2 gives as a flat list.
    pub(crate) fn get(&self, name: &str) -> Option<&Answer> {
        let Self::List(parts) = self else { return None };
        parts.chunks_exact(2).find(|pair| pair[0].text() == Some(name)).map(|pair| &pair[1])
    }

    /// The text of a string.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// The parts of a list; none of anything else. An error is no answer to whoever asked for a list.
    #[track_caller]
    pub(crate) fn list(self) -> Vec<Answer> {
        match self {
            Self::List(parts) => parts,
            Self::Error(why) => panic!("a list was asked for: {why}"),
            _ => Vec::new(),
        }
    }

    /// A message's body.
    pub(crate) fn body(&self) -> Option<&str> {
        self.get("body").and_then(Self::text)
    }

    /// An integer.
    pub(crate) fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(value) => Some(*value),
            _ => None,
        }
    }

    /// Whether it is an error with this first word.
    pub(crate) fn is_error(&self, word: &str) -> bool {
        matches!(self, Self::Error(text) if text.split(' ').next() == Some(word))
    }
}

fn owned(value: &Value<'_>) -> Answer {
    match value {
        Value::Null => Answer::Null,
        Value::Integer(value) => Answer::Integer(*value),
        Value::Error(text) => Answer::Error(String::from_utf8_lossy(text).into_owned()),
        Value::Array(parts) | Value::Set(parts) => Answer::List(parts.iter().map(owned).collect()),
        Value::Map(pairs) => {
            Answer::List(pairs.iter().flat_map(|(name, value)| [owned(name), owned(value)]).collect())
        }
        other => Answer::Text(other.as_bytes().unwrap_or_default().to_vec()),
    }
}
