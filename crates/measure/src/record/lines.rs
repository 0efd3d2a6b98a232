//! A file of whole lines.
//!
//! Lines reach the file in one write and are never buffered in this process, so a kill loses none that were
//! appended. A write that fails half way (the disk is full) is cut back to the last whole line.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::RecordError;

#[derive(Debug)]
pub(super) struct LineFile {
    path: PathBuf,
    file: File,
    whole_bytes: u64,
}

impl LineFile {
    /// Creates a file that begins with `head`: whole lines or nothing.
    pub(super) fn create(dir: &Path, name: &str, head: &str) -> Result<Self, RecordError> {
        let path = dir.join(name);
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(&path)
            .map_err(|source| RecordError::create(&path, source))?;
        let mut lines = Self { path, file, whole_bytes: 0 };
        lines.append(head)?;
        Ok(lines)
    }

    /// Appends `lines`, each ended by a line feed.
    pub(super) fn append(&mut self, lines: &str) -> Result<(), RecordError> {
        if let Err(source) = self.file.write_all(lines.as_bytes()) {
            // If even that fails, a reader still sees where the last line feed is.
            let _ = self.file.set_len(self.whole_bytes);
            return Err(RecordError::write(&self.path, source));
        }
        self.whole_bytes += lines.len() as u64;
        Ok(())
    }

    /// Lets every further write find the disk full.
    #[cfg(test)]
    pub(super) fn fill_disk(&mut self) {
        self.file = OpenOptions::new().write(true).open("/dev/full").unwrap();
    }
}

/// Returns text as one CSV field.
pub(super) fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\"").replace(['\n', '\r'], " "))
    } else {
        text.to_owned()
    }
}

/// Returns nanoseconds as seconds with microsecond precision.
pub(super) fn seconds(ns: u64) -> String {
    format!("{}.{:06}", ns / 1_000_000_000, ns % 1_000_000_000 / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_with_commas_quotes_or_line_breaks_stays_one_field_of_one_line() {
        assert_eq!(field("plain"), "plain");
        assert_eq!(field("a,b"), "\"a,b\"");
        assert_eq!(field("a \"b\"\nc"), "\"a \"\"b\"\" c\"");
    }

    #[test]
    fn seconds_keep_their_leading_zeros() {
        assert_eq!(seconds(3_000_045_678), "3.000045");
    }
}
