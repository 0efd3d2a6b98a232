//! A connection that asks a cache tier about itself: `stats`. A plain memcached does not tell the figures asked for
//! here.

use std::io::{self, ErrorKind, Write};
use std::str::FromStr;

use crate::address::{Address, BlockingStream};
use crate::error::LoadError;
use crate::probe::{Count, PATIENCE, Probe};
use crate::probe_connection::ProbeConnection;

/// Number of bytes beyond which an answer is not one to `stats`.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// One server's probe.
pub(crate) struct CacheProbe {
    server: String,
    connection: ProbeConnection<BlockingStream>,
}

impl CacheProbe {
    /// Connects.
    pub(crate) fn new(server: &Address) -> Self {
        let (name, server) = (server.to_string(), server.clone());
        let open = move || server.connect_within(PATIENCE).map_err(|source| failed(&server, source));
        Self { server: name, connection: ProbeConnection::new(open) }
    }

    fn stats(&mut self) -> Result<String, LoadError> {
        let server = &self.server;
        self.connection.ask(|stream| stats(stream).map_err(|source| failed(server, source)))
    }
}

fn failed(server: impl ToString, source: io::Error) -> LoadError {
    LoadError::Connect { address: server.to_string(), source }
}

fn stats(stream: &mut BlockingStream) -> io::Result<String> {
    stream.write_all(b"stats\r\n")?;
    let mut answer = Vec::new();
    while !is_whole(&answer) {
        if answer.len() > ANSWER_BYTES_MAX {
            return Err(io::Error::new(ErrorKind::InvalidData, "its answer to stats has no end"));
        }
        stream.read_more(&mut answer)?;
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

impl Probe for CacheProbe {
    fn unix_ns(&mut self) -> Option<u64> {
        named(&self.stats().ok()?, "unix_ns")
    }

    fn count(&mut self) -> Result<Option<Count>, LoadError> {
        let stats = self.stats()?;
        let count = named(&stats, "requests_so_far").zip(named(&stats, "now_s"));
        Ok(count.map(|(requests, at_s)| Count { requests, at_s }))
    }
}

/// Returns whether the answer is complete: its last line is not one of figures. That is `END`, or whatever a server
/// says that is no memcached.
fn is_whole(answer: &[u8]) -> bool {
    let last = answer.strip_suffix(b"\n").and_then(|lines| lines.rsplit(|byte| *byte == b'\n').next());
    last.is_some_and(|line| !line.starts_with(b"STAT "))
}

/// The value of a line `STAT name value`.
fn named<T: FromStr>(stats: &str, name: &str) -> Option<T> {
    let mut lines = stats.lines().filter_map(|line| line.strip_prefix("STAT ")?.split_once(' '));
    lines.find(|(known, _)| *known == name)?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_ends_with_a_line_that_is_no_figure() {
        for (answer, whole) in [
            ("", false),
            ("STAT pid 7\r\n", false),
            ("STAT pid 7\r\nEN", false),
            ("STAT pid 7\r\nEND\r\n", true),
            ("ERROR\r\n", true),
            ("-ERR unknown command 'stats'\r\n", true),
        ] {
            assert_eq!(is_whole(answer.as_bytes()), whole, "{answer}");
        }
    }

    #[test]
    fn what_stats_does_not_say_is_not_known() {
        let stats = "STAT pid 7\r\nSTAT now_s 1.500000\r\nSTAT requests_so_far 12\r\nEND\r\n";
        assert_eq!(named::<u64>(stats, "requests_so_far"), Some(12));
        assert_eq!(named::<f64>(stats, "now_s"), Some(1.5));
        assert_eq!(named::<u64>("STAT pid 7\r\nSTAT cmd_get 12\r\nEND\r\n", "requests_so_far"), None);
    }
}
