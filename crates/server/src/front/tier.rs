//! What a tier adds to the front: which bytes are a request, what answers it, and when a client has to wait.
//!
//! The loop calls the functions below in their order, once a turn: news from other threads, then what clients send,
//! then the tier's own work, then the answers, then the count.

use std::net::IpAddr;
use std::time::Duration;

use mio::event::Event;

use super::connections::Connections;
use super::gate::Refused;
use super::peer::Peer;
use super::slots::Slots;

/// A tier's part of a network thread.
pub trait Tier: Sized {
    /// A client of the tier: its peer, and what the tier keeps for it.
    type Connection: AsRef<Peer> + AsMut<Peer>;

    /// Messages of other threads to the tier.
    type Mail;

    /// Returns the answer to a client that is not let in.
    fn refusal(refused: Refused) -> &'static [u8];

    /// Makes the connection of a new client from `origin` (None: this machine) in this slot.
    fn enter(&mut self, slot: usize, peer: Peer, origin: Option<IpAddr>) -> Self::Connection;

    /// Notes that a connection has ended.
    fn leave(&mut self, slot: usize, connection: &Self::Connection);

    /// Returns whether a client has done all that the tier demands (a login) before it is no newcomer.
    fn is_admitted(&self, _connection: &Self::Connection) -> bool {
        true
    }

    /// Returns how many successive connections go to the same network thread, at least 1. More than 1 pays where a
    /// thread has little to do per connection and mostly pays for waking up: then one thread pays that for all of them.
    fn dealt_in_a_row(&self) -> usize {
        1
    }

    /// Begins a turn, at this stamp.
    fn begin(&mut self, _now_ns: u64) {}

    /// Notes an event of a socket of the tier's own.
    fn note(&mut self, _number: usize, _event: &Event) {}

    /// Notes that a client sends no more, and may have stopped listening too.
    fn hung_up(&mut self, _slot: usize, _connections: &mut Connections<Self>) {}

    /// Handles a message of another thread.
    fn receive(&mut self, mail: Self::Mail, connections: &mut Connections<Self>);

    /// Returns whether a client may send more requests now: not too much of it is under way, and it has read its
    /// answers.
    fn may_ask(&self, slot: usize, connection: &Self::Connection) -> bool;

    /// Takes the whole requests in `input`, as many as the client may ask, and returns how many bytes are done with. If
    /// the rest needs more bytes to be a request, the peer's `holds_requests` is set to false.
    fn take(&mut self, slot: usize, connection: &mut Self::Connection, input: &[u8]) -> usize;

    /// Passes on what was taken in this turn, and takes back what is finished.
    fn work(&mut self, connections: &mut Connections<Self>);

    /// Returns the connections on which something has changed: before the turn ends they are checked and written to.
    fn touched(&mut self) -> &mut Slots;

    /// Writes a client's pending answers, as far as it takes them.
    fn write(&mut self, slot: usize, connection: &mut Self::Connection);

    /// Returns whether everything is answered and written.
    fn is_settled(&self, slot: usize, connection: &Self::Connection) -> bool;

    /// Ends the turn: counts what was answered.
    fn finish(&mut self, connections: &mut Connections<Self>);

    /// Returns how long the thread may wait for events at most, as far as the tier is concerned; None: until there is one.
    fn poll_timeout(&self) -> Option<Duration> {
        None
    }

    /// Returns how long to pause after this turn, whatever happens: what arrives meanwhile shares the next turn.
    fn pause(&mut self) -> Option<Duration> {
        None
    }

    /// Returns whether the tier has nothing under way any more.
    fn is_idle(&self) -> bool {
        true
    }
}
