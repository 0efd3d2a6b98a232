//! What a tier adds to the front: which bytes are a request, what answers it, and when a client has to wait.
//!
//! In each turn the loop calls: `begin_turn`; `receive_mail` for every message of another thread; `take_requests` for
//! every connection with new bytes; `work`; `write` for every touched connection; `finish_turn`.

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

    /// Returns the connection for a new client from `origin` (None: this machine) in this slot.
    fn new_connection(&mut self, slot: usize, peer: Peer, origin: Option<IpAddr>) -> Self::Connection;

    /// Releases what the tier holds for a connection that has ended.
    fn connection_ended(&mut self, slot: usize, connection: &Self::Connection);

    /// Returns whether a client has done all that the tier demands (a login) before it is no newcomer.
    fn is_admitted(&self, _connection: &Self::Connection) -> bool {
        true
    }

    /// Returns how many successive connections go to the same network thread, at least 1. More than 1 pays where a
    /// thread has little to do per connection and mostly pays for waking up: then one thread pays that for all of them.
    fn consecutive_connections_per_thread(&self) -> usize {
        1
    }

    /// Begins a turn, at this stamp.
    fn begin_turn(&mut self, _now_ns: u64) {}

    /// Handles an event of the tier's own socket with this number, which its token has above `FIRST_OF_TIER`.
    fn handle_event(&mut self, _number: usize, _event: &Event) {}

    /// Handles the end of a client's input. The client may have stopped reading its answers too.
    fn client_hung_up(&mut self, _slot: usize, _connections: &mut Connections<Self>) {}

    /// Handles a message of another thread.
    fn receive_mail(&mut self, mail: Self::Mail, connections: &mut Connections<Self>);

    /// Returns whether a client may send more requests now: it has not too many under way, and has read its answers.
    fn may_ask(&self, slot: usize, connection: &Self::Connection) -> bool;

    /// Takes the whole requests in `input`, as many as the client may ask, and returns how many bytes are done with. If
    /// the rest needs more bytes to be a request, the peer's `holds_requests` is set to false.
    fn take_requests(&mut self, slot: usize, connection: &mut Self::Connection, input: &[u8]) -> usize;

    /// Passes on the requests taken in this turn, and collects the answers that are ready.
    fn work(&mut self, connections: &mut Connections<Self>);

    /// Returns the connections on which something has changed: before the turn ends they are checked and written to.
    fn touched(&mut self) -> &mut Slots;

    /// Writes a client's pending answers, as far as the socket accepts them.
    fn write(&mut self, slot: usize, connection: &mut Self::Connection);

    /// Returns whether everything is answered and written.
    fn is_settled(&self, slot: usize, connection: &Self::Connection) -> bool;

    /// Ends the turn: counts what was answered.
    fn finish_turn(&mut self, connections: &mut Connections<Self>);

    /// Returns how long the thread may wait for events at most, as far as the tier is concerned; None: until there is
    /// one.
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
