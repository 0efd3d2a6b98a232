//! The embedded store stopped at any instant: what was committed is there, what was not never happened.
//!
//! A random life of requests, commits, reads beside them and crashes runs against a memory store that is told the
//! truth: after a crash it is built anew from the history up to the last commit that reached the disk. Every answer
//! must be the same byte by byte, receipts included. A failing life is repeated from its seed, with as few of its
//! steps as still fail. Segments are tiny, so all the while old ones are swept and dropped.
//!
//! `LIVES=n` sets the number of lives.

#[path = "support/home.rs"]
mod home;

use std::path::Path;

use fastrand::Rng;
use posthaste_server::queue::answer::Answer;
use posthaste_server::queue::embedded::{Embedded, EmbeddedCommit, EmbeddedOptions};
use posthaste_server::queue::memory::Memory;
use posthaste_server::queue::rules::{AccountId, Ask, Commit as _, Flow, Millis, News, Rules};
use posthaste_wire::command::{self, Command};
use posthaste_wire::encode::Protocol;
use posthaste_wire::operation::Operation;
use posthaste_wire::span::Span;

const FEW: u64 = if cfg!(debug_assertions) { 100 } else { 3_000 };
const STEPS: u64 = 300;
const SEED: u64 = 7;
const ACCOUNTS: [&str; 3] = ["ann", "bob", "cy"];
const VIEWS: [&str; 6] = ["QINFO a", "QINFO b", "QINFO grave", "QBROWSE a", "QBROWSE b", "QBROWSE grave"];

#[test]
fn a_store_that_crashed_is_as_it_was_at_its_last_commit() {
    // What is killed here is the store, not the machine.
    let home = home::home();
    let lives = std::env::var("LIVES").map_or(FEW, |text| text.parse().expect("LIVES is a number"));
    for seed in 0..lives {
        if let Err(failure) = live(home.path(), seed, |_| true) {
            let steps = fewest_steps(home.path(), seed);
            panic!(
                "life {seed}: {failure}\nfails with steps {steps:?}: {:?}",
                live_only(home.path(), seed, &steps)
            );
        }
    }
}

/// The steps of a failing life that it needs to fail.
fn fewest_steps(home: &Path, seed: u64) -> Vec<u64> {
    let mut steps: Vec<u64> = (0..STEPS).collect();
    let mut index = steps.len();
    while index > 0 {
        index -= 1;
        let mut fewer = steps.clone();
        fewer.remove(index);
        if live_only(home, seed, &fewer).is_err() {
            steps = fewer;
        }
    }
    steps
}

fn live_only(home: &Path, seed: u64, steps: &[u64]) -> Result<(), String> {
    live(home, seed, |step| steps.contains(&step))
}

/// One life. Each step has dice of its own, so that others can be left out.
fn live(home: &Path, seed: u64, takes_place: impl Fn(u64) -> bool) -> Result<(), String> {
    let directory = home.join(seed.to_string());
    let _ = std::fs::remove_dir_all(&directory);
    let mut life = Life::begin(&directory);
    for step in (0..STEPS).filter(|step| takes_place(*step)) {
        let mut dice = Rng::with_seed(seed << 32 | step);
        life.step(&mut dice).map_err(|failure| format!("step {step}: {failure}"))?;
    }
    life.commit();
    life.crash();
    for view in VIEWS.into_iter().chain(["QLIST", "ACCOUNTS"]) {
        life.ask(1, view)?;
    }
    drop(life);
    std::fs::remove_dir_all(&directory).map_err(|error| error.to_string())
}

/// What a store was told.
#[derive(Clone)]
enum Event {
    Ask(AccountId, String),
    Time,
}

/// Where the history of a commit ends.
#[derive(Clone, Copy)]
struct Mark {
    events: usize,
    receipts: u64,
}

/// The store under test, and the truth.
struct Life<'a> {
    directory: &'a Path,
    store: Option<Embedded>,
    truth: Memory,
    now: Millis,
    history: Vec<(Millis, Event)>,
    durable: Mark,
    /// A commit under way, and what it makes durable.
    under_way: Option<(EmbeddedCommit, Mark)>,
    handles: Vec<String>,
}

impl<'a> Life<'a> {
    fn begin(directory: &'a Path) -> Self {
        let mut life = Self {
            directory,
            store: Some(opened(directory, SEED)),
            truth: truth(),
            now: 1_000_000,
            history: Vec::new(),
            durable: Mark { events: 0, receipts: SEED },
            under_way: None,
            handles: vec!["1".to_owned()],
        };
        for name in ACCOUNTS {
            life.store().account(name.as_bytes()).expect("there is room");
        }
        for queue in ["a", "b"] {
            life.ask(1, &format!("QCREATE {queue}")).expect("a new queue");
        }
        life.commit();
        life
    }

    fn store(&mut self) -> &mut Embedded {
        self.store.as_mut().expect("there but for the moment of a crash")
    }

    fn step(&mut self, dice: &mut Rng) -> Result<(), String> {
        match dice.u32(..100) {
            0..60 => {
                let request = request(dice, &self.handles);
                self.ask(dice.u32(1..=3), &request)
            }
            60..70 => self.read(dice.u32(1..=3), read(dice)),
            70..78 => self.wait(one_of(dice, &[1, 9, 50, 1_000, 60_000, 599_000, 600_000])),
            78..88 => {
                self.commit();
                Ok(())
            }
            88..94 => {
                self.seal();
                Ok(())
            }
            94..97 => {
                self.crash();
                Ok(())
            }
            _ => {
                // Killed after the sync and before anybody was told: it did happen.
                self.seal();
                if let Some((mut commit, mark)) = self.under_way.take() {
                    commit.sync().expect("a sound disk");
                    self.durable = mark;
                }
                self.crash();
                Ok(())
            }
        }
    }

    fn ask(&mut self, account: AccountId, request: &str) -> Result<(), String> {
        let now = self.now;
        self.store().prepare(1, request.len()).map_err(|fault| fault.to_string())?;
        let got = execute(self.store(), now, account, request);
        let expected = execute(&mut self.truth, now, account, request);
        self.history.push((now, Event::Ask(account, request.to_owned())));
        if got != expected {
            return Err(format!("{request} by {account}\n got {got:?}\nnot {expected:?}"));
        }
        self.handles.extend(receipts(&got.answer));
        Ok(())
    }

    /// A read beside the commits: when it is answered, then with the truth, which a crash now would not change. When
    /// nothing is under way it is, unless it is a worker's as the disk must be asked.
    fn read(&mut self, account: AccountId, request: &str) -> Result<(), String> {
        let mut got = shown(self.store(), account, request);
        let expected = shown(&mut self.truth, account, request);
        let settled = self.durable.events == self.history.len();
        if got.is_none() && !settled {
            return Ok(());
        }
        if got.is_none() && request.starts_with("PEEK") {
            let now = self.now;
            got = Some(execute(self.store(), now, account, request).answer);
        }
        let durable = shown(&mut self.durable_truth(), account, request);
        if got == expected && got == durable {
            return Ok(());
        }
        Err(format!("{request} read by {account}: got {got:?}, not {expected:?}; after a crash {durable:?}"))
    }

    fn wait(&mut self, ms: Millis) -> Result<(), String> {
        self.now += ms;
        let now = self.now;
        self.store().prepare(0, 0).map_err(|fault| fault.to_string())?;
        let (mut got, mut expected) = (Vec::new(), Vec::new());
        self.store().tick(now, &mut got);
        self.truth.tick(now, &mut expected);
        self.history.push((now, Event::Time));
        let (got, expected) = (sorted(&got), sorted(&expected));
        if got == expected { Ok(()) } else { Err(format!("news {got:?}, not {expected:?}")) }
    }

    /// Begins a commit, if none is under way.
    fn seal(&mut self) {
        let mark =
            Mark { events: self.history.len(), receipts: self.store().receipt_seed().expect("a seed") };
        let sealed = self.store().seal();
        self.under_way = self.under_way.take().or_else(|| sealed.map(|commit| (commit, mark)));
    }

    /// Ends the commit under way and makes the rest durable too.
    fn commit(&mut self) {
        loop {
            self.seal();
            let Some((mut commit, mark)) = self.under_way.take() else { break };
            let result = commit.sync();
            assert_eq!(result, Ok(()), "a sound disk");
            self.store().committed(commit, &result);
            self.durable = mark;
        }
        // Nothing was recorded since: what happened changed nothing.
        self.durable =
            Mark { events: self.history.len(), receipts: self.store().receipt_seed().expect("a seed") };
    }

    /// What a crash would leave, at this time.
    fn durable_truth(&self) -> Memory {
        let mut truth = truth();
        for (now, event) in &self.history[..self.durable.events] {
            match event {
                Event::Ask(account, request) => drop(execute(&mut truth, *now, *account, request)),
                Event::Time => truth.tick(*now, &mut Vec::new()),
            }
        }
        truth.tick(self.now, &mut Vec::new());
        truth
    }

    /// The process dies and is started again.
    fn crash(&mut self) {
        self.under_way = None;
        self.store = None;
        self.store = Some(opened(self.directory, self.durable.receipts));
        self.history.truncate(self.durable.events);
        self.truth = self.durable_truth();
        let now = self.now;
        self.store().prepare(0, 0).expect("a sound disk");
        self.store().tick(now, &mut Vec::new());
        self.history.push((now, Event::Time));
    }
}

/// All that a request does for others to see.
#[derive(Debug, PartialEq)]
struct Done {
    flow: Flow,
    answer: String,
    news: Vec<String>,
}

fn execute(store: &mut impl Rules, now: Millis, account: AccountId, request: &str) -> Done {
    let (bytes, operation) = parsed(request);
    let (mut out, mut news) = (Vec::new(), Vec::new());
    let ask = Ask { account, operation: &operation, bytes: &bytes };
    let flow = store.execute(now, ask, &mut Answer::new(&mut out, Protocol::Resp3), &mut news);
    Done { flow, answer: String::from_utf8_lossy(&out).into_owned(), news: sorted(&news) }
}

fn shown(store: &mut impl Rules, account: AccountId, request: &str) -> Option<String> {
    let (bytes, operation) = parsed(request);
    let mut out = Vec::new();
    let ask = Ask { account, operation: &operation, bytes: &bytes };
    store.read(0, ask, &mut Answer::new(&mut out, Protocol::Resp3))?;
    Some(String::from_utf8_lossy(&out).into_owned())
}

fn sorted(news: &[News]) -> Vec<String> {
    let mut news: Vec<_> = news.iter().map(|news| format!("{news:?}")).collect();
    news.sort();
    news
}

fn truth() -> Memory {
    let mut memory = Memory::new(SEED);
    for name in ACCOUNTS {
        memory.account(name.as_bytes()).expect("it holds any");
    }
    memory
}

fn opened(directory: &Path, seed: u64) -> Embedded {
    let options = EmbeddedOptions {
        segment_bytes: 1 << 14,
        seed: Some(seed),
        freed_at_once: 1,
        ..EmbeddedOptions::default()
    };
    Embedded::open(directory, options).unwrap_or_else(|error| panic!("{error}"))
}

fn request(dice: &mut Rng, handles: &[String]) -> String {
    let queue = one_of(dice, &["a", "a", "a", "b", "grave"]);
    match dice.u32(..100) {
        0..40 => send(dice, queue),
        40..43 => format!("SENDMANY {queue} {} y z", body(dice)),
        43..70 => pop(dice, queue),
        70..80 => format!("ACK {} {}", handle(dice, handles), handle(dice, handles)),
        80..85 => format!("NACK {}{}", handle(dice, handles), one_of(dice, &["", "", " DELAY 10"])),
        85..88 => format!("EXTEND {} 50", handle(dice, handles)),
        88..90 => format!("QDELETE {queue}"),
        90..91 => format!("QPURGE {queue}"),
        91..93 => format!("QREDRIVE grave{}", one_of(dice, &["", " b"])),
        93..98 => {
            let options = ["", " DEADLETTER grave AFTER 2", " TTL 5000", " MAXMSGS 20", " STRICT"];
            format!("QCREATE {}{}", one_of(dice, &["a", "b", "-", "grave"]), one_of(dice, &options))
                .replace("QCREATE grave DEADLETTER grave AFTER 2", "QCREATE grave")
        }
        98 => "LOGIN dan".to_owned(),
        _ => "QLIST".to_owned(),
    }
}

fn send(dice: &mut Rng, queue: &str) -> String {
    let to = one_of(dice, &["", "", "", " TO ann", " TO bob", " TO stranger", " TO *"]);
    let time = one_of(dice, &["", "", "", "", " DELAY 10", " TTL 50", " TTL 2000"]);
    let rank = one_of(dice, &["", "", "", " PRIORITY 1", " PRIORITY 255"]);
    let more = one_of(dice, &["", "", "", " DEDUP k", " DEDUP l", " HEADER color red"]);
    format!("SEND {queue} {}{to}{time}{rank}{more}", body(dice))
}

fn pop(dice: &mut Rng, queue: &str) -> String {
    let place =
        one_of(dice, &[" QUEUE {}", " QUEUE {}", " FROM ann", " QUEUE {} FROM bob"]).replace("{}", queue);
    let lease = one_of(dice, &["", " LEASE 10", " LEASE 100000"]);
    let count = one_of(dice, &["", "", " COUNT 3"]);
    let more = one_of(dice, &["", "", " REQID k", " REQID l", " NOTOWN", " BROADCAST", " BLOCK 5"]);
    format!("POP{place}{lease}{count}{more}")
}

fn read(dice: &mut Rng) -> &'static str {
    one_of(
        dice,
        &[
            "PEEK QUEUE a",
            "PEEK QUEUE b COUNT 5",
            "PEEK FROM ann",
            "PEEK QUEUE a FROM bob NOTOWN",
            "QREADABLE",
        ],
    )
}

/// Long enough that a few fill a segment.
fn body(dice: &mut Rng) -> String {
    "x".repeat(dice.usize(1..6000))
}

/// Mostly one of the last leases.
fn handle<'a>(dice: &mut Rng, handles: &'a [String]) -> &'a str {
    let recent = if dice.bool() { 3 } else { handles.len() };
    let among = &handles[handles.len().saturating_sub(recent)..];
    &among[dice.usize(..among.len())]
}

fn one_of<T: Copy>(dice: &mut Rng, of: &[T]) -> T {
    of[dice.usize(..of.len())]
}

/// Receipts in an answer.
fn receipts(answer: &str) -> Vec<String> {
    let after = answer.split("receipt\r\n").skip(1);
    after.filter_map(|rest| rest.split("\r\n").nth(1).map(str::to_owned)).collect()
}

/// A request as a store gets it: words split at spaces, through the parser of the wire.
fn parsed(request: &str) -> (Vec<u8>, Operation) {
    let bytes = request.as_bytes().to_vec();
    let mut words = Vec::new();
    let mut start = 0;
    for word in request.split(' ') {
        words.push(Span { start, len: word.len() as u32 });
        start += word.len() as u32 + 1;
    }
    match command::parse(&words, &bytes, 1 << 20) {
        Ok(Command::Store(operation)) => (bytes, operation),
        _ if words[0].of(&bytes) == b"LOGIN" => (bytes, Operation::Login { account: words[1] }),
        other => panic!("{request} is no request to a store: {other:?}"),
    }
}
