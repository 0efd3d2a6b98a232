//! Stores made of bytes: what a store wrote is understood by another description of its format, and what was damaged is
//! refused in a sentence and left as it was, or is a store that works.

#[path = "support/segments.rs"]
mod segments;

use std::path::Path;

use posthaste_server::queue::rules::Rules as _;
use proptest::prelude::*;
use segments::{ask, build, check, close_frame, describe, open, tell_record};

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

/// A store whose log holds records of accounts with these numbers, in this order.
fn with_accounts(numbers: &[u32]) -> (tempfile::TempDir, Result<Vec<u8>, String>) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut story = Vec::new();
    for number in numbers {
        let name = format!("account {number}");
        tell_record(&mut story, &[&[1, 1][..], &number.to_le_bytes(), name.as_bytes()].concat());
    }
    close_frame(&mut story);
    for (name, bytes) in build(&story) {
        std::fs::write(directory.path().join(name), bytes).expect("a file");
    }
    let opened = open(directory.path()).map_err(|error| error.to_string());
    (directory, opened.map(|mut store| ask(&mut store, ACCOUNT, 1, "ACCOUNTS")))
}

#[test]
fn accounts_are_numbered_without_gaps_in_whatever_order_they_are_recorded() {
    let (_one, in_order) = with_accounts(&[1, 2, 3, 4]);
    let (_other, out_of_order) = with_accounts(&[3, 1, 3, 4, 2, 1]);
    let listed = in_order.expect("a sound store");
    assert!(String::from_utf8_lossy(&listed).contains("account 4"), "{}", String::from_utf8_lossy(&listed));
    assert_eq!(out_of_order.expect("a sound store"), listed);
    // Refused at once, whatever room so many would take.
    let (_gap, refused) = with_accounts(&[1, 2, u32::MAX]);
    let sentence = refused.expect_err("nobody was numbered 3");
    assert!(sentence.contains("names accounts with numbers above 3 and none with 3"), "{sentence}");
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
