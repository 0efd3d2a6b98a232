//! The interface between a network thread and what carries out its requests: the router itself, or the line to the
//! workers.

use std::time::Duration;

use mio::Registry;
use mio::event::Event;
use posthaste_wire::memcached::request::Request;

use super::answers::Answers;
use super::router::{Admission, Finished};
use super::worker_line::Parcel;

/// A client of a network thread.
#[derive(Clone, Copy, Debug)]
pub struct ClientId {
    /// The client's slot.
    pub slot: usize,
    /// The client's number, which is never used twice.
    pub number: u64,
}

/// Carries out the requests of a network thread's clients.
pub trait Engine {
    /// The answers to the thread's clients.
    fn answers(&self) -> &Answers;

    /// The answers to the thread's clients, to be changed.
    fn answers_mut(&mut self) -> &mut Answers;

    /// Begins a turn of the thread, at this time in nanoseconds.
    fn begin_turn(&mut self, now: u64);

    /// Adds a client that has connected.
    fn add_client(&mut self, client: ClientId);

    /// Removes the client in this slot, which has disconnected.
    fn remove_client(&mut self, slot: usize);

    /// Accepts a request, all of `input`, which was received at this stamp, or has it retried later.
    fn ask(&mut self, client: ClientId, request: &Request, input: &[u8], received: u64) -> Admission;

    /// Refuses a request whose value is too large and was not read, or has it retried later.
    fn refuse_too_large(
        &mut self,
        client: ClientId,
        request: &Request,
        input: &[u8],
        received: u64,
    ) -> Admission;

    /// Answers a client with `words` that need no server, in its turn, for a request of this many bytes.
    fn answer_locally(&mut self, client: ClientId, words: &[u8], request_bytes: usize);

    /// Notes an event of this server's socket.
    fn note_server_event(&mut self, server: usize, event: &Event);

    /// Completes a request whose parcel a worker has answered. `slot` is its client's; None: the client has gone.
    fn complete(&mut self, parcel: Box<Parcel>, slot: Option<usize>);

    /// Sends the commands that requests led to.
    fn send(&mut self, registry: &Registry);

    /// Reads what servers reply, using `buffer`.
    fn receive(&mut self, registry: &Registry, buffer: &mut [u8]);

    /// The requests that were answered, for the record.
    fn finished(&mut self) -> &mut Vec<Finished>;

    /// Returns how long the thread may wait for events at most; None: until there is one.
    fn poll_timeout(&self) -> Option<Duration>;

    /// Number of requests that wait for replies, if several servers are connected; otherwise 0: replies of a single
    /// server arrive together anyway.
    fn waiting_on_several(&self) -> usize {
        0
    }

    /// Returns whether everything under way has been answered.
    fn is_idle(&self) -> bool;
}
