//! Looks: waiting pops that ask the database without having been woken by news, in case some was lost. Of the pops that
//! wait for the same thing only the first looks: if it finds nothing, there is nothing for the others, and if it finds
//! something, it wakes them. The number of pops in one look is limited; the next one continues behind them, until all
//! have had their turn.

use rustc_hash::FxHashSet;

use crate::path::waiters::{Ticket, Waiters};
use crate::queue::rules::{Interest, News};

/// How far a round of looks has come.
#[derive(Default)]
pub(super) struct Looks {
    /// Pops with smaller tickets have had their turn.
    from: Ticket,
    /// Interests of the pops that have looked in this round.
    seen: FxHashSet<Interest>,
    /// Whether this round, or the one before, takes more than one look.
    is_long: bool,
}

impl Looks {
    /// Returns the next pops to look, at most `most`, without interests for which a pop that is `away` looks just now.
    pub(super) fn next(
        &mut self,
        waiters: &Waiters,
        away: &FxHashSet<Interest>,
        most: usize,
    ) -> Vec<(Ticket, Interest)> {
        let mut next = Vec::new();
        for (ticket, interest) in waiters.interests(self.from) {
            if next.len() == most {
                (self.from, self.is_long) = (ticket, true);
                return next;
            }
            let what = same(interest);
            if !away.contains(&what) && self.seen.insert(what) {
                next.push((ticket, interest));
            }
        }
        *self = Self { is_long: self.from > 0, ..Self::default() };
        next
    }

    /// Returns whether a pop may wait to its end before it is its turn to look.
    pub(super) fn are_long(&self) -> bool {
        self.is_long
    }
}

/// Reduces an interest to what decides what a pop finds: the reader does not where only messages to anyone count.
pub(super) fn same(interest: Interest) -> Interest {
    let reader = if interest.broadcast && !interest.not_own { 0 } else { interest.reader };
    Interest { reader, ..interest }
}

/// Returns the news that wakes the pops of this interest: of a message to anyone, and of one to its reader.
pub(super) fn news_for(interest: Interest) -> impl Iterator<Item = News> {
    let Interest { reader, queue, sender, broadcast, .. } = interest;
    // No queue or account has the number 0: where none is named, this matches only pops that name none either.
    let (queue, sender) = (queue.unwrap_or(0), sender.unwrap_or(0));
    let available = move |recipient| News::Available { queue, sender, recipient };
    let own = (!broadcast).then(|| available(Some(reader)));
    std::iter::once(available(None)).chain(own)
}
