//! Why a run could not be made, or why it does not count as a success. What went wrong during a run stands in
//! its report, beside the figures it spoils.

use std::fmt;
use std::io;
use std::path::PathBuf;

use posthaste_measure::RecordError;
use rustix::io::Errno;

use crate::tls::advice;

/// Why there is no report.
#[derive(Debug)]
pub enum LoadError {
    /// The options contradict each other; the text says which and what to do.
    Usage(String),
    /// A server cannot be reached.
    Connect {
        /// As given with `--connect`.
        address: String,
        /// The error of the operating system, or of TLS.
        source: io::Error,
    },
    /// A server refused something that the run needs before it can begin.
    SetUp {
        /// As given with `--connect`.
        address: String,
        /// The request.
        request: String,
        /// What came back.
        answer: String,
    },
    /// The operating system refused.
    System {
        /// What was tried.
        what: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The run was interrupted before the first request.
    Interrupted,
    /// The run broke off, or broken promises were found; the report says more.
    Failed(String),
    /// The record cannot be begun.
    Record(RecordError),
    /// The summary cannot be written.
    Json {
        /// As given with `--json`.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl LoadError {
    /// Returns whether the command line is to blame (exit code 2), not the run (exit code 1).
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Usage(_))
    }

    /// Returns whether a server that is there took too long for an answer.
    pub(crate) fn is_timeout(&self) -> bool {
        let Self::Connect { source, .. } = self else { return false };
        matches!(source.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) | Self::Failed(text) => f.write_str(text),
            Self::Interrupted => {
                f.write_str("interrupted before the first request: there is nothing to report")
            }
            Self::Record(error) => write!(f, "{error}"),
            Self::Connect { address, source } => {
                let help = advice(source).unwrap_or_else(|| help(source));
                write!(f, "cannot connect to {address}: {source}; {help}")
            }
            Self::SetUp { address, request, answer } => {
                write!(f, "{address} answered {request} with: {answer}")?;
                let wants_secret = ["NOACCOUNT", "NOAUTH"].iter().any(|word| answer.starts_with(word));
                f.write_str(if wants_secret {
                    "; name a file with its accounts' secret with --secret-file"
                } else {
                    ""
                })
            }
            Self::System { what, source } => write!(f, "cannot {what}: {source}"),
            Self::Json { path, source } => {
                write!(
                    f,
                    "cannot write the summary to {}: {source}; choose another --json file",
                    path.display()
                )
            }
        }
    }
}

/// Returns what to do about a connection that the system could not make.
fn help(error: &io::Error) -> &'static str {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::MFILE | Errno::NFILE) => "allow more open files (ulimit -n), or run fewer --clients",
        Some(Errno::ADDRNOTAVAIL) => {
            "no local port is free: spread the clients over several addresses of the server (--connect), or run fewer"
        }
        Some(Errno::TIMEDOUT) => {
            "it takes no connections: it is overloaded or stopped, or a firewall is between"
        }
        _ if error.kind() == io::ErrorKind::TimedOut => help(&Errno::TIMEDOUT.into()),
        _ => "start the server or give its address with --connect",
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Usage(_) | Self::Interrupted | Self::Failed(_) | Self::SetUp { .. } => None,
            Self::Record(error) => Some(error),
            Self::Connect { source, .. } | Self::System { source, .. } | Self::Json { source, .. } => {
                Some(source)
            }
        }
    }
}
