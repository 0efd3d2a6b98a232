//! Copies a log, whether or not its owner is writing it; needs neither the lock nor the owner.
//!
//! A full segment stays as it is until it is dropped, and the last frame of a log says which are dropped. So the full
//! segments are copied in order, and then the one that is written to, up to its last whole frame. The copy is the log
//! as a power cut would have left it at that moment, with everything that was committed before the copy began.
//!
//! Nothing of it is synced before all is copied: a copy that waits for its disk at each segment may never catch up with
//! an owner that drops them meanwhile.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::closing;
use super::disk::{self, Directory, Disk, FILE_MODE};
use super::error::{LogError, OpenError};
use super::frame;
use super::open::refuse_cut;
use super::recovery::{FrameEnd, check_follows, damaged, examine};
use super::scan::Scan;
use super::segment::{FIRST_FRAME, PAGE, file_name, file_number};

/// Number of attempts, as one may read what is just being written. What is still wrong in the last is damage.
const ATTEMPTS: usize = 5;

/// How often an attempt begins anew because the owner has dropped the segment that is next, and with it those copied.
const RESTARTS: usize = 100;

/// File that marks an incomplete copy: one broken off, by a signal say, would otherwise open as a shorter log.
const UNFINISHED: &str = "unfinished";

/// The size of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// Files with frames.
    pub segments: usize,
    /// Bytes in them.
    pub bytes: u64,
}

/// Why no copy was made. What was written of it is removed again.
#[derive(Debug, PartialEq, Eq)]
pub enum CopyError {
    /// There is no log in this directory.
    Nothing(PathBuf),
    /// What is to hold the copy holds something already, or is no directory.
    Occupied(PathBuf),
    /// The owner of this log drops segments faster than they can be copied.
    Outrun(PathBuf),
    /// The log could not be read, or the copy not be written.
    Log(OpenError),
}

impl CopyError {
    /// Whether another attempt ends as this one did.
    fn is_final(&self) -> bool {
        matches!(self, Self::Outrun(_) | Self::Log(OpenError::Log(LogError::Full { .. })))
    }
}

impl From<OpenError> for CopyError {
    fn from(error: OpenError) -> Self {
        Self::Log(error)
    }
}

impl From<LogError> for CopyError {
    fn from(error: LogError) -> Self {
        Self::Log(error.into())
    }
}

impl fmt::Display for CopyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing(directory) => {
                write!(
                    f,
                    "{} holds no store: name the directory of a running or stopped one",
                    directory.display()
                )
            }
            Self::Occupied(directory) => {
                write!(
                    f,
                    "{} is not an empty directory: name one that is empty or not there yet",
                    directory.display()
                )
            }
            Self::Outrun(directory) => {
                write!(
                    f,
                    "{} is rewritten faster than it can be copied; try again when the server has less to do",
                    directory.display()
                )
            }
            Self::Log(OpenError::Log(LogError::Full { path })) => {
                write!(
                    f,
                    "there is no space for the copy ({}); free some, or name another directory",
                    path.display()
                )
            }
            Self::Log(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CopyError {}

/// Copies the log in `from` into the directory `to`, which is made, durably. Every frame is checked on the way.
///
/// # Errors
/// [`CopyError`]; `from` is never changed.
pub fn copy(from: &Path, to: &Path) -> Result<Copied, CopyError> {
    refuse_unfinished(from)?;
    let source = Directory::open(from).map_err(|error| match error.kind() {
        ErrorKind::NotFound => CopyError::Nothing(from.to_owned()),
        _ => LogError::io("open", from, &error).into(),
    })?;
    if numbers(&source)?.is_empty() {
        return Err(CopyError::Nothing(from.to_owned()));
    }
    disk::make_directory(to).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists | ErrorKind::NotADirectory => CopyError::Occupied(to.to_owned()),
        _ => LogError::io("make", to, &error).into(),
    })?;
    begin(to)?;
    // A log that is open, too, reaches at least as far as when it was closed last.
    let closed_at = closing::read(&source);
    let mut attempts = 1;
    loop {
        match attempt(&source, to, closed_at) {
            Ok(copied) => {
                finish(to)?;
                return Ok(copied);
            }
            Err(error) => {
                clear(to)?;
                if attempts == ATTEMPTS || error.is_final() {
                    finish(to)?;
                    return Err(error);
                }
                attempts += 1;
            }
        }
    }
}

/// Refuses a directory with a copy that is incomplete, as it is no log.
pub(super) fn refuse_unfinished(directory: &Path) -> Result<(), OpenError> {
    match directory.join(UNFINISHED).try_exists() {
        Ok(false) => Ok(()),
        Ok(true) => Err(OpenError::Unfinished { directory: directory.to_owned() }),
        Err(error) => Err(LogError::io("look into", directory, &error).into()),
    }
}

/// Claims an empty directory for this copy.
fn begin(to: &Path) -> Result<(), CopyError> {
    let mut entries = fs::read_dir(to).map_err(|error| LogError::io("list", to, &error))?;
    if entries.next().is_some() {
        return Err(CopyError::Occupied(to.to_owned()));
    }
    match create(&to.join(UNFINISHED)) {
        // Another process copies to the same place, and was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(CopyError::Occupied(to.to_owned())),
        Err(error) => Err(LogError::io("write", &to.join(UNFINISHED), &error).into()),
        Ok(_) => Ok(sync(to)?),
    }
}

/// Removes the mark of an incomplete copy.
fn finish(to: &Path) -> Result<(), OpenError> {
    let mark = to.join(UNFINISHED);
    fs::remove_file(&mark).map_err(|error| LogError::io("delete", &mark, &error))?;
    sync(to)
}

fn sync(to: &Path) -> Result<(), OpenError> {
    let synced = File::open(to).and_then(|directory| directory.sync_all());
    synced.map_err(|error| LogError::io("sync", to, &error).into())
}

/// Where a log ends: its last segment with a frame, and the first segment that is needed.
struct End {
    newest: u32,
    identity: u64,
    floor: u32,
}

/// A segment read into memory.
struct Read {
    identity: u64,
    bytes: Vec<u8>,
    scan: Scan,
}

pub(super) fn attempt(source: &dyn Disk, to: &Path, closed_at: Option<u64>) -> Result<Copied, CopyError> {
    let mut end = last_written(source)?;
    let mut restarts = 0;
    let mut copied = Copied { segments: 0, bytes: 0 };
    let mut reached: Option<FrameEnd> = None;
    let mut number = end.floor;
    while number <= end.newest {
        let segment = match whole(source, number, &end, &reached) {
            Ok(segment) => segment,
            Err(error) => {
                end = last_written(source)?;
                if end.floor <= number {
                    return Err(error.into());
                }
                restarts += 1;
                if restarts == RESTARTS {
                    return Err(CopyError::Outrun(source.path("")));
                }
                // The segment was dropped meanwhile, and with it those copied so far.
                clear(to)?;
                (number, copied, reached) = (end.floor, Copied { segments: 0, bytes: 0 }, None);
                continue;
            }
        };
        let used = segment.scan.end.next_multiple_of(PAGE).min(segment.bytes.len());
        write(&to.join(file_name(number)), &segment.bytes[..used])?;
        copied = Copied { segments: copied.segments + 1, bytes: copied.bytes + used as u64 };
        if let Some(last) = segment.scan.last {
            reached = Some(FrameEnd { segment: number, end: segment.scan.end, sequence: last.sequence });
        }
        number += 1;
    }
    refuse_cut(source, reached.as_ref().map_or(0, |last| last.sequence), closed_at)?;
    sync_files(to)?;
    if let Some(reached) = reached {
        // With this note, a copy that is cut short later is not taken for whole.
        let noted = Directory::open(to).and_then(|copy| closing::write(&copy, reached.sequence));
        noted.map_err(|error| LogError::io("write", to, &error))?;
    }
    sync(to)?;
    Ok(copied)
}

/// Returns where the log ends. It is read from the last segment backwards, so everything committed before this call
/// is in segments up to the newest: those behind it were found empty.
fn last_written(source: &dyn Disk) -> Result<End, OpenError> {
    let numbers = numbers(source)?;
    let mut identity = None;
    for (index, &number) in numbers.iter().enumerate().rev() {
        let found = read_sound(source, number, identity)?;
        identity = Some(found.identity);
        if index == 0 || found.scan.last.is_some() {
            let floor = found.scan.last.map_or(number, |last| last.floor);
            return Ok(End { newest: number, identity: found.identity, floor });
        }
    }
    Err(LogError::io("list", &source.path(""), &io::ErrorKind::NotFound.into()).into())
}

/// Reads a segment with all its frames, and checks that they follow what was read before.
fn whole(source: &dyn Disk, number: u32, end: &End, reached: &Option<FrameEnd>) -> Result<Read, OpenError> {
    let segment = read_sound(source, number, Some(end.identity))?;
    match segment.scan.first {
        Some(first) => check_follows(source, reached, end.floor, first)?,
        None if number < end.newest => {
            return Err(damaged(
                source,
                number,
                FIRST_FRAME,
                "its first frame is not as it was written".into(),
            ));
        }
        None => {}
    }
    Ok(segment)
}

/// The numbers of all segment files, in ascending order.
fn numbers(source: &dyn Disk) -> Result<Vec<u32>, OpenError> {
    let names = source.list().map_err(|error| LogError::io("list", &source.path(""), &error))?;
    let mut numbers: Vec<u32> = names.iter().filter_map(|name| file_number(name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Reads a segment without a damaged frame before a sound one.
///
/// The owner may write a frame where this has read already, and then the next one where it has not yet: that looks like
/// damage. The first is there when it is read again, so it is damage only if nothing more is sound then.
fn read_sound(source: &dyn Disk, number: u32, expected: Option<u64>) -> Result<Read, OpenError> {
    let mut found = read(source, number, expected)?;
    while let Err(damage) = refuse_damage(source, number, &found) {
        let again = read(source, number, expected)?;
        if again.scan.end <= found.scan.end {
            return Err(damage);
        }
        found = again;
    }
    Ok(found)
}

fn read(source: &dyn Disk, number: u32, expected: Option<u64>) -> Result<Read, OpenError> {
    let bytes = contents(source, &file_name(number));
    let bytes = bytes.map_err(|error| LogError::io("read", &source.path(&file_name(number)), &error))?;
    let (identity, scan) = examine(source, number, expected, &bytes)?;
    Ok(Read { identity, bytes, scan })
}

fn contents(source: &dyn Disk, name: &str) -> io::Result<Vec<u8>> {
    let file = source.open_to_read(name)?;
    let mut bytes = vec![0; usize::try_from(file.size()?).unwrap_or(usize::MAX)];
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Refuses a segment in which a sound frame follows a damaged one: the damaged one must have been sound once.
fn refuse_damage(source: &dyn Disk, number: u32, segment: &Read) -> Result<(), OpenError> {
    let Read { identity, bytes, scan } = segment;
    match scan.later_frame(bytes, number, frame::seed(*identity, number)) {
        Some(later) => {
            let what =
                format!("a frame is not as it was written, but a later one at offset {later} is sound");
            Err(damaged(source, number, scan.end, what))
        }
        None => Ok(()),
    }
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), OpenError> {
    let written = create(path).and_then(|mut file| file.write_all(bytes));
    written.map_err(|error| LogError::io("write", path, &error).into())
}

/// Makes the contents of all files durable.
fn sync_files(to: &Path) -> Result<(), OpenError> {
    let synced = fs::read_dir(to)
        .and_then(|mut entries| entries.try_for_each(|entry| File::open(entry?.path())?.sync_all()));
    synced.map_err(|error| LogError::io("sync", to, &error).into())
}

/// Removes what an attempt has written.
fn clear(to: &Path) -> Result<(), OpenError> {
    let removed = fs::read_dir(to).and_then(|mut entries| {
        entries.try_for_each(|entry| match entry? {
            entry if entry.file_name() == UNFINISHED => Ok(()),
            entry => fs::remove_file(entry.path()),
        })
    });
    removed.map_err(|error| LogError::io("clear", to, &error).into())
}
