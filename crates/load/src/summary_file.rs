//! The file of `--json`: tried before a run, so that none is made in vain, and written after it.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::error::LoadError;

/// A file for what a run will have shown. Until it is written it holds what it held before; one that was not there is gone again
/// when this is dropped unwritten, as by a run that fails.
#[derive(Debug)]
pub struct SummaryFile {
    path: PathBuf,
    is_new: bool,
}

impl SummaryFile {
    /// Finds out whether the file can be written.
    ///
    /// # Errors
    /// It cannot.
    pub fn open(path: &Path) -> Result<Self, LoadError> {
        let mut options = OpenOptions::new();
        let is_new = match options.append(true).create_new(true).open(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                options.create_new(false).create(true).open(path).map(|_| false)
            }
            created => created.map(|_| true),
        };
        match is_new {
            Ok(is_new) => Ok(Self { path: path.to_owned(), is_new }),
            Err(source) => Err(cannot(path, source)),
        }
    }

    /// Writes it.
    ///
    /// # Errors
    /// It cannot be written any more.
    pub fn write(mut self, text: &str) -> Result<(), LoadError> {
        fs::write(&self.path, text).map_err(|source| cannot(&self.path, source))?;
        self.is_new = false;
        Ok(())
    }
}

impl Drop for SummaryFile {
    fn drop(&mut self) {
        if self.is_new {
            // The run has failed already, and says why.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn cannot(path: &Path, source: io::Error) -> LoadError {
    LoadError::Json { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_fails_leaves_an_earlier_summary_and_none_of_its_own() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("summary.json");
        drop(SummaryFile::open(&path).expect("it can be written"));
        assert!(!path.exists());
        SummaryFile::open(&path).and_then(|file| file.write("longer")).expect("written");
        drop(SummaryFile::open(&path).expect("it can be written"));
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "longer");
        SummaryFile::open(&path).and_then(|file| file.write("new")).expect("written");
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "new");
        assert!(SummaryFile::open(&path.join("below")).is_err());
    }
}
