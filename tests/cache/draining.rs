//! A stop under load: what was asked before it is answered, whole and in order, and every connection ends where an
//! answer ends.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::client::{Client, router};
use crate::memcached::Memcached;
use crate::support::Server;
use crate::support::ends::Ends;
use crate::support::patience::wait_until;

const CLIENTS: usize = 40;

/// How often each has been answered before the stop.
const ROUNDS: usize = 5;

#[test]
fn a_stop_under_load_answers_what_was_asked_and_cuts_no_answer() {
    for mode in [&["--workers", "pipelined"][..], &["--workers", "4"], &["--writes", "owner"]] {
        let servers = Memcached::several::<2>();
        let names = [servers[0].name(), servers[1].name()];
        let server = router(&[&names[0], &names[1]], &[mode, &["--threads", "2"]].concat());
        let (stopping, rounds) = (AtomicBool::new(false), [const { AtomicUsize::new(0) }; CLIENTS]);
        thread::scope(|scope| {
            // Within, as its end is that of those who talk to it, also where this fails.
            let server = server;
            let (addr, stopping, ends) = (server.addr(), &stopping, Ends(&stopping));
            for (number, rounds) in rounds.iter().enumerate() {
                scope.spawn(move || talk(addr, number as u64, stopping, rounds));
            }
            // Everybody is there, and some are in the midst of it.
            let are_at_work = || rounds.iter().all(|rounds| rounds.load(Ordering::SeqCst) >= ROUNDS);
            wait_until("everybody is answered", are_at_work);
            drop(ends);
            assert!(server.stop().success(), "{mode:?}");
        });
    }
}

/// As long as a stop may take here that waits for nobody: far less than for everybody.
const SOON: Duration = Duration::from_secs(20);

#[test]
fn a_stop_does_not_wait_for_those_who_wait_in_the_line() {
    let memcached = Memcached::start(&[]);
    let server = router(&[&memcached.name()], &["--workers", "1", "--server-timeout", "1s", "--drain", "1s"]);
    memcached.signal("STOP");
    let clients: Vec<Client> = (0..60)
        .map(|_| {
            let mut client = Client::to(server.addr());
            client.0.write_all(b"get a\r\n").expect("the router reads");
            client
        })
        .collect();
    // All of them would take longer than a stop may.
    wait_until("most of them are in the line", || in_line(&server) >= 2 * SOON.as_secs());
    let start = Instant::now();
    server.stop();
    assert!(start.elapsed() < SOON, "it took {:?}", start.elapsed());
    drop(clients);
}

/// How many requests wait for a worker.
fn in_line(server: &Server) -> u64 {
    let (_, page) = server.page("/metrics");
    let figure = page.lines().find_map(|line| line.strip_prefix("posthaste_line_requests "));
    figure.and_then(|figure| figure.parse().ok()).expect("a figure of the line")
}

#[test]
fn a_stop_does_not_wait_until_every_server_that_is_away_was_asked() {
    // They take connections, and say nothing.
    let silent: Vec<TcpListener> =
        (0..30).map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port")).collect();
    let names: Vec<String> =
        silent.iter().map(|listener| listener.local_addr().expect("an address").to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let server = router(&names, &["--server-timeout", "200ms", "--drain", "1s"]);
    let mut client = Client::to(server.addr());
    client.ask("set a 0 0 1\r\nx\r\n");
    assert_eq!(client.stat("", "servers_live"), 0);
    let start = Instant::now();
    server.stop();
    assert!(start.elapsed() < SOON, "it took {:?}", start.elapsed());
}

/// Asks until the connection ends; nothing of what was asked before the stop may be missing then.
fn talk(addr: SocketAddr, number: u64, stopping: &AtomicBool, answered: &AtomicUsize) {
    let (mut client, mut rng) = (Client::to(addr), Rng::with_seed(number));
    let value = "x".repeat(2000);
    let mut rounds = 0;
    loop {
        let (mut text, mut expected) = (String::new(), String::new());
        for _ in 0..rng.usize(1..6) {
            rounds += 1;
            let set = format!(
                "set k{number} 0 0 {}\r\n{rounds}{value}\r\n",
                value.len() + rounds.to_string().len()
            );
            text += &format!("{set}get k{number}\r\n");
            expected += &format!("STORED\r\nVALUE{}END\r\n", &set[3..].replacen(" 0 0 ", " 0 ", 1));
        }
        let is_sent = client.0.write_all(text.as_bytes()).is_ok();
        // On this machine what was sent has arrived.
        let must_be_answered = is_sent && !stopping.load(Ordering::SeqCst);
        let heard = hear(&mut client, expected.len());
        assert!(expected.starts_with(&heard), "client {number} heard {heard:?}");
        if heard.len() == expected.len() {
            answered.fetch_add(1, Ordering::SeqCst);
            continue;
        }
        assert!(!must_be_answered, "client {number} has {} of {} bytes", heard.len(), expected.len());
        let ends_whole = heard.is_empty() || heard.ends_with("STORED\r\n") || heard.ends_with("\r\nEND\r\n");
        assert!(ends_whole, "client {number}: an answer was cut");
        return;
    }
}

/// So many bytes, or fewer if the connection ends.
fn hear(client: &mut Client, bytes: usize) -> String {
    let (mut heard, mut buffer) = (Vec::new(), [0; 65536]);
    while heard.len() < bytes {
        match client.0.read(&mut buffer) {
            Ok(n) if n > 0 => heard.extend_from_slice(&buffer[..n]),
            // A machine that stood still for a moment.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            _ => break,
        }
    }
    String::from_utf8(heard).expect("text")
}
