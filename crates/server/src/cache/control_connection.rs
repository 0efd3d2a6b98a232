//! Commands to a server over a connection of the caller's own, which waits for the replies.

use std::io::{self, BufRead as _, BufReader, ErrorKind, Write as _};
use std::time::Duration;

use super::backend::Dialed;
use super::dialect;
use super::identity::{self, Run};
use super::memcached_server::Server;
use super::server_limits::ServerLimits;

/// How long a server may take to accept a connection, and for each reply.
pub(super) const TIMEOUT: Duration = Duration::from_secs(2);

/// The limits for a control connection.
pub(super) const LIMITS: ServerLimits =
    ServerLimits { connect_timeout: TIMEOUT, answer_timeout: TIMEOUT, depth: usize::MAX };

/// Sends commands and reads this many lines, each of which must satisfy `is_good`.
pub(super) fn ask(
    link: &mut BufReader<Dialed>,
    commands: &[u8],
    lines: usize,
    is_good: impl Fn(&[u8]) -> bool,
) -> io::Result<()> {
    link.get_mut().write_all(commands)?;
    link.get_mut().flush()?;
    for _ in 0..lines {
        let mut line = Vec::new();
        link.read_until(b'\n', &mut line)?;
        if !line.ends_with(b"\n") || !is_good(&line) {
            let reply = String::from_utf8_lossy(&line).trim().to_owned();
            return Err(io::Error::new(ErrorKind::InvalidData, format!("it said {reply:?}")));
        }
    }
    Ok(())
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
