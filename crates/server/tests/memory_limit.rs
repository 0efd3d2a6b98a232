//! The memory limit of a store in this process: what is refused beyond it, in which words, and what goes on.

mod support;

use std::path::Path;

use posthaste_server::queue::embedded::{Embedded, EmbeddedOptions};
use posthaste_server::queue::memory::Memory;
use posthaste_server::queue::rules::Rules;
use support::{Got, World};

const LIMIT: u64 = 8_000;

/// Enough for some 15,000 messages.
const LIMIT_OF_MANY: u64 = 1_000_000;

fn open_limited(directory: &Path) -> Embedded {
    open_with(directory, EmbeddedOptions { memory_limit: Some(LIMIT), ..EmbeddedOptions::default() })
}

fn open_with(directory: &Path, options: EmbeddedOptions) -> Embedded {
    Embedded::open(directory, options).unwrap_or_else(|error| panic!("{error}"))
}

fn figure(store: &Embedded, name: &str) -> u64 {
    let figures = store.figures();
    figures.iter().find(|(known, _)| *known == name).map(|(_, value)| *value).expect("a figure of that name")
}

fn full() -> Got {
    let text = "of memory; read some or raise --memory-limit";
    Got::Error(format!("FULL the stored messages need more than {LIMIT} bytes {text}"))
}

#[test]
fn a_send_beyond_the_memory_limit_is_refused_until_something_is_read() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let world = &mut World::new(open_limited(home.path()));
    world.ask("a", "QCREATE q");
    let accepted = (0..1000).take_while(|_| world.ask("a", "SEND q x") != full()).count();
    assert!((20..200).contains(&accepted), "{accepted}");
    assert_eq!(world.ask("a", "QCREATE r"), full());
    assert_eq!(world.ask("a", "POP FROM stranger BLOCK 1"), full(), "it would have to be remembered");
    world.ask("a", "POP QUEUE q COUNT 2");
    world.send("a", "q y");
}

/// What was purged is not freed yet, and its memory is not given away twice.
#[test]
fn after_a_purge_there_is_room_at_once_and_no_more_than_the_limit() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let options =
        EmbeddedOptions { memory_limit: Some(LIMIT_OF_MANY), freed_at_once: 1, ..EmbeddedOptions::default() };
    let world = &mut World::new(open_with(home.path(), options));
    world.ask("a", "QCREATE q");
    let send = format!("SENDMANY q{}", " x".repeat(100));
    let is_full = |got: &Got| matches!(got, Got::Error(text) if text.starts_with("FULL"));
    for _ in 0..3 {
        let accepted = (0..1000).take_while(|_| !is_full(&world.ask("a", &send))).count();
        assert!((140..160).contains(&accepted), "{accepted} hundreds of messages");
        let state = figure(&world.store, "state_bytes");
        assert!(state < LIMIT_OF_MANY + 10_000, "{state} bytes of memory");
        let purged = world.ask("a", "QPURGE q");
        assert_eq!(purged, Got::Integer(100 * accepted as i64));
    }
}

#[test]
fn readers_have_as_much_memory_again_for_leases_and_no_more() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let world = &mut World::new(open_limited(home.path()));
    world.ask("a", "QCREATE q");
    while world.ask("a", "SEND q x") != full() {}
    let mut receipts = Vec::new();
    let refused = loop {
        match world.ask("a", "POP QUEUE q LEASE 60000") {
            Got::Error(refused) => break refused,
            leased => receipts.push(leased.text("receipt").to_owned()),
        }
    };
    assert!(refused.starts_with("FULL what is leased"), "{refused}");
    assert!((10..40).contains(&receipts.len()), "{}", receipts.len());
    assert!(matches!(world.ask("a", "POP QUEUE q REQID k"), Got::Error(text) if text == refused));
    assert!(matches!(world.ask("a", "POP QUEUE q"), Got::Map(_)), "for good");
    for receipt in &receipts[..2] {
        assert_eq!(world.ask("a", &format!("ACK {receipt}")), Got::Integer(1));
    }
    assert!(matches!(world.ask("a", "POP QUEUE q LEASE 60000"), Got::Map(_)), "others are done with");
}

#[test]
fn messages_that_came_back_are_leased_again_at_any_limit() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let mut world = World::new(open_limited(home.path()));
    world.ask("a", "QCREATE q");
    while world.ask("a", "SEND q x") != full() {}
    let refused = |got: &Got| matches!(got, Got::Error(text) if text.starts_with("FULL what is leased"));
    let leased = (0..1000).take_while(|_| !refused(&world.ask("a", "POP QUEUE q LEASE 1000"))).count();
    world.run_out(1000);
    let again = world.ask("a", "POP QUEUE q LEASE 1000");
    assert!(matches!(again, Got::Map(_)), "as much is kept of it as if it was leased: {again:?}");
    // Of the rest too, but not of any other.
    let rest = world.ask("a", "POP QUEUE q LEASE 1000 COUNT 1000");
    assert_eq!(rest.items().len(), leased - 1);
    assert!(refused(&world.ask("a", "POP QUEUE q LEASE 1000")), "what was never leased is left");
    world.run_out(1000);
    assert!(refused(&world.ask("a", "POP QUEUE q LEASE 1000 REQID k")), "the answer would be kept");
    let mut world = world.reopen(|| open_limited(home.path()));
    let mut taken = 0;
    while let Got::Map(message) = world.ask("a", "POP QUEUE q LEASE 1000") {
        let Got::Text(receipt) = &message["receipt"] else { panic!("{message:?}") };
        assert_eq!(world.ask("a", &format!("ACK {receipt}")), Got::Integer(1));
        taken += 1;
    }
    assert!(taken > leased, "all of them can be worked off");
    assert_eq!(world.ask("a", "POP QUEUE q"), Got::Null);
}

#[test]
fn a_queue_that_exists_is_changed_at_any_limit() {
    fn changes(world: &mut World<impl Rules>) {
        world.ask("a", "QCREATE q");
        while world.ask("a", "SEND q x") != full() {}
        for options in ["", " MAXMSGS 5", " DEADLETTER r AFTER 1"] {
            let made = world.ask("a", &format!("QCREATE q{options}"));
            let is_made = matches!(made, Got::Integer(_));
            assert_eq!(is_made, !options.contains(" r "), "QCREATE q{options}: {made:?}");
        }
    }
    let home = tempfile::tempdir().expect("a temporary directory");
    changes(&mut World::new(open_limited(home.path())));
    changes(&mut World::new(Memory::new(1).limited(Some(LIMIT))));
}

#[test]
fn a_login_by_a_new_name_beyond_the_memory_limit_is_refused() {
    fn refuses(world: &mut World<impl Rules>) {
        let login = |number: usize| format!("LOGIN name{number}");
        let accepted = (0..1000).take_while(|n| !matches!(world.ask("a", &login(*n)), Got::Error(_))).count();
        assert!((5..20).contains(&accepted), "{accepted}");
        let refused = world.ask("a", &login(accepted));
        let says = "FULL the names of accounts, which stay, need most of 8000 bytes";
        assert!(matches!(&refused, Got::Error(text) if text.starts_with(says)), "{refused:?}");
        assert!(matches!(world.ask("a", "LOGIN name0"), Got::Integer(_)), "who is known comes in");
        assert!(world.store.account(b"of the file").is_ok(), "and whom an accounts file names");
    }
    let home = tempfile::tempdir().expect("a temporary directory");
    refuses(&mut World::new(open_limited(home.path())));
    refuses(&mut World::new(Memory::new(1).limited(Some(LIMIT))));
}

#[test]
fn who_meets_a_memory_full_of_kept_answers_is_told_so() {
    fn refuses(world: &mut World<impl Rules>) {
        world.ask("a", "QCREATE q");
        let refused = (0..1000).find_map(|number| {
            let sent = world.ask("a", &format!("SEND q x DEDUP k{number}"));
            world.ask("a", "POP QUEUE q");
            matches!(sent, Got::Error(_)).then_some(sent)
        });
        let says =
            "FULL answers kept for 10 minutes for repeated requests (DEDUP, REQID) need most of 8000 bytes";
        assert!(matches!(&refused, Some(Got::Error(text)) if text.starts_with(says)), "{refused:?}");
    }
    let home = tempfile::tempdir().expect("a temporary directory");
    refuses(&mut World::new(open_limited(home.path())));
    refuses(&mut World::new(Memory::new(1).limited(Some(LIMIT))));
}
