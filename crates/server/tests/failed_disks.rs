//! A closed tier whose disk has failed: whoever has an account still gets in, reads what is durable, and is told what
//! is wrong, over HTTP too. Nobody has logged in there before.

#[path = "support/by_hand.rs"]
mod by_hand;
#[path = "support/cache_by_hand.rs"]
mod cache_by_hand;
#[path = "support/pages.rs"]
mod pages;
#[path = "../../../tests/support/patience.rs"]
mod patience;

#[path = "."]
mod disk {
    pub(crate) use posthaste_server::queue::embedded::log::disk::{Disk, DiskFile, Handle};

    #[path = "../src/queue/embedded/log/tests/simulated.rs"]
    #[allow(dead_code, reason = "the log's own tests use more of it")]
    mod simulated;

    /// One that can fail.
    pub(crate) struct FailingDisk(simulated::SimulatedDisk);

    impl FailingDisk {
        pub(crate) fn new() -> Self {
            Self(simulated::SimulatedDisk::new())
        }

        /// From now on nothing can be written to it.
        pub(crate) fn fail(&self) {
            self.0.cut_after(0);
        }

        /// From now on it has no space for what is written, as one has that writes elsewhere what was there before.
        pub(crate) fn fill(&self) {
            self.0.refuse_writes();
        }

        pub(crate) fn in_use(&self) -> std::sync::Arc<dyn Disk> {
            std::sync::Arc::new(self.0.clone())
        }
    }
}

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use by_hand::{Bounds, Thread};
use disk::FailingDisk;
use pages::{Serves, answers, hear, queue_pages, runtime};
use patience::wait_until;
use posthaste_measure::Clock;
use posthaste_server::accounts::AccountsFile;
use posthaste_server::authenticator::Authenticator;
use posthaste_server::path::local::Local;
use posthaste_server::queue::embedded::{Embedded, EmbeddedOptions};
use posthaste_server::queue_shared::Entrance;
use posthaste_server::time::Time;
use tokio::io::DuplexStream;
use tokio::sync::watch;

/// Of the account `alice`, with that as its secret too.
fn closed_tier(disk: &FailingDisk) -> Thread {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("accounts.txt");
    AccountsFile::set(&file, "alice", "alice", None).expect("it can be written");
    let accounts = AccountsFile::open(&file).expect("accounts");
    let options =
        EmbeddedOptions { segment_bytes: 1 << 16, prepares_ahead: false, ..EmbeddedOptions::default() };
    let store = Embedded::open_on(disk.in_use(), options).unwrap_or_else(|error| panic!("{error}"));
    let clock = Clock::start();
    let store = Local::new(store, Time::of(clock), clock);
    let bounds = Bounds { connections: 4, bundle: 8, line: 20, batch: 16 };
    let entrance = |mailboxes: &[Arc<_>]| {
        Entrance::Closed(Authenticator::start(accounts, mailboxes.to_vec()).expect("a thread"))
    };
    Thread::before(store, clock, &bounds, entrance)
}

impl Serves for Thread {
    fn converse(
        &self,
        theirs: DuplexStream,
        stopped: watch::Receiver<()>,
    ) -> Pin<Box<dyn Future<Output = ()>>> {
        queue_pages(&self.shared, theirs, stopped)
    }

    fn turn_all(&mut self) {
        self.turn();
        self.work();
    }

    fn asked(&self) -> u64 {
        self.shared.clients.find(|_| true).iter().map(|client| client.requests.load(Ordering::Relaxed)).sum()
    }

    fn leave_nothing(&mut self) {}
}

/// Says a line and hears what comes.
fn ask(tier: &mut Thread, client: &mut UnixStream, line: &str) -> String {
    say(client, line);
    hear_line(tier, client)
}

fn say(client: &mut UnixStream, line: &str) {
    client.write_all(format!("{line}\r\n").as_bytes()).expect("it is taken");
}

fn hear_line(tier: &mut Thread, client: &mut UnixStream) -> String {
    let mut heard = Vec::new();
    wait_until("an answer", || {
        tier.turn_all();
        match client.read_to_end(&mut heard) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => !heard.is_empty(),
            ended => panic!("the connection ends: {ended:?}"),
        }
    });
    String::from_utf8(heard).expect("text")
}

#[test]
fn who_is_known_comes_in_reads_what_is_durable_and_is_told_what_is_wrong() {
    let (disk, runtime) = (FailingDisk::new(), runtime());
    let mut tier = closed_tier(&disk);
    let mut before = tier.connect().expect("a place");
    for (line, answer) in [("LOGIN alice alice", ":1"), ("QCREATE q", ":1"), ("SEND q durable", ":1")] {
        assert_eq!(ask(&mut tier, &mut before, line), format!("{answer}\r\n"), "{line}");
    }
    disk.fail();
    assert!(ask(&mut tier, &mut before, "SEND q doubtful").starts_with("-STORE "));

    let mut after = tier.connect().expect("a place");
    assert_eq!(ask(&mut tier, &mut after, "LOGIN alice alice"), ":1\r\n");
    assert!(ask(&mut tier, &mut after, "PEEK QUEUE q").contains("durable"));
    for line in ["QLIST", "QINFO q"] {
        assert!(ask(&mut tier, &mut after, line).starts_with("-STORE "), "{line}: nobody knows");
    }
    let mut page = |path: &str| {
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: queue.example\r\nAuthorization: Bearer alice:alice\r\n\
            Connection: close\r\n\r\n"
        );
        let (status, body) = answers(&hear(&runtime, &mut tier, head.as_bytes())).remove(0);
        (status, String::from_utf8(body).expect("text"))
    };
    let (status, metrics) = page("/metrics");
    assert_eq!(status, 200, "{metrics}");
    assert!(metrics.contains("\nposthaste_ready 0\n"), "{metrics}");
    assert!(metrics.contains("\nposthaste_messages_total{event=\"sent\"} 1\n"), "the durable one: {metrics}");
    assert!(!metrics.contains("posthaste_queue_messages{"), "nobody knows: {metrics}");
    let (status, told) = page("/v1/status");
    assert!(status == 200 && told.contains("\"ready\":false"), "{told}");
    assert_eq!(page("/v1/clients").0, 200);
}

#[test]
fn who_waits_is_told_and_what_comes_of_age_is_not_answered_by_nulls() {
    let disk = FailingDisk::new();
    let mut tier = closed_tier(&disk);
    let [mut sender, mut reader] = [(); 2].map(|()| tier.connect().expect("a place"));
    for client in [&mut sender, &mut reader] {
        assert_eq!(ask(&mut tier, client, "LOGIN alice alice"), ":1\r\n");
    }
    for line in ["QCREATE q", "QCREATE soon", "QCREATE ttl", "QCREATE kept", "SEND kept young"] {
        assert!(ask(&mut tier, &mut sender, line).starts_with(':'), "{line}");
    }
    // They end after the disk has failed, also where others keep the machine busy.
    for line in ["SEND soon late DELAY 2000", "SEND ttl old TTL 2000"] {
        assert!(ask(&mut tier, &mut sender, line).starts_with(':'), "{line}");
    }
    say(&mut reader, "POP QUEUE q BLOCK 3600000");
    wait_until("a pop that waits", || {
        tier.turn_all();
        tier.shared.store.figures().contains(&("blocked_clients", 1))
    });
    disk.fail();
    assert!(ask(&mut tier, &mut sender, "SEND soon doubtful").starts_with("-STORE "));
    assert!(hear_line(&mut tier, &mut reader).starts_with("-STORE "));
    wait_until("the end of the delay", || {
        let answer = ask(&mut tier, &mut sender, "PEEK QUEUE soon");
        assert!(answer == "$-1\r\n" || answer.starts_with("-STORE "), "{answer}");
        answer.starts_with("-STORE ")
    });
    wait_until("the end of the time to live", || {
        let answer = ask(&mut tier, &mut sender, "PEEK QUEUE ttl");
        assert!(answer.contains("old") || answer.starts_with("-STORE "), "{answer}");
        answer.starts_with("-STORE ")
    });
    assert!(ask(&mut tier, &mut sender, "QREADABLE").starts_with("-STORE "));
    assert!(ask(&mut tier, &mut sender, "PEEK QUEUE kept").contains("young"), "time changes nothing of it");
}

#[test]
fn what_time_may_have_put_into_the_answer_keeps_it_back() {
    let disk = FailingDisk::new();
    let mut tier = closed_tier(&disk);
    let mut client = tier.connect().expect("a place");
    for line in ["LOGIN alice alice", "QCREATE delays", "QCREATE leases", "QCREATE graves", "QCREATE kept"] {
        assert!(ask(&mut tier, &mut client, line).starts_with(':'), "{line}");
    }
    for line in [
        "QCREATE mortal DEADLETTER graves AFTER 1",
        "SEND delays old DELAY 2000",
        "SEND leases old",
        "SEND mortal old",
        "SEND kept young",
        "SEND kept other TO bob DELAY 2000",
        "SEND kept vain TTL 1000 DELAY 2000",
    ] {
        assert!(ask(&mut tier, &mut client, line).starts_with(':'), "{line}");
    }
    for queue in ["leases", "mortal"] {
        let leased = ask(&mut tier, &mut client, &format!("POP QUEUE {queue} LEASE 2000"));
        assert!(leased.contains("old"), "{leased}");
    }
    for queue in ["delays", "leases", "graves"] {
        assert!(ask(&mut tier, &mut client, &format!("SEND {queue} young")).starts_with(':'));
    }
    disk.fail();
    assert!(ask(&mut tier, &mut client, "QCREATE doubtful").starts_with("-STORE "));
    for queue in ["delays", "leases", "graves"] {
        for count in ["", " COUNT 10"] {
            wait_until("the end of a delay or lease", || {
                let answer = ask(&mut tier, &mut client, &format!("PEEK QUEUE {queue}{count}"));
                assert!(answer.contains("young") && !answer.contains("old") || answer.starts_with("-STORE "));
                answer.starts_with("-STORE ")
            });
        }
    }
    for request in ["PEEK FROM alice", "PEEK FROM alice COUNT 10"] {
        assert!(ask(&mut tier, &mut client, request).starts_with("-STORE "), "{request}");
    }
    for request in ["PEEK QUEUE kept", "PEEK QUEUE kept COUNT 10"] {
        let answer = ask(&mut tier, &mut client, request);
        assert!(answer.contains("young"), "nobody else's, and none that has expired: {answer}");
    }
}

#[test]
fn whatever_closed_the_store_everybody_is_told_to_restart_it() {
    for (why, break_it) in [("off", FailingDisk::fail as fn(&FailingDisk)), ("space", FailingDisk::fill)] {
        let disk = FailingDisk::new();
        let mut tier = closed_tier(&disk);
        let mut client = tier.connect().expect("a place");
        for line in ["LOGIN alice alice", "QCREATE q", "SEND q durable"] {
            assert!(ask(&mut tier, &mut client, line).starts_with(':'), "{line}");
        }
        break_it(&disk);
        for line in ["SEND q doubtful", "SEND q later", "QPURGE q", "POP QUEUE q", "QLIST"] {
            let told = ask(&mut tier, &mut client, line);
            assert!(told.starts_with("-STORE ") && told.contains("restart"), "{line}: {told}");
            assert!(told.contains(why) && !told.contains("remove messages"), "{line}: {told}");
        }
    }
}
