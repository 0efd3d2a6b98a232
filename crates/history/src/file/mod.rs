//! Journals on disk, for clients that are killed themselves.
//!
//! One line when an operation begins, one when it has ended, each with a checksum and written in one piece: what a
//! process had written when it was killed is there, and a last line cut off by a crash of the machine is told from one
//! that was changed. Text rather than bytes, because a journal is read by people when a rule is found broken.

mod line;
mod parsed;
mod written;

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::Time;
use crate::journal::Journal;
use crate::names::{Name, Names};
use crate::operation::{Call, Outcome};

/// Writes a journal to a file while its client runs.
#[derive(Debug)]
pub struct Writer {
    file: File,
    names: Names,
    next: usize,
}

/// Why a journal cannot be read.
#[derive(Debug)]
pub enum JournalError {
    /// The file cannot be read.
    Io {
        /// The journal's file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// A line is not as it was written.
    Line {
        /// The journal's file.
        path: PathBuf,
        /// The line's number, counted from 1.
        line: usize,
        /// What is wrong with the line.
        what: String,
    },
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, source } => write!(f, "journal {}: {source}", path.display()),
            Self::Line { path, line, what } => {
                write!(
                    f,
                    "journal {}, line {line}: {what}; the file was changed after it was written",
                    path.display()
                )
            }
        }
    }
}

impl std::error::Error for JournalError {}

impl Writer {
    /// Creates a journal file; see [`Journal::new`].
    ///
    /// # Errors
    /// The file exists already, or cannot be created.
    pub fn create(path: impl AsRef<Path>, client: u32, account: &str) -> io::Result<Self> {
        let file = File::options().write(true).create_new(true).open(path)?;
        let mut writer = Self { file, names: Names::default(), next: 0 };
        let account = writer.name(account);
        let head = written::head(client, account, &writer.names);
        writer.write(head)?;
        Ok(writer)
    }

    /// Returns the [`Name`] for the word of a queue or account.
    pub fn name(&mut self, word: &str) -> Name {
        self.names.name(word)
    }

    /// Records that an operation begins, and returns its number. Must be called before the request's bytes are sent.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn begin(&mut self, at: Time, call: &Call) -> io::Result<usize> {
        let number = self.next;
        self.next += 1;
        self.write(written::begin(number, at, call, &self.names))?;
        Ok(number)
    }

    /// Records how an operation ended.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn end(&mut self, number: usize, at: Time, outcome: &Outcome) -> io::Result<()> {
        self.write(written::end(number, at, outcome, &self.names))
    }

    /// Flushes what was written to the disk; needed only where the machine itself may fail.
    ///
    /// # Errors
    /// The disk failed.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write(&mut self, line: String) -> io::Result<()> {
        self.file.write_all(line::sealed(line).as_bytes())
    }
}

impl Journal {
    /// Writes a journal that was kept in memory to a file, as a [`Writer`] would have.
    ///
    /// # Errors
    /// The file exists already, or cannot be written.
    pub fn write(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let mut text = line::sealed(written::head(self.client(), self.account(), self.names()));
        for (number, entry) in self.entries().iter().enumerate() {
            text += &line::sealed(written::begin(number, entry.begin, &entry.call, self.names()));
            if entry.end < Time::MAX {
                text += &line::sealed(written::end(number, entry.end, &entry.outcome, self.names()));
            }
        }
        File::options().write(true).create_new(true).open(path)?.write_all(text.as_bytes())
    }

    /// Reads a journal that [`Journal::write`] or a [`Writer`] wrote. A last line that was cut off is left out.
    ///
    /// # Errors
    /// The file cannot be read, or any other line is not what was written.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, JournalError> {
        let path = path.as_ref();
        let text = fs::read(path).map_err(|source| JournalError::Io { path: path.to_owned(), source })?;
        // Bytes that are not UTF-8 can only be in a line whose checksum is wrong.
        let text = String::from_utf8_lossy(&text);
        let mut lines = text.split_inclusive('\n').zip(1..).peekable();
        let mut journal = None;
        while let Some((line, number)) = lines.next() {
            let is_last = lines.peek().is_none();
            let fault = |what| JournalError::Line { path: path.to_owned(), line: number, what };
            match line::unsealed(line) {
                Some(words) => parsed::read(words, &mut journal).map_err(fault)?,
                None if is_last => {}
                None => return Err(fault("its checksum is wrong".to_owned())),
            }
        }
        journal.ok_or_else(|| JournalError::Line {
            path: path.to_owned(),
            line: 1,
            what: "it does not begin with whose journal it is".to_owned(),
        })
    }
}
