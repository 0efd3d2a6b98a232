//! Full disks, dropped segments and space given back.

use std::time::Duration;

use super::*;

/// Five files: one active, two ready, one kept, one to spare.
const ROOMY: u64 = 5 * SMALL.segment_bytes;

#[test]
fn a_full_disk_is_noticed_before_anything_changes_and_each_purpose_leaves_space_for_the_next() {
    let disk = SimulatedDisk::new();
    disk.set_capacity(3 * SMALL.segment_bytes + 100);
    let (mut log, _) = open_simulated(&disk).unwrap();
    assert_eq!(log.last_space(), None, "nobody knows yet");
    let mut written = Records::new();
    let mut last = u64::MAX;
    let steps = [
        (Purpose::Add, SMALL.segment_bytes - 4096),
        (Purpose::Lease, SMALL.segment_bytes / 2),
        (Purpose::Remove, SMALL.segment_bytes / 4),
        (Purpose::Empty, SMALL.segment_bytes / 8),
        (Purpose::Reclaim, 0),
    ];
    for (purpose, left) in steps {
        let before = written.len();
        let full = loop {
            match log.reserve(516, purpose) {
                Ok(()) => written.push((log.append(&[1; 500]), vec![1; 500])),
                Err(error) => break error,
            }
            commit(&mut log).unwrap();
        };
        assert!(matches!(full, LogError::Full { .. }), "{full}");
        assert!(written.len() > before, "{purpose:?}");
        last = log.last_space().expect("the disk is full");
        // Within the size of one record, or of what one more frame would add.
        assert!((left.saturating_sub(64)..left + 1100).contains(&last), "{purpose:?} left {last}");
        assert_eq!(log.segments(), if purpose == Purpose::Add { 2 } else { 3 });
    }
    assert!(matches!(log.reserve(last + 1, Purpose::Reclaim), Err(LogError::Full { .. })));
    log.reserve(last, Purpose::Reclaim).unwrap();
    drop(log);
    assert_eq!(open_simulated(&disk).unwrap().1, written);
}

#[test]
fn a_full_disk_accepts_records_again_once_segments_are_dropped_or_space_comes() {
    let disk = SimulatedDisk::new();
    disk.set_capacity(ROOMY);
    let (mut log, _) = open_simulated(&disk).unwrap();
    while log.reserve(1016, Purpose::Add).is_ok() {
        log.append(&[1; 1000]);
        commit(&mut log).unwrap();
    }
    log.drop_oldest().unwrap();
    assert!(matches!(log.reserve(1016, Purpose::Add), Err(LogError::Full { .. })));
    log.reserve(16, Purpose::Reclaim).unwrap();
    commit(&mut log).unwrap();
    log.reserve(1016, Purpose::Add).unwrap();
    while log.reserve(1016, Purpose::Add).is_ok() {
        log.append(&[1; 1000]);
        commit(&mut log).unwrap();
    }
    disk.set_capacity(2 * ROOMY);
    log.reserve(1016, Purpose::Add).unwrap();
}

/// After an error such as a lack of file descriptors it would not help to remove messages.
#[test]
fn a_disk_that_fails_otherwise_is_not_taken_for_full() {
    let disk = SimulatedDisk::new();
    let (mut log, _) = open_simulated(&disk).unwrap();
    fill(&mut log, 1, 8000);
    disk.cut_after(0);
    log.reserve(8000, Purpose::Add).unwrap();
    let failed = log.reserve(SMALL.segment_bytes, Purpose::Add).unwrap_err();
    assert!(matches!(failed, LogError::Io { .. }), "{failed}");
    assert_eq!(log.segments(), 2);
    assert_eq!(log.last_space(), None);
}

#[test]
fn what_keeps_a_segment_from_being_made_is_told_until_one_is_ready() {
    let disk = SimulatedDisk::new();
    let (mut log, _) = open_simulated(&disk).unwrap();
    disk.refuse_files(true);
    let failed = loop {
        if let Err(failed) = log.reserve(1016, Purpose::Add) {
            break failed;
        }
        log.append(&[1; 1000]);
        commit(&mut log).unwrap();
    };
    assert_eq!(log.lack(), Some(failed));
    disk.refuse_files(false);
    log.retry();
    assert_eq!(log.lack(), None);
    log.reserve(1016, Purpose::Add).unwrap();
}

#[test]
fn a_file_that_cannot_be_deleted_keeps_no_segment_from_being_made_ready() {
    let disk = SimulatedDisk::new();
    let (mut log, _) = open_simulated(&disk).unwrap();
    fill(&mut log, 8, 9000);
    disk.refuse_removals();
    for _ in 0..4 {
        log.drop_oldest().unwrap();
    }
    commit(&mut log).unwrap();
    fill(&mut log, 1, 9000);
    assert!(!log.has_no_space(SMALL.segment_bytes, Purpose::Add), "the next is ready, and the spare");
    assert_eq!(log.lack(), None);
}

#[test]
fn a_reservation_larger_than_a_segment_gets_one_of_its_own_size_or_nothing() {
    let disk = SimulatedDisk::new();
    disk.set_capacity(10 * SMALL.segment_bytes);
    let (mut log, _) = open_simulated(&disk).unwrap();
    let mut written = fill(&mut log, 1, 100);
    let used = disk.used();
    assert!(matches!(log.reserve(12 * SMALL.segment_bytes, Purpose::Reclaim), Err(LogError::Full { .. })));
    assert_eq!(disk.used(), used);
    log.reserve(50_016, Purpose::Add).unwrap();
    written.push((log.append(&[7; 50_000]), vec![7; 50_000]));
    commit(&mut log).unwrap();
    written.extend(fill(&mut log, 1, 9000));
    assert_eq!(log.segments(), 3);
    drop(log);
    assert_eq!(open_simulated(&disk).unwrap().1, written);
}

#[test]
fn a_sweep_finds_every_record_of_the_oldest_segment_whatever_its_step() {
    let disk = SimulatedDisk::new();
    let (mut log, _) = open_simulated(&disk).unwrap();
    let written = fill(&mut log, 100, 250);
    let first: Records = written.into_iter().filter(|(at, _)| at.segment == 1).collect();
    for step in [1, 40, 300, 1000, 100_000] {
        assert_eq!(sweep(&mut log, step).unwrap(), first);
    }
}

#[test]
fn dropping_what_is_dead_keeps_the_disk_small_under_endless_churn() {
    let disk = SimulatedDisk::new();
    let (mut log, _) = open_simulated(&disk).unwrap();
    let mut most = 0;
    for _ in 0..500 {
        fill(&mut log, 4, 900);
        while log.segments() > 2 && log.oldest().is_some() {
            log.drop_oldest().unwrap();
        }
        most = most.max(disk.used());
        assert_eq!(log.disk_bytes() % SMALL.segment_bytes, 0);
    }
    assert!(most <= 6 * SMALL.segment_bytes, "{most}");
    assert!(log.total_bytes() <= 3 * SMALL.segment_bytes);
}

#[test]
fn a_drop_alone_makes_a_commit_and_the_files_go_with_it() {
    let disk = SimulatedDisk::new();
    let (mut log, _) = open_simulated(&disk).unwrap();
    fill(&mut log, 300, 250);
    let before = (disk.used(), log.segments());
    while log.oldest().is_some() {
        log.drop_oldest().unwrap();
    }
    assert_eq!(disk.used(), before.0);
    commit(&mut log).unwrap();
    assert_eq!(log.segments(), 1);
    assert!(disk.used() <= 4 * SMALL.segment_bytes, "{}", disk.used());
    assert_eq!(disk.used(), log.disk_bytes());
    let kept = fill(&mut log, 1, 10);
    drop(log);
    let (log, found) = open_simulated(&disk).unwrap();
    assert_eq!(found.last(), kept.last());
    assert!(found.iter().all(|(at, _)| at.segment == kept[0].0.segment));
    assert_eq!(log.disk_bytes(), disk.used());
}

#[test]
fn a_file_that_cannot_be_used_again_gives_its_space_back() {
    let disk = SimulatedDisk::new();
    let (mut log, _) = open_simulated(&disk).unwrap();
    fill(&mut log, 300, 250);
    while log.oldest().is_some() {
        log.drop_oldest().unwrap();
    }
    commit(&mut log).unwrap();
    let idle = log.disk_bytes() - SMALL.segment_bytes;
    assert!(idle > 2 * SMALL.segment_bytes, "more than what is ready: a file to be used again");
    disk.fail_next_sync();
    while log.segments() == 1 {
        log.reserve(1016, Purpose::Add).unwrap();
        log.append(&[1; 1000]);
    }
    assert_eq!(disk.used(), log.disk_bytes());
    commit(&mut log).unwrap();
    let written = fill(&mut log, 300, 250);
    drop(log);
    assert!(open_simulated(&disk).unwrap().1.ends_with(&written));
}

#[test]
fn a_file_that_a_crash_left_half_made_gives_its_space_back() {
    let disk = SimulatedDisk::new();
    disk.set_capacity(SMALL.segment_bytes);
    let (log, _) = open_simulated(&disk).unwrap();
    drop(log);
    let half = super::super::disk::Disk::create(&disk, "0000000007.new").unwrap();
    drop(half);
    let (_log, _) = open_simulated(&disk).unwrap();
    assert!(disk.files().iter().all(|(name, _)| !name.starts_with("0000000007")));
}

#[test]
fn what_is_being_made_ready_can_be_awaited_without_the_log() {
    let disk = SimulatedDisk::new();
    let mut log = Log::open_on(Arc::new(disk.clone()), SMALL, &mut Records::new()).unwrap();
    let most = SMALL.segment_bytes / 2;
    while let Some(awaited) = log.awaited(most, Purpose::Add) {
        awaited.wait();
    }
    log.reserve(most, Purpose::Add).unwrap();
    log.append(&vec![1; 10_000]);
    while let Some(awaited) = log.awaited(most, Purpose::Add) {
        awaited.wait();
    }
    let halted = disk.halt();
    log.reserve(most, Purpose::Add).unwrap();
    let awaited =
        log.awaited(SMALL.segment_bytes, Purpose::Add).expect("only one is ready, and one is to be left");
    let (told, waits) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        awaited.wait();
        told.send(()).unwrap();
    });
    assert!(waits.recv_timeout(Duration::from_millis(100)).is_err(), "the disk is halted");
    drop(halted);
    waits.recv().unwrap();
    assert!(log.awaited(SMALL.segment_bytes, Purpose::Add).is_none());
    log.reserve(most, Purpose::Remove).unwrap();
}
