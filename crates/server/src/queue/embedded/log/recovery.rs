//! Opens a log: finds its end and replays it, without changing anything on the disk.
//!
//! The end comes first, because the last frame says which segments are needed. Then the segments before it are read
//! and checked on a second thread while their records are handed to the owner on this one. Sequence numbers are
//! consecutive over all segments, so a missing frame, end of a segment or whole file shows as a gap.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use super::Location;
use super::disk::Disk;
use super::error::{LogError, OpenError};
use super::frame;
use super::scan::Scan;
use super::segment::{self, FIRST_FRAME, Segment, file_name, file_number};
use super::sweep::Sealed;
use super::tail::Tail;

/// Owner of a log, which rebuilds its state from the records while the log is opened.
pub trait Owner {
    /// Takes one record.
    ///
    /// # Errors
    /// Says why the record makes no sense; the log is then not opened.
    fn replay(&mut self, at: Location, record: &[u8]) -> Result<(), String>;

    /// Checks all records together, once each was replayed.
    ///
    /// # Errors
    /// Says why they make no sense together; the log is then not opened.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Is told the progress of reading: at the start, and after every segment.
    fn note_progress(&mut self, _progress: Progress) {}
}

/// Progress of reading a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Number of files to be read.
    pub files: usize,
    /// Bytes in all these files.
    pub bytes: u64,
    /// Bytes of files that have been read and replayed.
    pub done: u64,
}

/// A log as found on the disk.
pub(super) struct Recovered {
    pub(super) identity: u64,
    /// Segments before the tail, oldest first.
    pub(super) sealed: VecDeque<Sealed>,
    pub(super) tail: Tail,
    /// Where the last frame starts, if the tail has one.
    pub(super) last_start: Option<usize>,
    /// Empty segments behind the tail.
    pub(super) ready: VecDeque<Segment>,
    /// Segments that are not needed, as the last frame says.
    pub(super) retired: Vec<u32>,
    /// Sequence number of the last frame; 0 when there is none.
    pub(super) sequence: u64,
    pub(super) floor: u32,
    /// Whether the last frame has no records.
    pub(super) ends_with_empty_frame: bool,
}

/// One segment in memory.
struct Loaded {
    segment: Segment,
    identity: u64,
    bytes: Vec<u8>,
    scan: Scan,
}

/// The end of the last frame that was read.
pub(super) struct FrameEnd {
    pub(super) segment: u32,
    pub(super) end: usize,
    pub(super) sequence: u64,
}

/// Reads the log in `disk`; None when there is none yet.
pub(super) fn recover(disk: &Arc<dyn Disk>, owner: &mut dyn Owner) -> Result<Option<Recovered>, OpenError> {
    let names = disk.list().map_err(|error| LogError::io("list", &disk.path(""), &error))?;
    let mut numbers: Vec<u32> = names.iter().filter_map(|name| file_number(name)).collect();
    numbers.sort_unstable();
    let Some((tail, behind)) = find_tail(&**disk, &numbers)? else {
        return Ok(None);
    };
    let floor = tail.scan.last.map_or(1, |last| last.floor);
    let live = numbers.split_off(numbers.partition_point(|&number| number < floor));
    check_complete(&**disk, floor, &live)?;
    let before: Vec<u32> = live.into_iter().filter(|&number| number < tail.segment.number).collect();
    let (files, bytes) = (before.len() + 1, sizes(&**disk, &before)? + tail.segment.capacity);
    let mut progress = Progress { files, bytes, done: 0 };
    owner.note_progress(progress);
    let (sealed, reached) = replay_sealed(disk, &before, tail.identity, owner, &mut progress)?;
    let sequence = match (tail.scan.first, tail.scan.last) {
        (Some(first), Some(last)) => {
            check_follows(&**disk, &reached, floor, first)?;
            replay(&**disk, &tail, owner)?;
            last.sequence
        }
        _ => reached.map_or(0, |reached| reached.sequence),
    };
    owner.note_progress(Progress { done: bytes, ..progress });
    let Loaded { segment, identity, mut bytes, scan } = tail;
    bytes.truncate(scan.end);
    Ok(Some(Recovered {
        identity,
        sealed,
        last_start: scan.last_start(),
        tail: Tail::restored(segment, identity, bytes),
        ready: behind,
        retired: numbers,
        sequence,
        floor,
        ends_with_empty_frame: scan.last.is_some_and(|last| last.payload == 0),
    }))
}

/// Finds the last segment with a frame (the first of all if there is no frame) and the empty ones behind it.
fn find_tail(disk: &dyn Disk, numbers: &[u32]) -> Result<Option<(Loaded, VecDeque<Segment>)>, OpenError> {
    let mut behind = VecDeque::new();
    let mut identity = None;
    let mut buffer = Vec::new();
    for (index, &number) in numbers.iter().enumerate().rev() {
        let loaded = load(disk, number, identity, buffer)?;
        identity = Some(loaded.identity);
        let seed = frame::seed(loaded.identity, number);
        if let Some(later) = loaded.scan.later_frame(&loaded.bytes, number, seed) {
            let what =
                format!("a frame is not as it was written, but a later one at offset {later} is sound");
            return Err(damaged(disk, number, loaded.scan.end, what));
        }
        if loaded.scan.last.is_some() || index == 0 {
            return Ok(Some((loaded, behind)));
        }
        behind.push_front(loaded.segment);
        buffer = loaded.bytes;
    }
    Ok(None)
}

/// The bytes of these segments' files together.
fn sizes(disk: &dyn Disk, numbers: &[u32]) -> Result<u64, LogError> {
    numbers.iter().map(|&number| Segment::open(disk, number).map(|segment| segment.capacity)).sum()
}

/// Checks that no segment from the floor on is missing.
fn check_complete(disk: &dyn Disk, floor: u32, live: &[u32]) -> Result<(), OpenError> {
    match (floor..).zip(live).find(|(wanted, found)| wanted != *found) {
        Some((missing, _)) => Err(damaged(disk, missing, 0, "the file is missing".to_owned())),
        None => Ok(()),
    }
}

/// Replays the segments before the tail in order, reading ahead on a second thread.
fn replay_sealed(
    disk: &Arc<dyn Disk>,
    numbers: &[u32],
    identity: u64,
    owner: &mut dyn Owner,
    progress: &mut Progress,
) -> Result<(VecDeque<Sealed>, Option<FrameEnd>), OpenError> {
    let mut sealed = VecDeque::with_capacity(numbers.len());
    let mut reached: Option<FrameEnd> = None;
    std::thread::scope(|scope| {
        let (loaded_in, loaded_out) = sync_channel(1);
        let (buffers_in, buffers_out) = channel();
        scope.spawn(move || read_ahead(&**disk, numbers, identity, &loaded_in, &buffers_out));
        for loaded in loaded_out {
            let loaded: Loaded = loaded?;
            let number = loaded.segment.number;
            let (Some(first), Some(last)) = (loaded.scan.first, loaded.scan.last) else {
                let what = "its first frame is not as it was written".to_owned();
                return Err(damaged(&**disk, number, FIRST_FRAME, what));
            };
            check_follows(&**disk, &reached, numbers[0], first)?;
            replay(&**disk, &loaded, owner)?;
            reached = Some(FrameEnd { segment: number, end: loaded.scan.end, sequence: last.sequence });
            sealed.push_back(Sealed::new(&loaded.segment, loaded.scan.end));
            progress.done += loaded.segment.capacity;
            owner.note_progress(*progress);
            return_buffer(&buffers_in, loaded.bytes);
        }
        Ok(())
    })?;
    Ok((sealed, reached))
}

/// Loads one segment after the other until the receiver is gone.
fn read_ahead(
    disk: &dyn Disk,
    numbers: &[u32],
    identity: u64,
    loaded: &SyncSender<Result<Loaded, OpenError>>,
    buffers: &Receiver<Vec<u8>>,
) {
    for &number in numbers {
        let buffer = buffers.try_recv().unwrap_or_default();
        if loaded.send(load(disk, number, Some(identity), buffer)).is_err() {
            return;
        }
    }
}

/// Gives a buffer back to the reading thread, which has ended after the last segment and then needs none.
fn return_buffer(buffers: &Sender<Vec<u8>>, buffer: Vec<u8>) {
    let _ = buffers.send(buffer);
}

/// Reads a segment file and finds its frames.
fn load(
    disk: &dyn Disk,
    number: u32,
    expected: Option<u64>,
    mut bytes: Vec<u8>,
) -> Result<Loaded, OpenError> {
    let segment = Segment::open(disk, number)?;
    let size = usize::try_from(segment.capacity).unwrap_or(usize::MAX);
    if bytes.len() != size {
        bytes = vec![0; size];
    }
    let read = segment.file.read_at(&mut bytes, 0);
    let read = read.map_err(|error| LogError::io("read", &disk.path(&file_name(number)), &error))?;
    bytes.truncate(read);
    let (identity, scan) = examine(disk, number, expected, &bytes)?;
    Ok(Loaded { segment, identity, bytes, scan })
}

/// Returns the identity of the log that a segment of these bytes belongs to, and the segment's frames.
pub(super) fn examine(
    disk: &dyn Disk,
    number: u32,
    expected: Option<u64>,
    bytes: &[u8],
) -> Result<(u64, Scan), OpenError> {
    let identity = segment::identity(disk, number, bytes)?;
    if expected.is_some_and(|expected| expected != identity) {
        return Err(damaged(disk, number, 0, "it belongs to another log".to_owned()));
    }
    Ok((identity, Scan::of(bytes, number, frame::seed(identity, number))))
}

/// Checks that a segment that starts with frame `first` follows what was read; the very first frame has number 1.
pub(super) fn check_follows(
    disk: &dyn Disk,
    reached: &Option<FrameEnd>,
    floor: u32,
    first: u64,
) -> Result<(), OpenError> {
    let (segment, end, sequence) = match reached {
        Some(reached) => (reached.segment, reached.end, reached.sequence),
        None if floor == 1 => (1, FIRST_FRAME, 0),
        None => return Ok(()),
    };
    if first == sequence + 1 {
        return Ok(());
    }
    let what =
        format!("the frame after number {sequence} is not as it was written, but number {first} is sound");
    Err(damaged(disk, segment, end, what))
}

/// Hands every record of a segment to the owner.
fn replay(disk: &dyn Disk, loaded: &Loaded, owner: &mut dyn Owner) -> Result<(), OpenError> {
    let segment = loaded.segment.number;
    for records in &loaded.scan.records {
        let bytes = &loaded.bytes[records.clone()];
        for range in frame::record_ranges(bytes) {
            let Some(range) = range else {
                let what = "a record is longer than its frame".to_owned();
                return Err(damaged(disk, segment, records.start, what));
            };
            let offset = records.start + range.start;
            let at = Location { segment, offset: frame::length(offset) };
            owner.replay(at, &bytes[range]).map_err(|what| damaged(disk, segment, offset, what))?;
        }
    }
    Ok(())
}

pub(super) fn damaged(disk: &dyn Disk, segment: u32, offset: usize, what: String) -> OpenError {
    OpenError::Damaged { file: disk.path(&file_name(segment)), offset: offset as u64, what }
}
