//! A segment file: its name, its header, and how its space is claimed before it is used.
//!
//! ```text
//!   0 magic "PosthLog"   8 format u32   12 segment number u32   16 identity u64   24 zero u32   28 checksum u32
//!   4096 the first frame
//! ```
//!
//! The header has a page of its own that is never written again. A file gets its final name only once its header is
//! durable, so a `.log` file without a sound header is damaged, never half made.
//!
//! Space is claimed by writing zeros, not by `fallocate` alone: an append into blocks that were written before needs
//! no journal commit, so its sync costs about half of one that grows the file or fills reserved blocks (16 kB: 93 us
//! against 160 us and 180 us on ext4). A reused file serves as well as zeros and costs nothing to prepare. Only what one
//! frame needs beyond a segment is reserved by `fallocate`: all requests wait meanwhile, and the rest of such a file holds
//! little more than that frame.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crc32c::crc32c;

use super::disk::{Disk, Handle};
use super::error::{LogError, OpenError};
use super::frame::{u32_at, u64_at};

/// Offset of the first frame.
pub(super) const FIRST_FRAME: usize = 4096;
/// Unit of writes to a file, in bytes.
pub(super) const PAGE: usize = 4096;
/// The format this program reads and writes.
pub(super) const FORMAT: u32 = 1;

const MAGIC: &[u8; 8] = b"PosthLog";
const HEADER: usize = 32;
/// Bytes filled between two syncs; few, so that commits on the same disk are hardly delayed.
const FILL_SYNCED: u64 = 2 << 20;
const FILL_PIECE: u64 = 256 << 10;

/// A file with a sound header, `capacity` bytes of claimed space, and no frames yet or all its frames.
#[derive(Clone)]
pub(super) struct Segment {
    /// Number of the segment: 1, 2, … and never used twice.
    pub(super) number: u32,
    /// The open file.
    pub(super) file: Handle,
    /// Path of the file, for error messages.
    pub(super) path: Arc<Path>,
    /// Size of the file in bytes.
    pub(super) capacity: u64,
}

/// The name of a segment's file.
pub(super) fn file_name(number: u32) -> String {
    format!("{number:010}.log")
}

/// Returns the segment number in a file's name, if it is the name of a segment's file.
pub(super) fn file_number(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(".log")?;
    if digits.len() != 10 {
        return None;
    }
    digits.parse().ok()
}

/// Returns whether this is the name of a file that was still being made.
pub(super) fn is_unfinished(name: &str) -> bool {
    name.strip_suffix(".new").is_some_and(|stem| file_number(&format!("{stem}.log")).is_some())
}

impl Segment {
    /// Makes a new file of `capacity` bytes.
    pub(super) fn create(
        disk: &dyn Disk,
        identity: u64,
        number: u32,
        capacity: u64,
    ) -> Result<Self, LogError> {
        let unfinished = format!("{number:010}.new");
        let made = disk.create(&unfinished).and_then(|file| {
            file.allocate(capacity)?;
            fill(&file, 0, capacity)?;
            publish(disk, &file, identity, number, &unfinished)
        });
        if let Err(error) = made {
            // A half-made file must not keep space on a full disk.
            let _ = disk.remove(&unfinished);
            return Err(LogError::io("prepare", &disk.path(&unfinished), &error));
        }
        Self::open(disk, number)
    }

    /// Makes the file of segment `from`, which is not needed any more, into a new segment.
    pub(super) fn recycle(
        disk: &dyn Disk,
        identity: u64,
        from: u32,
        number: u32,
        capacity: u64,
    ) -> Result<Self, LogError> {
        let old = file_name(from);
        let reuse = || -> io::Result<()> {
            let file = disk.open(&old)?;
            let size = file.size()?;
            if size > capacity {
                file.truncate(capacity)?;
            } else if size < capacity {
                grow(&file, size, capacity)?;
            }
            publish(disk, &file, identity, number, &old)
        };
        reuse().map_err(|error| LogError::io("reuse", &disk.path(&old), &error))?;
        Self::open(disk, number)
    }

    /// Opens the existing file of that number.
    pub(super) fn open(disk: &dyn Disk, number: u32) -> Result<Self, LogError> {
        let name = file_name(number);
        let opened = disk.open(&name).and_then(|file| Ok((file.size()?, file)));
        let (capacity, file) = opened.map_err(|error| LogError::io("open", &disk.path(&name), &error))?;
        Ok(Self { number, file, path: disk.path(&name).into(), capacity })
    }

    /// Reserves space up to `capacity` bytes for one large frame; on failure the file is as it was.
    pub(super) fn grow(&mut self, capacity: u64) -> Result<(), LogError> {
        let capacity = capacity.next_multiple_of(PAGE as u64);
        reserve(&self.file, self.capacity, capacity)
            .map_err(|error| LogError::io("grow", &self.path, &error))?;
        self.capacity = capacity;
        Ok(())
    }
}

/// Writes a filled file's header and then gives the file its name, both durably.
fn publish(disk: &dyn Disk, file: &Handle, identity: u64, number: u32, name: &str) -> io::Result<()> {
    file.write_at(&header(identity, number), 0)?;
    file.sync()?;
    disk.rename(name, &file_name(number))?;
    disk.sync()
}

/// Grows a file by zeros.
fn grow(file: &Handle, from: u64, to: u64) -> io::Result<()> {
    or_as_before(file, from, file.allocate(to).and_then(|()| fill(file, from, to)))
}

/// Grows a file by blocks that are reserved and not written, where the file system has such.
fn reserve(file: &Handle, from: u64, to: u64) -> io::Result<()> {
    let reserved = file.allocate(to).and_then(|()| match file.size()? >= to {
        true => file.sync(),
        false => fill(file, from, to),
    });
    or_as_before(file, from, reserved)
}

/// Cuts a file back to its size if it could not be grown.
fn or_as_before(file: &Handle, size: u64, grown: io::Result<()>) -> io::Result<()> {
    if grown.is_err() {
        let _ = file.truncate(size);
    }
    grown
}

fn fill(file: &Handle, from: u64, to: u64) -> io::Result<()> {
    let zeros = vec![0; usize::try_from(FILL_PIECE.min(to - from)).unwrap_or(PAGE)];
    let (mut at, mut synced) = (from, from);
    while at < to {
        let piece = zeros.len().min(usize::try_from(to - at).unwrap_or(usize::MAX));
        file.write_at(&zeros[..piece], at)?;
        at += piece as u64;
        if at - synced >= FILL_SYNCED {
            file.sync()?;
            synced = at;
        }
    }
    file.sync()
}

fn header(identity: u64, number: u32) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    bytes[12..16].copy_from_slice(&number.to_le_bytes());
    bytes[16..24].copy_from_slice(&identity.to_le_bytes());
    let checksum = crc32c(&bytes[..28]);
    bytes[28..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Returns the identity in the header of segment `number`, whose file starts with `bytes`.
pub(super) fn identity(disk: &dyn Disk, number: u32, bytes: &[u8]) -> Result<u64, OpenError> {
    let file = disk.path(&file_name(number));
    let damaged = |what: &str| OpenError::Damaged { file: file.clone(), offset: 0, what: what.to_owned() };
    let header = bytes.get(..FIRST_FRAME).ok_or_else(|| damaged("the file ends before its first frame"))?;
    if header[..8] != *MAGIC {
        return Err(damaged("it does not start like a segment file"));
    }
    if u32_at(header, 28) != crc32c(&header[..28]) {
        return Err(damaged("the checksum of its header is wrong"));
    }
    match u32_at(header, 8) {
        FORMAT => {}
        found => return Err(OpenError::Version { file, found, supported: FORMAT }),
    }
    if u32_at(header, 12) != number {
        return Err(damaged("its header bears another segment's number"));
    }
    Ok(u64_at(header, 16))
}
