//! Blocked pops that wait for a message (parked), and the news that wakes them up.
//!
//! A pop is parked after the database has said that nothing matches it. News between that reply and the parking would
//! be missed, so news is kept for as long as calls are under way, and parking a pop repeats what concerns it of the
//! news since its call began. If all pops were woken meanwhile, because news was lost or is about anything, it looks
//! again at once.
//!
//! A piece of news wakes the first pop that it matches. It may stand for several messages, and that pop may take
//! another message than the one it is about; so when the pop got something, the same news wakes the next ones, until
//! those that it matches find nothing.
//!
//! A pop waits for a queue, not for a name: it sends the queue's id, and the database refuses it if the name belongs to
//! another queue by now.
//!
//! First come, first served: a pop's place is that of its bundle in the waiting line, since the replies of several
//! workers do not come in the order of the requests. While a pop is away (taken out to be executed), no later pop is
//! woken in its place. News that would have woken it is left with it, and is repeated when it is back.

mod looks;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use posthaste_wire::operation::Operation;
use rustc_hash::{FxHashMap, FxHashSet};

use self::looks::{Looks, news_for, same};
use super::under_way::{Mode, Since, UnderWay};
use crate::path::bundle::{Address, Bundle};
use crate::path::waiters::{ParkedPop, Ticket, Waiters};
use crate::queue::rules::{Interest, Millis, News, QueueId};

/// A bundle to be executed, with its seat among the waiting pops if it had one.
pub(super) struct Due {
    pub(super) seat: Option<Seat>,
    pub(super) bundle: Box<Bundle>,
}

/// What a waiting pop keeps while it is executed: its place, what it waits for, its deadline, and why it is executed.
#[derive(Clone, Copy)]
pub(super) struct Seat {
    ticket: Ticket,
    interest: Interest,
    deadline: Millis,
    reason: Reason,
}

/// Why a waiting pop is executed.
#[derive(Clone, Copy)]
enum Reason {
    /// News woke it; if it gets something, this wakes the next ones.
    News(WakeUp),
    /// It looks in case news was lost; if it gets something, the news that it missed wakes the next ones.
    Look,
    /// Its deadline has passed: it looks once more, and gives up if it finds nothing.
    Expired,
    /// Messages are sent by the same call, its queue is gone, or all pops are woken: it need not wake others.
    Other,
}

impl Seat {
    fn is_expired(&self) -> bool {
        matches!(self.reason, Reason::Expired)
    }

    /// Returns the id of the queue that it waits for, in SQL's type: the name may belong to another queue by now.
    pub(super) fn queue(&self) -> Option<i64> {
        self.interest.queue.map(u64::cast_signed)
    }
}

/// Returns the order in which pops came to wait; a bundle that has not waited comes last.
pub(super) fn arrival(due: &Due) -> Ticket {
    due.seat.map_or(Ticket::MAX, |seat| seat.ticket)
}

/// A pop that was taken out to be executed and has neither been parked again nor answered yet.
struct Away {
    interest: Interest,
    left: WakeUps,
    /// How often all pops had been woken before.
    wakings: u64,
}

/// News, and how many pops each piece wakes at once.
type WakeUps = BTreeMap<News, usize>;

/// News that wakes pops, and how many at once: twice as many each time, because a pop that finds nothing costs less
/// than one that waits behind a long row of others.
#[derive(Clone, Copy)]
struct WakeUp {
    news: News,
    pops: usize,
}

impl WakeUp {
    fn next(self) -> Self {
        Self { pops: (self.pops * 2).min(WOKEN_MAX), ..self }
    }
}

/// Most pops that are woken at once because another one got something.
const WOKEN_MAX: usize = 8;

/// Queue names kept beyond the number of waiting pops; then all are forgotten, and come back with each wait.
const AWAITED_SPARE: usize = 4096;

/// Pieces of news kept to be repeated; what is beyond that the pops find when they look.
const UNDONE_MAX: usize = 4096;

/// All waiting pops of a middleware.
#[derive(Default)]
pub(super) struct Parked {
    waiters: Waiters,
    woken: Vec<Due>,
    /// Woken bundles beyond those that fit into one call.
    in_turn: VecDeque<Due>,
    /// Pops being executed or in `in_turn`, by their tickets.
    away: BTreeMap<Ticket, Away>,
    /// What woke pops whose calls the database has failed; about `UNDONE_MAX` pieces at most.
    undone: BTreeSet<News>,
    /// How often all pops were woken, whatever they wait for.
    wakings: u64,
    recent: VecDeque<News>,
    /// Sequence number of the first entry of `recent`.
    first_recent: u64,
    pub(super) under_way: UnderWay,
    awaited: FxHashMap<Box<[u8]>, QueueId>,
    looks: Looks,
}

impl Parked {
    /// Notes that a call begins.
    pub(super) fn begin(&mut self, mode: Mode) -> Since {
        self.under_way.begin(self.newest(), self.wakings, mode)
    }

    /// Notes that a call has ended and its pops are parked.
    pub(super) fn end(&mut self, since: Since) {
        self.under_way.end(since);
        // No call needs news older than the beginning of the oldest one.
        let oldest = self.under_way.oldest().unwrap_or(self.newest());
        self.recent.drain(..(oldest - self.first_recent) as usize);
        self.first_recent = oldest;
    }

    fn newest(&self) -> u64 {
        self.first_recent + self.recent.len() as u64
    }

    /// Parks a bundle whose next request is a pop that found nothing, and repeats the news that it missed: that wakes
    /// the first pop it matches. It wakes the pop itself if all were woken since the call began. `deadline` is that of a pop that has not waited yet. Returns the bundle instead
    /// if its client has left or its deadline has passed.
    pub(super) fn park(
        &mut self,
        Due { seat, bundle }: Due,
        interest: Interest,
        deadline: Millis,
        since: Since,
    ) -> Option<Box<Bundle>> {
        let (missed, wakings) = match seat {
            Some(seat) => self.come_back(seat),
            None => (self.news_since(since, interest), since.wakings),
        };
        if self.waiters.has_departed(bundle.address) || seat.is_some_and(|seat| seat.is_expired()) {
            self.wake_for(missed);
            return Some(bundle);
        }
        self.await_name(&bundle, interest);
        let (ticket, deadline) = match seat {
            Some(Seat { ticket, deadline, .. }) => (ticket, deadline),
            // By its place in the line: workers may come back in another order than they took from it.
            None => (bundle.arrival, deadline),
        };
        self.wait_or_look(ticket, ParkedPop { bundle, interest, deadline }, wakings);
        self.wake_for(missed);
        None
    }

    /// Has a pop wait in its place, or look again at once if all pops have been woken since there were so many wakings.
    fn wait_or_look(&mut self, ticket: Ticket, waiting: ParkedPop, wakings: u64) {
        if wakings == self.wakings {
            self.waiters.put_back(ticket, waiting);
        } else {
            self.woken.push(seated(ticket, waiting, Reason::Look));
        }
    }

    /// Returns the news since a call began that concerns a pop which was not parked yet.
    fn news_since(&self, since: Since, interest: Interest) -> WakeUps {
        let older = usize::try_from(since.news.saturating_sub(self.first_recent)).unwrap_or(usize::MAX);
        let missed = self.recent.iter().skip(older).filter(|news| interest.matches(**news));
        missed.map(|news| (*news, 1)).collect()
    }

    /// Remembers which queue id belongs to the queue name in a parked pop.
    fn await_name(&mut self, bundle: &Bundle, interest: Interest) {
        let name = bundle.next_operation().and_then(Operation::queue).map(|queue| queue.of(&bundle.bytes));
        if self.awaited.len() > self.waiters.len() + AWAITED_SPARE {
            self.awaited.clear();
        }
        if let (Some(name), Some(queue)) = (name, interest.queue) {
            self.awaited.insert(name.into(), queue);
        }
    }

    /// Puts a pop that was not executed back in its place, or returns it: its client has left, or its deadline has
    /// passed. What woke it is not repeated.
    pub(super) fn put_back(&mut self, seat: Seat, bundle: Box<Bundle>) -> Option<Box<Bundle>> {
        let (missed, wakings) = self.come_back(seat);
        let given_back = if self.waiters.has_departed(bundle.address) || seat.is_expired() {
            Some(bundle)
        } else {
            let Seat { ticket, interest, deadline, .. } = seat;
            self.wait_or_look(ticket, ParkedPop { bundle, interest, deadline }, wakings);
            None
        };
        self.wake_for(missed);
        given_back
    }

    /// As `put_back`, for a pop whose call the database has failed: what woke it is repeated once it answers again. Not
    /// at once, or the pop would fail again and again while it does not.
    pub(super) fn put_back_undone(&mut self, seat: Seat, bundle: Box<Bundle>) -> Option<Box<Bundle>> {
        if self.undone.len() < UNDONE_MAX {
            match seat.reason {
                Reason::News(WakeUp { news, .. }) => self.undone.extend([news]),
                Reason::Look | Reason::Other => self.undone.extend(news_for(seat.interest)),
                Reason::Expired => {}
            }
        }
        self.put_back(seat, bundle)
    }

    /// Repeats, since the database answers, what woke pops whose calls it has failed.
    pub(super) fn repeat_undone(&mut self) {
        let undone = std::mem::take(&mut self.undone);
        self.wake_for(undone.into_iter().map(|news| (news, 1)).collect());
    }

    /// Notes that a pop that waited has its answer: what woke it up now wakes the next ones.
    pub(super) fn done(&mut self, seat: Seat) {
        let (mut wake_ups, _) = self.come_back(seat);
        match seat.reason {
            Reason::News(WakeUp { news, pops }) => {
                let most = wake_ups.entry(news).or_default();
                *most = pops.max(*most);
            }
            Reason::Look => {
                for news in news_for(seat.interest) {
                    wake_ups.entry(news).or_insert(1);
                }
            }
            Reason::Expired | Reason::Other => {}
        }
        self.wake_for(wake_ups);
    }

    /// Ends a pop's absence, and returns the news that was left with it, and how many wakings there were before.
    fn come_back(&mut self, seat: Seat) -> (WakeUps, u64) {
        let away = self.away.remove(&seat.ticket);
        away.map_or((WakeUps::new(), self.wakings), |away| (away.left, away.wakings))
    }

    /// Has a worker execute a bundle without a seat: its next request has not waited for a message.
    pub(super) fn schedule(&mut self, bundle: Box<Bundle>) {
        self.woken.push(Due { seat: None, bundle });
    }

    /// Returns whether news matters here: to a waiting pop, or to a call under way beside `own_calls`, which may yet park
    /// one.
    pub(super) fn needs_news(&self, own_calls: usize) -> bool {
        let pops_wait = !self.waiters.is_empty() || !self.woken.is_empty() || !self.away.is_empty();
        pops_wait || self.under_way.len() > own_calls
    }

    /// Passes on that a message became available or a queue is gone: wakes the pops that this concerns.
    pub(super) fn tell(&mut self, news: News) {
        if self.under_way.len() > 0 {
            self.recent.push_back(news);
        }
        self.wake_for(WakeUps::from([(news, 1)]));
    }

    fn wake_for(&mut self, wake_ups: WakeUps) {
        for (news, pops) in wake_ups {
            match news {
                News::Available { .. } => self.wake_first(WakeUp { news, pops }),
                News::QueueGone(_) => self.end_waits(news),
            }
        }
    }

    /// Wakes the first pops that the news matches; news for a pop that is away is left with it.
    fn wake_first(&mut self, wake_up: WakeUp) {
        for _ in 0..wake_up.pops {
            let Some(ticket) = self.first_match(wake_up.news) else { return };
            if let Some(away) = self.away.get_mut(&ticket) {
                let pops = away.left.entry(wake_up.news).or_default();
                *pops = wake_up.pops.max(*pops);
                return;
            }
            let Some(waiting) = self.waiters.take(ticket) else { return };
            self.woken.push(seated(ticket, waiting, Reason::News(wake_up.next())));
        }
    }

    /// Returns the longest waiting pop that the news matches, be it parked or away.
    fn first_match(&self, news: News) -> Option<Ticket> {
        let away = self.away.iter().find(|(_, away)| away.interest.matches(news)).map(|(ticket, _)| *ticket);
        self.waiters.first_match(news, 0).into_iter().chain(away).min()
    }

    /// Wakes all pops that wait for a deleted queue, so that each of them finds that out.
    fn end_waits(&mut self, gone: News) {
        for away in self.away.values_mut().filter(|away| away.interest.matches(gone)) {
            away.left.insert(gone, 1);
        }
        while let Some((ticket, waiting)) = self.waiters.take_match(gone) {
            self.woken.push(seated(ticket, waiting, Reason::Other));
        }
    }

    /// Takes out the waiting pops that messages about to be sent would satisfy: they join the same call, so that no
    /// other pop gets in first. `sent` gives each message's queue, sender and recipient.
    pub(super) fn wake_for_sends<'a>(
        &mut self,
        sent: impl Iterator<Item = (&'a [u8], u32, Option<u32>)>,
    ) -> Vec<Due> {
        let mut along = Vec::new();
        for (queue, sender, recipient) in sent {
            let queue = self.awaited.get(queue).copied().unwrap_or(0);
            let first = self.first_match(News::Available { queue, sender, recipient });
            if let Some((ticket, waiting)) = first.and_then(|first| Some((first, self.waiters.take(first)?)))
            {
                along.push(seated(ticket, waiting, Reason::Other));
            }
        }
        self.mark_away(&along);
        along
    }

    /// Marks the pops among these as away: they are going to be executed.
    fn mark_away(&mut self, due: &[Due]) {
        for seat in due.iter().filter_map(|due| due.seat) {
            let away = Away { interest: seat.interest, left: WakeUps::new(), wakings: self.wakings };
            self.away.insert(seat.ticket, away);
        }
    }

    /// Wakes all waiting pops, in case news was lost.
    pub(super) fn wake_all(&mut self) {
        self.wakings += 1;
        let all = self.waiters.take_all();
        self.woken.extend(all.into_iter().map(|(ticket, waiting)| seated(ticket, waiting, Reason::Other)));
    }

    /// Wakes the next pops whose turn it is to look (see `looks`) in case news was lost: at most `most`, and those
    /// ahead.
    pub(super) fn wake_to_look(&mut self, most: usize) {
        let away: FxHashSet<Interest> = self.away.values().map(|away| same(away.interest)).collect();
        let next = self.looks.next(&self.waiters, &away, most);
        // No pop may look before the longest waiting one that the same news would wake.
        let with_first = |(ticket, interest)| {
            let first = news_for(interest).filter_map(|news| self.first_match(news));
            first.chain([ticket]).collect::<Vec<Ticket>>()
        };
        let tickets: BTreeSet<Ticket> = next.into_iter().flat_map(with_first).collect();
        for ticket in tickets {
            let Some(waiting) = self.waiters.take(ticket) else { continue };
            self.woken.push(seated(ticket, waiting, Reason::Look));
        }
    }

    /// Returns whether a pop may wait to its end before it is its turn to look.
    pub(super) fn has_long_rounds(&self) -> bool {
        self.looks.are_long()
    }

    /// Begins a new round of looks, and wakes all its pops at once.
    pub(super) fn wake_all_to_look(&mut self) {
        self.wakings += 1;
        self.looks = Looks::default();
        self.wake_to_look(usize::MAX);
    }

    /// Takes out at most `most` of the woken bundles, to be executed. The pops left in `in_turn` count as away too, so
    /// that no later pop overtakes them.
    pub(super) fn take_woken(&mut self, most: usize) -> Vec<Due> {
        let woken = std::mem::take(&mut self.woken);
        self.mark_away(&woken);
        self.in_turn.extend(woken);
        self.in_turn.drain(..most.min(self.in_turn.len())).collect()
    }

    /// Takes back woken bundles that were taken out and not executed: they are the next to be.
    pub(super) fn take_back(&mut self, due: Vec<Due>) {
        due.into_iter().rev().for_each(|one| self.in_turn.push_front(one));
    }

    /// Returns whether a woken bundle waits to be executed.
    pub(super) fn has_woken(&self) -> bool {
        !self.woken.is_empty() || !self.in_turn.is_empty()
    }

    /// Takes out a pop whose deadline has passed.
    pub(super) fn take_expired(&mut self, now: Millis) -> Option<(Seat, Box<Bundle>)> {
        let (ticket, ParkedPop { bundle, interest, deadline }) = self.waiters.take_expired(now)?;
        Some((Seat { ticket, interest, deadline, reason: Reason::Expired }, bundle))
    }

    /// Takes out the pop of a client that has left. If it is just being executed the client is noted instead, and the
    /// pop given back when it would be parked.
    pub(super) fn leave(&mut self, address: Address) -> Option<Box<Bundle>> {
        if let Some(Due { seat, bundle }) = self.take_unexecuted(address) {
            if let Some(seat) = seat {
                self.done(seat);
            }
            return Some(bundle);
        }
        self.waiters.record_departure(address).map(|waiting| waiting.bundle)
    }

    /// Takes out a pop that was woken and is not executed yet.
    fn take_unexecuted(&mut self, address: Address) -> Option<Due> {
        let is_it =
            |Due { bundle, .. }: &Due| bundle.address == address && bundle.may_wait() && !bundle.is_done();
        if let Some(at) = self.woken.iter().position(is_it) {
            return Some(self.woken.remove(at));
        }
        let at = self.in_turn.iter().position(is_it)?;
        self.in_turn.remove(at)
    }

    /// Returns whether the client of a pop that is about to be executed has left.
    pub(super) fn has_left(&self, address: Address) -> bool {
        self.waiters.has_departed(address)
    }

    /// Returns whether the client of any pop that is about to be executed has left.
    pub(super) fn has_departed_clients(&self) -> bool {
        self.waiters.has_departures()
    }

    /// Forgets that a client has left: its pop is back.
    pub(super) fn forget(&mut self, address: Address) {
        self.waiters.forget_departure(address);
    }

    /// Ends all waits, because the tier stops.
    pub(super) fn end_all_waits(&mut self) {
        self.waiters.end_waits();
    }

    /// Returns the earliest deadline of the parked pops.
    pub(super) fn deadline(&self) -> Option<Millis> {
        self.waiters.deadline()
    }

    /// Returns how many pops wait, including those that are being executed just now.
    pub(super) fn len(&self) -> usize {
        self.waiters.len() + self.woken.len() + self.away.len()
    }
}

fn seated(ticket: Ticket, waiting: ParkedPop, reason: Reason) -> Due {
    let ParkedPop { bundle, interest, deadline } = waiting;
    Due { seat: Some(Seat { ticket, interest, deadline, reason }), bundle }
}
