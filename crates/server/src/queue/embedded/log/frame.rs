//! The bytes of a frame: what one commit adds to a segment, accepted on replay as a whole or not at all.
//!
//! ```text
//!   0 magic u32      8 payload length u32   16 sequence u64   28 checksum of the payload u32
//!   4 checksum u32  12 segment number u32   24 floor u32      32 records: { length u32, checksum u32, bytes } …
//! ```
//!
//! All numbers are little-endian, all checksums CRC-32C, and a frame starts at a multiple of eight. The header has a
//! checksum of its own so that a search for later frames reads only a few bytes per candidate. Each record has one,
//! so that it can be read and checked without the rest of its frame.
//!
//! Every checksum starts from a seed made of the log's random identity and the segment's number. So neither the old
//! bytes of a reused file nor a message body shaped like a frame ever pass for a frame.

use std::ops::Range;

use crc32c::{crc32c, crc32c_append};

/// Bytes of a frame's header.
pub(super) const HEADER: usize = 32;
/// Bytes before each record's payload.
pub(super) const RECORD_HEADER: usize = 8;
/// Frames start at multiples of this.
pub(super) const ALIGN: usize = 8;

const MAGIC: [u8; 4] = *b"Fram";

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Length of the records in bytes.
    pub(super) payload: u32,
    /// Number of the segment that the frame belongs to.
    pub(super) segment: u32,
    /// Number of the frame: 1, 2, … over all segments, without a gap.
    pub(super) sequence: u64,
    /// First segment that is needed; those below it hold nothing that is.
    pub(super) floor: u32,
    /// Checksum of the records.
    pub(super) checksum: u32,
}

/// The start value of all checksums in a segment.
pub(super) fn seed(identity: u64, segment: u32) -> u32 {
    crc32c_append(crc32c(&identity.to_le_bytes()), &segment.to_le_bytes())
}

impl Header {
    /// Makes the header for these records.
    pub(super) fn of(records: &[u8], segment: u32, sequence: u64, floor: u32, seed: u32) -> Self {
        let payload = length(records.len());
        Self { payload, segment, sequence, floor, checksum: crc32c_append(seed, records) }
    }

    /// Returns the header's bytes.
    pub(super) fn encode(&self, seed: u32) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&self.payload.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.segment.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.floor.to_le_bytes());
        bytes[28..].copy_from_slice(&self.checksum.to_le_bytes());
        let checksum = crc32c_append(seed, &bytes[8..]);
        bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Returns the header at the start of `bytes`, if a frame of this segment was written there.
    pub(super) fn decode(bytes: &[u8], segment: u32, seed: u32) -> Option<Self> {
        let bytes: &[u8; HEADER] = bytes.first_chunk()?;
        if bytes[..4] != MAGIC || u32_at(bytes, 12) != segment {
            return None;
        }
        let header = Self {
            payload: u32_at(bytes, 8),
            segment,
            sequence: u64_at(bytes, 16),
            floor: u32_at(bytes, 24),
            checksum: u32_at(bytes, 28),
        };
        (u32_at(bytes, 4) == crc32c_append(seed, &bytes[8..])).then_some(header)
    }

    /// Returns the records of the frame at the start of `bytes`; None if they are cut short or not what was written.
    pub(super) fn records<'a>(&self, bytes: &'a [u8], seed: u32) -> Option<&'a [u8]> {
        let records = bytes.get(HEADER..)?.get(..self.payload as usize)?;
        (crc32c_append(seed, records) == self.checksum).then_some(records)
    }

    /// Bytes from this frame's start to the next one's.
    pub(super) fn span(&self) -> usize {
        (HEADER + self.payload as usize).next_multiple_of(ALIGN)
    }
}

/// Appends one record made of `parts` and returns where its payload starts in `out`.
pub(super) fn push_record(out: &mut Vec<u8>, seed: u32, parts: &[&[u8]]) -> usize {
    let len = length(parts.iter().map(|part| part.len()).sum());
    let checksum = parts.iter().fold(seed, |checksum, part| crc32c_append(checksum, part));
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&checksum.to_le_bytes());
    let payload = out.len();
    for part in parts {
        out.extend_from_slice(part);
    }
    payload
}

/// Returns the payload of the record at the start of `bytes`, if it is `len` bytes long and as it was written.
pub(super) fn check_record(bytes: &[u8], len: u32, seed: u32) -> Option<&[u8]> {
    let (header, payload) = bytes.split_at_checked(RECORD_HEADER)?;
    let payload = payload.get(..len as usize)?;
    (u32_at(header, 0) == len && u32_at(header, 4) == crc32c_append(seed, payload)).then_some(payload)
}

/// Iterates over the ranges of the payloads in a frame's `records`; ends with `None` at a length that does not fit.
pub(super) fn record_ranges(records: &[u8]) -> impl Iterator<Item = Option<Range<usize>>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at == records.len() {
            return None;
        }
        let range = records.get(at..at + RECORD_HEADER).and_then(|header| {
            let start = at + RECORD_HEADER;
            let end = start + u32_at(header, 0) as usize;
            (end <= records.len()).then_some(start..end)
        });
        at = range.as_ref().map_or(records.len(), |range| range.end);
        Some(range)
    })
}

/// Returns the little-endian number at `at`, which must lie inside.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |chunk| u32::from_le_bytes(*chunk))
}

/// Returns the little-endian number at `at`, which must lie inside.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

/// Converts a length to its stored form. Reservations end far below 4 GiB, so a longer one is a defect of the caller.
pub(super) fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("records and frames are reserved, and reservations end below 4 GiB")
}
