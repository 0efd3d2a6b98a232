//! Commands to a server over a connection of the caller's own, which waits for the replies.

use std::fmt;
use std::io::{self, BufRead as _, BufReader, ErrorKind, Write as _};
use std::time::{Duration, Instant};

use super::backend::Dialed;
use super::dialect;
use super::identity::{self, Run};
use super::link;
use super::memcached_server::Server;
use super::server_limits::ServerLimits;

/// How long a server may take to accept a connection, and for each reply.
pub(super) const TIMEOUT: Duration = Duration::from_secs(2);

/// The limits for a control connection.
pub(super) const LIMITS: ServerLimits =
    ServerLimits { connect_timeout: TIMEOUT, answer_timeout: TIMEOUT, depth: usize::MAX };

/// A server's answer to a command that it does not carry out.
#[derive(Debug)]
struct Refusal(String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it said {:?}", self.0)
    }
}

impl std::error::Error for Refusal {}

/// Returns whether an error of [`ask`] means that the server has refused a command. Otherwise it could not be asked.
pub(super) fn is_refusal(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Refusal>())
}

/// Sends commands and reads this many lines, each of which must satisfy `is_good`.
///
/// # Errors
/// The server cannot be asked, or it refuses a command ([`is_refusal`]).
pub(super) fn ask(
    link: &mut BufReader<Dialed>,
    commands: &[u8],
    lines: usize,
    is_good: impl Fn(&[u8]) -> bool,
) -> io::Result<()> {
    ask_until(link, commands, lines, is_good, None)
}

/// Does as [`ask`], and waits for all the lines until this moment at most.
///
/// # Errors
/// As [`ask`].
pub(super) fn ask_until(
    link: &mut BufReader<Dialed>,
    commands: &[u8],
    lines: usize,
    is_good: impl Fn(&[u8]) -> bool,
    until: Option<Instant>,
) -> io::Result<()> {
    link.get_mut().write_all(commands)?;
    link.get_mut().flush()?;
    for _ in 0..lines {
        let line = read_line(link, until)?;
        if !is_good(&line) {
            return Err(io::Error::other(Refusal(String::from_utf8_lossy(&line).trim().to_owned())));
        }
    }
    Ok(())
}

/// Reads a line until this moment at most; None: each read may take [`TIMEOUT`].
fn read_line(link: &mut BufReader<Dialed>, until: Option<Instant>) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    while !line.ends_with(b"\n") {
        if link.buffer().is_empty() {
            let left = until.map_or(TIMEOUT, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            // Shorter than a microsecond would mean for ever.
            link.get_ref().wait_at_most(left.max(Duration::from_millis(1)))?;
        }
        let bytes = match link.fill_buf() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let end = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |end| end + 1);
        if end == 0 {
            return Err(link::closed());
        }
        line.extend_from_slice(&bytes[..end]);
        link.consume(end);
    }
    // What a server says, whatever it is asked, that accepts no more connections. It closes this one.
    if line.starts_with(b"ERROR Too many open connections") {
        return Err(io::Error::new(
            ErrorKind::ConnectionRefused,
            "it has all the connections that it accepts",
        ));
    }
    Ok(line)
}

/// Notes the version in this reply, and returns whether there is one.
pub(super) fn note_version(server: &Server, reply: &[u8]) -> bool {
    if server.dialect.note(reply) {
        tracing::warn!(
            server = %server.name(),
            "it tells {}, which is before {}: meta commands for its keys are refused, and values are brought neither \
             there nor from there",
            String::from_utf8_lossy(reply).trim(),
            dialect::FIRST
        );
    }
    reply.starts_with(b"VERSION")
}

/// Queries the run of a server; `None`: it does not report one.
pub(super) fn ask_run(server: &Server, link: &mut Dialed) -> Option<Run> {
    let run = identity::query_run(link);
    run.inspect_err(|error| tracing::debug!(server = %server.name(), "it does not tell who it is: {error}"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::super::backend::Backend;
    use super::*;

    /// Asks a server that answers with these words, and closes the connection.
    fn answered(words: &'static str) -> io::Result<()> {
        let door = TcpListener::bind("127.0.0.1:0").unwrap();
        let backend = Backend::parse(&door.local_addr().unwrap().to_string()).unwrap();
        let server = thread::spawn(move || {
            let mut lines = BufReader::new(door.accept().unwrap().0);
            lines.read_line(&mut String::new()).unwrap();
            lines.get_mut().write_all(words.as_bytes()).unwrap();
        });
        let mut link = BufReader::new(backend.dial(LIMITS).unwrap());
        let asked = ask(&mut link, b"flush_all\r\n", 1, |reply| reply.starts_with(b"OK"));
        server.join().unwrap();
        asked
    }

    #[test]
    fn only_who_answers_that_it_does_not_do_it_refuses() {
        assert!(answered("OK\r\n").is_ok());
        for refusal in ["CLIENT_ERROR flush_all not allowed\r\n", "ERROR\r\n"] {
            assert!(is_refusal(&answered(refusal).unwrap_err()), "{refusal:?}");
        }
        for other in ["", "OK", "ERROR Too many open connections\r\n"] {
            assert!(!is_refusal(&answered(other).unwrap_err()), "{other:?}");
        }
    }
}
