//! `posthaste admin backup` beside a server that is hard at work: a server on the copy has what was acknowledged
//! before, and nothing that was taken before.

#[path = "support/client.rs"]
mod client;
mod support;

use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;

use client::Client;
use support::Server;
use support::ends::Ends;
use support::patience::wait_for_growth;

fn backup(store: &str, to: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    let to = to.to_str().expect("a path in UTF-8");
    command.args(["admin", "backup", "--store", store, "--to", to]).output().expect("the program runs")
}

fn embedded(directory: &Path) -> String {
    format!("embedded:{}", directory.display())
}

/// What a client has been told so far.
#[derive(Default)]
struct Told {
    sent: AtomicU64,
    taken: AtomicU64,
}

/// Sends large messages to itself and takes each again, so that the log goes round; for each second a small one stays,
/// in another queue.
fn work(server: std::net::SocketAddr, name: &str, told: &Told, kept: &Told, stop: &AtomicBool) {
    let mut client = Client::login(server, name).expect("it runs");
    let padding = "x".repeat(900_000);
    let mut number = 0;
    while !stop.load(SeqCst) {
        number += 1;
        let body = format!("{number} {padding}");
        let sent = client.ask(&["SEND", "busy", &body, "TO", name]).expect("it runs");
        assert!(sent.integer().is_some(), "{sent:?}");
        told.sent.store(number, SeqCst);
        let taken = client.ask(&["POP", "QUEUE", "busy", "FROM", name]).expect("it runs");
        assert_eq!(number_of(taken.body()), Some(number));
        told.taken.store(number, SeqCst);
        if number % 2 == 0 {
            let sent = client.ask(&["SEND", "kept", &(number / 2).to_string(), "TO", name]).expect("it runs");
            assert!(sent.integer().is_some(), "{sent:?}");
            kept.sent.store(number / 2, SeqCst);
        }
    }
}

fn number_of(body: Option<&str>) -> Option<u64> {
    body?.split(' ').next()?.parse().ok()
}

/// The numbers of all that a queue holds for an account, in the order in which they are given out.
fn drain(client: &mut Client, queue: &str) -> Vec<u64> {
    client.pop_all(queue).iter().map(|body| number_of(Some(body)).expect("a number")).collect()
}

#[test]
fn a_server_on_a_copy_has_what_was_acknowledged_before_and_nothing_that_was_taken() {
    const NAMES: [&str; 4] = ["a", "b", "c", "d"];
    let place = tempfile::tempdir().expect("a temporary directory");
    let store = embedded(&place.path().join("store"));
    let server = Server::start(&store, &["--max-message", "1000000"]);
    let mut client = Client::login(server.addr(), "operator").expect("it runs");
    for queue in ["busy", "kept"] {
        client.ask(&["QCREATE", queue]).expect("it runs");
    }
    let (told, kept): ([Told; 4], [Told; 4]) = Default::default();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _ends = Ends(&stop);
        for (at, name) in NAMES.iter().enumerate() {
            let (told, kept, stop) = (&told[at], &kept[at], &stop);
            let addr = server.addr();
            scope.spawn(move || work(addr, name, told, kept, stop));
        }
        for round in 0..3 {
            // The first segment is dropped after some 100 MB.
            let sent = || told.iter().map(|told| told.sent.load(SeqCst)).sum::<u64>();
            wait_for_growth("enough is sent", 140 * (round + 1), sent);
            let taken = told.each_ref().map(|told| told.taken.load(SeqCst));
            let there = kept.each_ref().map(|kept| kept.sent.load(SeqCst));
            let to = place.path().join(format!("copy-{round}"));
            let output = backup(&store, &to);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(said.contains("a server that is started on it changes it"), "{said}");
            let copy = Server::start(&embedded(&to), &[]);
            for (at, name) in NAMES.iter().enumerate() {
                let mut client = Client::login(copy.addr(), name).expect("the copy runs");
                let numbers = drain(&mut client, "kept");
                assert!(numbers.len() as u64 >= there[at], "{name}: {} of {}", numbers.len(), there[at]);
                assert!(
                    numbers.iter().zip(1..).all(|(number, wanted)| *number == wanted),
                    "{name}: {numbers:?}"
                );
                let under_way = drain(&mut client, "busy");
                assert!(
                    under_way.len() <= 1 && under_way.iter().all(|number| *number > taken[at]),
                    "{under_way:?}"
                );
            }
            copy.stop();
        }
    });
}

#[test]
fn what_cannot_be_copied_is_said() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let nowhere = place.path().join("nowhere");
    for (store, code, words) in [
        (embedded(&nowhere), 1, "nowhere"),
        ("memory:".to_owned(), 2, "memory: keeps nothing"),
        ("postgres://u:secret@localhost/d".to_owned(), 2, "pg_basebackup"),
        ("elsewhere".to_owned(), 2, "embedded:DIR"),
    ] {
        let output = backup(&store, &place.path().join("copy"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(words) && !said.contains("secret") && said.lines().count() == 1, "{said}");
    }
    let store = embedded(&place.path().join("store"));
    Server::start(&store, &[]).stop();
    let output = backup(&store, place.path());
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("is not an empty directory"));
    assert!(backup(&store, &place.path().join("copy")).status.success(), "at rest, too");
}
