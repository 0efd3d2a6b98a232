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
    assert_eq!(store.account(b"default"), Ok(ACCOUNT));
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

/// A store whose log holds these records, and what a request is answered, or why it cannot be opened.
fn with_records(records: &[Vec<u8>], request: &str) -> Result<Vec<u8>, String> {
    let directory = tempfile::tempdir().expect("a directory");
    let mut story = Vec::new();
    records.iter().for_each(|record| tell_record(&mut story, record));
    close_frame(&mut story);
    for (name, bytes) in build(&story) {
        std::fs::write(directory.path().join(name), bytes).expect("a file");
    }
    let mut store = open(directory.path()).map_err(|error| error.to_string())?;
    Ok(ask(&mut store, ACCOUNT, 1, request))
}

/// The record of an account that has logged in.
fn account(number: u32, name: &str) -> Vec<u8> {
    [&[1, 1][..], &number.to_le_bytes(), name.as_bytes()].concat()
}

/// The record of a queue without options.
fn queue(number: u64, name: &str) -> Vec<u8> {
    [&[2][..], &number.to_le_bytes(), &[0; 6], name.as_bytes()].concat()
}

/// The record of a message of account 1 to a recipient, or with 0 to anyone, and what says that it is gone.
fn message(number: u64, recipient: u32) -> [Vec<u8>; 2] {
    let rank = 0xff_u64 << 56 | number;
    let place =
        [&rank.to_le_bytes()[..], &1_u64.to_le_bytes(), &[1, 0, 0, 0], &recipient.to_le_bytes()].concat();
    [[&[5, 0][..], &place, &[0; 8], b"body"].concat(), [&[6][..], &place].concat()]
}

/// With records of accounts with these numbers, in this order.
fn with_accounts(numbers: &[u32]) -> Result<Vec<u8>, String> {
    let records: Vec<_> =
        numbers.iter().map(|number| account(*number, &format!("account {number}"))).collect();
    with_records(&records, "ACCOUNTS")
}

#[test]
fn accounts_are_numbered_without_gaps_in_whatever_order_they_are_recorded() {
    let listed = with_accounts(&[1, 2, 3, 4]).expect("a sound store");
    assert!(String::from_utf8_lossy(&listed).contains("account 4"), "{}", String::from_utf8_lossy(&listed));
    assert_eq!(with_accounts(&[3, 1, 3, 4, 2, 1]).expect("a sound store"), listed);
    // Refused at once, whatever room so many would take.
    let sentence = with_accounts(&[1, 2, u32::MAX]).expect_err("nobody was numbered 3");
    assert!(sentence.contains("names accounts with numbers above 3 and none with 3"), "{sentence}");
}

/// Which one counted would change when old segments go.
#[test]
fn names_and_numbers_belong_to_each_other() {
    let sound = with_records(&[queue(1, "q"), queue(2, "r"), queue(1, "q")], "QLIST");
    assert!(sound.is_ok_and(|listed| listed.starts_with(b"*2\r\n")));
    for (records, why) in [
        ([queue(1, "q"), queue(1, "r")], "queue 1 has two names"),
        ([queue(1, "q"), queue(2, "q")], "queue 2 has the name of queue 1"),
        ([account(1, "a"), account(1, "b")], "account 1 has two names"),
        ([account(2, "a"), account(2, "b")], "account 2 has two names"),
        ([account(1, "a"), account(2, "a")], "account 2 has the name of account 1"),
    ] {
        let sentence = with_records(&records, "QLIST").expect_err(why);
        assert!(sentence.contains(why), "{sentence}");
    }
}

/// What was recorded again because its segment was to go is counted once. Another with its number would be taken for
/// it, and one of them would stay in the counts for ever.
#[test]
fn a_number_is_one_message_and_stays_where_it_was() {
    let ([first, _], [addressed, _], [second, gone]) = (message(1, 0), message(1, 1), message(2, 0));
    let with = |messages: &[&Vec<u8>]| {
        let names = [account(1, "a"), queue(1, "q")];
        with_records(&names.iter().chain(messages.iter().copied()).cloned().collect::<Vec<_>>(), "QPURGE q")
    };
    assert_eq!(with(&[&first, &second, &first]), Ok(b":2\r\n".to_vec()));
    // What came before may be in segments that are not there any more.
    assert_eq!(with(&[&gone, &second, &first, &gone]), Ok(b":1\r\n".to_vec()));
    for (messages, number) in [([&first, &addressed, &second], 1), ([&second, &gone, &second], 2)] {
        let sentence = with(&messages).expect_err("one number twice");
        let why = format!("message {number} is recorded again, and is not where it should be");
        assert!(sentence.contains(&why), "{sentence}");
    }
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
