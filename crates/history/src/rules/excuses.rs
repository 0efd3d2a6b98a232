//! What may explain that a message is missing: deletions and purges, and pops of unknown outcome.
//!
//! Each explains only messages that it can have taken, and only as many. Which explains which is a matching of
//! messages and explanations; it is grown message by message along augmenting paths (Kuhn 1955), so that a message is
//! called lost only if no assignment explains it together with the others.

use std::collections::HashMap;

use crate::Time;
use crate::message::{Message, hides};
use crate::millis;
use crate::names::Name;
use crate::operation::{Call, Select};
use crate::story::Story;

/// Everything that may explain something.
pub(super) struct Excuses {
    excuses: Vec<Excuse>,
    /// By queue; None: those of pops that named none.
    by_queue: HashMap<Option<Name>, Vec<usize>>,
    /// What each explains, as places in the story's messages.
    explained: Vec<Vec<usize>>,
    /// Those that a search has found to be full for good.
    exhausted: Vec<bool>,
}

struct Excuse {
    most: u64,
    by: Taker,
}

enum Taker {
    /// A deletion or purge that ended at this time.
    End(Time),
    /// Pops of one account with the same conditions.
    Pops(Name, Select),
}

impl Excuses {
    /// Of a story whose drain saw everything that was there at `drained_at`.
    pub(super) fn of(story: &Story<'_>, drained_at: Time) -> Self {
        let mut all = Self {
            excuses: Vec::new(),
            by_queue: HashMap::new(),
            explained: Vec::new(),
            exhausted: Vec::new(),
        };
        for (queue, life) in &story.lives {
            for end in life.ends.iter().filter(|end| end.messages != Some(0)) {
                all.add(Some(*queue), end.messages.unwrap_or(u64::MAX), Taker::End(end.end));
            }
        }
        let mut pops: HashMap<(Name, Select), u64> = HashMap::new();
        for op in story.doubtful_pops() {
            let Call::Pop(select) = op.call else { continue };
            // What was leased is back once the lease is over.
            let back = select.lease_ms > 0 && op.end.saturating_add(millis(select.lease_ms)) <= drained_at;
            if !back {
                let alike = Select { count: 0, key: None, lease_ms: 0, any_order: false, ..*select };
                *pops.entry((op.account, alike)).or_default() += select.most();
            }
        }
        for ((account, select), most) in pops {
            all.add(select.queue, most, Taker::Pops(account, select));
        }
        all
    }

    fn add(&mut self, queue: Option<Name>, most: u64, by: Taker) {
        self.by_queue.entry(queue).or_default().push(self.excuses.len());
        self.excuses.push(Excuse { most, by });
        self.explained.push(Vec::new());
        self.exhausted.push(false);
    }

    /// Whether message `number` of the story can be explained beside all those that were explained before.
    pub(super) fn place(&mut self, story: &Story<'_>, number: usize) -> bool {
        let mut seen = self.exhausted.clone();
        if self.search(story, number, &mut seen) {
            return true;
        }
        self.exhausted = seen;
        false
    }

    fn search(&mut self, story: &Story<'_>, number: usize, seen: &mut [bool]) -> bool {
        let message = &story.messages[number];
        for excuse in self.candidates(message) {
            if seen[excuse] || !self.excuses[excuse].by.may_have(message) {
                continue;
            }
            seen[excuse] = true;
            if (self.explained[excuse].len() as u64) < self.excuses[excuse].most {
                self.explained[excuse].push(number);
                return true;
            }
            for place in 0..self.explained[excuse].len() {
                let other = self.explained[excuse][place];
                if self.search(story, other, seen) {
                    self.explained[excuse][place] = number;
                    return true;
                }
            }
        }
        false
    }

    fn candidates(&self, message: &Message<'_>) -> Vec<usize> {
        let of = |queue| self.by_queue.get(&queue).into_iter().flatten().copied();
        of(Some(message.send.queue)).chain(of(None)).collect()
    }
}

impl Taker {
    fn may_have(&self, message: &Message<'_>) -> bool {
        match self {
            Self::End(end) => *end >= message.begun,
            Self::Pops(account, select) => hides(message, *account, select).is_none(),
        }
    }
}
