//! Seats of HTTP connections: a limited number at once and per address, and which connection gives way when there is no
//! room.
//!
//! A connection is idle while nothing is being answered on it, however much of a request has arrived, and also while
//! the client has not yet proved who it is: a client without a secret keeps no seat. An answer lasts until the client
//! has read it. If there is no room, the connection that has been idle longest (of the same address, if that has all it
//! may have) gives its seat to the newcomer. So clients that open connections and send nothing take seats only from
//! each other, and a client that asks at once is answered. If no connection is idle, a newcomer is not turned away but
//! waits until one is. Pops may wait for as long as they like, so they may use only a part of the seats: other requests
//! (how is the server?) find one of the rest.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use posthaste_measure::lock;
use tokio::sync::Notify;

use crate::front::newcomers::holder;

/// How many of four seats pops that wait for a message may use.
const WAITING_OF_FOUR: usize = 3;

/// All seats.
#[derive(Debug)]
pub(super) struct Seats {
    most: usize,
    most_of_one: usize,
    room: Mutex<Room>,
    /// Notified when a connection has become idle or has ended.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Room {
    taken: usize,
    of_one: HashMap<IpAddr, usize>,
    /// Pops that wait, by address.
    waiting: HashMap<IpAddr, usize>,
    /// Idle connections, longest idle first.
    idle: BTreeMap<u64, Idle>,
    next: u64,
}

#[derive(Debug)]
struct Idle {
    holder: IpAddr,
    leave: Arc<Notify>,
}

/// A newcomer finds no seat, and no idle connection that could give way.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// All seats of that address are taken.
    OfOne,
    /// All seats are taken.
    All,
}

/// One connection's seat, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Arc<Seats>,
    holder: IpAddr,
    leave: Arc<Notify>,
    /// The seat's key in the list of idle ones; None: a request is being answered.
    idle: Mutex<Option<u64>>,
}

/// A pop that waits for a message, until this is dropped.
#[derive(Debug)]
pub(super) struct Wait(Arc<Seat>);

impl Seats {
    /// Returns `most` seats, of which one address may have `most_of_one`.
    pub(super) fn new(most: usize, most_of_one: usize) -> Arc<Self> {
        Arc::new(Self { most, most_of_one, room: Mutex::default(), changed: Notify::new() })
    }

    /// Takes a seat for a connection from there, which begins idle.
    ///
    /// # Errors
    /// There is no seat, and no idle connection to give way.
    pub(super) fn take(self: &Arc<Self>, from: IpAddr) -> Result<Seat, Taken> {
        let holder = holder(from);
        let mut room = self.room();
        if room.of_one.get(&holder).is_some_and(|count| *count >= self.most_of_one) {
            room.dismiss(|idle| idle.holder == holder).ok_or(Taken::OfOne)?;
        } else if room.taken >= self.most {
            room.dismiss(|_| true).ok_or(Taken::All)?;
        }
        room.taken += 1;
        *room.of_one.entry(holder).or_default() += 1;
        let leave = Arc::new(Notify::new());
        let idle = room.add_idle(holder, &leave);
        drop(room);
        Ok(Seat { seats: Arc::clone(self), holder, leave, idle: Mutex::new(Some(idle)) })
    }

    /// Waits until a connection has become idle or has ended.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Waits until all connections have ended.
    pub(super) async fn empty(&self) {
        while self.room().taken > 0 {
            self.changed().await;
        }
    }

    fn room(&self) -> MutexGuard<'_, Room> {
        lock(&self.room)
    }
}

impl Room {
    fn add_idle(&mut self, holder: IpAddr, leave: &Arc<Notify>) -> u64 {
        self.next += 1;
        self.idle.insert(self.next, Idle { holder, leave: Arc::clone(leave) });
        self.next
    }

    /// Dismisses the longest idle of the connections that match; None: there is none.
    fn dismiss(&mut self, may: impl Fn(&Idle) -> bool) -> Option<()> {
        let number = *self.idle.iter().find(|(_, idle)| may(idle))?.0;
        let idle = self.idle.remove(&number)?;
        idle.leave.notify_one();
        self.free(idle.holder);
        Some(())
    }

    fn free(&mut self, holder: IpAddr) {
        self.taken -= 1;
        take_off(&mut self.of_one, holder);
    }
}

/// Lowers the count of an address, and forgets the address at 0.
fn take_off(counts: &mut HashMap<IpAddr, usize>, holder: IpAddr) {
    if let Some(count) = counts.get_mut(&holder) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&holder);
        }
    }
}

impl Seat {
    /// Marks the connection as being answered.
    pub(super) fn begin_answer(&self) {
        let mut idle = self.idle();
        if idle.is_some_and(|number| self.seats.room().idle.remove(&number).is_some()) {
            *idle = None;
        }
    }

    /// Marks the connection as idle from now on, when an answer has left: an unknown client's, idle already, begins
    /// anew. Does nothing if the seat has been given away.
    pub(super) fn end_answer(&self) {
        let (mut idle, mut room) = (self.idle(), self.seats.room());
        let is_lost = idle.is_some_and(|number| room.idle.remove(&number).is_none());
        if !is_lost {
            *idle = Some(room.add_idle(self.holder, &self.leave));
            self.seats.changed.notify_one();
        }
    }

    /// Begins the wait of a pop; None: as many pops wait, of this address or of all, as may.
    pub(super) fn begin_wait(self: &Arc<Self>) -> Option<Wait> {
        let part = |seats: usize| (seats * WAITING_OF_FOUR / 4).max(1);
        let mut room = self.seats.room();
        let (all, of_one) = (room.waiting.values().sum::<usize>(), room.waiting.get(&self.holder));
        if all >= part(self.seats.most) || of_one.is_some_and(|count| *count >= part(self.seats.most_of_one))
        {
            return None;
        }
        *room.waiting.entry(self.holder).or_default() += 1;
        drop(room);
        Some(Wait(Arc::clone(self)))
    }

    /// Waits until another connection has been given this seat.
    pub(super) async fn lost(&self) {
        self.leave.notified().await;
    }

    fn idle(&self) -> MutexGuard<'_, Option<u64>> {
        lock(&self.idle)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut room = self.seats.room();
        let is_lost = self.idle().is_some_and(|number| room.idle.remove(&number).is_none());
        if !is_lost {
            room.free(self.holder);
        }
        drop(room);
        self.seats.changed.notify_one();
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        take_off(&mut self.0.seats.room().waiting, self.0.holder);
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

    fn is_lost(seat: &Seat) -> bool {
        pin!(seat.lost()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn who_has_been_idle_longest_gives_way() {
        let seats = Seats::new(3, 2);
        let [first, second, third] = [1, 1, 2].map(|last| seats.take(from(last)).expect("there is room"));
        first.begin_answer();
        first.end_answer();
        let fourth = seats.take(from(3)).expect("somebody gives way");
        assert_eq!([&first, &second, &third, &fourth].map(is_lost), [false, true, false, false]);
        drop(second);
        assert_eq!(seats.room().taken, 3, "its seat was given back once");
    }

    #[test]
    fn an_address_that_has_all_it_may_have_gives_way_to_itself() {
        let seats = Seats::new(3, 2);
        let [other, own, _own] = [2, 1, 1].map(|last| seats.take(from(last)).expect("there is room"));
        let _third = seats.take(from(1)).expect("one of its own gives way");
        assert_eq!([&other, &own].map(is_lost), [false, true]);
    }

    #[test]
    fn who_is_being_answered_keeps_the_seat() {
        let seats = Seats::new(2, 1);
        let [first, second] = [1, 2].map(|last| seats.take(from(last)).expect("there is room"));
        first.begin_answer();
        second.begin_answer();
        assert_eq!(seats.take(from(1)).err(), Some(Taken::OfOne));
        assert_eq!(seats.take(from(3)).err(), Some(Taken::All));
        first.end_answer();
        let _third = seats.take(from(3)).expect("the first one has been answered");
        assert_eq!([&first, &second].map(is_lost), [true, false]);
    }

    #[test]
    fn pops_that_wait_leave_seats_to_others() {
        let seats = Seats::new(8, 4);
        let take = |last| Arc::new(seats.take(from(last)).expect("there is room"));
        let [first, second] = [1, 2].map(|last| [(); 4].map(|()| take(last)));
        let waiting: Vec<Wait> = first.iter().chain(&second).filter_map(Seat::begin_wait).collect();
        assert_eq!(waiting.len(), 6, "three of each address, and six of all");
        assert!(first[3].begin_wait().is_none());
        drop(waiting);
        assert!(first[3].begin_wait().is_some(), "once others wait no more");
        let (all, one) = (Seats::new(4, 4), Seats::new(1, 1));
        let waiting = (1..=4).filter_map(|last| Arc::new(all.take(from(last)).ok()?).begin_wait());
        assert_eq!(waiting.collect::<Vec<_>>().len(), 3, "of all addresses together");
        assert!(
            Arc::new(one.take(from(1)).expect("there is room")).begin_wait().is_some(),
            "of one seat that one"
        );
    }

    #[test]
    fn nothing_is_remembered_of_who_has_left() {
        let seats = Seats::new(2, 2);
        let idle = seats.take(from(1)).expect("there is room");
        let asked = Arc::new(seats.take(from(1)).expect("there is room"));
        asked.begin_answer();
        let waits = asked.begin_wait();
        drop((idle, asked, waits));
        let room = seats.room();
        let counts = room.of_one.len() + room.waiting.len();
        assert!(room.taken == 0 && counts == 0 && room.idle.is_empty(), "{room:?}");
    }
}
