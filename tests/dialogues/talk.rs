//! Speaks a dialogue with a server: connections, requests as bytes, answers against patterns.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use posthaste_wire::reply::{Reply, decode};

use crate::pattern::{Pattern, Variables, shown};
use crate::script::{Script, Step, Word};

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(5);

/// How long nothing must come before a request counts as blocked.
const SILENCE: Duration = Duration::from_millis(40);

/// Which RESP the connections speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// What a connection starts with.
    Resp2,
    /// After HELLO 3.
    Resp3,
}

/// Speaks the whole dialogue; an error names the line.
pub(crate) fn speak(script: &Script, server: SocketAddr, protocol: Protocol) -> Result<(), String> {
    let mut room = Room { server, protocol, connections: HashMap::new() };
    let mut variables = Variables::new();
    for (line, step) in &script.steps {
        room.take(step, &mut variables).map_err(|why| format!("line {line}: {why}"))?;
    }
    match room.connections.iter().find(|(_, connection)| connection.unread > 0) {
        Some((name, _)) => Err(format!("the dialogue ends before the last answer to '{name}' is read")),
        None => Ok(()),
    }
}

/// All connections of a dialogue.
struct Room {
    server: SocketAddr,
    protocol: Protocol,
    connections: HashMap<String, Connection>,
}

struct Connection {
    socket: TcpStream,
    received: Vec<u8>,
    /// Requests sent and not answered; a blocked one counts no more.
    unread: usize,
}

impl Room {
    fn take(&mut self, step: &Step, variables: &mut Variables) -> Result<(), String> {
        match step {
            Step::Wait(time) => {
                thread::sleep(*time);
                Ok(())
            }
            Step::Say(name, words) => {
                let words: Result<Vec<_>, _> = words.iter().map(|word| bytes_of(word, variables)).collect();
                self.connection(name)?.say(&words?)
            }
            Step::Hear(name, pattern, written) => self.connection(name)?.hear(pattern, written, variables),
            Step::Blocks(name) => self.connection(name)?.expect_silence(),
            Step::Closed(name) => self.connection(name)?.expect_end(),
            Step::Silent(name) => {
                let connection = self.connection(name)?;
                connection.unread = connection.unread.saturating_sub(1);
                Ok(())
            }
        }
    }

    /// The connection of that name, opened and logged in when it is new.
    fn connection(&mut self, name: &str) -> Result<&mut Connection, String> {
        if !self.connections.contains_key(name) {
            let account = name.split('.').next().unwrap_or_default();
            let connection = Connection::open(self.server, self.protocol, account)?;
            self.connections.insert(name.to_owned(), connection);
        }
        self.connections.get_mut(name).ok_or_else(|| format!("no connection '{name}'"))
    }
}

fn bytes_of(word: &Word, variables: &Variables) -> Result<Vec<u8>, String> {
    match word {
        Word::Bytes(bytes) => Ok(bytes.clone()),
        Word::Variable(name) => {
            variables.get(name).cloned().ok_or_else(|| format!("nothing is called ${name} yet"))
        }
    }
}

impl Connection {
    fn open(server: SocketAddr, protocol: Protocol, account: &str) -> Result<Self, String> {
        let socket = TcpStream::connect(server).map_err(|error| format!("connect: {error}"))?;
        socket.set_nodelay(true).map_err(|error| error.to_string())?;
        let mut connection = Self { socket, received: Vec::new(), unread: 0 };
        if protocol == Protocol::Resp3 {
            connection.ask(&["HELLO", "3"])?;
        }
        if !account.is_empty() {
            connection.ask(&["LOGIN", account])?;
        }
        Ok(connection)
    }

    fn ask(&mut self, words: &[&str]) -> Result<(), String> {
        self.say(&words.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>())?;
        self.hear(&Pattern::Anything, "any answer", &mut Variables::new())
    }

    fn say(&mut self, words: &[Vec<u8>]) -> Result<(), String> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            request.extend_from_slice(word);
            request.extend_from_slice(b"\r\n");
        }
        self.unread += 1;
        self.socket.write_all(&request).map_err(|error| format!("send: {error}"))
    }

    /// Reads one answer and compares it with what was expected, also as it was written.
    fn hear(&mut self, pattern: &Pattern, written: &str, variables: &mut Variables) -> Result<(), String> {
        loop {
            match decode(&self.received) {
                Reply::Value(value, used) => {
                    if !pattern.matches(&value, variables) {
                        return Err(format!("expected {written}, got {}", shown(&value)));
                    }
                    self.received.drain(..used);
                    self.unread = self.unread.saturating_sub(1);
                    return Ok(());
                }
                Reply::NeedBytes(_) => match self.read(ANSWER)? {
                    Arrived::Bytes => {}
                    Arrived::Nothing => return Err(format!("expected {written}, got nothing")),
                    Arrived::End => return Err(format!("expected {written}, got the end")),
                },
                Reply::Malformed(fault) => return Err(fault.to_string()),
            }
        }
    }

    fn expect_silence(&mut self) -> Result<(), String> {
        self.unread = 0;
        match (self.received.is_empty(), self.read(SILENCE)?) {
            (true, Arrived::Nothing) => Ok(()),
            _ => Err(format!("expected nothing yet, got {}", self.received.escape_ascii())),
        }
    }

    fn expect_end(&mut self) -> Result<(), String> {
        match (self.received.is_empty(), self.read(ANSWER)?) {
            (true, Arrived::End) => Ok(()),
            _ => Err(format!("expected the end, got {}", self.received.escape_ascii())),
        }
    }

    fn read(&mut self, patience: Duration) -> Result<Arrived, String> {
        self.socket.set_read_timeout(Some(patience)).map_err(|error| error.to_string())?;
        let mut chunk = [0; 64 << 10];
        match self.socket.read(&mut chunk) {
            Ok(0) => Ok(Arrived::End),
            Ok(len) => {
                self.received.extend_from_slice(&chunk[..len]);
                Ok(Arrived::Bytes)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Ok(Arrived::Nothing)
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(Arrived::End),
            Err(error) => Err(format!("receive: {error}")),
        }
    }
}

enum Arrived {
    Bytes,
    Nothing,
    End,
}
