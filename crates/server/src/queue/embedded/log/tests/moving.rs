//! Copies of a log whose owner does, at each read, what hinders them most.

use std::collections::BTreeMap;
use std::sync::Mutex;

use tempfile::tempdir;

use super::super::copy::attempt;
use super::super::disk::Disk as _;
use super::super::segment::FIRST_FRAME;
use super::super::{Copied, CopyError};
use super::watched::{Step, WatchedDisk};
use super::*;

/// An owner of a log of three segments, and all that it ever wrote.
struct Writer {
    log: Log,
    written: Records,
}

impl Writer {
    fn on(disk: &SimulatedDisk) -> Self {
        let mut writer = Self { log: open_simulated(disk).unwrap().0, written: Records::new() };
        writer.turn();
        writer
    }

    /// Fills another segment and drops the oldest.
    fn turn(&mut self) {
        while self.log.segments() < 4 {
            self.written.extend(fill(&mut self.log, 1, 1000));
        }
        self.log.drop_oldest().unwrap();
        // That it is dropped is durable with the next frame.
        self.written.extend(fill(&mut self.log, 1, 1000));
    }
}

/// Copies a log whose owner turns it before each of so many reads; what the owner had written already, and in all.
fn copy_beside(turns: usize, place: &Path) -> (usize, Records, Result<Copied, CopyError>) {
    let disk = SimulatedDisk::new();
    let writer = Writer::on(&disk);
    let already = writer.written.len();
    let owner = Mutex::new((writer, turns));
    let before = |_: Step, _: &str| {
        let (writer, turns) = &mut *owner.lock().unwrap();
        if *turns > 0 {
            *turns -= 1;
            writer.turn();
        }
    };
    let copied = attempt(&WatchedDisk { disk, before: &before }, place, None);
    let (writer, _) = owner.into_inner().unwrap();
    (already, writer.written, copied)
}

#[test]
fn a_copy_begins_anew_where_what_it_needs_is_dropped_and_is_whole() {
    for turns in 0..20 {
        let place = tempdir().unwrap();
        let (already, written, copied) = copy_beside(turns, place.path());
        assert_eq!(copied.unwrap().segments, 3, "{turns} turns");
        let records = open(place.path()).unwrap().1;
        let start = written.iter().position(|record| *record == records[0]).unwrap();
        let end = start + records.len();
        assert!(written[start..end] == records, "{turns} turns: something is missing");
        assert!(end >= already, "{turns} turns: {end} of {already} written already");
    }
}

#[test]
fn a_copy_that_never_catches_up_is_given_up() {
    let place = tempdir().unwrap();
    let (_, _, copied) = copy_beside(10_000, place.path());
    assert!(matches!(copied, Err(CopyError::Outrun(_))), "{copied:?}");
}

/// The first of two reads of a file finds no frame where one is written while it goes on, and the next frame behind it.
#[test]
fn a_frame_that_is_written_while_its_segment_is_read_is_not_damaged() {
    const GAP: [u8; 100] = [0; 100];
    let disk = SimulatedDisk::new();
    let (mut log, _) = open_simulated(&disk).unwrap();
    let written = fill(&mut log, 60, 1000);
    let gaps = Mutex::new(BTreeMap::new());
    let before = |_: Step, name: &str| {
        let (file, at) = (disk.open(name).unwrap(), FIRST_FRAME as u64 + 2048);
        let mut gaps = gaps.lock().unwrap();
        let frame: Option<[u8; 100]> = gaps.remove(name);
        if frame.is_none() {
            let mut frame = GAP;
            file.read_at(&mut frame, at).unwrap();
            gaps.insert(name.to_owned(), frame);
        }
        file.write_at(&frame.unwrap_or(GAP), at).unwrap();
    };
    let place = tempdir().unwrap();
    attempt(&WatchedDisk { disk: disk.clone(), before }, place.path(), None).unwrap();
    assert!(open(place.path()).unwrap().1 == written);
}
