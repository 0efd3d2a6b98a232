//! What happened in a life: a hash of every step, so that two lives of one seed can be compared; the last steps in words,
//! for whoever replays a seed; and counts, which show that a campaign tried what it is for.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::{self, Write as _};

/// Steps told in words.
const TAIL: usize = 20_000;

/// The steps of a life.
#[derive(Default)]
pub(crate) struct Trace {
    hash: u64,
    line: String,
    tail: Option<VecDeque<String>>,
}

impl Trace {
    /// One that keeps the last steps in words, if it is to tell.
    pub(crate) fn new(tells: bool) -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, line: String::new(), tail: tells.then(VecDeque::new) }
    }

    /// Something happened.
    pub(crate) fn note(&mut self, now_ns: u64, what: fmt::Arguments<'_>) {
        self.line.clear();
        let _ = write!(self.line, "{:>12.3} {what}", now_ns as f64 / 1e3);
        for byte in self.line.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if let Some(tail) = &mut self.tail {
            if tail.len() == TAIL {
                tail.pop_front();
            }
            tail.push_back(self.line.clone());
        }
    }

    /// A hash of all that happened.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    /// The last steps, with times in microseconds.
    pub(crate) fn story(&self) -> String {
        let lines: Vec<&str> = self.tail.iter().flatten().map(String::as_str).collect();
        lines.join("\n")
    }
}

/// What is counted; a campaign in which one of these never happens shows little.
pub(crate) const COUNTED: [&str; 26] = [
    "steps",
    "requests",
    "answers",
    "answers on the spot",
    "waits",
    "BUSY",
    "refused batches",
    "STORE errors",
    "kills",
    "power cuts",
    "stops",
    "failed syncs",
    "full disks",
    "dozes",
    "failed preparations",
    "recoveries",
    "requests rolled back",
    "resets",
    "half closes",
    "stalls",
    "steps during a sync",
    "full commits",
    "purges left to free",
    "segments swept",
    "messages taken",
    "messages accounted for",
];

/// How often things happened.
#[derive(Clone, Default)]
pub(crate) struct Counts(BTreeMap<&'static str, u64>);

impl Counts {
    /// It happened again, so often.
    pub(crate) fn add(&mut self, name: &'static str, times: u64) {
        *self.0.entry(name).or_default() += times;
    }

    /// How often it happened.
    pub(crate) fn of(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// Takes in those of another life.
    pub(crate) fn add_all(&mut self, other: &Self) {
        other.0.iter().for_each(|(name, times)| self.add(name, *times));
    }

    /// What never happened.
    pub(crate) fn missing(&self) -> Vec<&'static str> {
        COUNTED.into_iter().filter(|name| !self.0.contains_key(name)).collect()
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.0.iter().map(|(name, times)| format!("{times} {name}")).collect();
        f.write_str(&all.join(", "))
    }
}
