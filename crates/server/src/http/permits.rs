//! Permits of HTTP connections: a limited number at once and per address, and which connection is evicted when there is
//! none left.
//!
//! A connection is idle while nothing is being answered on it, however much of a request has arrived, and also while
//! the client has not yet proved its account: a client without a secret keeps no permit. An answer lasts until the
//! client has read it. If no permit is left, the connection that has been idle longest (of the same address, if that
//! has all it may have) is evicted for the new one. So clients that open connections and send nothing take permits only
//! from each other, and a client that asks at once is answered. If no connection is idle, a new one waits until one is;
//! it is turned away if its address has all it may have, so that no address keeps others waiting. Pops may wait for as
//! long as they like, so they may use only a part of the permits: requests that are answered at once find one of the
//! rest.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use posthaste_measure::lock;
use tokio::sync::Notify;

use crate::front::newcomers::limit_key;

/// How many quarters of the permits pops that wait for a message may use.
const WAITING_QUARTERS: usize = 3;

/// All permits of the HTTP port.
#[derive(Debug)]
pub(super) struct HttpPermits {
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
    /// Idle connections by a number that grows, so that the one that has been idle longest is first.
    idle: BTreeMap<u64, IdleConnection>,
    last_idle_number: u64,
}

#[derive(Debug)]
struct IdleConnection {
    holder: IpAddr,
    evicted: Arc<Notify>,
}

/// Why a new connection gets no permit: none is free, and no idle connection can be evicted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoPermit {
    /// All permits that its address may have are taken.
    AddressLimit,
    /// All permits are taken.
    TotalLimit,
}

/// One connection's permit, given back when it is dropped.
#[derive(Debug)]
pub(super) struct HttpPermit {
    permits: Arc<HttpPermits>,
    holder: IpAddr,
    evicted: Arc<Notify>,
    /// The connection's key in the list of idle ones; None: a request is being answered.
    idle_number: Mutex<Option<u64>>,
}

/// A pop that waits for a message, until this is dropped.
#[derive(Debug)]
pub(super) struct WaitingPop(Arc<HttpPermit>);

impl HttpPermits {
    /// Returns `max` permits, of which one address may have `address_max`.
    pub(super) fn new(max: usize, address_max: usize) -> Arc<Self> {
        Arc::new(Self { max, address_max, state: Mutex::default(), changed: Notify::new() })
    }

    /// Returns a permit for a connection from this address, which begins idle. If none is free, an idle connection is
    /// evicted for it.
    ///
    /// # Errors
    /// No permit is free, and no idle connection can be evicted.
    pub(super) fn try_acquire(self: &Arc<Self>, from: IpAddr) -> Result<HttpPermit, NoPermit> {
        let holder = limit_key(from);
        let mut state = self.state();
        if state.taken_by_address.get(&holder).is_some_and(|count| *count >= self.address_max) {
            state.evict_longest_idle(|idle| idle.holder == holder).ok_or(NoPermit::AddressLimit)?;
        } else if state.taken >= self.max {
            state.evict_longest_idle(|_| true).ok_or(NoPermit::TotalLimit)?;
        }
        state.taken += 1;
        *state.taken_by_address.entry(holder).or_default() += 1;
        let evicted = Arc::new(Notify::new());
        let idle_number = state.add_idle(holder, &evicted);
        drop(state);
        Ok(HttpPermit {
            permits: Arc::clone(self),
            holder,
            evicted,
            idle_number: Mutex::new(Some(idle_number)),
        })
    }

    /// Waits until a connection has become idle or has ended.
    pub(super) async fn wait_for_change(&self) {
        self.changed.notified().await;
    }

    /// Waits until all connections have ended.
    pub(super) async fn wait_until_unused(&self) {
        while self.state().taken > 0 {
            self.wait_for_change().await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    fn add_idle(&mut self, holder: IpAddr, evicted: &Arc<Notify>) -> u64 {
        self.last_idle_number += 1;
        self.idle.insert(self.last_idle_number, IdleConnection { holder, evicted: Arc::clone(evicted) });
        self.last_idle_number
    }

    /// Evicts the connection that has been idle longest of those that match; None: none matches.
    fn evict_longest_idle(&mut self, matches: impl Fn(&IdleConnection) -> bool) -> Option<()> {
        let number = *self.idle.iter().find(|(_, idle)| matches(idle))?.0;
        let idle = self.idle.remove(&number)?;
        idle.evicted.notify_one();
        self.release(idle.holder);
        Some(())
    }

    fn release(&mut self, holder: IpAddr) {
        self.taken -= 1;
        decrement(&mut self.taken_by_address, holder);
    }
}

/// Lowers the count of an address, and removes the address at 0, so that the map does not grow.
fn decrement(counts: &mut HashMap<IpAddr, usize>, holder: IpAddr) {
    if let Some(count) = counts.get_mut(&holder) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&holder);
        }
    }
}

impl HttpPermit {
    /// Marks the connection as being answered.
    pub(super) fn begin_answer(&self) {
        let mut idle_number = self.idle_number();
        if idle_number.is_some_and(|number| self.permits.state().idle.remove(&number).is_some()) {
            *idle_number = None;
        }
    }

    /// Marks the connection as idle from now on, once an answer is sent. The connection of a client without a proven
    /// account was idle all along; its time starts again. Does nothing if the connection has been evicted.
    pub(super) fn end_answer(&self) {
        let (mut idle_number, mut state) = (self.idle_number(), self.permits.state());
        let is_evicted = idle_number.is_some_and(|number| state.idle.remove(&number).is_none());
        if !is_evicted {
            *idle_number = Some(state.add_idle(self.holder, &self.evicted));
            self.permits.changed.notify_one();
        }
    }

    /// Counts a pop as waiting; None: as many pops wait, of this address or of all, as may.
    pub(super) fn begin_wait(self: &Arc<Self>) -> Option<WaitingPop> {
        let share = |permits: usize| (permits * WAITING_QUARTERS / 4).max(1);
        let mut state = self.permits.state();
        let waiting = state.waiting_pops.values().sum::<usize>();
        let waiting_of_address = state.waiting_pops.get(&self.holder).copied().unwrap_or_default();
        if waiting >= share(self.permits.max) || waiting_of_address >= share(self.permits.address_max) {
            return None;
        }
        *state.waiting_pops.entry(self.holder).or_default() += 1;
        drop(state);
        Some(WaitingPop(Arc::clone(self)))
    }

    /// Waits until the connection has been evicted.
    pub(super) async fn wait_for_eviction(&self) {
        self.evicted.notified().await;
    }

    fn idle_number(&self) -> MutexGuard<'_, Option<u64>> {
        lock(&self.idle_number)
    }
}

impl Drop for HttpPermit {
    fn drop(&mut self) {
        let mut state = self.permits.state();
        let is_evicted = self.idle_number().is_some_and(|number| state.idle.remove(&number).is_none());
        if !is_evicted {
            state.release(self.holder);
        }
        drop(state);
        self.permits.changed.notify_one();
    }
}

impl Drop for WaitingPop {
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

    fn is_evicted(permit: &HttpPermit) -> bool {
        pin!(permit.wait_for_eviction()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn the_connection_that_has_been_idle_longest_is_evicted() {
        let permits = HttpPermits::new(3, 2);
        let [first, second, third] =
            [1, 1, 2].map(|last| permits.try_acquire(from(last)).expect("there is room"));
        first.begin_answer();
        first.end_answer();
        let fourth = permits.try_acquire(from(3)).expect("one is evicted");
        assert_eq!([&first, &second, &third, &fourth].map(is_evicted), [false, true, false, false]);
        drop(second);
        assert_eq!(permits.state().taken, 3, "its permit was given back once");
    }

    #[test]
    fn an_address_at_its_limit_evicts_its_own_connection() {
        let permits = HttpPermits::new(3, 2);
        let [other, own, _own] =
            [2, 1, 1].map(|last| permits.try_acquire(from(last)).expect("there is room"));
        let _third = permits.try_acquire(from(1)).expect("one of its own is evicted");
        assert_eq!([&other, &own].map(is_evicted), [false, true]);
    }

    #[test]
    fn a_connection_that_is_being_answered_keeps_its_permit() {
        let permits = HttpPermits::new(2, 1);
        let [first, second] = [1, 2].map(|last| permits.try_acquire(from(last)).expect("there is room"));
        first.begin_answer();
        second.begin_answer();
        assert_eq!(permits.try_acquire(from(1)).err(), Some(NoPermit::AddressLimit));
        assert_eq!(permits.try_acquire(from(3)).err(), Some(NoPermit::TotalLimit));
        first.end_answer();
        let _third = permits.try_acquire(from(3)).expect("the first one has been answered");
        assert_eq!([&first, &second].map(is_evicted), [true, false]);
    }

    #[test]
    fn pops_that_wait_leave_permits_to_others() {
        let permits = HttpPermits::new(8, 4);
        let acquire = |last| Arc::new(permits.try_acquire(from(last)).expect("there is room"));
        let [first, second] = [1, 2].map(|last| [(); 4].map(|()| acquire(last)));
        let waiting: Vec<WaitingPop> =
            first.iter().chain(&second).filter_map(HttpPermit::begin_wait).collect();
        assert_eq!(waiting.len(), 6, "three of each address, and six of all");
        assert!(first[3].begin_wait().is_none());
        drop(waiting);
        assert!(first[3].begin_wait().is_some(), "once others wait no more");
        let (all, one) = (HttpPermits::new(4, 4), HttpPermits::new(1, 1));
        let waiting = (1..=4).filter_map(|last| Arc::new(all.try_acquire(from(last)).ok()?).begin_wait());
        assert_eq!(waiting.collect::<Vec<_>>().len(), 3, "of all addresses together");
        assert!(
            Arc::new(one.try_acquire(from(1)).expect("there is room")).begin_wait().is_some(),
            "of one permit that one"
        );
    }

    #[test]
    fn nothing_is_kept_of_connections_that_have_ended() {
        let permits = HttpPermits::new(2, 2);
        let idle = permits.try_acquire(from(1)).expect("there is room");
        let asked = Arc::new(permits.try_acquire(from(1)).expect("there is room"));
        asked.begin_answer();
        let waits = asked.begin_wait();
        drop((idle, asked, waits));
        let state = permits.state();
        let counts = state.taken_by_address.len() + state.waiting_pops.len();
        assert!(state.taken == 0 && counts == 0 && state.idle.is_empty(), "{state:?}");
    }
}
