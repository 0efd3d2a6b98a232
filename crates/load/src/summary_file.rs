//! The file of `--json`: tried before a run, so that none is made in vain, and written after it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use posthaste_measure::lock;

use crate::error::LoadError;

/// Files that this process created and has not written yet.
static UNWRITTEN: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// The file for a run's summary. Until it is written it holds what it held before; if it is new, it is removed when
/// dropped unwritten, as by a run that fails.
#[derive(Debug)]
pub struct SummaryFile {
    path: PathBuf,
    is_new: bool,
}

impl SummaryFile {
    /// Makes sure that the file can be written, and creates it if it does not exist.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn open(path: &Path) -> Result<Self, LoadError> {
        let mut options = OpenOptions::new();
        let is_new = match options.append(true).create_new(true).open(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                options.create_new(false).create(true).open(path).map(|_| false)
            }
            created => created.map(|_| true),
        };
        match is_new {
            Ok(is_new) => {
                if is_new {
                    unwritten(|paths| paths.push(path.to_owned()));
                }
                Ok(Self { path: path.to_owned(), is_new })
            }
            Err(source) => Err(cannot(path, source)),
        }
    }

    /// Writes the summary, whole or not at all.
    ///
    /// # Errors
    /// The file cannot be written any more.
    pub fn write(mut self, text: &str) -> Result<(), LoadError> {
        replace(&self.path, text).map_err(|source| cannot(&self.path, source))?;
        if std::mem::take(&mut self.is_new) {
            self.is_settled();
        }
        Ok(())
    }

    /// Removes the new files that are not written yet, for a program that exits without dropping them.
    pub fn remove_unwritten() {
        // Errors do not matter, as when they are dropped.
        unwritten(|paths| paths.drain(..).for_each(|path| drop(fs::remove_file(path))));
    }

    fn is_settled(&self) {
        unwritten(|paths| paths.retain(|path| *path != self.path));
    }
}

fn unwritten(change: impl FnOnce(&mut Vec<PathBuf>)) {
    change(&mut lock(&UNWRITTEN));
}

/// Writes a new file beside the earlier one and renames it over that. What is no regular file, such as a terminal, is
/// written to directly; so is a file in a directory where no other may be created.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let earlier = fs::metadata(path)?;
    if !earlier.is_file() {
        return fs::write(path, text);
    }
    // Replaces the file behind a symbolic link, so that the link stays.
    let path = fs::canonicalize(path)?;
    let mut beside = path.clone().into_os_string();
    beside.push(".new");
    let mut file = match File::create(&beside) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return fs::write(&path, text),
        made => made?,
    };
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.set_permissions(earlier.permissions()))
        .and_then(|()| fs::rename(&beside, &path));
    written.inspect_err(|_| drop(fs::remove_file(&beside)))
}

impl Drop for SummaryFile {
    fn drop(&mut self) {
        if self.is_new {
            // The run has failed already, and says why.
            let _ = fs::remove_file(&self.path);
            self.is_settled();
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

    #[test]
    fn whoever_reads_the_earlier_summary_meanwhile_reads_it_to_its_end() {
        use std::io::Read as _;
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let dir = tempfile::tempdir().expect("a directory");
        let (path, link) = (dir.path().join("summary.json"), dir.path().join("link.json"));
        fs::write(&path, "earlier").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("own file");
        symlink(&path, &link).expect("a link");
        let mut reader = File::open(&path).expect("it is there");
        SummaryFile::open(&link).and_then(|file| file.write("new")).expect("written");
        let mut read = String::new();
        reader.read_to_string(&mut read).expect("a file");
        assert_eq!((read.as_str(), fs::read_to_string(&path).ok().as_deref()), ("earlier", Some("new")));
        assert!(fs::symlink_metadata(&link).expect("it is there").is_symlink());
        assert_eq!(fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 2, "nothing is left beside it");
    }

    #[test]
    fn what_is_no_file_is_written_to() {
        SummaryFile::open(Path::new("/dev/null")).and_then(|file| file.write("text")).expect("written");
        let kind = fs::metadata("/dev/null").expect("it is there").file_type();
        assert!(!kind.is_file(), "it has been replaced");
        let full = SummaryFile::open(Path::new("/dev/full")).and_then(|file| file.write("text"));
        assert!(matches!(full, Err(LoadError::Json { .. })), "{full:?}");
    }
}
