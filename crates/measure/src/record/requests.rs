//! `requests.parquet`: a row for every request, written by a thread of its own.
//!
//! Columns, not lines: a minute at full speed is some ten million rows, which as text would be ten times as large
//! and slow to read. Stamps are delta-encoded nanoseconds, so a row takes some twenty bytes and encoding costs less
//! than the copies that brought it here. No compression on top: it would double the cost for a third of the size.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::{io, mem};

use parquet::basic::{Encoding, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};

use super::{Ended, RecordError};
use crate::backlog::Backlog;
use crate::clock::Clock;
use crate::scheme::Scheme;
use crate::stage::{Ending, Noted};

/// Rows written together: large enough for the encodings to pay, small enough to stay a few megabytes.
const GROUP_ROWS: usize = 1 << 16;

/// The table being written.
#[derive(Debug)]
pub(super) struct RequestTable {
    path: PathBuf,
    backlog: Arc<Backlog>,
    writer: JoinHandle<ParquetResult<u64>>,
}

impl RequestTable {
    /// A new file and its thread.
    pub(super) fn create(dir: &Path, scheme: Scheme, clock: Clock) -> Result<Self, RecordError> {
        let path = dir.join("requests.parquet");
        let failed = |source| RecordError::create(&path, source);
        let file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(failed)?;
        let backlog = Arc::new(Backlog::default());
        let writer = {
            let backlog = Arc::clone(&backlog);
            let write = move || {
                let written = write_all(file, scheme, clock, &backlog);
                // Nobody is to fill chunks that nobody writes.
                backlog.give_up();
                written
            };
            Builder::new().name("requests".into()).spawn(write).map_err(failed)?
        };
        Ok(Self { path, backlog, writer })
    }

    /// Where requests are to go.
    pub(super) fn backlog(&self) -> Arc<Backlog> {
        Arc::clone(&self.backlog)
    }

    /// Waits until everything handed over is written and the file has its end.
    pub(super) fn finish(self) -> Result<Ended, RecordError> {
        self.backlog.close();
        let written = self.writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let recorded = written.map_err(|error| RecordError::write(&self.path, io::Error::other(error)))?;
        Ok(Ended { recorded, not_recorded: self.backlog.lost() })
    }
}

/// Writes what comes until the backlog is closed; says how many rows there are.
fn write_all(file: File, scheme: Scheme, clock: Clock, backlog: &Backlog) -> ParquetResult<u64> {
    let mut writer = SerializedFileWriter::new(file, schema(&scheme)?, Arc::new(properties(clock)))?;
    let (mut rows, mut written) = (Vec::with_capacity(GROUP_ROWS), 0);
    let mut columns = Columns::new(scheme);
    loop {
        let chunk = backlog.take();
        let last = chunk.is_none();
        if let Some(chunk) = chunk {
            rows.extend_from_slice(&chunk);
            backlog.give_back(chunk);
        }
        if rows.len() >= GROUP_ROWS || (last && !rows.is_empty()) {
            let mut group = writer.next_row_group()?;
            columns.write(&rows, &mut group)?;
            group.close()?;
            written += rows.len() as u64;
            rows.clear();
        }
        if last {
            writer.close()?;
            return Ok(written);
        }
    }
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
        .set_statistics_enabled(EnabledStatistics::None)
        .set_dictionary_enabled(false)
        .set_encoding(Encoding::DELTA_BINARY_PACKED)
        .set_column_dictionary_enabled("kind".into(), true)
        .set_column_encoding("kind".into(), Encoding::PLAIN)
        .set_column_dictionary_enabled("ending".into(), true)
        .set_column_encoding("ending".into(), Encoding::PLAIN)
        .build()
}

/// The columns in their order; `Columns::write` writes them in the same.
fn schema(scheme: &Scheme) -> ParquetResult<TypePtr> {
    let text = |name| {
        let column = Type::primitive_type_builder(name, Physical::BYTE_ARRAY);
        column.with_repetition(Repetition::REQUIRED).with_logical_type(Some(LogicalType::String)).build()
    };
    let number = |name: &str, physical, repetition| {
        Type::primitive_type_builder(name, physical).with_repetition(repetition).build()
    };
    let mut columns = vec![text("kind")?, text("ending")?];
    columns.push(number("client", Physical::INT64, Repetition::REQUIRED)?);
    columns.push(number("request_bytes", Physical::INT32, Repetition::REQUIRED)?);
    columns.push(number("answer_bytes", Physical::INT32, Repetition::REQUIRED)?);
    for (place, stamp) in scheme.stamps.iter().enumerate() {
        let always = place == 0 || place + 1 == scheme.stamps.len();
        let repetition = if always { Repetition::REQUIRED } else { Repetition::OPTIONAL };
        columns.push(number(&format!("{stamp}_ns"), Physical::INT64, repetition)?);
    }
    if let Some(told) = scheme.told {
        columns.push(number(&format!("{told}_ns"), Physical::INT64, Repetition::OPTIONAL)?);
    }
    let columns = columns.into_iter().map(Arc::new).collect();
    Type::group_type_builder("request").with_fields(columns).build().map(Arc::new)
}

/// Rows turned into columns; the space is used again for every group of rows.
struct Columns {
    scheme: Scheme,
    kinds: Vec<ByteArray>,
    endings: Vec<ByteArray>,
    texts: Vec<ByteArray>,
    longs: Vec<i64>,
    ints: Vec<i32>,
    /// Of a column that may be empty: 1 where there is a value.
    levels: Vec<i16>,
}

impl Columns {
    fn new(scheme: Scheme) -> Self {
        let texts = |names: &[&str]| names.iter().map(|name| ByteArray::from(*name)).collect();
        Self {
            scheme,
            kinds: texts(scheme.kinds),
            endings: texts(&Ending::NAMES),
            texts: Vec::new(),
            longs: Vec::new(),
            ints: Vec::new(),
            levels: Vec::new(),
        }
    }

    fn write(&mut self, rows: &[Noted], group: &mut SerializedRowGroupWriter<'_, File>) -> ParquetResult<()> {
        let mut texts = mem::take(&mut self.texts);
        texts.clear();
        texts.extend(rows.iter().map(|row| self.kinds[usize::from(row.kind)].clone()));
        put::<ByteArrayType>(group, &texts, None)?;
        texts.clear();
        texts.extend(rows.iter().map(|row| self.endings[row.ending as usize].clone()));
        put::<ByteArrayType>(group, &texts, None)?;
        self.texts = texts;
        self.longs(group, rows, |row| row.client)?;
        self.ints(group, rows, |row| row.request_bytes)?;
        self.ints(group, rows, |row| row.answer_bytes)?;
        for place in 0..self.scheme.stamps.len() {
            let stamp = |row: &Noted| row.trail.0[place];
            if place == 0 || place + 1 == self.scheme.stamps.len() {
                self.longs(group, rows, stamp)?;
            } else {
                self.longs_taken(group, rows, stamp)?;
            }
        }
        if self.scheme.told.is_some() {
            self.longs_taken(group, rows, |row| row.told_ns)?;
        }
        Ok(())
    }

    fn longs(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, File>,
        rows: &[Noted],
        value: impl Fn(&Noted) -> u64,
    ) -> ParquetResult<()> {
        self.longs.clear();
        self.longs.extend(rows.iter().map(|row| value(row).cast_signed()));
        put::<Int64Type>(group, &self.longs, None)
    }

    /// A column that is empty where the value is 0.
    fn longs_taken(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, File>,
        rows: &[Noted],
        value: impl Fn(&Noted) -> u64,
    ) -> ParquetResult<()> {
        self.levels.clear();
        self.levels.extend(rows.iter().map(|row| i16::from(value(row) != 0)));
        self.longs.clear();
        self.longs.extend(rows.iter().map(|row| value(row).cast_signed()).filter(|value| *value != 0));
        put::<Int64Type>(group, &self.longs, Some(&self.levels))
    }

    fn ints(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, File>,
        rows: &[Noted],
        value: impl Fn(&Noted) -> u32,
    ) -> ParquetResult<()> {
        self.ints.clear();
        self.ints.extend(rows.iter().map(|row| value(row).cast_signed()));
        put::<Int32Type>(group, &self.ints, None)
    }
}

/// Writes the next column.
fn put<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> ParquetResult<()> {
    let no_more = || ParquetError::General("the schema has fewer columns".into());
    let mut column = group.next_column()?.ok_or_else(no_more)?;
    column.typed::<T>().write_batch(values, levels, None)?;
    column.close()
}
