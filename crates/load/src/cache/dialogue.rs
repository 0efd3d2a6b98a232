//! A client of a cache: sets and gets out as memcached text, hits and misses counted and, with `--check`, every byte of
//! every value verified.

use std::collections::VecDeque;
use std::sync::Arc;

use fastrand::Rng;
use posthaste_wire::memcached::answer;

use crate::cache::check::Inspector;
use crate::cache::cycle::{Cycle, Step};
use crate::cache::keys::{Chooser, KeyDistribution, KeySpace};
use crate::cache::value::{Pool, Version};
use crate::dialogue::{Answer, Dialogue, Outcome};
use crate::numbers::Numbers;
use crate::seeds::{self, Purpose};

/// Bits for the number of a write among those of its client.
const WRITES_BITS: u32 = 40;

/// What all clients of a run have in common.
#[derive(Debug)]
pub struct Recipe {
    /// The keys.
    pub space: KeySpace,
    /// The order of sets and gets.
    pub cycle: Cycle,
    /// How requests are spread over the keys.
    pub distribution: KeyDistribution,
    /// Sizes of values.
    pub value_bytes: Numbers,
    /// Seconds that values live; 0: for good.
    pub expiry_s: Numbers,
    /// What values are made from.
    pub pool: Pool,
    /// Tells this run's values from those of others.
    pub run: u32,
}

impl Recipe {
    /// Appends a set of `key`; `write` tells its value from others of the run.
    pub fn set(&self, key: u64, write: u64, rng: &mut Rng, out: &mut Vec<u8>) {
        let len = self.value_bytes.draw(rng);
        out.extend_from_slice(b"set ");
        self.space.write(key, out);
        out.extend_from_slice(b" 0 ");
        number(self.expiry_s.draw(rng), out);
        out.push(b' ');
        number(len, out);
        out.extend_from_slice(b"\r\n");
        self.pool.write(key, Version { run: self.run, write }, len as usize, out);
        out.extend_from_slice(b"\r\n");
    }
}

fn number(number: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// The kind of a request, by which it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Set,
    Get,
    MultiGet,
}

/// What the clients of a thread share.
#[derive(Debug)]
pub struct CacheThreadState {
    pub(crate) recipe: Arc<Recipe>,
    /// Keys asked for within the measured window.
    pub(crate) lookups: Lookups,
    /// Verifies values; None without `--check`.
    pub(crate) inspector: Option<Inspector>,
}

/// How many of the keys asked for had a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lookups {
    /// Keys asked for that had a value.
    pub hits: u64,
    /// Keys asked for that had none.
    pub misses: u64,
}

impl Lookups {
    /// Adds the keys of another thread.
    pub fn absorb(&mut self, other: Self) {
        self.hits += other.hits;
        self.misses += other.misses;
    }
}

/// One client's requests and answers.
#[derive(Debug)]
pub struct CacheDialogue {
    client: u32,
    rng: Rng,
    /// Choose the keys to set, and those to get; in sequence, each has a place of its own.
    to_set: Chooser,
    to_get: Chooser,
    /// Place in the cycle of the next request.
    place: u64,
    /// Number of sets that it has sent.
    writes: u64,
    /// With `--check`: the keys of the gets under way, in the order asked.
    keys: VecDeque<u64>,
}

/// A request that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    kind: Kind,
    keys: u32,
}

impl CacheDialogue {
    /// Creates the dialogue of client `client`, counted from 1, that keeps `pipeline` requests in flight.
    #[must_use]
    pub fn new(recipe: &Recipe, seed: u64, client: u32, pipeline: u32) -> Self {
        let place = recipe.cycle.begin(client, pipeline);
        let chooser = Chooser::new(&recipe.space, recipe.distribution);
        Self {
            client,
            rng: seeds::stream(seed, Purpose::Cache, client.into()),
            to_set: chooser,
            to_get: chooser,
            place,
            writes: 0,
            keys: VecDeque::new(),
        }
    }

    fn set(&mut self, recipe: &Recipe, out: &mut Vec<u8>) {
        let key = self.to_set.choose(&mut self.rng);
        let write = u64::from(self.client) << WRITES_BITS | self.writes;
        self.writes += 1;
        recipe.set(key, write, &mut self.rng, out);
    }

    fn get(&mut self, keys: u32, shared: &CacheThreadState, out: &mut Vec<u8>) {
        out.extend_from_slice(b"get");
        for _ in 0..keys {
            let key = self.to_get.choose(&mut self.rng);
            out.push(b' ');
            shared.recipe.space.write(key, out);
            if shared.inspector.is_some() {
                self.keys.push_back(key);
            }
        }
        out.extend_from_slice(b"\r\n");
    }

    /// Shows a whole answer to the inspector: `hits` values, or a line.
    fn take(&mut self, asked: Asked, hits: Option<usize>, answer: &[u8], shared: &mut CacheThreadState) {
        if let Some(inspector) = &mut shared.inspector
            && asked.kind != Kind::Set
        {
            let keys = self.keys.make_contiguous();
            let (keys, _) = keys.split_at_mut(asked.keys as usize);
            if hits.is_some() {
                inspector.inspect(&shared.recipe, self.client, keys, answer);
            }
            self.keys.drain(..asked.keys as usize);
        }
    }
}

impl Dialogue for CacheDialogue {
    const KINDS: &'static [&'static str] = &["set", "get", "multiget"];
    const NULLS: &'static str = "miss";
    type Asked = Asked;
    type Shared = CacheThreadState;

    fn ask(&mut self, shared: &mut CacheThreadState, out: &mut Vec<u8>) -> Option<Asked> {
        let step = shared.recipe.cycle.at(self.place, &mut self.rng);
        self.place = if self.place + 1 == shared.recipe.cycle.requests() { 0 } else { self.place + 1 };
        let (kind, keys) = match step {
            Step::Set => {
                self.set(&shared.recipe, out);
                (Kind::Set, 0)
            }
            Step::Get(keys) => {
                self.get(keys, shared, out);
                (if keys == 1 { Kind::Get } else { Kind::MultiGet }, keys)
            }
        };
        Some(Asked { kind, keys })
    }

    fn kind(asked: &Asked) -> usize {
        asked.kind as usize
    }

    fn answer<'a>(
        &mut self,
        asked: &Asked,
        bytes: &'a [u8],
        measured: bool,
        shared: &mut CacheThreadState,
    ) -> Answer<'a> {
        let (hits, line, len) = match answer::answer(bytes) {
            answer::Answer::Values { count, len } => (Some(count), &b"END"[..], len),
            answer::Answer::Line { line, len } => (None, line, len),
            answer::Answer::NeedBytes(missing) => return Answer::NeedBytes(missing),
            answer::Answer::Malformed => {
                return Answer::Malformed("the server's answer is not the memcached text protocol".into());
            }
        };
        let outcome = match (asked.kind, hits) {
            (Kind::Get | Kind::MultiGet, Some(0)) => Outcome::Null,
            (Kind::Get | Kind::MultiGet, Some(_)) => Outcome::Ok,
            (Kind::Set, None) if line == b"STORED" => Outcome::Ok,
            _ => Outcome::Error,
        };
        if measured && outcome != Outcome::Error {
            let hits = hits.unwrap_or(0) as u64;
            shared.lookups.hits += hits;
            shared.lookups.misses += u64::from(asked.keys).saturating_sub(hits);
        }
        self.take(*asked, hits, &bytes[..len], shared);
        Answer::Whole { len, outcome, word: (outcome == Outcome::Error).then_some(line) }
    }

    fn lost(&mut self, _: &Asked, _: &mut CacheThreadState) {}

    fn finish(&mut self) {}

    fn is_at_rest(&self) -> bool {
        true
    }

    fn turn_ended(_: &mut CacheThreadState) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeds::tests::{DRAWS, assert_apart};

    fn shared(ratio: &str, check: bool) -> CacheThreadState {
        let recipe = Recipe {
            space: KeySpace { prefix: "k".into(), first: 0, count: 1 },
            cycle: Cycle::new(ratio.parse().expect("a ratio"), Numbers::fixed(2)),
            distribution: KeyDistribution::Uniform,
            value_bytes: Numbers::fixed(30),
            expiry_s: Numbers::fixed(60),
            pool: Pool::default(),
            run: 1,
        };
        let inspector = check.then(Inspector::default);
        CacheThreadState { recipe: Arc::new(recipe), lookups: Lookups::default(), inspector }
    }

    fn ask(shared: &mut CacheThreadState) -> (CacheDialogue, Asked, Vec<u8>) {
        let mut dialogue = CacheDialogue::new(&shared.recipe, 1, 1, 1);
        let mut out = Vec::new();
        let asked = dialogue.ask(shared, &mut out).expect("always one");
        (dialogue, asked, out)
    }

    #[test]
    fn a_set_carries_its_expiry_and_its_length() {
        let mut shared = shared("1:0", false);
        let (mut dialogue, asked, out) = ask(&mut shared);
        assert!(out.starts_with(b"set k0 0 60 30\r\nph") && out.ends_with(b"\r\n"));
        assert_eq!(out.len(), 16 + 30 + 2);
        let answer = dialogue.answer(&asked, b"STORED\r\nEND", true, &mut shared);
        assert_eq!(answer, Answer::Whole { len: 8, outcome: Outcome::Ok, word: None });
    }

    #[test]
    fn a_client_alone_gets_in_sequence_what_it_has_set() {
        let mut shared = shared("1:1", false);
        let recipe = Arc::get_mut(&mut shared.recipe).expect("nobody else has it");
        recipe.space.count = 4;
        recipe.cycle = Cycle::new("1:1".parse().expect("a ratio"), Numbers::fixed(1));
        recipe.distribution = KeyDistribution::Sequential;
        let mut dialogue = CacheDialogue::new(&shared.recipe, 1, 1, 1);
        let mut next = || {
            let mut out = Vec::new();
            dialogue.ask(&mut shared, &mut out).expect("always one");
            String::from_utf8_lossy(&out[..6]).trim_end().to_owned()
        };
        let keys: Vec<_> = (0..10).map(|_| next()).collect();
        let expected = [
            "set k0", "get k0", "set k1", "get k1", "set k2", "get k2", "set k3", "get k3", "set k0",
            "get k0",
        ];
        assert_eq!(keys, expected);
    }

    #[test]
    fn neighboring_clients_and_seeds_draw_nothing_in_common() {
        let mut shared = shared("0:1", false);
        let recipe = Arc::get_mut(&mut shared.recipe).expect("nobody else has it");
        recipe.space.count = 1_000_000;
        recipe.cycle = Cycle::new("0:1".parse().expect("a ratio"), Numbers::fixed(1));
        assert_apart(|seed, client| {
            let mut dialogue = CacheDialogue::new(&shared.recipe, seed, client, 1);
            let mut key = || {
                let mut out = Vec::new();
                dialogue.ask(&mut shared, &mut out).expect("always one");
                let number = out.strip_prefix(b"get k").and_then(|rest| rest.strip_suffix(b"\r\n"));
                str::from_utf8(number.expect("a get")).expect("digits").parse().expect("a number")
            };
            (0..DRAWS).map(|_| key()).collect()
        });
    }

    #[test]
    fn hits_and_misses_of_a_multi_get_are_counted_by_key() {
        let mut shared = shared("0:1", false);
        let (mut dialogue, asked, out) = ask(&mut shared);
        assert_eq!(out, b"get k0 k0\r\n");
        let answer = dialogue.answer(&asked, b"VALUE k0 0 1\r\nx\r\nEND\r\n", true, &mut shared);
        assert_eq!(answer, Answer::Whole { len: 22, outcome: Outcome::Ok, word: None });
        assert_eq!((shared.lookups.hits, shared.lookups.misses), (1, 1));
        let answer = dialogue.answer(&asked, b"END\r\n", false, &mut shared);
        assert_eq!(answer, Answer::Whole { len: 5, outcome: Outcome::Null, word: None });
        assert_eq!((shared.lookups.hits, shared.lookups.misses), (1, 1), "not measured");
    }

    #[test]
    fn refusals_and_answers_to_something_else_are_errors() {
        let mut shared = shared("1:0", false);
        let (mut dialogue, set, _) = ask(&mut shared);
        for line in [&b"SERVER_ERROR out of memory"[..], b"NOT_STORED", b"END"] {
            let bytes = [line, b"\r\n"].concat();
            let answer = dialogue.answer(&set, &bytes, true, &mut shared);
            assert_eq!(answer, Answer::Whole { len: bytes.len(), outcome: Outcome::Error, word: Some(line) });
        }
        assert!(matches!(dialogue.answer(&set, b"STORED\n", true, &mut shared), Answer::Malformed(_)));
        assert_eq!(dialogue.answer(&set, b"STO", true, &mut shared), Answer::NeedBytes(1));
    }

    #[test]
    fn a_checked_client_keeps_the_keys_it_waits_for_and_no_more() {
        let mut shared = shared("0:1", true);
        let (mut dialogue, asked, mut out) = ask(&mut shared);
        dialogue.ask(&mut shared, &mut out);
        assert_eq!(dialogue.keys.len(), 4);
        dialogue.answer(&asked, b"END\r\n", true, &mut shared);
        dialogue.answer(&asked, b"SERVER_ERROR busy\r\n", true, &mut shared);
        assert!(dialogue.keys.is_empty());
        assert_eq!(shared.inspector.expect("checked").findings().violations.count, 0);
    }
}
