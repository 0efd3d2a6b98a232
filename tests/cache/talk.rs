//! Clients whose every answer is checked: a key and its value carry who asked, and how often it had asked before.
//!
//! A key has one writer, which knows what it must read: nothing, or what it stored last, or something that it sent since
//! then and of which it does not know what became. It speaks classic and meta text, with and without answers; behind
//! what may be answered by silence it sends an `mn`, so that an error belongs to one request.

use std::collections::{HashMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use fastrand::Rng;

use super::client::Client;
use crate::support::ends::Ends;

/// For how long clients talk while nothing is disturbed.
const CALM: Duration = Duration::from_millis(500);

/// Clients that talk then, and threads that drive them.
const CALM_CLIENTS: usize = 40;
const CALM_THREADS: usize = 2;

/// How often it is tried to have nothing disturbed: a busy machine may keep a server from answering in time.
const CALM_TRIES: usize = 50;

/// What clients were told.
#[derive(Default)]
pub(crate) struct Heard {
    /// Requests that were answered, by silence too.
    pub(crate) answers: AtomicU64,
    /// Those of them that were answered by an error, or not done.
    pub(crate) errors: AtomicU64,
    /// Values that were read.
    pub(crate) values: AtomicU64,
    /// Keys that were not found though they had been stored.
    pub(crate) misses: AtomicU64,
    /// Values older than one that was sent without asking for an answer.
    pub(crate) behind: AtomicU64,
}

impl Heard {
    fn count(&self, figure: impl Fn(&Self) -> &AtomicU64) {
        figure(self).fetch_add(1, Ordering::Relaxed);
    }

    /// What was counted: answers, errors, values, misses, values behind.
    pub(crate) fn figures(&self) -> [u64; 5] {
        [&self.answers, &self.errors, &self.values, &self.misses, &self.behind]
            .map(|figure| figure.load(Ordering::Relaxed))
    }
}

/// Sees that clients were served though servers came and went: that at most this share of their requests met errors,
/// and that they found more than they missed.
pub(crate) fn assert_served(figures: [u64; 5], errors_percent: u64) {
    let [answers, errors, values, misses, _] = figures;
    assert!(errors * 100 < answers * errors_percent, "{errors} errors among {answers} answers");
    assert!(misses < values, "{misses} misses, {values} values");
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
        let _ends = Ends(&stop);
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
    });
    heard
}

/// Has clients talk while all of these servers take part: everything is answered, done and found. Clients of the
/// numbers from `first` on have not talked before, and none above them will.
pub(crate) fn talk_undisturbed(addr: SocketAddr, servers: &[String], first: usize) {
    let mut looker = Client::to(addr);
    let losses = |looker: &mut Client| -> u64 {
        looker.wait_for_live(servers.len() as u64);
        servers.iter().map(|name| looker.stat(" servers", &format!("{name}:losses"))).sum()
    };
    for first in (first..).step_by(CALM_CLIENTS).take(CALM_TRIES) {
        let before = losses(&mut looker);
        let heard =
            talk_while(addr, first..first + CALM_CLIENTS, CALM_THREADS, || thread::sleep(CALM)).figures();
        if losses(&mut looker) == before {
            let [answers, errors, values, misses, behind] = heard;
            assert!(answers > 100 && values > 10, "there was hardly any traffic: {heard:?}");
            assert_eq!([errors, misses, behind], [0; 3], "errors, misses and old values, with nothing lost");
            return;
        }
    }
    panic!("servers were lost each time");
}

/// What was asked and must be answered next.
enum Open {
    /// A change, with what is answered when it is done, and words that say it is not.
    Write { change: Change, done: String, undone: &'static [&'static str] },
    /// A change without an answer, unless perhaps an error. Behind it comes a marker.
    Silent(Change),
    /// A get of these keys; the token is kept if there is one.
    Get(Vec<String>),
    /// An `mg`, to be answered with this opaque; quiet: a miss is answered by silence, and a marker comes behind it.
    MetaGet { key: String, opaque: String, is_quiet: bool },
    /// An `mn`.
    Marker,
}

/// What a write does to a key.
struct Change {
    key: String,
    round: u64,
    is_there: bool,
}

/// What a client knows of a key.
#[derive(Default)]
struct Known {
    /// The round of the last change that was acknowledged: nothing older may be read.
    oldest: u64,
    /// The round of the last change that was acknowledged, or sent without asking for an answer.
    newest: u64,
    /// Whether it holds a value as far as was heard.
    is_there: bool,
    /// A token for `cas`, unless the key was written since.
    token: Option<String>,
}

/// One connection with a few requests under way.
struct Talk {
    client: Client,
    number: usize,
    round: u64,
    rng: Rng,
    open: VecDeque<Open>,
    heard: Vec<u8>,
    known: HashMap<String, Known>,
}

impl Talk {
    fn new(addr: SocketAddr, number: usize) -> Self {
        let rng = Rng::with_seed(number as u64);
        let (open, heard, known) = (VecDeque::new(), Vec::new(), HashMap::new());
        Self { client: Client::to(addr), number, round: 0, rng, open, heard, known }
    }

    fn key(&mut self) -> String {
        format!("k{}-{}", self.number, self.rng.u32(..10))
    }

    /// Sends a few requests in one go.
    fn ask(&mut self) {
        let mut text = String::new();
        for _ in 0..self.rng.usize(1..5) {
            self.round += 1;
            text += &match self.rng.u32(..10) {
                0..=4 => self.write(),
                5 => self.meta_get(),
                6 => self.get("gets", 1),
                _ => {
                    let count = self.rng.usize(1..8);
                    self.get("get", count)
                }
            };
        }
        self.client.0.write_all(text.as_bytes()).expect("the router listens");
    }

    /// A change of some kind. A value says which key and round it is of.
    fn write(&mut self) -> String {
        let (key, round) = (self.key(), self.round);
        let token = self.known.entry(key.clone()).or_default().token.take();
        let is_there = self.rng.u32(..8) > 0;
        let change = Change { key: key.clone(), round, is_there };
        let value = format!("{key}:{round}:{}", "x".repeat(self.rng.usize(..3000)));
        let (len, is_silent, is_meta) = (value.len(), self.rng.u32(..3) == 0, self.rng.bool());
        let (noreply, quiet) = if is_silent { (" noreply", " q") } else { ("", "") };
        if let Some(token) = token.filter(|_| is_there) {
            let undone = &["EXISTS", "NOT_FOUND"];
            self.open.push_back(Open::Write { change, done: "STORED\r\n".to_owned(), undone });
            return format!("cas {key} 0 0 {len} {token}\r\n{value}\r\n");
        }
        let meta_done = format!("HD O{round}\r\n");
        let (mut text, done, undone): (_, _, &[&str]) = match (is_there, is_meta) {
            (true, false) => {
                (format!("set {key} 0 0 {len}{noreply}\r\n{value}\r\n"), "STORED\r\n".to_owned(), &[])
            }
            (true, true) => (format!("ms {key} {len}{quiet} O{round}\r\n{value}\r\n"), meta_done, &[]),
            (false, false) => {
                (format!("delete {key}{noreply}\r\n"), "DELETED\r\n".to_owned(), &["NOT_FOUND"])
            }
            (false, true) => (format!("md {key}{quiet} O{round}\r\n"), meta_done, &["NF"]),
        };
        self.open.push_back(match is_silent {
            true => Open::Silent(change),
            false => Open::Write { change, done, undone },
        });
        if is_silent {
            self.open.push_back(Open::Marker);
            text += "mn\r\n";
        }
        text
    }

    fn meta_get(&mut self) -> String {
        let (key, opaque, is_quiet) = (self.key(), format!("O{}", self.round), self.rng.bool());
        let quiet = if is_quiet { " q" } else { "" };
        let mut text = format!("mg {key} v k {opaque}{quiet}\r\n");
        self.open.push_back(Open::MetaGet { key, opaque, is_quiet });
        if is_quiet {
            self.open.push_back(Open::Marker);
            text += "mn\r\n";
        }
        text
    }

    fn get(&mut self, verb: &str, count: usize) -> String {
        let keys: Vec<String> = (0..count).map(|_| self.key()).collect();
        let text = format!("{verb} {}\r\n", keys.join(" "));
        self.open.push_back(Open::Get(keys));
        text
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
        let place = [("VALUE ", 3), ("VA ", 1)].iter().find(|(word, _)| line.starts_with(word));
        let data = place.map_or(0, |(_, place)| {
            let length = line.trim().split(' ').nth(*place).and_then(|length| length.parse().ok());
            length.map_or_else(|| panic!("no length in {line:?}"), |length: usize| length + 2)
        });
        (self.heard.len() >= end + data)
            .then(|| String::from_utf8(self.heard.drain(..end + data).collect()).expect("text"))
    }

    fn check(&mut self, line: &str, heard: &Heard) {
        let open = self.open.pop_front().unwrap_or_else(|| panic!("{line:?} was not asked for"));
        let is_error = line.starts_with("SERVER_ERROR");
        match open {
            Open::Marker => return assert_eq!(line, "MN\r\n"),
            Open::Silent(change) if line == "MN\r\n" => {
                self.open.pop_front();
                let known = self.known.entry(change.key).or_default();
                (known.newest, known.is_there) = (change.round, change.is_there);
            }
            Open::Silent(change) if is_error => self.note_undone(&change, heard),
            // A server says so of a quiet deletion.
            Open::Silent(change) if line == format!("NF O{}\r\n", change.round) => {
                self.check_write(&change, "", &["NF"], line, heard);
            }
            Open::Silent(change) => panic!("{line:?} to what is answered by silence, of {}", change.key),
            Open::Write { change, done, undone } => self.check_write(&change, &done, undone, line, heard),
            Open::Get(keys) if line.starts_with("VALUE ") => {
                let left = self.check_values(keys, line, heard);
                return self.open.push_front(Open::Get(left));
            }
            Open::Get(_) | Open::MetaGet { .. } if is_error => heard.count(|heard| &heard.errors),
            Open::Get(keys) => {
                assert_eq!(line, "END\r\n");
                keys.iter().for_each(|key| self.note_miss(key, heard));
            }
            Open::MetaGet { key, is_quiet: true, .. } if line == "MN\r\n" => {
                self.open.pop_front();
                self.note_miss(&key, heard);
            }
            Open::MetaGet { key, opaque, .. } => self.check_meta(&key, &opaque, line, heard),
        }
        heard.count(|heard| &heard.answers);
    }

    fn check_write(&mut self, change: &Change, done: &str, undone: &[&str], line: &str, heard: &Heard) {
        let word = line.split([' ', '\r']).next().unwrap_or_default();
        let is_removed = !change.is_there && undone.contains(&word);
        if line == done || is_removed {
            let known = self.known.entry(change.key.clone()).or_default();
            let is_missed = is_removed && known.is_there;
            (known.oldest, known.newest, known.is_there) = (change.round, change.round, change.is_there);
            if is_missed {
                heard.count(|heard| &heard.misses);
            }
            return;
        }
        // A token may be one of another server, or of a value that is gone.
        let is_refused = word == "SERVER_ERROR" || undone.contains(&word);
        assert!(is_refused, "{line:?} to a change of {}, not {done:?}", change.key);
        self.note_undone(change, heard);
    }

    /// It may have happened or not, and the key may be gone.
    fn note_undone(&mut self, change: &Change, heard: &Heard) {
        self.known.entry(change.key.clone()).or_default().is_there = false;
        heard.count(|heard| &heard.errors);
    }

    /// Checks a value of a get of these keys, and returns which may still come.
    fn check_values(&mut self, mut keys: Vec<String>, line: &str, heard: &Heard) -> Vec<String> {
        let (head, value) = line.split_once("\r\n").expect("a value");
        let words: Vec<&str> = head.split(' ').collect();
        let place = keys.iter().position(|asked| asked == words[1]);
        let place = place.unwrap_or_else(|| panic!("{head} is no answer to {keys:?}"));
        for missed in keys.drain(..=place).take(place) {
            self.note_miss(&missed, heard);
        }
        self.check_value(words[1], value, heard);
        // What is asked behind it may have written the key: then the token is not good.
        let is_written = self.open.iter().any(|open| match open {
            Open::Write { change, .. } | Open::Silent(change) => change.key == words[1],
            _ => false,
        });
        if let Some(token) = words.get(4).filter(|_| !is_written) {
            self.known.entry(words[1].to_owned()).or_default().token = Some((*token).to_owned());
        }
        keys
    }

    fn check_meta(&mut self, key: &str, opaque: &str, line: &str, heard: &Heard) {
        if line.starts_with("EN") {
            assert_eq!(line, format!("EN k{key} {opaque}\r\n"));
            return self.note_miss(key, heard);
        }
        let (head, value) = line.split_once("\r\n").expect("an answer");
        assert_eq!(head, format!("VA {} k{key} {opaque}", value.len() - 2));
        self.check_value(key, value, heard);
    }

    fn check_value(&self, key: &str, value: &str, heard: &Heard) {
        let round = value.strip_prefix(&format!("{key}:")).and_then(|rest| rest.split(':').next());
        let round = round.and_then(|round| round.parse::<u64>().ok());
        let (oldest, newest) = self.known.get(key).map_or((0, 0), |known| (known.oldest, known.newest));
        assert!(
            round.is_some_and(|round| (oldest.max(1)..=self.round).contains(&round)),
            "{key} with {} and not of the rounds {oldest} to {}",
            &value[..value.len().min(40)],
            self.round
        );
        if round < Some(newest) {
            heard.count(|heard| &heard.behind);
        }
        heard.count(|heard| &heard.values);
    }

    fn note_miss(&self, key: &str, heard: &Heard) {
        if self.known.get(key).is_some_and(|known| known.is_there) {
            heard.count(|heard| &heard.misses);
        }
    }
}
