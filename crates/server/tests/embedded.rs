//! What only the embedded store promises: disk space given back, damage told. What it shows before it is durable is in
//! `embedded_reads.rs`.

#[path = "support/embedded.rs"]
mod embedded;
#[path = "support/heard.rs"]
mod heard;
#[path = "support/home.rs"]
mod home;
mod support;

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use embedded::{execute, open, open_with, shown};
use heard::heard;
use posthaste_measure::{Clock, Events};
use posthaste_server::queue::embedded::{Embedded, EmbeddedOptions};
use posthaste_server::queue::memory::Memory;
use posthaste_server::queue::rules::Rules as _;
use posthaste_wire::fault::{Fault, Word};
use posthaste_wire::operation::REDRIVE_PIECE;
use support::{Got, World};

/// So many messages of one byte that they fill the greater part of a small segment.
const MANY_IN_A_SEGMENT: usize = 4_000;

fn figure(store: &Embedded, name: &str) -> u64 {
    let figures = store.figures();
    figures.iter().find(|(known, _)| *known == name).map(|(_, value)| *value).expect("a figure of that name")
}

#[test]
fn a_redrive_that_a_crash_cuts_short_has_moved_some_and_lost_none() {
    let home = home::home();
    let mut world = World::new(open(home.path()));
    world.ask("a", "QCREATE q DEADLETTER graves AFTER 1");
    for count in [REDRIVE_PIECE, 7] {
        world.ask("a", &format!("SENDMANY q{}", " x".repeat(count)));
        world.ask("b", "POP QUEUE q COUNT 10000 LEASE 100");
    }
    world.run_out(100);
    let piece = [REDRIVE_PIECE, REDRIVE_PIECE].map(|number| Got::Integer(number as i64));
    assert_eq!(world.ask("a", "QREDRIVE graves"), Got::List(piece.to_vec()), "how many, and up to which id");
    assert_eq!(execute(&mut world, "a", "QREDRIVE graves"), Got::Integer(7), "which is not committed");
    let mut world = world.reopen(|| open(home.path()));
    let messages =
        |world: &mut World<_>, queue: &str| world.ask("a", &format!("QINFO {queue}")).number("messages");
    assert_eq!((messages(&mut world, "q"), messages(&mut world, "graves")), (REDRIVE_PIECE as i64, 7));
    assert_eq!(world.ask("a", "QREDRIVE graves"), Got::Integer(7));
    let mut ids: Vec<_> = Vec::new();
    for _ in 0..2 {
        let taken = world.ask("b", "POP QUEUE q COUNT 10000");
        ids.extend(taken.items().iter().map(|message| message.number("id")));
    }
    assert_eq!(ids, (1..=REDRIVE_PIECE as i64 + 7).collect::<Vec<_>>());
}

#[test]
fn whatever_has_come_of_age_is_seen_by_the_first_request() {
    let home = home::home();
    let mut world = World::new(open(home.path()));
    for request in ["QCREATE graves", "QCREATE q DEADLETTER graves AFTER 1", "QCREATE t TTL 1000"] {
        world.ask("a", request);
    }
    for is_new in [false, true] {
        let first = format!("first{is_new}");
        world.ask("a", &format!("SEND q {first} DELAY 30"));
        world.ask_together("a", &["SEND q delayed DELAY 20"; 10_000]);
        world.ask("a", "SEND q last");
        world.ask("a", "SEND q leased PRIORITY 1");
        world.ask("b", "POP QUEUE q LEASE 40");
        for _ in 0..2 {
            world.ask("a", &format!("SENDMANY t{}", " x".repeat(10_000)));
        }
        if is_new {
            world = world.reopen(|| open(home.path()));
        }
        world.now += 1000; // and nobody has told the store
        for request in ["PEEK QUEUE t", "PEEK QUEUE q", "QREADABLE"] {
            assert_eq!(shown(&mut world, "b", request), None, "{request}: not on the spot");
        }
        assert_eq!(world.ask("b", "PEEK QUEUE q").text("body"), first);
        assert_eq!(shown(&mut world, "b", "PEEK QUEUE t"), Some(Got::Null));
        assert_eq!(world.ask("a", "QINFO t").number("messages"), 0);
        assert_eq!(world.ask("a", "QPURGE q"), Got::Integer(10_002));
        assert_eq!(world.ask("a", "QPURGE graves"), Got::Integer(1));
    }
}

#[test]
fn stragglers_keep_no_disk_space_but_their_own() {
    // So large that a segment is swept in several steps.
    let events = Events::kept(Clock::start());
    let options =
        EmbeddedOptions { segment_bytes: 1 << 18, events: events.clone(), ..EmbeddedOptions::default() };
    let home = home::home();
    let mut world = World::new(open_with(home.path(), options.clone()));
    world.ask("a", "QCREATE old");
    world.ask("a", "QCREATE q");
    for number in 0..5000 {
        if number % 40 == 0 {
            world.send("a", &format!("old straggler{number}"));
        }
        world.send("a", &format!("q {}", "x".repeat(1000)));
        world.ask("b", "POP QUEUE q");
        let segments = figure(&world.store, "log_segments");
        assert!(segments <= 8, "{segments} segments after {number} messages");
    }
    let mut swept = events.take();
    swept.retain(|event| event.kind != "slow sync"); // the disk may be busy with others
    assert!(!swept.is_empty() && swept.iter().all(|event| event.kind == "segment swept"), "{swept:?}");
    let mut world = world.reopen(|| open_with(home.path(), options.clone()));
    let bodies: Vec<_> = (0..5000).step_by(40).map(|number| format!("straggler{number}")).collect();
    assert_eq!(world.bodies("b", "old"), bodies);
}

#[test]
fn space_is_given_back_as_fast_as_large_batches_take_it() {
    let options = EmbeddedOptions { segment_bytes: 1 << 20, ..EmbeddedOptions::default() };
    let home = home::home();
    let world = &mut World::new(open_with(home.path(), options.clone()));
    world.ask("a", "QCREATE cold");
    world.ask("a", "QCREATE hot");
    for _ in 0..400 {
        world.send("a", &format!("cold {}", "x".repeat(10_000)));
    }
    let live = figure(&world.store, "log_live_bytes");
    let few_large = format!(" {}", "x".repeat(64_000)).repeat(4);
    let many_small = " x".repeat(10_000); // more than an idle commit frees
    let state = figure(&world.store, "state_bytes");
    for bodies in [few_large, many_small] {
        let batch = format!("SENDMANY hot{bodies}");
        let (mut most, mut most_state) = (0, 0);
        for _ in 0..200 {
            world.ask_together("a", &[&batch, "QPURGE hot"]);
            most = most.max(figure(&world.store, "log_bytes"));
            most_state = most_state.max(figure(&world.store, "state_bytes"));
        }
        // What lives may have to be written once more before anything is freed.
        assert!(most < 3 * live + 5 * options.segment_bytes, "{most} bytes for {live}");
        assert!(most_state < state + 2_000_000, "{most_state} bytes of memory, {state} before");
    }
}

#[test]
fn a_purge_of_many_messages_is_done_at_once_and_freed_little_by_little() {
    const MANY: usize = 20_000;
    let home = home::home();
    for remove in ["QPURGE q", "QDELETE q"] {
        let mut world = World::new(open(home.path()));
        let live = |world: &World<Embedded>| figure(&world.store, "log_live_bytes");
        world.ask("a", "QCREATE q");
        let little = live(&world);
        for _ in 0..2 {
            world.ask("a", &format!("SENDMANY q{}", " x".repeat(MANY / 2)));
        }
        let full = live(&world);
        let state = figure(&world.store, "state_bytes");
        assert_eq!(world.ask("b", remove), Got::Integer(MANY as i64));
        assert!(live(&world) > full / 2, "{} of {full}: most is left for later", live(&world));
        let left = figure(&world.store, "state_bytes");
        assert!(left > state / 2, "{left} bytes of {state}: what is left needs memory");
        assert_eq!(figure(&world.store, "messages"), 0);
        world.ask("a", "QCREATE q");
        assert_eq!(world.ask("b", "POP QUEUE q"), Got::Null);
        let next = world.send("a", "q next");
        assert_eq!(world.ask("b", "POP QUEUE q").number("id"), next);

        free_all(&mut world);
        assert!(live(&world) < little + 1000, "{} of {full} are left", live(&world));
        let left = figure(&world.store, "state_bytes");
        assert!(left < state / 10, "{left} bytes of {state} are left");
        assert!(settle(&mut world) <= 2, "the files are given back");
        world.reopen(|| open(home.path()));
    }
}

/// Lets the store free what purges have left.
fn free_all(world: &mut World<Embedded>) {
    while world.store.has_work_left() {
        world.wait(1);
    }
}

/// What was purged first holds the oldest segments, in which others may wait for space.
#[test]
fn what_was_purged_first_is_freed_first() {
    let home = home::home();
    let options = EmbeddedOptions { segment_bytes: 1 << 16, freed_at_once: 1, ..EmbeddedOptions::default() };
    let world = &mut World::new(open_with(home.path(), options));
    for queue in ["q", "r"] {
        world.ask("a", &format!("QCREATE {queue}"));
        world.ask("a", &format!("SENDMANY {queue}{}", " x".repeat(MANY_IN_A_SEGMENT)));
    }
    world.ask_together("a", &["QPURGE q", "QPURGE r"]);
    let before = figure(&world.store, "log_segments");
    for _ in 0..MANY_IN_A_SEGMENT * 5 / 4 {
        world.wait(1);
    }
    let after = figure(&world.store, "log_segments");
    assert!(after < before, "{after} of {before} segments are left, and those of the first are not needed");
    assert!(world.store.has_work_left());
}

/// Fills and empties a queue until everything written before has been moved or dropped.
fn churn(world: &mut World<Embedded>) {
    world.ask("churner", "QCREATE churn");
    for _ in 0..1500 {
        world.send("churner", &format!("churn {}", "x".repeat(1000)));
        world.ask("churner", "POP QUEUE churn");
    }
}

#[test]
fn everything_but_dead_bytes_outlives_its_segment() {
    let home = home::home();
    let mut world = World::new(open(home.path()));
    for request in ["QCREATE graves", "QCREATE q DEADLETTER graves AFTER 2 TTL 500000", "QCREATE w"] {
        world.ask("a", request);
    }
    world.send("a", "q leased PRIORITY 9 HEADER color red");
    world.send("a", "q delayed DELAY 1000 TO later");
    world.send("a", "w moved");
    let leased = world.ask("b", "POP QUEUE q LEASE 400000");
    let handed = world.ask("b", "POP QUEUE w LEASE 400000 REQID r");
    let receipt = leased.text("receipt").to_owned();
    let sent = world.ask("a", "SEND w once DEDUP k");
    world.send("a", "q twice");
    for _ in 0..2 {
        let lease = world.ask("b", "POP QUEUE q LEASE 10");
        world.ask("b", &format!("NACK {}", lease.text("receipt")));
    }
    assert_eq!(world.ask("a", "QREDRIVE graves w"), Got::Integer(1));
    let views = ["QBROWSE q", "QBROWSE w", "QINFO q", "QINFO graves", "ACCOUNTS"];
    let before: Vec<_> = views.iter().map(|view| world.ask("a", view)).collect();

    churn(&mut world);
    let mut world = world.reopen(|| open(home.path()));
    let mut after: Vec<_> = views.iter().map(|view| world.ask("a", view)).collect();
    let accounts = after.pop().expect("the accounts").items().len();
    assert_eq!(after, before[..4]);
    assert_eq!(accounts, before[4].items().len() + 1, "the churner came");
    assert_eq!(world.ask("a", "SEND w once DEDUP k"), sent);
    assert_eq!(world.ask("b", "POP QUEUE w LEASE 400000 REQID r"), handed);
    assert_eq!(world.ask("b", &format!("ACK {receipt}")), Got::Integer(1));
}

#[test]
fn ids_are_never_given_again_even_when_nothing_is_left() {
    let home = home::home();
    let mut world = World::new(open(home.path()));
    world.ask("a", "QCREATE q");
    world.ask("a", "QCREATE churn");
    let queue = world.ask("a", "QCREATE gone");
    world.ask("a", "QDELETE gone");
    churn(&mut world);
    let last = world.send("a", "q last");
    world.ask("a", "POP QUEUE q");
    let mut world = world.reopen(|| open(home.path()));
    assert_eq!(world.send("a", "q next"), last + 1);
    let Got::Integer(queue) = queue else { panic!("an id") };
    let Got::Integer(next) = world.ask("a", "QCREATE new") else { panic!("an id") };
    assert!(next > queue);
}

#[test]
fn a_damaged_body_is_told_and_its_message_stays() {
    let home = home::home();
    let world = &mut World::new(open(home.path()));
    world.ask("a", "QCREATE q");
    world.send("a", "q fine");
    world.send("a", "q damaged-body");
    for _ in 0..400 {
        world.send("a", &format!("q {}", "x".repeat(500)));
    }
    let damaged = flip_byte(home.path(), b"damaged-body");
    assert_eq!(world.ask("a", "POP QUEUE q COUNT 2").bodies(), ["fine"], "the answer ends before it");
    for _ in 0..2 {
        let answer = world.ask("a", "POP QUEUE q");
        assert_eq!(answer.word(), "STORE");
        let Got::Error(text) = answer else { panic!("an error") };
        assert!(text.contains(&damaged), "{text}");
    }
    assert_eq!(world.ask("a", "QBROWSE q COUNT 3").items().len(), 3, "onlookers see the others");
    for take in ["PEEK", "POP"] {
        assert_eq!(world.ask("a", &format!("{take} QUEUE q ANYORDER")).text("body").len(), 500);
        let several = world.ask("a", &format!("{take} QUEUE q ANYORDER COUNT 3"));
        assert_eq!(several.items().len(), 2, "the one is left out");
    }
    world.ask("a", "QCREATE r");
    world.send("a", "r fine");
    world.wait(50);
    let queues = world.ask("a", "QLIST").items().to_vec();
    let ages: Vec<_> = queues.iter().map(|queue| queue.number("oldest_ms")).collect();
    assert_eq!(ages, [0, 50], "only that of the damaged one is unknown");
    assert_eq!(world.ask("a", "QINFO q").number("messages"), 398);
    assert_eq!(world.ask("a", "QPURGE q"), Got::Integer(398), "it can still be given up");
}

#[test]
fn a_segment_that_cannot_be_read_goes_once_nothing_in_it_is_needed() {
    let home = home::home();
    let world = &mut World::new(open(home.path()));
    for queue in ["q", "r"] {
        world.ask("a", &format!("QCREATE {queue}"));
    }
    // Queues and accounts are in a segment before the damaged one.
    for number in 0..400 {
        let message =
            if number == 200 { "r damaged-body".to_owned() } else { format!("q {}", "x".repeat(500)) };
        world.send("a", &message);
    }
    flip_byte(home.path(), b"damaged-body");
    world.ask("a", "QPURGE q");
    assert_eq!(settle(world), 3, "the damaged one and those behind it");
    assert_eq!(figure(&world.store, "unreadable_segments"), 1);
    assert_eq!(world.ask("b", "POP QUEUE r").word(), "STORE");
    world.ask("a", "QPURGE r");
    assert!(settle(world) < 3);
    assert_eq!(figure(&world.store, "unreadable_segments"), 0);
}

#[test]
fn a_segment_that_could_not_be_read_is_tried_again() {
    let home = home::home();
    let elsewhere = home::home();
    let world = &mut World::new(open(home.path()));
    for queue in ["keep", "q"] {
        world.ask("a", &format!("QCREATE {queue}"));
    }
    world.send("a", "keep this");
    for _ in 0..400 {
        world.send("a", &format!("q {}", "x".repeat(500)));
    }
    let files = std::fs::read_dir(home.path()).expect("the directory");
    let segments =
        files.map(|entry| entry.expect("an entry").path()).filter(|path| path.extension().is_some());
    let oldest = segments.min().expect("a segment");
    let away = elsewhere.path().join("segment");
    std::fs::rename(&oldest, &away).expect("it can be moved");
    world.ask("a", "QPURGE q");
    assert!(settle(world) > 3);
    assert_eq!(figure(&world.store, "unreadable_segments"), 1);
    assert_eq!(world.store.deadline(), Some(world.now + 1000));
    std::fs::rename(&away, &oldest).expect("it can be moved back");
    world.wait(1000);
    assert!(settle(world) < 3);
    assert_eq!(figure(&world.store, "unreadable_segments"), 0);
    assert_eq!(world.bodies("a", "keep"), ["this"]);
}

/// What is leased in place of messages that cannot be read counts like others.
#[test]
fn in_any_order_no_more_is_leased_than_the_memory_limit_allows() {
    let home = home::home();
    let options =
        EmbeddedOptions { memory_limit: Some(8_000), segment_bytes: 1 << 14, ..EmbeddedOptions::default() };
    let world = &mut World::new(open_with(home.path(), options));
    for request in
        ["QCREATE s", "SEND s never-read", "QCREATE q", "QCREATE r", "SEND q broken", "POP QUEUE q LEASE 1"]
    {
        world.ask("a", request);
    }
    world.run_out(1); // as much is kept of it now as if it was leased
    world.send("a", "q fine");
    let mut is_refused =
        |request: &str| matches!(world.ask("a", request), Got::Error(text) if text.starts_with("FULL"));
    let send = format!("SEND r {}", "x".repeat(500));
    while !is_refused(&send) {}
    flip_byte(home.path(), b"broken");
    flip_byte(home.path(), b"never-read");
    while !is_refused("POP QUEUE r LEASE 60000") {}
    assert!(is_refused("POP QUEUE q LEASE 60000 ANYORDER"));
    assert!(
        is_refused("POP QUEUE s LEASE 60000"),
        "before it is read, or it would be told that it cannot be"
    );
    assert_eq!(world.ask("a", "POP QUEUE q ANYORDER").text("body"), "fine", "for good");
}

/// Gives space back for as long as there is some; how many segments are left.
fn settle(world: &mut World<Embedded>) -> u64 {
    for _ in 0..100 {
        world.wait(0);
    }
    figure(&world.store, "log_segments")
}

/// A message of 3 MiB that begins with a word.
fn large(word: &str) -> String {
    format!("q {word}{}", "x".repeat(3 << 20))
}

/// A store whose files are large enough for three of those.
fn open_large(directory: &Path) -> Embedded {
    open_with(directory, EmbeddedOptions { segment_bytes: 10 << 20, ..EmbeddedOptions::default() })
}

#[test]
fn any_order_and_onlookers_get_past_damaged_messages_that_fill_an_answer() {
    let home = home::home();
    let world = &mut World::new(open_large(home.path()));
    world.ask("a", "QCREATE q");
    for word in ["broken-1", "broken-2", "broken-3", "good-1", "good-2", "last"] {
        world.send("a", &large(word));
    }
    for word in ["broken-1", "broken-2", "broken-3"] {
        flip_byte(home.path(), word.as_bytes());
    }
    assert_eq!(world.ask("a", "POP QUEUE q").word(), "STORE", "in order nothing comes before the first");
    for take in ["PEEK", "POP"] {
        let body = world.ask("a", &format!("{take} QUEUE q ANYORDER")).text("body").to_owned();
        assert!(body.starts_with("good-1"), "{}", &body[..10]);
    }
    let shown = world.ask("a", "QBROWSE q").bodies();
    assert!(shown.len() == 2 && shown[0].starts_with("good-2") && shown[1].starts_with("last"));
}

#[test]
fn a_list_reads_no_more_at_once_than_an_answer_holds_and_nothing_twice() {
    let home = home::home();
    let world = &mut World::new(open_large(home.path()));
    for queue in ["q", "r", "s", "t"] {
        world.ask("a", &format!("QCREATE {queue}"));
        world.send("a", &large("").replacen('q', queue, 1));
    }
    world.wait(50);
    // Of the fourth it is not known yet how old its message is: the list is to be gone on with after the third.
    let list = world.ask("a", "QLIST").items().to_vec();
    assert_eq!((list.len(), list.last()), (4, Some(&Got::Integer(3))));
    for _ in 0..2 {
        let list = world.ask("a", "QLIST").items().to_vec();
        let ages: Vec<_> = list.iter().map(|queue| queue.number("oldest_ms")).collect();
        assert_eq!(ages, [50; 4]);
    }
    world.ask("a", "POP QUEUE q");
    world.send("a", "q younger");
    world.wait(10);
    assert_eq!(world.ask("a", "QINFO q").number("oldest_ms"), 10);
}

/// Damages the file that holds these bytes and answers its name.
fn flip_byte(directory: &Path, needle: &[u8]) -> String {
    for entry in std::fs::read_dir(directory).expect("the directory") {
        let path = entry.expect("an entry").path();
        // The store prepares a file ahead on another thread, and renames it when that is done.
        let Ok(bytes) = std::fs::read(&path) else { continue };
        let Some(at) = bytes.windows(needle.len()).position(|window| window == needle) else { continue };
        let file = OpenOptions::new().write(true).open(&path).expect("a file");
        file.write_at(&[bytes[at] ^ 1], at as u64).expect("a write");
        return path.file_name().expect("a name").to_string_lossy().into_owned();
    }
    panic!("no file holds it");
}

#[test]
fn what_expired_before_the_store_was_opened_is_not_counted_again() {
    let home = home::home();
    let mut world = World::new(open(home.path()));
    world.ask("a", "QCREATE q");
    world.send("a", "q x TTL 10");
    world.send("a", "q y TTL 1000");
    world.wait(10);
    let counted = |world: &World<_>| ["messages", "messages_expired"].map(|name| figure(&world.store, name));
    assert_eq!(counted(&world), [1, 1]);
    let mut world = world.reopen(|| open(home.path()));
    world.wait(0);
    assert_eq!(counted(&world), [1, 0]);
    world.wait(1000);
    assert_eq!(counted(&world), [0, 1]);
}

#[test]
fn after_a_failed_sync_nothing_changes_and_the_durable_is_still_shown() {
    let home = home::home();
    let world = &mut World::new(open(home.path()));
    world.ask("a", "QCREATE q");
    world.ask("a", "QCREATE r");
    world.send("a", "q durable");
    execute(world, "a", "SEND r doubtful");
    world.store.account(b"doubtful").expect("there is room");
    let commit = world.store.seal().expect("something to write");
    let broken = Fault::new(Word::Store, "cannot sync the log: input/output error");
    let told = heard(|| world.store.committed(commit, &Err(broken.clone())));
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("ERROR") && told[0].contains("input/output error"), "{told:?}");

    assert_eq!(world.store.prepare(1, 1), Err(broken));
    assert_eq!(execute(world, "a", "SEND q more").word(), "STORE");
    assert_eq!(execute(world, "a", "PEEK QUEUE q").text("body"), "durable");
    assert_eq!(execute(world, "a", "PEEK QUEUE r").word(), "STORE", "nobody knows");
    for request in ["QLIST", "QINFO r", "QBROWSE r", "ACCOUNTS"] {
        assert_eq!(shown(world, "a", request), None, "{request}: not on the spot");
        assert_eq!(execute(world, "a", request).word(), "STORE", "{request}: nobody knows");
    }
    assert_eq!(shown(world, "a", "LOGIN a"), Some(Got::Integer(1)), "who is known may come and look");
    assert_eq!(shown(world, "a", "LOGIN doubtful"), None, "nobody knows");
    assert!(world.store.seal().is_none());
    assert_eq!(world.store.deadline(), None);
}

#[test]
fn an_answer_ends_before_its_headers_are_too_much() {
    let home = home::home();
    let header = format!(" HEADER name {}", "x".repeat(60_000));
    let send = format!("SEND q x{}", header.repeat(16));
    let given = |counts: Got| counts.items().len();
    let mut embedded = World::new(open(home.path()));
    let mut memory = World::new(Memory::new(1));
    let requests = [vec!["QCREATE q"], vec![send.as_str(); 10]].concat();
    for request in requests {
        embedded.ask("a", request);
        memory.ask("a", request);
    }
    assert_eq!(given(embedded.ask("a", "PEEK QUEUE q COUNT 10")), 8, "960,000 bytes each");
    assert_eq!(given(memory.ask("a", "PEEK QUEUE q COUNT 10")), 8);
}

#[test]
fn a_directory_is_open_only_once() {
    let home = home::home();
    let _store = open(home.path());
    let second = Embedded::open(home.path(), EmbeddedOptions::default()).err().expect("refused");
    assert!(second.to_string().contains("in use"), "{second}");
}

#[test]
fn an_idle_store_goes_on_giving_space_back() {
    let home = home::home();
    let world = &mut World::new(open(home.path()));
    world.ask("a", "QCREATE keep");
    world.ask("a", "QCREATE q");
    for number in 0..2000 {
        world.send("a", &format!("q {}", "x".repeat(500)));
        if number % 100 == 0 {
            world.send("a", "keep this");
        }
    }
    let before = figure(&world.store, "log_segments");
    world.ask("a", "QDELETE q");
    for _ in 0..1000 {
        if world.store.deadline() != Some(world.now) {
            break;
        }
        world.wait(0);
    }
    assert_eq!(world.store.deadline(), None, "nothing left to do");
    let after = figure(&world.store, "log_segments");
    assert!(before > 15 && after < 8, "{before} segments, then {after}");
    assert_eq!(world.bodies("a", "keep").len(), 20);
}
