//! The few file operations that the log needs, as traits so that tests can use a disk that fails.
//!
//! Two small traits instead of generics: a dynamic call costs nothing beside a system call, and the log's own types
//! stay plain. The real disk is a directory of files.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, FileExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{
    AtFlags, Dir, FallocateFlags, Mode, OFlags, fallocate, fsync, open, openat, renameat, unlinkat,
};
use rustix::io::retry_on_intr;

/// Mode of a log's files: messages are private, so files, and a directory made for them, belong to their owner alone.
pub(super) const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

/// An open file.
pub type Handle = Arc<dyn DiskFile>;

/// A flat directory of files.
pub trait Disk: Send + Sync {
    /// Returns the path of the file of that name, for messages.
    fn path(&self, name: &str) -> PathBuf;
    /// Returns the names of all files.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Makes an empty file, and replaces one of that name.
    fn create(&self, name: &str) -> io::Result<Handle>;
    /// Opens an existing file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Handle>;
    /// Opens an existing file for reading only, which works even where nothing can be written any more.
    fn open_to_read(&self, name: &str) -> io::Result<Handle> {
        self.open(name)
    }
    /// Gives a file another name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Deletes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes changes of names durable.
    fn sync(&self) -> io::Result<()>;
}

/// One open file, read and written by position.
pub trait DiskFile: Send + Sync {
    /// Returns the file's size in bytes.
    fn size(&self) -> io::Result<u64>;
    /// Reads up to `buffer.len()` bytes; fewer only at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all of `bytes`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Makes the contents durable, and the size where it changed.
    fn sync(&self) -> io::Result<()>;
    /// Claims disk space for the first `bytes` bytes, growing the file to that size.
    fn allocate(&self, bytes: u64) -> io::Result<()>;
    /// Cuts the file to `bytes` bytes.
    fn truncate(&self, bytes: u64) -> io::Result<()>;
}

/// A directory of the operating system. It stays the one that was opened, whatever its path leads to later: if the
/// directory is moved away under a running server, all files are in it and none in what has taken its place.
pub(super) struct Directory {
    pub(super) path: PathBuf,
    pub(super) place: OwnedFd,
}

impl Directory {
    /// An existing directory.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { path: path.to_owned(), place: retry_on_intr(|| open(path, flags, Mode::empty()))? })
    }

    /// Opens a file in the directory; one that is made belongs to its owner alone.
    pub(super) fn file(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let (flags, mode) = (flags | OFlags::CLOEXEC, Mode::from_raw_mode(FILE_MODE));
        Ok(retry_on_intr(|| openat(&self.place, name, flags, mode))?.into())
    }
}

impl Disk for Directory {
    fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Dir::read_from(&self.place)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect()
    }

    fn create(&self, name: &str) -> io::Result<Handle> {
        Ok(Arc::new(self.file(name, OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC)?))
    }

    fn open(&self, name: &str) -> io::Result<Handle> {
        Ok(Arc::new(self.file(name, OFlags::RDWR)?))
    }

    fn open_to_read(&self, name: &str) -> io::Result<Handle> {
        Ok(Arc::new(self.file(name, OFlags::RDONLY)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&self.place, from, &self.place, to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.place, name, AtFlags::empty())?)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(retry_on_intr(|| fsync(&self.place))?)
    }
}

impl DiskFile for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match FileExt::read_at(self, &mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        match fallocate(self, FallocateFlags::empty(), 0, bytes) {
            // Such a file system cannot claim space ahead: the zeros written next claim it.
            Err(rustix::io::Errno::OPNOTSUPP) => Ok(()),
            done => Ok(done?),
        }
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)
    }
}

/// Makes the directory with all its parents, durably. If it is new, only its owner may enter it.
pub(super) fn make_directory(path: &Path) -> io::Result<()> {
    let mut missing =
        path.ancestors().take_while(|ancestor| !ancestor.as_os_str().is_empty() && !ancestor.exists());
    let parents: Vec<&Path> = missing.by_ref().filter_map(Path::parent).collect();
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(DIRECTORY_MODE).create(path) {
        Err(error) if !path.is_dir() => return Err(error),
        _ => {}
    }
    for parent in parents {
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        File::open(parent)?.sync_all()?;
    }
    Ok(())
}
