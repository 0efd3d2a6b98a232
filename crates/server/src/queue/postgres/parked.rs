//! Pops that wait, and the news that ends their waits.
//!
//! A pop is parked after the database said that there is nothing for it. What became available between that and the
//! parking would be missed, so news is kept for as long as calls are under way, and a pop is parked only if none of
//! the news since its call began concerns it.
//!
//! A piece of news calls the first pop that it suits. It may be of several messages, and that pop may take another one
//! than the news is of; so when it got something, the same news calls the next ones, until those that it suits find
//! nothing.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashMap;

use super::replies::queue_named;
use crate::path::bundle::{Address, Bundle};
use crate::path::waiters::{Ticket, Waiters, Waiting};
use crate::queue::rules::{Interest, Millis, News, QueueId};

/// A bundle that is to be executed; with its place among those that wait, if it had one.
pub(super) type Called = (Option<Seat>, Box<Bundle>);

/// What a pop that waited keeps while it is executed: its place, what it waits for, when it gives up, and what called it.
#[derive(Clone, Copy)]
pub(super) struct Seat {
    ticket: Ticket,
    interest: Interest,
    until: Millis,
    call: Option<Call>,
    /// Its time is over: it looks once more, and is given up when there is nothing.
    is_over: bool,
}

impl Seat {
    /// Whom to call now that the pop got something.
    pub(super) fn passes_on(&self) -> Option<Call> {
        self.call
    }
}

/// The news that calls pops, and how many it calls at once: more each time, for who gets nothing costs less than who
/// waits for a long row of others.
#[derive(Clone, Copy)]
pub(super) struct Call {
    pub(super) news: News,
    pops: usize,
}

impl Call {
    fn first(news: News) -> Self {
        Self { news, pops: 1 }
    }

    fn next(self) -> Self {
        Self { pops: (self.pops * 2).min(CALLED_MAX), ..self }
    }
}

/// Pops that are called at once because one got something.
const CALLED_MAX: usize = 8;

/// Names of queues that are kept beyond those that are waited for; then all are forgotten, and come back with each wait.
const AWAITED_SPARE: usize = 4096;

/// How far the news had come when a call began.
#[derive(Clone, Copy)]
pub(super) struct Since(u64);

/// All waiting pops of a middleware.
#[derive(Default)]
pub(super) struct Parked {
    waiters: Waiters,
    woken: Vec<Called>,
    recent: VecDeque<News>,
    /// Number of the first of `recent`.
    first_recent: u64,
    /// How many calls are under way, by the news at which they began.
    under_way: BTreeMap<u64, usize>,
    awaited: FxHashMap<Box<[u8]>, QueueId>,
}

impl Parked {
    /// A call begins.
    pub(super) fn begin(&mut self) -> Since {
        let since = self.first_recent + self.recent.len() as u64;
        *self.under_way.entry(since).or_default() += 1;
        Since(since)
    }

    /// A call has ended, and what it found missing is parked.
    pub(super) fn end(&mut self, since: Since) {
        if let Some(calls) = self.under_way.get_mut(&since.0) {
            *calls -= 1;
            if *calls == 0 {
                self.under_way.remove(&since.0);
            }
        }
        // Nobody asks for what is older than the oldest call.
        let newest = self.first_recent + self.recent.len() as u64;
        let oldest = self.under_way.first_key_value().map_or(newest, |(since, _)| *since);
        self.recent.drain(..(oldest - self.first_recent) as usize);
        self.first_recent = oldest;
    }

    /// Parks a bundle whose next request is a pop that found nothing, or calls it again if there was news; `until` is
    /// for one that has not waited yet. Given back: its client has left, or its time is over.
    pub(super) fn park(
        &mut self,
        (seat, bundle): Called,
        interest: Interest,
        until: Millis,
        since: Since,
    ) -> Option<Box<Bundle>> {
        if self.waiters.has_left(bundle.address) || seat.is_some_and(|seat| seat.is_over) {
            return Some(bundle);
        }
        let until = seat.map_or(until, |seat| seat.until);
        let seen = usize::try_from(since.0.saturating_sub(self.first_recent)).unwrap_or(usize::MAX);
        if self.recent.iter().skip(seen).any(|news| interest.matches(*news)) {
            let seat = seat.map(|seat| Seat { interest, ..seat });
            self.woken.push((seat, bundle));
            return None;
        }
        let name = bundle
            .requests
            .get(bundle.answered)
            .and_then(|request| queue_named(&request.operation))
            .map(|queue| queue.of(&bundle.bytes));
        if self.awaited.len() > self.waiters.len() + AWAITED_SPARE {
            self.awaited.clear();
        }
        if let (Some(name), Some(queue)) = (name, interest.queue) {
            self.awaited.insert(name.into(), queue);
        }
        let waiting = Waiting { bundle, interest, until };
        match seat {
            Some(seat) => self.waiters.put_back(seat.ticket, waiting),
            None => self.waiters.park(waiting),
        }
        None
    }

    /// Puts a pop back as it was, for it was not executed. Given back: its client has left, or its time is over.
    pub(super) fn put_back(&mut self, seat: Seat, bundle: Box<Bundle>) -> Option<Box<Bundle>> {
        if self.waiters.has_left(bundle.address) || seat.is_over {
            return Some(bundle);
        }
        let Seat { ticket, interest, until, .. } = seat;
        self.waiters.put_back(ticket, Waiting { bundle, interest, until });
        None
    }

    /// Has a bundle executed whose pop was answered.
    pub(super) fn go_on(&mut self, bundle: Box<Bundle>) {
        self.woken.push((None, bundle));
    }

    /// Whether anybody wants to know what happened: who waits, or a call under way that may come to wait.
    pub(super) fn is_curious(&self, calls_of_mine: usize) -> bool {
        !self.waiters.is_empty() || self.under_way.values().sum::<usize>() > calls_of_mine
    }

    /// Something became available, or a queue is gone: whom it concerns is called.
    pub(super) fn tell(&mut self, news: News) {
        if !self.under_way.is_empty() {
            self.recent.push_back(news);
        }
        match news {
            News::Available { .. } => self.call(Call::first(news)),
            News::QueueGone(_) => while self.call_one(news, None) {},
        }
    }

    /// Somebody who was called got something, or will not come: others may.
    pub(super) fn pass_on(&mut self, call: Call) {
        self.call(call);
    }

    fn call(&mut self, call: Call) {
        for _ in 0..call.pops {
            if !self.call_one(call.news, Some(call.next())) {
                return;
            }
        }
    }

    fn call_one(&mut self, news: News, next: Option<Call>) -> bool {
        let Some((ticket, waiting)) = self.waiters.take_match(news) else { return false };
        self.woken.push(seated(ticket, waiting, next));
        true
    }

    /// The longest waiting pop that a SEND about to be executed would satisfy: it goes along, so that nobody comes
    /// before it.
    pub(super) fn called_by(&mut self, queue: &[u8], sender: u32, recipient: Option<u32>) -> Option<Called> {
        let queue = self.awaited.get(queue).copied().unwrap_or(0);
        let news = News::Available { queue, sender, recipient };
        let (ticket, waiting) = self.waiters.take_match(news)?;
        Some(seated(ticket, waiting, Some(Call::first(news))))
    }

    /// Calls everybody who waits, in case news was lost.
    pub(super) fn call_all(&mut self) {
        let all = self.waiters.take_all();
        self.woken.extend(all.into_iter().map(|(ticket, waiting)| seated(ticket, waiting, None)));
    }

    /// Those called since this was last asked.
    pub(super) fn take_woken(&mut self) -> Vec<Called> {
        std::mem::take(&mut self.woken)
    }

    /// Whether somebody is called.
    pub(super) fn has_woken(&self) -> bool {
        !self.woken.is_empty()
    }

    /// A pop whose time is over.
    pub(super) fn take_expired(&mut self, now: Millis) -> Option<(Seat, Box<Bundle>)> {
        let (ticket, Waiting { bundle, interest, until }) = self.waiters.take_expired(now)?;
        Some((Seat { ticket, interest, until, call: None, is_over: true }, bundle))
    }

    /// A connection left: its pop, unless it is just being executed and will be asked for when it comes to be parked.
    pub(super) fn leave(&mut self, address: Address) -> Option<Box<Bundle>> {
        if let Some(at) = self.woken.iter().position(|(_, bundle)| bundle.address == address) {
            let (seat, bundle) = self.woken.remove(at);
            if let Some(call) = seat.and_then(|seat| seat.passes_on()) {
                self.pass_on(call);
            }
            return Some(bundle);
        }
        self.waiters.leave(address).map(|waiting| waiting.bundle)
    }

    /// The pop of a connection that left is back.
    pub(super) fn forget(&mut self, address: Address) {
        self.waiters.forget(address);
    }

    /// When the next one gives up.
    pub(super) fn deadline(&self) -> Option<Millis> {
        self.waiters.deadline()
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.waiters.len() + self.woken.len()
    }
}

fn seated(ticket: Ticket, waiting: Waiting, call: Option<Call>) -> Called {
    let Waiting { bundle, interest, until } = waiting;
    (Some(Seat { ticket, interest, until, call, is_over: false }), bundle)
}
