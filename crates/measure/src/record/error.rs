//! Why a record cannot start or continue, and what to do.

use std::path::{Path, PathBuf};
use std::{error, fmt, io};

/// A failure of the record.
#[derive(Debug)]
pub enum RecordError {
    /// The directory holds a run already.
    Taken {
        /// The directory.
        dir: PathBuf,
    },
    /// A file or directory could not be made.
    Create {
        /// What could not be made.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file could not be written; the record has stopped.
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl RecordError {
    pub(super) fn create(path: &Path, source: io::Error) -> Self {
        Self::Create { path: path.to_owned(), source }
    }

    pub(super) fn write(path: &Path, source: io::Error) -> Self {
        Self::Write { path: path.to_owned(), source }
    }
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken { dir } => {
                let dir = dir.display();
                write!(
                    f,
                    "{dir} already holds a recorded run (run.json): name another directory, or remove it"
                )
            }
            Self::Create { path, source } => {
                let path = path.display();
                write!(
                    f,
                    "cannot make {path}: {source}; record into an empty directory this user may write to"
                )
            }
            Self::Write { path, source } => {
                let path = path.display();
                write!(
                    f,
                    "recording stopped, cannot write {path}: {source}; what was written until now is kept"
                )
            }
        }
    }
}

impl error::Error for RecordError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Taken { .. } => None,
            Self::Create { source, .. } | Self::Write { source, .. } => Some(source),
        }
    }
}
