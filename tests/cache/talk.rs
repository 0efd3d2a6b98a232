//! Clients whose every answer is checked: a key and its value carry who asked, and how often it had asked before.
//!
//! A key has one writer, which knows what it must read: nothing, or what it stored last, or something that it sent since
//! then and of which it does not know what became.

use std::collections::{HashMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use fastrand::Rng;

use super::client::Client;

/// What clients were told.
#[derive(Default)]
pub(crate) struct Heard {
    /// Requests that were answered.
    pub(crate) answers: AtomicU64,
    /// Errors among the answers.
    pub(crate) errors: AtomicU64,
}

/// Has the clients of these numbers, several of one thread, talk to a router while something else is done. No number
/// comes twice in the life of a cache.
pub(crate) fn talk_while(
    addr: SocketAddr,
    numbers: Range<usize>,
    threads: usize,
    meanwhile: impl FnOnce(),
) -> Heard {
    let (stop, heard) = (AtomicBool::new(false), Heard::default());
    thread::scope(|scope| {
        for thread in 0..threads {
            let (numbers, stop, heard) = (numbers.clone(), &stop, &heard);
            scope.spawn(move || {
                let mine = numbers.filter(|number| number % threads == thread);
                let mut talks: Vec<Talk> = mine.map(|number| Talk::new(addr, number)).collect();
                while !stop.load(Ordering::Relaxed) {
                    talks.iter_mut().for_each(Talk::ask);
                    for talk in &mut talks {
                        talk.listen(heard);
                    }
                }
            });
        }
        meanwhile();
        stop.store(true, Ordering::Relaxed);
    });
    heard
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
    fn new(addr: SocketAddr, number: usize) -> Self {
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
    fn listen(&mut self, heard: &Heard) {
        let mut buffer = [0; 65536];
        while !self.open.is_empty() {
            while let Some(line) = self.line() {
                self.check(&line, heard);
            }
            if !self.open.is_empty() {
                match self.client.0.read(&mut buffer) {
                    Ok(n) if n > 0 => self.heard.extend_from_slice(&buffer[..n]),
                    // A machine that stood still for a moment.
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
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

    fn check(&mut self, line: &str, heard: &Heard) {
        let open = self.open.front_mut().unwrap_or_else(|| panic!("{line:?} was not asked for"));
        match open {
            _ if line.starts_with("SERVER_ERROR") => {
                heard.errors.fetch_add(1, Ordering::Relaxed);
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
        heard.answers.fetch_add(1, Ordering::Relaxed);
    }
}
