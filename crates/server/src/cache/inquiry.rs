//! Questions to a server over a connection of the prober's own, on which the answers are waited for.

use std::io::{self, BufRead as _, BufReader, ErrorKind, Write as _};
use std::time::Duration;

use super::backend::Dialed;
use super::dialect;
use super::fleet::Server;
use super::identity::{self, Run};
use super::patience::Patience;

/// How long a server may take for each answer to the prober.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// The same, for a connection of its own.
pub(super) const OWN: Patience = Patience { connect: PATIENCE, answer: PATIENCE, depth: usize::MAX };

/// Sends commands and reads so many lines, each of which must be a good one.
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
            let said = String::from_utf8_lossy(&line).trim().to_owned();
            return Err(io::Error::new(ErrorKind::InvalidData, format!("it said {said:?}")));
        }
    }
    Ok(())
}

/// Whether this is a version, which is taken note of.
pub(super) fn tells_version(server: &Server, said: &[u8]) -> bool {
    if server.dialect.note(said) {
        tracing::warn!(
            server = %server.name(),
            "it tells {}, which is before {}: meta commands for its keys are refused, and values are brought neither \
             there nor from there",
            String::from_utf8_lossy(said).trim(),
            dialect::FIRST
        );
    }
    said.starts_with(b"VERSION")
}

/// Asks a server which run of it answers, if it tells that.
pub(super) fn ask_run(server: &Server, link: &mut Dialed) -> Option<Run> {
    let told = identity::ask(link);
    told.inspect_err(|error| tracing::debug!(server = %server.name(), "it does not tell who it is: {error}"))
        .unwrap_or_default()
}
