//! The answer to a get: the replies of several servers, merged in the order in which the keys were asked.
//!
//! Each server answers a share of the keys, hits only, in the share's order. So a hit also tells that the keys before
//! it in that share were missed. Values whose turn it is are passed on at once; values that came too early are held.
//! Keys are distinguished by their place, not by their name: a client that asks for one key twice is answered twice.
//!
//! Keys that one server missed may be asked of another: a share can collect its misses. Then they belong to no share
//! until they are assigned to one again, and values behind them wait.

use std::collections::VecDeque;

/// Shares whose memory is kept for the next get: as many as a get asks servers, usually.
const SHARES_KEPT: usize = 16;

/// In `share_of`: the key is in no share.
const UNASSIGNED: u16 = u16::MAX;

/// A value that came too early.
#[derive(Clone, Copy)]
struct HeldValue {
    /// The place of its key.
    place: u32,
    bytes: u32,
}

/// One server's part in the answer.
#[derive(Default)]
struct Share {
    /// Places of the share's keys, ascending.
    keys: Vec<u32>,
    /// How many of the keys are settled.
    settled: usize,
    /// Values that came too early, one after the other.
    held: Vec<u8>,
    /// The values in `held`.
    values: VecDeque<HeldValue>,
    /// How many bytes of `held` were passed on.
    passed_on: usize,
    /// Whether keys that the server misses are collected, to be asked of another server.
    collects_misses: bool,
    /// Keys missed and collected so far.
    misses: Vec<u32>,
}

impl Share {
    fn is_settled(&self, place: u32) -> bool {
        self.keys.get(self.settled).is_none_or(|next| *next > place)
    }

    /// Passes on the first value that came too early.
    fn pass_on(&mut self, out: &mut Vec<u8>) {
        let Some(value) = self.values.pop_front() else { return };
        let end = self.passed_on + value.bytes as usize;
        out.extend_from_slice(&self.held[self.passed_on..end]);
        self.passed_on = end;
        if self.values.is_empty() {
            self.held.clear();
            self.passed_on = 0;
        }
    }
}

/// The answer to one get.
#[derive(Default)]
pub struct Gather {
    shares: Vec<Share>,
    /// How many of `shares` are in use; the others keep their memory for later ones.
    shares_used: usize,
    /// The share that each key is in.
    share_of: Vec<u16>,
    /// The first place that is not answered yet.
    next_place: u32,
    /// Values passed on or held.
    hits: u32,
}

impl Gather {
    /// Memory that each key takes until the answer is complete.
    pub const BYTES_PER_KEY: usize = size_of::<u16>();

    /// Forgets everything, but keeps the memory unless it grew large.
    pub fn clear(&mut self, kept_bytes: usize) {
        self.reuse_shares(kept_bytes);
        self.shares.truncate(SHARES_KEPT);
        self.share_of.clear();
        self.share_of.shrink_to(kept_bytes);
        (self.next_place, self.hits) = (0, 0);
    }

    /// Frees the shares and their numbers for other keys: all keys so far are answered.
    pub fn reuse_shares(&mut self, kept_bytes: usize) {
        for share in &mut self.shares[..self.shares_used] {
            share.keys.clear();
            share.settled = 0;
            share.held.clear();
            share.held.shrink_to(kept_bytes);
            share.values.clear();
            share.passed_on = 0;
            share.collects_misses = false;
            share.misses.clear();
        }
        self.shares_used = 0;
    }

    /// Adds a share without keys, and returns its number.
    pub fn add_share(&mut self) -> u16 {
        if self.shares_used == self.shares.len() {
            self.shares.push(Share::default());
        }
        self.shares_used += 1;
        (self.shares_used - 1) as u16
    }

    /// Adds this many keys to the get; each is to be assigned before anything is answered.
    pub fn add_keys(&mut self, keys: usize) {
        self.share_of.resize(self.share_of.len() + keys, UNASSIGNED);
    }

    /// Puts a key into this share, behind its others.
    pub fn assign(&mut self, place: u32, share: u16) {
        self.share_of[place as usize] = share;
        self.shares[usize::from(share)].keys.push(place);
    }

    /// Collects from now on the keys that this share misses, to be asked of another server.
    pub fn collect_misses(&mut self, share: u16) {
        self.shares[usize::from(share)].collects_misses = true;
    }

    /// How many keys are or were in some share.
    #[must_use]
    pub fn assigned(&self) -> usize {
        self.share_of.len()
    }

    /// The places of a share's keys.
    #[must_use]
    pub fn keys(&self, share: u16) -> &[u32] {
        &self.shares[usize::from(share)].keys
    }

    /// The places of a share's keys that are not settled.
    #[must_use]
    pub fn unsettled(&self, share: u16) -> &[u32] {
        let part = &self.shares[usize::from(share)];
        &part.keys[part.settled..]
    }

    /// How many values have come.
    #[must_use]
    pub fn hits(&self) -> u32 {
        self.hits
    }

    /// Takes a value, for the first unsettled key of this share that `is_key` accepts. Returns false if there is
    /// none: then this is no answer to what was asked.
    pub fn add_value(
        &mut self,
        share: u16,
        is_key: impl Fn(u32) -> bool,
        value: &[u8],
        out: &mut Vec<u8>,
    ) -> bool {
        let part = &mut self.shares[usize::from(share)];
        let unsettled = &part.keys[part.settled..];
        let Some(missed) = unsettled.iter().position(|place| is_key(*place)) else { return false };
        let place = unsettled[missed];
        self.settle_missed(share, missed);
        self.hits += 1;
        self.pass_on(out);
        let part = &mut self.shares[usize::from(share)];
        part.settled += 1;
        if self.next_place == place {
            out.extend_from_slice(value);
            self.next_place += 1;
            self.pass_on(out);
        } else {
            part.held.extend_from_slice(value);
            part.values.push_back(HeldValue { place, bytes: value.len() as u32 });
        }
        true
    }

    /// Stops collecting: what this share misses from now on is missed for good.
    pub fn stop_collecting_misses(&mut self, share: u16) {
        self.shares[usize::from(share)].collects_misses = false;
    }

    /// Settles the share's next keys as missed.
    fn settle_missed(&mut self, share: u16, keys: usize) {
        let part = &mut self.shares[usize::from(share)];
        let missed = part.settled..part.settled + keys;
        if part.collects_misses {
            part.keys[missed.clone()].iter().for_each(|place| self.share_of[*place as usize] = UNASSIGNED);
            part.misses.extend_from_slice(&part.keys[missed]);
        }
        part.settled += keys;
    }

    /// Ends a share's answer: its unsettled keys were missed.
    pub fn end_share(&mut self, share: u16, out: &mut Vec<u8>) {
        let part = &self.shares[usize::from(share)];
        self.settle_missed(share, part.keys.len() - part.settled);
        self.pass_on(out);
    }

    /// Takes the keys that a share missed and collected, to be assigned to others.
    pub fn take_misses(&mut self, share: u16) -> Vec<u32> {
        std::mem::take(&mut self.shares[usize::from(share)].misses)
    }

    /// Takes the unsettled keys of a share that will not be answered further, to be assigned to others.
    pub fn take_unsettled(&mut self, share: u16) -> Vec<u32> {
        let part = &mut self.shares[usize::from(share)];
        let keys = part.keys.split_off(part.settled);
        keys.iter().for_each(|place| self.share_of[*place as usize] = UNASSIGNED);
        keys
    }

    /// Passes on all values that have come, though values before them are missing.
    pub fn pass_on_all(&mut self, out: &mut Vec<u8>) {
        let first = |shares: &[Share]| {
            let places = shares
                .iter()
                .enumerate()
                .filter_map(|(number, share)| share.values.front().map(|value| (value.place, number)));
            places.min().map(|(_, number)| number)
        };
        while let Some(number) = first(&self.shares[..self.shares_used]) {
            self.shares[number].pass_on(out);
        }
    }

    /// Passes on the values whose turn it is; keys that were missed have none.
    fn pass_on(&mut self, out: &mut Vec<u8>) {
        while let Some(share) = self.share_of.get(self.next_place as usize) {
            let Some(part) = self.shares.get_mut(usize::from(*share)) else { return };
            match part.values.front() {
                Some(value) if value.place == self.next_place => part.pass_on(out),
                _ if part.is_settled(self.next_place) => {}
                _ => return,
            }
            self.next_place += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Ten possible keys, each present or not; which keys are asked; the share of each; the order in which shares come.
    fn cases() -> impl Strategy<Value = (Vec<bool>, Vec<(usize, u16)>, Vec<u16>)> {
        let asked = prop::collection::vec((0..10_usize, 0..4_u16), 0..40);
        (prop::collection::vec(any::<bool>(), 10), asked, prop::collection::vec(0..4_u16, 0..200))
    }

    fn value(key: usize) -> Vec<u8> {
        format!("VALUE {key};").into_bytes()
    }

    /// What one server sends for its share: a value at a time, and at last the end.
    fn sends(present: &[bool], asked: &[(usize, u16)], share: u16) -> VecDeque<Option<usize>> {
        let hits = asked.iter().filter(|(key, of)| *of == share && present[*key]);
        hits.map(|(key, _)| Some(*key)).chain([None]).collect()
    }

    proptest! {
        #[test]
        fn whatever_comes_first_the_answer_is_in_the_order_asked((present, asked, order) in cases()) {
            let mut gather = Gather::default();
            for _ in 0..4 {
                gather.add_share();
            }
            gather.add_keys(asked.len());
            asked.iter().zip(0..).for_each(|((_, share), place)| gather.assign(place, *share));
            let mut servers: Vec<_> = (0..4).map(|share| sends(&present, &asked, share)).collect();
            let mut out = Vec::new();
            for share in order.into_iter().chain((0..4).flat_map(|share| [share; 41])) {
                match servers[usize::from(share)].pop_front() {
                    Some(Some(key)) => {
                        let is_key = |place: u32| asked[place as usize].0 == key;
                        prop_assert!(gather.add_value(share, is_key, &value(key), &mut out));
                    }
                    Some(None) => gather.end_share(share, &mut out),
                    None => {}
                }
            }
            let hits: Vec<usize> = asked.iter().map(|(key, _)| *key).filter(|key| present[*key]).collect();
            prop_assert_eq!(gather.hits() as usize, hits.len());
            prop_assert_eq!(out, hits.into_iter().flat_map(value).collect::<Vec<u8>>());
        }
    }

    /// Puts this many keys into one share.
    fn with_one_share(keys: u32) -> (Gather, u16) {
        let mut gather = Gather::default();
        let share = gather.add_share();
        gather.add_keys(keys as usize);
        (0..keys).for_each(|place| gather.assign(place, share));
        (gather, share)
    }

    #[test]
    fn what_was_not_asked_is_no_answer() {
        let (mut gather, share) = with_one_share(1);
        assert!(!gather.add_value(share, |_| false, b"x", &mut Vec::new()));
        assert!(gather.add_value(share, |_| true, b"x", &mut Vec::new()));
        assert!(!gather.add_value(share, |_| true, b"x", &mut Vec::new()), "it was answered already");
    }

    #[test]
    fn a_share_that_failed_goes_on_elsewhere_where_it_stopped() {
        let (mut gather, share) = with_one_share(4);
        let mut out = Vec::new();
        assert!(gather.add_value(share, |place| place == 1, b"b", &mut out));
        let left = gather.take_unsettled(share);
        assert_eq!(left, [2, 3]);
        let other = gather.add_share();
        left.into_iter().for_each(|place| gather.assign(place, other));
        assert!(gather.add_value(other, |place| place == 3, b"d", &mut out));
        gather.end_share(other, &mut out);
        assert_eq!(out, b"bd");
        assert!(gather.take_unsettled(other).is_empty());
    }

    #[test]
    fn what_was_missed_is_asked_elsewhere_and_keeps_its_place() {
        let (mut gather, share) = with_one_share(4);
        gather.collect_misses(share);
        let mut out = Vec::new();
        assert!(gather.add_value(share, |place| place == 1, b"b", &mut out));
        assert!(gather.add_value(share, |place| place == 2, b"c", &mut out));
        gather.end_share(share, &mut out);
        assert_eq!(out, b"", "the first key is still to come");
        let other = gather.add_share();
        assert_eq!(gather.take_misses(share), [0, 3]);
        [0, 3].into_iter().for_each(|place| gather.assign(place, other));
        assert!(gather.add_value(other, |place| place == 0, b"a", &mut out));
        assert_eq!(out, b"abc");
        gather.end_share(other, &mut out);
        assert_eq!((out, gather.hits()), (b"abc".to_vec(), 3));
    }

    #[test]
    fn a_get_may_go_on_for_more_steps_than_shares_have_numbers() {
        let (mut gather, mut out) = (Gather::default(), Vec::new());
        for step in 0..1000 {
            gather.reuse_shares(0);
            gather.add_keys(100);
            for number in 0..100 {
                let share = gather.add_share();
                gather.assign(step * 100 + number, share);
            }
            for share in (0..100).rev() {
                assert!(gather.add_value(share, |_| true, b"x", &mut out));
                gather.end_share(share, &mut out);
            }
        }
        assert_eq!((out.len(), gather.hits()), (100_000, 100_000));
    }

    #[test]
    fn a_get_of_many_shares_leaves_the_memory_of_few() {
        let mut gather = Gather::default();
        assert_eq!((0..1000).map(|_| gather.add_share()).last(), Some(999));
        gather.clear(0);
        assert_eq!(gather.shares.len(), SHARES_KEPT);
        assert_eq!(gather.add_share(), 0);
    }

    #[test]
    fn a_cleared_gather_is_as_new() {
        let (mut gather, share) = with_one_share(1);
        gather.collect_misses(share);
        gather.end_share(share, &mut Vec::new());
        gather.clear(0);
        let share = gather.add_share();
        gather.add_keys(1);
        gather.assign(0, share);
        let mut out = Vec::new();
        assert!(gather.add_value(share, |place| place == 0, b"y", &mut out));
        gather.end_share(share, &mut out);
        assert_eq!((share, gather.hits(), out), (0, 1, b"y".to_vec()));
        assert!(gather.take_misses(share).is_empty());
    }
}
