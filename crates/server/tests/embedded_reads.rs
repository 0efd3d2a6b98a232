//! The embedded store shows nothing that a crash could undo, and makes no reader wait for what does not concern it.

#[path = "support/embedded.rs"]
mod embedded;
mod support;

use embedded::{execute, open, shown};
use posthaste_server::queue::embedded::Embedded;
use posthaste_server::queue::rules::{Commit as _, Rules as _};
use support::{Got, World};

#[test]
fn a_read_never_shows_what_a_crash_could_unmake() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let world = &mut World::new(open(home.path()));
    world.ask("a", "QCREATE q");
    world.log_in("b");

    execute(world, "a", "SEND q first");
    assert_eq!(shown(world, "b", "PEEK QUEUE q"), None, "sent, not sealed");
    assert_eq!(shown(world, "b", "PEEK FROM a COUNT 3"), None);
    assert_eq!(shown(world, "b", "QREADABLE"), None);
    let mut commit = world.store.seal().expect("something to write");
    assert_eq!(shown(world, "b", "PEEK QUEUE q"), None, "sealed, not synced");
    let result = commit.sync();
    world.store.committed(commit, &result);
    assert_eq!(shown(world, "b", "PEEK QUEUE q").expect("durable").text("body"), "first");

    execute(world, "a", "SEND q second");
    assert_eq!(
        shown(world, "b", "PEEK QUEUE q").expect("durable").text("body"),
        "first",
        "the other is behind it"
    );
    execute(world, "b", "POP QUEUE q");
    execute(world, "b", "POP QUEUE q");
    assert_eq!(shown(world, "b", "PEEK QUEUE q"), None, "a crash would bring the first one back");
}

#[test]
fn a_queue_is_not_listed_for_others_messages_by_what_a_crash_could_unmake() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let world = &mut World::new(open(home.path()));
    world.ask("a", "QCREATE q");
    world.send("b", "q own");
    world.send("a", "q other");
    let listed =
        |world: &mut World<Embedded>, request| shown(world, "b", request).map(|got| format!("{got:?}"));
    let both = listed(world, "QREADABLE");
    assert!(both.is_some());
    assert_eq!(listed(world, "QREADABLE NOTOWN"), both);
    execute(world, "b", "POP QUEUE q NOTOWN");
    assert_eq!(listed(world, "QREADABLE"), both, "one's own stays");
    assert_eq!(listed(world, "QREADABLE NOTOWN"), None, "a crash would bring the other back");
    let mut commit = world.store.seal().expect("something to write");
    assert_eq!(listed(world, "QREADABLE NOTOWN"), None);
    let result = commit.sync();
    world.store.committed(commit, &result);
    assert_eq!(shown(world, "b", "QREADABLE NOTOWN"), Some(Got::List(Vec::new())));
    execute(world, "a", "SEND q another");
    assert_eq!(listed(world, "QREADABLE NOTOWN"), None, "sent, not sealed");
    assert_eq!(listed(world, "QREADABLE"), both);
}

#[test]
fn a_read_waits_for_a_change_under_way_that_concerns_it_and_for_no_other() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let world = &mut World::new(open(home.path()));
    for request in ["QCREATE q DEADLETTER graves AFTER 9", "QCREATE r", "QCREATE e"] {
        world.ask("a", request);
    }
    world.send("a", "q one");
    let two = world.send("a", "q two");
    world.send("c", "r three TO b");
    let mut all = vec!["PEEK QUEUE q", "PEEK QUEUE q FROM a COUNT 9", "PEEK FROM a", "QREADABLE"];
    all.extend(["PEEK QUEUE r", "PEEK FROM c", "PEEK QUEUE e", "PEEK QUEUE new", "PEEK QUEUE graves"]);
    let (ack, nack) = (format!("ACK {two}"), format!("NACK {two}"));
    for (change, waiting) in [
        ("POP QUEUE q", &[0, 1, 2][..]),
        ("POP QUEUE q LEASE 1000", &[0, 1, 2, 3]),
        (&*nack, &[0, 1, 2, 3]),
        ("QCREATE new", &[7]),
        ("POP FROM c", &[3, 4, 5]),
        ("QDELETE e", &[6]),
        ("QPURGE q", &[0, 1, 2, 3, 5]),
        (&*ack, &[]),
    ] {
        let before: Vec<_> = all.iter().map(|read| shown(world, "b", read)).collect();
        assert!(before.iter().all(Option::is_some), "{before:?} before {change}");
        execute(world, "b", change);
        let sealed = |is_sealed: bool, world: &mut World<Embedded>| {
            for (place, read) in all.iter().enumerate() {
                let expected = if waiting.contains(&place) { &None } else { &before[place] };
                assert_eq!(&shown(world, "b", read), expected, "{read} beside {change}, sealed: {is_sealed}");
            }
        };
        sealed(false, world);
        let Some(mut commit) = world.store.seal() else { continue };
        sealed(true, world);
        let result = commit.sync();
        world.store.committed(commit, &result);
    }
}

/// A network thread asks for them, and would keep all its clients waiting for the disk.
#[test]
fn what_only_the_disk_can_say_is_not_read_on_the_spot() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let world = &mut World::new(open(home.path()));
    world.ask("a", "QCREATE q");
    let body = "x".repeat(1000);
    let reads = ["PEEK QUEUE q", "PEEK FROM a COUNT 3", "QINFO q", "QBROWSE q COUNT 3"];
    for _ in 0..3 {
        world.send("a", &format!("q {body}"));
    }
    for read in reads {
        assert!(shown(world, "b", read).is_some(), "{read}: it is in memory");
    }
    world.ask("a", "POP QUEUE q"); // so that another message is the oldest
    for _ in 0..100 {
        world.send("a", &format!("q {body}"));
    }
    for read in reads {
        assert_eq!(shown(world, "b", read), None, "{read}: it is in an old file");
    }
    for read in reads {
        let answer = world.ask("b", read);
        assert_eq!(shown(world, "b", read), Some(answer), "{read}: a worker has read it");
    }
}

#[test]
fn an_acknowledgement_under_way_is_no_readers_concern_until_its_lease_would_be_over() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let world = &mut World::new(open(home.path()));
    world.ask("a", "QCREATE q");
    let id = world.send("a", "q x");
    world.ask("b", "POP QUEUE q LEASE 100");
    execute(world, "b", &format!("ACK {id}"));
    world.now += 100;
    assert_eq!(shown(world, "b", "PEEK QUEUE q"), Some(Got::Null));
    assert_eq!(shown(world, "b", "QREADABLE"), Some(Got::List(Vec::new())));
    world.now += 1;
    for read in ["PEEK QUEUE q", "PEEK FROM a", "QREADABLE"] {
        assert_eq!(shown(world, "b", read), None, "{read}: a crash would bring it back");
    }
}

#[test]
fn a_login_is_answered_at_once_unless_a_crash_could_make_the_account_unknown() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let world = &mut World::new(open(home.path()));
    world.ask("a", "QCREATE q");
    world.ask("a", "SEND q x TO b");
    execute(world, "a", "SEND q x DELAY 10");
    world.now += 100;
    assert_eq!(shown(world, "a", "LOGIN a"), Some(Got::Integer(1)), "whatever others do, and what is due");
    assert_eq!(shown(world, "a", "LOGIN b"), None, "it has a number, and is not known");
    for name in ["b", "c"] {
        world.store.account(name.as_bytes()).expect("there is room");
    }
    let unknown = |world: &mut World<Embedded>, when| {
        for login in ["LOGIN b", "LOGIN c"] {
            assert_eq!(shown(world, "a", login), None, "{login}: {when}");
        }
    };
    unknown(world, "not sealed");
    let mut commit = world.store.seal().expect("something to write");
    unknown(world, "sealed, not synced");
    let result = commit.sync();
    world.store.committed(commit, &result);
    for (login, id) in [("LOGIN a", 1), ("LOGIN b", 2), ("LOGIN c", 3)] {
        assert_eq!(shown(world, "a", login), Some(Got::Integer(id)), "{login}");
    }
}
