//! `requests.parquet`: a row for every request, written by a thread of its own.
//!
//! The file has columns, not lines: a minute at full speed is some ten million rows, which as text would be
//! ten times as large and slow to read. Stamps are delta-encoded nanoseconds, so a row takes some twenty
//! bytes, and encoding costs less than the copies that bring the requests here. There is no compression on
//! top: it would double the cost and save a third of the size.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use parquet::errors::Result as ParquetResult;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::TypePtr;

use super::columns::{Columns, schema};
use super::{Ended, RecordError};
use crate::backlog::Backlog;
use crate::clock::Clock;
use crate::scheme::Scheme;

/// The table being written.
#[derive(Debug)]
pub(super) struct RequestTable {
    path: PathBuf,
    backlog: Arc<Backlog>,
    writer: JoinHandle<ParquetResult<u64>>,
}

impl RequestTable {
    /// Creates the file and starts its thread.
    pub(super) fn create(dir: &Path, scheme: Scheme, clock: Clock) -> Result<Self, RecordError> {
        let path = dir.join("requests.parquet");
        let file = OpenOptions::new().write(true).create_new(true).open(&path);
        let file = file.map_err(|source| RecordError::create(&path, source))?;
        Self::start(path, file, scheme, clock)
    }

    /// Starts the thread that writes `file`, which is called `path`.
    fn start(path: PathBuf, file: File, scheme: Scheme, clock: Clock) -> Result<Self, RecordError> {
        let backlog = Arc::new(Backlog::default());
        let writer = {
            let backlog = Arc::clone(&backlog);
            let write = move || {
                let written = write_all(file, scheme, clock, &backlog);
                // Otherwise threads would go on filling chunks that nobody writes.
                backlog.give_up();
                written
            };
            let thread = Builder::new().name("requests".into()).spawn(write);
            thread.map_err(|source| RecordError::create(&path, source))?
        };
        Ok(Self { path, backlog, writer })
    }

    /// Returns where requests are to be sent.
    pub(super) fn backlog(&self) -> Arc<Backlog> {
        Arc::clone(&self.backlog)
    }

    /// Returns whether the thread has ended although nobody told it to: it could not write.
    pub(super) fn has_failed(&self) -> bool {
        self.writer.is_finished()
    }

    /// Waits until everything handed over is written and the file is complete.
    pub(super) fn finish(self) -> Result<Ended, RecordError> {
        self.backlog.close();
        let written = self.writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let recorded = written.map_err(|error| RecordError::write(&self.path, io::Error::other(error)))?;
        Ok(Ended { recorded, not_recorded: self.backlog.lost() })
    }
}

#[cfg(test)]
impl RequestTable {
    /// Starts a table that finds the disk full, in place of the one in this directory.
    pub(super) fn on_full_disk(dir: &Path, scheme: Scheme, clock: Clock) -> Self {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        Self::start(dir.join("requests.parquet"), full, scheme, clock).unwrap()
    }
}

/// Writes all requests until the backlog is closed; returns the number of rows.
fn write_all(file: File, scheme: Scheme, clock: Clock, backlog: &Backlog) -> ParquetResult<u64> {
    let schema = schema(&scheme)?;
    let mut writer = SerializedFileWriter::new(file, TypePtr::clone(&schema), Arc::new(properties(clock)))?;
    let (mut columns, mut written) = (Columns::new(scheme, schema), 0);
    while let Some(chunk) = backlog.take() {
        columns.take(&chunk)?;
        backlog.give_back(chunk);
        if columns.is_full() {
            written += columns.write(&mut writer)?;
        }
    }
    written += columns.write(&mut writer)?;
    writer.close()?;
    Ok(written)
}

fn properties(clock: Clock) -> WriterProperties {
    let start = |name: &str, ns: u64| KeyValue::new(name.to_owned(), ns.to_string());
    let starts = vec![
        start("start_unix_ns", clock.started_unix_ns()),
        start("start_monotonic_ns", clock.started_monotonic_ns()),
    ];
    WriterProperties::builder()
        .set_key_value_metadata(Some(starts))
        .set_created_by(concat!("posthaste ", env!("CARGO_PKG_VERSION")).to_owned())
        .build()
}
