//! The secret of the run's accounts at a server that keeps accounts. It stands in a file, because arguments of a
//! process can be read by everybody on the machine; and it goes nowhere but to the server: reports and records name the
//! file.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use serde::{Serialize, Serializer};

/// A file with a secret in its first line. It is read only once, since it may be a pipe, and arguments are parsed more
/// than once.
#[derive(Clone)]
pub struct SecretFile {
    path: PathBuf,
    secret: Arc<OnceLock<Result<String, String>>>,
}

impl SecretFile {
    /// Returns the secret.
    ///
    /// # Errors
    /// The file cannot be read, or holds none.
    pub fn read(&self) -> Result<&str, String> {
        self.secret.get_or_init(|| secret_in(&self.path)).as_deref().map_err(Clone::clone)
    }
}

/// Returns the first line of a file; `admin account add` also reads only one line, and takes no empty one.
///
/// # Errors
/// The file cannot be read, or its first line is empty.
pub fn secret_in(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    match text.lines().next() {
        Some(secret) if !secret.is_empty() => Ok(secret.to_owned()),
        _ => Err(format!("the first line of {shown} is empty: write the secret there")),
    }
}

impl From<OsString> for SecretFile {
    fn from(path: OsString) -> Self {
        Self { path: path.into(), secret: Arc::default() }
    }
}

impl fmt::Debug for SecretFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SecretFile").field(&self.path).finish()
    }
}

impl Serialize for SecretFile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.path.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that is gone once it was read, as a pipe is.
    fn read(text: &str) -> Result<SecretFile, String> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), text).expect("it can be written");
        let found = SecretFile::from(file.path().as_os_str().to_owned());
        found.clone().read().map(|_| found)
    }

    #[test]
    fn the_first_line_counts_and_is_never_shown() {
        let found = read("open sesame\nand more\n").expect("a secret");
        assert_eq!(found.read(), Ok("open sesame"));
        let shown = format!("{found:?} {}", serde_json::to_string(&found).expect("JSON"));
        assert!(!shown.contains("sesame"), "{shown}");
    }

    #[test]
    fn a_file_without_a_secret_is_refused() {
        assert!(read("").is_err() && read("\nx\n").is_err());
        assert!(SecretFile::from(OsString::from("/nowhere/at/all")).read().is_err());
    }
}
