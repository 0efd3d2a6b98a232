//! Opening and closing a log.
//!
//! Nothing on the disk is changed until everything on it was found sound and the owner has taken every record.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use super::blocks::Blocks;
use super::closing;
use super::copy;
use super::disk::{self, Directory, Disk};
use super::error::{LogError, OpenError};
use super::lock::{self, Lock};
use super::prepare::{Preparer, SegmentSpec};
use super::recovery::{self, Owner, Recovered};
use super::segment::{self, PAGE, Segment};
use super::tail::Tail;
use super::{Log, Options, RESERVE_MAX};

impl Log {
    /// Opens the log in `directory`, or starts one there, and replays the records of every whole frame in order.
    /// Records of dropped segments may be replayed again after a crash.
    ///
    /// # Errors
    /// The directory is in use, in another format, damaged, or has something of others and no log; its records make no sense to the owner, or a file
    /// operation failed; nothing was changed.
    pub fn open(directory: &Path, options: Options, owner: &mut dyn Owner) -> Result<Self, OpenError> {
        copy::refuse_unfinished(directory)?;
        disk::make_directory(directory).map_err(|error| LogError::io("make", directory, &error))?;
        let disk = Directory::open(directory).map_err(|error| LogError::io("open", directory, &error))?;
        refuse_occupied(&disk)?;
        let lock = Lock::take(&disk)?;
        let mut log = Self::open_on(Arc::new(disk), options, owner)?;
        log.held = Some(lock);
        Ok(log)
    }

    /// Opens a log like [`Log::open`], on any disk.
    ///
    /// # Errors
    /// As for [`Log::open`].
    pub fn open_on(disk: Arc<dyn Disk>, options: Options, owner: &mut dyn Owner) -> Result<Self, OpenError> {
        let page = PAGE as u64;
        let capacity = options.segment_bytes.clamp(4 * page, RESERVE_MAX).next_multiple_of(page);
        let closed_at = closing::read(&*disk);
        let recovered = recovery::recover(&disk, owner)?;
        refuse_cut(&*disk, recovered.as_ref().map_or(0, |found| found.sequence), closed_at)?;
        owner.check().map_err(|what| OpenError::Damaged { file: disk.path(""), offset: 0, what })?;
        let found = match recovered {
            Some(found) => found,
            None => Recovered::nothing(&*disk, capacity)?,
        };
        if let Some(start) = found.last_start {
            found.tail.rewrite(start).sync()?;
        }
        remove_unfinished(&*disk)?;
        let identity = found.identity;
        let next = found.ready.back().unwrap_or(&found.tail.segment).number + 1;
        let spec = SegmentSpec { identity, capacity, kept: options.spare_segments };
        let threaded = options.prepares_ahead;
        let preparer = Preparer::start(Arc::clone(&disk), spec, found.ready, found.retired, next, threaded);
        Ok(Self {
            identity,
            sealed: found.sealed,
            rotated: Vec::new(),
            active: found.tail,
            closed: Vec::new(),
            sequence: found.sequence,
            ends_with_empty_frame: found.ends_with_empty_frame,
            floor: found.floor,
            declared_floor: found.floor,
            dropped: Vec::new(),
            in_flight: false,
            failure: None,
            blocks: Blocks::new(Arc::clone(&disk)),
            spare_buffer: Vec::new(),
            spare_writes: Vec::new(),
            spare_mirror: Vec::new(),
            preparer,
            disk,
            held: None,
        })
    }
}

impl Drop for Log {
    /// Ends the log with an empty frame, unless something is still under way or it ends with one already.
    fn drop(&mut self) {
        let idle = !self.in_flight && self.closed.is_empty() && !self.active.is_building();
        if !idle || self.failure.is_some() {
            return;
        }
        if !self.ends_with_empty_frame
            && self.sequence > 0
            && self.has_room_for_empty_frame()
            && self.close().sync().is_err()
        {
            return; // that frame protects nothing that was promised, so its failure need not be reported
        }
        if self.held.is_some() {
            // Without the note the next opening checks less; nothing else is lost.
            let _ = closing::write(&*self.disk, self.sequence);
        }
    }
}

/// Refuses to start a log among the files of others, where a wrong path has led.
fn refuse_occupied(disk: &Directory) -> Result<(), OpenError> {
    /// What stands in directories that are empty, the last in the root of a disk.
    const EMPTY: [&str; 3] = [".", "..", "lost+found"];
    let names = disk.list().map_err(|error| LogError::io("list", &disk.path, &error))?;
    if names.iter().any(|name| segment::file_number(name).is_some()) {
        return Ok(());
    }
    // A first start may have ended at any point, and somebody may have removed the segments of an old log.
    let is_ours = |name: &str| [lock::NAME, closing::NAME].contains(&name) || segment::is_unfinished(name);
    match names.into_iter().find(|name| !EMPTY.contains(&name.as_str()) && !is_ours(name)) {
        Some(name) => Err(OpenError::Occupied { directory: disk.path.clone(), name }),
        None => Ok(()),
    }
}

/// Refuses a log that ends before the last frame of its orderly close: it has lost what was acknowledged.
pub(super) fn refuse_cut(disk: &dyn Disk, ends_at: u64, closed_at: Option<u64>) -> Result<(), OpenError> {
    match closed_at {
        Some(closed_at) if ends_at < closed_at => Err(OpenError::Damaged {
            file: disk.path(""),
            offset: 0,
            what: format!(
                "it was closed after frame {closed_at}, and now its files end with frame {ends_at}"
            ),
        }),
        _ => Ok(()),
    }
}

/// Deletes the files that a crash left half made.
fn remove_unfinished(disk: &dyn Disk) -> Result<(), LogError> {
    let names = disk.list().map_err(|error| LogError::io("list", &disk.path(""), &error))?;
    for name in names.iter().filter(|name| segment::is_unfinished(name)) {
        disk.remove(name).map_err(|error| LogError::io("delete", &disk.path(name), &error))?;
    }
    Ok(())
}

impl Recovered {
    /// Makes a new log: one empty segment and a random identity.
    fn nothing(disk: &dyn Disk, capacity: u64) -> Result<Self, OpenError> {
        let identity = fastrand::u64(..);
        let segment = Segment::create(disk, identity, 1, capacity)?;
        Ok(Self {
            identity,
            sealed: VecDeque::new(),
            tail: Tail::empty(segment, identity, Vec::new()),
            last_start: None,
            ready: VecDeque::new(),
            retired: Vec::new(),
            sequence: 0,
            floor: 1,
            ends_with_empty_frame: false,
        })
    }
}
