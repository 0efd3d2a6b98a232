//! `requests.parquet`: a row for every request, written by a thread of its own.
//!
//! Columns, not lines: a minute at full speed is some ten million rows, which as text would be ten times as large
//! and slow to read. Stamps are delta-encoded nanoseconds, so a row takes some twenty bytes and encoding costs less
//! than the copies that brought it here. No compression on top: it would double the cost for a third of the size.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use bytes::Bytes;
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
    let (mut columns, mut written) = (Columns::new(scheme), 0);
    loop {
        let chunk = backlog.take();
        let last = chunk.is_none();
        if let Some(chunk) = chunk {
            columns.take(&chunk);
            backlog.give_back(chunk);
        }
        let rows = columns.rows();
        if rows >= GROUP_ROWS || (last && rows > 0) {
            let mut group = writer.next_row_group()?;
            columns.write(&mut group)?;
            group.close()?;
            written += rows as u64;
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
        let repetition = if scheme.may_lack(place) { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        columns.push(number(&format!("{stamp}_ns"), Physical::INT64, repetition)?);
    }
    if let Some(told) = scheme.told {
        columns.push(number(&format!("{told}_ns"), Physical::INT64, Repetition::OPTIONAL)?);
    }
    if let Some(counted) = scheme.counted {
        columns.push(number(counted.each, Physical::INT32, Repetition::REQUIRED)?);
    }
    let columns = columns.into_iter().map(Arc::new).collect();
    Type::group_type_builder("request").with_fields(columns).build().map(Arc::new)
}

/// Rows turned into columns, chunk by chunk while the chunk is in the cache; the space is used again for every group.
struct Columns {
    kinds: Words,
    endings: Words,
    clients: Vec<i64>,
    request_bytes: Vec<i32>,
    answer_bytes: Vec<i32>,
    stamps: Vec<Times>,
    told: Option<Times>,
    counted: Option<Vec<i32>>,
}

/// A column of words from a short list.
struct Words {
    names: Vec<ByteArray>,
    of_rows: Vec<ByteArray>,
}

/// A column of nanoseconds.
struct Times {
    values: Vec<i64>,
    /// Of a column that may be empty: 1 where there is a value.
    levels: Option<Vec<i16>>,
}

impl Columns {
    fn new(scheme: Scheme) -> Self {
        let stamps = (0..scheme.stamps.len()).map(|place| Times::new(scheme.may_lack(place)));
        Self {
            kinds: Words::new(scheme.kinds),
            endings: Words::new(&Ending::NAMES),
            clients: Vec::new(),
            request_bytes: Vec::new(),
            answer_bytes: Vec::new(),
            stamps: stamps.collect(),
            told: scheme.told.map(|_| Times::new(true)),
            counted: scheme.counted.map(|_| Vec::new()),
        }
    }

    fn rows(&self) -> usize {
        self.clients.len()
    }

    fn take(&mut self, rows: &[Noted]) {
        self.kinds.take(rows.iter().map(|row| usize::from(row.kind)));
        self.endings.take(rows.iter().map(|row| row.ending as usize));
        self.clients.extend(rows.iter().map(|row| row.client.cast_signed()));
        self.request_bytes.extend(rows.iter().map(|row| row.request_bytes.cast_signed()));
        self.answer_bytes.extend(rows.iter().map(|row| row.answer_bytes.cast_signed()));
        for (place, stamps) in self.stamps.iter_mut().enumerate() {
            stamps.take(rows.iter().map(|row| row.trail.0[place]));
        }
        if let Some(told) = &mut self.told {
            told.take(rows.iter().map(|row| row.told_ns));
        }
        if let Some(counted) = &mut self.counted {
            counted.extend(rows.iter().map(|row| row.counted.cast_signed()));
        }
    }

    fn write(&mut self, group: &mut SerializedRowGroupWriter<'_, File>) -> ParquetResult<()> {
        put::<ByteArrayType>(group, &mut self.kinds.of_rows, None)?;
        put::<ByteArrayType>(group, &mut self.endings.of_rows, None)?;
        put::<Int64Type>(group, &mut self.clients, None)?;
        put::<Int32Type>(group, &mut self.request_bytes, None)?;
        put::<Int32Type>(group, &mut self.answer_bytes, None)?;
        for times in self.stamps.iter_mut().chain(&mut self.told) {
            put::<Int64Type>(group, &mut times.values, times.levels.as_mut())?;
        }
        if let Some(counted) = &mut self.counted {
            put::<Int32Type>(group, counted, None)?;
        }
        Ok(())
    }
}

impl Words {
    fn new(names: &[&'static str]) -> Self {
        // Of memory that is never given back, so that a copy counts no references.
        let name = |name: &&'static str| ByteArray::from(Bytes::from_static(name.as_bytes()));
        Self { names: names.iter().map(name).collect(), of_rows: Vec::new() }
    }

    fn take(&mut self, places: impl Iterator<Item = usize>) {
        self.of_rows.extend(places.map(|place| self.names[place].clone()));
    }
}

impl Times {
    fn new(may_be_empty: bool) -> Self {
        Self { values: Vec::new(), levels: may_be_empty.then(Vec::new) }
    }

    /// Takes over stamps; where the column may be empty, 0 is none.
    fn take(&mut self, stamps: impl Iterator<Item = u64> + Clone) {
        match &mut self.levels {
            None => self.values.extend(stamps.map(u64::cast_signed)),
            Some(levels) => {
                levels.extend(stamps.clone().map(|stamp| i16::from(stamp != 0)));
                self.values.extend(stamps.filter(|stamp| *stamp != 0).map(u64::cast_signed));
            }
        }
    }
}

/// Writes the next column and leaves its space empty.
fn put<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    values: &mut Vec<T::T>,
    levels: Option<&mut Vec<i16>>,
) -> ParquetResult<()> {
    let no_more = || ParquetError::General("the schema has fewer columns".into());
    let mut column = group.next_column()?.ok_or_else(no_more)?;
    column.typed::<T>().write_batch(values, levels.as_ref().map(|levels| levels.as_slice()), None)?;
    values.clear();
    levels.into_iter().for_each(Vec::clear);
    column.close()
}
