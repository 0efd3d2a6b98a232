//! Copies of a log at rest, and of one that is written, swept and recycled meanwhile.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::thread;

use tempfile::tempdir;

use super::super::segment::{FIRST_FRAME, file_name};
use super::super::{Copied, CopyError, copy};
use super::*;

fn number_of(record: &[u8]) -> u64 {
    record.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// What the owner of a log has promised so far.
#[derive(Default)]
struct Promises {
    /// The last record that was committed.
    committed: AtomicU64,
    /// The first record that is still needed.
    lives_from: AtomicU64,
    /// The segment that is written to.
    segment: AtomicU32,
    /// The last segment that it may write to.
    allowed: AtomicU32,
    stop: AtomicBool,
}

/// Stops the owner at the end, also of a test that fails.
struct StopWriting<'a>(&'a Promises);

impl Drop for StopWriting<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, SeqCst);
    }
}

/// Appends numbered records, seven to a segment, and drops the oldest segment whenever there are more than four, until
/// `stop` is set.
fn keep_writing(directory: &Path, promises: &Promises) {
    let (mut log, _) = open(directory).unwrap();
    let mut first_of_segment = Vec::new();
    let mut number = 0_u64;
    while !promises.stop.load(SeqCst) {
        if promises.segment.load(SeqCst) > promises.allowed.load(SeqCst) {
            thread::yield_now();
            continue;
        }
        number += 1;
        let mut record = vec![7; 1600];
        record[..8].copy_from_slice(&number.to_le_bytes());
        log.reserve(1616, Purpose::Add).unwrap();
        let at = log.append(&record);
        if first_of_segment.last().is_none_or(|(segment, _)| *segment != at.segment) {
            first_of_segment.push((at.segment, number));
            promises.segment.store(at.segment, SeqCst);
        }
        while log.segments() > 4 {
            let Some(oldest) = log.oldest() else { break };
            log.drop_oldest().unwrap();
            let (_, next) = first_of_segment.iter().find(|(segment, _)| *segment > oldest).unwrap();
            promises.lives_from.store(*next, SeqCst);
        }
        commit(&mut log).unwrap();
        promises.committed.store(number, SeqCst);
    }
}

/// The modes are the same whatever the umask allows.
#[test]
fn a_log_and_a_copy_of_it_are_their_owners_alone() {
    let place = tempdir().unwrap();
    let [log, copied] = ["log", "copy"].map(|name| place.path().join(name));
    drop(open(&log).unwrap());
    copy(&log, &copied).unwrap();
    for directory in [log, copied] {
        let files = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path());
        for path in files.chain([directory.clone()]) {
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
        }
    }
}

/// Copies are made until there are forty and the owner has turned its log over several times; meanwhile it turns over
/// at most once during a copy, so that some attempt succeeds however fast it is, and few commits do, however slow.
#[test]
fn a_copy_beside_its_owner_has_what_was_committed_before_it_began() {
    let directory = tempdir().unwrap();
    let promises = Promises::default();
    promises.allowed.store(4, SeqCst);
    thread::scope(|scope| {
        let owner = scope.spawn(|| keep_writing(directory.path(), &promises));
        let _stop = StopWriting(&promises);
        while promises.committed.load(SeqCst) < 20 {
            assert!(!owner.is_finished());
            thread::yield_now();
        }
        let mut copies = 0;
        while copies < 40 || promises.segment.load(SeqCst) <= 20 {
            assert!(!owner.is_finished());
            promises.allowed.store(promises.segment.load(SeqCst) + 4, SeqCst);
            let there = promises.committed.load(SeqCst);
            let place = tempdir().unwrap();
            copy(directory.path(), place.path()).unwrap();
            let lives_from = promises.lives_from.load(SeqCst);
            let (_, records) = open(place.path()).unwrap();
            let numbers: Vec<u64> = records.iter().map(|(_, record)| number_of(record)).collect();
            assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{numbers:?}");
            assert!(numbers[0] <= lives_from.max(1), "{} lives, {} is the first", lives_from, numbers[0]);
            assert!(*numbers.last().unwrap() >= there, "{there} was committed, {numbers:?}");
            copies += 1;
        }
    });
}

#[test]
fn a_copy_opens_as_the_log_does_and_has_no_unused_space() {
    let (directory, place) = (tempdir().unwrap(), tempdir().unwrap());
    let (mut log, _) = open(directory.path()).unwrap();
    let written = fill(&mut log, 60, 1000);
    let segments = log.segments();
    drop(log);
    let to = place.path().join("deep/in/there");
    let copied = copy(directory.path(), &to).unwrap();
    assert_eq!(copied, Copied { segments, bytes: copied.bytes });
    assert!(copied.bytes < segments as u64 * SMALL.segment_bytes, "{copied:?}");
    let (mut log, records) = open(&to).unwrap();
    assert_eq!(records, written);
    let next = fill(&mut log, 30, 1000);
    drop(log);
    assert_eq!(open(&to).unwrap().1, [written, next].concat(), "it can be written on");
}

#[test]
fn a_log_without_a_record_can_be_copied() {
    let (directory, place) = (tempdir().unwrap(), tempdir().unwrap());
    drop(open(directory.path()).unwrap());
    copy(directory.path(), place.path()).unwrap();
    assert_eq!(open(place.path()).unwrap().1, []);
}

#[test]
fn a_copy_that_lost_its_end_is_refused() {
    let (directory, place) = (tempdir().unwrap(), tempdir().unwrap());
    let (mut log, _) = open(directory.path()).unwrap();
    let last = fill(&mut log, 60, 1000).last().unwrap().0;
    copy(directory.path(), place.path()).unwrap();
    fs::remove_file(place.path().join(file_name(last.segment))).unwrap();
    assert!(matches!(open(place.path()), Err(OpenError::Damaged { .. })));
    let file = place.path().join("closed");
    assert_eq!(copy(directory.path(), &file), Err(CopyError::Occupied(file.clone())), "a file holds no copy");
    let again = tempdir().unwrap();
    let refused = copy(place.path(), again.path());
    assert!(matches!(refused, Err(CopyError::Log(OpenError::Damaged { .. }))), "{refused:?}");
}

/// A copy is in this state while the command runs, and stays in it if the command is killed.
#[test]
fn a_copy_that_is_not_finished_is_refused_and_left_to_who_makes_it() {
    let (directory, place) = (tempdir().unwrap(), tempdir().unwrap());
    let (mut log, _) = open(directory.path()).unwrap();
    let last = fill(&mut log, 60, 1000).last().unwrap().0;
    drop(log);
    let to = place.path().join("copy");
    copy(directory.path(), &to).unwrap();
    for gone in [&file_name(last.segment), "closed"] {
        fs::remove_file(to.join(gone)).unwrap();
    }
    fs::write(to.join("unfinished"), "").unwrap();
    let before = fs::read_dir(&to).unwrap().count();
    let unfinished = OpenError::Unfinished { directory: to.clone() };
    assert_eq!(open(&to).map(drop), Err(unfinished.clone()));
    assert_eq!(copy(directory.path(), &to), Err(CopyError::Occupied(to.clone())));
    assert_eq!(copy(&to, &place.path().join("next")), Err(CopyError::Log(unfinished)));
    assert_eq!(fs::read_dir(&to).unwrap().count(), before);
}

#[test]
fn of_two_who_copy_to_one_place_one_is_told_and_the_other_s_copy_is_whole() {
    let (directory, place) = (tempdir().unwrap(), tempdir().unwrap());
    let (mut log, _) = open(directory.path()).unwrap();
    let written = fill(&mut log, 60, 1000);
    drop(log);
    for round in 0..20 {
        let to = place.path().join(round.to_string());
        let copied = thread::scope(|scope| {
            let both = [(); 2].map(|()| scope.spawn(|| copy(directory.path(), &to)));
            both.map(|one| one.join().unwrap())
        });
        assert_eq!(copied.iter().filter(|copied| copied.is_ok()).count(), 1, "{copied:?}");
        assert!(copied.contains(&Err(CopyError::Occupied(to.clone()))), "{copied:?}");
        assert_eq!(open(&to).unwrap().1, written);
    }
}

#[test]
fn a_copy_without_space_is_told_what_helps_it() {
    let full = CopyError::from(LogError::Full { path: "copy/0000000007.log".into() }).to_string();
    assert!(full.contains("copy/0000000007.log") && !full.contains("messages"), "{full}");
}

#[test]
fn nothing_is_copied_from_nowhere_nor_over_something() {
    let (directory, place) = (tempdir().unwrap(), tempdir().unwrap());
    let empty = directory.path().to_owned();
    assert_eq!(copy(&empty, place.path()), Err(CopyError::Nothing(empty.clone())));
    let absent = place.path().join("absent");
    assert_eq!(copy(&absent, place.path()), Err(CopyError::Nothing(absent.clone())));
    drop(open(directory.path()).unwrap());
    fs::write(place.path().join("notes"), "mine").unwrap();
    assert_eq!(copy(&empty, place.path()), Err(CopyError::Occupied(place.path().to_owned())));
    assert_eq!(fs::read_to_string(place.path().join("notes")).unwrap(), "mine");
}

/// Damages the first frame of the first segment that is needed, of one in the middle, and of the active one.
#[test]
fn damage_is_reported_and_leaves_no_half_copy() {
    let (directory, place) = (tempdir().unwrap(), tempdir().unwrap());
    let (mut log, _) = open(directory.path()).unwrap();
    let last = fill(&mut log, 60, 1000).last().unwrap().0;
    log.drop_oldest().unwrap();
    commit(&mut log).unwrap();
    for segment in [2, 4, last.segment] {
        let file = directory.path().join(file_name(segment));
        let sound = fs::read(&file).unwrap();
        let mut broken = sound.clone();
        broken[FIRST_FRAME + 100] ^= 4;
        fs::write(&file, &broken).unwrap();
        let copied = copy(directory.path(), place.path());
        assert!(matches!(copied, Err(CopyError::Log(OpenError::Damaged { .. }))), "{segment}: {copied:?}");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
        fs::write(&file, &sound).unwrap();
    }
    copy(directory.path(), place.path()).unwrap();
}
