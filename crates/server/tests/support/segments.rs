//! Files of the embedded store made from bytes: sound frames of any records, and everything that can be wrong with
//! them. A second description of the format, which must agree with the store's.
//!
//! A story is steps: what happens (one byte) and, for most, a length and so many bytes, or a place and a byte.

#![allow(dead_code, reason = "each program uses its own part of this")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crc32c::{crc32c, crc32c_append};
use posthaste_server::queue::answer::Answer;
use posthaste_server::queue::embedded::{Embedded, EmbeddedOptions, OpenError};
use posthaste_server::queue::rules::{AccountId, Ask, Commit as _, Flow, Rules};
use posthaste_wire::command::{self, Command};
use posthaste_wire::encode::Protocol;
use posthaste_wire::reply::{Reply, decode};
use posthaste_wire::span::Span;

/// Identity in the header of every segment.
const IDENTITY: u64 = 7;
const FIRST_FRAME: usize = 4096;
/// Largest size of a file, in bytes.
const FILE_BYTES: usize = 32 << 10;
const FILES: u32 = 4;

/// The first byte of a step: what it does.
mod step {
    /// Adds a record to the frame being built.
    pub(super) const RECORD: u8 = 0;
    /// Closes the frame.
    pub(super) const FRAME: u8 = 1;
    /// Closes a frame that declares all segments below the current one unneeded.
    pub(super) const FLOOR: u8 = 2;
    /// Begins the next segment.
    pub(super) const SEGMENT: u8 = 3;
    /// Changes one byte of the current file.
    pub(super) const FLIP: u8 = 4;
    /// Cuts the current file off at a place.
    pub(super) const CUT: u8 = 5;
    /// Skips sequence numbers, so that a frame seems to be missing.
    pub(super) const SKIP: u8 = 6;
    /// Adds arbitrary bytes.
    pub(super) const BYTES: u8 = 7;
    /// Loses the current file.
    pub(super) const LOSE: u8 = 8;
    /// Adds zeros up to the end of a page, as the store does.
    pub(super) const ZEROS: u8 = 9;
    pub(super) const ALL: u8 = 10;
}

/// Contents of files, by name.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// The files of a story while they are written.
struct Writing {
    files: Vec<Option<Vec<u8>>>,
    /// Records of the next frame, whose checksums depend on its segment.
    records: Vec<Vec<u8>>,
    sequence: u64,
}

impl Writing {
    fn number(&self) -> u32 {
        u32::try_from(self.files.len()).expect("few")
    }

    fn seed(&self) -> u32 {
        crc32c_append(crc32c(&IDENTITY.to_le_bytes()), &self.number().to_le_bytes())
    }

    fn begin_file(&mut self) {
        self.files.push(None);
        let mut head = [&b"PosthLog"[..], &1_u32.to_le_bytes(), &self.number().to_le_bytes()].concat();
        head.extend(IDENTITY.to_le_bytes());
        head.extend([0; 4]);
        let checksum = crc32c(&head);
        head.extend(checksum.to_le_bytes());
        head.resize(FIRST_FRAME, 0);
        *self.files.last_mut().expect("just begun") = Some(head);
    }

    /// Returns the current file, unless it is lost.
    fn file(&mut self) -> &mut Vec<u8> {
        self.files.last_mut().expect("one is begun").get_or_insert_default()
    }

    fn frame(&mut self, floor: u32) {
        let (seed, mut records) = (self.seed(), Vec::new());
        for bytes in self.records.drain(..) {
            let length = u32::try_from(bytes.len()).expect("short");
            records.extend(length.to_le_bytes());
            records.extend(crc32c_append(seed, &bytes).to_le_bytes());
            records.extend(bytes);
        }
        self.sequence += 1;
        let mut rest = u32::try_from(records.len()).expect("short").to_le_bytes().to_vec();
        rest.extend(self.number().to_le_bytes());
        rest.extend(self.sequence.to_le_bytes());
        rest.extend(floor.to_le_bytes());
        rest.extend(crc32c_append(seed, &records).to_le_bytes());
        let checksum = crc32c_append(seed, &rest);
        let file = self.file();
        file.extend_from_slice(b"Fram");
        file.extend(checksum.to_le_bytes());
        file.extend(rest);
        file.extend(records);
        file.resize(file.len().next_multiple_of(8), 0);
    }
}

/// Builds the files of a story, sound or not.
pub(crate) fn build(story: &[u8]) -> Files {
    let mut writing = Writing { files: Vec::new(), records: Vec::new(), sequence: 0 };
    writing.begin_file();
    let mut rest = story;
    while let Some((&what, behind)) = rest.split_first() {
        rest = behind;
        let what = what % step::ALL;
        match what {
            step::RECORD | step::BYTES => {
                let Some((&length, behind)) = rest.split_first() else { break };
                let (bytes, behind) = behind.split_at(usize::from(length).min(behind.len()));
                rest = behind;
                if what == step::RECORD {
                    writing.records.push(bytes.to_vec());
                } else {
                    writing.file().extend_from_slice(bytes);
                }
            }
            step::FRAME => writing.frame(1),
            step::FLOOR => writing.frame(writing.number()),
            step::SEGMENT if writing.number() < FILES => writing.begin_file(),
            step::SEGMENT => {}
            step::FLIP | step::CUT => {
                let Some((place, behind)) = rest.split_first_chunk::<3>() else { break };
                rest = behind;
                let file = writing.file();
                let at = usize::from(u16::from_le_bytes([place[0], place[1]])) % (file.len() + 1);
                if what == step::CUT {
                    file.truncate(at);
                } else if let Some(byte) = file.get_mut(at) {
                    *byte ^= place[2];
                }
            }
            step::SKIP => writing.sequence += 1,
            step::LOSE => drop(writing.files.last_mut().expect("one is begun").take()),
            _ => {
                let file = writing.file();
                file.resize(file.len().next_multiple_of(4096), 0);
            }
        }
        if writing.files.last().and_then(Option::as_ref).is_some_and(|file| file.len() > FILE_BYTES) {
            break;
        }
    }
    let named = (1..).zip(writing.files).filter_map(|(number, file)| Some((number, file?)));
    named.map(|(number, file)| (format!("{number:010}.log"), file)).collect()
}

/// Adds a record of these bytes to a story.
pub(crate) fn tell_record(story: &mut Vec<u8>, record: &[u8]) {
    story.extend([step::RECORD, u8::try_from(record.len()).expect("a short record")]);
    story.extend_from_slice(record);
}

/// Adds the end of a frame to a story: what was told so far is committed.
pub(crate) fn close_frame(story: &mut Vec<u8>) {
    story.push(step::FRAME);
}

/// Returns the story of the records that a store has left in a directory, all in one segment.
pub(crate) fn describe(directory: &Path) -> Vec<u8> {
    let mut story = Vec::new();
    for (_, file) in files_of(directory).into_iter().filter(|(name, _)| name.ends_with(".log")) {
        let mut at = FIRST_FRAME;
        while file.get(at..at + 4) == Some(b"Fram") {
            let length = u32_at(&file, at + 8);
            let (mut record, end) = (at + 32, at + 32 + length);
            while record < end {
                let length = u32_at(&file, record);
                tell_record(&mut story, &file[record + 8..record + 8 + length]);
                record += 8 + length;
            }
            story.push(step::FRAME);
            at = end.next_multiple_of(8);
        }
    }
    story
}

fn u32_at(bytes: &[u8], at: usize) -> usize {
    let number = bytes[at..].first_chunk().map(|chunk| u32::from_le_bytes(*chunk)).expect("four bytes");
    usize::try_from(number).expect("64 bits")
}

/// Returns all files of a directory but the lock.
pub(crate) fn files_of(directory: &Path) -> Files {
    let entries = fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry"));
    let files = entries.filter(|entry| entry.file_name() != "lock");
    files
        .map(|entry| {
            (entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path()).expect("a file"))
        })
        .collect()
}

pub(crate) fn open(directory: &Path) -> Result<Embedded, OpenError> {
    let options = EmbeddedOptions { segment_bytes: 16 << 10, seed: Some(1), ..EmbeddedOptions::default() };
    Embedded::open(directory, options)
}

/// Executes a request of an account in a store, commits it, and returns the answer.
pub(crate) fn ask(store: &mut Embedded, account: AccountId, now: u64, request: &str) -> Vec<u8> {
    let (mut bytes, mut words) = (Vec::new(), Vec::new());
    for word in request.split(' ') {
        words.push(Span { start: bytes.len() as u32, len: word.len() as u32 });
        bytes.extend_from_slice(word.as_bytes());
    }
    let Ok(Command::Store(operation)) = command::parse(&words, &bytes, 1000) else { panic!("{request}") };
    let (mut out, mut news) = (Vec::new(), Vec::new());
    let may_change = store.prepare(1, bytes.len()).is_ok();
    let ask = Ask { account, operation: &operation, bytes: &bytes };
    if may_change || operation.is_read() {
        let flow = store.execute(now, ask, &mut Answer::new(&mut out, Protocol::Resp3), &mut news);
        assert!(matches!(flow, Flow::Done(_)));
        assert!(matches!(decode(&out), Reply::Value(_, used) if used == out.len()), "one answer");
    }
    if let Some(mut commit) = store.seal() {
        let result = commit.sync();
        store.committed(commit, &result);
    }
    out
}

/// Opens a store from these files, and checks that either an error says what is wrong and nothing has changed, or the
/// store works and is the same after a stop.
pub(crate) fn check(directory: &Path, files: &Files) {
    for (name, bytes) in files {
        fs::write(directory.join(name), bytes).expect("a file");
    }
    let mut store = match open(directory) {
        Ok(store) => store,
        Err(error) => {
            let error = error.to_string();
            assert!(!error.is_empty() && !error.contains('\n'), "{error}");
            assert!(&files_of(directory) == files, "it was refused and changed: {error}");
            return;
        }
    };
    let (now, later) = (1_000_000, 1_000_000_000_000);
    let account = store.account(b"fuzz").expect("there is room");
    for (request, expected) in [
        ("QLIST", "*"),
        ("ACCOUNTS", "*"),
        ("QREADABLE", "*"),
        ("QCREATE made-by-this-check", ":"),
        ("SEND made-by-this-check hello", ":"),
        ("PEEK QUEUE made-by-this-check COUNT 10", "*1\r\n"),
        ("POP QUEUE made-by-this-check COUNT 10 LEASE 1000", "*1\r\n"),
        ("QINFO made-by-this-check", "%"),
        ("QBROWSE made-by-this-check", "*1\r\n"),
        ("QPURGE made-by-this-check", ":1\r\n"),
    ] {
        let answer = ask(&mut store, account, now, request);
        assert!(answer.starts_with(expected.as_bytes()), "{request}: {}", String::from_utf8_lossy(&answer));
    }
    let before = ask(&mut store, account, later, "QLIST");
    drop(store);
    let mut again = open(directory).unwrap_or_else(|error| panic!("it was open before: {error}"));
    let after = ask(&mut again, account, later, "QLIST");
    assert_eq!(String::from_utf8_lossy(&before), String::from_utf8_lossy(&after));
}
