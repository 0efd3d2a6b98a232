//! A journal on disk is read as it was written, whatever its words; torn at its end it is read up to there, changed
//! anywhere else it is refused.

use std::fs;
use std::path::PathBuf;

use posthaste_history::{Answer, Body, Call, Delivery, Entry, Journal, Key, Outcome, Select, Send, Writer};

/// Every kind of operation and answer, with names that mean something in a line.
fn operations(writer: &mut Writer) -> Vec<(Call, Option<Outcome>)> {
    let account = writer.name("al ice=%,#\n");
    let (queue, other) = (writer.name("orders, #1 > ü"), writer.name("-=-"));
    let key = Key::new(0xfeed).expect("not 0");
    let send = Send {
        to: Some(account),
        priority: 7,
        delay_ms: 1,
        ttl_ms: 2,
        key: Some(key),
        headers: Some(key),
        ..Send::new(queue, Body::of(b"1"))
    };
    let many = Send { bodies: [Body::of(b"2"), Body::of(b"3")].into(), ..Send::new(other, Body::of(b"")) };
    let select = Select {
        queue: Some(queue),
        from: Some(account),
        not_own: true,
        broadcast: true,
        any_order: true,
        count: 9,
        lease_ms: 8,
        block_ms: 9,
        key: Some(key),
    };
    let delivery = Delivery {
        id: 12,
        queue,
        from: account,
        to: Some(other),
        priority: 3,
        deliveries: 2,
        headers: Some(key),
        body: Body::of(b"1"),
        receipt: Some(key),
        first_queue: Some(other),
    };
    let bare = Delivery { to: None, headers: None, receipt: None, first_queue: None, ..delivery.clone() };
    let ok = |answer| Some(Outcome::Ok(answer));
    vec![
        (Call::Send(send), ok(Answer::Ids([12].into()))),
        (Call::Send(many), ok(Answer::Ids([13, 14].into()))),
        (Call::Pop(select), ok(Answer::Messages([delivery, bare].into()))),
        (Call::Peek(Select::queue(other)), ok(Answer::Messages([].into()))),
        (Call::Ack { receipt: key }, ok(Answer::Number(1))),
        (Call::Nack { receipt: key, delay_ms: 5 }, ok(Answer::Number(0))),
        (Call::Extend { receipt: key, ms: 60_000 }, ok(Answer::Done)),
        (Call::Create { queue: None }, ok(Answer::Number(5))),
        (Call::Create { queue: Some(other) }, Some(Outcome::Fail)),
        (Call::Delete { queue }, Some(Outcome::Info)),
        (Call::Purge { queue }, None),
        (Call::Info { queue }, ok(Answer::Depth(4))),
        (Call::Browse { queue }, ok(Answer::Messages([].into()))),
    ]
}

fn written(dir: &tempfile::TempDir) -> (PathBuf, Vec<(Call, Option<Outcome>)>) {
    let path = dir.path().join("journal");
    let mut writer = Writer::create(&path, 3, "al ice=%,#\n").expect("a file");
    let operations = operations(&mut writer);
    for (at, (call, outcome)) in (10..).step_by(10).zip(&operations) {
        let number = writer.begin(at, call).expect("room");
        if let Some(outcome) = outcome {
            writer.end(number, at + 5, outcome).expect("room");
        }
    }
    writer.sync().expect("a disk");
    (path, operations)
}

#[test]
fn what_is_written_is_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, operations) = written(&dir);
    let journal = Journal::read(&path).expect("a journal");
    assert_eq!((journal.client(), &*journal.names().word(journal.account())), (3, "al ice=%,#\n"));
    let expected: Vec<_> = (10..)
        .step_by(10)
        .zip(operations)
        .map(|(begin, (call, outcome))| {
            let end = if outcome.is_some() { begin + 5 } else { u64::MAX };
            Entry { begin, end, call, outcome: outcome.unwrap_or(Outcome::Info) }
        })
        .collect();
    assert_eq!(journal.entries(), expected);
    assert!(Writer::create(&path, 3, "again").is_err(), "a journal is never written over");
    let copy = dir.path().join("copy");
    journal.write(&copy).expect("room");
    assert!(journal.write(&copy).is_err(), "a journal is never written over");
    assert_eq!(fs::read_to_string(copy).expect("text"), fs::read_to_string(path).expect("text"));
}

#[test]
fn a_torn_end_is_left_out_and_any_other_change_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, _) = written(&dir);
    let whole = fs::read(&path).expect("a file");
    let read = |bytes: &[u8]| {
        fs::write(&path, bytes).expect("a file");
        Journal::read(&path)
    };
    let head = whole.iter().position(|byte| *byte == b'\n').expect("lines") + 1;
    let mut entries = 0;
    for cut in (head..whole.len()).step_by(3) {
        let found = read(&whole[..cut]).expect("only the end is missing").entries().len();
        assert!((entries..=entries + 1).contains(&found), "cut at {cut}");
        entries = found;
    }
    let last = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').expect("lines");
    for at in (0..last).step_by(5) {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        let error = read(&changed).expect_err("changed").to_string();
        assert!(error.contains("line "), "changed at {at}: {error}");
    }
}
