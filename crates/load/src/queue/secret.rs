//! The secret of the run's accounts at a server that keeps accounts. It stands in a file, because arguments of a process can
//! be read by everybody on the machine; and it goes nowhere but to the server: reports and records name the file.

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// A file and the secret in its first line.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretFile {
    path: PathBuf,
    secret: String,
}

impl SecretFile {
    /// The secret.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.secret
    }
}

impl FromStr for SecretFile {
    type Err = String;

    fn from_str(path: &str) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|error| format!("cannot read it: {error}"))?;
        match text.lines().next() {
            Some(secret) if !secret.is_empty() => Ok(Self { path: path.into(), secret: secret.to_owned() }),
            _ => Err("its first line is empty: write the secret there".to_owned()),
        }
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

    fn read(text: &str) -> Result<SecretFile, String> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), text).expect("it can be written");
        file.path().to_str().expect("a path").parse()
    }

    #[test]
    fn the_first_line_counts_and_is_never_shown() {
        let found = read("open sesame\nand more\n").expect("a secret");
        assert_eq!(found.secret(), "open sesame");
        let shown = format!("{found:?} {}", serde_json::to_string(&found).expect("JSON"));
        assert!(!shown.contains("sesame"), "{shown}");
    }

    #[test]
    fn a_file_without_a_secret_is_refused() {
        assert!(read("").is_err() && read("\nx\n").is_err());
        assert!("/nowhere/at/all".parse::<SecretFile>().is_err());
    }
}
