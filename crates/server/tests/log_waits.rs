//! Nobody waits for the disk with the store locked: while files of the log are made ready, others are answered on the spot.

mod support;

#[path = "support/disk.rs"]
mod disk;

use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use disk::{Step, delayed_disk};
use posthaste_measure::Clock;
use posthaste_server::path::bundle::{Address, Bundle, Request};
use posthaste_server::path::local::Local;
use posthaste_server::path::worker::{Batch, Store};
use posthaste_server::queue::embedded::{Embedded, EmbeddedOptions};
use posthaste_server::time::Time;
use posthaste_wire::encode::Protocol;
use support::{Got, decoded, parsed};

const SEGMENT_BYTES: u64 = 1 << 16;

/// How long an answer on the spot may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// While it is closed no file can be made.
#[derive(Default)]
struct Gate {
    is_closed: Mutex<bool>,
    opens: Condvar,
}

impl Gate {
    fn close(&self, is_closed: bool) {
        *self.is_closed.lock().unwrap_or_else(PoisonError::into_inner) = is_closed;
        self.opens.notify_all();
    }

    fn wait_until_open(&self) {
        let is_closed = self.is_closed.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.opens.wait_while(is_closed, |is_closed| *is_closed));
    }
}

/// A store whose log is made ready by a thread of its own.
struct Tier {
    gate: Arc<Gate>,
    store: Arc<dyn Store>,
    clock: Clock,
}

impl Tier {
    fn new() -> Self {
        let gate = Arc::new(Gate::default());
        let seen = Arc::clone(&gate);
        let disk = delayed_disk(move |step| {
            if step == Step::Create {
                seen.wait_until_open();
            }
        });
        let options = EmbeddedOptions { segment_bytes: SEGMENT_BYTES, ..EmbeddedOptions::default() };
        let store = Embedded::open_on(disk, options);
        let clock = Clock::start();
        let store = Local::new(store.unwrap_or_else(|error| panic!("{error}")), Time::of(clock), clock);
        let tier = Self { gate, store, clock };
        tier.run(&["QCREATE q"]);
        tier
    }

    fn figure(&self, name: &str) -> u64 {
        let figures = self.store.figures();
        figures.iter().find(|(known, _)| *known == name).map(|(_, value)| *value).expect("such a figure")
    }

    /// Waits until two files are ready behind the one in use.
    fn prepare(&self) {
        let begin = self.clock.now();
        let files = self.figure("log_segments") + 2;
        while self.figure("disk_bytes") < files * SEGMENT_BYTES {
            assert!(self.clock.now() - begin < 30_000_000_000, "no files are made ready");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Has the store execute requests of as many clients, in one batch.
    fn run(&self, requests: &[&str]) -> Vec<Got> {
        let bundles = requests.iter().zip(1..).map(|(request, client)| {
            let mut bundle = Box::new(Bundle::new(Address { thread: 0, slot: 0, client }));
            let (bytes, operation) = parsed(request);
            let kind = operation.kind();
            (bundle.bytes, bundle.protocol) = (bytes, Protocol::Resp3);
            bundle.account = self.store.account(b"ann").expect("there is room");
            bundle.requests.push(Request::new(operation, kind, self.clock.stamp()));
            bundle
        });
        let mut batch = Batch { waiting: bundles.collect(), ..Batch::default() };
        while !batch.waiting.is_empty() {
            self.store.run(&mut batch);
        }
        batch.finished.iter().map(|bundle| decoded(&bundle.answers)).collect()
    }
}

/// Sends such bodies in one batch while no file can be made, and checks that others are answered meanwhile.
fn others_are_answered_during(tier: &Tier, count: usize, body_bytes: usize) {
    let send = format!("SEND q {}", "x".repeat(body_bytes));
    let (says, hears) = channel();
    thread::scope(|scope| {
        let sends = scope.spawn(|| tier.run(&vec![send.as_str(); count]));
        scope.spawn(move || {
            for _ in 0..50 {
                says.send(tier.figure("messages")).expect("the test listens");
                thread::sleep(Duration::from_millis(10));
            }
        });
        let answered = (0..50).take_while(|_| hears.recv_timeout(PATIENCE).is_ok()).count();
        let was_done = sends.is_finished();
        tier.gate.close(false);
        assert_eq!(answered, 50, "others waited for the disk");
        assert!(!was_done, "nothing had to be waited for: the test shows nothing");
        let answers = sends.join().expect("no panic");
        let sent = answers.iter().filter(|answer| matches!(answer, Got::Integer(_))).count();
        assert_eq!(sent, count, "{answers:?}");
    });
}

#[test]
fn requests_for_which_the_file_in_use_has_no_room_do_not_wait_with_the_store_locked() {
    let tier = Tier::new();
    tier.prepare();
    tier.gate.close(true);
    // Of the two files that were ready one is left, and in the one in use there is room for some of what comes.
    while tier.figure("log_segments") < 2 {
        tier.run(&[&format!("SEND q {}", "x".repeat(1000))]);
    }
    while tier.figure("log_bytes") < 2 * SEGMENT_BYTES - 16_000 {
        tier.run(&[&format!("SEND q {}", "x".repeat(1000))]);
    }
    others_are_answered_during(&tier, 10, 3000);
}

#[test]
fn a_batch_of_more_than_a_file_does_not_wait_with_the_store_locked() {
    let tier = Tier::new();
    tier.prepare();
    tier.gate.close(true);
    others_are_answered_during(&tier, 60, 3000);
}
