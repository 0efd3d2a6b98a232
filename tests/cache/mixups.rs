//! No answer ever reaches the wrong request, and none is older than what was stored: every key and value carries who
//! asked and how often it had asked before, while servers are killed and stalled at random.
//!
//! A key has one writer, which knows what it must read: nothing, or what it stored last, or something that it sent since
//! then and of which it does not know what became.

use std::collections::{HashMap, VecDeque};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::client::{Client, allow_files, router};
use crate::memcached::Memcached;

/// Threads that drive clients.
const THREADS: usize = 8;

/// Connections of one thread: a thousand in all.
const CONNECTIONS: usize = 125;

/// How long each mode is tried.
const DURATION: Duration = Duration::from_secs(5);

#[test]
fn answers_belong_to_their_requests_while_servers_die_and_stall() {
    chaos(&["--threads", "2"]);
}

#[test]
fn answers_of_workers_belong_to_their_requests_while_servers_die_and_stall() {
    chaos(&["--threads", "2", "--workers", "8", "--eject", "on"]);
}

#[test]
fn answers_of_shards_belong_to_their_requests_while_servers_die_and_stall() {
    chaos(&["--threads", "2", "--writes", "owner"]);
}

fn chaos(arguments: &[&str]) {
    // All tests of this program may run at once.
    allow_files(3 * (THREADS * CONNECTIONS) as u64 + 500);
    let mut servers = Memcached::several::<3>();
    let names: Vec<String> = servers.iter().map(Memcached::name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let server = router(&names, &[arguments, &["--server-timeout", "100ms", "--multiget", "split"]].concat());
    let (stop, answers, errors) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (addr, stop, answers, errors) = (server.addr(), &stop, &answers, &errors);
            scope.spawn(move || {
                let mut talks: Vec<Talk> =
                    (0..CONNECTIONS).map(|i| Talk::new(addr, number * 1000 + i)).collect();
                while !stop.load(Ordering::Relaxed) {
                    talks.iter_mut().for_each(Talk::ask);
                    for talk in &mut talks {
                        talk.listen(answers, errors);
                    }
                }
            });
        }
        let (end, mut rng) = (Instant::now() + DURATION, Rng::with_seed(7));
        while Instant::now() < end {
            let victim = &mut servers[rng.usize(..3)];
            if rng.bool() {
                victim.kill();
                thread::sleep(Duration::from_millis(rng.u64(..100)));
                victim.restart();
            } else {
                victim.signal("STOP");
                thread::sleep(Duration::from_millis(rng.u64(..300)));
                victim.signal("CONT");
            }
            thread::sleep(Duration::from_millis(rng.u64(..200)));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(answers.load(Ordering::Relaxed) > 1000, "there was hardly any traffic");
}

/// What was asked and must be answered next.
enum Open {
    Set { key: String, round: u64 },
    Get(Vec<String>),
}

/// One connection with a few requests under way.
struct Talk {
    client: Client,
    number: usize,
    round: u64,
    rng: Rng,
    open: VecDeque<Open>,
    heard: Vec<u8>,
    /// The round in which each key was stored last, as far as it was answered.
    stored: HashMap<String, u64>,
}

impl Talk {
    fn new(addr: std::net::SocketAddr, number: usize) -> Self {
        let rng = Rng::with_seed(number as u64);
        let (open, heard, stored) = (VecDeque::new(), Vec::new(), HashMap::new());
        Self { client: Client::to(addr), number, round: 0, rng, open, heard, stored }
    }

    /// Sends a few sets and gets in one go. A value says which key and round it is of.
    fn ask(&mut self) {
        let mut text = String::new();
        for _ in 0..self.rng.usize(1..5) {
            self.round += 1;
            if self.rng.bool() {
                let key = format!("k{}-{}", self.number, self.rng.u32(..10));
                let value = format!("{key}:{}:{}", self.round, "x".repeat(self.rng.usize(..3000)));
                text += &format!("set {key} 0 0 {}\r\n{value}\r\n", value.len());
                self.open.push_back(Open::Set { key, round: self.round });
            } else {
                let count = self.rng.usize(1..8);
                let keys: Vec<String> =
                    (0..count).map(|_| format!("k{}-{}", self.number, self.rng.u32(..10))).collect();
                text += &format!("get {}\r\n", keys.join(" "));
                self.open.push_back(Open::Get(keys));
            }
        }
        self.client.0.write_all(text.as_bytes()).expect("the router listens");
    }

    /// Reads all answers and checks each.
    fn listen(&mut self, answers: &AtomicU64, errors: &AtomicU64) {
        let mut buffer = [0; 65536];
        while !self.open.is_empty() {
            while let Some(line) = self.line() {
                self.check(&line, answers, errors);
            }
            if !self.open.is_empty() {
                match self.client.0.read(&mut buffer) {
                    Ok(n) if n > 0 => self.heard.extend_from_slice(&buffer[..n]),
                    other => panic!("{other:?}: {} are not answered", self.open.len()),
                }
            }
        }
        assert!(self.heard.is_empty(), "said without being asked");
    }

    /// The next line with what belongs to it, if all of it is there.
    fn line(&mut self) -> Option<String> {
        let end = self.heard.windows(2).position(|two| two == b"\r\n")? + 2;
        let line = std::str::from_utf8(&self.heard[..end]).expect("text");
        let data: usize = match line.strip_prefix("VALUE ") {
            Some(rest) => rest.trim().split(' ').nth(2).and_then(|len| len.parse().ok()).expect("a length"),
            None => return Some(String::from_utf8(self.heard.drain(..end).collect()).expect("text")),
        };
        (self.heard.len() >= end + data + 2)
            .then(|| String::from_utf8(self.heard.drain(..end + data + 2).collect()).expect("text"))
    }

    fn check(&mut self, line: &str, answers: &AtomicU64, errors: &AtomicU64) {
        let open = self.open.front_mut().unwrap_or_else(|| panic!("{line:?} was not asked for"));
        match open {
            _ if line.starts_with("SERVER_ERROR") => {
                errors.fetch_add(1, Ordering::Relaxed);
            }
            Open::Set { key, round } => {
                assert_eq!(line, "STORED\r\n");
                self.stored.insert(std::mem::take(key), *round);
            }
            Open::Get(keys) if line.starts_with("VALUE ") => {
                let (head, value) = line.split_once("\r\n").expect("a value");
                let key = head.split(' ').nth(1).expect("a key");
                let place = keys.iter().position(|asked| asked == key);
                let place = place.unwrap_or_else(|| panic!("{key} is no answer to {keys:?}"));
                let round = value.strip_prefix(&format!("{key}:")).and_then(|rest| rest.split(':').next());
                let round = round.and_then(|round| round.parse::<u64>().ok());
                let oldest = self.stored.get(key).copied().unwrap_or(1);
                assert!(
                    round.is_some_and(|round| (oldest..=self.round).contains(&round)),
                    "{head} with {} and not of the rounds {oldest} to {}",
                    &value[..value.len().min(40)],
                    self.round
                );
                keys.drain(..=place);
                return;
            }
            Open::Get(_) => assert_eq!(line, "END\r\n"),
        }
        self.open.pop_front();
        answers.fetch_add(1, Ordering::Relaxed);
    }
}
