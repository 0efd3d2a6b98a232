//! Pops that wait, and the news that ends their waits.
//!
//! A pop is parked after the database said that there is nothing for it. What became available between that and the
//! parking would be missed, so news is kept for as long as calls are under way, and a pop is parked only if none of
//! the news since its call began concerns it.
//!
//! A piece of news calls the first pop that it suits. It may be of several messages, and that pop may take another one
//! than the news is of; so when it got something, the same news calls the next ones, until those that it suits find
//! nothing.
//!
//! A pop waits for a queue and not for a name: it tells the database which one, and that refuses it when there is another of
//! that name.
//!
//! First come, first served: while a pop is away, because it was called, nobody who came later is called in its stead. What
//! would have called them is left to it, and calls again when it is back.

mod looks;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use posthaste_wire::operation::Operation;
use rustc_hash::{FxHashMap, FxHashSet};

use self::looks::{Looks, news_for, same};
use super::under_way::{Since, UnderWay};
use crate::path::bundle::{Address, Bundle};
use crate::path::waiters::{Ticket, Waiters, Waiting};
use crate::queue::rules::{Interest, Millis, News, QueueId};

/// A bundle that is to be executed; with its place among those that wait, if it had one.
pub(super) type Called = (Option<Seat>, Box<Bundle>);

/// What a pop that waited keeps while it is executed: its place, what it waits for, when it gives up, and what called it: news, or
/// that it was its turn to look.
#[derive(Clone, Copy)]
pub(super) struct Seat {
    ticket: Ticket,
    interest: Interest,
    until: Millis,
    summons: Option<Summons>,
    looks: bool,
    /// Its time is over: it looks once more, and is given up when there is nothing.
    is_over: bool,
}

impl Seat {
    /// The queue that it waits for, as SQL has it: there may be another of that name by now.
    pub(super) fn queue(&self) -> Option<i64> {
        self.interest.queue.map(u64::cast_signed)
    }
}

/// The order in which pops came to wait; who has not waited comes last.
pub(super) fn arrival((seat, _): &Called) -> Ticket {
    seat.map_or(Ticket::MAX, |seat| seat.ticket)
}

/// A pop that was called and is not back.
struct Away {
    interest: Interest,
    left: Calls,
}

/// News, and how many pops each calls at once.
type Calls = BTreeMap<News, usize>;

/// The news that calls pops, and how many it calls at once: more each time, for who gets nothing costs less than who
/// waits for a long row of others.
#[derive(Clone, Copy)]
struct Summons {
    news: News,
    pops: usize,
}

impl Summons {
    fn next(self) -> Self {
        Self { pops: (self.pops * 2).min(CALLED_MAX), ..self }
    }
}

/// Pops that are called at once because one got something.
const CALLED_MAX: usize = 8;

/// Names of queues that are kept beyond those that are waited for; then all are forgotten, and come back with each wait.
const AWAITED_SPARE: usize = 4096;

/// All waiting pops of a middleware.
#[derive(Default)]
pub(super) struct Parked {
    waiters: Waiters,
    woken: Vec<Called>,
    /// Those who were more than go into one call.
    in_turn: VecDeque<Called>,
    /// By their places.
    away: BTreeMap<Ticket, Away>,
    recent: VecDeque<News>,
    /// Number of the first of `recent`.
    first_recent: u64,
    pub(super) under_way: UnderWay,
    awaited: FxHashMap<Box<[u8]>, QueueId>,
    looks: Looks,
}

impl Parked {
    /// A call begins; `looks`: with pops that have waited.
    pub(super) fn begin(&mut self, looks: bool) -> Since {
        self.under_way.begin(self.newest(), looks)
    }

    /// A call has ended, and what it found missing is parked; whether another call waits for that.
    pub(super) fn end(&mut self, since: Since) -> bool {
        let is_awaited = self.under_way.end(since);
        // Nobody asks for what is older than the oldest call.
        let oldest = self.under_way.oldest().unwrap_or(self.newest());
        self.recent.drain(..(oldest - self.first_recent) as usize);
        self.first_recent = oldest;
        is_awaited
    }

    fn newest(&self) -> u64 {
        self.first_recent + self.recent.len() as u64
    }

    /// Parks a bundle whose next request is a pop that found nothing; if there was news, who comes first is called again. `until`
    /// is for one that has not waited yet. Given back: its client has left, or its time is over.
    pub(super) fn park(
        &mut self,
        (seat, bundle): Called,
        interest: Interest,
        until: Millis,
        since: Since,
    ) -> Option<Box<Bundle>> {
        let missed = match seat {
            Some(seat) => self.come_back(seat),
            None => self.told_since(since, interest),
        };
        if self.waiters.has_left(bundle.address) || seat.is_some_and(|seat| seat.is_over) {
            self.call_for(missed);
            return Some(bundle);
        }
        self.await_name(&bundle, interest);
        match seat {
            Some(seat) => {
                self.waiters.put_back(seat.ticket, Waiting { bundle, interest, until: seat.until });
            }
            None => self.waiters.park(Waiting { bundle, interest, until }),
        }
        self.call_for(missed);
        None
    }

    /// What was told since then that concerns a pop which did not wait yet.
    fn told_since(&self, since: Since, interest: Interest) -> Calls {
        let seen = usize::try_from(since.news.saturating_sub(self.first_recent)).unwrap_or(usize::MAX);
        let told = self.recent.iter().skip(seen).filter(|news| interest.matches(**news));
        told.map(|news| (*news, 1)).collect()
    }

    /// Remembers which queue the name stands for that a pop waits for.
    fn await_name(&mut self, bundle: &Bundle, interest: Interest) {
        let name = bundle.next_operation().and_then(Operation::queue).map(|queue| queue.of(&bundle.bytes));
        if self.awaited.len() > self.waiters.len() + AWAITED_SPARE {
            self.awaited.clear();
        }
        if let (Some(name), Some(queue)) = (name, interest.queue) {
            self.awaited.insert(name.into(), queue);
        }
    }

    /// Puts a pop back as it was, for it was not executed. Given back: its client has left, or its time is over.
    pub(super) fn put_back(&mut self, seat: Seat, bundle: Box<Bundle>) -> Option<Box<Bundle>> {
        let missed = self.come_back(seat);
        let given_back = if self.waiters.has_left(bundle.address) || seat.is_over {
            Some(bundle)
        } else {
            let Seat { ticket, interest, until, .. } = seat;
            self.waiters.put_back(ticket, Waiting { bundle, interest, until });
            None
        };
        self.call_for(missed);
        given_back
    }

    /// A pop that waited has its answer: who called it calls the next ones.
    pub(super) fn done(&mut self, seat: Seat) {
        let mut calls = self.come_back(seat);
        if let Some(Summons { news, pops }) = seat.summons {
            let most = calls.entry(news).or_default();
            *most = pops.max(*most);
        }
        if seat.looks {
            for news in news_for(seat.interest) {
                calls.entry(news).or_insert(1);
            }
        }
        self.call_for(calls);
    }

    /// A pop is not away any more; what was left to it.
    fn come_back(&mut self, seat: Seat) -> Calls {
        self.away.remove(&seat.ticket).map(|away| away.left).unwrap_or_default()
    }

    /// Has a bundle executed whose pop was answered.
    pub(super) fn go_on(&mut self, bundle: Box<Bundle>) {
        self.woken.push((None, bundle));
    }

    /// Whether anybody wants to know what happened: who waits, or a call under way that may come to wait.
    pub(super) fn is_curious(&self, calls_of_mine: usize) -> bool {
        let somebody_waits = !self.waiters.is_empty() || !self.woken.is_empty() || !self.away.is_empty();
        somebody_waits || self.under_way.len() > calls_of_mine
    }

    /// Something became available, or a queue is gone: whom it concerns is called.
    pub(super) fn tell(&mut self, news: News) {
        if self.under_way.len() > 0 {
            self.recent.push_back(news);
        }
        self.call_for(Calls::from([(news, 1)]));
    }

    fn call_for(&mut self, calls: Calls) {
        for (news, pops) in calls {
            match news {
                News::Available { .. } => self.summon(Summons { news, pops }),
                News::QueueGone(_) => self.end_waits(news),
            }
        }
    }

    fn summon(&mut self, summons: Summons) {
        for _ in 0..summons.pops {
            let Some(ticket) = self.first_match(summons.news) else { return };
            if let Some(away) = self.away.get_mut(&ticket) {
                let pops = away.left.entry(summons.news).or_default();
                *pops = summons.pops.max(*pops);
                return;
            }
            let Some(waiting) = self.waiters.take(ticket) else { return };
            self.woken.push(seated(ticket, waiting, Some(summons.next())));
        }
    }

    /// The pop that came first of those that the news suits, be it away or not.
    fn first_match(&self, news: News) -> Option<Ticket> {
        let away = self.away.iter().find(|(_, away)| away.interest.matches(news)).map(|(ticket, _)| *ticket);
        self.waiters.first_match(news, 0).into_iter().chain(away).min()
    }

    /// Everybody who waits for a queue that is gone is called, to find that out.
    fn end_waits(&mut self, gone: News) {
        for away in self.away.values_mut().filter(|away| away.interest.matches(gone)) {
            away.left.insert(gone, 1);
        }
        while let Some((ticket, waiting)) = self.waiters.take_match(gone) {
            self.woken.push(seated(ticket, waiting, None));
        }
    }

    /// The pops that these messages about to be sent would satisfy: they go along, so that nobody comes before them. For each its
    /// queue, sender and recipient.
    pub(super) fn called_by<'a>(
        &mut self,
        sent: impl Iterator<Item = (&'a [u8], u32, Option<u32>)>,
    ) -> Vec<Called> {
        let mut along = Vec::new();
        for (queue, sender, recipient) in sent {
            let queue = self.awaited.get(queue).copied().unwrap_or(0);
            let first = self.first_match(News::Available { queue, sender, recipient });
            if let Some((ticket, waiting)) = first.and_then(|first| Some((first, self.waiters.take(first)?)))
            {
                along.push(seated(ticket, waiting, None));
            }
        }
        self.go_away(&along);
        along
    }

    /// These are going to be executed.
    fn go_away(&mut self, called: &[Called]) {
        for seat in called.iter().filter_map(|(seat, _)| *seat) {
            self.away.insert(seat.ticket, Away { interest: seat.interest, left: Calls::new() });
        }
    }

    /// Calls everybody who waits, in case news was lost.
    pub(super) fn call_all(&mut self) {
        let all = self.waiters.take_all();
        self.woken.extend(all.into_iter().map(|(ticket, waiting)| seated(ticket, waiting, None)));
    }

    /// Calls who is next to look in case news was lost, at most so many: see `looks`.
    pub(super) fn call_to_look(&mut self, most: usize) {
        let away: FxHashSet<Interest> = self.away.values().map(|away| same(away.interest)).collect();
        let next = self.looks.next(&self.waiters, &away, most);
        // Nobody looks before who came first.
        let with_first = |(ticket, interest)| {
            let first = news_for(interest).filter_map(|news| self.first_match(news));
            first.chain([ticket]).collect::<Vec<Ticket>>()
        };
        let tickets: BTreeSet<Ticket> = next.into_iter().flat_map(with_first).collect();
        for ticket in tickets {
            let Some(waiting) = self.waiters.take(ticket) else { continue };
            let (seat, bundle) = seated(ticket, waiting, None);
            self.woken.push((seat.map(|seat| Seat { looks: true, ..seat }), bundle));
        }
    }

    /// The same for all of them.
    pub(super) fn call_all_to_look(&mut self) {
        self.looks = Looks::default();
        self.call_to_look(usize::MAX);
    }

    /// Those called and not taken yet, at most so many, to be executed; the others are away too, for they came before others.
    pub(super) fn take_woken(&mut self, most: usize) -> Vec<Called> {
        let woken = std::mem::take(&mut self.woken);
        self.go_away(&woken);
        self.in_turn.extend(woken);
        self.in_turn.drain(..most.min(self.in_turn.len())).collect()
    }

    /// Whether somebody is called.
    pub(super) fn has_woken(&self) -> bool {
        !self.woken.is_empty() || !self.in_turn.is_empty()
    }

    /// A pop whose time is over.
    pub(super) fn take_expired(&mut self, now: Millis) -> Option<(Seat, Box<Bundle>)> {
        let (ticket, Waiting { bundle, interest, until }) = self.waiters.take_expired(now)?;
        Some((Seat { ticket, interest, until, summons: None, looks: false, is_over: true }, bundle))
    }

    /// A connection left: its pop, unless it is just being executed and will be asked for when it comes to be parked.
    pub(super) fn leave(&mut self, address: Address) -> Option<Box<Bundle>> {
        if let Some((seat, bundle)) = self.take_called(address) {
            if let Some(seat) = seat {
                self.done(seat);
            }
            return Some(bundle);
        }
        self.waiters.leave(address).map(|waiting| waiting.bundle)
    }

    /// A bundle that was called and is not executed yet.
    fn take_called(&mut self, address: Address) -> Option<Called> {
        // What stands in front of a pop is done.
        let is_it =
            |(seat, bundle): &Called| bundle.address == address && (seat.is_some() || bundle.only_waits());
        if let Some(at) = self.woken.iter().position(is_it) {
            return Some(self.woken.remove(at));
        }
        let at = self.in_turn.iter().position(is_it)?;
        self.in_turn.remove(at)
    }

    /// Whether the client of a pop that is about to be executed has left.
    pub(super) fn has_left(&self, address: Address) -> bool {
        self.waiters.has_left(address)
    }

    /// Whether that is so of any pop.
    pub(super) fn somebody_left(&self) -> bool {
        self.waiters.somebody_left()
    }

    /// The pop of a connection that left is back.
    pub(super) fn forget(&mut self, address: Address) {
        self.waiters.forget(address);
    }

    /// When the next one gives up.
    pub(super) fn deadline(&self) -> Option<Millis> {
        self.waiters.deadline()
    }

    /// How many wait, those who are looking just now with them.
    pub(super) fn len(&self) -> usize {
        self.waiters.len() + self.woken.len() + self.away.len()
    }
}

fn seated(ticket: Ticket, waiting: Waiting, summons: Option<Summons>) -> Called {
    let Waiting { bundle, interest, until } = waiting;
    (Some(Seat { ticket, interest, until, summons, looks: false, is_over: false }), bundle)
}
