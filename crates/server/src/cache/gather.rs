//! The answer to a get: what several servers send, merged in the order in which the keys were asked.
//!
//! Each server answers a share of the keys, hits only, in the share's order. A hit therefore also tells that the keys
//! before it in that share were missed. What can be passed on at once is; what came too early is held.
//! Keys are told apart by their place, not by their name: who asks for one key twice is answered twice.

use std::collections::VecDeque;

/// One server's part in the answer.
#[derive(Default)]
struct Share {
    /// Places of its keys, ascending.
    keys: Vec<u32>,
    /// How many of them are settled.
    settled: usize,
    /// Values that came too early, back to back.
    held: Vec<u8>,
    /// Of those: place of the key, and bytes.
    values: VecDeque<(u32, u32)>,
    /// Bytes of `held` that were passed on.
    passed: usize,
}

impl Share {
    fn is_settled(&self, place: u32) -> bool {
        self.keys.get(self.settled).is_none_or(|next| *next > place)
    }
}

/// The answer to one get.
#[derive(Default)]
pub struct Gather {
    shares: Vec<Share>,
    used: usize,
    /// Which share each key is in.
    share_of: Vec<u16>,
    /// Keys before this place are answered.
    next: u32,
    /// Values passed on or held.
    hits: u32,
}

impl Gather {
    /// Forgets everything, keeps the memory unless it grew large.
    pub fn clear(&mut self, kept_bytes: usize) {
        for share in &mut self.shares[..self.used] {
            share.keys.clear();
            share.settled = 0;
            share.held.clear();
            share.held.shrink_to(kept_bytes);
            share.values.clear();
            share.passed = 0;
        }
        self.used = 0;
        self.share_of.clear();
        self.share_of.shrink_to(kept_bytes);
        (self.next, self.hits) = (0, 0);
    }

    /// A new share, without keys.
    pub fn share(&mut self) -> u16 {
        if self.used == self.shares.len() {
            self.shares.push(Share::default());
        }
        self.used += 1;
        (self.used - 1) as u16
    }

    /// Puts the next key in the order asked into this share.
    pub fn assign(&mut self, share: u16) {
        let place = self.share_of.len() as u32;
        self.share_of.push(share);
        self.shares[usize::from(share)].keys.push(place);
    }

    /// Keys that are in some share.
    #[must_use]
    pub fn assigned(&self) -> usize {
        self.share_of.len()
    }

    /// The places of a share's keys.
    #[must_use]
    pub fn keys(&self, share: u16) -> &[u32] {
        &self.shares[usize::from(share)].keys
    }

    /// Values that came.
    #[must_use]
    pub fn hits(&self) -> u32 {
        self.hits
    }

    /// A value came for the first unsettled key of this share that `is_key` accepts. False: there is none, so this is
    /// not the answer to what was asked.
    pub fn value(
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
        part.settled += missed;
        self.hits += 1;
        self.pass_on(out);
        let part = &mut self.shares[usize::from(share)];
        part.settled += 1;
        if self.next == place {
            out.extend_from_slice(value);
            self.next += 1;
            self.pass_on(out);
        } else {
            part.held.extend_from_slice(value);
            part.values.push_back((place, value.len() as u32));
        }
        true
    }

    /// This share is answered: its other keys were missed.
    pub fn end(&mut self, share: u16, out: &mut Vec<u8>) {
        let part = &mut self.shares[usize::from(share)];
        part.settled = part.keys.len();
        self.pass_on(out);
    }

    /// This share will not be answered: its unsettled keys go to the new share `other`, whose number is given back; None
    /// when there are none.
    pub fn hand_over(&mut self, share: u16) -> Option<u16> {
        let other = self.share();
        let part = &mut self.shares[usize::from(share)];
        let keys = part.keys.split_off(part.settled);
        for place in &keys {
            self.share_of[*place as usize] = other;
        }
        let is_empty = keys.is_empty();
        self.shares[usize::from(other)].keys = keys;
        (!is_empty).then_some(other)
    }

    /// Passes on what stands next, and steps over what was missed.
    fn pass_on(&mut self, out: &mut Vec<u8>) {
        while let Some(share) = self.share_of.get(self.next as usize) {
            let part = &mut self.shares[usize::from(*share)];
            match part.values.front() {
                Some(&(place, bytes)) if place == self.next => {
                    let end = part.passed + bytes as usize;
                    out.extend_from_slice(&part.held[part.passed..end]);
                    part.passed = end;
                    part.values.pop_front();
                    if part.values.is_empty() {
                        part.held.clear();
                        part.passed = 0;
                    }
                }
                _ if part.is_settled(self.next) => {}
                _ => return,
            }
            self.next += 1;
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
                gather.share();
            }
            asked.iter().for_each(|(_, share)| gather.assign(*share));
            let mut servers: Vec<_> = (0..4).map(|share| sends(&present, &asked, share)).collect();
            let mut out = Vec::new();
            for share in order.into_iter().chain((0..4).flat_map(|share| [share; 41])) {
                match servers[usize::from(share)].pop_front() {
                    Some(Some(key)) => {
                        let is_key = |place: u32| asked[place as usize].0 == key;
                        prop_assert!(gather.value(share, is_key, &value(key), &mut out));
                    }
                    Some(None) => gather.end(share, &mut out),
                    None => {}
                }
            }
            let hits: Vec<usize> = asked.iter().map(|(key, _)| *key).filter(|key| present[*key]).collect();
            prop_assert_eq!(gather.hits() as usize, hits.len());
            prop_assert_eq!(out, hits.into_iter().flat_map(value).collect::<Vec<u8>>());
        }
    }

    #[test]
    fn what_was_not_asked_is_no_answer() {
        let mut gather = Gather::default();
        let share = gather.share();
        gather.assign(share);
        assert!(!gather.value(share, |_| false, b"x", &mut Vec::new()));
        assert!(gather.value(share, |_| true, b"x", &mut Vec::new()));
        assert!(!gather.value(share, |_| true, b"x", &mut Vec::new()), "it was answered already");
    }

    #[test]
    fn a_share_that_failed_goes_on_elsewhere_where_it_stopped() {
        let mut gather = Gather::default();
        let share = gather.share();
        (0..4).for_each(|_| gather.assign(share));
        let mut out = Vec::new();
        assert!(gather.value(share, |place| place == 1, b"b", &mut out));
        let other = gather.hand_over(share).expect("two keys are left");
        assert_eq!(gather.keys(other), [2, 3]);
        assert!(gather.value(other, |place| place == 3, b"d", &mut out));
        gather.end(other, &mut out);
        assert_eq!(out, b"bd");
        assert_eq!(gather.hand_over(other), None);
    }

    #[test]
    fn a_cleared_gather_is_as_new() {
        let mut gather = Gather::default();
        let share = gather.share();
        gather.assign(share);
        assert!(gather.value(share, |_| true, b"x", &mut Vec::new()));
        gather.clear(0);
        let share = gather.share();
        gather.assign(share);
        let mut out = Vec::new();
        assert!(gather.value(share, |place| place == 0, b"y", &mut out));
        assert_eq!((share, gather.hits(), out), (0, 1, b"y".to_vec()));
    }
}
