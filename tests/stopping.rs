//! A graceful stop: what was begun is finished and answered, nothing is lost, and the exit code says so.

mod support;

#[path = "support/client.rs"]
mod client;

#[path = "support/news.rs"]
mod news;

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use client::{Answer, Broken, Client};
use news::wait_until_blocked;
use support::Server;
use support::patience::{wait_for, wait_until};

/// How long a stop may take that waits for nobody: less than for those it would wait for.
const STOPPED: Duration = Duration::from_secs(120);

/// What one client knows: acknowledged sends, messages popped.
type Known = (Vec<String>, Vec<String>);

/// Sends and pops, several requests in flight, until the server ends.
fn load(server: SocketAddr, number: usize, acknowledged: &AtomicUsize) -> Known {
    let mut client = Client::connect(server).expect("the server runs");
    let (mut sent, mut popped) = (Vec::new(), Vec::new());
    for turn in 0.. {
        let bodies: Vec<String> = (0..4).map(|i| format!("{number}-{turn}-{i}")).collect();
        for body in &bodies {
            if client.send(&["SEND", "q", body]).and_then(|()| client.send(&["POP", "QUEUE", "q"])).is_err() {
                // What the server did before it closed is answered all the same.
                break;
            }
        }
        for body in bodies {
            match client.answer() {
                Ok(Answer::Integer(_)) => {
                    sent.push(body);
                    acknowledged.fetch_add(1, Ordering::SeqCst);
                }
                Ok(other) => panic!("SEND answered {other:?}"),
                Err(_) => return (sent, popped),
            }
            match client.answer() {
                Ok(answer) => popped.extend(answer.body().map(str::to_owned)),
                Err(_) => return (sent, popped),
            }
        }
    }
    (sent, popped)
}

/// Sends before the first stop; more before each later one.
const LOAD: usize = 150;

#[test]
fn a_stop_under_load_answers_what_it_did_and_loses_nothing() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = format!("embedded:{}", dir.path().display());
    for round in 0..5 {
        let server = Server::start(&store, &["--drain", "300s"]);
        let addr = server.addr();
        Client::connect(addr).expect("it runs").ask(&["QCREATE", "q"]).expect("it runs");
        let acknowledged = Arc::new(AtomicUsize::new(0));
        let clients: Vec<_> = (0..16)
            .map(|number| {
                let acknowledged = Arc::clone(&acknowledged);
                thread::spawn(move || load(addr, number, &acknowledged))
            })
            .collect();
        wait_until("enough is acknowledged", || {
            assert!(!clients.iter().any(thread::JoinHandle::is_finished), "a client is done too soon");
            acknowledged.load(Ordering::SeqCst) >= LOAD * (round + 1)
        });
        let start = Instant::now();
        assert_eq!(server.stop().code(), Some(0));
        assert!(start.elapsed() < STOPPED, "it took {:?}", start.elapsed());
        let known: Vec<Known> =
            clients.into_iter().map(|client| client.join().expect("a client is done")).collect();
        account_for(&known, &store);
    }
}

/// Every acknowledged message was popped once by someone or is still there.
fn account_for(known: &[Known], store: &str) {
    let server = Server::start(store, &[]);
    let mut client = Client::connect(server.addr()).expect("it runs");
    let mut popped: Vec<String> = known.iter().flat_map(|(_, popped)| popped.clone()).collect();
    popped.extend(client.pop_all("q"));
    let distinct: BTreeSet<&String> = popped.iter().collect();
    assert_eq!(distinct.len(), popped.len(), "a message was delivered twice");
    let lost: Vec<&String> =
        known.iter().flat_map(|(sent, _)| sent).filter(|body| !distinct.contains(body)).collect();
    assert!(lost.is_empty(), "acknowledged and gone: {lost:?}");
    assert!(known.iter().map(|(sent, _)| sent.len()).sum::<usize>() >= LOAD, "there was no load");
    assert_eq!(server.stop().code(), Some(0));
}

#[test]
fn a_waiting_pop_is_answered_with_null_when_the_server_stops() {
    let server = Server::start("memory:", &[]);
    let mut client = Client::connect(server.addr()).expect("it runs");
    client.ask(&["QCREATE", "q"]).expect("it runs");
    client.send(&["POP", "QUEUE", "q", "BLOCK", "60000"]).expect("it runs");
    wait_until_blocked(server.addr(), 1);
    assert_eq!(server.stop().code(), Some(0));
    assert_eq!(client.answer().expect("an answer"), Answer::Null);
}

/// Who has just come may still ask when the stop begins, but not wait: else the stop would wait with them.
#[test]
fn a_pop_of_somebody_who_has_just_come_does_not_hold_up_the_stop() {
    let server = Server::start("memory:", &["--drain", "300s"]);
    Client::connect(server.addr()).expect("it runs").ask(&["QCREATE", "q"]).expect("it runs");
    let mut client = Client::connect(server.addr()).expect("it runs");
    server.signal("TERM");
    // On a slow machine its time may be over before it has asked.
    let answer = client.ask(&["POP", "QUEUE", "q", "BLOCK", "250000"]);
    assert!(matches!(answer, Ok(Answer::Null) | Err(Broken)), "{answer:?}");
    assert_eq!(server.end().code(), Some(0));
}

/// A client that reads nothing of answers that are more than the kernel takes: a stop waits for it.
fn slow_reader(server: &Server) -> Client {
    let mut slow = Client::connect(server.addr()).expect("it runs");
    slow.ask(&["QCREATE", "q"]).expect("it runs");
    slow.ask(&["SEND", "q", &"x".repeat(60_000)]).expect("it runs");
    for _ in 0..400 {
        slow.send(&["PEEK", "QUEUE", "q"]).expect("it runs");
    }
    slow
}

/// The same over HTTP.
fn slow_reader_over_http(server: &Server) -> TcpStream {
    let mut client = Client::connect(server.addr()).expect("it runs");
    client.ask(&["QCREATE", "q"]).expect("it runs");
    let body = "x".repeat(60_000);
    for _ in 0..14 {
        client.ask(&[&["SENDMANY", "q"][..], &[body.as_str(); 10]].concat()).expect("it runs");
    }
    let mut slow = TcpStream::connect(server.http()).expect("HTTP is served");
    slow.write_all(b"GET /v1/queues/q/messages?count=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .expect("asked");
    slow.read_exact(&mut [0]).expect("the answer is on its way");
    slow
}

/// Threads that have no connections end before the others; whoever is sent to them must not wait for what never comes.
#[test]
fn http_says_at_once_that_the_server_stops() {
    let mut server = Server::start_with_http("memory:", &["--threads", "4", "--drain", "300s"]);
    let _slow = slow_reader(&server);
    // It keeps a connection, of which it must not think that something could still be asked over it.
    assert_eq!(server.page("/v1/queues").0, 200);
    server.signal("TERM");
    server.wait_for_log("stopping: ");
    // Who has just come is spared for a while; then each of the threads says it.
    wait_for("everybody is told", || {
        let pages = [(); 8].map(|()| server.page("/v1/queues"));
        let is_told = pages.iter().all(|(status, said)| *status == 503 && said.contains("BUSY"));
        if is_told { Ok(()) } else { Err(format!("{pages:?}")) }
    });
    assert!(server.is_running(), "it waits for the reader");
    assert_eq!(server.stop().code(), Some(128 + 15));
}

#[test]
fn a_second_signal_ends_at_once() {
    let mut server = Server::start("memory:", &["--drain", "300s"]);
    let _slow = slow_reader(&server);
    server.signal("TERM");
    server.wait_for_log("stopping: ");
    thread::sleep(Duration::from_millis(300));
    assert!(server.is_running(), "it waits for the reader");
    let start = Instant::now();
    assert_eq!(server.stop().code(), Some(128 + 15));
    assert!(start.elapsed() < STOPPED, "it took {:?}", start.elapsed());
}

/// A stop in order leaves a note beside the log, by which a later start knows that nothing may be missing.
#[test]
fn a_stop_that_cuts_connections_still_closes_the_store_in_order() {
    for is_over_http in [false, true] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let store = format!("embedded:{}", dir.path().display());
        let server = Server::start_with_http(&store, &["--drain", "0s"]);
        let _slow = (!is_over_http).then(|| slow_reader(&server));
        let _slow_over_http = is_over_http.then(|| slow_reader_over_http(&server));
        assert_eq!(server.stop().code(), Some(0));
        assert!(dir.path().join("closed").exists(), "over HTTP: {is_over_http}");
    }
}

/// It reads its accounts, which do not come.
#[test]
fn a_start_that_takes_long_says_that_it_heard_a_signal_and_a_second_one_ends_it() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let pipe = dir.path().join("accounts.txt");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    let mut child = Command::new(env!("CARGO_BIN_EXE_posthaste"))
        .args(["queue", "--listen", "127.0.0.1:0", "--http", "off", "--store", "memory:", "--accounts"])
        .arg(&pipe)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program can be run");
    let id = child.id().to_string();
    wait_until("it catches signals", || {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).expect("it is there");
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        caught.is_some_and(|mask| mask & 1 << (15 - 1) != 0)
    });
    let status = wait_for("it ends", || {
        assert!(Command::new("kill").args(["-TERM", &id]).status().expect("kill runs").success());
        child.try_wait().expect("a child can be asked").ok_or("it is still there")
    });
    assert_eq!(status.code(), Some(128 + 15));
    let mut said = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("its log");
    assert!(said.contains("stopping as soon as it has started; a second signal ends it at once"), "{said}");
}

#[test]
fn a_server_whose_log_nobody_reads_any_more_stops_as_it_should() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_posthaste"))
        .args(["queue", "--listen", "127.0.0.1:0", "--http", "off", "--store", "memory:"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program can be run");
    let mut line = String::new();
    BufReader::new(child.stderr.take().expect("a pipe"))
        .read_line(&mut line)
        .expect("it says where it listens");
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().expect("kill runs").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(0), "the stop itself is logged");
}
