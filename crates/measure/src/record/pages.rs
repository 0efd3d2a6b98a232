//! The pages of a column of `requests.parquet`: two encodings, and the frame around them.
//!
//! The library writes the file, its schema, the heads of its pages and its footer. The contents of pages are
//! encoded here, because that is done for every number of every request while the load is running, and the
//! library's encoders took 50 instructions for a number and 126 for a word that it looks up (callgrind, 10
//! columns: 650 for a request, a seventh of what a request costs in a deep pipeline). The encodings are those
//! of the format's description (github.com/apache/parquet-format, Encodings.md): delta binary packed for
//! numbers; for words a dictionary, with the indices of its entries as runs or packed.

use std::io::Write;

use bytes::Bytes;
use parquet::basic::Encoding;
use parquet::column::page::{CompressedPage, Page, PageWriter as _};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::Result as ParquetResult;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::writer::{SerializedPageWriter, SerializedRowGroupWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

/// Number of deltas in a block, which stores their least delta once.
const BLOCK: usize = 128;
/// Number of deltas that are packed with the same number of bits.
const QUARTER: usize = 32;
/// Shortest run stored as such; shorter ones are packed. A run takes two bytes, and eight small numbers hardly more.
const RUN_MIN: usize = 8;

/// Width of the numbers of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    /// 32 bits; differences wrap around at that width, as readers of such a column expect.
    Bits32,
    /// 64 bits.
    Bits64,
}

/// A column of the current row group: its pages, one after another.
pub(super) struct Pages {
    encoding: Encoding,
    bytes: TrackedWrite<Vec<u8>>,
    /// Bytes of the dictionary's page, if there is one.
    dictionary_bytes: Option<usize>,
    rows: usize,
}

impl Pages {
    /// Makes a column without pages; its pages of rows will have this encoding.
    pub(super) fn new(encoding: Encoding) -> Self {
        Self { encoding, bytes: TrackedWrite::new(Vec::new()), dictionary_bytes: None, rows: 0 }
    }

    /// Returns whether no page has been added.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.bytes_written() == 0
    }

    /// Adds the dictionary page, which holds the column's words and must be the first.
    pub(super) fn dictionary(&mut self, words: &[&str]) -> ParquetResult<()> {
        let mut body = Vec::new();
        for word in words {
            body.extend_from_slice(&(word.len() as u32).to_le_bytes());
            body.extend_from_slice(word.as_bytes());
        }
        let (buf, num_values) = (Bytes::from(body), words.len() as u32);
        self.write(Page::DictionaryPage { buf, num_values, encoding: Encoding::PLAIN, is_sorted: false })?;
        self.dictionary_bytes = Some(self.bytes.bytes_written());
        Ok(())
    }

    /// Adds a page of `rows` rows.
    pub(super) fn page(&mut self, rows: usize, body: Vec<u8>) -> ParquetResult<()> {
        self.rows += rows;
        self.write(Page::DataPage {
            buf: body.into(),
            num_values: rows as u32,
            encoding: self.encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        })
    }

    fn write(&mut self, page: Page) -> ParquetResult<()> {
        let length = page.buffer().len();
        SerializedPageWriter::new(&mut self.bytes).write_page(CompressedPage::new(page, length)).map(drop)
    }

    /// Appends the column to the row group in the file.
    pub(super) fn append_to<W: Write + Send>(
        self,
        group: &mut SerializedRowGroupWriter<'_, W>,
        column: ColumnDescPtr,
    ) -> ParquetResult<()> {
        let length = self.bytes.bytes_written();
        let metadata = ColumnChunkMetaData::builder(column)
            .set_encodings(vec![Encoding::PLAIN, Encoding::RLE, self.encoding])
            .set_num_values(self.rows as i64)
            .set_total_compressed_size(length as i64)
            .set_total_uncompressed_size(length as i64)
            .set_dictionary_page_offset(self.dictionary_bytes.map(|_| 0))
            .set_data_page_offset(self.dictionary_bytes.unwrap_or(0) as i64)
            .build()?;
        let closed = ColumnCloseResult {
            bytes_written: length as u64,
            rows_written: self.rows as u64,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        group.append_column(&Bytes::from(self.bytes.into_inner()?), closed)
    }
}

/// Appends numbers as differences ("delta encoding", DELTA_BINARY_PACKED).
pub(super) fn deltas(numbers: &[i64], width: Width, out: &mut Vec<u8>) {
    let mut last = numbers.first().copied().unwrap_or_default();
    for head in [BLOCK, BLOCK / QUARTER, numbers.len()] {
        varint(head as u64, out);
    }
    varint(zigzag(last), out);
    for block in numbers.get(1..).unwrap_or_default().chunks(BLOCK) {
        let mut deltas = [0; BLOCK];
        for (delta, number) in deltas.iter_mut().zip(block) {
            *delta = width.difference(*number, last);
            last = *number;
        }
        pack_deltas(&deltas[..block.len()], out);
    }
}

/// Appends a block: its least delta, the number of bits that each quarter needs above it, and the quarters.
fn pack_deltas(deltas: &[i64], out: &mut Vec<u8>) {
    let least = deltas.iter().copied().min().unwrap_or_default();
    varint(zigzag(least), out);
    let bits_at = out.len();
    out.extend([0; BLOCK / QUARTER]);
    for (place, quarter) in deltas.chunks(QUARTER).enumerate() {
        // An incomplete last quarter is packed with zeros at its end.
        let mut above = [0; QUARTER];
        let mut all = 0;
        for (above, delta) in above.iter_mut().zip(quarter) {
            *above = delta.wrapping_sub(least).cast_unsigned();
            all |= *above;
        }
        let bits = u64::BITS - all.leading_zeros();
        out[bits_at + place] = bits as u8;
        pack(&above, bits, out);
    }
}

impl Width {
    #[inline]
    fn difference(self, number: i64, last: i64) -> i64 {
        let difference = number.wrapping_sub(last);
        match self {
            Self::Bits32 => i64::from(difference as i32),
            Self::Bits64 => difference,
        }
    }
}

/// Appends a quarter of a block with `bits` bits per number, the lowest first.
fn pack(numbers: &[u64; QUARTER], bits: u32, out: &mut Vec<u8>) {
    if bits == 0 {
        return;
    }
    let (mut word, mut filled) = (0, 0);
    for &number in numbers {
        word |= number << filled;
        filled += bits;
        if filled >= u64::BITS {
            out.extend_from_slice(&word.to_le_bytes());
            filled -= u64::BITS;
            // The bits that did not fit. A shift by all 64 bits is not allowed in Rust.
            word = if filled == 0 { 0 } else { number >> (bits - filled) };
        }
    }
    // 32 numbers of any width fill whole bytes.
    out.extend_from_slice(&word.to_le_bytes()[..(filled / 8) as usize]);
}

/// Appends small numbers below 2^`bits`, with `bits` up to 8: as runs where they repeat, packed where not
/// (RLE/bit-packing hybrid).
pub(super) fn runs(numbers: &[u8], bits: u32, out: &mut Vec<u8>) {
    let (mut from, mut at) = (0, 0);
    while let Some(&number) = numbers.get(at) {
        let run = numbers[at..].iter().take_while(|other| **other == number).count();
        if run < RUN_MIN {
            at = numbers.len().min(at + 8);
            continue;
        }
        pack_eights(&numbers[from..at], bits, out);
        varint(2 * run as u64, out);
        out.push(number);
        at += run;
        from = at;
    }
    pack_eights(&numbers[from..], bits, out);
}

/// Appends small numbers in groups of eight; an incomplete last group is filled with zeros.
fn pack_eights(numbers: &[u8], bits: u32, out: &mut Vec<u8>) {
    if numbers.is_empty() {
        return;
    }
    varint(2 * numbers.len().div_ceil(8) as u64 + 1, out);
    for eight in numbers.chunks(8) {
        let packed = eight.iter().rev().fold(0, |packed, number| packed << bits | u64::from(*number));
        out.extend_from_slice(&packed.to_le_bytes()[..bits as usize]);
    }
}

/// Maps small negative numbers to small positive ones.
const fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63).cast_unsigned()
}

/// Appends a number in groups of seven bits, the lowest first.
fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number > 0x7f {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parquet::basic::{Repetition, Type as Physical};
    use parquet::file::properties::WriterProperties;
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::file::writer::SerializedFileWriter;
    use parquet::record::Field;
    use parquet::schema::types::Type;
    use proptest::prelude::*;

    use super::*;

    /// Returns what the library reads from a file with one column.
    fn read_back(physical: Physical, repetition: Repetition, pages: Pages) -> Vec<Field> {
        let column = Type::primitive_type_builder("c", physical).with_repetition(repetition).build().unwrap();
        let schema = Type::group_type_builder("s").with_fields(vec![Arc::new(column)]).build().unwrap();
        let properties = Arc::new(WriterProperties::builder().build());
        let mut file = SerializedFileWriter::new(Vec::new(), Arc::new(schema), properties).unwrap();
        let column = file.schema_descr().column(0);
        let mut group = file.next_row_group().unwrap();
        pages.append_to(&mut group, column).unwrap();
        group.close().unwrap();
        let file = SerializedFileReader::new(Bytes::from(file.into_inner().unwrap())).unwrap();
        let rows = file.get_row_iter(None).unwrap();
        rows.map(|row| row.unwrap().get_column_iter().next().unwrap().1.clone()).collect()
    }

    fn numbers(pages_of: &[Vec<i64>], width: Width) -> Pages {
        let mut pages = Pages::new(Encoding::DELTA_BINARY_PACKED);
        for numbers in pages_of {
            let mut body = Vec::new();
            deltas(numbers, width, &mut body);
            pages.page(numbers.len(), body).unwrap();
        }
        pages
    }

    /// Numbers anywhere, numbers that hardly grow, and the same ones again and again.
    fn some_numbers() -> impl Strategy<Value = Vec<i64>> {
        let anywhere = prop::collection::vec(any::<i64>(), 1..300);
        let growing = prop::collection::vec((0_i64..2_000, 1_usize..40), 1..100).prop_map(|steps| {
            let mut last = 0;
            let step = |(step, times)| {
                last += step;
                std::iter::repeat_n(last, times)
            };
            steps.into_iter().flat_map(step).collect()
        });
        prop_oneof![anywhere, growing]
    }

    proptest! {
        #[test]
        fn numbers_of_64_bits_come_back(pages in prop::collection::vec(some_numbers(), 1..4)) {
            let expected: Vec<Field> = pages.iter().flatten().map(|number| Field::Long(*number)).collect();
            let pages = numbers(&pages, Width::Bits64);
            prop_assert_eq!(read_back(Physical::INT64, Repetition::REQUIRED, pages), expected);
        }

        #[test]
        fn numbers_of_32_bits_come_back(pages in prop::collection::vec(some_numbers(), 1..4)) {
            let pages: Vec<Vec<i64>> =
                pages.iter().map(|page| page.iter().map(|n| i64::from(*n as i32)).collect()).collect();
            let expected: Vec<Field> = pages.iter().flatten().map(|n| Field::Int(*n as i32)).collect();
            let pages = numbers(&pages, Width::Bits32);
            prop_assert_eq!(read_back(Physical::INT32, Repetition::REQUIRED, pages), expected);
        }

        #[test]
        fn words_and_empty_cells_come_back(
            bits in 1_u32..=8, some in prop::collection::vec((any::<u8>(), 1_usize..30), 1..100),
        ) {
            let places: Vec<u8> = some
                .into_iter()
                .flat_map(|(place, times)| std::iter::repeat_n(place >> (8 - bits), times))
                .collect();
            let words: Vec<String> = (0..1 << bits).map(|place| format!("word {place}")).collect();
            let mut pages = Pages::new(Encoding::RLE_DICTIONARY);
            pages.dictionary(&words.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
            // Where the place is even the cell is empty.
            let (mut levels, mut indices) = (Vec::new(), vec![bits as u8]);
            runs(&places.iter().map(|place| place & 1).collect::<Vec<_>>(), 1, &mut levels);
            let there: Vec<u8> = places.iter().copied().filter(|place| place & 1 == 1).collect();
            runs(&there, bits, &mut indices);
            let body = [&(levels.len() as u32).to_le_bytes(), levels.as_slice(), &indices].concat();
            pages.page(places.len(), body).unwrap();
            let cell = |place: &u8| match place & 1 {
                1 => Field::Bytes(words[usize::from(*place)].as_bytes().to_vec().into()),
                _ => Field::Null,
            };
            let expected: Vec<Field> = places.iter().map(cell).collect();
            prop_assert_eq!(read_back(Physical::BYTE_ARRAY, Repetition::OPTIONAL, pages), expected);
        }
    }

    #[test]
    fn a_column_of_one_number_again_and_again_takes_next_to_nothing() {
        let mut body = Vec::new();
        deltas(&[7; 4096], Width::Bits64, &mut body);
        assert_eq!(body.len(), 6 + 32 * 5, "a least delta and four widths for each block of 128");
        body.clear();
        runs(&[3; 4096], 4, &mut body);
        assert_eq!(body, [0x80, 0x40, 3], "one run of 4096");
    }
}
