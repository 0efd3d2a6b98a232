//! Finds the frames of one segment in memory, and distinguishes a torn end from damage.
//!
//! A frame is written only after the one before it is durable. So after a crash at most the last frame is torn, and
//! it was never acknowledged. If a later frame's header follows a broken frame, the broken one was durable once.

use std::ops::Range;

use super::frame::{ALIGN, HEADER, Header};
use super::segment::FIRST_FRAME;

/// The sound frames from the start of a segment.
pub(super) struct Scan {
    /// Where the records of each frame lie.
    pub(super) records: Vec<Range<usize>>,
    /// Sequence number of the first frame.
    pub(super) first: Option<u64>,
    /// The last frame.
    pub(super) last: Option<Header>,
    /// End of the last frame.
    pub(super) end: usize,
}

impl Scan {
    /// Reads frame after frame until one is not sound or does not follow the one before.
    pub(super) fn of(bytes: &[u8], segment: u32, seed: u32) -> Self {
        let mut scan = Self { records: Vec::new(), first: None, last: None, end: FIRST_FRAME };
        while let Some(header) = bytes.get(scan.end..).and_then(|rest| scan.next(rest, segment, seed)) {
            let start = scan.end + HEADER;
            scan.records.push(start..start + header.payload as usize);
            scan.first = scan.first.or(Some(header.sequence));
            scan.last = Some(header);
            scan.end = (scan.end + header.span()).min(bytes.len());
        }
        scan
    }

    fn next(&self, rest: &[u8], segment: u32, seed: u32) -> Option<Header> {
        let header = Header::decode(rest, segment, seed)?;
        if self.last.is_some_and(|last| header.sequence != last.sequence + 1) {
            return None;
        }
        header.records(rest, seed).map(|_| header)
    }

    /// Where the last frame starts.
    pub(super) fn last_start(&self) -> Option<usize> {
        self.records.last().map(|records| records.start - HEADER)
    }

    /// Offset of a header that proves that a frame at `end` was durable and is not sound any more.
    pub(super) fn later_frame(&self, bytes: &[u8], segment: u32, seed: u32) -> Option<usize> {
        (self.end..bytes.len()).step_by(ALIGN).find(|&at| {
            Header::decode(&bytes[at..], segment, seed).is_some_and(|header| match self.last {
                Some(last) if at == self.end => header.sequence > last.sequence + 1,
                Some(last) => header.sequence > last.sequence,
                None => at > self.end,
            })
        })
    }
}
