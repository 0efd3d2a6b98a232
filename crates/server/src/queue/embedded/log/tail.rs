//! The segment being written, mirrored in memory, and the frames on their way to the disk.
//!
//! The mirror holds the file's bytes at the file's offsets. Records are built in place, so a record can be read as
//! soon as it is appended, and most reads of a busy queue never reach the disk. What goes to the disk is a copy of
//! one frame, so that it can be written while the next one grows.

use std::path::Path;
use std::sync::Arc;

use super::Location;
use super::disk::Handle;
use super::error::LogError;
use super::frame::{self, ALIGN, HEADER, Header, RECORD_HEADER};
use super::segment::{FIRST_FRAME, PAGE, Segment};

/// The active segment, with its bytes up to the end of the last frame or record.
pub(super) struct Tail {
    /// The file.
    pub(super) segment: Segment,
    /// Start value of all its checksums.
    pub(super) seed: u32,
    bytes: Vec<u8>,
    /// Start of the frame being built.
    building: Option<usize>,
}

/// The numbers that a frame gets when it is closed.
#[derive(Clone, Copy)]
pub(super) struct Seal {
    pub(super) sequence: u64,
    pub(super) floor: u32,
}

impl Tail {
    /// Makes the tail of a segment without frames; its mirror reuses the memory of `bytes`.
    pub(super) fn empty(segment: Segment, identity: u64, mut bytes: Vec<u8>) -> Self {
        bytes.clear();
        bytes.reserve(usize::try_from(segment.capacity).unwrap_or(0));
        bytes.resize(FIRST_FRAME, 0);
        Self { seed: frame::seed(identity, segment.number), segment, bytes, building: None }
    }

    /// Makes the tail of a segment read from the disk, whose frames end at the end of `bytes`.
    pub(super) fn restored(segment: Segment, identity: u64, bytes: Vec<u8>) -> Self {
        Self { seed: frame::seed(identity, segment.number), segment, bytes, building: None }
    }

    /// Bytes used, the header page included.
    pub(super) fn used(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Returns whether nothing was ever appended.
    pub(super) fn is_unused(&self) -> bool {
        self.bytes.len() == FIRST_FRAME
    }

    /// Returns the file size needed to append `bytes` of records, as the caller counts them, and to close their frame.
    pub(super) fn size_for(&self, bytes: u64) -> u64 {
        self.used() + Self::overhead() + bytes
    }

    /// Returns how many bytes a frame needs beside its records.
    pub(super) const fn overhead() -> u64 {
        (HEADER + 2 * ALIGN) as u64
    }

    /// Adds a record to the frame being built.
    pub(super) fn append(&mut self, parts: &[&[u8]]) -> Location {
        if self.building.is_none() {
            self.begin();
        }
        let offset = frame::push_record(&mut self.bytes, self.seed, parts);
        Location { segment: self.segment.number, offset: frame::length(offset) }
    }

    /// Returns whether there are records in a frame that is not closed.
    pub(super) fn is_building(&self) -> bool {
        self.building.is_some()
    }

    /// Closes the frame being built, or one without records, and copies it into `buffer` for the disk.
    pub(super) fn close(&mut self, seal: Seal, mut buffer: Vec<u8>) -> FrameWrite {
        if self.building.is_none() {
            self.begin();
        }
        let start = self.building.take().unwrap_or(self.bytes.len());
        let number = self.segment.number;
        let header = Header::of(&self.bytes[start + HEADER..], number, seal.sequence, seal.floor, self.seed);
        self.bytes[start..start + HEADER].copy_from_slice(&header.encode(self.seed));
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGN), 0);
        buffer.clear();
        buffer.extend_from_slice(&self.bytes[start..]);
        FrameWrite::new(&self.segment, start, buffer)
    }

    /// Returns the frame that starts at `start`, to be written once more.
    pub(super) fn rewrite(&self, start: usize) -> FrameWrite {
        FrameWrite::new(&self.segment, start, self.bytes[start..].to_vec())
    }

    /// The payload of a record.
    pub(super) fn read(&self, at: Location, len: u32) -> Option<&[u8]> {
        let start = (at.offset as usize).checked_sub(RECORD_HEADER)?;
        frame::check_record(self.bytes.get(start..)?, len, self.seed)
    }

    /// Returns the mirror's memory, for another one.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn begin(&mut self) {
        self.building = Some(self.bytes.len());
        self.bytes.resize(self.bytes.len() + HEADER, 0);
    }
}

/// The bytes of one frame, and where they are written.
pub(super) struct FrameWrite {
    /// Number of the segment that is written to.
    pub(super) segment: u32,
    file: Handle,
    path: Arc<Path>,
    offset: u64,
    bytes: Vec<u8>,
}

impl FrameWrite {
    /// Adds zeros behind the frame to the end of its page: a write of whole pages never has to read an old page first.
    fn new(segment: &Segment, start: usize, mut bytes: Vec<u8>) -> Self {
        let end = (start + bytes.len()).next_multiple_of(PAGE);
        bytes.resize(end - start, 0);
        Self {
            segment: segment.number,
            file: segment.file.clone(),
            path: Arc::clone(&segment.path),
            offset: start as u64,
            bytes,
        }
    }

    /// Writes and syncs the frame. A file system that never writes in place may lack space although it was reserved.
    pub(super) fn sync(&self) -> Result<(), LogError> {
        let written = self.file.write_at(&self.bytes, self.offset);
        written.map_err(|error| LogError::refused("write", &self.path, &error))?;
        self.file.sync().map_err(|error| LogError::refused("sync", &self.path, &error))
    }

    /// Returns the memory of the frame's bytes, for another one.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// What one commit writes: one frame, or several when a reservation moved on to the next segment in between.
pub struct LogCommit {
    pub(super) writes: Vec<FrameWrite>,
    /// First segment that is needed once this commit is durable.
    pub(super) floor: u32,
}

impl LogCommit {
    /// Writes and syncs one frame after the other, so that never more than one frame is in doubt.
    ///
    /// # Errors
    /// The write or the sync failed; it is unknown how much reached the disk.
    pub fn sync(&mut self) -> Result<(), LogError> {
        self.writes.iter().try_for_each(FrameWrite::sync)
    }
}
