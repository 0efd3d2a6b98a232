//! The errors of the log, with what its owner or an operator should do.
//!
//! They are plain values that can be cloned: one failed sync is reported to everything that waits for it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why an operation on an open log did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogError {
    /// No disk space for another segment. Nothing was changed; removals may still work.
    Full {
        /// Directory or file for which space is needed.
        path: PathBuf,
    },
    /// A commit could not be written. What is on the disk is unknown until the log is opened again.
    Failed {
        /// The first failure.
        cause: String,
    },
    /// The operating system refused an operation.
    Io {
        /// The operation that failed.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error message.
        cause: String,
    },
    /// The bytes of a record are not those that were written.
    Damaged {
        /// The segment file.
        file: PathBuf,
        /// Offset of the damaged record or frame in it.
        offset: u64,
    },
    /// One reservation asked for more than a segment can ever hold.
    TooBig {
        /// The bytes asked for.
        bytes: u64,
        /// The most that can be asked for.
        bytes_max: u64,
    },
}

impl LogError {
    /// Returns the error for a failed system call that changed nothing; a full disk or quota is always `Full`.
    pub(super) fn io(action: &'static str, path: &Path, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { path: path.to_owned() },
            _ => Self::refused(action, path, error),
        }
    }

    /// Returns the error for a failed write of a commit, part of which may be on the disk: `Full` would deny that.
    pub(super) fn refused(action: &'static str, path: &Path, error: &io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), cause: error.to_string() }
    }
}

/// Returns the text for a full disk, with what would help beside more space.
#[must_use]
pub fn no_space(path: &Path, remedy: &str) -> String {
    format!("the disk has no space for another segment ({}); {remedy}free space on that disk", path.display())
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { path } => f.write_str(&no_space(path, "remove messages or ")),
            Self::Failed { cause } => {
                write!(f, "the log takes no more changes ({cause}); check the disk, then restart")
            }
            Self::Io { action, path, cause } => write!(f, "cannot {action} {}: {cause}", path.display()),
            Self::Damaged { file, offset } => write!(
                f,
                "{} is damaged at offset {offset}; check the disk and restore the directory from a copy",
                file.display()
            ),
            Self::TooBig { bytes, bytes_max } => {
                write!(f, "{bytes} bytes do not fit into one commit, at most {bytes_max}; send fewer at once")
            }
        }
    }
}

impl std::error::Error for LogError {}

/// Why a log could not be opened. Nothing in the directory was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// Another process has the directory open.
    Locked {
        /// The directory.
        directory: PathBuf,
        /// The process that holds it, where known.
        pid: Option<u32>,
    },
    /// Another version of the program wrote it in another format.
    Version {
        /// The segment file.
        file: PathBuf,
        /// The format it is in.
        found: u32,
        /// The format this program reads.
        supported: u32,
    },
    /// Something that was acknowledged is missing or not as it was written.
    Damaged {
        /// The segment file.
        file: PathBuf,
        /// Offset in that file.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// The directory holds a copy that is incomplete.
    Unfinished {
        /// The directory.
        directory: PathBuf,
    },
    /// The directory holds no log, but something of others.
    Occupied {
        /// The directory.
        directory: PathBuf,
        /// Something in it.
        name: String,
    },
    /// A file operation failed.
    Log(LogError),
}

impl From<LogError> for OpenError {
    fn from(error: LogError) -> Self {
        Self::Log(error)
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locked { directory, pid } => {
                let holder = pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"));
                write!(
                    f,
                    "{} is in use by {holder}; stop it or choose another directory",
                    directory.display()
                )
            }
            Self::Version { file, found, supported } => write!(
                f,
                "{} is in format {found}, this program reads format {supported}; open it with the program that wrote it",
                file.display()
            ),
            Self::Damaged { file, offset, what } => write!(
                f,
                "{} is damaged at offset {offset}: {what}; nothing was changed; check the disk and restore the \
                 directory from a copy, or move it away to start with an empty store",
                file.display()
            ),
            Self::Unfinished { directory } => write!(
                f,
                "{} is a copy that is not finished; wait for the command that makes it, or if there is none make another",
                directory.display()
            ),
            Self::Occupied { directory, name } => write!(
                f,
                "{} holds no store, and something else ({name:?}): give the store a directory of its own",
                directory.display()
            ),
            Self::Log(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}
