//! Who looks without having been called by news, in case some was lost: of those who wait for the same only the first, for where it
//! finds nothing there is nothing for the others, and where it finds something it calls them. A look may be of so many and no more;
//! the next one goes on with those behind them, until all have had their turn.

use rustc_hash::FxHashSet;

use crate::path::waiters::{Ticket, Waiters};
use crate::queue::rules::{Interest, News};

/// How far a round of looks has come.
#[derive(Default)]
pub(super) struct Looks {
    /// Who came before this one has had a turn.
    from: Ticket,
    /// What was looked for in this round.
    seen: FxHashSet<Interest>,
}

impl Looks {
    /// The next ones, at most so many, without what those look for just now who are `away`.
    pub(super) fn next(
        &mut self,
        waiters: &Waiters,
        away: &FxHashSet<Interest>,
        most: usize,
    ) -> Vec<(Ticket, Interest)> {
        let mut next = Vec::new();
        for (ticket, interest) in waiters.interests(self.from) {
            if next.len() == most {
                self.from = ticket;
                return next;
            }
            let what = same(interest);
            if !away.contains(&what) && self.seen.insert(what) {
                next.push((ticket, interest));
            }
        }
        *self = Self::default();
        next
    }
}

/// What pops have in common that find the same: the reader does not matter where only messages to anyone count, whoever sent them.
pub(super) fn same(interest: Interest) -> Interest {
    let reader = if interest.broadcast && !interest.not_own { 0 } else { interest.reader };
    Interest { reader, ..interest }
}

/// The news that calls those who wait for the same: of messages to anyone, and of those to its reader.
pub(super) fn news_for(interest: Interest) -> impl Iterator<Item = News> {
    let Interest { reader, queue, sender, broadcast, .. } = interest;
    // No queue and no account has the number 0: where one is not named, those are called who name none either.
    let (queue, sender) = (queue.unwrap_or(0), sender.unwrap_or(0));
    let available = move |recipient| News::Available { queue, sender, recipient };
    let own = (!broadcast).then(|| available(Some(reader)));
    std::iter::once(available(None)).chain(own)
}
