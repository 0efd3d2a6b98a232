//! Torn frames are dropped, damage is reported, and nothing in between.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;

use tempfile::tempdir;

use super::*;

/// The directory of a log whose process was killed after its last commit.
fn killed_after_commits(disk: &SimulatedDisk) -> Records {
    let (mut log, _) = open_simulated(disk).unwrap();
    let written = fill(&mut log, 150, 250);
    std::mem::forget(log);
    written
}

#[test]
fn a_frame_torn_at_any_byte_is_dropped_and_all_before_it_is_kept() {
    let directory = tempdir().unwrap();
    let (mut log, _) = open(directory.path()).unwrap();
    let written = fill(&mut log, 20, 250);
    // No orderly end: what is copied is what a killed process leaves.
    let (last, before) = written.split_last().unwrap();
    let name = format!("{:010}.log", last.0.segment);
    let whole = fs::read(directory.path().join(&name)).unwrap();
    let start = last.0.offset as usize - 40;
    for torn_at in start..start + 40 + 250 {
        let copy = tempdir().unwrap();
        let mut torn = whole.clone();
        torn[torn_at..start + 296].fill(0xEE);
        fs::write(copy.path().join(&name), &torn).unwrap();
        let (mut log, found) = open(copy.path()).unwrap();
        assert_eq!(found, before, "torn at {torn_at}");
        if torn_at % 50 == 0 {
            let next = fill(&mut log, 1, 10);
            drop(log);
            assert_eq!(open(copy.path()).unwrap().1, [before, &next].concat());
        }
    }
}

#[test]
fn any_changed_byte_in_a_closed_log_is_reported_or_does_no_harm() {
    let disk = SimulatedDisk::new();
    let (mut log, _) = open_simulated(&disk).unwrap();
    let written = fill(&mut log, 70, 250);
    drop(log);
    let mut rng = fastrand::Rng::with_seed(7);
    let mut reported = 0;
    for (name, bytes) in disk.files() {
        for offset in (0..bytes.len()).step_by(3) {
            let copy = disk.after_kill();
            copy.flip(&name, offset, 1 << rng.u8(..8));
            match open_simulated(&copy) {
                Ok((_, found)) => assert_eq!(found, written, "{name} at {offset}"),
                Err(OpenError::Damaged { .. } | OpenError::Version { .. }) => reported += 1,
                Err(other) => panic!("{other}"),
            }
        }
    }
    let used: usize = written.iter().map(|(_, record)| record.len() + 40).sum();
    assert!(reported >= used / 3, "{reported} of {used} bytes");
}

#[test]
fn a_changed_byte_in_a_record_is_reported_by_its_read_and_by_the_sweep() {
    let disk = SimulatedDisk::new();
    let (mut log, _) = open_simulated(&disk).unwrap();
    let written = fill(&mut log, 100, 250);
    let (at, _) = written[3];
    let neighbor = written[4].0;
    disk.flip("0000000001.log", at.offset as usize + 249, 0x10);
    assert!(matches!(log.read(at, 250), Err(LogError::Damaged { .. })));
    assert!(log.read(neighbor, 250).is_ok());
    let error = sweep(&mut log, 1000).unwrap_err();
    assert!(
        matches!(error, LogError::Damaged { offset, .. } if offset + 40 == u64::from(at.offset)),
        "{error}"
    );
}

#[test]
fn a_lost_file_or_one_of_another_log_is_reported_by_name() {
    let disk = SimulatedDisk::new();
    killed_after_commits(&disk);
    let other = SimulatedDisk::new();
    killed_after_commits(&other);
    for number in 1..=3 {
        let name = format!("{number:010}.log");
        for foreign in [false, true] {
            let copy = disk.after_kill();
            super::super::disk::Disk::remove(&copy, &name).unwrap();
            if foreign {
                copy.copy_from(&other, &name);
            }
            let error = open_simulated(&copy).err().unwrap();
            assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
            assert!(error.to_string().contains(&name), "{error}");
        }
    }
}

#[test]
fn an_oldest_file_that_is_lost_is_noticed_even_after_others_were_dropped() {
    let disk = SimulatedDisk::new();
    let (mut log, _) = open_simulated(&disk).unwrap();
    fill(&mut log, 150, 250);
    log.drop_oldest().unwrap();
    commit(&mut log).unwrap();
    drop(log);
    super::super::disk::Disk::remove(&disk, "0000000002.log").unwrap();
    let error = open_simulated(&disk).err().unwrap().to_string();
    assert!(error.contains("0000000002.log is damaged at offset 0: the file is missing"), "{error}");
}

#[test]
fn damage_changes_nothing_on_the_disk() {
    let disk = SimulatedDisk::new();
    let written = killed_after_commits(&disk);
    disk.flip("0000000001.log", written[0].0.offset as usize, 1);
    let before = disk.files();
    assert!(open_simulated(&disk).is_err());
    assert!(disk.files() == before);
}

#[test]
fn another_format_is_refused_by_its_number() {
    let directory = tempdir().unwrap();
    drop(open(directory.path()).unwrap());
    let path = directory.path().join("0000000001.log");
    let mut header = fs::read(&path).unwrap()[..32].to_vec();
    header[8] = 9;
    let checksum = crc32c::crc32c(&header[..28]);
    header[28..].copy_from_slice(&checksum.to_le_bytes());
    OpenOptions::new().write(true).open(&path).unwrap().write_all_at(&header, 0).unwrap();
    for name in ["0000000002.log", "0000000003.log"] {
        let _ = fs::remove_file(directory.path().join(name));
    }
    assert_eq!(open(directory.path()).err(), Some(OpenError::Version { file: path, found: 9, supported: 1 }));
}

#[test]
fn a_file_that_ends_before_its_first_frame_is_not_taken_for_an_empty_one() {
    let home = tempdir().unwrap();
    let (mut log, _) = open(home.path()).unwrap();
    fill(&mut log, 1, 100);
    std::mem::forget(log);
    let file = home.path().join("0000000001.log");
    let whole = fs::read(&file).unwrap();
    for length in [0, 31, 32, 4095] {
        let copy = tempdir().unwrap();
        fs::write(copy.path().join("0000000001.log"), &whole[..length]).unwrap();
        let refused = open(copy.path()).err().map(|error| error.to_string());
        assert!(refused.is_some_and(|text| text.contains("ends before its first frame")), "{length}");
    }
}

#[test]
fn a_body_shaped_like_a_later_frame_does_not_pass_for_one() {
    let disk = SimulatedDisk::new();
    let (mut log, _) = open_simulated(&disk).unwrap();
    let first = fill(&mut log, 1, 100);
    let seed = super::super::frame::seed(0, 1);
    let forged = super::super::frame::Header::of(b"", 1, 1000, 1, seed).encode(seed);
    log.reserve(200, Purpose::Add).unwrap();
    let at = log.append(&[&forged[..]; 5].concat());
    commit(&mut log).unwrap();
    std::mem::forget(log);
    disk.flip("0000000001.log", at.offset as usize - 9, 1);
    assert_eq!(open_simulated(&disk).unwrap().1, first);
}

#[test]
fn a_log_that_was_closed_is_not_opened_when_its_end_is_missing() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let (mut log, _) = open(home.path()).expect("a new log");
    let records = fill(&mut log, 20, 100);
    drop(log);
    let file = home.path().join("0000000001.log");
    let whole = std::fs::read(&file).expect("the segment");
    let last = &records.last().expect("records").0;
    for cut in [
        whole[..last.offset as usize - 200].to_vec(),
        [&whole[..last.offset as usize - 200], &vec![0; 4096]].concat(),
    ] {
        std::fs::write(&file, cut).expect("a cut file");
        let refused = open(home.path()).map(|_| ()).expect_err("acknowledged records are missing");
        assert!(refused.to_string().contains("closed after frame"), "{refused}");
    }
    std::fs::remove_file(&file).expect("the segment");
    assert!(open(home.path()).is_err(), "nothing is left of a log that held records");
    std::fs::write(&file, whole).expect("the segment");
    let (_, replayed) = open(home.path()).expect("it is whole again");
    assert_eq!(replayed, records);
}
