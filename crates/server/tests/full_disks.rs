//! The embedded store on a disk that stays full: whatever was done there, once messages are removed others can be sent.
//!
//! The disk is the simulated one of the log's own tests, and segments are small, so that a test fills it at once.

#[path = "support/heard.rs"]
mod heard;
mod support;

#[path = "."]
mod disk {
    pub(crate) use posthaste_server::queue::embedded::log::disk::{Disk, DiskFile, Handle};

    #[path = "../src/queue/embedded/log/tests/simulated.rs"]
    #[allow(dead_code, reason = "the log's own tests use more of it")]
    mod simulated;

    /// One that holds so many bytes.
    pub(crate) struct SmallDisk(simulated::SimulatedDisk);

    impl SmallDisk {
        pub(crate) fn of(bytes: u64) -> Self {
            let disk = simulated::SimulatedDisk::new();
            disk.set_capacity(bytes);
            Self(disk)
        }

        pub(crate) fn grow_to(&self, bytes: u64) {
            self.0.set_capacity(bytes);
        }

        pub(crate) fn refuse_files(&self, refuses: bool) {
            self.0.refuse_files(refuses);
        }

        pub(crate) fn in_use(&self) -> std::sync::Arc<dyn Disk> {
            std::sync::Arc::new(self.0.clone())
        }
    }
}

use disk::SmallDisk;
use fastrand::Rng;
use heard::heard;
use posthaste_measure::{Clock, Events};
use posthaste_server::queue::embedded::{Embedded, EmbeddedOptions};
use posthaste_server::queue::rules::Rules as _;
use support::{Got, World};

const SEGMENT_BYTES: u64 = 1 << 16;

/// As long as a store waits before it tries again what found no space.
const PAUSE_MS: u64 = 1_000;

/// Lives of a store whose disk is full most of the time, and how long they are.
const LIVES: u64 = 20;
const ROUNDS: u64 = 6;
const STEPS: u64 = 1000;

/// Messages in such a life that nobody removes.
const KEPT: usize = 500;

/// Messages that are shorter than what is written when they are taken.
const SHORT: usize = 300;

fn small_disk() -> SmallDisk {
    SmallDisk::of(6 * SEGMENT_BYTES + 3_000)
}

fn open(disk: &SmallDisk) -> Embedded {
    open_telling(disk, Events::default())
}

fn open_telling(disk: &SmallDisk, events: Events) -> Embedded {
    let options = EmbeddedOptions {
        segment_bytes: SEGMENT_BYTES,
        seed: Some(1),
        events,
        freed_at_once: 1,
        prepares_ahead: false,
        ..EmbeddedOptions::default()
    };
    Embedded::open_on(disk.in_use(), options).unwrap_or_else(|error| panic!("{error}"))
}

fn is_full(answer: &Got) -> bool {
    matches!(answer, Got::Error(text) if text.starts_with("STORE the disk has no space"))
}

/// Sends until that is refused: every eighth message to a queue that is kept.
fn fill(world: &mut World<Embedded>) -> usize {
    let body = "x".repeat(1000);
    let mut kept = 0;
    loop {
        for number in 0..8 {
            let queue = if number == 0 { "keep" } else { "bulk" };
            let sent = world.ask("a", &format!("SEND {queue} {body}"));
            if is_full(&sent) {
                return kept;
            }
            kept += usize::from(number == 0);
        }
    }
}

/// Sends what `exhaust` takes.
fn send_short(world: &mut World<Embedded>) {
    world.ask("a", "QCREATE short");
    world.ask("a", &format!("SENDMANY short{}", " x".repeat(SHORT)));
}

/// Leases a message and gives it back until there is no space for that, then takes others until there is none even for
/// that.
fn exhaust(world: &mut World<Embedded>) {
    let is_refused = (0..100_000).any(|_| {
        let leased = world.ask("b", "POP QUEUE bulk LEASE 100000");
        if is_full(&leased) {
            return true;
        }
        let returned = world.ask("b", &format!("NACK {}", leased.text("receipt")));
        assert_eq!(returned, Got::Integer(1), "what is leased can be given back");
        false
    });
    assert!(is_refused, "there is always space for more");
    let taken = (0..SHORT).take_while(|_| !is_full(&world.ask("b", "POP QUEUE short"))).count();
    assert!((1..SHORT).contains(&taken), "{taken} can be taken for good");
}

/// Lets the store free what purges have left.
fn free_all(world: &mut World<Embedded>) {
    while world.store.has_work_left() {
        world.wait(1);
    }
}

/// Sends and takes more than a segment holds. Whoever is refused waits and tries again, longer than answers are
/// remembered.
#[track_caller]
fn flows(world: &mut World<Embedded>) {
    let send = format!("SEND q {}", "x".repeat(1000));
    for number in 0..100 {
        let is_sent = (0..1000).any(|_| {
            let is_sent = !is_full(&world.ask("a", &send));
            world.wait(if is_sent { 0 } else { PAUSE_MS });
            is_sent
        });
        assert!(is_sent, "message {number} is refused: {:?}", world.store.figures());
        let taken = world.ask("b", "POP QUEUE q");
        assert!(matches!(taken, Got::Map(_)), "message {number}: {taken:?}");
    }
}

#[test]
fn what_readers_use_of_the_last_space_leaves_enough_to_reclaim_the_rest() {
    let disk = small_disk();
    let world = &mut World::new(open(&disk));
    for queue in ["keep", "bulk", "q"] {
        world.ask("a", &format!("QCREATE {queue}"));
    }
    send_short(world);
    let kept = fill(world);
    exhaust(world);
    let purged = world.ask("a", "QPURGE bulk");
    assert!(matches!(purged, Got::Integer(1..)), "{purged:?}");
    flows(world);
    assert_eq!(world.bodies("b", "keep").len(), kept);
}

#[test]
fn space_that_is_kept_for_removals_is_not_for_a_send_of_the_same_batch() {
    let world = &mut World::new(open(&small_disk()));
    for queue in ["keep", "bulk"] {
        world.ask("a", &format!("QCREATE {queue}"));
    }
    fill(world);
    let nothing: Vec<String> = (1_000_000..1_000_100).map(|id| id.to_string()).collect();
    let send = format!("SEND bulk {}", "x".repeat(1000));
    let got = world.ask_together("a", &[&format!("ACK {}", nothing.join(" ")), &send]);
    assert!(matches!(got[0], Got::Integer(0)) && is_full(&got[1]), "{got:?}");
}

#[test]
fn space_that_comes_from_outside_is_noticed_at_once() {
    let disk = small_disk();
    let events = Events::kept(Clock::start());
    let world = &mut World::new(open_telling(&disk, events.clone()));
    for queue in ["keep", "bulk", "q"] {
        world.ask("a", &format!("QCREATE {queue}"));
    }
    send_short(world);
    let log = heard(|| {
        fill(world);
        exhaust(world);
    });
    assert_eq!(log.len(), 1, "{log:?}");
    assert!(log[0].starts_with("WARN the disk has no space"), "{log:?}");
    assert!(world.store.figures().contains(&("store_full", 1)));
    disk.grow_to(16 * SEGMENT_BYTES);
    world.send("a", "q x");
    assert!(!is_full(&world.ask("b", "POP QUEUE bulk LEASE 1")));
    let body = "x".repeat(1000);
    let log = heard(|| {
        for _ in 0..2 * SEGMENT_BYTES / 1000 {
            world.send("a", &format!("q {body}"));
        }
    });
    assert_eq!(log, ["INFO the disk has space for the log again"]);
    assert!(world.store.figures().contains(&("store_full", 0)));
    let told: Vec<_> = events.take().into_iter().map(|event| event.kind).collect();
    assert!(told.iter().any(|kind| kind == "disk became full"), "{told:?}");
    assert_eq!(told.last().map(|kind| &**kind), Some("disk full"), "{told:?}");
}

#[test]
fn a_full_disk_says_that_remembered_answers_hold_space_too() {
    let world = &mut World::new(open(&small_disk()));
    for request in ["QCREATE keep", "QCREATE bulk", "SEND bulk x DEDUP key"] {
        world.ask("a", request);
    }
    fill(world);
    let refused = world.ask("a", &format!("SEND bulk {}", "x".repeat(1000)));
    assert!(
        matches!(&refused, Got::Error(text) if text.contains("answers kept for DEDUP and REQID")),
        "{refused:?}"
    );
}

#[test]
fn a_store_that_can_take_nothing_out_either_says_what_helps() {
    let world = &mut World::new(open(&small_disk()));
    for queue in ["keep", "bulk"] {
        world.ask("a", &format!("QCREATE {queue}"));
    }
    send_short(world);
    fill(world);
    assert_eq!(world.store.trouble(), None, "messages can be taken");
    exhaust(world);
    let refused =
        |got: Got, says: &str| assert!(matches!(&got, Got::Error(text) if text.ends_with(says)), "{got:?}");
    refused(world.ask("a", "SEND bulk x"), "; remove messages or free space on that disk");
    refused(
        world.ask("b", "POP QUEUE bulk LEASE 1"),
        "; POP without LEASE and REQID, or free space on that disk",
    );
    refused(
        world.ask("b", "POP QUEUE bulk REQID k"),
        "; POP without LEASE and REQID, or free space on that disk",
    );
    refused(world.ask("b", "POP QUEUE bulk"), "; QPURGE or QDELETE a queue, or free space on that disk");
    assert!(world.store.figures().contains(&("store_stuck", 1)));
    let trouble = world.store.trouble().expect("nothing can be taken");
    assert!(trouble.ends_with("QPURGE or QDELETE a queue, or free space on that disk"), "{trouble}");
    world.ask("a", "QPURGE bulk");
    free_all(world);
    world.wait(PAUSE_MS);
    assert_eq!(world.store.trouble(), None);
    assert!(world.store.figures().contains(&("store_stuck", 0)));
}

/// Short messages are less than what is written when they are leased and acknowledged; an answer that is kept is as much
/// as its message.
#[test]
fn what_leases_and_remembered_answers_use_leaves_enough_to_take_everything_out() {
    for (bytes, many, pop) in [(30, 20, "LEASE 100000"), (2000, 1, "REQID")] {
        let body = "x".repeat(bytes);
        let world = &mut World::new(open(&small_disk()));
        world.ask("a", "QCREATE q");
        let sends = format!("SENDMANY q{}", format!(" {body}").repeat(many));
        while !is_full(&world.ask("a", &sends)) {}
        for number in 0..100_000 {
            let key = if pop == "REQID" { number.to_string() } else { String::new() };
            let taken = world.ask("b", format!("POP QUEUE q COUNT {many} {pop} {key}").trim_end());
            if is_full(&taken) || taken == Got::List(Vec::new()) {
                break;
            }
            if pop != "REQID" {
                let receipts: Vec<_> = taken.items().iter().map(|one| one.text("receipt")).collect();
                let done = world.ask("b", &format!("ACK {}", receipts.join(" ")));
                assert_eq!(done, Got::Integer(receipts.len() as i64));
            }
        }
        let pop = format!("POP QUEUE q COUNT {many}");
        let rest = (0..100_000).find_map(|_| match world.ask("b", &pop) {
            Got::List(taken) if !taken.is_empty() => None,
            other => Some(other),
        });
        assert_eq!(rest, Some(Got::List(Vec::new())), "of {bytes} bytes each");
        world.wait(11 * 60_000);
        flows(world);
    }
}

/// Sends until there is no space for another file, which is before anything is refused.
fn fill_all_but_one_file(world: &mut World<Embedded>) {
    let send = format!("SEND bulk {}", "x".repeat(1000));
    while world.store.figures().contains(&("store_full", 0)) {
        assert!(!is_full(&world.ask("a", &send)));
    }
}

#[test]
fn space_that_comes_while_nothing_asks_for_it_is_noticed_soon() {
    for is_all_full in [false, true] {
        let disk = small_disk();
        let world = &mut World::new(open(&disk));
        for queue in ["keep", "bulk"] {
            world.ask("a", &format!("QCREATE {queue}"));
        }
        fill_all_but_one_file(world);
        if is_all_full {
            fill(world);
        }
        disk.grow_to(16 * SEGMENT_BYTES);
        let due = world.store.deadline().filter(|at| *at <= world.now + PAUSE_MS).expect("it is tried again");
        world.wait(due.saturating_sub(world.now));
        assert!(world.store.figures().contains(&("store_full", 0)), "{is_all_full}");
        assert_eq!(world.store.deadline(), None, "and then there is nothing to do");
    }
}

/// Of a disk without space for another file it is said that it is full. Here something else is wrong.
#[test]
fn a_store_that_can_make_no_file_says_so_until_it_can() {
    let disk = SmallDisk::of(1 << 30);
    let mut world = World::new(open(&disk));
    world.ask("a", "QCREATE q");
    disk.refuse_files(true);
    let send = format!("SEND q {}", "x".repeat(1000));
    let log = heard(|| {
        let refused = (0..1000).find_map(|_| match world.ask("a", &send) {
            Got::Error(refused) => Some(refused),
            _ => None,
        });
        assert!(refused.is_some_and(|text| text.starts_with("STORE cannot prepare")));
        assert!(matches!(world.ask("a", &send), Got::Error(_)));
        world.wait(PAUSE_MS);
    });
    assert_eq!(log.len(), 1, "{log:?}");
    assert!(log[0].starts_with("WARN cannot prepare simulated/"), "{log:?}");
    let figures = world.store.figures();
    assert!(figures.contains(&("store_stuck", 1)) && figures.contains(&("store_full", 0)), "{figures:?}");
    let trouble = world.store.trouble().expect("changes are refused");
    assert!(trouble.contains("too many open files"), "{trouble}");
    disk.refuse_files(false);
    let due = world.store.deadline().filter(|at| *at <= world.now + PAUSE_MS).expect("it is tried again");
    let log = heard(|| world.wait(due.saturating_sub(world.now)));
    assert_eq!(log, ["INFO the store can make files of the log again"]);
    assert!(world.store.figures().contains(&("store_stuck", 0)));
    assert_eq!(world.store.trouble(), None);
    assert!(matches!(world.ask("a", &send), Got::Integer(_)));
}

#[test]
fn what_is_too_large_for_the_disk_is_refused_alone() {
    let disk = small_disk();
    let world = &mut World::new(open(&disk));
    world.ask("a", "QCREATE q");
    // More than a batch asks for ahead of its requests.
    let small: Vec<String> =
        (0..3).map(|number| format!("SEND q {number}{}", "x".repeat(SEGMENT_BYTES as usize / 10))).collect();
    let large = format!("SEND q {}", "x".repeat(10 * SEGMENT_BYTES as usize));
    let sent = world.ask_together("a", &[&small[0], &large, &small[1], &large, &small[2]]);
    let refused: Vec<bool> = sent.iter().map(is_full).collect();
    assert_eq!(refused, [false, true, false, true, false], "{sent:?}");
    assert_eq!(world.bodies("b", "q").len(), 3);
}

/// A store whose disk turns out full when a commit is written is of no use until it is opened again.
#[test]
fn a_name_without_space_is_refused_until_there_is_some() {
    let disk = small_disk();
    let world = &mut World::new(open(&disk));
    for queue in ["keep", "bulk", "q"] {
        world.ask("a", &format!("QCREATE {queue}"));
    }
    send_short(world);
    fill(world);
    exhaust(world);
    // As when they come into the accounts file one after the other.
    let mut noted = Vec::new();
    let refused = (0..10_000).find_map(|number| {
        let name = format!("newcomer {number}");
        let account = world.store.account(name.as_bytes());
        world.wait(0);
        noted.extend(account.is_ok().then(|| name.clone()));
        account.err().map(|fault| (name, fault))
    });
    let (name, fault) = refused.expect("there is always space for more");
    assert!(fault.text.starts_with("the disk has no space"), "{fault}");
    let known = noted.last().map_or("a", String::as_str);
    assert!(world.store.account(known.as_bytes()).is_ok(), "whoever is known needs none");
    world.ask("a", "QPURGE bulk");
    flows(world);
    assert!(world.store.account(name.as_bytes()).is_ok(), "there is space now");
}

#[test]
fn a_lease_whose_end_finds_no_space_holds_up_nothing_else() {
    let disk = small_disk();
    let mut world = World::new(open(&disk));
    for queue in ["bulk TTL 60000", "q"] {
        world.ask("a", &format!("QCREATE {queue}"));
    }
    send_short(&mut world);
    world.send("a", "q leased");
    world.ask("b", "POP QUEUE q LEASE 10000");
    world.ask("a", "SEND q delayed DELAY 20000");
    let send = format!("SEND bulk {}", "x".repeat(1000));
    while !is_full(&world.ask("a", &send)) {}
    exhaust(&mut world);
    let mut world = world.reopen(|| open(&disk));
    world.wait(30_000);
    assert_eq!(world.bodies("b", "q"), ["delayed"], "there is no space for the end of the lease");
    world.wait(40_000);
    assert_eq!(world.ask("a", "PEEK QUEUE bulk"), Got::Null, "their TTL is over");
    disk.grow_to(16 * SEGMENT_BYTES);
    let due = world.store.deadline().expect("it is tried again");
    world.wait(due.saturating_sub(world.now));
    assert_eq!(world.bodies("b", "q"), ["leased", "delayed"]);
    world.send("a", "q another");
}

#[test]
fn a_segment_that_is_half_alive_is_swept_when_the_disk_is_full() {
    let body = "x".repeat(500);
    let (mut kept, mut number) = (0, 0);
    room_is_found_behind(|world| {
        let queue = if number % 3 == 0 { "keep" } else { "bulk" };
        number += 1;
        let is_sent = !is_full(&world.ask("a", &format!("SEND {queue} {body}")));
        kept += usize::from(is_sent && queue == "keep");
        is_sent.then_some(kept)
    });
}

#[test]
fn a_segment_full_of_what_stays_does_not_keep_what_is_behind_it() {
    let body = "x".repeat(1000);
    let mut number = 0;
    room_is_found_behind(|world| {
        number += 1;
        let queue = if number <= 50 { "keep" } else { "bulk" };
        (!is_full(&world.ask("a", &format!("SEND {queue} {body}")))).then_some(number.min(50))
    });
}

/// Sends until that is refused, each time with the number of messages in `keep` so far, removes all others, and sees that
/// others still can be sent.
fn room_is_found_behind(mut send: impl FnMut(&mut World<Embedded>) -> Option<usize>) {
    let disk = small_disk();
    let mut world = World::new(open(&disk));
    for queue in ["keep", "bulk", "q"] {
        world.ask("a", &format!("QCREATE {queue}"));
    }
    let kept = std::iter::from_fn(|| send(&mut world)).last().expect("there is room at first");
    world.ask("a", "QPURGE bulk");
    // Nobody asks for anything meanwhile.
    free_all(&mut world);
    for _ in 0..100 {
        let due = world.store.deadline().filter(|at| *at <= world.now + PAUSE_MS);
        due.into_iter().for_each(|at| world.wait(at.saturating_sub(world.now)));
    }
    world.send("a", &format!("q {}", "x".repeat(10_000)));
    world.ask("b", "POP QUEUE q");
    flows(&mut world);
    assert_eq!(world.bodies("b", "keep").len(), kept);
    let mut world = world.reopen(|| open(&disk));
    assert_eq!(world.bodies("b", "keep").len(), kept);
}

#[test]
fn whatever_was_done_on_a_full_disk_there_is_room_once_most_of_it_is_removed() {
    for seed in 0..LIVES {
        let dice = &mut Rng::with_seed(seed);
        let disk = SmallDisk::of(dice.u64(5..8) * SEGMENT_BYTES + dice.u64(..SEGMENT_BYTES));
        let mut world = World::new(open(&disk));
        for queue in ["graves", "a DEADLETTER graves AFTER 3", "b", "keep", "q"] {
            world.ask("a", &format!("QCREATE {queue}"));
        }
        let (mut kept, mut refusals) = (0, 0);
        for _ in 0..ROUNDS {
            // In some rounds next to nothing is sent, in others next to nothing read, and messages are of any size.
            let (sends, bytes_max) = (dice.u32(..100), 1 << dice.u32(4..13));
            for number in 0..STEPS {
                let request = request(dice, sends, bytes_max, number);
                refusals += u32::from(is_full(&request.ask(&mut world)));
                if kept < KEPT && dice.u32(..50) == 0 {
                    kept += usize::from(!is_full(&world.ask("a", "SEND keep x")));
                }
                world.wait(dice.u64(..20));
            }
            for number in 0..dice.u64(..3) * STEPS {
                let request = request(dice, 0, 1, number);
                refusals += u32::from(is_full(&request.ask(&mut world)));
            }
            if dice.bool() {
                world = world.reopen(|| open(&disk));
            }
            for queue in ["a", "b", "graves"] {
                let purged = world.ask("a", &format!("QPURGE {queue}"));
                assert!(matches!(purged, Got::Integer(_)), "life {seed}: {purged:?}");
            }
            println!("life {seed}: {refusals} refusals so far, {kept} kept");
            flows(&mut world);
        }
        assert_eq!(world.bodies("b", "keep").len(), kept);
    }
}

/// What somebody asks.
enum Request {
    Once(String),
    /// A message is leased; whether it is given back at once.
    Lease(&'static str, bool),
}

impl Request {
    fn ask(&self, world: &mut World<Embedded>) -> Got {
        match self {
            Self::Once(request) => world.ask("a", request),
            Self::Lease(queue, is_given_back) => {
                let leased = world.ask("b", &format!("POP QUEUE {queue} LEASE 2000"));
                match &leased {
                    Got::Map(_) if *is_given_back => {
                        world.ask("b", &format!("NACK {}", leased.text("receipt")))
                    }
                    _ => leased,
                }
            }
        }
    }
}

fn request(dice: &mut Rng, sends: u32, bytes_max: usize, number: u64) -> Request {
    let queue = if dice.bool() { "a" } else { "b" };
    if dice.u32(..100) < sends {
        let body = "x".repeat(dice.usize(..bytes_max) + 1);
        let key = if dice.u32(..20) == 0 { format!(" DEDUP {number}") } else { String::new() };
        return Request::Once(format!("SEND {queue} {body}{key}"));
    }
    Request::Once(match dice.u32(..1000) {
        0..900 => return Request::Lease(queue, dice.u32(..10) > 0),
        900..980 => format!("POP QUEUE {queue}"),
        980..990 => format!("POP QUEUE {queue} REQID {number}"),
        990..995 => format!("POP QUEUE {queue} COUNT 20"),
        995..999 => "QREDRIVE graves".to_owned(),
        _ => format!("QPURGE {queue}"),
    })
}
