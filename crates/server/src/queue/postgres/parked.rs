//! Pops that wait, and the news that ends their waits.
//!
//! A pop is parked after the database said that there is nothing for it. What became available between that and the
//! parking would be missed, so news is kept for as long as calls are under way, and a pop is parked only if none of
//! the news since its call began concerns it.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::replies::queue_named;
use crate::path::bundle::{Address, Bundle};
use crate::path::waiters::{Ticket, Waiters, Waiting};
use crate::queue::rules::{Interest, Millis, News, QueueId};

/// A bundle that is to be executed; with its place among those that wait, if it had one.
pub(super) type Called = (Option<Seat>, Box<Bundle>);

/// What a pop that waited keeps while it is executed: its place, what it waits for, and when it gives up.
#[derive(Clone, Copy)]
pub(super) struct Seat {
    ticket: Ticket,
    interest: Interest,
    until: Millis,
}

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
    under_way: usize,
    awaited: FxHashMap<Box<[u8]>, QueueId>,
}

impl Parked {
    /// A call begins.
    pub(super) fn begin(&mut self) -> Since {
        self.under_way += 1;
        Since(self.first_recent + self.recent.len() as u64)
    }

    /// A call has ended, and what it found missing is parked.
    pub(super) fn end(&mut self) {
        self.under_way -= 1;
        if self.under_way == 0 {
            self.first_recent += self.recent.len() as u64;
            self.recent.clear();
        }
    }

    /// Parks a bundle whose next request is a pop that found nothing, or calls it again if there was news; `until` is
    /// for one that has not waited yet. Given back: its client has left.
    pub(super) fn park(
        &mut self,
        (seat, bundle): Called,
        interest: Interest,
        until: Millis,
        since: Since,
    ) -> Option<Box<Bundle>> {
        if self.waiters.has_left(bundle.address) {
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

    /// Puts a pop back as it was, for it was not executed. Given back: its client has left.
    pub(super) fn put_back(&mut self, seat: Seat, bundle: Box<Bundle>) -> Option<Box<Bundle>> {
        if self.waiters.has_left(bundle.address) {
            return Some(bundle);
        }
        let Seat { ticket, interest, until } = seat;
        self.waiters.put_back(ticket, Waiting { bundle, interest, until });
        None
    }

    /// Something became available, or a queue is gone: whom it concerns is called.
    pub(super) fn tell(&mut self, news: News) {
        if self.under_way > 0 {
            self.recent.push_back(news);
        }
        while let Some((ticket, waiting)) = self.waiters.take_match(news) {
            self.woken.push(seated(ticket, waiting));
            if matches!(news, News::Available { .. }) {
                break;
            }
        }
    }

    /// The longest waiting pop that a SEND about to be executed would satisfy: it goes along, so that nobody comes
    /// before it.
    pub(super) fn called_by(&mut self, queue: &[u8], sender: u32, recipient: Option<u32>) -> Option<Called> {
        if self.waiters.is_empty() {
            self.awaited.clear();
            return None;
        }
        let queue = self.awaited.get(queue).copied().unwrap_or(0);
        let (ticket, waiting) = self.waiters.take_match(News::Available { queue, sender, recipient })?;
        Some(seated(ticket, waiting))
    }

    /// Calls everybody who waits, in case news was lost.
    pub(super) fn call_all(&mut self) {
        let all = self.waiters.take_all();
        self.woken.extend(all.into_iter().map(|(ticket, waiting)| seated(ticket, waiting)));
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
    pub(super) fn take_expired(&mut self, now: Millis) -> Option<Box<Bundle>> {
        self.waiters.take_expired(now).map(|waiting| waiting.bundle)
    }

    /// A connection left: its pop, unless it is just being executed and will be asked for when it comes to be parked.
    pub(super) fn leave(&mut self, address: Address) -> Option<Box<Bundle>> {
        if let Some(at) = self.woken.iter().position(|(_, bundle)| bundle.address == address) {
            return Some(self.woken.swap_remove(at).1);
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

fn seated(ticket: Ticket, waiting: Waiting) -> Called {
    let Waiting { bundle, interest, until } = waiting;
    (Some(Seat { ticket, interest, until }), bundle)
}
