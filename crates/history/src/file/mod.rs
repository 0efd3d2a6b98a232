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

/// A journal that is written while the client lives.
#[derive(Debug)]
pub struct Writer {
    file: File,
    names: Names,
    next: usize,
}

/// A journal that cannot be read.
#[derive(Debug)]
pub enum JournalError {
    /// The file cannot.
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line is not what was written.
    Line {
        /// In this file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
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
    /// A new journal; see [`Journal::new`].
    ///
    /// # Errors
    /// The file is there already, or cannot be made.
    pub fn create(path: impl AsRef<Path>, client: u32, account: &str) -> io::Result<Self> {
        let file = File::options().write(true).create_new(true).open(path)?;
        let mut writer = Self { file, names: Names::default(), next: 0 };
        let account = writer.name(account);
        let head = written::head(client, account, &writer.names);
        writer.write(head)?;
        Ok(writer)
    }

    /// The name of a queue or account.
    pub fn name(&mut self, word: &str) -> Name {
        self.names.name(word)
    }

    /// Begins an operation and gives its number. To be called before its bytes leave.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn begin(&mut self, at: Time, call: &Call) -> io::Result<usize> {
        let number = self.next;
        self.next += 1;
        self.write(written::begin(number, at, call, &self.names))?;
        Ok(number)
    }

    /// Ends an operation.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn end(&mut self, number: usize, at: Time, outcome: &Outcome) -> io::Result<()> {
        self.write(written::end(number, at, outcome, &self.names))
    }

    /// Brings what was written to the disk, where the machine itself may fail.
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
    /// Writes down a journal that was kept in memory, as a [`Writer`] would have.
    ///
    /// # Errors
    /// The file is there already, or cannot be written.
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

    /// Reads a journal that was [written](Self::write), or that a [`Writer`] wrote. A last line that was not written to its end is left out.
    ///
    /// # Errors
    /// The file cannot be read, or any other line is not what was written.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, JournalError> {
        let path = path.as_ref();
        let text = fs::read(path).map_err(|source| JournalError::Io { path: path.to_owned(), source })?;
        // Whatever is not text is part of no line whose checksum is right.
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
