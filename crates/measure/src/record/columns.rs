//! Turns rows into columns, chunk by chunk while the chunk is in the cache, and columns into pages of a few
//! thousand rows, so that the part not encoded yet stays small.

use std::fs::File;
use std::mem;
use std::sync::Arc;

use parquet::basic::{Encoding, LogicalType, Repetition, Type as Physical};
use parquet::errors::Result as ParquetResult;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnDescPtr, SchemaDescriptor, Type, TypePtr};

use super::pages::{Pages, Width, deltas, runs};
use crate::chunk::Chunk;
use crate::scheme::Scheme;
use crate::stage::Ending;

/// Rows of a page: enough that its head hardly counts, few enough that its columns stay in the cache.
const PAGE_ROWS: usize = 4096;

/// Rows of a row group: as many as readers like, few enough to fit into a megabyte or two once encoded.
const GROUP_ROWS: usize = 1 << 16;

/// The part of the table that is not in the file yet.
pub(super) struct Columns {
    columns: Vec<ColumnDescPtr>,
    kinds: Words,
    endings: Words,
    clients: Numbers,
    request_bytes: Numbers,
    answer_bytes: Numbers,
    stamps: Vec<Numbers>,
    reported: Option<Numbers>,
    counted: Option<Numbers>,
    /// Number of rows in pages.
    paged: usize,
}

/// A column of words from a short list.
struct Words {
    names: &'static [&'static str],
    /// Indices in the list, of the rows that are in no page yet.
    places: Vec<u8>,
    pages: Pages,
}

/// A column of numbers.
struct Numbers {
    width: Width,
    /// Numbers of the rows that are in no page yet and have one.
    values: Vec<i64>,
    /// For a column that may be empty: 1 for each row with a number, else 0.
    levels: Option<Vec<u8>>,
    pages: Pages,
}

/// Returns the schema with the columns in their order; [`Columns::write`] writes them in the same.
pub(super) fn schema(scheme: &Scheme) -> ParquetResult<TypePtr> {
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
    if let Some(reported) = scheme.reported {
        columns.push(number(&format!("{reported}_ns"), Physical::INT64, Repetition::OPTIONAL)?);
    }
    if let Some(counted) = scheme.counted {
        columns.push(number(counted.each, Physical::INT32, Repetition::REQUIRED)?);
    }
    let columns = columns.into_iter().map(Arc::new).collect();
    Type::group_type_builder("request").with_fields(columns).build().map(Arc::new)
}

impl Columns {
    /// Makes a table without rows; `schema` is that of the same scheme.
    pub(super) fn new(scheme: Scheme, schema: TypePtr) -> Self {
        let stamps =
            (0..scheme.stamps.len()).map(|place| Numbers::new(Width::Bits64, scheme.may_lack(place)));
        Self {
            columns: SchemaDescriptor::new(schema).columns().to_vec(),
            kinds: Words::new(scheme.kinds),
            endings: Words::new(&Ending::NAMES),
            clients: Numbers::new(Width::Bits64, false),
            request_bytes: Numbers::new(Width::Bits32, false),
            answer_bytes: Numbers::new(Width::Bits32, false),
            stamps: stamps.collect(),
            reported: scheme.reported.map(|_| Numbers::new(Width::Bits64, true)),
            counted: scheme.counted.map(|_| Numbers::new(Width::Bits32, false)),
            paged: 0,
        }
    }

    /// Adds the requests of a chunk.
    pub(super) fn take(&mut self, chunk: &Chunk) -> ParquetResult<()> {
        let own = chunk.requests();
        self.clients.values.extend(own.iter().map(|own| own.client.cast_signed()));
        self.request_bytes.values.extend(own.iter().map(|own| i64::from(own.request_bytes.cast_signed())));
        self.answer_bytes.values.extend(own.iter().map(|own| i64::from(own.answer_bytes.cast_signed())));
        for run in chunk.runs() {
            let length = run.length as usize;
            self.kinds.repeat(run.kind, length);
            self.endings.repeat(run.ending as u8, length);
            for (stamps, stamp) in self.stamps.iter_mut().zip(run.trail.0) {
                stamps.repeat(stamp, length);
            }
            if let Some(reported) = &mut self.reported {
                reported.repeat(run.reported_ns, length);
            }
            if let Some(counted) = &mut self.counted {
                counted.repeat(run.counted.into(), length);
            }
        }
        if self.unpaged() < PAGE_ROWS { Ok(()) } else { self.page() }
    }

    /// Returns whether there are enough rows for a row group.
    pub(super) fn is_full(&self) -> bool {
        self.paged >= GROUP_ROWS
    }

    /// Writes all rows as a row group and returns their number.
    pub(super) fn write(&mut self, file: &mut SerializedFileWriter<File>) -> ParquetResult<u64> {
        if self.unpaged() > 0 {
            self.page()?;
        }
        let rows = mem::take(&mut self.paged);
        if rows == 0 {
            return Ok(0);
        }
        let mut group = file.next_row_group()?;
        let pages =
            [self.kinds.end(), self.endings.end()].into_iter().chain(self.numbers().map(Numbers::end));
        let pages: Vec<Pages> = pages.collect();
        for (pages, column) in pages.into_iter().zip(&self.columns) {
            pages.append_to(&mut group, Arc::clone(column))?;
        }
        group.close()?;
        Ok(rows as u64)
    }

    fn unpaged(&self) -> usize {
        self.clients.values.len()
    }

    /// Makes a page of every column.
    fn page(&mut self) -> ParquetResult<()> {
        let rows = self.unpaged();
        self.kinds.page()?;
        self.endings.page()?;
        self.numbers().try_for_each(|numbers| numbers.page(rows))?;
        self.paged += rows;
        Ok(())
    }

    /// Returns the columns of numbers, in the order of the file.
    fn numbers(&mut self) -> impl Iterator<Item = &mut Numbers> {
        let own = [&mut self.clients, &mut self.request_bytes, &mut self.answer_bytes];
        own.into_iter().chain(&mut self.stamps).chain(&mut self.reported).chain(&mut self.counted)
    }
}

impl Words {
    fn new(names: &'static [&'static str]) -> Self {
        Self { names, places: Vec::new(), pages: Pages::new(Encoding::RLE_DICTIONARY) }
    }

    #[inline]
    fn repeat(&mut self, place: u8, times: usize) {
        self.places.resize(self.places.len() + times, place);
    }

    fn page(&mut self) -> ParquetResult<()> {
        if self.pages.is_empty() {
            self.pages.dictionary(self.names)?;
        }
        // As many bits as the last index needs, but at least one: readers do not expect zero.
        let bits = (usize::BITS - (self.names.len() - 1).leading_zeros()).max(1);
        let mut body = vec![bits as u8];
        runs(&self.places, bits, &mut body);
        let rows = self.places.len();
        self.places.clear();
        self.pages.page(rows, body)
    }

    fn end(&mut self) -> Pages {
        mem::replace(&mut self.pages, Pages::new(Encoding::RLE_DICTIONARY))
    }
}

impl Numbers {
    fn new(width: Width, may_be_empty: bool) -> Self {
        let pages = Pages::new(Encoding::DELTA_BINARY_PACKED);
        Self { width, values: Vec::new(), levels: may_be_empty.then(Vec::new), pages }
    }

    /// Adds a number for `times` rows; where the column may be empty, 0 means none.
    #[inline]
    fn repeat(&mut self, number: u64, times: usize) {
        if let Some(levels) = &mut self.levels {
            levels.resize(levels.len() + times, u8::from(number != 0));
            if number == 0 {
                return;
            }
        }
        self.values.resize(self.values.len() + times, number.cast_signed());
    }

    fn page(&mut self, rows: usize) -> ParquetResult<()> {
        let mut body = Vec::new();
        if let Some(levels) = &mut self.levels {
            body.extend([0; 4]);
            runs(levels, 1, &mut body);
            let length = (body.len() - 4) as u32;
            body[..4].copy_from_slice(&length.to_le_bytes());
            levels.clear();
        }
        deltas(&self.values, self.width, &mut body);
        self.values.clear();
        self.pages.page(rows, body)
    }

    fn end(&mut self) -> Pages {
        mem::replace(&mut self.pages, Pages::new(Encoding::DELTA_BINARY_PACKED))
    }
}
