//! Whoever waits for a store that takes long to be read is told how far it is.
//!
//! Its disk is the simulated one of the log's own tests, on which opening a file takes three seconds of a clock driven
//! by hand.

#[path = "support/disk.rs"]
mod disk;

#[path = "support/heard.rs"]
mod heard;

mod support;

use std::sync::Arc;

use disk::{Disk, Step, delayed_disk};
use heard::heard;
use posthaste_measure::{Clock, Hand};
use posthaste_server::queue::embedded::{Embedded, EmbeddedOptions};
use support::World;

fn open(disk: &Arc<dyn Disk>, clock: Option<Clock>) -> Embedded {
    let options = EmbeddedOptions {
        segment_bytes: 1 << 16,
        clock,
        prepares_ahead: false,
        ..EmbeddedOptions::default()
    };
    Embedded::open_on(Arc::clone(disk), options).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn who_waits_for_a_store_to_be_read_is_told_how_far_it_is_and_what_was_read() {
    let hand = Hand::at_zero();
    // Later than any message was sent.
    let disk = delayed_disk(|step| {
        if step == Step::Open {
            hand.set(hand.now() + 3_000_000_000);
        }
    });
    let clock = Some(Clock::by_hand(hand, 10_000_000_000_000));
    assert!(heard(|| drop(open(&disk, clock))).is_empty(), "of a new store there is nothing to tell");

    let mut world = World::new(open(&disk, None));
    let body = "x".repeat(10_000);
    world.ask("a", "QCREATE queue-0");
    world.ask("a", "QCREATE queue-1");
    for number in 0..40 {
        world.ask("a", &format!("SEND queue-{} {body}", number % 2));
    }
    drop(world);

    let lines = heard(|| drop(open(&disk, clock)));
    let (end, way) = lines.split_last().expect("something is told");
    assert!(end.starts_with("INFO the store is read: 40 messages in 2 queues, in "), "{end}");
    assert!(!way.is_empty(), "{lines:?}");
    for line in way {
        assert!(
            line.starts_with("INFO reading the store: ") && line.contains(" % of 0 MiB after "),
            "{line}"
        );
    }
    assert!(heard(|| drop(open(&disk, None))).is_empty(), "without a clock nobody is told");
}
