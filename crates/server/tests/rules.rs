//! The rules of the queue tier, each as a promise kept by a store whose clock the test moves by hand.
//!
//! What needs no clock and no look at the news stands in the wire dialogues; here are edges of time, what is
//! remembered, who is woken, and everything that a wrong millisecond would break.

mod support;

use posthaste_server::queue::embedded::{Embedded, EmbeddedOptions};
use posthaste_server::queue::memory::Memory;
use posthaste_server::queue::rules::{News, Rules, after};
use posthaste_wire::operation::{ACCOUNTS_PIECE, LIST_PIECE, REDRIVE_PIECE};
use support::{Counts, Got, World, counted, decoded};

/// Makes each promise a test of each store.
macro_rules! on_every_store {
    ($($promise:ident)*) => {
        mod memory_store {
            $(#[test]
            fn $promise() {
                super::$promise(&mut super::World::new(super::Memory::new(7)));
            })*
        }

        mod embedded_store {
            $(#[test]
            fn $promise() {
                let home = tempfile::tempdir().expect("a temporary directory");
                let store = super::Embedded::open(home.path(), super::EmbeddedOptions::default());
                super::$promise(&mut super::World::new(store.expect("a store")));
            })*
        }
    };
}

on_every_store! {
    the_race_for_queue_1_goes_as_published
    a_delay_is_never_shorter_than_asked
    a_ttl_ends_on_its_millisecond
    the_ttl_of_a_queue_is_for_messages_without_one
    a_delayed_message_may_expire_before_it_is_read
    a_lease_is_never_shorter_than_asked
    a_lease_extended_counts_from_now
    a_late_acknowledgement_of_an_earlier_lease_does_nothing
    a_leased_message_that_expired_can_still_be_acknowledged
    a_leased_message_that_expired_vanishes_when_its_lease_ends
    a_leased_message_that_expired_vanishes_when_it_is_given_back
    an_expired_message_becomes_no_dead_letter
    a_dead_letter_keeps_id_first_queue_deliveries_and_ttl
    a_dead_letter_that_dies_again_keeps_its_first_queue
    a_pop_without_lease_is_no_failed_delivery
    a_redriven_message_starts_anew
    a_redrive_leaves_what_a_reader_holds
    a_redrive_is_done_a_piece_at_a_time
    a_dedup_key_is_remembered_ten_minutes_from_its_first_use
    a_dedup_key_remembers_no_refusal
    a_request_id_gives_the_same_bytes_for_ten_minutes
    a_request_id_of_a_deleted_queue_is_gone
    keys_are_per_account_and_queue
    a_message_to_everyone_is_for_those_who_logged_in
    copies_for_everyone_are_stored_whole_or_not_at_all
    a_pop_that_waits_says_for_what
    a_pop_that_waits_for_a_stranger_is_woken_by_its_first_message
    news_come_when_a_message_can_be_read
    no_news_come_of_what_nobody_can_read_yet
    the_deadline_is_the_next_change
    nothing_is_due_when_nothing_waits_for_time
    what_time_has_changed_is_not_shown_as_it_was
    an_answer_ends_before_eight_mebibytes
    the_age_of_a_queue_is_that_of_its_oldest_message
    an_unnamed_queue_skips_ids_that_are_names
    a_queue_made_anew_is_another_queue
    many_things_may_fall_due_at_once
    a_read_shows_what_was_executed
    a_list_is_answered_a_piece_at_a_time
    messages_are_counted_by_what_happens_to_them
}

fn the_race_for_queue_1_goes_as_published(world: &mut World<impl Rules>) {
    let race: serde_json::Value = serde_json::from_str(include_str!("data/race.json")).expect("JSON");
    world.ask("A", "QCREATE 1");
    for step in race["steps"].as_array().expect("steps") {
        let client = step["client"].as_str().expect("a client");
        let got = match step["step"].as_i64().expect("a number") {
            1 => world.ask(client, "SEND 1 x"),
            2 => world.ask(client, "PEEK QUEUE 1"),
            3 => world.ask(client, "POP QUEUE 1"),
            4 => world.ask(client, &format!("SEND 1 x TO {client}")),
            5 => world.ask(client, &format!("PEEK QUEUE 1 FROM {client}")),
            6 => world.ask(client, &format!("POP QUEUE 1 FROM {client}")),
            other => panic!("step {other}"),
        };
        assert_eq!(got == Got::Null, step.get("result").is_some(), "{step}");
        let held = world.ask("A", "QBROWSE 1");
        let held: Vec<_> = held.items().iter().map(|m| (m.text("from"), m.field("to").clone())).collect();
        let expected: Vec<_> =
            step["queue_after"].as_array().expect("a queue").iter().map(message_of).collect();
        assert_eq!(held, expected, "{step}");
    }
}

/// Sender and recipient of an entry of the race.
fn message_of(entry: &serde_json::Value) -> (&str, Got) {
    let recipient = entry[1].as_str().map_or(Got::Null, |name| Got::Text(name.to_owned()));
    (entry[0].as_str().expect("a sender"), recipient)
}

fn a_delay_is_never_shorter_than_asked(world: &mut World<impl Rules>) {
    world.ask("a", "QCREATE q");
    world.send("a", "q x DELAY 100");
    world.wait(100);
    assert_eq!(world.ask("b", "PEEK QUEUE q"), Got::Null);
    world.wait(1);
    assert_eq!(world.bodies("b", "q"), ["x"]);
}

fn a_ttl_ends_on_its_millisecond(world: &mut World<impl Rules>) {
    world.ask("a", "QCREATE q");
    world.send("a", "q x TTL 100");
    world.wait(99);
    assert_eq!(world.bodies("b", "q"), ["x"]);
    world.wait(1);
    assert_eq!(world.ask("b", "PEEK QUEUE q"), Got::Null);
    assert_eq!(world.ask("b", "QINFO q").number("messages"), 0);
}

fn the_ttl_of_a_queue_is_for_messages_without_one(world: &mut World<impl Rules>) {
    world.ask("a", "QCREATE q TTL 100");
    world.send("a", "q default");
    world.send("a", "q shorter TTL 50");
    world.send("a", "q longer TTL 150");
    world.ask("a", "QCREATE q TTL 1");
    world.wait(50);
    assert_eq!(world.bodies("b", "q"), ["default", "longer"]);
    world.wait(50);
    assert_eq!(world.bodies("b", "q"), ["longer"]);
}

fn a_delayed_message_may_expire_before_it_is_read(world: &mut World<impl Rules>) {
    world.ask("a", "QCREATE q");
    world.send("a", "q x DELAY 200 TTL 100");
    world.wait(100);
    assert_eq!(world.ask("a", "QINFO q").number("messages"), 0);
    world.wait(100);
    assert_eq!(world.news, []);
}

fn a_lease_is_never_shorter_than_asked(world: &mut World<impl Rules>) {
    world.ask("a", "QCREATE q");
    let id = world.send("a", "q x");
    assert_eq!(world.ask("b", "POP QUEUE q LEASE 100").number("deliveries"), 1);
    world.wait(100);
    assert_eq!(world.ask("c", "PEEK QUEUE q"), Got::Null);
    world.wait(1);
    assert_eq!(world.ask("b", &format!("ACK {id}")), Got::Integer(0));
    assert_eq!(world.ask("c", "PEEK QUEUE q").number("deliveries"), 1);
    assert_eq!(world.ask("c", "POP QUEUE q LEASE 100").number("deliveries"), 2);
}

fn a_lease_extended_counts_from_now(world: &mut World<impl Rules>) {
    world.ask("a", "QCREATE q");
    let id = world.send("a", "q x");
    world.ask("b", "POP QUEUE q LEASE 100");
    world.wait(60);
    assert_eq!(world.ask("b", &format!("EXTEND {id} 100")), Got::Integer(1));
    world.wait(100);
    assert_eq!(world.ask("c", "PEEK QUEUE q"), Got::Null);
    world.wait(1);
    assert_eq!(world.bodies("c", "q"), ["x"]);
    assert_eq!(world.ask("b", &format!("EXTEND {id} 100")), Got::Integer(0), "too late");
}

fn a_late_acknowledgement_of_an_earlier_lease_does_nothing(world: &mut World<impl Rules>) {
    world.ask("a", "QCREATE q");
    world.send("a", "q x");
    let first = world.ask("b", "POP QUEUE q LEASE 100").text("receipt").to_owned();
    world.run_out(100);
    let second = world.ask("c", "POP QUEUE q LEASE 100").text("receipt").to_owned();
    assert_ne!(first, second);
    for late in ["ACK", "NACK"] {
        assert_eq!(world.ask("b", &format!("{late} {first}")), Got::Integer(0), "{late}");
    }
    assert_eq!(world.ask("b", &format!("EXTEND {first} 1000")), Got::Integer(0));
    assert_eq!(world.ask("b", &format!("ACK {second}")), Got::Integer(1), "whoever has the receipt");
}

fn a_leased_message_that_expired_can_still_be_acknowledged(world: &mut World<impl Rules>) {
    world.ask("a", "QCREATE q");
    let id = world.send("a", "q x TTL 50");
    world.ask("b", "POP QUEUE q LEASE 100");
    world.wait(90);
    assert_eq!(world.ask("a", "QINFO q").number("leased"), 1);
    assert_eq!(world.ask("b", &format!("ACK {id}")), Got::Integer(1));
}

fn a_leased_message_that_expired_vanishes_when_its_lease_ends(world: &mut World<impl Rules>) {
    world.ask("a", "QCREATE q");
    world.send("a", "q x TTL 50");
    world.ask("b", "POP QUEUE q LEASE 100");
    world.news.clear();
    world.run_out(100);
    assert_eq!(world.ask("a", "QINFO q").number("messages"), 0);
    assert_eq!(world.news, []);
}

fn a_leased_message_that_expired_vanishes_when_it_is_given_back(world: &mut World<impl Rules>) {
    world.ask("a", "QCREATE q");
    let id = world.send("a", "q x TTL 50");
    world.ask("b", "POP QUEUE q LEASE 100");
    world.wait(50);
    assert_eq!(world.ask("b", &format!("NACK {id} DELAY 1000")), Got::Integer(1));
    assert_eq!(world.ask("a", "QINFO q").number("messages"), 0);
}

fn an_expired_message_becomes_no_dead_letter(world: &mut World<impl Rules>) {
    world.ask("a", "QCREATE q DEADLETTER graves AFTER 1");
    world.send("a", "q x TTL 50");
    world.ask("b", "POP QUEUE q LEASE 100");
    world.run_out(100);
    assert_eq!(world.ask("a", "QINFO graves").number("messages"), 0);
}

fn a_dead_letter_keeps_id_first_queue_deliveries_and_ttl(world: &mut World<impl Rules>) {
    world.ask("a", "QCREATE q DEADLETTER graves AFTER 2");
    let id = world.send("a", "q x TTL 1000 HEADER color red");
    world.ask("b", "POP QUEUE q LEASE 100");
    world.run_out(100);
    assert_eq!(world.bodies("b", "q"), ["x"], "one failed delivery is not two");
    world.ask("b", "POP QUEUE q LEASE 100");
    world.run_out(100);
    let letter = world.ask("b", "PEEK QUEUE graves");
    assert_eq!((letter.number("id"), letter.number("deliveries")), (id, 2));
    assert_eq!((letter.text("first_queue"), letter.text("reason")), ("q", "lease ran out"));
    assert_eq!(letter.field("headers").text("color"), "red");
    world.wait(800);
    assert_eq!(world.ask("b", "PEEK QUEUE graves"), Got::Null, "its TTL counts from SEND, wherever it lies");
}

fn a_dead_letter_that_dies_again_keeps_its_first_queue(world: &mut World<impl Rules>) {
    world.ask("a", "QCREATE q DEADLETTER graves AFTER 1");
    world.ask("a", "QCREATE graves DEADLETTER abyss AFTER 2");
    let id = world.send("a", "q x");
    world.ask("b", "POP QUEUE q LEASE 100");
    world.run_out(100);
    world.ask("b", "POP QUEUE graves LEASE 100");
    assert_eq!(world.ask("b", &format!("NACK {id}")), Got::Integer(1));
    let letter = world.ask("b", "PEEK QUEUE abyss");
    assert_eq!((letter.text("first_queue"), letter.text("reason")), ("q", "nack"));
    assert_eq!(world.ask("a", "QREDRIVE abyss"), Got::Integer(1));
    assert_eq!(world.bodies("b", "q"), ["x"]);
}

fn a_pop_without_lease_is_no_failed_delivery(world: &mut World<impl Rules>) {
    world.ask("a", "QCREATE q DEADLETTER graves AFTER 1");
    world.send("a", "q x");
    world.ask("b", "POP QUEUE q");
    world.wait(1_000_000);
    assert_eq!(world.ask("b", "PEEK QUEUE graves"), Got::Null);
}

fn a_redriven_message_starts_anew(world: &mut World<impl Rules>) {
    world.ask("a", "QCREATE q DEADLETTER graves AFTER 1");
    let id = world.send("a", "q x");
    for _ in 0..2 {
        let taken = world.ask("b", "POP QUEUE q LEASE 100");
        assert_eq!((taken.number("id"), taken.number("deliveries")), (id, 1));
        world.run_out(100);
        assert_eq!(world.bodies("b", "q"), [""; 0]);
        world.news.clear();
        assert_eq!(world.ask("a", "QREDRIVE graves"), Got::Integer(1));
        assert_eq!(world.news.len(), 1, "whoever waits for it is told");
    }
    let Got::Map(fields) = world.ask("b", "PEEK QUEUE q") else { panic!("a message") };
    assert!(!fields.contains_key("first_queue") && !fields.contains_key("reason"));
}

fn a_redrive_leaves_what_a_reader_holds(world: &mut World<impl Rules>) {
    world.ask("a", "QCREATE q DEADLETTER graves AFTER 1");
    let held = world.send("a", "q held");
    world.send("a", "q free");
    world.ask("b", "POP QUEUE q COUNT 2 LEASE 100");
    world.run_out(100);
    world.ask("b", "POP QUEUE graves LEASE 100");
    assert_eq!(world.ask("a", "QREDRIVE graves"), Got::Integer(1));
    assert_eq!(world.bodies("b", "q"), ["free"]);
    assert_eq!(world.ask("b", &format!("ACK {held}")), Got::Integer(1));
}

/// The rest is asked for by the network thread; others have their turn before.
fn a_redrive_is_done_a_piece_at_a_time(world: &mut World<impl Rules>) {
    world.ask("a", "QCREATE q DEADLETTER graves AFTER 1");
    for count in [REDRIVE_PIECE, 7] {
        world.ask("a", &format!("SENDMANY q{}", " x".repeat(count)));
        world.ask("b", "POP QUEUE q COUNT 10000 LEASE 100");
    }
    world.run_out(100);
    let piece = [REDRIVE_PIECE, REDRIVE_PIECE].map(|number| Got::Integer(number as i64));
    assert_eq!(world.ask("a", "QREDRIVE graves"), Got::List(piece.to_vec()), "how many, and up to which id");
    assert_eq!(world.ask("a", "QINFO graves").number("messages"), 7);
    assert_eq!(world.ask("a", "QREDRIVE graves"), Got::Integer(7));
    assert_eq!(world.ask("a", "QINFO q").number("messages"), REDRIVE_PIECE as i64 + 7);
}

fn a_dedup_key_is_remembered_ten_minutes_from_its_first_use(world: &mut World<impl Rules>) {
    world.ask("a", "QCREATE q");
    let first = world.send("a", "q x DEDUP k");
    world.wait(599_999);
    assert_eq!(world.send("a", "q y DEDUP k"), first);
    world.wait(1);
    assert_eq!(world.send("a", "q z DEDUP k"), first + 1);
    assert_eq!(world.bodies("b", "q"), ["x", "z"]);
}

fn a_dedup_key_remembers_no_refusal(world: &mut World<impl Rules>) {
    world.ask("a", "QCREATE q MAXMSGS 1");
    world.send("a", "q x");
    assert_eq!(world.ask("a", "SEND q y DEDUP k").word(), "FULL");
    world.ask("b", "POP QUEUE q");
    let id = world.send("a", "q y DEDUP k");
    assert_eq!(world.send("a", "q y DEDUP k"), id, "and a full queue still gives the first answer");
    assert_eq!(world.bodies("b", "q"), ["y"]);
}

fn a_request_id_gives_the_same_bytes_for_ten_minutes(world: &mut World<impl Rules>) {
    world.ask("a", "QCREATE q");
    let id = world.send("a", "q x HEADER color red PRIORITY 3 TO b");
    world.send("a", "q y");
    let first = world.ask_bytes("b", "POP QUEUE q LEASE 1000 REQID r");
    assert_eq!(world.ask("b", &format!("ACK {id}")), Got::Integer(1));
    world.wait(599_999);
    assert_eq!(world.ask_bytes("b", "POP QUEUE q LEASE 1000 REQID r"), first);
    world.wait(1);
    assert_eq!(world.ask("b", "POP QUEUE q LEASE 1000 REQID r").text("body"), "y");
}

fn a_request_id_of_a_deleted_queue_is_gone(world: &mut World<impl Rules>) {
    world.ask("a", "QCREATE q");
    world.send("a", "q x");
    let everywhere = world.ask_bytes("b", "POP FROM a REQID r");
    world.send("a", "q y");
    world.ask("b", "POP QUEUE q REQID r");
    world.ask("a", "QDELETE q");
    assert_eq!(world.ask("b", "POP QUEUE q REQID r").word(), "NOQUEUE");
    assert_eq!(world.ask_bytes("b", "POP FROM a REQID r"), everywhere, "it belongs to no queue");
    world.ask("a", "QCREATE q");
    assert_eq!(world.ask("b", "POP QUEUE q REQID r"), Got::Null);
}

fn keys_are_per_account_and_queue(world: &mut World<impl Rules>) {
    world.ask("a", "QCREATE q");
    world.ask("a", "QCREATE r");
    let sent =
        [("a", "q"), ("a", "r"), ("b", "q")].map(|(who, to)| world.send(who, &format!("{to} x DEDUP k")));
    assert!(sent.is_sorted_by(|one, other| one < other), "{sent:?}");
    let taken = ["QUEUE q", "QUEUE r", "FROM b"]
        .map(|from| world.ask("c", &format!("POP {from} REQID k")).number("id"));
    assert_eq!(taken, sent);
}

fn a_message_to_everyone_is_for_those_who_logged_in(world: &mut World<impl Rules>) {
    world.ask("a", "QCREATE q");
    world.log_in("b");
    world.log_in("c");
    world.send("a", "q x TO stranger");
    assert_eq!(world.ask("a", "SEND q news TO *"), Got::Integer(2));
    assert_eq!(world.bodies("a", "q"), [""; 0]);
    assert_eq!(world.bodies("b", "q"), ["news"]);
    assert_eq!(world.bodies("c", "q"), ["news"]);
    assert_eq!(world.bodies("stranger", "q"), ["x"]);
    assert_eq!(world.ask("a", "SEND q more TO *"), Got::Integer(3), "the stranger has logged in");
}

fn copies_for_everyone_are_stored_whole_or_not_at_all(world: &mut World<impl Rules>) {
    world.ask("a", "QCREATE q MAXMSGS 2");
    world.log_in("b");
    world.log_in("c");
    assert_eq!(world.ask("a", "SEND q news TO *"), Got::Integer(2));
    world.ask("b", "POP QUEUE q");
    assert_eq!(world.ask("a", "SEND q news TO *").word(), "FULL");
    assert_eq!(world.ask("a", "QINFO q").number("messages"), 1);
}

fn a_pop_that_waits_says_for_what(world: &mut World<impl Rules>) {
    let queue = world.ask("a", "QCREATE q");
    let (reader, sender) = (world.log_in("b"), world.log_in("a"));
    let interest = world.interest("b", "POP QUEUE q FROM a NOTOWN BROADCAST BLOCK 1000");
    assert_eq!(Got::Integer(interest.queue.expect("a queue").cast_signed()), queue);
    assert_eq!((interest.reader, interest.sender), (reader, Some(sender)));
    assert!(interest.not_own && interest.broadcast);
    world.send("a", "q x");
    assert_eq!(
        world.ask("b", "POP QUEUE q BLOCK 1000").text("body"),
        "x",
        "it does not wait when there is one"
    );
}

fn a_pop_that_waits_for_a_stranger_is_woken_by_its_first_message(world: &mut World<impl Rules>) {
    world.ask("a", "QCREATE q");
    let interest = world.interest("a", "POP FROM stranger BLOCK 1000");
    world.send("stranger", "q x");
    assert!(interest.matches(world.news[0]));
}

fn news_come_when_a_message_can_be_read(world: &mut World<impl Rules>) {
    let Got::Integer(queue) = world.ask("a", "QCREATE q") else { panic!("an id") };
    let (sender, recipient) = (world.log_in("a"), world.log_in("b"));
    let to_b = News::Available { queue: queue.cast_unsigned(), sender, recipient: Some(recipient) };
    let taken = |world: &mut World<_>| std::mem::take(&mut world.news);

    let id = world.send("a", "q x TO b");
    assert_eq!(taken(world), [to_b], "sent");
    world.ask("b", "POP QUEUE q LEASE 100");
    world.ask("b", &format!("NACK {id}"));
    assert_eq!(taken(world), [to_b], "given back");
    world.ask("b", "POP QUEUE q LEASE 100");
    world.run_out(100);
    assert_eq!(taken(world), [to_b], "the lease ran out");
    world.ask("b", "POP QUEUE q LEASE 100");
    world.ask("b", &format!("NACK {id} DELAY 100"));
    assert_eq!(taken(world), []);
    world.run_out(100);
    assert_eq!(taken(world), [to_b], "the delay is over");
    world.ask("a", "QDELETE q");
    assert_eq!(taken(world), [News::QueueGone(queue.cast_unsigned())]);
}

fn no_news_come_of_what_nobody_can_read_yet(world: &mut World<impl Rules>) {
    world.ask("a", "QCREATE q");
    world.send("a", "q x DELAY 1000");
    let id = world.send("a", "q y");
    world.news.clear();
    world.ask("b", "POP QUEUE q LEASE 100");
    world.ask("b", &format!("EXTEND {id} 500"));
    world.ask("b", &format!("ACK {id}"));
    world.ask("b", "PEEK QUEUE q");
    assert_eq!(world.news, []);
}

fn the_deadline_is_the_next_change(world: &mut World<impl Rules>) {
    world.ask("a", "QCREATE q");
    let start = world.now;
    world.send("a", "q x TTL 500");
    assert_eq!(world.store.deadline(), Some(start + 500));
    world.send("a", "q y DELAY 300 PRIORITY 1");
    assert_eq!(world.store.deadline(), Some(after(start, 300)));
    world.send("a", "q z PRIORITY 2");
    world.ask("b", "POP QUEUE q LEASE 100");
    assert_eq!(world.store.deadline(), Some(after(start, 100)));
    world.run_out(100);
    assert_eq!(world.store.deadline(), Some(after(start, 300)));
    world.wait(200);
    assert_eq!(world.store.deadline(), Some(start + 500));
}

/// A thread of the network may come to read before anybody has told the store the time.
fn what_time_has_changed_is_not_shown_as_it_was(world: &mut World<impl Rules>) {
    for queue in ["q", "r"] {
        world.ask("a", &format!("QCREATE {queue}"));
    }
    world.send("a", "q x TTL 10");
    world.send("a", "r y DELAY 10");
    let reads = ["PEEK QUEUE q", "PEEK QUEUE r", "QINFO q", "QBROWSE q", "QREADABLE"];
    assert!(reads.iter().all(|read| world.read("b", read).is_some()));
    world.now += 20;
    for read in reads {
        assert_eq!(world.read("b", read), None, "{read}");
    }
    assert!(world.read("b", "LOGIN b").is_some(), "which time does not change");
    world.wait(0);
    let shown = |world: &mut World<_>, read: &str| world.read("b", read).map(|bytes| decoded(&bytes));
    assert_eq!(shown(world, "PEEK QUEUE q"), Some(Got::Null));
    assert_eq!(shown(world, "PEEK QUEUE r").expect("at once").text("body"), "y");
}

fn nothing_is_due_when_nothing_waits_for_time(world: &mut World<impl Rules>) {
    world.ask("a", "QCREATE q");
    let id = world.send("a", "q x TTL 100");
    world.ask("b", "POP QUEUE q LEASE 100");
    world.ask("b", &format!("ACK {id}"));
    world.send("a", "q y");
    world.ask("b", "POP QUEUE q");
    assert_eq!(world.store.deadline(), None);
}

fn an_answer_ends_before_eight_mebibytes(world: &mut World<impl Rules>) {
    world.ask("a", "QCREATE q");
    let body = "x".repeat(3 << 20);
    for _ in 0..3 {
        world.send("a", &format!("q {body}"));
    }
    world.send("a", &format!("q {}", "y".repeat(9 << 20)));
    assert_eq!(world.ask("b", "PEEK QUEUE q COUNT 9").items().len(), 2);
    assert_eq!(world.ask("b", "QBROWSE q COUNT 9").items().len(), 2);
    assert_eq!(world.ask("b", "POP QUEUE q COUNT 9").items().len(), 2);
    assert_eq!(world.ask("b", "POP QUEUE q COUNT 9").items().len(), 1);
    assert_eq!(world.ask("b", "POP QUEUE q COUNT 9").items().len(), 1, "the first always fits");
    assert_eq!(world.ask("b", "POP QUEUE q COUNT 9").items().len(), 0);
}

fn the_age_of_a_queue_is_that_of_its_oldest_message(world: &mut World<impl Rules>) {
    world.ask("a", "QCREATE q");
    world.send("a", "q x");
    world.wait(30);
    world.send("a", "q y PRIORITY 9");
    world.wait(12);
    assert_eq!(world.ask("a", "QINFO q").number("oldest_ms"), 42);
    world.ask("a", "POP QUEUE q COUNT 2");
    assert_eq!(world.ask("a", "QINFO q").number("oldest_ms"), 0);
}

fn an_unnamed_queue_skips_ids_that_are_names(world: &mut World<impl Rules>) {
    let requests = ["QCREATE 2", "QCREATE 3", "QCREATE 5", "QCREATE", "QCREATE -"];
    let ids = requests.map(|request| world.ask("a", request));
    assert_eq!(ids, [1, 2, 3, 4, 6].map(Got::Integer));
}

fn a_queue_made_anew_is_another_queue(world: &mut World<impl Rules>) {
    let old = world.ask("a", "QCREATE q MAXMSGS 1");
    world.send("a", "q x");
    assert_eq!(world.ask("a", "QDELETE q"), Got::Integer(1));
    assert_ne!(world.ask("a", "QCREATE q"), old);
    world.send("a", "q y");
    world.send("a", "q z");
    assert_eq!(world.bodies("b", "q"), ["y", "z"]);
}

/// A lease, a delay and a TTL that run out within one tick.
fn many_things_may_fall_due_at_once(world: &mut World<impl Rules>) {
    world.ask("a", "QCREATE q");
    world.send("a", "q leased");
    world.ask("b", "POP QUEUE q LEASE 100");
    world.send("a", "q delayed DELAY 100");
    world.send("a", "q expires TTL 100");
    world.run_out(100);
    assert_eq!(world.bodies("b", "q"), ["leased", "delayed"]);
}

fn a_read_shows_what_was_executed(world: &mut World<impl Rules>) {
    world.ask("a", "QCREATE q");
    world.send("a", "q x");
    for request in ["PEEK QUEUE q", "PEEK QUEUE none", "QREADABLE"] {
        let executed = world.ask_bytes("a", request);
        assert_eq!(world.read("a", request), Some(executed), "{request}");
    }
    for request in ["QLIST", "QINFO q", "QBROWSE q", "ACCOUNTS", "LOGIN a"] {
        let executed = world.ask_bytes("a", request);
        let read = world.read("a", request);
        assert!(read.is_none_or(|read| read == executed), "{request}: a store may decline, not differ");
    }
    for request in ["SEND q y", "POP QUEUE q", "ACK 1", "QCREATE q", "LOGIN newcomer"] {
        assert_eq!(world.read("a", request), None, "{request}");
    }
}

/// The rest is asked for by the network thread; others have their turn before.
fn a_list_is_answered_a_piece_at_a_time(world: &mut World<impl Rules>) {
    for number in 0..=LIST_PIECE {
        world.ask("a", &format!("QCREATE q{number}"));
    }
    assert_eq!(world.ask("a", "QLIST").items().len(), LIST_PIECE);
    // Names that never logged in are looked at, and not listed.
    world.ask("a", "SEND q0 x TO stranger");
    for number in 0..ACCOUNTS_PIECE {
        world.store.account(format!("account{number}").as_bytes()).expect("there is room");
    }
    let piece = world.ask("a", "ACCOUNTS");
    let (mark, accounts) = piece.items().split_last().expect("some");
    assert_eq!((accounts.len(), mark), (ACCOUNTS_PIECE - 1, &Got::Integer(ACCOUNTS_PIECE as i64)));
}

fn messages_are_counted_by_what_happens_to_them(world: &mut World<impl Rules>) {
    let mut asked = |requests: &[&str]| {
        requests.iter().for_each(|request| drop(world.ask("a", request)));
        world.wait(100);
        counted(&Counts::new(), world.store.figures()).into_values().collect::<Vec<_>>()
    };
    // acknowledged, dead-lettered, deduplicated, expired, purged, returned, sent, taken
    assert_eq!(asked(&["QCREATE q TTL 50"]), [0; 8]);
    let sends = vec!["SEND q x"; 150];
    assert_eq!(asked(&[&sends[..], &["POP QUEUE q COUNT 20"]].concat()), [0, 0, 0, 130, 0, 0, 150, 20]);
    let kept = ["QCREATE r DEADLETTER g AFTER 2", "SENDMANY r x y z", "SEND r x DEDUP k", "SEND r x DEDUP k"];
    assert_eq!(asked(&kept), [0, 0, 1, 130, 0, 0, 154, 20]);
    let leases =
        ["POP QUEUE r COUNT 2 LEASE 9", "POP QUEUE r LEASE 900 REQID k", "POP QUEUE r LEASE 900 REQID k"];
    assert_eq!(asked(&leases), [0, 0, 1, 130, 0, 2, 154, 23], "what ran out is back");
    assert_eq!(asked(&["POP QUEUE r COUNT 2 LEASE 9", "ACK 153"]), [1, 2, 1, 130, 0, 2, 154, 25]);
    assert_eq!(asked(&["QREDRIVE g", "QPURGE r", "QDELETE g"]), [1, 2, 1, 130, 3, 2, 154, 25]);
    assert_eq!(
        asked(&["SEND q x", "POP QUEUE q LEASE 60"]),
        [1, 2, 1, 131, 3, 2, 155, 26],
        "it outlives its TTL"
    );
}
