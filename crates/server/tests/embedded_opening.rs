//! Whoever waits for a store that takes long to be read is told how far it is.
//!
//! Its disk is the simulated one of the log's own tests, on which opening a file takes three seconds of a clock driven
//! by hand.

#[path = "support/heard.rs"]
mod heard;
mod support;

#[path = "."]
mod disk {
    use std::io;
    use std::path::PathBuf;

    use posthaste_measure::Hand;
    pub(crate) use posthaste_server::queue::embedded::log::disk::{Disk, DiskFile, Handle};

    #[path = "../src/queue/embedded/log/tests/simulated.rs"]
    #[allow(dead_code, reason = "the log's own tests use more of it")]
    mod simulated;

    #[derive(Clone)]
    pub(crate) struct SlowDisk {
        disk: simulated::SimulatedDisk,
        hand: &'static Hand,
    }

    impl SlowDisk {
        pub(crate) fn with(hand: &'static Hand) -> Self {
            Self { disk: simulated::SimulatedDisk::new(), hand }
        }
    }

    impl Disk for SlowDisk {
        fn path(&self, name: &str) -> PathBuf {
            self.disk.path(name)
        }

        fn list(&self) -> io::Result<Vec<String>> {
            self.disk.list()
        }

        fn create(&self, name: &str) -> io::Result<Handle> {
            self.disk.create(name)
        }

        fn open(&self, name: &str) -> io::Result<Handle> {
            self.hand.set(self.hand.now() + 3_000_000_000);
            self.disk.open(name)
        }

        fn rename(&self, from: &str, to: &str) -> io::Result<()> {
            self.disk.rename(from, to)
        }

        fn remove(&self, name: &str) -> io::Result<()> {
            self.disk.remove(name)
        }

        fn sync(&self) -> io::Result<()> {
            self.disk.sync()
        }
    }
}

use std::sync::Arc;

use disk::SlowDisk;
use heard::heard;
use posthaste_measure::{Clock, Hand};
use posthaste_server::queue::embedded::{Embedded, EmbeddedOptions};
use support::World;

fn open(disk: &SlowDisk, clock: Option<Clock>) -> Embedded {
    let options = EmbeddedOptions { segment_bytes: 1 << 16, clock, ..EmbeddedOptions::default() };
    Embedded::open_on(Arc::new(disk.clone()), options).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn who_waits_for_a_store_to_be_read_is_told_how_far_it_is_and_what_was_read() {
    let hand = Hand::at_zero();
    // Later than any message was sent.
    let (disk, clock) = (SlowDisk::with(hand), Some(Clock::by_hand(hand, 10_000_000_000_000)));
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
