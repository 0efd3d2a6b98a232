//! What takes requests from a network thread: the router itself, or the line to the workers.

use std::time::Duration;

use mio::Registry;
use mio::event::Event;
use posthaste_wire::memcached::request::Request;

use super::answers::Answers;
use super::router::{Admission, Finished};
use super::worker_line::Parcel;

/// Which client of a network thread is meant.
#[derive(Clone, Copy, Debug)]
pub struct ClientId {
    /// The client's slot.
    pub slot: usize,
    /// The client's number, which is never used twice.
    pub number: u64,
}

/// What takes the requests of a network thread's clients.
pub trait Engine {
    /// The answers to the thread's clients.
    fn answers(&self) -> &Answers;

    /// The answers to the thread's clients, to be changed.
    fn answers_mut(&mut self) -> &mut Answers;

    /// Begins a turn of the thread, at this time in nanoseconds.
    fn begin(&mut self, now: u64);

    /// Notes that a client came.
    fn enter(&mut self, client: ClientId);

    /// Notes that the client in this slot left.
    fn leave(&mut self, slot: usize);

    /// Takes a request, of `end` bytes at the beginning of `input`.
    fn ask(&mut self, client: ClientId, request: &Request, input: &[u8], end: usize) -> Admission;

    /// Takes a request whose value is too large and was not read.
    fn refuse_too_large(&mut self, client: ClientId, request: &Request, input: &[u8]) -> Admission;

    /// Answers a client with our own `words`, in its turn, for a request of this many bytes.
    fn say(&mut self, client: ClientId, words: &[u8], request_bytes: usize);

    /// Takes note of an event of this server's socket.
    fn note_event(&mut self, server: usize, event: &Event);

    /// Takes back a parcel that a worker has answered.
    fn take_back(&mut self, parcel: Box<Parcel>, client_is_there: bool);

    /// Sends the commands that requests led to.
    fn send(&mut self, registry: &Registry);

    /// Reads what servers reply, using `buffer`.
    fn receive(&mut self, registry: &Registry, buffer: &mut [u8]);

    /// The requests that were answered, for the record.
    fn finished(&mut self) -> &mut Vec<Finished>;

    /// Returns how long the thread may wait for events at most; None: until there is one.
    fn poll_timeout(&self) -> Option<Duration>;

    /// Requests that wait for replies, if several servers are connected; 0 if at most one is, whose replies come
    /// together anyway.
    fn waits_for_several(&self) -> usize {
        0
    }

    /// Returns whether everything under way has been answered.
    fn is_idle(&self) -> bool;
}
