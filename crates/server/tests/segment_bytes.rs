//! Stores made of bytes: what a store wrote is understood by another description of its format, and what was damaged is
//! refused in a sentence and left as it was, or is a store that works.

#[path = "support/segments.rs"]
mod segments;

use std::path::Path;

use posthaste_server::queue::rules::Rules as _;
use proptest::prelude::*;
use segments::{ask, build, check, describe, open};

/// Who lives there.
const ACCOUNT: u32 = 1;

fn lived() -> Vec<u8> {
    let directory = tempfile::tempdir().expect("a directory");
    live(directory.path());
    describe(directory.path())
}

/// A life with every kind of record.
fn live(directory: &Path) {
    let mut store = open(directory).expect("a new store");
    assert_eq!(store.account(b"default"), ACCOUNT);
    for (now, request) in [
        (1, "QCREATE q MAXMSGS 5 TTL 100000"),
        (2, "QCREATE dead"),
        (3, "QCREATE r DEADLETTER dead AFTER 1"),
        (4, "SEND q one PRIORITY 3"),
        (5, "SEND q two DELAY 1000 DEDUP key"),
        (6, "SENDMANY r 2 three four"),
        (7, "POP QUEUE q LEASE 1000 REQID id"),
        (8, "POP QUEUE r LEASE 10"),
        (9, "POP QUEUE r"),
        (5000, "PEEK QUEUE dead"),
        (5001, "QPURGE q"),
        (5002, "QDELETE dead"),
    ] {
        let answer = ask(&mut store, ACCOUNT, now, request);
        assert_ne!(answer.first(), Some(&b'-'), "{request}: {}", String::from_utf8_lossy(&answer));
    }
}

#[test]
fn what_a_store_wrote_is_understood_by_another_description_of_it() {
    let story = lived();
    assert!(story.len() > 300, "{} bytes", story.len());
    let (one, other) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    live(one.path());
    for (name, bytes) in build(&story) {
        std::fs::write(other.path().join(name), bytes).expect("a file");
    }
    let all = |directory: &Path| {
        let mut store = open(directory).expect("a sound store");
        ["QLIST", "QINFO r", "ACCOUNTS", "QBROWSE r"].map(|request| ask(&mut store, ACCOUNT, 6000, request))
    };
    assert_eq!(all(one.path()), all(other.path()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn whatever_becomes_of_it(at in any::<prop::sample::Index>(), by in any::<[u8; 4]>(), removed in 0..3_usize) {
        let mut story = lived();
        let at = at.index(story.len());
        story.splice(at..(at + removed).min(story.len()), by);
        let directory = tempfile::tempdir().expect("a directory");
        check(directory.path(), &build(&story));
    }
}
