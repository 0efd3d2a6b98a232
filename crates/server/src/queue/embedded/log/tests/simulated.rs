//! A disk in memory that loses power, fills up and fails to sync, decided by the test.
//!
//! It keeps what is durable apart from what a reader sees. A power cut keeps what was synced, and of the rest a
//! random choice of 512-byte sectors and the first few changes of names.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use fastrand::Rng;

use super::super::disk::{Disk, DiskFile, Handle};

const SECTOR: usize = 512;

#[derive(Clone)]
pub(super) struct SimulatedDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Clone)]
struct State {
    files: Vec<Contents>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    renames: Vec<Rename>,
    capacity: u64,
    /// Number of changes until the power goes off; None: it stays on.
    changes_left: Option<u64>,
    fail_next_sync: bool,
    refuses_writes: bool,
    refuses_files: bool,
    refuses_removals: bool,
}

#[derive(Clone, Default)]
struct Contents {
    seen: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<(usize, Vec<u8>)>,
}

/// A change of names: what disappears, what appears.
type Rename = (Option<String>, Option<(String, usize)>);

struct OpenFile {
    disk: SimulatedDisk,
    id: usize,
}

impl SimulatedDisk {
    pub(super) fn new() -> Self {
        let state = State {
            files: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            renames: Vec::new(),
            capacity: u64::MAX,
            changes_left: None,
            fail_next_sync: false,
            refuses_writes: false,
            refuses_files: false,
            refuses_removals: false,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Makes any other use of the disk wait until the returned value is dropped.
    pub(super) fn halt(&self) -> impl Drop {
        self.lock()
    }

    /// Sets how many bytes all files together may take.
    pub(super) fn set_capacity(&self, bytes: u64) {
        self.lock().capacity = bytes;
    }

    /// Returns the bytes of all files.
    pub(super) fn used(&self) -> u64 {
        self.lock().used()
    }

    pub(super) fn fail_next_sync(&self) {
        self.lock().fail_next_sync = true;
    }

    /// Makes every write fail for lack of space until a restart, even where something was written before.
    pub(super) fn refuse_writes(&self) {
        self.lock().refuses_writes = true;
    }

    /// Sets whether making a file fails, but not for lack of space.
    pub(super) fn refuse_files(&self, refuses: bool) {
        self.lock().refuses_files = refuses;
    }

    /// Makes every removal of a file fail.
    pub(super) fn refuse_removals(&self) {
        self.lock().refuses_removals = true;
    }

    /// Cuts the power after that many changes.
    pub(super) fn cut_after(&self, changes: u64) {
        self.lock().changes_left = Some(changes);
    }

    /// Returns the disk that a new process finds after the old one was killed.
    pub(super) fn after_kill(&self) -> Self {
        let mut state = self.lock().clone();
        state.changes_left = None;
        state.refuses_writes = false;
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Returns the disk that is found after a power cut.
    pub(super) fn after_power_cut(&self, rng: &mut Rng) -> Self {
        let mut state = self.lock().clone();
        state.changes_left = None;
        for file in &mut state.files {
            file.lose_power(rng);
        }
        state.names = state.durable_names.clone();
        let kept = rng.usize(..=state.renames.len());
        for rename in state.renames.drain(..).take(kept) {
            apply(&mut state.names, &rename);
        }
        state.durable_names = state.names.clone();
        state.forget_unnamed();
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// All files by name.
    pub(super) fn files(&self) -> Vec<(String, Vec<u8>)> {
        let state = self.lock();
        state.names.iter().map(|(name, &id)| (name.clone(), state.files[id].seen.clone())).collect()
    }

    /// Puts a copy of another disk's file on this one.
    pub(super) fn copy_from(&self, other: &Self, name: &str) {
        let contents = {
            let state = other.lock();
            state.files[state.names[name]].clone()
        };
        let mut state = self.lock();
        state.files.push(contents);
        let id = state.files.len() - 1;
        state.rename(None, Some((name, id)));
    }

    /// Changes one byte of a file, durably.
    pub(super) fn flip(&self, name: &str, offset: usize, mask: u8) {
        let mut state = self.lock();
        let id = state.names[name];
        state.files[id].seen[offset] ^= mask;
        state.files[id].durable = state.files[id].seen.clone();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Returns the state for a change, or an error once the power is off.
    fn change(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.lock();
        match &mut state.changes_left {
            Some(0) => return Err(io::Error::other("the power is off")),
            Some(left) => *left -= 1,
            None => {}
        }
        Ok(state)
    }

    fn handle(&self, id: usize) -> Handle {
        Arc::new(OpenFile { disk: self.clone(), id })
    }
}

impl State {
    fn used(&self) -> u64 {
        self.names.values().map(|&id| self.files[id].seen.len() as u64).sum()
    }

    /// Frees the memory of files that have no name any more, neither now nor after a power cut.
    fn forget_unnamed(&mut self) {
        for (id, file) in self.files.iter_mut().enumerate() {
            let named = |names: &BTreeMap<String, usize>| names.values().any(|named| *named == id);
            let to_be_named = |rename: &Rename| rename.1.as_ref().is_some_and(|(_, named)| *named == id);
            if !named(&self.names) && !named(&self.durable_names) && !self.renames.iter().any(to_be_named) {
                *file = Contents::default();
            }
        }
    }

    fn rename(&mut self, gone: Option<&str>, new: Option<(&str, usize)>) {
        let rename = (gone.map(str::to_owned), new.map(|(name, id)| (name.to_owned(), id)));
        apply(&mut self.names, &rename);
        self.renames.push(rename);
    }

    fn make_room(&self, id: usize, end: usize) -> io::Result<()> {
        let grown = end.saturating_sub(self.files[id].seen.len()) as u64;
        if grown > 0 && self.used() + grown > self.capacity {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

impl Contents {
    fn write(&mut self, bytes: &[u8], offset: usize) {
        put(&mut self.seen, bytes, offset);
        self.unsynced.push((offset, bytes.to_vec()));
    }

    fn lose_power(&mut self, rng: &mut Rng) {
        for (offset, bytes) in std::mem::take(&mut self.unsynced) {
            let mut at = offset;
            while at < offset + bytes.len() {
                let end = ((at / SECTOR + 1) * SECTOR).min(offset + bytes.len());
                if rng.bool() {
                    put(&mut self.durable, &bytes[at - offset..end - offset], at);
                }
                at = end;
            }
        }
        self.seen = self.durable.clone();
    }
}

fn put(contents: &mut Vec<u8>, bytes: &[u8], offset: usize) {
    let end = offset + bytes.len();
    contents.extend_from_slice(&vec![0; end.saturating_sub(contents.len())]);
    contents[offset..end].copy_from_slice(bytes);
}

fn apply(names: &mut BTreeMap<String, usize>, (gone, new): &Rename) {
    if let Some(gone) = gone {
        names.remove(gone);
    }
    names.extend(new.clone());
}

impl Disk for SimulatedDisk {
    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from("simulated").join(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.lock().names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<Handle> {
        let mut state = self.change()?;
        if state.refuses_files {
            return Err(io::Error::other("too many open files"));
        }
        state.files.push(Contents::default());
        let id = state.files.len() - 1;
        state.rename(None, Some((name, id)));
        Ok(self.handle(id))
    }

    fn open(&self, name: &str) -> io::Result<Handle> {
        if self.lock().changes_left == Some(0) {
            // A file system that has become read-only after an error does this.
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        self.open_to_read(name)
    }

    fn open_to_read(&self, name: &str) -> io::Result<Handle> {
        let id = self.lock().names.get(name).copied();
        id.map(|id| self.handle(id)).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.change()?;
        let id = *state.names.get(from).ok_or(io::ErrorKind::NotFound)?;
        state.rename(Some(from), Some((to, id)));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.change()?;
        if state.refuses_removals {
            return Err(io::Error::other("it stays"));
        }
        state.rename(Some(name), None);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.change()?;
        state.durable_names = state.names.clone();
        state.renames.clear();
        Ok(())
    }
}

impl DiskFile for OpenFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.disk.lock().files[self.id].seen.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.disk.lock();
        let rest = state.files[self.id].seen.get(usize::try_from(offset).unwrap()..).unwrap_or_default();
        let read = rest.len().min(buffer.len());
        buffer[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let offset = usize::try_from(offset).unwrap();
        let mut state = self.disk.change()?;
        if state.refuses_writes {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.make_room(self.id, offset + bytes.len())?;
        state.files[self.id].write(bytes, offset);
        // The power may go off during the write: the bytes may reach the disk in part, but the caller gets an error.
        if state.changes_left == Some(0) { Err(io::Error::other("the power went off")) } else { Ok(()) }
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.change()?;
        let failed = std::mem::take(&mut state.fail_next_sync);
        let file = &mut state.files[self.id];
        let unsynced = std::mem::take(&mut file.unsynced);
        if failed {
            // Linux does this: the pages count as clean, although the disk never got them.
            return Err(io::Error::other("the disk failed"));
        }
        for (offset, bytes) in unsynced {
            put(&mut file.durable, &bytes, offset);
        }
        Ok(())
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.disk.change()?;
        let bytes = usize::try_from(bytes).unwrap();
        state.make_room(self.id, bytes)?;
        let file = &mut state.files[self.id];
        let old = file.seen.len();
        if bytes > old {
            file.write(&vec![0; bytes - old], old);
        }
        Ok(())
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.disk.change()?;
        let bytes = usize::try_from(bytes).unwrap();
        let file = &mut state.files[self.id];
        file.seen.truncate(bytes);
        file.durable.truncate(bytes);
        file.unsynced.retain(|(offset, written)| offset + written.len() <= bytes);
        Ok(())
    }
}
