//! A durable log of opaque records, for a store whose state is in memory: it maps the place of a record to its bytes.
//!
//! Records are appended to the frame being built; a frame is sealed, written and synced as one commit, and replayed
//! as a whole or not at all. Frames fill segment files one after the other; the owner empties the oldest segment by
//! appending again what still lives there, and drops it.
//!
//! ```text
//!   oldest sealed … sealed │ active: frame frame frame(being built) │ ready ready │ retired, to be used again
//!   drop_oldest ◀─ sweep       reserve ▶ append ▶ seal ▶ LogCommit::sync ▶ committed
//! ```
//!
//! Promises:
//! - What `committed` saw succeed survives `kill -9` and power loss, given that the disk keeps what it said it synced
//!   and that a 512-byte sector is written whole or not.
//! - Opening drops at most one frame, which was never acknowledged. Anything else that is not as it was written is
//!   an error that names file and offset. An orderly close ends the log with an empty frame, so that from then on
//!   even damage to its last records is distinguished from a torn frame.
//! - A full disk is noticed by `reserve`, before anything has changed.
//! - After a failed sync nothing more is accepted: the page cache may then differ from the disk. The next open writes
//!   the last frame once more for the same reason.
//!
//! Rejected: a key-value engine, which writes every record several times to keep it sorted; here records are used in
//! the order of their arrival, and the owner's memory is the index.

mod blocks;
mod closing;
mod copy;
pub mod disk;
mod error;
mod frame;
mod lock;
mod open;
mod prepare;
mod recovery;
mod scan;
mod segment;
mod sweep;
mod tail;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use blocks::Blocks;
use disk::Disk;
use lock::Lock;
use prepare::Preparer;
use segment::{FIRST_FRAME, file_name};
use sweep::{Oldest, Sealed};
use tail::{FrameWrite, Seal, Tail};

pub use copy::{Copied, CopyError, copy};
pub use error::{LogError, OpenError, no_space};
pub use prepare::Awaited;
pub use recovery::{Owner, Progress};
pub use sweep::{Sweep, SweepStep, Swept, SweptRecord};
pub use tail::LogCommit;

/// The most bytes one reservation may ask for.
pub const RESERVE_MAX: u64 = 1 << 30;

/// Bytes that the log adds to each record.
pub const RECORD_OVERHEAD: u64 = frame::RECORD_HEADER as u64;

/// Most bytes of memory kept for the copy of the next frame.
const BUFFER_KEPT: usize = 1 << 20;

/// How a log uses its disk.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Size of a segment file in bytes, from 16 KiB to 1 GiB.
    pub segment_bytes: u64,
    /// Number of dropped segment files kept for reuse; more than that are deleted.
    pub spare_segments: usize,
    /// Whether a thread makes segments ready ahead of their use; otherwise the call that needs them does.
    pub prepares_ahead: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { segment_bytes: 32 << 20, spare_segments: 2, prepares_ahead: true }
    }
}

/// What space is reserved for. Each purpose leaves more of the last space than the one after it, so that whatever was
/// done on a full disk there is space to remove things, and then to reclaim theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// To add something: leaves the last spare segment.
    Add,
    /// To lease something or to keep an answer, which frees nothing: leaves half of the last segment.
    Lease,
    /// To remove or return something: leaves a quarter of it.
    Remove,
    /// To remove much at once: leaves an eighth of it.
    Empty,
    /// To append again what lives in the oldest segment, and to drop that: may use all space.
    Reclaim,
}

impl Purpose {
    /// Returns how many segments must stay ready.
    fn spare_segments(self) -> usize {
        usize::from(self == Self::Add)
    }

    /// Returns how many bytes must stay free in a segment behind which none is ready.
    fn spare_bytes(self, segment_bytes: u64) -> u64 {
        match self {
            Self::Lease => segment_bytes / 2,
            Self::Remove => segment_bytes / 4,
            Self::Empty => segment_bytes / 8,
            Self::Add | Self::Reclaim => 0,
        }
    }
}

/// Where a record's payload lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Location {
    /// Number of the segment.
    pub segment: u32,
    /// Offset in the segment's file, in bytes.
    pub offset: u32,
}

/// An open log. Dropping it closes it; records not committed by then are gone.
pub struct Log {
    disk: Arc<dyn Disk>,
    identity: u64,
    /// Segments that are no longer written to, oldest first.
    sealed: VecDeque<Sealed>,
    /// The mirrors of those sealed segments that have frames not known to be durable yet.
    rotated: Vec<Tail>,
    active: Tail,
    /// Frames closed when the log moved on to the next segment, and not yet sealed into a commit.
    closed: Vec<FrameWrite>,
    /// Sequence number of the last closed frame.
    sequence: u64,
    /// Whether the last closed frame has no records.
    ends_with_empty_frame: bool,
    /// The first segment that is needed.
    floor: u32,
    /// The floor that the last closed frame declares.
    declared_floor: u32,
    /// Numbers of dropped segments; their files are retired once a floor above them is durable.
    dropped: Vec<u32>,
    in_flight: bool,
    failure: Option<String>,
    blocks: Blocks,
    spare_buffer: Vec<u8>,
    spare_writes: Vec<FrameWrite>,
    spare_mirror: Vec<u8>,
    preparer: Preparer,
    /// The lock on a real directory.
    held: Option<Lock>,
}

impl Log {
    /// Makes sure that `bytes` of records (their payloads and [`RECORD_OVERHEAD`] for each) fit into the next frame without
    /// new disk space, by moving on to the next segment if the active one is too full; records appended before then stay
    /// in a frame of their own. How much of the last space may be used depends on the purpose.
    ///
    /// # Errors
    /// `Full`, `Failed`, `TooBig` or `Io`; nothing was changed.
    pub fn reserve(&mut self, bytes: u64, purpose: Purpose) -> Result<(), LogError> {
        self.check_usable()?;
        if bytes > RESERVE_MAX {
            return Err(LogError::TooBig { bytes, bytes_max: RESERVE_MAX });
        }
        let left = purpose.spare_segments();
        let kept = purpose.spare_bytes(self.preparer.segment_bytes());
        self.preparer.wait_for(left)?;
        let size = self.active.size_for(bytes);
        if size + kept <= self.active.segment.capacity {
            return Ok(());
        }
        if size <= self.active.segment.capacity {
            return self.preparer.wait_for(1);
        }
        if self.active.is_unused() {
            return self.active.segment.grow(size + kept);
        }
        self.rotate(bytes + kept, left)
    }

    /// Returns the wait for segments being made ready that `reserve` would have now; None if it would not wait.
    #[must_use]
    pub fn awaited(&self, bytes: u64, purpose: Purpose) -> Option<Awaited> {
        let size = self.active.size_for(bytes) + purpose.spare_bytes(self.preparer.segment_bytes());
        let moves_on = size > self.active.segment.capacity;
        self.preparer.awaited(purpose.spare_segments() + usize::from(moves_on))
    }

    /// Returns whether a reservation to add something might wait for a segment being made ready, where so many bytes are
    /// to come in this commit.
    #[must_use]
    pub fn may_have_to_wait(&self, bytes: u64) -> bool {
        let moves_on = self.active.size_for(bytes) > self.active.segment.capacity;
        // Where no move was made or is to come, nothing has changed since the commit began.
        let is_moving = moves_on || !self.closed.is_empty();
        is_moving && self.preparer.is_behind(Purpose::Add.spare_segments() + usize::from(moves_on))
    }

    /// Returns whether a reservation of so many bytes for this purpose would fail unless another segment is made ready.
    #[must_use]
    pub fn has_no_space(&self, bytes: u64, purpose: Purpose) -> bool {
        let left = purpose.spare_segments();
        let size = self.active.size_for(bytes) + purpose.spare_bytes(self.preparer.segment_bytes());
        !self.preparer.has(left + usize::from(size > self.active.segment.capacity))
    }

    /// Returns why another segment could not be made ready; None: there is one, or it is on its way.
    #[must_use]
    pub fn lack(&self) -> Option<LogError> {
        self.preparer.lack()
    }

    /// Returns how many bytes of records still fit into one segment; None unless the disk has no space for another.
    #[must_use]
    pub fn last_space(&self) -> Option<u64> {
        let behind = self.preparer.last_space()?;
        Some(behind.max(self.active.segment.capacity.saturating_sub(self.active.size_for(0))))
    }

    /// Tries once more to have another segment ready, if the last try failed: what space there is may last for long, and
    /// nothing else would notice that there is more again.
    pub fn retry(&self) {
        self.preparer.retry();
    }

    /// Adds a record to the frame being built. It can be read at once and is durable with the commit it goes into.
    /// Without a reservation the disk may turn out full when the frame is written, which ends the log's use.
    ///
    /// # Panics
    /// When a frame without reservation passes 4 GiB.
    pub fn append(&mut self, record: &[u8]) -> Location {
        self.append_parts(&[record])
    }

    /// Adds a record that is given in several parts, like [`Log::append`].
    ///
    /// # Panics
    /// When a frame without reservation passes 4 GiB.
    pub fn append_parts(&mut self, parts: &[&[u8]]) -> Location {
        self.active.append(parts)
    }

    /// Returns what must be written and synced to make everything appended and dropped so far durable; None if there
    /// is nothing, or if the commit before it has not ended yet.
    pub fn seal(&mut self) -> Option<LogCommit> {
        if self.in_flight || self.failure.is_some() {
            return None;
        }
        let announce = self.floor != self.declared_floor && self.has_room_for_empty_frame();
        if self.active.is_building() || announce {
            let write = self.close();
            self.closed.push(write);
        }
        if self.closed.is_empty() {
            return None;
        }
        self.in_flight = true;
        let writes = std::mem::replace(&mut self.closed, std::mem::take(&mut self.spare_writes));
        Some(LogCommit { writes, floor: self.declared_floor })
    }

    /// Takes a commit back after its sync. After an error the log can only be read until it is opened again.
    pub fn committed(&mut self, commit: LogCommit, result: &Result<(), LogError>) {
        self.in_flight = false;
        if let Err(error) = result {
            self.failure.get_or_insert_with(|| error.to_string());
            return;
        }
        let closed = &self.closed;
        let is_written = |tail: &mut Tail| !closed.iter().any(|write| write.segment == tail.segment.number);
        if let Some(tail) = self.rotated.extract_if(.., is_written).last() {
            self.keep_mirror(tail);
        }
        let durable = self.dropped.extract_if(.., |number| *number < commit.floor);
        self.preparer.retire(durable);
        let LogCommit { mut writes, .. } = commit;
        if let Some(write) = writes.pop() {
            self.spare_buffer = write.into_bytes();
            self.spare_buffer.clear();
            self.spare_buffer.shrink_to(BUFFER_KEPT);
        }
        writes.clear();
        self.spare_writes = writes;
    }

    /// Returns the payload of the record of `len` bytes at `at`, after a check of its checksum. Records of the active
    /// segment come from memory, others through a cache of 4 MiB.
    ///
    /// # Errors
    /// `Damaged`: the bytes are not those that were appended, or nothing was appended there; `Io`.
    pub fn read(&mut self, at: Location, len: u32) -> Result<&[u8], LogError> {
        match mirror(&self.active, &self.rotated, at.segment) {
            Some(tail) => tail.read(at, len).ok_or_else(|| LogError::Damaged {
                file: self.disk.path(&file_name(at.segment)),
                offset: u64::from(at.offset),
            }),
            None => self.blocks.read(at, len, frame::seed(self.identity, at.segment)),
        }
    }

    /// Returns whether `read` would find this record in memory, without the disk.
    #[must_use]
    pub fn holds(&self, at: Location, len: u32) -> bool {
        mirror(&self.active, &self.rotated, at.segment).is_some() || self.blocks.holds(at, len)
    }

    /// Returns the oldest segment if it is no longer written to and all its frames are durable.
    #[must_use]
    pub fn oldest(&self) -> Option<u32> {
        self.oldest_sealed().map(|sealed| sealed.number)
    }

    /// Bytes used by segments that are not dropped, for comparison with what lives in them.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.sealed.iter().map(|sealed| sealed.end as u64).sum::<u64>() + self.active.used()
    }

    /// Bytes of all files: segments, those prepared ahead, and those kept for reuse.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        let sealed: u64 = self.sealed.iter().map(|sealed| sealed.capacity).sum();
        sealed + self.active.segment.capacity + self.preparer.idle_bytes()
    }

    /// Number of segments that are not dropped, the active one included.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.sealed.len() + 1
    }

    /// Reads the next part of the oldest segment, whole frames of about `bytes_max` bytes, into `swept`. Without an
    /// oldest segment the sweep is at its end.
    ///
    /// # Errors
    /// `Damaged` or `Io`.
    pub fn sweep(
        &mut self,
        cursor: &mut Sweep,
        bytes_max: usize,
        swept: &mut Swept,
    ) -> Result<SweepStep, LogError> {
        let Some(&sealed) = self.oldest_sealed() else {
            swept.clear();
            return Ok(SweepStep::End);
        };
        let oldest = Oldest {
            file: self.blocks.file(sealed.number)?,
            path: self.disk.path(&file_name(sealed.number)),
            seed: frame::seed(self.identity, sealed.number),
            sealed,
        };
        cursor.step(&oldest, bytes_max, swept)
    }

    /// Drops the oldest segment; everything that lives in it must have been appended again. That need not be durable
    /// yet: the drop takes effect with the next commit (`seal` makes one for it), after which the file is reused or
    /// deleted.
    ///
    /// # Errors
    /// `Failed`.
    pub fn drop_oldest(&mut self) -> Result<(), LogError> {
        self.check_usable()?;
        if let Some(number) = self.oldest() {
            self.sealed.pop_front();
            self.blocks.close(number);
            self.dropped.push(number);
            self.floor = number + 1;
        }
        Ok(())
    }

    fn oldest_sealed(&self) -> Option<&Sealed> {
        let is_durable =
            |sealed: &&Sealed| self.rotated.iter().all(|tail| tail.segment.number != sealed.number);
        self.sealed.front().filter(is_durable)
    }

    fn check_usable(&self) -> Result<(), LogError> {
        match &self.failure {
            Some(cause) => Err(LogError::Failed { cause: cause.clone() }),
            None => Ok(()),
        }
    }

    /// Moves on to the next segment, with room for `bytes` of records in it.
    fn rotate(&mut self, bytes: u64, left: usize) -> Result<(), LogError> {
        let next = self.preparer.take(FIRST_FRAME as u64 + Tail::overhead() + bytes, left)?;
        if self.active.is_building() {
            let write = self.close();
            self.closed.push(write);
        }
        let mirror = std::mem::take(&mut self.spare_mirror);
        let full = std::mem::replace(&mut self.active, Tail::empty(next, self.identity, mirror));
        let end = usize::try_from(full.used()).unwrap_or(usize::MAX);
        self.sealed.push_back(Sealed::new(&full.segment, end));
        if self.in_flight || !self.closed.is_empty() {
            self.rotated.push(full);
        } else {
            self.keep_mirror(full);
        }
        Ok(())
    }

    /// Keeps a mirror's memory for the next one, but no more of it than the active segment's size.
    fn keep_mirror(&mut self, tail: Tail) {
        self.spare_mirror = tail.into_bytes();
        self.spare_mirror.clear();
        self.spare_mirror.shrink_to(usize::try_from(self.active.segment.capacity).unwrap_or(0));
    }

    /// Closes the frame being built, or one without records.
    fn close(&mut self) -> FrameWrite {
        self.sequence += 1;
        self.ends_with_empty_frame = !self.active.is_building();
        self.declared_floor = self.floor;
        let seal = Seal { sequence: self.sequence, floor: self.floor };
        self.active.close(seal, std::mem::take(&mut self.spare_buffer))
    }

    fn has_room_for_empty_frame(&self) -> bool {
        self.active.size_for(0) <= self.active.segment.capacity
    }
}

/// Returns the bytes of a segment that are in memory, if they are.
fn mirror<'a>(active: &'a Tail, rotated: &'a [Tail], segment: u32) -> Option<&'a Tail> {
    std::iter::once(active).chain(rotated).find(|tail| tail.segment.number == segment)
}
