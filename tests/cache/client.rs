//! A plain client: writes what it is told, and knows where an answer ends by a marker that it sends behind it.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::support::Server;
use crate::support::patience::{PATIENCE, wait_for};

/// One connection.
pub(crate) struct Client(pub(crate) TcpStream);

impl Client {
    /// Connects.
    pub(crate) fn to(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).expect("somebody listens");
        stream
            .set_read_timeout(Some(PATIENCE))
            .and_then(|()| stream.set_write_timeout(Some(PATIENCE)))
            .and_then(|()| stream.set_nodelay(true))
            .expect("options can be set");
        Self(stream)
    }

    /// Sends this and reads everything that is answered to it.
    pub(crate) fn ask(&mut self, text: &str) -> String {
        String::from_utf8(self.ask_bytes(text.as_bytes())).expect("a text")
    }

    /// The same for bytes. The answers must not end with the marker's.
    pub(crate) fn ask_bytes(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.0.write_all(&[bytes, b"mn\r\n"].concat()).expect("the peer listens");
        self.read_until(b"MN\r\n")
    }

    /// Reads until the bytes end with `end`, which is left out.
    pub(crate) fn read_until(&mut self, end: &[u8]) -> Vec<u8> {
        let (mut heard, mut buffer) = (Vec::new(), [0; 65536]);
        while !heard.ends_with(end) {
            match self.0.read(&mut buffer) {
                Ok(n) if n > 0 => heard.extend_from_slice(&buffer[..n]),
                // A machine that stood still for a moment.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => panic!("{other:?} after {:?}", String::from_utf8_lossy(&heard)),
            }
        }
        heard.truncate(heard.len() - end.len());
        heard
    }

    /// A figure of `stats`.
    pub(crate) fn stat(&mut self, which: &str, name: &str) -> u64 {
        let text = self.ask(&format!("stats{which}\r\n"));
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
        line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {text}"))
    }

    /// Waits until so many servers take part.
    #[track_caller]
    pub(crate) fn wait_for_live(&mut self, servers: u64) {
        wait_for(format!("{servers} servers take part"), || {
            if self.stat("", "servers_live") == servers { Ok(()) } else { Err(self.ask("stats servers\r\n")) }
        });
    }
}

/// A router in front of these servers, with further arguments.
pub(crate) fn router(servers: &[&str], arguments: &[&str]) -> Server {
    let servers = servers.iter().flat_map(|server| ["--server", server]);
    start(&servers.chain(arguments.iter().copied()).collect::<Vec<_>>())
}

/// A router with these arguments. Unless they say otherwise it gives up no server that a busy machine keeps from
/// answering.
pub(crate) fn start(arguments: &[&str]) -> Server {
    let patience: &[&str] =
        if arguments.contains(&"--server-timeout") { &[] } else { &["--server-timeout", "20s"] };
    Server::start_cache(&[patience, arguments].concat())
}
