//! Round trips, reads, locking, versions and failed syncs.

use std::fs;

use tempfile::tempdir;

use super::*;

#[test]
fn every_committed_record_is_replayed_in_order_over_many_segments() {
    let directory = tempdir().unwrap();
    let (mut log, found) = open(directory.path()).unwrap();
    assert!(found.is_empty());
    let mut written = fill(&mut log, 300, 250);
    written.extend(fill(&mut log, 3, 0));
    assert!(log.segments() > 5);
    drop(log);
    let (mut log, found) = open(directory.path()).unwrap();
    assert_eq!(found, written);
    written.extend(fill(&mut log, 100, 100));
    drop(log);
    assert_eq!(open(directory.path()).unwrap().1, written);
}

#[test]
fn records_can_be_read_before_they_are_durable_and_from_every_segment_after() {
    let directory = tempdir().unwrap();
    let (mut log, _) = open(directory.path()).unwrap();
    log.reserve(100, Purpose::Add).unwrap();
    let at = log.append_parts(&[b"half", b" and half"]);
    assert_eq!(log.read(at, 13).unwrap(), b"half and half");
    let written = fill(&mut log, 200, 777);
    for _ in 0..2 {
        for (at, record) in &written {
            assert_eq!(log.read(*at, 777).unwrap(), record);
        }
        drop(log);
        log = open(directory.path()).unwrap().0;
    }
}

#[test]
fn a_record_that_crosses_blocks_or_is_longer_than_one_is_read_whole() {
    let directory = tempdir().unwrap();
    let (mut log, _) = open(directory.path()).unwrap();
    let mut written = Records::new();
    log.reserve(400_000, Purpose::Add).unwrap();
    for bytes in [60_000, 10_000, 200_000, 3] {
        let record: Vec<u8> = (0..bytes).map(|at: usize| at.to_le_bytes()[0]).collect();
        written.push((log.append(&record), record));
    }
    commit(&mut log).unwrap();
    fill(&mut log, 200, 1000);
    assert!(log.oldest().is_some());
    for (at, record) in &written {
        assert_eq!(log.read(*at, u32::try_from(record.len()).unwrap()).unwrap(), record);
    }
}

#[test]
fn reading_what_is_not_there_is_an_error_that_names_file_and_offset() {
    let directory = tempdir().unwrap();
    let (mut log, _) = open(directory.path()).unwrap();
    let written = fill(&mut log, 100, 250);
    for (at, _) in [written[0].clone(), written[99].clone()] {
        for wrong in [Location { offset: at.offset + 1, ..at }, Location { offset: 3, ..at }] {
            assert!(matches!(log.read(wrong, 250), Err(LogError::Damaged { .. })));
        }
        assert!(matches!(log.read(at, 249), Err(LogError::Damaged { .. })));
        assert!(log.read(at, 250).is_ok());
    }
    let error = log.read(Location { segment: 1, offset: 5000 }, 1).unwrap_err().to_string();
    assert!(error.contains("0000000001.log is damaged at offset 5000"), "{error}");
}

#[test]
fn a_commit_that_was_never_synced_leaves_nothing_behind() {
    let directory = tempdir().unwrap();
    let (mut log, _) = open(directory.path()).unwrap();
    let written = fill(&mut log, 3, 100);
    log.reserve(100, Purpose::Add).unwrap();
    log.append(b"not sealed");
    drop(log);
    assert_eq!(open(directory.path()).unwrap().1, written);
}

#[test]
fn only_one_commit_is_under_way_and_what_comes_meanwhile_goes_into_the_next() {
    let directory = tempdir().unwrap();
    let (mut log, _) = open(directory.path()).unwrap();
    log.reserve(100, Purpose::Add).unwrap();
    assert!(log.seal().is_none());
    log.append(b"first");
    let mut frame = log.seal().unwrap();
    let mut written = Records::new();
    for number in 0..50_u8 {
        let record = vec![number; 1000];
        log.reserve(1016, Purpose::Add).unwrap();
        written.push((log.append(&record), record));
        assert!(log.seal().is_none());
    }
    for (at, record) in &written {
        assert_eq!(log.read(*at, 1000).unwrap(), record);
    }
    let result = frame.sync();
    log.committed(frame, &result);
    commit(&mut log).unwrap();
    for (at, record) in &written {
        assert_eq!(log.read(*at, 1000).unwrap(), record);
    }
    drop(log);
    let found = open(directory.path()).unwrap().1;
    assert_eq!(found[0].1, b"first");
    assert_eq!(found[1..], written);
}

#[test]
fn a_sealed_record_can_be_read_before_it_is_written_even_when_the_log_moved_on() {
    let directory = tempdir().unwrap();
    let (mut log, _) = open(directory.path()).unwrap();
    log.reserve(100, Purpose::Add).unwrap();
    let at = log.append(b"first");
    let mut frame = log.seal().unwrap();
    log.reserve(SMALL.segment_bytes - 4096 - 64, Purpose::Add).unwrap();
    assert_eq!(log.segments(), 2);
    assert_eq!(log.oldest(), None);
    assert_eq!(log.read(at, 5).unwrap(), b"first");
    let result = frame.sync();
    log.committed(frame, &result);
    assert_eq!(log.oldest(), Some(1));
    assert_eq!(log.read(at, 5).unwrap(), b"first");
}

#[test]
fn a_second_opener_is_told_who_holds_the_directory() {
    let directory = tempdir().unwrap();
    let (log, _) = open(directory.path()).unwrap();
    let held = OpenError::Locked { directory: directory.path().to_owned(), pid: Some(std::process::id()) };
    assert_eq!(open(directory.path()).err(), Some(held));
    drop(log);
    assert!(open(directory.path()).is_ok());
}

#[test]
fn who_removes_the_lock_lets_nobody_in() {
    let directory = tempdir().unwrap();
    let (log, _) = open(directory.path()).unwrap();
    std::fs::remove_file(directory.path().join("lock")).unwrap();
    for _ in 0..2 {
        assert!(matches!(open(directory.path()), Err(OpenError::Locked { .. })));
    }
    drop(log);
    assert!(open(directory.path()).is_ok());
}

/// An owner to which the record at one place makes no sense.
struct Refusing(Location);

impl Owner for Refusing {
    fn replay(&mut self, at: Location, _: &[u8]) -> Result<(), String> {
        if at == self.0 { Err("unknown kind 7".to_owned()) } else { Ok(()) }
    }
}

/// An owner to which all records together make no sense.
struct RefusingAll;

impl Owner for RefusingAll {
    fn replay(&mut self, _: Location, _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        Err("they do not add up".to_owned())
    }
}

#[test]
fn a_record_the_owner_cannot_use_stops_the_opening_at_its_place() {
    let directory = tempdir().unwrap();
    let (mut log, _) = open(directory.path()).unwrap();
    let written = fill(&mut log, 3, 100);
    drop(log);
    let mut owner = Refusing(written[1].0);
    let error = Log::open(directory.path(), SMALL, &mut owner).err().unwrap().to_string();
    assert!(error.contains(&format!("offset {}: unknown kind 7", written[1].0.offset)), "{error}");
}

#[test]
fn records_that_make_no_sense_together_stop_the_opening_and_nothing_is_changed() {
    let directory = tempdir().unwrap();
    let (mut log, _) = open(directory.path()).unwrap();
    fill(&mut log, 3, 100);
    drop(log);
    let files = || {
        let entries = std::fs::read_dir(directory.path()).unwrap().map(Result::unwrap);
        let read = entries.map(|entry| (entry.file_name(), std::fs::read(entry.path()).unwrap()));
        read.filter(|(name, _)| name != "lock").collect::<std::collections::BTreeMap<_, _>>()
    };
    let before = files();
    let error = Log::open(directory.path(), SMALL, &mut RefusingAll).err().unwrap().to_string();
    assert!(error.contains("they do not add up"), "{error}");
    assert!(files() == before);
}

#[test]
fn after_a_failed_sync_nothing_is_accepted_until_the_log_is_opened_again() {
    let disk = SimulatedDisk::new();
    let (mut log, _) = open_simulated(&disk).unwrap();
    let mut written = fill(&mut log, 3, 100);
    log.reserve(100, Purpose::Add).unwrap();
    written.push((log.append(b"in doubt"), b"in doubt".to_vec()));
    disk.fail_next_sync();
    assert!(matches!(commit(&mut log), Err(LogError::Io { action: "sync", .. })));
    assert!(matches!(log.reserve(1, Purpose::Reclaim), Err(LogError::Failed { .. })));
    assert!(matches!(log.drop_oldest(), Err(LogError::Failed { .. })));
    log.append(b"in vain");
    assert!(log.seal().is_none());
    assert_eq!(log.read(written[0].0, 100).unwrap(), written[0].1);
    drop(log);
    assert_eq!(open_simulated(&disk.after_kill()).unwrap().1, written);
}

#[test]
fn what_is_durable_can_be_read_where_nothing_can_be_written_any_more() {
    let disk = SimulatedDisk::new();
    let (mut log, _) = open_simulated(&disk).unwrap();
    let written = fill(&mut log, 100, 777);
    assert!(log.segments() > 2);
    disk.cut_after(0);
    log.append(b"in doubt");
    assert!(commit(&mut log).is_err());
    for (at, record) in &written {
        assert_eq!(log.read(*at, 777).unwrap(), record);
    }
}

/// If the directory is moved away, all files are in it, and none in what has taken its place.
#[test]
fn a_log_stays_in_its_directory_when_that_is_moved_and_another_takes_its_place() {
    let place = tempdir().unwrap();
    let [here, away] = ["here", "away"].map(|name| place.path().join(name));
    let (mut log, _) = open(&here).unwrap();
    let mut written = fill(&mut log, 30, 1000);
    std::fs::rename(&here, &away).unwrap();
    let (mut other, _) = open(&here).unwrap();
    let others = fill(&mut other, 3, 1000);
    written.extend(fill(&mut log, 60, 1000));
    log.drop_oldest().unwrap();
    written.retain(|(at, _)| at.segment > 1);
    commit(&mut log).unwrap();
    for (at, record) in &written {
        assert_eq!(log.read(*at, 1000).unwrap(), record);
    }
    drop((log, other));
    assert_eq!(open(&here).unwrap().1, others);
    assert_eq!(open(&away).unwrap().1, written);
}

/// A file system that never writes in place may lack space for what was reserved.
#[test]
fn a_frame_that_finds_no_space_is_told_as_what_it_is_and_a_restart_helps() {
    let disk = SimulatedDisk::new();
    let (mut log, _) = open_simulated(&disk).unwrap();
    let written = fill(&mut log, 3, 100);
    disk.refuse_writes();
    log.reserve(100, Purpose::Add).unwrap();
    log.append(b"in doubt");
    assert!(matches!(commit(&mut log), Err(LogError::Io { action: "write", .. })));
    let refused = log.reserve(1, Purpose::Reclaim).unwrap_err().to_string();
    assert!(refused.contains("no storage space") && refused.contains("restart"), "{refused}");
    drop(log);
    assert_eq!(open_simulated(&disk.after_kill()).unwrap().1, written);
}

#[test]
fn a_frame_that_opening_accepts_stays_even_if_its_sync_had_failed() {
    let disk = SimulatedDisk::new();
    let (mut log, _) = open_simulated(&disk).unwrap();
    let mut written = fill(&mut log, 3, 100);
    log.reserve(100, Purpose::Add).unwrap();
    written.push((log.append(b"in doubt"), b"in doubt".to_vec()));
    disk.fail_next_sync();
    assert!(commit(&mut log).is_err());
    let disk = disk.after_kill();
    assert_eq!(open_simulated(&disk).unwrap().1, written);
    let disk = disk.after_power_cut(&mut fastrand::Rng::with_seed(1));
    assert_eq!(open_simulated(&disk).unwrap().1, written);
}

#[test]
fn a_reservation_beyond_the_limit_is_refused() {
    let directory = tempdir().unwrap();
    let (mut log, _) = open(directory.path()).unwrap();
    assert!(matches!(log.reserve(u64::MAX, Purpose::Reclaim), Err(LogError::TooBig { .. })));
}

#[test]
fn a_log_is_begun_where_a_first_start_has_ended_and_not_among_the_files_of_others() {
    let directory = tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    for left in ["lock", "closed", "0000000001.new"] {
        fs::write(path(left), "").unwrap();
    }
    fs::create_dir(path("lost+found")).unwrap();
    fs::write(path("passwd"), "").unwrap();
    let occupied = OpenError::Occupied { directory: directory.path().to_owned(), name: "passwd".to_owned() };
    assert_eq!(open(directory.path()).err(), Some(occupied));
    assert_eq!(fs::read(path("lock")).unwrap(), b"", "nothing was changed");
    fs::remove_file(path("passwd")).unwrap();
    drop(open(directory.path()).unwrap());
    // Whatever was put beside a log since.
    fs::write(path("passwd"), "").unwrap();
    drop(open(directory.path()).unwrap());
}
