//! A small cache of the blocks of old segments that are read.
//!
//! Queues are drained in the order they were filled, so one block of 64 KiB serves hundreds of reads with one
//! system call. Sealed segments never change and numbers are never used twice: nothing is ever invalidated.
//! Mapping the files instead would turn a disk error into a signal that kills the process.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Location;
use super::disk::{Disk, Handle};
use super::error::LogError;
use super::frame::{RECORD_HEADER, check_record};
use super::segment::file_name;

const BLOCK: usize = 64 << 10;
const BLOCKS: usize = 64;
const FILES: usize = 16;

/// Most bytes of memory kept for the next record that lies in more than one block.
const WHOLE_BYTES_KEPT: usize = 1 << 20;

/// The cache: at most 4 MiB and 16 open files.
pub(super) struct Blocks {
    disk: Arc<dyn Disk>,
    /// Segment and block number of each block.
    keys: Vec<(u32, usize)>,
    blocks: Vec<Block>,
    /// Index of the block that is considered next for replacement.
    hand: usize,
    files: VecDeque<(u32, Handle)>,
    /// A record that lies in more than one block.
    whole: Vec<u8>,
}

#[derive(Default)]
struct Block {
    bytes: Vec<u8>,
    used: bool,
}

impl Blocks {
    /// An empty cache.
    pub(super) fn new(disk: Arc<dyn Disk>) -> Self {
        Self {
            disk,
            keys: Vec::new(),
            blocks: Vec::new(),
            hand: 0,
            files: VecDeque::new(),
            whole: Vec::new(),
        }
    }

    /// The payload of a record in a sealed segment.
    pub(super) fn read(&mut self, at: Location, len: u32, seed: u32) -> Result<&[u8], LogError> {
        let damaged = |disk: &dyn Disk| LogError::Damaged {
            file: disk.path(&file_name(at.segment)),
            offset: at.offset.into(),
        };
        let start = (at.offset as usize).checked_sub(RECORD_HEADER).ok_or_else(|| damaged(&*self.disk))?;
        let end = start + RECORD_HEADER + len as usize;
        if self.whole.capacity() > WHOLE_BYTES_KEPT {
            self.whole = Vec::new();
        }
        let bytes = if start / BLOCK == (end - 1) / BLOCK {
            let slot = self.block(at.segment, start / BLOCK)?;
            self.blocks[slot].bytes.get(start % BLOCK..).unwrap_or_default()
        } else {
            self.load_whole(at.segment, start, end)?;
            &self.whole
        };
        check_record(bytes, len, seed).ok_or_else(|| damaged(&*self.disk))
    }

    /// Returns whether `read` would find the record in the cache.
    pub(super) fn holds(&self, at: Location, len: u32) -> bool {
        let Some(start) = (at.offset as usize).checked_sub(RECORD_HEADER) else { return false };
        let (first, last) = (start / BLOCK, (at.offset as usize + len as usize - 1) / BLOCK);
        first == last && self.keys.contains(&(at.segment, first))
    }

    /// Closes a segment's file, so that its space is freed when the file is deleted.
    pub(super) fn close(&mut self, segment: u32) {
        self.files.retain(|(number, _)| *number != segment);
    }

    /// Reads a record that lies in more than one block, without the cache.
    fn load_whole(&mut self, segment: u32, start: usize, end: usize) -> Result<(), LogError> {
        let file = self.file(segment)?;
        let mut whole = std::mem::take(&mut self.whole);
        whole.resize(end - start, 0);
        let read = self.fill(segment, &file, &mut whole, start)?;
        whole.truncate(read);
        self.whole = whole;
        Ok(())
    }

    /// Returns the slot that holds a block, which is read first if it is not in the cache.
    fn block(&mut self, segment: u32, number: usize) -> Result<usize, LogError> {
        let slot = match self.keys.iter().position(|key| *key == (segment, number)) {
            Some(slot) => slot,
            None => self.load(segment, number)?,
        };
        self.blocks[slot].used = true;
        Ok(slot)
    }

    fn load(&mut self, segment: u32, number: usize) -> Result<usize, LogError> {
        let file = self.file(segment)?;
        let slot = self.free_slot();
        let mut bytes = std::mem::take(&mut self.blocks[slot].bytes);
        bytes.resize(BLOCK, 0);
        let read = self.fill(segment, &file, &mut bytes, number * BLOCK)?;
        bytes.truncate(read);
        self.blocks[slot].bytes = bytes;
        self.keys[slot] = (segment, number);
        Ok(slot)
    }

    /// Returns a slot for a new block: an empty one, else the first after `hand` not used since `hand` last passed it.
    fn free_slot(&mut self) -> usize {
        /// Segments count from 1, so nothing is ever found under this key.
        const NOTHING: (u32, usize) = (0, 0);
        if self.blocks.len() < BLOCKS {
            self.blocks.push(Block::default());
            self.keys.push(NOTHING);
            return self.blocks.len() - 1;
        }
        while std::mem::take(&mut self.blocks[self.hand].used) {
            self.hand = (self.hand + 1) % BLOCKS;
        }
        let slot = self.hand;
        self.keys[slot] = NOTHING;
        self.hand = (self.hand + 1) % BLOCKS;
        slot
    }

    /// Returns the open file of a sealed segment, for reading.
    pub(super) fn file(&mut self, segment: u32) -> Result<Handle, LogError> {
        if let Some((_, file)) = self.files.iter().find(|(number, _)| *number == segment) {
            return Ok(file.clone());
        }
        let name = file_name(segment);
        let file = self
            .disk
            .open_to_read(&name)
            .map_err(|error| LogError::io("open", &self.disk.path(&name), &error))?;
        if self.files.len() == FILES {
            self.files.pop_front();
        }
        self.files.push_back((segment, file.clone()));
        Ok(file)
    }

    fn fill(&self, segment: u32, file: &Handle, buffer: &mut [u8], at: usize) -> Result<usize, LogError> {
        file.read_at(buffer, at as u64)
            .map_err(|error| LogError::io("read", &self.disk.path(&file_name(segment)), &error))
    }
}
