//! What may explain that a message is missing: deletions and purges, and pops of unknown outcome.
//!
//! Each explains only messages that it can have taken, and only as many: nothing takes what was sent, seen or held by
//! somebody after it. Which explains which is a matching of messages and explanations; it is grown message by message
//! along augmenting paths (Kuhn 1955), so that a message is called lost only if no assignment explains it together with
//! the others.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::delivery::ROUNDED;
use crate::message::{Message, hides};
use crate::names::Name;
use crate::operation::{Call, Select};
use crate::story::Story;
use crate::{Time, millis};

/// A missing message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Missing {
    /// Index of the message in `Story::messages`.
    pub(super) number: usize,
    /// Time at or after which it was still there.
    pub(super) seen: Time,
    /// Earliest time at which a pop can have taken it.
    pub(super) free: Time,
}

impl Missing {
    /// Collects what the story says of a missing message.
    pub(super) fn of(story: &Story<'_>, number: usize) -> Self {
        let message = &story.messages[number];
        let seen = story.seen_last[number].max(message.begun);
        let held = story.handed(message).iter().map(|one| one.free_from()).max().unwrap_or(0);
        let delayed = match message.send.delay_ms {
            0 => 0,
            ms => message.begun.saturating_add(millis(ms)).saturating_sub(ROUNDED),
        };
        Self { number, seen, free: seen.max(held).max(delayed) }
    }
}

/// All operations that may explain missing messages, and what they explain.
pub(super) struct Excuses<'s> {
    story: &'s Story<'s>,
    excuses: Vec<Excuse>,
    /// Indices of the excuses by queue; None: those of pops that named no queue.
    by_queue: HashMap<Option<Name>, Vec<usize>>,
    /// For each excuse, whether a search has found it to be full for good.
    exhausted: Vec<bool>,
}

struct Excuse {
    most: u64,
    /// Time by which the operation was over.
    end: Time,
    by: Taker,
    explained: Vec<Missing>,
}

enum Taker {
    /// A deletion or purge.
    End,
    /// Pops of one account with the same conditions.
    Pops(Name, Select),
}

impl<'s> Excuses<'s> {
    /// Collects the excuses for these messages; the drain saw everything that was there at `drained_at`.
    pub(super) fn of(story: &'s Story<'s>, missing: &[Missing], drained_at: Time) -> Self {
        let mut all = Self { story, excuses: Vec::new(), by_queue: HashMap::new(), exhausted: Vec::new() };
        for (queue, life) in &story.lives {
            for end in life.ends.iter().filter(|end| end.messages != Some(0)) {
                all.add(Some(*queue), end.messages.unwrap_or(u64::MAX), end.end, Taker::End);
            }
        }
        for ((account, select), by_end) in pops(story, missing, drained_at) {
            for (end, most) in by_end.into_values() {
                all.add(select.queue, most, end, Taker::Pops(account, select));
            }
        }
        all
    }

    fn add(&mut self, queue: Option<Name>, most: u64, end: Time, by: Taker) {
        self.by_queue.entry(queue).or_default().push(self.excuses.len());
        self.excuses.push(Excuse { most, end, by, explained: Vec::new() });
        self.exhausted.push(false);
    }

    /// Explains a message beside all those that were explained before, which may change their excuses; returns whether
    /// it can be explained.
    pub(super) fn place(&mut self, missing: Missing) -> bool {
        let mut seen = self.exhausted.clone();
        // For each excuse looked at: the message that wants it, and the excuse that this message would leave for it.
        let mut wanted: HashMap<usize, (Missing, Option<usize>)> = HashMap::new();
        let mut waiting = VecDeque::from([(missing, None)]);
        while let Some((missing, from)) = waiting.pop_front() {
            for number in self.candidates(missing) {
                let excuse = &self.excuses[number];
                if seen[number] || !excuse.may_have(self.story, missing) {
                    continue;
                }
                seen[number] = true;
                wanted.insert(number, (missing, from));
                if (excuse.explained.len() as u64) < excuse.most {
                    self.settle(number, &wanted);
                    return true;
                }
                waiting.extend(excuse.explained.iter().map(|other| (*other, Some(number))));
            }
        }
        self.exhausted = seen;
        false
    }

    /// Moves each message on the path to an excuse with room on by one excuse.
    fn settle(&mut self, mut number: usize, wanted: &HashMap<usize, (Missing, Option<usize>)>) {
        while let Some((missing, from)) = wanted.get(&number) {
            self.excuses[number].explained.push(*missing);
            let Some(from) = *from else { return };
            self.excuses[from].explained.retain(|other| other.number != missing.number);
            number = from;
        }
    }

    fn candidates(&self, missing: Missing) -> Vec<usize> {
        let of = |queue| self.by_queue.get(&queue).into_iter().flatten().copied();
        of(Some(self.story.messages[missing.number].send.queue)).chain(of(None)).collect()
    }
}

/// Returns the pops of unknown outcome, by account and conditions, and by how many of the missing messages were free
/// before they were over: their latest end, and how many messages all of them together can have taken.
fn pops(
    story: &Story<'_>,
    missing: &[Missing],
    drained_at: Time,
) -> HashMap<(Name, Select), BTreeMap<usize, (Time, u64)>> {
    let mut free: Vec<Time> = missing.iter().map(|missing| missing.free).collect();
    free.sort_unstable();
    let mut pops: HashMap<(Name, Select), BTreeMap<usize, (Time, u64)>> = HashMap::new();
    for op in story.doubtful_pops() {
        let Call::Pop(select) = op.call else { continue };
        // What was leased is back once the lease is over.
        let back = select.lease_ms > 0 && op.end.saturating_add(millis(select.lease_ms)) <= drained_at;
        if !back {
            let alike = Select { count: 0, key: None, lease_ms: 0, block_ms: 0, any_order: false, ..*select };
            let reached = free.partition_point(|free| *free <= op.end);
            let (end, most) = pops.entry((op.account, alike)).or_default().entry(reached).or_default();
            (*end, *most) = (op.end.max(*end), *most + select.most());
        }
    }
    pops
}

impl Excuse {
    fn may_have(&self, story: &Story<'_>, missing: Missing) -> bool {
        let message: &Message<'_> = &story.messages[missing.number];
        match self.by {
            Taker::End => self.end >= missing.seen,
            Taker::Pops(account, select) => {
                self.end >= missing.free && hides(message, account, &select).is_none()
            }
        }
    }
}
