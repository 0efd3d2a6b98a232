//! Which run of a server answers. A memcached that was started anew holds nothing, though it answers at the same
//! address, and where no connection was open nothing shows that.
//!
//! So a server is asked which run it is (`stats`): when it is new, comes back or is checked, and over every
//! connection to it before anything else is sent there. If the run is another than before, the server counts as one
//! that came back with nothing, and what it was to decide goes to the server that decides now. A server that holds
//! nothing itself, as another router, or does not tell, has no run; then a new start goes unnoticed.

use std::io::{self, ErrorKind, Read as _, Write as _};

use super::backend::Dialed;
use super::fleet::Fleet;
use super::link;
use super::memcached_server::Server;
use super::router::Broken;

/// Why a connection is given up on which a server was to decide that holds nothing now.
pub(super) const STARTED_ANEW: &str = "it was started anew, and decides nothing";

/// The request for the run of a server.
const REQUEST: &[u8] = b"stats\r\n";

/// The longest answer that is accepted: memcached's own has some 3 KiB.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// A run of a server, from one start to the next: the number of its process, and its start in Unix seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pid: u64,
    began_s: u64,
}

impl Run {
    /// Returns whether both are the same run. memcached tells the same second every time; other servers may read the
    /// clock twice, so starts may differ by one second. The process number alone is not enough: in a container every
    /// run may have the same.
    #[must_use]
    pub fn is_same(self, other: Self) -> bool {
        self.pid == other.pid && self.began_s.abs_diff(other.began_s) <= 1
    }
}

/// A query for the run of a server: the request as it is sent, and the answer as it comes.
#[derive(Debug, Default)]
pub(super) struct RunQuery {
    /// How many bytes of the request were sent.
    sent: usize,
    /// How many bytes of the answer have come.
    received: usize,
    line: Vec<u8>,
    pid: Option<u64>,
    time_s: Option<u64>,
    up_s: Option<u64>,
    /// Whether the server holds values itself.
    holds_values: bool,
}

impl RunQuery {
    /// Returns the part of the request that is still to be sent.
    pub(super) fn unsent(&self) -> &'static [u8] {
        &REQUEST[self.sent..]
    }

    /// Notes that this many more bytes of the request were sent.
    pub(super) fn note_sent(&mut self, bytes: usize) {
        self.sent += bytes;
    }

    /// Parses bytes of the answer. Returns whether it is complete.
    ///
    /// # Errors
    /// The bytes are no answer to the request.
    pub(super) fn parse(&mut self, bytes: &[u8]) -> Result<bool, Broken> {
        self.received += bytes.len();
        let mut is_whole = false;
        for byte in bytes {
            if is_whole || self.received > ANSWER_BYTES_MAX {
                return Err(Broken);
            }
            self.line.push(*byte);
            if *byte == b'\n' {
                is_whole = self.line == b"END\r\n";
                if !is_whole {
                    self.parse_line().ok_or(Broken)?;
                }
                self.line.clear();
            }
        }
        Ok(is_whole)
    }

    /// Parses a line of the answer. `None`: such an answer has no such line.
    fn parse_line(&mut self) -> Option<()> {
        let line = self.line.strip_prefix(b"STAT ")?.trim_ascii_end();
        let mut words = line.splitn(2, |byte| *byte == b' ');
        let (name, value) = (words.next()?, words.next().unwrap_or_default());
        let number = || std::str::from_utf8(value).ok()?.parse().ok();
        match name {
            b"pid" => self.pid = number(),
            b"time" => self.time_s = number(),
            b"uptime" => self.up_s = number(),
            b"curr_items" => self.holds_values = true,
            _ => {}
        }
        Some(())
    }

    /// Returns the run, if the answer told all of it and the server holds values.
    pub(super) fn run(&self) -> Option<Run> {
        let began_s = self.time_s?.checked_sub(self.up_s?)?;
        Some(Run { pid: self.pid?, began_s }).filter(|_| self.holds_values)
    }
}

/// Asks for the run over a connection on which nothing is under way, and waits for the answer.
///
/// # Errors
/// The answer does not come, or is none.
pub(super) fn query_run(dialed: &mut Dialed) -> io::Result<Option<Run>> {
    let (mut query, mut buffer) = (RunQuery::default(), [0; 4096]);
    dialed.write_all(query.unsent())?;
    dialed.flush()?;
    loop {
        match dialed.read(&mut buffer) {
            Ok(0) => return Err(link::closed()),
            Ok(n) if query.parse(&buffer[..n])? => return Ok(query.run()),
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
    }
}

/// Notes that a server reports this run. If it is another than before, the server holds nothing from now on and
/// has not heard of a delayed flush.
pub(super) fn note_run(fleet: &Fleet, server: &Server, run: Run) {
    if server.health.note_start(run) {
        fleet.set_flush_reminder_now(server);
        tracing::warn!(server = %server.name(), "server was started anew, and holds nothing");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &[u8] =
        b"STAT pid 7\r\nSTAT uptime 40\r\nSTAT time 1000\r\nSTAT version 1.6.18\r\nSTAT curr_items 0\r\nEND\r\n";

    fn told(answer: &[u8]) -> Result<Option<Run>, Broken> {
        let mut query = RunQuery::default();
        Ok(query.parse(answer)?.then(|| query.run()).flatten())
    }

    #[test]
    fn a_run_is_told_however_the_answer_comes() {
        let run = Run { pid: 7, began_s: 960 };
        assert_eq!(told(ANSWER), Ok(Some(run)));
        let mut query = RunQuery::default();
        let (last, others) = ANSWER.split_last().unwrap();
        assert!(others.iter().all(|byte| query.parse(&[*byte]) == Ok(false)));
        assert_eq!((query.parse(&[*last]), query.run()), (Ok(true), Some(run)));
    }

    #[test]
    fn who_does_not_tell_or_holds_nothing_itself_has_none() {
        assert_eq!(told(b"END\r\n"), Ok(None));
        for missing in ["pid", "uptime", "time", "curr_items"] {
            let answer = String::from_utf8_lossy(ANSWER).replace(&format!("STAT {missing} "), "STAT x ");
            assert_eq!(told(answer.as_bytes()), Ok(None), "{missing}");
        }
    }

    #[test]
    fn what_is_no_such_answer_is_not_taken_for_one() {
        for wrong in [&b"ERROR\r\n"[..], b"ERROR Too many open connections\r\n", b"END\r\nEND\r\n", b"\r\n"] {
            assert_eq!(told(wrong), Err(Broken));
        }
        assert_eq!(told(&b"STAT x y\r\n".repeat(ANSWER_BYTES_MAX / 8)), Err(Broken));
        assert_eq!(told(&vec![b'x'; ANSWER_BYTES_MAX + 1]), Err(Broken));
    }

    #[test]
    fn a_run_is_the_same_when_number_and_beginning_are() {
        let run = Run { pid: 1, began_s: 1000 };
        assert!(run.is_same(run) && run.is_same(Run { began_s: 1001, ..run }));
        assert!(!run.is_same(Run { began_s: 1002, ..run }) && !run.is_same(Run { pid: 2, ..run }));
    }
}
