//! What a tier adds to the front: which bytes are a request, who answers it, and when a client has to wait.
//!
//! The loop calls in the order of the functions below, once a turn: news from others, then what clients send, then the
//! tier's own work, then the answers, then the count.

use std::net::IpAddr;
use std::time::Duration;

use mio::event::Event;

use super::connections::Connections;
use super::gate::Refused;
use super::peer::Peer;
use super::slots::Slots;

/// A tier's part of a network thread.
pub trait Tier: Sized {
    /// A client of it: its peer, and what the tier keeps for it.
    type Connection: AsRef<Peer> + AsMut<Peer>;

    /// What others may tell it.
    type Mail;

    /// What somebody is told who is not let in.
    fn refusal(refused: Refused) -> &'static [u8];

    /// A client has come from there (None: from this machine) and takes this slot.
    fn enter(&mut self, slot: usize, peer: Peer, origin: Option<IpAddr>) -> Self::Connection;

    /// It has left.
    fn leave(&mut self, slot: usize, connection: &Self::Connection);

    /// Whether it has shown all that the tier wants to see before it counts as known.
    fn is_admitted(&self, _connection: &Self::Connection) -> bool {
        true
    }

    /// How many connections that come one after the other go to the same network thread, at least 1. Many, where a thread has
    /// little to do for each and is woken for a few requests at a time: then that is the price, and one thread pays it once.
    fn dealt_in_a_row(&self) -> usize {
        1
    }

    /// A turn begins, at this time of the stamps.
    fn begin(&mut self, _now_ns: u64) {}

    /// Something happened to a socket of the tier's own.
    fn note(&mut self, _number: usize, _event: &Event) {}

    /// A client sends no more, and may have stopped listening too.
    fn hung_up(&mut self, _slot: usize, _connections: &mut Connections<Self>) {}

    /// Mail.
    fn receive(&mut self, mail: Self::Mail, connections: &mut Connections<Self>);

    /// Whether a client may ask more now: not too much of it is under way, and what it got was read.
    fn may_ask(&self, slot: usize, connection: &Self::Connection) -> bool;

    /// Takes the whole requests in `input`, as many as the client may ask; how many bytes are done with. If what is left
    /// needs more bytes to be a request, the peer `holds_requests` no more.
    fn take(&mut self, slot: usize, connection: &mut Self::Connection, input: &[u8]) -> usize;

    /// What was taken in this turn is passed on, and what is finished comes back.
    fn work(&mut self, connections: &mut Connections<Self>);

    /// Those about whom something has changed: they are looked at before the turn ends, and written to.
    fn touched(&mut self) -> &mut Slots;

    /// Writes to a client what there is for it, as far as it takes it.
    fn write(&mut self, slot: usize, connection: &mut Self::Connection);

    /// Whether everything is answered and written.
    fn is_settled(&self, slot: usize, connection: &Self::Connection) -> bool;

    /// The turn ends: what was answered is counted.
    fn finish(&mut self, connections: &mut Connections<Self>);

    /// How long the thread may sleep at most, for the tier's sake.
    fn patience(&self) -> Option<Duration> {
        None
    }

    /// How long to sleep after this turn, whatever happens: what comes meanwhile shares the next.
    fn pause(&mut self) -> Option<Duration> {
        None
    }

    /// Whether the tier has nothing under way any more.
    fn is_idle(&self) -> bool {
        true
    }
}
