//! Reads the oldest segment piece by piece, so that its owner can append again what still lives in it.

use std::ops::Range;
use std::path::PathBuf;

use super::Location;
use super::disk::Handle;
use super::error::LogError;
use super::frame::{self, HEADER, Header};
use super::segment::{FIRST_FRAME, Segment};

/// A segment that is no longer written to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sealed {
    pub(super) number: u32,
    /// End of its last frame.
    pub(super) end: usize,
    /// Size of its file.
    pub(super) capacity: u64,
}

impl Sealed {
    /// A segment whose frames end at `end`.
    pub(super) fn new(segment: &Segment, end: usize) -> Self {
        Self { number: segment.number, end, capacity: segment.capacity }
    }
}

/// The oldest segment, opened for a sweep.
pub(super) struct Oldest {
    pub(super) sealed: Sealed,
    pub(super) file: Handle,
    pub(super) path: PathBuf,
    pub(super) seed: u32,
}

/// Progress of a sweep of the oldest segment. A new one starts at the segment's beginning, as does one that was used
/// for a segment that is not the oldest any more.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sweep {
    segment: u32,
    offset: usize,
}

/// Whether more of the segment is left after a step of its sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SweepStep {
    /// More frames follow.
    More,
    /// The segment was read to its end.
    End,
}

/// What a step of a sweep has read. Its memory serves for the next step.
#[derive(Debug, Default)]
pub struct Swept {
    /// Whole frames.
    pub bytes: Vec<u8>,
    /// The records in these frames.
    pub records: Vec<SweptRecord>,
}

/// One record that a sweep has read.
#[derive(Clone, Debug)]
pub struct SweptRecord {
    /// Place of the record in the log.
    pub at: Location,
    /// Range of its payload in [`Swept::bytes`].
    pub range: Range<usize>,
}

impl Swept {
    /// Forgets what was read.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.records.clear();
    }
}

impl Sweep {
    /// Reads whole frames of about `bytes_max` bytes, at least one.
    pub(super) fn step(
        &mut self,
        oldest: &Oldest,
        bytes_max: usize,
        swept: &mut Swept,
    ) -> Result<SweepStep, LogError> {
        let Sealed { number: segment, end, .. } = oldest.sealed;
        if self.segment != segment {
            *self = Self { segment, offset: FIRST_FRAME };
        }
        let base = self.offset;
        let Swept { bytes: found, records } = swept;
        records.clear();
        oldest.load(found, base, bytes_max.max(HEADER).min(end - base))?;
        if let Some(header) = Header::decode(found, segment, oldest.seed)
            && header.span() > found.len()
        {
            oldest.load(found, base, header.span().min(end - base))?;
        }
        while let Some(header) = oldest.whole_frame(&found[self.offset - base..], self.offset)? {
            let start = self.offset - base + HEADER;
            for range in frame::record_ranges(&found[start..start + header.payload as usize]) {
                let range = range.ok_or_else(|| oldest.damaged(self.offset))?;
                let range = start + range.start..start + range.end;
                let at = Location { segment, offset: frame::length(base + range.start) };
                records.push(SweptRecord { at, range });
            }
            self.offset = (self.offset + header.span()).min(end);
        }
        if self.offset == base && base < end {
            return Err(oldest.damaged(base));
        }
        Ok(if self.offset == end { SweepStep::End } else { SweepStep::More })
    }
}

impl Oldest {
    fn load(&self, found: &mut Vec<u8>, offset: usize, bytes: usize) -> Result<(), LogError> {
        found.resize(bytes, 0);
        let read = self.file.read_at(found, offset as u64);
        found.truncate(read.map_err(|error| LogError::io("read", &self.path, &error))?);
        Ok(())
    }

    /// Returns the frame at the start of `bytes`; None if `bytes` ends before the frame does.
    fn whole_frame(&self, bytes: &[u8], offset: usize) -> Result<Option<Header>, LogError> {
        if bytes.len() < HEADER {
            return Ok(None);
        }
        let header =
            Header::decode(bytes, self.sealed.number, self.seed).ok_or_else(|| self.damaged(offset))?;
        if header.span() > bytes.len() {
            return Ok(None);
        }
        header.records(bytes, self.seed).ok_or_else(|| self.damaged(offset))?;
        Ok(Some(header))
    }

    fn damaged(&self, offset: usize) -> LogError {
        LogError::Damaged { file: self.path.clone(), offset: offset as u64 }
    }
}
