//! Permits of HTTP connections: a limited number at once and per address, and which connection is evicted when there is
//! none left.
//!
//! A connection is idle while nothing is being answered on it, however much of a request has arrived, and also while
//! the client has not yet proved its account: a client without a secret keeps no permit. An answer lasts until the client
//! has read it. If no permit is left, the connection that has been idle longest (of the same address, if that has all it
//! may have) is evicted for the new one. So clients that open connections and send nothing take permits only from each
//! other, and a client that asks at once is answered. If no connection is idle, a new one is not turned away but waits
//! until one is. Pops may wait for as long as they like, so they may use only a part of the permits: other requests (how
//! is the server?) find one of the rest.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use posthaste_measure::lock;
use tokio::sync::Notify;

use crate::front::newcomers::holder;

/// How many quarters of the permits pops that wait for a message may use.
const WAITING_QUARTERS: usize = 3;

/// All permits of the HTTP port.
#[derive(Debug)]
pub(super) struct Permits {
    max: usize,
    address_max: usize,
    state: Mutex<State>,
    /// Notified when a connection has become idle or has ended.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    taken: usize,
    taken_by_address: HashMap<IpAddr, usize>,
    /// Pops that wait, by address.
    waiting_pops: HashMap<IpAddr, usize>,
    /// Idle connections by a number that grows, so that the longest idle is first.
    idle: BTreeMap<u64, Idle>,
    last_number: u64,
}

#[derive(Debug)]
struct Idle {
    holder: IpAddr,
    evicted: Arc<Notify>,
}

/// Why a new connection gets no permit: none is free, and no idle connection can be evicted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoPermit {
    /// All permits that its address may have are taken.
    OfAddress,
    /// All permits are taken.
    OfAll,
}

/// One connection's permit, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Permit {
    permits: Arc<Permits>,
    holder: IpAddr,
    evicted: Arc<Notify>,
    /// The connection's key in the list of idle ones; None: a request is being answered.
    idle_number: Mutex<Option<u64>>,
}

/// A pop that waits for a message, until this is dropped.
#[derive(Debug)]
pub(super) struct Wait(Arc<Permit>);

impl Permits {
    /// Returns `max` permits, of which one address may have `address_max`.
    pub(super) fn new(max: usize, address_max: usize) -> Arc<Self> {
        Arc::new(Self { max, address_max, state: Mutex::default(), changed: Notify::new() })
    }

    /// Takes a permit for a connection from this address, which begins idle.
    ///
    /// # Errors
    /// No permit is free, and no idle connection can be evicted.
    pub(super) fn take(self: &Arc<Self>, from: IpAddr) -> Result<Permit, NoPermit> {
        let holder = holder(from);
        let mut state = self.state();
        if state.taken_by_address.get(&holder).is_some_and(|count| *count >= self.address_max) {
            state.evict_idle(|idle| idle.holder == holder).ok_or(NoPermit::OfAddress)?;
        } else if state.taken >= self.max {
            state.evict_idle(|_| true).ok_or(NoPermit::OfAll)?;
        }
        state.taken += 1;
        *state.taken_by_address.entry(holder).or_default() += 1;
        let evicted = Arc::new(Notify::new());
        let idle_number = state.add_idle(holder, &evicted);
        drop(state);
        Ok(Permit { permits: Arc::clone(self), holder, evicted, idle_number: Mutex::new(Some(idle_number)) })
    }

    /// Waits until a connection has become idle or has ended.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Waits until all connections have ended.
    pub(super) async fn empty(&self) {
        while self.state().taken > 0 {
            self.changed().await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    fn add_idle(&mut self, holder: IpAddr, evicted: &Arc<Notify>) -> u64 {
        self.last_number += 1;
        self.idle.insert(self.last_number, Idle { holder, evicted: Arc::clone(evicted) });
        self.last_number
    }

    /// Evicts the longest idle of the connections that match; None: there is none.
    fn evict_idle(&mut self, may: impl Fn(&Idle) -> bool) -> Option<()> {
        let number = *self.idle.iter().find(|(_, idle)| may(idle))?.0;
        let idle = self.idle.remove(&number)?;
        idle.evicted.notify_one();
        self.free(idle.holder);
        Some(())
    }

    fn free(&mut self, holder: IpAddr) {
        self.taken -= 1;
        decrement(&mut self.taken_by_address, holder);
    }
}

/// Lowers the count of an address, and forgets the address at 0.
fn decrement(counts: &mut HashMap<IpAddr, usize>, holder: IpAddr) {
    if let Some(count) = counts.get_mut(&holder) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&holder);
        }
    }
}

impl Permit {
    /// Marks the connection as being answered.
    pub(super) fn begin_answer(&self) {
        let mut idle_number = self.idle_number();
        if idle_number.is_some_and(|number| self.permits.state().idle.remove(&number).is_some()) {
            *idle_number = None;
        }
    }

    /// Marks the connection as idle from now on, when an answer has left. An unknown client's connection is idle already,
    /// and counts anew. Does nothing if the connection has been evicted.
    pub(super) fn end_answer(&self) {
        let (mut idle_number, mut state) = (self.idle_number(), self.permits.state());
        let is_evicted = idle_number.is_some_and(|number| state.idle.remove(&number).is_none());
        if !is_evicted {
            *idle_number = Some(state.add_idle(self.holder, &self.evicted));
            self.permits.changed.notify_one();
        }
    }

    /// Begins the wait of a pop; None: as many pops wait, of this address or of all, as may.
    pub(super) fn begin_wait(self: &Arc<Self>) -> Option<Wait> {
        let part = |permits: usize| (permits * WAITING_QUARTERS / 4).max(1);
        let mut state = self.permits.state();
        let (all, of_address) =
            (state.waiting_pops.values().sum::<usize>(), state.waiting_pops.get(&self.holder));
        if all >= part(self.permits.max)
            || of_address.is_some_and(|count| *count >= part(self.permits.address_max))
        {
            return None;
        }
        *state.waiting_pops.entry(self.holder).or_default() += 1;
        drop(state);
        Some(Wait(Arc::clone(self)))
    }

    /// Waits until the connection has been evicted.
    pub(super) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    fn idle_number(&self) -> MutexGuard<'_, Option<u64>> {
        lock(&self.idle_number)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.permits.state();
        let is_evicted = self.idle_number().is_some_and(|number| state.idle.remove(&number).is_none());
        if !is_evicted {
            state.free(self.holder);
        }
        drop(state);
        self.permits.changed.notify_one();
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        decrement(&mut self.0.permits.state().waiting_pops, self.0.holder);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn from(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn is_evicted(permit: &Permit) -> bool {
        pin!(permit.evicted()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn who_has_been_idle_longest_gives_way() {
        let permits = Permits::new(3, 2);
        let [first, second, third] = [1, 1, 2].map(|last| permits.take(from(last)).expect("there is room"));
        first.begin_answer();
        first.end_answer();
        let fourth = permits.take(from(3)).expect("somebody gives way");
        assert_eq!([&first, &second, &third, &fourth].map(is_evicted), [false, true, false, false]);
        drop(second);
        assert_eq!(permits.state().taken, 3, "its permit was given back once");
    }

    #[test]
    fn an_address_that_has_all_it_may_have_gives_way_to_itself() {
        let permits = Permits::new(3, 2);
        let [other, own, _own] = [2, 1, 1].map(|last| permits.take(from(last)).expect("there is room"));
        let _third = permits.take(from(1)).expect("one of its own gives way");
        assert_eq!([&other, &own].map(is_evicted), [false, true]);
    }

    #[test]
    fn who_is_being_answered_keeps_the_permit() {
        let permits = Permits::new(2, 1);
        let [first, second] = [1, 2].map(|last| permits.take(from(last)).expect("there is room"));
        first.begin_answer();
        second.begin_answer();
        assert_eq!(permits.take(from(1)).err(), Some(NoPermit::OfAddress));
        assert_eq!(permits.take(from(3)).err(), Some(NoPermit::OfAll));
        first.end_answer();
        let _third = permits.take(from(3)).expect("the first one has been answered");
        assert_eq!([&first, &second].map(is_evicted), [true, false]);
    }

    #[test]
    fn pops_that_wait_leave_permits_to_others() {
        let permits = Permits::new(8, 4);
        let take = |last| Arc::new(permits.take(from(last)).expect("there is room"));
        let [first, second] = [1, 2].map(|last| [(); 4].map(|()| take(last)));
        let waiting: Vec<Wait> = first.iter().chain(&second).filter_map(Permit::begin_wait).collect();
        assert_eq!(waiting.len(), 6, "three of each address, and six of all");
        assert!(first[3].begin_wait().is_none());
        drop(waiting);
        assert!(first[3].begin_wait().is_some(), "once others wait no more");
        let (all, one) = (Permits::new(4, 4), Permits::new(1, 1));
        let waiting = (1..=4).filter_map(|last| Arc::new(all.take(from(last)).ok()?).begin_wait());
        assert_eq!(waiting.collect::<Vec<_>>().len(), 3, "of all addresses together");
        assert!(
            Arc::new(one.take(from(1)).expect("there is room")).begin_wait().is_some(),
            "of one permit that one"
        );
    }

    #[test]
    fn nothing_is_remembered_of_who_has_left() {
        let permits = Permits::new(2, 2);
        let idle = permits.take(from(1)).expect("there is room");
        let asked = Arc::new(permits.take(from(1)).expect("there is room"));
        asked.begin_answer();
        let waits = asked.begin_wait();
        drop((idle, asked, waits));
        let state = permits.state();
        let counts = state.taken_by_address.len() + state.waiting_pops.len();
        assert!(state.taken == 0 && counts == 0 && state.idle.is_empty(), "{state:?}");
    }
}
